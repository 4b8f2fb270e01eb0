"""Others' suites and environment servers with our environments in them, one file for each, named after its package.

The other half of these frameworks, their environments played here, is in `rlvr.envs.bridges`.
"""
