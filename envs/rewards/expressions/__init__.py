"""Mathematical text: numbers and LaTeX in, trees and exact values out, and whether two of them are equal.

``latex`` makes tokens of a text, ``expression`` a ``tree`` of them, ``algebra`` its normal form over ``polynomial``.
``compare`` decides by normal forms; ``numeric`` and, in workers, ``symbolic`` help where these do not.
"""
