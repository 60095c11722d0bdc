"""`python -m hms_cache_proxy` is the same as the console script `hms-cache-proxy`."""

from hms_cache_proxy.cli import main

main()
