"""Entry of a worker process for tests: the configuration as JSON in the first argument."""

from __future__ import annotations

import sys

from hms_cache_proxy import metrics
from hms_cache_proxy.config import from_json, paths
from hms_cache_proxy.processes import log
from hms_cache_proxy.server import worker

if __name__ == "__main__":
    config = from_json(sys.argv[1])
    log.setup(config, "worker-0")
    metrics.start_process(paths.metrics(config), "worker-0")
    worker.run(config, 0)
