"""A kind of instruction is one object: how it is said, which arguments it takes, the check, how the expert obeys it.

Two kinds contradict each other, and never hold together, where both fix the same feature of the text, or one needs a
feature as it is that the other fixes or adds to. What the features leave open the expert decides: a composition that
it cannot write is no task.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rlvr.envs.instructions.draft import TextDraft
from rlvr.envs.instructions.language import Language
from rlvr.envs.instructions.text import Brief, WrittenText

Args = tuple[int | str, ...]
FEATURES = frozenset(
    "words sentences paragraphs top end case wrap ends starts order lines stars brackets language quotes mottos "
    "date time price seats venue marks".split()
)


class Instruction(NamedTuple):
    """A kind by its name, and its arguments."""

    kind: str
    args: tuple[int | str, ...] = ()


class Scene(NamedTuple):
    """What arguments are drawn for; ``plain`` is a text that obeys no instruction."""

    rng: random.Random
    brief: Brief
    language: Language
    plain: WrittenText

    def fact(self, name: str) -> str:
        """The value of a fact of the brief; empty where it has none."""
        return dict(self.brief.facts).get(name, "")

    def holds(self, value: str) -> bool:
        """Whether it is the value of a fact, or was."""
        return value in {each for _, each in (*self.brief.facts, *self.brief.outdated)}


def no_write(draft: TextDraft, *args: object) -> None:
    """For kinds that say what the draft is already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InstructionKind:
    """See the module.

    Attributes:
        name: as verdicts and tests call it.
        says: the sentence in each language, with ``{0}``, ``{1}`` for the arguments.
        sample: draws the arguments; None where the scene allows none.
        check: whether a text obeys.
        write: changes a draft so that its text obeys.
        fixes, adds, needs: features, see the module.
        unwrap: of a kind that puts the text into a form of its own: the text inside; None where the form is broken.
            All other instructions are about the text inside.
        easy: whether the first level has it.
        codes: languages that it is used in.
    """

    name: str
    says: Mapping[str, str]
    sample: Callable[[Scene], Args | None] = lambda scene: ()
    check: Callable[..., bool] = lambda text, *args: True
    write: Callable[..., None] = no_write
    fixes: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    unwrap: Callable[[str], str | None] | None = None
    easy: bool = False
    codes: frozenset[str] = field(default_factory=lambda: frozenset({"en", "de", "fr", "es", "it", "pt"}))

    def clashes(self, other: InstructionKind) -> bool:
        """Whether the two contradict each other."""
        touched, others = self.fixes | self.adds, other.fixes | other.adds
        return self is other or bool(self.fixes & other.fixes or self.needs & others or other.needs & touched)


def kind(
    name: str,
    *,
    en: str,
    de: str,
    fr: str,
    es: str,
    it: str,
    pt: str,
    check: Callable[..., bool] = lambda text, *args: True,
    write: Callable[..., None] = no_write,
    sample: Callable[[Scene], Args | None] = lambda scene: (),
    fixes: str = "",
    adds: str = "",
    needs: str = "",
    unwrap: Callable[[str], str | None] | None = None,
    easy: bool = False,
    without: str = "",
) -> InstructionKind:
    """A kind, with its sentences by language and its features in words.

    Args:
        without: codes of languages that it is not used in.

    Raises:
        ValueError: a feature is unknown.
    """
    features = [frozenset(each.split()) for each in (fixes, adds, needs)]
    if unknown := frozenset().union(*features) - FEATURES:
        raise ValueError(f"{name}: unknown features {sorted(unknown)}")
    says = {"en": en, "de": de, "fr": fr, "es": es, "it": it, "pt": pt}
    return InstructionKind(
        name=name,
        says=says,
        sample=sample,
        check=check,
        write=write,
        fixes=features[0],
        adds=features[1],
        needs=features[2],
        unwrap=unwrap,
        easy=easy,
        codes=frozenset(says) - frozenset(without.split()),
    )
