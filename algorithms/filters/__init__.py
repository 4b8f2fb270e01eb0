"""Filters: which groups and sequences a step learns from, and what is added to their rewards."""
