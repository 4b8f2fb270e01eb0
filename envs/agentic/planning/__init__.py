"""Optimisation as a person asks for it: rounds, a workshop, boxes, a rota and orders, each with its rules."""
