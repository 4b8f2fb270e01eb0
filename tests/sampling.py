"""A sample of the tests: of each sweep, which is one test over every id, level, seed or attack, and of the slow tests.

``pytest --sample 24`` runs a twenty-fourth of them, and all other tests. The commit that is checked out says which, so
that a commit is green or red for good; ``--sample-seed`` gives the sample of another commit.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
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
        "--sample-seed", type=int, metavar="SEED", help="which cases (default: a number of the commit; 0 without git)"
    )


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def choose_seed(config: pytest.Config) -> None:
    """Choose the seed before the workers start, which take it as an option: a commit in between changes nothing."""
    if config.option.sample_seed is None and config.option.sample > 1:
        config.option.sample_seed = seed_of_commit(ROOT)


def seed_of_commit(folder: Path) -> int:
    """The seed of the commit that is checked out in a folder, whatever is changed there; 0 where git knows none."""
    # a repository above the folder, into which an archive was unpacked, is not the folder's
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    try:
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, env=env, capture_output=True, text=True)
    except OSError:
        return 0
    return int(git.stdout[:8], 16) if git.returncode == 0 else 0


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
