"""Several proxies in front of one metastore: a write through any of them is seen through all of them."""
