"""How long `rlvr view` takes with 100,000 episodes: to open them, with an index and without, to search and to follow.

    python benchmarks/viewer.py [--episodes 100000] [--rounds 3]
    python benchmarks/viewer.py --pictures runs/calculator     # writes the pictures of docs/viewer.md instead

The run is made up: 100 files of 1,000 episodes, texts of 50 to 250 words of a vocabulary of 20,000, two turns each.
The first table is by wall clock, from the start of a process of `rlvr view` or of a request to its whole answer, which
on a busy machine is mostly waiting; the second is the CPU time that the viewer used for it. Where
playwright and Chromium are installed, the list is scrolled through from end to end, and its longest task is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, EpisodeBranch, Turn
from rlvr.envs.core.verdict import Verdict

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, peak_memory, write_results

FILES = 100
PART = "200 rows anywhere in the list"
SEARCHES = ("w19999", "w7 w8", '"w3 w4"', "w12*", "nowhere")
TEAM = (
    ("How many tests are there?", "I ask two helpers, one for each folder.", 0),
    ("Count the tests of envs.", "envs has 214 tests.", 1),
    ("Count the tests of agents.", "agents has 97 tests.", 2),
    ("The helpers are done.", "214 + 97 = \\boxed{311}", 0),
    ("Try another way.", "I count them myself: \\boxed{311}", 3),
    ("Summary so far: two helpers counted.", "The answer is 311.", 4),
)
SCROLL = """
async () => {
  const list = document.querySelector(".list"), tasks = [];
  new PerformanceObserver((entries) => tasks.push(...entries.getEntries().map((each) => each.duration)))
    .observe({ type: "longtask", buffered: false });
  const end = list.scrollHeight - list.clientHeight;
  for (let at = 0; at <= 200; at++) {
    list.scrollTop = (end * at) / 200;
    await new Promise(requestAnimationFrame);
  }
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  for (let waited = 0; waited < 300 && !list.querySelector(".row"); waited++) await wait(100);
  await wait(500);
  return { longest: Math.max(0, ...tasks), rows: list.querySelectorAll(".row").length };
}
"""


def write_run(folder: Path, episodes: int) -> int:
    """A run of so many episodes; its bytes."""
    chance = random.Random(0)
    vocabulary = [f"w{number}" for number in range(20_000)]
    (folder / "episodes").mkdir(parents=True)
    (folder / "config.yaml").write_text("algorithm: grpo\n")
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, 1_001):
            file.write(json.dumps({"phase": "train", "step": step, "reward": chance.random()}) + "\n")
    size = 0
    for number in range(FILES):
        with (folder / "episodes" / f"train-{number:06d}.jsonl").open("w") as file:
            for index in range(episodes // FILES):
                reward = float(chance.random() < 0.4)
                words = chance.choices(vocabulary, k=chance.randint(50, 250))
                half = len(words) // 2
                turns = [
                    Turn(" ".join(words[:20]), "user", " ".join(words[20:half]), "stop"),
                    Turn("go on", "user", " ".join(words[half:]), "stop", reward),
                ]
                verdict = Verdict(reward, "correct" if reward else "wrong")
                key = f"{number}/{index}"
                episode = Episode("rlvr/Made-v0", key, number, group=index // 8, sample=index % 8, index=index // 8)
                episode.level, episode.turns, episode.verdict = 1 + index % 5, turns, verdict
                size += file.write(json.dumps(episode.to_dict()) + "\n")
    return size


class Viewer:
    """A process of `rlvr view`."""

    def __init__(self, run: Path, index: Path) -> None:
        self._began = time.perf_counter()
        code = "import sys; from rlvr.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "view", str(run), "--index", str(index), "--port", "0"]
        command += ["--forks", str(index / "forks.jsonl")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[0]
        self.key = self.url.partition("key=")[2]

    def get(self, path: str, **asked: Any) -> tuple[dict[str, Any], tuple[float, float]]:
        """An answer, and the seconds that it took by wall clock and of CPU."""
        began, used = time.perf_counter(), self.cpu()
        address = f"{self.url.partition('#')[0]}api/{path}?{urllib.parse.urlencode(asked)}"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = json.load(answer)
        return body, (time.perf_counter() - began, self.cpu() - used)

    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def memory(self) -> int:
        """The most memory that the process has held, in bytes."""
        return peak_memory(self.process.pid)

    def until_rows(self) -> float:
        """Seconds from the start until the list has rows."""
        while not self.get("episodes", limit=100)[0]["rows"]:
            time.sleep(0.01)
        return time.perf_counter() - self._began

    def until_evaluation(self) -> float:
        """Seconds from the start until the page of the evaluation has figures."""
        while not self.get("evaluation", source="run")[0]["figures"]["episodes"]:
            time.sleep(0.01)
        return time.perf_counter() - self._began

    def until_followed(self, run: Path) -> float:
        """Seconds from a write of a step's figures until the viewer's version has changed and its curve has them."""
        version, began = self.get("state")[0]["version"], time.perf_counter()
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"phase": "train", "step": 2_000, "reward": 0.5}) + "\n")
        while self.get("state")[0]["version"] == version:
            time.sleep(0.01)
        (shown,) = self.get("curves")[0]["runs"]
        assert shown["series"]["train/reward"][-1] == [2_000, 0.5]
        return time.perf_counter() - began

    def until_complete(self) -> float:
        """Seconds from the start until all is in the index."""
        while not self.get("state")[0]["complete"]:
            time.sleep(1.0)
        return time.perf_counter() - self._began


@contextmanager
def viewing(run: Path, index: Path) -> Iterator[Viewer]:
    viewer = Viewer(run, index)
    try:
        yield viewer
    finally:
        viewer.process.terminate()
        viewer.process.wait(timeout=30)


def measure(episodes: int, rounds: int) -> tuple[list[Table], dict[str, str]]:
    """Seconds of each round by wall clock and of CPU, and what is measured once."""
    facts: dict[str, str] = {}
    wall = Table("opening and searching", "seconds by wall clock, lower is better", PART)
    cpu = Table("what it costs", "seconds of CPU of the viewer, lower is better", PART)

    def take(name: str, seconds: tuple[float, float]) -> None:
        wall.add(name, seconds[0])
        cpu.add(name, seconds[1])

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_run(folder / "run", episodes)
        facts["the run"] = f"{episodes:,} episodes, {size / 2**20:.0f} MiB"
        with viewing(folder / "run", folder / "index") as viewer:
            facts["seconds from the start to the first 100 rows, nothing indexed"] = f"{viewer.until_rows():.2f}"
            first = f"{viewer.until_evaluation():.2f}"
            facts["seconds from the start to an evaluation's page, of the episodes read so far"] = first
            facts["seconds from the start to the whole index, which is made once"] = f"{viewer.until_complete():.0f}"
            facts["seconds of CPU that the index took"] = f"{viewer.cpu():.0f}"
            facts["seconds from a write of figures to their curve (the page asks every second)"] = (
                f"{viewer.until_followed(folder / 'run'):.2f}"
            )
        held = sum(path.stat().st_size for path in (folder / "index").iterdir())
        facts["the index"] = f"{held / 2**20:.0f} MiB"
        for number in range(rounds):
            with viewing(folder / "run", folder / "index") as viewer:
                seconds = viewer.until_rows()
                take(
                    "open: from the start of the process to the list of all episodes (wanted: < 1)",
                    (seconds, viewer.cpu()),
                )
                page, both = viewer.get("episodes", limit=200, offset=episodes * (1 + number) // (rounds + 2))
                assert page["total"] == episodes // FILES * FILES, page["total"]
                take(PART, both)
                page, both = viewer.get("evaluation", source="run")
                assert page["figures"]["episodes"] == episodes // FILES * FILES, page["figures"]
                take("an evaluation's page (wanted with its start: < 1)", both)
                take("what the filters offer", viewer.get("choices")[1])
                for text in SEARCHES:
                    take(f"search all texts for `{text}` (wanted: < 0.3)", viewer.get("episodes", q=text)[1])
                take(
                    "the correct ones, by reward",
                    viewer.get("episodes", status="correct", sort="-reward", limit=200)[1],
                )
                take("signs of reward hacking among all", viewer.get("signs")[1])
                if not number and (longest := scroll(viewer)) is not None:
                    facts["longest task in Chromium while the list is scrolled from end to end"] = longest
    return [wall, cpu], facts


def scroll(viewer: Viewer) -> str | None:
    """The longest task while the list is scrolled; None without a browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(f"{viewer.url.partition('#')[0]}#/episodes?key={viewer.key}")
        page.wait_for_selector("main[data-ready] .row[data-at]")
        scrolled = page.evaluate(SCROLL)
        assert 10 < scrolled["rows"] < 100, scrolled
        browser.close()
        longest = scrolled["longest"]
        return f"{longest:.0f} ms" if longest else "none over 50 ms, which is where Chromium begins to count"


def pictures(run: Path) -> None:
    """Pictures of a run's curves, tokens, signs, a group with right and wrong samples and a fork, in docs/images."""
    from playwright.sync_api import sync_playwright

    images = Path(__file__).parents[1] / "docs" / "images"
    with tempfile.TemporaryDirectory() as name, viewing(run, Path(name)) as viewer, sync_playwright() as playwright:
        viewer.until_complete()
        rows = viewer.get("episodes", phase="train", status="wrong", sort="-step", limit=100)[0]["rows"]
        groups = (viewer.get(f"episode/{row['id']}")[0]["group"] for row in rows)
        group = next(group for group in groups if any(sample["success"] for sample in group))
        right = next(sample["id"] for sample in group if sample["success"])
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 460})
        shown = {
            "runs": "runs?smooth=0.6&",
            "tokens": f"episode/{right}?show=tokens&column=weight&",
            "group": f"group/{right}?",
            "signs": "signs?",
            "fork": f"episode/{right}?",
        }
        for picture, view in shown.items():
            page.goto("about:blank")
            page.goto(f"{viewer.url.partition('#')[0]}#/{view}key={viewer.key}")
            page.wait_for_selector("main[data-ready]", timeout=120_000)
            if picture == "tokens":
                page.hover(".tokens span:not(.off)")
            if picture == "fork":
                page.get_by_text("fork from here").last.click()
                page.wait_for_selector("#action", timeout=60_000)
            page.screenshot(path=images / f"viewer_{picture}.png")
        browser.close()


def evaluation_pictures() -> None:
    """Pictures of an evaluation and of two beside each other, in docs/images: the suite quick, at random and expert."""
    from playwright.sync_api import sync_playwright

    from rlvr.cli import main as rlvr

    images = Path(__file__).parents[1] / "docs" / "images"
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        results = Path(name) / "results"
        assert rlvr(["eval", "--suite", "quick", "--agent", "expert", "--agent", "random", "--out", str(results)]) == 0
        both = urllib.parse.quote(json.dumps(["random.jsonl", "expert.jsonl"]))
        with viewing(results, Path(name)) as viewer:
            viewer.until_complete()
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1000, "height": 460})
            for picture, view in {
                "evaluation": "evaluation?source=random.jsonl",
                "compare": f"compare?with={both}",
            }.items():
                page.goto("about:blank")
                page.goto(f"{viewer.url.partition('#')[0]}#/{view}&key={viewer.key}")
                page.wait_for_selector("main[data-ready]", timeout=120_000)
                page.screenshot(path=images / f"viewer_{picture}.png")
            browser.close()


def branches_picture() -> None:
    """A picture of an episode of several conversations, in docs/images."""
    from playwright.sync_api import sync_playwright

    episode = Episode("mine/Team-v0", "team", 0, verdict=Verdict(1.0, "correct"))
    episode.turns = [Turn(text, "user", reply, "stop", branch=branch) for text, reply, branch in TEAM]
    episode.turns[-1].reward = 1.0
    episode.branches = [EpisodeBranch(follows, TokenSequence()) for follows in (-1, -1, 0, -1)]
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        path = Path(name) / "team.jsonl"
        path.write_text(json.dumps(episode.to_dict()) + "\n")
        with viewing(path, Path(name)) as viewer:
            viewer.until_complete()
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1000, "height": 620})
            page.goto(f"{viewer.url.partition('#')[0]}#/episode/1?key={viewer.key}")
            page.wait_for_selector("#branches", timeout=120_000)
            page.screenshot(path=Path(__file__).parents[1] / "docs" / "images" / "viewer_branches.png")
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--pictures", type=Path, metavar="RUN")
    options = parser.parse_args()
    if options.pictures is not None:
        pictures(options.pictures)
        evaluation_pictures()
        branches_picture()
        return
    tables, facts = measure(options.episodes, options.rounds)
    facts["load of the machine's two cores at the end"] = f"{os.getloadavg()[0]:.1f}"
    write_results("viewer", tables, facts, options.out)


if __name__ == "__main__":
    main()
