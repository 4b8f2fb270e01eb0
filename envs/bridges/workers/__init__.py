"""The bridges' halves that load foreign code: worker processes import them, this process never does."""
