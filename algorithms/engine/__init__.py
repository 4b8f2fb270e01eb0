"""How a model is laid out and computed while it learns: eight-bit optimisers, compiled layers, offload."""
