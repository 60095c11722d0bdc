"""Entry of a worker process for tests, without a supervisor: the configuration as JSON in the first argument."""

from __future__ import annotations

import sys
from dataclasses import replace

from hms_cache_proxy import metrics
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.config import from_json, paths
from hms_cache_proxy.processes import log, ports
from hms_cache_proxy.server import worker

if __name__ == "__main__":
    config = replace(from_json(sys.argv[1]), workers=1)
    log.setup(config, "worker-0")
    metrics.start_process(paths.metrics(config), "worker-0")
    StatePage(paths.state(config), create=True).close()
    worker.run(config, 0, ports.shared(config.listen).detach())
