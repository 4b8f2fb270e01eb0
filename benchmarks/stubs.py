"""Writes what type checkers and editors see of names that are made, or loaded, when they are used.

`algorithms/__init__.pyi` has the names of the package; `recipe/choice_changes.pyi` what `Preset.replace` takes.

    python benchmarks/stubs.py [--check]

`make docs` calls it. The names, where they are and the signature of the presets' losses are read from the package.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from dataclasses import fields
from pathlib import Path

import rlvr.algorithms as package
from rlvr.algorithms.losses import named

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "algorithms"
HEAD = """\
# Made by `python benchmarks/stubs.py`.
from typing import Protocol

"""
LOSS = '''

class PresetLoss(Protocol):
    """The loss of one preset; `rlvr.algorithms.losses.named` says what the arguments are."""

    def __call__(
        self,
{parameters}
    ) -> {returns}: ...

'''


CHANGES = '''\
# Made by `python benchmarks/stubs.py`.
from collections.abc import Callable, Sequence
from typing import TypedDict

from rlvr.algorithms import Advantage, Aggregation, ClipRule, Correction, EpisodeFilter
from rlvr.algorithms.core.lazy_torch import Tensor

class ChoiceChanges(TypedDict, total=False):
    """Choices to replace; an object or a function may stand in the place of its name."""

'''
OBJECTS = {  # what a choice takes beside what it is in the end
    "advantage": "str | Advantage | Callable[..., Tensor]",
    "clip": "str | ClipRule",
    "aggregation": "str | Aggregation",
    "filters": "Sequence[str | EpisodeFilter]",
}


def choice_changes() -> str:
    """The text of the stub of `Preset.replace`'s arguments."""
    lines = (f"    {each.name}: {OBJECTS.get(each.name, each.type)}\n" for each in fields(package.Choices))
    return CHANGES + "".join(lines)


def stub() -> str:
    """The text of the stub of the package."""
    imports = {"core.lazy_torch": ("Numbers", "Tensor")}  # of the losses' signature, not offered here
    text = HEAD + "".join(line(module, names, again=False) for module, names in imports.items())
    text += "".join(line(module, names, again=True) for module, names in sorted(package._EXPORTS.items()))
    names = named.named_losses()
    signature = inspect.signature(getattr(package, names[0]))
    listed, by_name = "", False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            listed, by_name = f"{listed}        *,\n", True
        default = "" if parameter.default is parameter.empty else " = ..."
        listed += f"        {parameter.name}: {parameter.annotation}{default},\n"
    text += LOSS.format(parameters=listed.rstrip("\n"), returns=signature.return_annotation)
    text += "".join(f"{name}: PresetLoss\n" for name in names)
    listed = "".join(f'    "{name}",\n' for name in package.__all__)
    return f"{text}\n__all__ = [\n{listed}]\n"


def line(module: str, names: tuple[str, ...], *, again: bool) -> str:
    """An import; ``again`` for names that the package offers itself."""
    listed = "".join(f"    {name} as {name},\n" if again else f"    {name},\n" for name in sorted(names))
    return f"from rlvr.algorithms.{module} import (\n{listed})\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say whether it is up to date")
    check = parser.parse_args().check
    stubs = {FOLDER / "__init__.pyi": stub(), FOLDER / "recipe" / "choice_changes.pyi": choice_changes()}
    stale = [path for path, text in stubs.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date; run: make docs", file=sys.stderr)
        else:
            path.write_text(stubs[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
