"""Averages and other figures of lists of whole numbers."""

from rlvr.envs.agentic.repository_numbers.rounding import half_up


def mean_of(values: list[int]) -> int:
    """The mean, rounded to the nearest whole number; ValueError if there are no values."""
    if not values:
        raise ValueError("no values")
    return half_up(sum(values), len(values))


def median_of(values: list[int]) -> int:
    """The value in the middle; of two in the middle, the mean."""
    if not values:
        raise ValueError("no values")
    ordered_values = sorted(values)
    middle = len(values) // 2
    if len(values) % 2 == 1:
        return ordered_values[middle]
    return mean_of(ordered_values[middle - 1 : middle + 1])


def percentile(values: list[int], percent: int) -> int:
    """The smallest of the values that at least so many percent of them do not exceed; the smallest of all for 0."""
    ordered_values = sorted(values)
    rank = -(-percent * len(values) // 100)
    return ordered_values[max(rank, 1) - 1]


def most_common(values: list[int]) -> list[int]:
    """The values that occur most often, in rising order."""
    counts: dict[int, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    highest = max(counts.values(), default=0)
    return sorted(value for value, count in counts.items() if count == highest)


def histogram(values: list[int], width: int) -> dict[int, int]:
    """How many values fall into each bin of a width, by the lowest value of the bin; empty bins between count 0."""
    if not values:
        return {}
    bins = [value // width for value in values]
    counts = {number * width: 0 for number in range(min(bins), max(bins) + 1)}
    for number in bins:
        counts[number * width] += 1
    return counts


def moving_means(values: list[int], size: int) -> list[int]:
    """The mean of each value and the size - 1 before it, from the first that has so many on."""
    means = []
    total = 0
    for index, value in enumerate(values):
        total += value
        if index >= size:
            total -= values[index - size]
        if index >= size - 1:
            means.append(half_up(total, size))
    return means


def streak(values: list[int], least: int) -> int:
    """The length of the longest run of values that are at least so large."""
    longest = current = 0
    for value in values:
        current = current + 1 if value >= least else 0
        longest = max(longest, current)
    return longest


MODULE = ("figures", "averages", "summaries")
ALIASES = {
    "mean_of": ("rounded_mean",),
    "median_of": ("middle_value",),
    "percentile": ("nearest_rank",),
    "most_common": ("modes",),
    "moving_means": ("running_means",),
    "streak": ("longest_run",),
}
SCENARIOS = (
    "mean_of(<5*1..40>)",
    "mean_of([<1..9>, <1..9>][<0..2>:])",
    "median_of(<5*1..40>)",
    "median_of(<6*1..40>)",
    "[percentile(<10*1..99>, percent) for percent in (0, 10, <20..95>, 50, 100)]",
    "[percentile(<7*1..99>, percent) for percent in (<1..14>, <15..99>, 100)]",
    "most_common(<9*1..5>)",
    "histogram(<8*0..40>, <4..9>)",
    "histogram([<0..3>, <20..24>, 10, 20], 5)",
    "moving_means(<8*1..30>, <2..4>)",
    "streak(<12*1..9>, <3..5>)",
    "streak([<4..6>, 5, <4..6>, 2, 5, <4..7>], 5)",
)
