"""Several proxies in front of one metastore: what was written through any of them is seen through all of them."""
