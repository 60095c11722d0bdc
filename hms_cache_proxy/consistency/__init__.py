"""Decides whether a read may be served from the cache: names, fences, floors and the gate."""
