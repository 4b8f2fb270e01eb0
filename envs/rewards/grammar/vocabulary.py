"""The words and commands that mathematical answers are made of."""

from __future__ import annotations

from typing import Final

_FUNCTION_NAMES = """
sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth sech csch
ln log exp gcd lcm max min det lg deg arg asin acos atan abs
"""
# Functions that are read where a command or upright letters name them, or brackets follow.
_OTHER_FUNCTIONS = """
arccot arcsec arccsc arcsinh arccosh arctanh cis sgn Re Im tr rank erf floor ceil factorial binom
"""
_GREEK_NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi varphi chi psi
omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell emptyset varnothing
"""
FUNCTIONS: Final = frozenset(_FUNCTION_NAMES.split())
NAMED_FUNCTIONS: Final = FUNCTIONS | frozenset(_OTHER_FUNCTIONS.split())
OTHER_NAMES: Final = {
    "sign": "sgn", "signum": "sgn", "LCM": "lcm", "GCD": "gcd", "GCF": "gcd", "gcf": "gcd", "HCF": "gcd", "hcf": "gcd",
    "tg": "tan", "ctg": "cot", "cotg": "cot", "arctg": "arctan", "arcctg": "arccot", "arsinh": "arcsinh",
    "arcosh": "arccosh", "artanh": "arctanh", "Tr": "tr", "trace": "tr", "Arg": "arg", "ceiling": "ceil", "Log": "ln",
    "Ln": "ln", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log",
}  # fmt: skip
GREEK: Final = frozenset(_GREEK_NAMES.split())
WORD_COMMANDS: Final = FUNCTIONS | {"sqrt", "pi", "infty", "cdot", "times", "pm"}
ALIASES: Final = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "lg": "log",
    "inf": "infty",
    "oo": "infty",
    "infinity": "infty",
}
RELATIONS: Final = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "\\ge": ">=", "\\geq": ">=",
    "\\geqslant": ">=", "\\lt": "<", "\\gt": ">", "\\ne": "!=", "\\neq": "!=", "\\approx": "~", "\\in": "in",
    "\\equiv": "==", "\\to": "->", "\\sim": "sim", "\\simeq": "~", "\\cong": "sim", "\\rightarrow": "->",
}  # fmt: skip
BASES: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "twelve": "12", "sixteen": "16",
}  # fmt: skip
SHORT_WORDS: Final = frozenset(["no", "on", "up", "in", "at", "by", "it", "so", "ok"])
MATRICES: Final = frozenset(["pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array", "vmatrix"])
MULTIPLY: Final = frozenset(["*", "\\times", "\\cdot", "\\ast"])
DIVIDE: Final = frozenset(["/", "\\div"])
