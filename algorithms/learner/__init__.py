"""Learner: the numerics of an update: scoring, the output layer, gradients, the optimiser, memory, processes."""
