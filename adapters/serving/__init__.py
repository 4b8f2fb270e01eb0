"""Environments and models over a network: `rlvr serve` and its clients, servers of the loopback, actors of Ray."""
