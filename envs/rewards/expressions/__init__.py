"""What trees of mathematical expressions are worth: exact values, and whether two of them are equal.

``algebra`` makes normal forms over ``polynomial``, and ``compare`` decides by them; ``numeric`` and, in workers,
``symbolic`` help where these do not.
"""
