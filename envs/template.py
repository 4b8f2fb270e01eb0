"""``rlvr new``: a package with one environment of a kind, its tests, and the entry point that makes it a plug-in."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from pathlib import Path
from typing import Final

from rlvr.envs.core.hints import did_you_mean

NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")

TEMPLATES: Final = Path(__file__).parent / "templates"  # texts with NAME, CLASS and ID in them
_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "src/NAME/__init__.py": "__init__.py",
    "tests/test_NAME.py": "test.py",
}
# Of each kind, whose task is the template of its name: the test of its expert, and settings to register it with.
KINDS: Final = {
    "single": ("expert_test.py", ""),
    "turns": ("expert_test.py", ""),
    "tools": ("expert_test.py", ""),
    "dataset": ("expert_test.py", ', data_files=str(Path(__file__).parent / "data")'),
    "players": ("players_test.py", ', game="CLASS"'),  # luck has a say: its expert does not always score 1
}


def new_package(name: str, parent: Path, kind: str = "single") -> list[Path]:
    """Write a package of this name into a new folder of ``parent``; the files written.

    Args:
        kind: what its task is: one of `KINDS`.

    Raises:
        ValueError: the name cannot be a package's, or is taken by one; there is no such kind.
        FileExistsError: the folder exists.
    """
    check_name(name)
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}{did_you_mean(kind, KINDS)}")
    folder = parent / name
    if folder.exists():
        raise FileExistsError(f"{folder} exists, and nothing in it is overwritten: choose another name or folder")
    names = {"NAME": name, "CLASS": class_name(name), "ID": env_id(name)}
    written = []
    for path, text in _files(kind).items():
        target = folder / _filled(path, names)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_filled(text, names), encoding="utf-8")
        written.append(target)
    return written


def _files(kind: str) -> dict[str, str]:
    expert_test, settings = KINDS[kind]
    files = {
        path: _template(name).replace("SETTINGS", settings).replace("EXPERT", _template(expert_test).rstrip())
        for path, name in _FILES.items()
    }
    files["src/NAME/task.py"] = _template(f"{kind}.py")
    if kind == "dataset":
        files |= {f"src/NAME/data/{split}.jsonl": _template(f"{split}.jsonl") for split in ("train", "test")}
        files["src/NAME/__init__.py"] = files["src/NAME/__init__.py"].replace(
            "\n\n\ndef", "\n\nfrom pathlib import Path\n\n\ndef", 1
        )
        files["pyproject.toml"] += '\n[tool.setuptools.package-data]\nNAME = ["data/*.jsonl"]\n'
    return files


def _template(name: str) -> str:
    return (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")


def check_name(name: str) -> None:
    """Raise ValueError unless a new package may have this name."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ValueError(f"{name!r} cannot name a package: use small letters, digits and single underscores, as my_env")
    if name in sys.stdlib_module_names or name == "rlvr" or importlib.util.find_spec(name) is not None:
        raise ValueError(f"{name!r} is the name of a module that is installed: choose another")


def class_name(name: str) -> str:
    """``MyEnv`` for ``my_env``."""
    return "".join(part.capitalize() for part in name.split("_"))


def env_id(name: str) -> str:
    """``my_env/MyEnv-v0`` for ``my_env``: a namespace of its own, so that no two packages collide."""
    return f"{name}/{class_name(name)}-v0"


def _filled(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\b(?:NAME|CLASS|ID)\b|\bCLASS(?=Game\b)|(?<=test_)NAME", lambda match: names[match[0]], text)
