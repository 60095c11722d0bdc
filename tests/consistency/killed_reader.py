"""Begins to read an LMDB file (the first argument), says so, and waits to be killed."""

from __future__ import annotations

import signal
import sys

import lmdb

if __name__ == "__main__":
    with lmdb.open(sys.argv[1], readonly=True, max_dbs=8) as env, env.begin() as txn:
        txn.stat()
        print("reads", flush=True)
        signal.pause()
