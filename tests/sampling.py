"""A sample of the tests: of each sweep, which is one test over every id, level, seed or attack, and of the slow tests.

``pytest --sample 24`` runs a twenty-fourth of them, another one each day, and all other tests; ``--sample-seed`` gives
the sample of a day again.
"""

from __future__ import annotations

import datetime
import zlib
from collections import defaultdict

import pytest

WHOLE = 8  # a test of no more cases than this runs with all of them, a larger one with so many at least


def add_options(parser: pytest.Parser) -> None:
    """Add ``--sample`` and ``--sample-seed``."""
    group = parser.getgroup("sampling")
    group.addoption(
        "--sample",
        type=_at_least_one,
        default=1,
        metavar="N",
        help="run 1/N of each sweep and of the slow tests",
    )
    group.addoption(
        "--sample-seed", type=int, metavar="SEED", help="which cases (default: the number of today's date, in UTC)"
    )


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def choose_seed(config: pytest.Config) -> None:
    """Choose the seed once, before the workers start: midnight must not come between two of them."""
    if config.option.sample_seed is None:
        config.option.sample_seed = datetime.datetime.now(datetime.UTC).date().toordinal()


def header(config: pytest.Config) -> str | None:
    """The line that tells how to run the same sample again."""
    if config.option.sample == 1:
        return None
    return f"sample: --sample {config.option.sample} --sample-seed {config.option.sample_seed}"


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is not in the sample."""
    if config.option.sample == 1:
        return
    sweeps: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        sweeps["slow" if item.get_closest_marker("slow") else item.nodeid.partition("[")[0]].append(item)
    kept = set()
    for name, cases in sweeps.items():
        least = 1 if name == "slow" else WHOLE
        many = max(least, len(cases) // config.option.sample)
        kept.update(item.nodeid for item in sorted(cases, key=lambda item: _rank(config, item))[:many])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def _rank(config: pytest.Config, item: pytest.Item) -> tuple[int, str]:
    return zlib.crc32(f"{config.option.sample_seed} {item.nodeid}".encode()), item.nodeid
