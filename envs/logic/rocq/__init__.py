"""Theorems in Gallina, proofs in Ltac, and the prover that checks them."""
