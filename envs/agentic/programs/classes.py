"""Classes with a state, of level 5: a core with several methods, and slots that hold one of several rules each.

The rules of a class meet: a transfer is a withdrawal and a deposit, and a cancelled booking lets a refused one in. A
signature is the core with the rules in its slots.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlvr.envs.agentic.programs.structure import Allowed, Family, renamed


class Fill(NamedTuple):
    """What fills a slot, a rule: what it says, and its lines in the holes of the core's source that it fills."""

    name: str
    text: str
    holes: Mapping[str, str] = {}
    parameters: Mapping[str, Allowed] = {}


class Core(NamedTuple):
    """A class with holes.

    Attributes:
        entry: its name.
        text: what it is, and what its methods do; ``{slot}`` stands for the sentence of the slot's rule.
        source: with lines ``#hole`` that rules fill, or that are left out.
        slots: the rules that may fill each slot.
        parameters: those that any rules need.
    """

    entry: str
    text: str
    source: str
    slots: Mapping[str, Sequence[Fill]]
    parameters: Mapping[str, Allowed] = {}


_STATE = "copy.deepcopy({name: value for name, value in vars(self).items() if name != 'marks'})"
_MARK = f"""
def mark(self):
    self.marks.append({_STATE})"""
_BACK = """
    return len(self.marks)

def back(self):
    if not self.marks:
        return False
    vars(self).update(self.marks.pop())
    return True"""
# What every core has beside its own slots.
HISTORY = (
    Fill(
        "nested",
        "- mark() remembers the state of the whole object, and returns how many marks there are then.\n"
        "- back() restores the state that the last mark remembered, uses that mark up, and returns True; without a "
        "mark it returns False.",
        {"import": "import copy\n", "state": "self.marks = []", "history": _MARK + _BACK},
    ),
    Fill(
        "limited",
        "- mark() remembers the state of the whole object, and forgets the oldest mark if there are more than $depth "
        "then. It returns how many marks there are.\n"
        "- back() restores the state that the last mark remembered, uses that mark up, and returns True; without a "
        "mark it returns False.",
        {
            "import": "import copy\n",
            "state": "self.marks = []",
            "history": f"{_MARK}\n    self.marks = self.marks[-$depth:]{_BACK}",
        },
        {"depth": (2, 3)},
    ),
    Fill(
        "repeated",
        "- mark() remembers the state of the whole object in place of what was remembered before, and returns None.\n"
        "- back() restores the state that is remembered, as often as it is called, and returns True; it returns False "
        "if nothing is remembered.",
        {
            "import": "import copy\n",
            "state": "self.marks = None",
            "history": f"\ndef mark(self):\n    self.marks = {_STATE}\n\ndef back(self):\n    if self.marks is None:\n"
            "        return False\n    vars(self).update(copy.deepcopy(self.marks))\n    return True",
        },
    ),
)


def slots_of(core: Core) -> Mapping[str, Sequence[Fill]]:
    """The slots of a core, that of its history among them."""
    return {**core.slots, "history": HISTORY}


def _with_holes_filled(source: str, holes: Mapping[str, Sequence[str]]) -> str:
    """The source with lines for each ``#hole``, and a blank line before each method but the first."""
    lines: list[str] = []
    for line in source.strip("\n").split("\n"):
        code = line.strip()
        if code.startswith("#"):
            lines += [textwrap.indent(filling, line[: len(line) - len(code)]) for filling in holes.get(code[1:], ())]
        else:
            lines += ([""] if code.startswith("def ") and len(lines) > 1 else []) + [line]
    return "\n".join(lines) + "\n"


def class_family(core: Core, rules: Mapping[str, Fill]) -> Family:
    """The family of classes of a core with a rule in each slot."""
    text, holes, parameters = f"{core.text}\n{{history}}", dict[str, list[str]](), dict(core.parameters)
    for slot, rule in rules.items():
        parameters |= {f"{name}_{slot}": allowed for name, allowed in rule.parameters.items()}
        text = text.replace(f"{{{slot}}}", renamed(rule.text, rule.parameters, f"_{slot}"))
        for hole, code in rule.holes.items():
            holes.setdefault(hole, []).append(renamed(code, rule.parameters, f"_{slot}"))
    return Family(
        ":".join((core.entry, *(f"{slot}_{rule.name}" for slot, rule in rules.items()))),
        core.entry,
        "\n".join(line.rstrip() for line in text.split("\n")),
        parameters,
        (core.entry,),
        _with_holes_filled(f"#import\n{core.source.strip()}\n    #history", holes),
        core.entry,
    )
