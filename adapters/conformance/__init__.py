"""Whether a gateway gives a trainer what was sampled: laws, probes, a recorder. Nothing here needs torch.

`probes` plays fixed conversations through a gateway, `laws` says which law holds, breaks or cannot be told, and
`recorder` stands before a gateway and keeps what passes. The command is ``rlvr conform``.
"""
