"""Objects to rows and back: SQL of each kind of object, one module for each. Handlers decide what a call means."""
