"""Hive's filter language: one lexer, one grammar, one tree, one evaluator."""
