"""The life of the processes: the supervisor, its children, their ports, the data directory, log lines."""
