"""Writes `algorithms/__init__.pyi`: what type checkers and editors see of names that are made or loaded when used.

    python benchmarks/stubs.py [--check]

`make docs` calls it. The names, where they are and the signature of the presets' losses are read from the package.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

import rlvr.algorithms as package
from rlvr.algorithms.losses import named

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "algorithms" / "__init__.pyi"
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


def stub() -> str:
    """The text of the stub."""
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
    stale = not STUB.is_file() or STUB.read_text(encoding="utf-8") != stub()
    if stale and check:
        print(f"{STUB.relative_to(ROOT)} is not up to date; run: make docs", file=sys.stderr)
    elif stale:
        STUB.write_text(stub(), encoding="utf-8")
    return int(check and stale)


if __name__ == "__main__":
    raise SystemExit(main())
