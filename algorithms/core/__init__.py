"""What all parts of `rlvr.algorithms` stand on: torch that is loaded late, batches, sequences and groups."""
