"""`hms-cache-proxy advise`: recommends settings based on access logs.

In order: `lines` (log files into one small Spark view), `questions` (Spark SQL over it), `catalogue` (which tables
exist), `advice` (the conclusions, without Spark), `patterns` and `snippet` (the settings), `wording`, `plots`, `report`
and `terminal` (the presentation). The command line is cli/advise.py.
"""
