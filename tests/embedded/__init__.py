"""Tests of the embedded metastore, with a real Hive 4.2.0 as the oracle."""
