"""`hms-cache-proxy advise`: what the access log says about how to set the proxy up.

In order: `lines` (log files into one small Spark view), `questions` (Spark SQL over it), `catalogue` (which tables
exist), `advice` (what follows, without Spark), `patterns` and `snippet` (the settings), `wording`, `plots`, `report`
and `terminal` (how it looks). The command line is cli/advise.py.
"""
