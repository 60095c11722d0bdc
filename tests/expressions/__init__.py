"""Tests of partition expressions."""
