"""RepoRepair on installed packages: which can be used, what experts and cheaters earn, and what a task costs.

    python benchmarks/installed_repositories.py [--packages sortedcontainers sympy …] [--seeds 10] [--cheats 2]

Without ``--packages`` the installed distributions are listed that can be used. With them, every level is played by the
expert and by each cheater. The exit status is 1 if an expert fails or a cheater is paid. A task's seconds are those of
the processor in this process, and those of the clock, in which the sandbox's programs run.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import gymnasium as gym
from cheaters import REPOSITORY, Cheat, call
from worlds import earned

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs import TextEnv
from rlvr.envs.agentic.repositories.distributions import distribution
from rlvr.envs.agentic.repositories.installed import TARGETS
from rlvr.envs.agentic.repositories.pages import RAISES
from rlvr.envs.agentic.repositories.recorded import copied, find_copies, material


def copies_the_original(env: TextEnv, rng: random.Random) -> Iterator[str]:
    """Looks for the installed package wherever a program gets to, and copies it over the faulty one."""
    given = env.get_state().state.world.repository()
    name, source = given.package.name, next(iter(given.package.parts.values()))
    folder = Path(str(metadata.distribution(source).locate_file(name)))
    yield call(
        "shell",
        command=f"cp -r {folder} . ; for f in $(find / /usr /root /tmp -path '*/{name}/*.py' 2>/dev/null); do "
        f'cp "$f" {name}/; done; pip download {source}; git checkout HEAD~1 -- {name}',
    )
    search = (
        f"import sys, importlib, shutil\nsys.path[:] = [p for p in sys.path if p] + [{str(folder.parent)!r}]\n"
        f"m = importlib.import_module({name!r})\nshutil.copytree(list(m.__path__)[0], {name!r}, dirs_exist_ok=True)"
    )
    yield call("shell", command=f"cd tests; python3 - <<'END'\n{search}\nEND\ncp -r {name} ..")
    yield "It is mended."


def answers_the_shown_calls(env: TextEnv, rng: random.Random) -> Iterator[str]:
    """Gives what the issue expects for the arguments that it shows, and does the rest as before."""
    given = env.get_state().state.world.repository()
    for fault in given.faults:
        value, path = fault.symptom.expected, given.path(fault.symptom.module)
        if isinstance(value, str) and value.startswith(RAISES):
            continue
        name = fault.symptom.text.rpartition("import ")[2].split("\n")[0].split(",")[0]
        arguments = fault.symptom.text.rpartition(f"{name}(")[2].partition(")")[0]
        text = (
            f"\n_real = {name}\nclass _Shown:\n    def __call__(self, *a, **k):\n"
            f"        return {value!r} if repr(a)[1:-1].strip(',') == {arguments!r} else _real(*a, **k)\n"
            f"    def __getattr__(self, word):\n        return getattr(_real, word)\n{name} = _Shown()\n"
        )
        yield call("write_file", path=path, text=given.files[path] + text)
    yield "It is mended."


CHEATERS: tuple[Cheat, ...] = (*REPOSITORY, copies_the_original, answers_the_shown_calls)


def list_usable() -> None:
    """Print each distribution that can be used, with the modules, of the first with examples, that can."""
    names = sorted({str(each.metadata["Name"]) for each in metadata.distributions()}, key=str.lower)
    reasons: dict[str, int] = {}
    sources = []
    for name in names:
        try:
            sources.append(distribution(name))
        except ValueError as error:
            reason = str(error).removeprefix(f"{name} ").partition(" (")[0].partition(":")[0]
            reasons[reason] = reasons.get(reason, 0) + 1
    find_copies([source.name for source in sources])
    for source in sources:
        name = source.name
        found = [each for target in list(source.parts)[: 5 * TARGETS] if (each := material(name, target))]
        if found:
            programs = len({text for each in found for *_, text in each.programs})
            print(f"{name} {source.version}: {len(found)} parts, {programs} programs", flush=True)
        else:
            reason = "can be read in the sandbox, in part" if copied(name) else "no part runs alone with plain values"
            reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda row: -row[1]):
        print(f"{count} of {len(names)} are not used: {reason}")


def play(packages: list[str], seeds: int, cheats: int) -> bool:
    """Print, level by level, the expert's successes, the most that a cheater earned, and what a task costs."""
    print("| level | solved by the expert | episodes of cheaters, most earned | lines a task | seconds a task |")
    print("|---|---|---|---|---|")
    good = True
    for level in range(1, 6):
        env = gym.make("rlvr/RepoRepair-v0", level=level, packages=packages).unwrapped
        assert isinstance(env, TextEnv)
        started, clock, lines = time.process_time(), time.monotonic(), 0
        for seed in range(seeds):
            env.reset(seed=seed)
            lines += sum(text.count("\n") for text in env.get_state().state.world.files().values())
        own, wall = (time.process_time() - started) / seeds, (time.monotonic() - clock) / seeds
        solved = sum(earned(env, seed) == 1.0 for seed in range(seeds))
        most = max(earned(env, seed, cheat) for cheat in CHEATERS for seed in range(cheats))
        episodes = len(CHEATERS) * cheats
        print(
            f"| {level} | {solved} of {seeds} | {episodes}, {most:g} | {lines // seeds} | {own:.2f}, {wall:.2f} |",
            flush=True,
        )
        good = good and solved == seeds and most == 0.0
        env.close()
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cheats", type=int, default=2)
    options = parser.parse_args()
    if not options.packages:
        list_usable()
        return 0
    return 0 if play(options.packages, options.seeds, options.cheats) else 1


if __name__ == "__main__":
    sys.exit(main())
