"""The learner on a service with the Tinker API: weights, gradients and samples there; environments and losses here."""
