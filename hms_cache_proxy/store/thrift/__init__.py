"""The store over Thrift: what a metastore itself answers, where its database cannot be read."""
