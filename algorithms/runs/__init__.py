"""Runs: the folder of a run, its checkpoints, its live display and its report."""
