"""Connections to the metastores."""
