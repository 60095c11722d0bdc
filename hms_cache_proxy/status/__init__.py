"""The HTTP addresses of a running proxy: health, metrics, status, the status page, and flushes."""
