"""Modules that domains stand on: numbers, days, amounts, graphs, and what is counted or kept."""
