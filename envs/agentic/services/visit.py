"""A visit: who calls and what they want (hidden), and what has happened so far."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.services.tables import Deed, Tables
from rlvr.envs.agentic.services.world import ServiceWorld

DONE: Final = "done"
DECLINED: Final = "declined"
HANDED_OVER: Final = "handed over"
WITHDRAWN: Final = "withdrawn"  # the customer says no once the amount is named
ANSWERED: Final = "answered"
OPERATED: Final = "operated"  # the customer's own device works again


class Slot(NamedTuple):
    """A fact that the customer gives when a question has one of its words.

    Attributes:
        value: as it must be read back; the number of the record for the first slot of a request.
        mistaken: what is said at first, and its value, until it is corrected; both "" if nothing is.
        open: whether the first words of the request have it.
        spoken: how a value may be read back instead, such as the name of what a number refers to.
    """

    words: tuple[str, ...]
    answer: str
    value: str
    label: str
    mistaken: tuple[str, str] = ("", "")
    open: bool = False
    spoken: str = ""


class Wish(NamedTuple):
    """One request of the customer, and what serving it by the rules leads to.

    Attributes:
        outcome: one of the words above.
        reply: the value that the customer wants to hear, for ANSWERED; ``others`` are the other choices that there are.
        rule: the number of the rule that forbids it, for DECLINED.
        team: whom it is handed over to, for HANDED_OVER.
        slots: the record first (unless the person is the record), then the arguments that the customer knows.
        pushes: what is said against a refusal, one after the other.
    """

    words: str
    action: str
    record: int
    arguments: tuple[tuple[str, Any], ...]
    outcome: str
    reply: str = ""
    others: tuple[str, ...] = ()
    rule: int = 0
    team: str = ""
    slots: tuple[Slot, ...] = ()
    pushes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The wish as the customer says it."""
        return f"I have a question: {self.words}" if self.words.endswith("?") else f"I would like to {self.words}."


class Case(NamedTuple):
    """All that is fixed when a visit begins.

    Attributes:
        owner: the number of the person who calls, or says so.
        numbers: of the rows that there are at first.
        expected: the digest of the tables that serving the customer by the rules leads to.
        entries: the refusals and hand-overs that it takes, as the log has them, sorted.
        identity: what the customer says of themself.
        mood: "plain", "curt" (answers one question at a time) or "chatty".
        device: the settings of the customer's device at first.
        plan: the expert's steps: a tool and its arguments, or "" and a message.
    """

    world: ServiceWorld
    owner: int
    numbers: frozenset[int]
    expected: str
    entries: tuple[tuple[str, int, Any], ...]
    opening: str
    identity: tuple[Slot, ...]
    wishes: tuple[Wish, ...]
    mood: str
    device: tuple[tuple[str, str], ...]
    plan: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]

    def __repr__(self) -> str:
        return f"Case({self.world.key}, {self.expected[:12]}, {self.opening!r})"


class ServiceVisit(NamedTuple):
    """A case and what has happened: all of it that can change.

    Attributes:
        log: refusals and hand-overs.
        current: the index of the wish that is talked about.
        answered: (wish, slot) that the customer has given, and the first of them corrected.
        agreed: the wishes for which the customer has said yes.
        settled: the wishes that are dealt with in one way or another.
        pushed: how often the customer has spoken against the refusal of the current wish.
        finished: whether the customer has said that this was all.
        identified: whether the desk has identified the person who calls.
        looked: the records that were looked at.
        offences: what was done that the rules forbid whatever comes after.
        steps: how many actions there were; the expert counts them.
    """

    case: Case
    tables: Tables
    device: tuple[tuple[str, str], ...] = ()
    log: tuple[tuple[str, int, Any], ...] = ()
    current: int = 0
    answered: tuple[tuple[int, int], ...] = ()
    corrected: tuple[tuple[int, int], ...] = ()
    agreed: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    pushed: int = 0
    finished: bool = False
    identified: bool = False
    looked: tuple[int, ...] = ()
    offences: tuple[str, ...] = ()
    closed: bool = False
    steps: int = 0

    @property
    def wish(self) -> Wish:
        """The wish that is talked about."""
        return self.case.wishes[self.current]

    def settle(self, index: int) -> ServiceVisit:
        """The visit in which a wish is dealt with."""
        return self if index in self.settled else self._replace(settled=(*self.settled, index))

    def offend(self, offence: str) -> ServiceVisit:
        """The visit with one more offence."""
        return self._replace(offences=(*self.offences, offence))

    def matching(self, record: int, action: str = "") -> int | None:
        """The first wish that is not dealt with and is about a record (and an action, if one is named)."""
        for index, wish in enumerate(self.case.wishes):
            if index not in self.settled and wish.record == record and action in ("", wish.action):
                return index
        return None


def shown_value(value: Any, form: str) -> str:
    """A value as tools and customers write it."""
    return f"day {value}" if form == "day" else str(value)


def violations(world: ServiceWorld, tables: Tables, deed: Deed, caller: int) -> list[int]:
    """The numbers of the rules that forbid a deed."""
    own = next(rule.number for rule in world.rules if not rule.actions and rule.prose.startswith("Change only"))
    broken = [own] if deed.owner != caller else []
    for rule in world.rules:
        if rule.bound and deed.action.name in rule.actions and not world.ledger.holds(tables, deed, rule.bound):
            broken.append(rule.number)
    return broken


def computed_amount(world: ServiceWorld, tables: Tables, deed: Deed) -> int | None:
    """The amount that the rules demand for a deed; None if its action has none."""
    rule = world.amounts.get(deed.action.name)
    if rule is None:
        return None
    better = rule.better is not None and world.ledger.holds(tables, deed, rule.better)
    if not rule.base:
        return 0 if better else rule.number
    base = int(world.ledger.read(tables, deed, rule.base) or 0)
    return base if better else base * rule.number // 100
