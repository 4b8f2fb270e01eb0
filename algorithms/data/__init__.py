"""Data: which tasks a step asks, the episodes it keeps, and the micro-batches made of them."""
