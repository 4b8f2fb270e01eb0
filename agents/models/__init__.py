"""Agents that ask a language model: transformers, vLLM, a chat endpoint; and what samples their tokens."""
