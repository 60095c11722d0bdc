"""The shared cache: an LMDB environment that the follower writes and every worker reads, and the state page."""
