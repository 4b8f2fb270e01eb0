"""The words of the code: the table of retired words in CONTRIBUTING.md binds, and a public class has one name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("envs", "agents", "algorithms", "adapters")


def sources() -> list[Path]:
    inside = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return inside + sorted((ROOT / "src" / "rlvr").glob("*.py"))


def retired() -> list[tuple[str, frozenset[str]]]:
    """Each retired word, and the folders or files in which it means something else."""
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| retired |")[2].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        words, _, elsewhere = (cell.strip() for cell in line.strip("|").split("|"))
        allowed = frozenset(re.findall(r"`([^`]+)`", elsewhere))
        found += [(word, allowed) for word in re.findall(r"`([^`]+)`", words)]
    return found


@lru_cache(maxsize=1)
def names() -> dict[str, list[str]]:
    """Every identifier of the code, and where it stands; those inside of f-strings too."""
    found = defaultdict(list)
    for path in sources():
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            where = f"{path.relative_to(ROOT)}:{token.start[0]}"
            if token.type == tokenize.NAME:
                found[token.string].append(where)
            elif token.type == tokenize.STRING and "f" in token.string.partition(token.string[-1])[0].lower():
                for name in re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"\{([^{}]*)\}", token.string))):
                    found[name].append(where)
    return found


def uses(word: str, allowed: frozenset[str]) -> list[str]:
    """Where an identifier is this word, or has it between underscores."""
    matches = [name for name in names() if word == name or word in name.strip("_").split("_")]
    found = [f"{where} {name}" for name in matches for where in names()[name]]
    return [use for use in found if not use.startswith(tuple(allowed))]


@pytest.mark.slow
def test_the_table_of_retired_words_is_read():
    words = dict(retired())
    assert len(words) >= 10
    assert "place" in words
    assert uses("retired_by_nobody", frozenset()) == []
    assert uses("Task", frozenset())
    assert not uses("Task", frozenset({"envs/", "agents/", "algorithms/", "adapters/", "src/"}))


@pytest.mark.parametrize(("word", "allowed"), retired(), ids=[word for word, _ in retired()])
def test_a_retired_word_names_nothing(word: str, allowed: frozenset[str]):
    found = uses(word, allowed)
    assert not found, f"{word!r} is retired, see CONTRIBUTING.md for the word to use: {found[:10]}"


@pytest.mark.slow
def test_a_public_class_name_occurs_once():
    defined = defaultdict(list)
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: where for name, where in defined.items() if len(where) > 1}
    assert not twice, f"grep must find one thing: {twice}"
