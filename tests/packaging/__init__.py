"""What the package requires: constraints.txt, the lowest versions."""
