"""Others' trainers on our environments, one file for each, named after the package that it imports.

The other half of some of these frameworks, their environments played here, is in `rlvr.envs.bridges`.
"""
