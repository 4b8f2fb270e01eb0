"""Whole numbers from fractions, without floating point."""


def half_up(numerator: int, denominator: int) -> int:
    """The nearest whole number to numerator / denominator; a half is rounded away from zero.

    The denominator must be greater than 0, or ValueError is raised.
    """
    if denominator <= 0:
        raise ValueError("the denominator must be greater than 0")
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return magnitude if numerator >= 0 else -magnitude


def round_up(numerator: int, denominator: int) -> int:
    """The smallest whole number that is at least numerator / denominator."""
    if denominator <= 0:
        raise ValueError("the denominator must be greater than 0")
    return -(-numerator // denominator)


def to_multiple(value: int, step: int) -> int:
    """The multiple of step that is nearest to value; a half is rounded away from zero."""
    return half_up(value, step) * step


def clamp(value: int, low: int, high: int) -> int:
    """The value, but not below low and not above high."""
    return max(low, min(high, value))


def shares(total: int, weights: list[int]) -> list[int]:
    """Divide a total that is not negative in proportion to weights; the shares add up to it.

    What is left after rounding down goes, one each, to the first shares of a positive weight.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("weights must not be negative, and one must be greater than 0")
    parts = [total * weight // whole for weight in weights]
    rest = total - sum(parts)
    for index, weight in enumerate(weights):
        if rest > 0 and weight > 0:
            parts[index] += 1
            rest -= 1
    return parts


MODULE = ("rounding", "whole_numbers", "exact")
ALIASES = {
    "half_up": ("nearest_whole", "rounded"),
    "round_up": ("ceiling_of",),
    "to_multiple": ("nearest_multiple",),
    "shares": ("proportional_shares",),
}
SCENARIOS = (
    "[half_up(n, <d=2..6>) for n in <4*-20..40>]",
    "half_up(<-30..30>, <-1..3>)",
    "[half_up(n, 2) for n in range(-<2..6>, <3..7>)]",
    "[round_up(n, <2..7>) for n in <4*-15..30>]",
    "round_up(<1..20>, <-1..3>)",
    "[to_multiple(n, <2..9>) for n in <4*1..90>]",
    "[clamp(n, <2..5>, <8..12>) for n in range(0, 15)]",
    "shares(<10..99>, <3*1..6>)",
    "shares(<20..99>, [<1..4>, 0, <2..5>, 0, <1..3>])",
    "shares(<5..20>, [<0..1>, 0, -<0..1>])",
)
