"""Dialects in which programs ask a model for its next words, each as pure functions: no server starts in here.

A dialect reads a request's body into a `ModelRequest`, writes a `ModelReply` as the answer's body, and that body as the
events of a stream. `rlvr.adapters.serving.policy_endpoint` plays what stands between.
"""
