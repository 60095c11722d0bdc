"""Turns objects into rows and back: one module for each kind of object has its SQL. Handlers decide what a call
means."""
