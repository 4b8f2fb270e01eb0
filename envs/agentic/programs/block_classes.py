"""Classes of level 5 whose methods are chains of the typed blocks: a list that is kept, changed and looked at.

The rules meet: where an element goes in decides what leaves, and a list that is too long is changed by its own method.
A signature is the class, the rules in its slots and the blocks of its methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlvr.envs.agentic.programs.classes import HISTORY, Core, Fill, class_family
from rlvr.envs.agentic.programs.structure import TYPES, CodeBlock, Family


class Kept(NamedTuple):
    """What a class keeps: the type of its list, the arguments of ``add``, and the element that is made of them."""

    type: str
    arguments: str
    element: str


COLLECTIONS: Mapping[str, Kept] = {
    "Numbers": Kept("numbers", "number", "number"),
    "Words": Kept("words", "word", "word"),
    "Pairs": Kept("pairs", "name, points", "[name, points]"),
    "Spans": Kept("spans", "start, end", "[start, end]"),
    "Groups": Kept("groups", "group", "list(group)"),
}
SINGULAR = {"numbers": "number", "words": "word", "pairs": "pair", "spans": "span", "groups": "group"}

# %list is the name of the list, %one that of an element, %made the element as it is made of the arguments.
RULES: Mapping[str, Sequence[Fill]] = {
    "enter": (
        Fill("end", "puts the %one behind the others.", {"enter": "self.%list.append(%made)"}),
        Fill("front", "puts the %one in front of the others.", {"enter": "self.%list.insert(0, %made)"}),
        Fill(
            "once", "puts the %one behind the others, unless one that is equal to it is there.",
            {"enter": "if %made not in self.%list:\n    self.%list.append(%made)"},
        ),
        Fill(
            "again", "takes out the first %one that is equal to the new one, if there is one, and then puts the new "
            "one behind the others.",
            {"enter": "if %made in self.%list:\n    self.%list.remove(%made)\nself.%list.append(%made)"},
        ),
    ),
    "full": (
        Fill("plain", ""),
        Fill(
            "refuse", "If there are $most already, nothing changes. ",
            {"before": "if len(self.%list) >= $most:\n    return len(self.%list)"}, {"most": (3, 4)},
        ),
        Fill(
            "overflow", "If there are more than $most then, change() is called. ",
            {"full": "if len(self.%list) > $most:\n    self.change()"}, {"most": (2, 3, 4)},
        ),
        Fill(
            "nth", "The calls of add are counted from 1; each whose number is divisible by $every calls change(). ",
            {"state": "self.calls = 0", "full": "self.calls += 1\nif self.calls % $every == 0:\n    self.change()"},
            {"every": (2, 3)},
        ),
    ),
    "leave": (
        Fill("first", "the first", {"leave": "return self.%list.pop(0)"}),
        Fill("last", "the last", {"leave": "return self.%list.pop()"}),
        Fill(
            "middle", "the one at half their number, rounded down, counted from 0,",
            {"leave": "return self.%list.pop(len(self.%list) // 2)"},
        ),
    ),
    "history": HISTORY,
}  # fmt: skip
TEXT = """It keeps %kept, empty at first.
- add(%arguments) {enter} {full}It returns how many there are then.
- take() takes out {leave} and returns it; None if there are none.
- change() replaces the list by what comes of these steps: %changes It returns how many there are then.
- view() changes nothing. It does this with the %list: %views"""
SOURCE = """
class %entry:
    def __init__(self):
        self.%list = []
        #state
    def add(self, %arguments):
        #before
        #enter
        #full
        return len(self.%list)
    def take(self):
        if not self.%list:
            return None
        #leave
    def change(self):
        %list = self.%list
        #change
        self.%list = %list
        return len(self.%list)
    def view(self):
        %list = self.%list
        #view
        return %gives
"""


def _with_names(template: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        template = template.replace(f"%{name}", value)
    return template


def _block_rule(block: CodeBlock, hole: str, last: bool) -> Fill:
    """A block as the rule of a slot: a step of ``change`` or of ``view``, whose last one says what is returned."""
    is_result = not block.text[0].isupper()
    if is_result:
        text = f"Return {block.text}."
    else:
        text = f"{block.text} Return {TYPES[block.gives][1]}." if last and hole == "view" else block.text
    return Fill(block.name, text, {hole: block.code}, block.parameters)


def collection_family(entry: str, rules: Mapping[str, str], blocks: Mapping[str, CodeBlock]) -> Family:
    """The family of classes with a rule or a block, by name, in each slot: change1, change2 …, view1, view2 …

    The kind is the class with the frames of its blocks and what calls ``change``.
    """
    kept = COLLECTIONS[entry]
    steps = {slot: blocks[name] for slot, name in rules.items() if slot not in RULES}
    views = [slot for slot in steps if slot.startswith("view")]
    names = {
        "kept": TYPES[kept.type][0],
        "arguments": kept.arguments,
        "list": kept.type,
        "one": SINGULAR[kept.type],
        "made": kept.element,
        "entry": entry,
        "changes": " ".join(f"{{{slot}}}" for slot in steps if slot not in views),
        "views": " ".join(f"{{{slot}}}" for slot in views),
        "gives": steps[views[-1]].gives,
    }
    fills = {}
    for slot, name in rules.items():
        if slot in steps:
            fills[slot] = _block_rule(steps[slot], slot.rstrip("12"), slot == views[-1])
        else:
            rule = next(rule for rule in RULES[slot] if rule.name == name)
            holes = {hole: _with_names(code, names) for hole, code in rule.holes.items()}
            fills[slot] = rule._replace(text=_with_names(rule.text, names), holes=holes)
    family = class_family(Core(entry, _with_names(TEXT, names), _with_names(SOURCE, names), {}), fills)
    return family._replace(kind=":".join((entry, *(f"{slot}_{block.frame}" for slot, block in steps.items()))))
