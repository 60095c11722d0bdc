"""What each method of the metastore means, and who answers it."""
