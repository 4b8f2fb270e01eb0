"""Half-open intervals of whole numbers: (start, end) holds start and not end."""

Interval = tuple[int, int]


def overlaps(one: Interval, other: Interval) -> bool:
    """Whether two intervals have a number in common; those that only touch have none."""
    return one[0] < other[1] and other[0] < one[1]


def common(one: Interval, other: Interval) -> int:
    """How many numbers two intervals have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def merged(intervals: list[Interval], gap: int) -> list[Interval]:
    """The intervals in order, as one where they overlap, touch, or are no more than gap apart."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1] + gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def without(interval: Interval, taken: list[Interval]) -> list[Interval]:
    """What is left of an interval when others are taken out of it, in order."""
    left: list[Interval] = []
    position = interval[0]
    for start, end in merged(taken, 0):
        if end <= interval[0] or start >= interval[1]:
            continue
        if start > position:
            left.append((position, start))
        position = max(position, end)
    if position < interval[1]:
        left.append((position, interval[1]))
    return left


def covered(intervals: list[Interval]) -> int:
    """How many numbers are in at least one of the intervals."""
    return sum(end - start for start, end in merged(intervals, 0))


def first_gap(intervals: list[Interval], within: Interval, length: int) -> Interval | None:
    """The first free part of an interval that is long enough, cut to the length; None if there is none."""
    for start, end in without(within, intervals):
        if end - start >= length:
            return (start, start + length)
    return None


def most_at_once(intervals: list[Interval]) -> int:
    """How many intervals overlap at most in one number."""
    events = sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])
    count, highest = 0, 0
    for _, change in events:
        count += change
        highest = max(highest, count)
    return highest


MODULE = ("intervals", "spans", "ranges")
ALIASES = {
    "overlaps": ("do_overlap",),
    "common": ("overlap_length",),
    "merged": ("merge_intervals", "joined_up"),
    "without": ("remaining",),
    "covered": ("covered_length",),
    "first_gap": ("first_free",),
    "most_at_once": ("peak_overlap",),
}
SCENARIOS = (
    "[overlaps((<3..5>, <8..9>), (n, n + <2..4>)) for n in range(0, 12)]",
    "[common((<3..5>, <8..9>), (n, n + <2..4>)) for n in range(0, 12)]",
    "merged([(n, n + <2..6>) for n in <5*0..30>], <0..2>)",
    "merged([(<1..3>, 10), (<4..5>, <6..7>), (10, <11..13>), (<14..16>, 20)], <0..1>)",
    "without((<5..8>, <25..30>), [(n, n + <2..5>) for n in <4*0..30>])",
    "without((5, 15), [(<3..5>, <5..7>), (<9..11>, <11..13>), (<14..15>, 18)])",
    "covered([(n, n + <2..8>) for n in <5*0..30>])",
    "first_gap([(n, n + 4) for n in <4*0..20>], (<0..3>, <24..30>), <2..6>)",
    "first_gap([(2, 5), (<7..9>, 12)], (<0..2>, <12..14>), <2..4>)",
    "most_at_once([(n, n + <2..9>) for n in <6*0..20>])",
    "most_at_once([(1, <3..5>), (<3..5>, 7), (<2..6>, 8)])",
)
