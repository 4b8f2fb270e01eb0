"""A user's functions as tools: which can run in a process of their own, and the processes."""
