"""Installed distributions as raw material: which may be used, their modules, and parts of them that stand alone."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from email.message import Message
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from typing import Final, NamedTuple, cast

PERMISSIVE: Final = re.compile(
    r"\(?(MIT([ -]License|-0)?|(0|New |Modified )?BSD([ -](License|\d-Clause))?"
    r"|Apache([ -]\d(\.\d)?)?( ?Software)?( License)?( \d(\.\d)?)?|ISC( License)?( \(ISCL\))?|PSF(-2\.0)?"
    r"|Python( Software Foundation License|-2\.0)|(The )?Unlicense( \(Unlicense\))?|Zlib|CC0-1\.0)\)?",
    re.IGNORECASE,
)
EXAMPLES: Final = 6  # prompts of examples that a module needs to be asked of
MAX_PACKED: Final = 75_000  # characters of a part's sources as the grader packs them
MAX_TEXT: Final = 400_000  # characters of a part's sources
_NO_MATERIAL: Final = re.compile(
    r"(^|/)(tests?|testing|_?vendor\w*|benchmarks?)/|(^|/)(test_\w*|conftest|__main__)\.py$"
)
_IMPORT: Final = re.compile(
    r"^(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n\\]*(?:\\\n[^\n\\]*)*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)
_EXTENSIONS: Final = (".so", ".pyd", ".dylib", ".dll")


class Distribution(NamedTuple):
    """An installed distribution.

    Attributes:
        licence: the text of it.
        sources: the modules' texts by dotted names, a package's own as ``name.__init__``.
        parts: for each module with enough examples, itself and all that it imports, where that is not too large; those
            with the most examples first.
    """

    name: str
    version: str
    licence: str
    sources: Mapping[str, str]
    parts: Mapping[str, tuple[str, ...]]


def _parts(sources: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    counts = {name: text.count(">>> ") for name, text in sources.items()}
    for target in sorted((name for name in counts if counts[name] >= EXAMPLES), key=lambda name: (-counts[name], name)):
        # where the packages above a module import too much, they are left out: the part is the modules alone
        names = _closure(sources, target, above=True) or _closure(sources, target, above=False)
        if names:
            yield target, tuple(names)


def _closure(sources: Mapping[str, str], target: str, above: bool) -> list[str] | None:
    names, total = [target], 0
    for name in names:
        total += len(sources[name])
        if total > MAX_TEXT:
            return None
        wanted = imports(sources, name)
        if above:
            parents = [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]
            wanted += [f"{parent}.__init__" for parent in parents if f"{parent}.__init__" in sources]
        names += [other for other in dict.fromkeys(wanted) if other not in names]
    packed = base64.b64encode(zlib.compress(json.dumps({name: sources[name] for name in names}).encode(), 6))
    return names if len(packed) <= MAX_PACKED else None


def imports(sources: Mapping[str, str], module: str) -> list[str]:
    """The modules of the same package whose imports stand at the left margin of a module."""
    package, top = module.rpartition(".")[0], module.partition(".")[0]
    files: list[str | None] = []
    for level, stem, names in _imported(sources[module]):
        base = ".".join(package.split(".")[: package.count(".") + 2 - level]) if level else ""
        base = ".".join(filter(None, (base, stem)))
        inner = [_file(sources, f"{base}.{name}") for name in names]
        files += [*([_file(sources, base)] if None in inner or not inner else []), *inner]
    return [file for file in files if file is not None and file != module and file.partition(".")[0] == top]


def _file(sources: Mapping[str, str], name: str) -> str | None:
    return next((file for file in (name, f"{name}.__init__") if file in sources), None)


@lru_cache(maxsize=4096)
def _imported(source: str) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """Of each import: how many packages up, from where, and what; nothing of a whole module."""
    rows: list[tuple[int, str, tuple[str, ...]]] = []
    for dots, stem, listed, whole in _IMPORT.findall(source):
        names = re.sub(r"#[^\n]*|[()\\]", "", whole or listed).split(",")
        plain = tuple(name.split()[0] for name in names if name.strip())
        rows += [(0, name, ()) for name in plain] if whole else [(len(dots), stem, plain)]
    return tuple(rows)


@lru_cache(maxsize=256)
def distribution(name: str) -> Distribution:
    """An installed distribution of pure Python under a permissive licence.

    Raises:
        ValueError: it is not installed, or is not of this kind; one sentence.
    """
    try:
        installed = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        raise ValueError(f"no distribution {name!r} is installed: name one that `pip list` shows") from None
    if not is_permissive(cast(Message, installed.metadata)):
        raise ValueError(f"{name} has no licence that is known to be permissive (MIT, BSD, Apache, ISC, PSF, …)")
    files = [file for file in installed.files or () if file.parts[:1] != ("..",)]
    binary = next((str(file) for file in files if file.name.endswith(_EXTENSIONS)), None)
    if binary:
        raise ValueError(f"{name} is not pure Python: it has {binary}")
    sources, licence = {}, ""
    for file in sorted(files):
        path = str(file)
        if re.search(r"dist-info/.*LICEN[CS]E", path, re.IGNORECASE) and not licence:
            licence = file.read_text(encoding="utf-8")
        names = path.removesuffix(".py").split("/")
        if not path.endswith(".py") or len(names) < 2 or _NO_MATERIAL.search(path):
            continue
        if not all(map(str.isidentifier, names)):
            continue
        try:
            sources[".".join(names)] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    parts = dict(_parts(sources))
    if not parts:
        raise ValueError(f"{name} has no module of moderate size in a package with {EXAMPLES} examples (>>>)")
    return Distribution(name, installed.version, licence, sources, parts)


def is_permissive(fields: Message) -> bool:
    """Whether the licence of a distribution's metadata permits to change and pass on: by SPDX, by trove or by name."""
    expression = fields.get("License-Expression")
    if expression:
        return any(all(PERMISSIVE.fullmatch(each.strip()) for each in re.split(" AND | WITH ", option))
                   for option in expression.split(" OR "))  # fmt: skip
    troves = [row.rpartition(" :: ")[2] for row in fields.get_all("Classifier") or [] if row.startswith("License :: ")]
    named = [row for row in troves if row != "OSI Approved"] or [str(fields.get("License") or "")]
    return all(PERMISSIVE.fullmatch(row.strip()) for row in named)


def of_split(names: tuple[str, ...], split: str) -> list[str]:
    """The distributions of a split: from three on, each is in one split alone."""
    ordered = sorted(names, key=lambda name: sha256(name.encode()).digest())
    held = max(1, len(ordered) // 5)
    if len(ordered) < 3:
        return ordered
    return {"test": ordered[:held], "validation": ordered[held : 2 * held], "train": ordered[2 * held :]}[split]
