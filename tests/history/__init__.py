"""History test: concurrent writers and readers over a metastore and proxies, checked for what readers may see.

- `registers.py`: objects of every kind as registers: a writer raises a version by a real change, a reader gets it back;
- `checker.py`: what has been written, what a read must and may return; records violations;
- `threads.py`: threads with connections of their own, that call until they are told to stop;
- `workload.py`: writer and reader threads over the metastore and the proxies, locked increments, readers of the log;
- `chaos.py`: followers paused and killed, workers killed;
- `fleet.py`: the same for several proxies with `peers`, which keep one promise together;
- `stage.py`, `plays.py`: a fleet that is held at chosen points, and what the reader is shown at the end;
- `planted/`: a launcher that plants one bug into the proxy, to see that the checker catches it.
"""
