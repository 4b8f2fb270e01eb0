"""Files of episodes: memory and time of the commands that read them, and what writing one costs beside playing.

    python benchmarks/records.py --gigabytes 0.1 0.3    # makes files of these sizes, one after the other
    python benchmarks/records.py --files-only --gigabytes 1 --largest 10    # keeps the other figures of the page
    python benchmarks/records.py --view-only --gigabytes 1 10    # keeps those of the other commands too

A file holds episodes of the calculator with long texts and with tokens, 80 kB each, made from one that was played,
which differ by a number in the task. Each command runs in a process of its own, whose peak memory (VmHWM, and of the
process that reads Parquet for it) and CPU time stand beside the file's size. They run beside each other; the viewer's
memory counts the pages of its index that are mapped. `rlvr eval` plays the expert, whose episodes have 1.5 kB.
Writing is the CPU time of `to_dict`, JSON and the write beside that of the rollout, in turns, with the smallest
policy there is, whose share is the largest of any model's, and with the expert, which samples nothing. Random
episodes go there and back through each converter that loses nothing, and come back as the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import torch
from results import Table, write_results
from viewer import viewing

from rlvr.adapters.export.atif import atif_record, episode_of
from rlvr.adapters.export.chat import chat_record
from rlvr.adapters.export.files import write
from rlvr.adapters.export.foreign import episode_of_trace
from rlvr.adapters.viewer.foreign import trace_of
from rlvr.agents import ExpertAgent, Rollout, TokenSequence, task_requests
from rlvr.agents.episode import Episode, EpisodeBranch, Turn
from rlvr.agents.evaluation.records import scan_episodes
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.envs import Verdict
from rlvr.envs.core.verdict import STATUSES
from rlvr.envs.tools.calls import ActionWithCalls, NativeCall

MEASURED = """
import sys
sys.path.insert(0, {here!r})
from results import peak_memory
import os, resource
from pathlib import Path
from rlvr.cli import main
if {words!r}[0] == "write_episodes":
    from rlvr.agents.evaluation.records import scan_episodes, write_episodes
    write_episodes(Path({words!r}[2]), scan_episodes(Path({words!r}[1])))
elif main({words!r}):
    raise SystemExit(1)
beside = resource.getrusage(resource.RUSAGE_CHILDREN)
print(peak_memory() + 1024 * beside.ru_maxrss, sum(os.times()[:4]), file=sys.stderr)
"""

AT_ONCE = 7  # commands that are measured beside each other
MARK = "@number@"
LINE_BY_LINE = ("rlvr export", "rlvr export --format atif", "rlvr export --format inspect")
CALL = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'
TEXTS = ("", "4", "né\n", "<think>\nhm\n</think>\n\n5", CALL, "\ud800", "\U0001f600")


def random_episode(rng: random.Random) -> Episode:
    """An episode whose every field may be filled, of one to four turns."""
    held = TEXTS if rng.random() < 0.1 else [text for text in TEXTS if text != "\ud800"]

    def text() -> str:
        return "".join(rng.choices(held, k=rng.randrange(3)))

    def sequence() -> TokenSequence:
        tokens = TokenSequence()
        for size in rng.choices(range(4), k=rng.randrange(4)):
            tokens.append_context(rng.choices(range(200_000), k=size))
            tokens.append_sampled([1] * size, [-rng.random() for _ in range(size)], rng.choice([[], [7] * size]))
        return tokens

    def verdict() -> Verdict | None:
        return rng.choice([None, Verdict(rng.uniform(-1, 1), rng.choice(sorted(STATUSES)), text(), text(), {"a": 0.5})])

    def turn() -> Turn:
        calls = [NativeCall(text(), text(), rng.choice(["{}", text()])) for _ in range(rng.randrange(3))]
        action = rng.choice([text(), ActionWithCalls(text(), text(), calls)])
        made = Turn(text(), rng.choice(["user", "tool"]), action, rng.choice(["stop", "length"]), rng.uniform(-1, 1))
        made.verdict, made.end, made.limit, made.branch = verdict(), rng.randrange(16), text(), rng.randrange(2)
        made.outputs = [text() for _ in range(rng.randrange(3))]
        return made

    return Episode(
        *(text(), text(), rng.randrange(2**40), rng.randrange(9), rng.randrange(9), rng.choice([None, 3])),
        *(rng.choice([None, text()]), rng.choice([None, 2]), rng.choice([None, text()])),
        tools=rng.choice(["", '[{"function": {"name": "a"}}]']),
        turns=[turn() for _ in range(rng.randint(1, 4))],
        tokens=sequence(),
        verdict=verdict(),
        final_observation=text(),
        partial_completion=sequence(),
        training={"advantages": [rng.random()]},
        env_digest=text(),
        examples=[{"role": role, "content": text()} for role in ("user", "assistant")] * rng.randrange(2),
        agent={"model": text()},
        branches=[EpisodeBranch(0, sequence())] * rng.randrange(2),
        prefix=rng.randrange(3),
        usage={"prompt_tokens": rng.randrange(99), "cost": rng.random()},
        foreign={f"x{text()}": [text(), None]} if rng.random() < 0.1 else {},
    )


def round_trips(count: int, folder: Path) -> dict[str, int]:
    """How many of so many random episodes come back as the same bytes, by converter."""
    rng, same = random.Random(0), {"JSONL": 0, "Parquet": 0, "trajectories (ATIF)": 0, "chats": 0}
    lines = []
    for _ in range(count):
        episode = random_episode(rng)
        line = json.dumps(episode.to_dict())
        lines.append(line)
        same["JSONL"] += json.dumps(Episode.from_dict(json.loads(line)).to_dict()) == line
        back = episode_of(json.loads(json.dumps(atif_record(episode))))
        same["trajectories (ATIF)"] += json.dumps(back.to_dict()) == line
        chat = json.dumps(chat_record(plain(episode)))
        same["chats"] += json.dumps(chat_record(episode_of_trace(trace_of(json.loads(chat))))) == chat
    table = folder / "random.parquet"
    write((Episode.from_dict(json.loads(line)) for line in lines), table, "parquet")
    pairs = zip(lines, scan_episodes(table), strict=True)
    same["Parquet"] = sum(json.dumps(episode.to_dict()) == line for line, episode in pairs)
    return same


def plain(episode: Episode) -> Episode:
    """The episode with what a chat holds: the texts of one conversation, and the grade of the whole."""
    turns = [Turn(turn.observation, turn.role, f"{number}.", "stop") for number, turn in enumerate(episode.turns)]
    verdict = Verdict(1.0, "correct")
    turns[-1].reward, turns[-1].verdict = verdict.reward, verdict
    held = {
        name: getattr(episode, name) for name in ("seed", "group", "sample", "index", "level", "env_digest", "tools")
    }
    return Episode("e/E-v0", "k", **held, split="train", system=episode.system or None, turns=turns, verdict=verdict)


def commands(file: Path, out: Path) -> dict[str, list[str]]:
    """What is measured, by its name."""
    exported = ["export", str(file), "--out"]
    return {
        "rlvr table": ["table", str(file)],
        "rlvr compare": ["compare", str(file), str(file), "--tasks", "0"],
        "rlvr regrade": ["regrade", str(file), "--out", str(out / "graded.jsonl")],
        "rlvr export": [*exported, str(out / "a.jsonl")],
        "rlvr export --format atif": [*exported, str(out / "b.jsonl"), "--format", "atif"],
        "rlvr export --format parquet": [*exported, str(out / "c.parquet"), "--format", "parquet"],
        "rlvr export --format inspect": [*exported, str(out / "e.eval"), "--format", "inspect"],
    }


def commands_after(out: Path) -> dict[str, list[str]]:
    """What is measured on the Parquet that one of `commands` made."""
    table = str(out / "c.parquet")
    return {
        "rlvr table of that Parquet": ["table", table],
        "that Parquet back to JSONL (write_episodes)": ["write_episodes", table, str(out / "d.jsonl")],
    }


def filled() -> Episode:
    """An episode that was played, with texts and tokens as a model leaves them."""
    (episode,) = Rollout("rlvr/Calculator-v0", ExpertAgent())(task_requests(None, 1))
    words = " ".join(f"word{number}" for number in range(2_000))
    for number, turn in enumerate(episode.turns, 1):
        turn.observation, turn.action, turn.end = f"{turn.observation} {words}", f"{words} {turn.action}", 150 * number
    tokens = range(150 * len(episode.turns))
    sampled = [int(token % 150 > 70) for token in tokens]
    episode.tokens = TokenSequence([*tokens], sampled, [-0.123456789 * on for on in sampled])
    return episode


def write_file(path: Path, size: float) -> int:
    """Write a file of about so many bytes; how many episodes it holds."""
    record = filled().to_dict() | {"index": MARK, "key": f"rlvr/Calculator-v0/train/1/0/{MARK}/0/"}
    record["turns"][0]["observation"] += f" task{MARK}"
    line, count, written = json.dumps(record).replace(f'"{MARK}"', MARK) + "\n", 0, 0
    with path.open("w") as file:
        while written < size:
            written += file.write(line.replace(MARK, str(count)))
            count += 1
    return count


def viewed(file: Path, folder: Path, facts: dict[str, str], size: str, middle: int) -> None:
    """Add what `rlvr view` takes, first without an index and then with it."""
    with viewing(file, folder) as viewer:
        facts[f"rlvr view without an index, first rows, {size}"] = f"{viewer.until_rows():.1f} s of the clock"
        viewer.until_complete()
        facts[f"rlvr view, the whole index, {size}"] = f"{viewer.memory() / 1e6:,.0f} MB, {viewer.cpu():,.1f} CPU-s"
        taken = viewer.get("evaluation", source=file.name)[1][1]
        facts[f"an evaluation's page, the first time, {size}"] = f"{taken:.2f} CPU-s"
    held = sum(path.stat().st_size for path in folder.iterdir())
    facts[f"the size of that index, {size}"] = f"{held / 1e9:.2f} GB"
    with viewing(file, folder) as viewer:
        viewer.until_rows()
        facts[f"rlvr view with the index, the list, {size}"] = f"{viewer.cpu():.2f} CPU-s"
        taken = viewer.get("evaluation", source=file.name)[1][1]
        facts[f"an evaluation's page, {size}"] = f"{taken:.3f} CPU-s"
        for text, where in ((f"task{middle}", "one episode"), ("word7 word8", "all episodes")):
            found, (_, taken) = viewer.get("episodes", q=text)
            assert found["total"] in (1, 2 * middle, 2 * middle + 1), found["total"]
            facts[f"search for words of {where}, {size}"] = f"{taken:.3f} CPU-s"
        taken = viewer.get(f"episode/{found['rows'][-1]['id']}")[1][1]
        facts[f"one episode, {size}"] = f"{taken:.3f} CPU-s"
        facts[f"rlvr view, all of that, {size}"] = f"{viewer.memory() / 1e6:,.0f} MB"


def measured(name: str, words: list[str], facts: dict[str, str]) -> None:
    """Add the peak memory and CPU time of a command in a process of its own."""
    program = MEASURED.format(here=str(Path(__file__).parent), words=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    peak, seconds = map(float, done.stderr.split()[-2:])
    facts[name] = f"{peak / 1e6:,.0f} MB, {seconds:,.1f} CPU-s"
    print(f"{name}: {facts[name]}", flush=True)


def of_a_file(
    gigabytes: float, facts: dict[str, str], pool: Executor, left_out: Sequence[str] = (), view_only: bool = False
) -> None:
    """Add the figures of the commands on a file of this size."""
    with TemporaryDirectory() as name, TemporaryDirectory() as index:
        folder = Path(name)
        file = folder / "episodes.jsonl"
        count = write_file(file, gigabytes * 1e9)
        size = f"{gigabytes:g} GB, {count:,} episodes"
        viewing_it = pool.submit(viewed, file, Path(index), facts, size, count // 2)
        if view_only:
            viewing_it.result()
            return
        first = [each for each in commands(file, folder).items() if each[0] not in left_out]
        for some in (first, commands_after(folder).items()):
            waiting = [pool.submit(measured, f"{name}, {size}", words, facts) for name, words in some]
            for each in waiting:
                each.result()
            for path in set(folder.iterdir()) - {file, folder / "c.parquet"}:
                path.unlink()
        viewing_it.result()


def size_of(label: str) -> float:
    """The size that a figure of a file names, in GB; 0 of any other figure."""
    named = re.search(r", ([0-9.]+) GB, ", label)
    return float(named[1]) if named else 0.0


def writing(name: str, agent: Any, rounds: int, episodes: int, folder: Path) -> Table:
    """The CPU time of playing and of writing the same episodes."""
    table = Table(f"Writing beside playing: {name}", f"CPU-seconds for {episodes} episodes", "playing")
    rollout = Rollout("rlvr/Calculator-v0", agent)
    for _ in range(rounds):
        began = time.process_time()
        played = rollout(task_requests(None, episodes))
        between = time.process_time()
        with (folder / "written.jsonl").open("w") as file:
            for episode in played:
                file.write(json.dumps(episode.to_dict()) + "\n")
                file.flush()
        table.add("playing", between - began)
        table.add("writing", time.process_time() - between)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 0.3], help="sizes of the files")
    parser.add_argument(
        "--largest", type=float, nargs="*", default=[], help=f"sizes of files without {', '.join(LINE_BY_LINE)}"
    )
    parser.add_argument(
        "--files-only", action="store_true", help="measure the files, and keep the other figures of the page"
    )
    parser.add_argument("--view-only", action="store_true", help="measure `rlvr view` on them, and keep all else")
    parser.add_argument("--evaluated", type=int, nargs="+", default=[10_000], help="episodes that rlvr eval plays")
    parser.add_argument("--trips", type=int, default=10_000, help="random episodes that go there and back")
    parser.add_argument("--rounds", type=int, default=5, help="of playing and writing")
    parser.add_argument("--episodes", type=int, default=64, help="a round")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for the figures")
    options = parser.parse_args()
    if options.files_only or options.view_only:
        page = json.loads((options.out / "records.json").read_text())
        facts = {name: value for name, value in page["facts"].items() if options.view_only or " GB, " not in name}
        kept = "the files' figures but those of rlvr view" if options.view_only else "all but the files' figures"
        facts.setdefault(kept, f"`{page['command']}`")
        costs = [
            Table(title, each["unit"], "playing", each["rounds"], each.get("command", page["command"]))
            for title, each in page["tables"].items()
        ]
    else:
        costs, facts = beside_files(options)
    try:
        with ThreadPoolExecutor(1 if options.view_only else None) as sizes, ThreadPoolExecutor(AT_ONCE) as pool:
            wanted = [(size, LINE_BY_LINE) for size in options.largest] + [(size, ()) for size in options.gigabytes]
            waiting = [
                sizes.submit(of_a_file, size, facts, pool, left_out, options.view_only) for size, left_out in wanted
            ]
            for each in waiting:
                each.result()
    finally:  # one that was interrupted has measured some
        write_results("records", costs, dict(sorted(facts.items(), key=lambda each: size_of(each[0]))), options.out)


def beside_files(options: argparse.Namespace) -> tuple[list[Table], dict[str, str]]:
    """What writing costs, how many random episodes come back, and what `rlvr eval` takes."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        trips = round_trips(options.trips, folder)
        torch.set_num_threads(1)
        policy = TransformersAgent(*load_policy("rlvr/tiny"), max_new_tokens=64)
        players = {"a policy of 0.35 M parameters": policy, "the expert": ExpertAgent()}
        costs = [writing(name, who, options.rounds, options.episodes, folder) for name, who in players.items()]
        facts = {f"{options.trips:,} random episodes, the same after {name}": f"{n:,}" for name, n in trips.items()}
        facts |= {each.title: f"{1 / each.ratio('writing'):.2%} of the CPU time" for each in costs}
        for count in options.evaluated:
            words = ["eval", "--env", "Calculator", "--agent", "expert", "--episodes", str(count), "--out"]
            label = f"rlvr eval, {count:,} episodes"
            measured(label, [*words, str(folder / f"{count}.jsonl")], facts)
    return costs, facts


if __name__ == "__main__":
    main()
