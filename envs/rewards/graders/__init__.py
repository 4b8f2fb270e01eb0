"""Graders, one file for each kind of answer: text and a reference in, a verdict out. ``grade`` calls them by name."""
