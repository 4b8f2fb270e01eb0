"""The gallery: every environment with its card, an example prompt and an episode of its expert; every kit of tools.

    python benchmarks/gallery.py [--family visual] [--check]

Writes one page for each family (or for one), an index and envs/summaries.json, from the registry; scores come from
benchmarks/results/cards.json. Data sets are shown with the made-up rows of tests/data, in the official columns; the
first image of an environment that shows any goes to docs/images/visual. The README's table of families gets the new
counts. `make docs` calls it; tests/test_cards.py checks that no page is out of date.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

ROOT = Path(__file__).parents[1]
os.environ["RLVR_DATA"] = str(ROOT / "tests" / "data")
os.environ["RLVR_PLUGINS"] = "0"

import rlvr  # noqa: E402  (the two settings above are read when it is imported)
from rlvr.envs import TextEnv  # noqa: E402
from rlvr.envs.bridges.suite_games import PREFIXES  # noqa: E402
from rlvr.envs.cards import Card, card, store_summaries  # noqa: E402
from rlvr.envs.core.images import text_of, write_png  # noqa: E402
from rlvr.envs.tools import KITS, MCP, Call, Fetch, Functions, Search, SQLite, Workspace, write_call  # noqa: E402
from rlvr.envs.tools.search import Document  # noqa: E402

Calls = Callable[[TextEnv, str], list[Call]]  # from an environment that was reset, and its prompt

IMAGES = ROOT / "docs" / "images" / "visual"  # the first image of each environment that shows any
OUT = ROOT / "docs" / "gallery"
RESULTS = ROOT / "benchmarks" / "results" / "cards.json"
LONGEST_PROMPT = 1_600
LONGEST_REPLY = 500
SHOWN_TURNS = 3  # at the beginning of an episode, and as many at its end


def short(text: str, max_chars: int) -> str:
    """The text, or its beginning and its end."""
    if len(text) <= max_chars:
        return text
    head, tail = 3 * max_chars // 4, max_chars // 4
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters …]\n{text[-tail:]}"


def block(text: str) -> str:
    """An indented block: unlike a fence, nothing that a prompt holds can end it."""
    lines = [line.rstrip() for line in text.replace("\r", "").replace("\t", "    ").split("\n")]
    return "".join(f"    {line}\n" if line else "\n" for line in lines).rstrip("\n") + "\n"


def episode(env: TextEnv, calls: Calls | None = None) -> tuple[str, list[tuple[str, str]], str, str]:
    """The first observation, (action, next observation) of every turn, the verdict, and who played.

    ``calls`` are made before the expert, who may know of no tools, answers.
    """
    observation, _ = env.reset(seed=0)
    first, turns, player, rng = text_of(observation), [], "The expert", random.Random(0)
    script = [write_call(call, env.task.style) for call in calls(env, first)] if calls else []  # type: ignore[attr-defined]
    while True:
        try:
            action = script.pop(0) if script else env.solve()
        except NotImplementedError:
            action, player = env.sample_action(rng), "No expert is known; at random"
        observation, reward, terminated, truncated, info = env.step(action)
        turns.append((action, text_of(observation)))
        if terminated or truncated:
            verdict = info["verdict"]
            return first, turns, f"{verdict.status}, reward {float(reward):g}: {verdict.reason}", player


def transcript(turns: list[tuple[str, str]]) -> str:
    """What was said, turn by turn; the middle of a long episode is left out."""
    if len(turns) == 1:
        return short(turns[0][0], LONGEST_REPLY)
    shown = []
    for number, (action, observation) in enumerate(turns, 1):
        if SHOWN_TURNS < number <= len(turns) - SHOWN_TURNS:
            if number == SHOWN_TURNS + 1:
                shown.append(f"[… {len(turns) - 2 * SHOWN_TURNS} turns …]")
            continue
        shown.append(f"> {short(action, LONGEST_REPLY)}")
        if number < len(turns):
            shown.append(short(observation, LONGEST_REPLY))
    return "\n".join(shown)


def scores(measured: dict[str, Any] | None) -> str:
    """Expert and luck, from the measured cards."""
    if not measured or not measured["scores"]:
        return "not measured"
    rows = measured["scores"]
    experts = [row["expert"] for row in rows if row["expert"] is not None]
    expert = f"{min(experts):.2f}" if experts else "none"
    return f"{expert} and {max(max(row['random'], row['constant'] or 0) for row in rows):.2f}"


def working(env: TextEnv, question: str) -> list[Call]:
    """The calculations in the expert's own words, as one program."""
    formulas = re.findall(r"(?m)^\s*([\d.+*/() -]+?) ?=", env.solve())
    return [Call("python", {"code": "\n".join(f"print({each})" for each in formulas)})]


# Where the expert answers without the tools that the environment gives: what is called first.
CALLS: dict[str, Calls] = {"rlvr/GSM8K-Python-v0": working}


def section(described: Card, env: TextEnv | None, measured: dict[str, Any] | None, images: dict[Path, bytes]) -> str:
    """A card and an episode; the image that it shows goes into ``images``."""
    name = described.env_id
    fewest, largest = min(described.turns), max(described.turns)
    turns = str(fewest) if fewest == largest else f"{fewest} to {largest}"
    text = f"## {name}\n\n{described.asks}\n\n"
    text += "| levels | turns | reward | lowest expert, highest luck | source | licence |\n|---|---|---|---|---|---|\n"
    cells = (described.levels, turns, described.reward, scores(measured), described.source, described.licence)
    text += f"| {' | '.join(map(str, cells))} |\n"
    for title, words in described.sections.items():
        if title not in ("Levels", "Arguments"):  # which stand in what it asks, and in `rlvr card`
            text += f"\n*{title}:* {words}\n"
    if env is None:
        return text + "\nIts rows are not here.\n"
    prompt, played, verdict, player = episode(env, CALLS.get(name))
    env.close()
    text += f"\nPrompt (level 1, seed 0):\n\n{block(short(prompt, LONGEST_PROMPT))}"
    if env.task.image_shape is not None:
        path = IMAGES / f"{env.name}.png"
        images[path] = write_png(env.reset(seed=0)[0]["image"])
        text += f"\n![The image beside it](../images/visual/{path.name})\n"
    text += f"\n{player}:\n\n{block(transcript(played))}"
    return text + f"\nVerdict: {' '.join(verdict.split())}\n"


# tools: one episode with each kit


class Shown(NamedTuple):
    """A kit at work: how it is written, where it is used, and the calls before the answer."""

    title: str
    env: TextEnv
    calls: Calls | None


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("notebook")
notes = ["eggs"]

@server.tool()
def note(text: str) -> str:
    "Write a note down."
    notes.append(text)
    return f"{len(notes)} notes"

@server.tool()
def read_notes() -> str:
    "Read all notes."
    return "; ".join(notes)

server.run("stdio")
"""
TASK = {
    "question": "Add milk to the notes, read them, and say done.",
    "solution": [{"name": "note", "arguments": {"text": "milk"}}, {"name": "read_notes"}, "done"],
}
PAGE = "<html><title>Cork</title><h1>Cork</h1><p>Cork is a city with <b>224,004</b> inhabitants.</p></html>"
TOWNS = [Document("Cork", "Cork lies on the river Lee and has 224,004 inhabitants."), Document("Bern", "A town.")]
QUESTION = "How many inhabitants does Cork have?"


def population(town: str) -> str:
    """Look up how many people live in a town.

    Args:
        town: its name.
    """
    return {"Bern": "134,794", "Cork": "224,004"}.get(town, "unknown")


def said(*calls: Call) -> Calls:
    """The same calls whatever is asked."""
    return lambda env, question: list(calls)


def expression(env: TextEnv, question: str) -> list[Call]:
    """What the question asks to work out, as a call of the calculator."""
    formula = max(re.findall(r"[\d(][\d+*/() -]+", question), key=len)
    return [Call("calculator", {"expression": formula.strip()})]


def sorted_by_shell(env: TextEnv, question: str) -> list[Call]:
    """The words of the question's second line, through sort."""
    words = question.splitlines()[1].replace(",", "")
    return [Call("shell", {"command": f"printf '%s\\n' {words} | LC_ALL=C sort"})]


def by_file(env: TextEnv, question: str) -> list[Call]:
    """The sum of the question as a file that is written, looked at, run and imported."""
    formula = max(re.findall(r"[\d+-][\d +-]*", question), key=len).strip()
    return [
        Call("write_file", {"path": "sums.py", "content": f"total = {formula}\nprint(total)\n"}),
        Call("read_file", {"path": "sums.py"}),
        Call("shell", {"command": "python3 sums.py"}),
        Call("python", {"code": "import sums\nsums.total"}),
    ]


def kits(folder: Path, port: int) -> list[Shown]:
    """An environment for each kit; its files are made in ``folder``, and a page is served at ``port``."""
    rows = folder / "towns.jsonl"
    rows.write_text(json.dumps({"question": QUESTION, "answer": "224004"}) + "\n", encoding="utf-8")
    database = folder / "towns.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE towns (name TEXT, inhabitants INTEGER)")
        connection.executemany("INSERT INTO towns VALUES (?, ?)", [("Bern", 134794), ("Cork", 224004)])
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    notebook = MCP(command=[sys.executable, str(folder / "server.py")])

    def asked(kit: Any) -> TextEnv:
        return made("rlvr/Dataset-v0", data_files=rows, grader="number", tools=[kit])

    address = f"http://127.0.0.1:{port}/cork"
    sql = "SELECT inhabitants FROM towns WHERE name = 'Cork'"
    world = {"server": notebook, "tasks": {"train": [TASK]}, "checker": noted, "options": {"max_calls": 4}}
    shown = [
        Shown('"calculator"', made("rlvr/OrderOfOperations-v0", tools=["calculator"]), expression),
        Shown('"python"', made("rlvr/GSM8K-v0", tools=["python"]), working),
        Shown('"shell"', made("rlvr/SortWords-v0", tools=["shell"]), sorted_by_shell),
        Shown('"workspace"', made("rlvr/Sums-v0", tools=["workspace"]), by_file),
        Shown("Functions(population)", asked(Functions(population)), said(Call("population", {"town": "Cork"}))),
        Shown(
            "Search(documents)",
            asked(Search(TOWNS)),
            said(Call("search", {"query": "inhabitants of Cork"}), Call("read_document", {"title": "Cork"})),
        ),
        Shown('SQLite("towns.db")', asked(SQLite(database)), said(Call("schema", {}), Call("query", {"sql": sql}))),
        Shown(
            f'Fetch(["127.0.0.1:{port}"])', asked(Fetch([f"127.0.0.1:{port}"])), said(Call("fetch", {"url": address}))
        ),
        Shown(
            'Workspace("read_file", files={"cork.txt": …})',
            asked(Workspace("read_file", files={"cork.txt": TOWNS[0].text})),
            said(Call("read_file", {"path": "cork.txt"})),
        ),
        Shown(
            'MCP(command=["python", "server.py"])',
            asked(notebook),
            said(Call("note", {"text": "Cork"}), Call("read_notes", {})),
        ),
        Shown("rlvr/MCP-v0, of a server, tasks and a checker", made("rlvr/MCP-v0", **world), None),
    ]
    missing = [name for name in KITS if not any(each.title == f'"{name}"' for each in shown)]
    if missing:
        raise SystemExit(f"no episode is shown for the kits {', '.join(missing)}")
    return shown


def noted(outcome: Any) -> bool:
    """The checker of the MCP server: looks at what is noted there."""
    return bool(outcome.call("read_notes") == "eggs; milk" and outcome.reply.strip() == "done")


def made(env_id: str, **settings: Any) -> TextEnv:
    env = gym.make(env_id, **settings).unwrapped
    assert isinstance(env, TextEnv)
    return env


class Page(BaseHTTPRequestHandler):
    """One page, at any address."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def tools_page() -> str:
    """An episode with each kit, every call really carried out."""
    text = "# Tools\n\nMade by `python benchmarks/gallery.py`; [what the tools are](../tools.md). "
    text += "The calls are scripted and carried out; the answer is the expert's.\n"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        for title, env, calls in kits(Path(folder), server.server_port):
            prompt, played, verdict, _ = episode(env, calls)
            if "reward 1" not in verdict:
                raise SystemExit(f"{title}: {verdict}")
            env.close()
            head = title if title.startswith("rlvr/") else f"`tools=[{title}]` in {env.spec.id if env.spec else ''}"
            text += f"\n## {head}\n\nPrompt (seed 0):\n\n{block(short(prompt, LONGEST_PROMPT))}"
            text += f"\nAnd then:\n\n{block(transcript(played))}\nVerdict: {' '.join(verdict.split())}\n"
    server.shutdown()
    return text.replace(f"127.0.0.1:{server.server_port}", "127.0.0.1:8000")


def with_counts(readme: str, ids: dict[str, list[str]]) -> str:
    """The README with the number of ids in each row of its table of families."""
    family = re.compile(r"^(\| `(\w+)/` \| )\d+(?= \|)", re.MULTILINE)
    return family.sub(lambda row: f"{row[1]}{len(ids[row[2]])}", readme)


def documents(only: str = "") -> tuple[dict[Path, str], dict[Path, bytes]]:
    """Every generated page and what it must hold, and the images; with a family's name its page and the index."""
    measured = json.loads(RESULTS.read_text())["cards"] if RESULTS.exists() else {}
    sections: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    images: dict[Path, bytes] = {}
    for env_id in rlvr.list_envs():
        if env_id.startswith(PREFIXES):
            continue
        described = card(env_id)
        ids.setdefault(described.family, []).append(env_id)
        if only in ("", described.family):
            env = gym.make(env_id).unwrapped if described.ready else None
            sections.setdefault(described.family, []).append(section(described, env, measured.get(env_id), images))
    pages = {OUT / "README.md": index(ids)}
    for family, texts in sections.items():
        head = f"# {family.capitalize()}\n\nMade by `python benchmarks/gallery.py`; [all families](README.md).\n\n"
        pages[OUT / f"{family}.md"] = head + "\n".join(texts)
    if not only:
        readme = ROOT / "README.md"
        pages |= {OUT / "tools.md": tools_page(), readme: with_counts(readme.read_text(encoding="utf-8"), ids)}
    return pages, images


def index(ids: dict[str, list[str]]) -> str:
    """The first page: the families and their ids."""
    text = (
        f"# Gallery\n\n{sum(map(len, ids.values()))} environments, each with its card, a prompt and a solved episode. "
    )
    text += "Made by `python benchmarks/gallery.py`. The [bridges](../bridges.md) have a page of their own.\n"
    for family, members in sorted(ids.items()):
        names = ", ".join(name.removeprefix("rlvr/").removesuffix("-v0") for name in members)
        text += f"\n**[{family}]({family}.md)** ({len(members)}): {names}\n"
    return text + "\n**[tools](tools.md)**: an episode with each kit of tools\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--family", default="", help="write this family's page alone, and the index")
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that are not up to date")
    options = parser.parse_args()
    if not options.check:
        store_summaries(env_id for env_id in rlvr.list_envs() if not env_id.startswith(PREFIXES))
    pages, images = documents(options.family)
    there = {path: path.read_text(encoding="utf-8") for path in {*OUT.glob("*.md"), *pages} if path.exists()}
    stale = {path for path, text in pages.items() if there.get(path) != text}
    gone = set() if options.family else there.keys() - pages.keys()
    if options.check:
        for path in sorted(stale | gone):
            print(f"{path.relative_to(ROOT)} is not up to date: run make docs")
        return 1 if stale | gone else 0  # images depend on the version of Pillow, and are not compared
    for folder in (OUT, IMAGES):
        folder.mkdir(parents=True, exist_ok=True)
    for path in gone:
        path.unlink()
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
    for path, image in images.items():
        path.write_bytes(image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
