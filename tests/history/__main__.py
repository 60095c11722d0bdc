"""`python -m tests.history`: self-check of the workload on a metastore alone (every port is the metastore's)."""

from __future__ import annotations

import sys
import time

from tests.history.run import run_history


def main() -> int:
    host, _, port = sys.argv[1].rpartition(":")
    prefix = f"hi{int(time.time()) % 100000}"
    outcome = run_history((host, int(port)), [], prefix=prefix, seconds=float(sys.argv[2]), bound_s=1, chaos=False)
    print(outcome.summary())
    return 1 if outcome.violations or outcome.errors else 0


if __name__ == "__main__":
    sys.exit(main())
