"""The viewer as one HTML file: its scripts, its style and what it shows are in it, and it loads nothing.

The file's policy allows its own scripts by their SHA-256 and nothing else. What was recorded stands in a block of JSON
in which no ``<`` occurs, so that no text can end it.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from rlvr.adapters.viewer import queries
from rlvr.adapters.viewer.app import STATIC, browser_json, static_text
from rlvr.adapters.viewer.pages import Pages
from rlvr.envs.core.files import require_new, write_new

MAX_EXPORTED = 500  # episodes, unless more are asked for


def write_export(pages: Pages, path: Path, limit: int = MAX_EXPORTED, *, force: bool = False) -> tuple[int, int]:
    """Write the file with the first ``limit`` episodes; how many are in it, and how many there are.

    Args:
        force: write over a file that nothing of ours wrote as it is now.

    Raises:
        ValueError: the limit is below 1, or there is a file.
        OSError: it cannot be written.
    """
    if limit < 1:
        raise ValueError(f"an export holds at least one episode, got {limit}")
    require_new(path, force)
    data = exported(pages, limit)
    write_new(path, document(data), force)
    return len(data["rows"]), data["total"]


def exported(pages: Pages, limit: int) -> dict[str, Any]:
    """All that the pages ask for, of the first ``limit`` episodes."""
    reader = pages.index.reader
    (total,) = reader.execute("SELECT COUNT(*) FROM episodes").fetchone()
    rows = [dict(row) for row in reader.execute(f"SELECT {queries.SHOWN} FROM episodes ORDER BY id LIMIT ?", (limit,))]
    numbers = {row["id"] for row in rows}
    data: dict[str, Any] = {"rows": rows, "total": total, "episode": {}, "tokens": {}, "group": {}, "words": {}}
    for row in rows:
        number = row["id"]
        try:
            episode = pages.episode(number)
        except ValueError as error:
            raise ValueError(f"episode {number} cannot be exported: {error}") from error
        for name in ("group", "elsewhere"):
            episode[name] = [each for each in episode[name] if each["id"] in numbers]
        data["episode"][row["uid"]] = episode
        data["words"][number] = _words(episode["trace"]).lower()
        if episode["tokens"]:
            data["tokens"][row["uid"]] = pages.tokens(number)
        if len(episode["group"]) > 1:
            data["group"][row["uid"]] = pages.group(number)
    data["state"] = pages.state() | {"regrade": False, "complete": True}
    if total > len(rows):
        data["state"]["problems"].append(f"this file holds {len(rows)} of {total} episodes")
    data["evaluations"] = pages.evaluations()
    data["evaluation"] = {each["name"]: pages.evaluation(each["name"]) for each in data["evaluations"]}
    data["curves"], data["choices"], data["signs"] = pages.curves(), queries.choices(reader), pages.signs({})
    return data


def _words(trace: dict[str, Any]) -> str:
    parts = [trace.get(name, "") for name in ("env", "status", "reason", "answer", "error")]
    for message in trace.get("messages", ()):
        parts += [message["reasoning"], message["text"]]
        parts += [f"{call['name']} {call['arguments']}" for call in message["calls"]]
    return "\n".join(filter(None, parts))


def document(data: dict[str, Any]) -> str:
    """The page with everything in it."""
    style = static_text("view.css")
    scripts = [static_text(name) for name in STATIC if name.endswith(".js")]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    # ASCII, so that no character of a text is anything to the parser of HTML
    block_text = browser_json(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    parts = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<style>{style}</style>",
    ]
    page = static_text("view.html").replace("<!-- scripts -->", "".join(parts))
    block = f'<script type="application/json" id="data">{block_text}</script>'
    code = "".join(f"<script>{script}</script>" for script in scripts)
    return page.replace("</body>", f"{block}{code}</body>")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
