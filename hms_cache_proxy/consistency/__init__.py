"""May this be served from cache: names, fences, floors and the gate."""
