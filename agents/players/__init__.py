"""Policies against each other: self-play for the learner, action probabilities, arenas."""
