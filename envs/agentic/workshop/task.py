"""Workshop: find out in a first year what holds, write it down, and plan the years that count."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.agentic.workshop import days
from rlvr.envs.agentic.workshop.days import Position, first_day, night
from rlvr.envs.agentic.workshop.draw import LEVELS, WorkshopKey, model_of
from rlvr.envs.agentic.workshop.expert import next_call, public_part
from rlvr.envs.agentic.workshop.model import WorkshopModel
from rlvr.envs.agentic.workshop.optimum import share_of_optimum
from rlvr.envs.core.task import Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.tasks.wording import in_a_row
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool, write_call
from rlvr.envs.tools.tool import MAX_OUTPUT

MAX_ROUNDS: Final = 10
MAX_NOTES: Final = 2_400  # characters
NO_CALL: Final = unparsable("a reply without a call")


class WorkshopWorld(NamedTuple):
    """Where a workshop stands; ``coins`` are those on the last evening of each year that is over."""

    key: WorkshopKey
    at: Position
    coins: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether all years are."""
        return len(self.coins) == model_of(self.key).years


Acted = tuple[WorkshopWorld, str]


def _item(model: WorkshopModel, name: str) -> int:
    for number, names in enumerate(model.items):
        if name.strip().lower() in names:
            return number
    raise ToolError(f"there is no {name.strip()[:40]!r} here, only {in_a_row(several for _, several in model.items)}")


def _working(world: WorkshopWorld) -> WorkshopModel:
    if world.over:
        raise ToolError("the last year is over")
    return model_of(world.key)


def next_day(world: WorkshopWorld) -> Acted:
    """End the day."""
    model = _working(world)
    at, coins, texts = night(model, world.at)
    if at is not None:
        world = world._replace(at=at)
        return world, " ".join([_state(model, at), *texts, *_morning(model, at)])
    texts.insert(0, f"Year {world.at.year} ends with {coins} coins.")
    world = world._replace(coins=(*world.coins, coins))
    if world.over:
        return world, " ".join(texts)
    at = first_day(model, world.at.year + 1)
    texts += [_state(model, at), model.news(at.year), *_morning(model, at)]
    return world._replace(at=at), " ".join(texts)


def look(world: WorkshopWorld) -> str:
    """The day, the purse, the store and this week's prices."""
    model, at = _working(world), world.at
    under_way = f" {model.some(at.waiting[0], model.raws[0])} under way." if at.waiting[0] else ""
    return f"{_state(model, at)}{under_way} {model.prices(at.year, model.week(at.day))}"


def _state(model: WorkshopModel, at: Position) -> str:
    store = [model.some(count, item) for item, count in enumerate(at.stock) if count]
    return f"Day {at.day} of year {at.year}: {at.money} coins; {in_a_row(store) if store else 'nothing'} in the store."


def _morning(model: WorkshopModel, at: Position) -> list[str]:
    """What is new on a day: the prices of a week, a letter, no market."""
    texts = [model.prices(at.year, model.week(at.day))] if (at.day - 1) % model.week_days == 0 else []
    if not model.market(at.day):
        texts.append(model.lesson("rest", model.rule("rest")))
    return texts + [
        f"A letter: {model.letter(each)}" for each in model.visitors if (1, each.letter) == (at.year, at.day)
    ]


def sell(world: WorkshopWorld, item: str, count: int) -> Acted:
    """Sell on the market.

    Args:
        item: what.
        count: how many pieces.
    """
    model = _working(world)
    at, text = days.sell(model, world.at, _item(model, item), count)
    return world._replace(at=at), text


def deliver(world: WorkshopWorld, name: str, count: int) -> Acted:
    """Sell to a visitor who announced that they come today.

    Args:
        name: the visitor.
        count: how many pieces.
    """
    at, text = days.deliver(_working(world), world.at, name, count)
    return world._replace(at=at), text


def buy(world: WorkshopWorld, item: str, count: int) -> Acted:
    """Buy, or order, on the market.

    Args:
        item: what.
        count: how many pieces.
    """
    model = _working(world)
    at, text = days.buy(model, world.at, _item(model, item), count)
    return world._replace(at=at), text


def make(world: WorkshopWorld, item: str, count: int) -> Acted:
    """Make pieces.

    Args:
        item: what.
        count: how many pieces.
    """
    model = _working(world)
    at, text = days.make(model, world.at, _item(model, item), count)
    return world._replace(at=at), text


def mend(world: WorkshopWorld) -> Acted:
    """Mend the tool, in place of making anything today."""
    at, text = days.mend(_working(world), world.at)
    return world._replace(at=at), text


def add_note(world: WorkshopWorld, text: str) -> Acted:
    """Write a line into your notes.

    Args:
        text: what to remember.
    """
    left = MAX_NOTES - sum(len(each) + 1 for each in world.notes)
    if len(text) + 1 > left:
        raise ToolError(f"the notes have room for {max(0, left - 1)} characters more")
    return world._replace(notes=(*world.notes, text)), f"Noted; {left - len(text) - 1} characters are left."


def read_notes(world: WorkshopWorld) -> str:
    """Read your notes."""
    return "\n".join(["Your notes:", *world.notes]) if world.notes else "There are no notes."


def clear_notes(world: WorkshopWorld) -> Acted:
    """Throw your notes away, to write others."""
    return world._replace(notes=()), "The notes are empty."


class Workshop(ToolTask[WorkshopWorld]):
    """Run a workshop for years: what the first one teaches is needed in the others.

    Levels 1 to 5: 6 days of which all is known; a year of 8 days to learn, and one that counts; 2 years of 20 days,
    with a visitor; 3 of 30; 3 of 60, about 370 calls.

    Observation: the brief; then what a call did, and in the morning the purse, the store and what is new.
    Actions: calls; a reply without one does nothing.
    Reward: at the end, the mean over the years that count of the share of the most possible gain, 0 for half of it.
    Episode end: the last evening, or the turns are used up.

    Args:
        rounds: years that count, from 1 to 10; the level decides if None.
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(LEVELS)
    task = (
        "You run a workshop day by day, through tools. Days pass only by next_day. Most things are said once: your "
        f"notes, of at most {MAX_NOTES:,} characters, are all that you can look them up in."
    )
    toolset: ClassVar[Sequence[Tool]] = tuple(
        tool(each, given=1)
        for each in (next_day, look, sell, buy, make, deliver, mend, add_note, read_notes, clear_notes)
    )

    def __init__(
        self,
        *,
        rounds: int | None = None,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        if rounds is not None and (type(rounds) is not int or not 1 <= rounds <= MAX_ROUNDS):
            raise ValueError(f"rounds must be a whole number from 1 to {MAX_ROUNDS}, got {rounds!r}")
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        self.rounds = rounds

    def begin(self, rng: random.Random, level: int) -> WorkshopWorld:
        """Draws a seed; everything else follows from it when it is needed."""
        at = Position(1, 1, 0, 0, 0, (), 0, 0, (0, 0), (False, False), 0)
        return WorkshopWorld(WorkshopKey(level, self.rounds or 0, rng.getrandbits(48)), at)

    def budget(self, level: int) -> int:
        """Some calls for each day, and some for notes."""
        each = LEVELS[level - 1]
        years = each.hidden + (self.rounds or each.rounds)
        return years * each.weeks * (each.week_days * each.calls + 2)

    def content(self, state: Session[WorkshopWorld]) -> str:
        """The key, whose split decides which rules may hold."""
        return state.world.key.content

    def difficulty(self, state: Session[WorkshopWorld]) -> float:
        """Days of all years."""
        model = model_of(state.world.key)
        return float(model.years * model.days)

    def opened(self, world: WorkshopWorld, level: int) -> Session[WorkshopWorld]:
        """The workshop is drawn when it is shown: most draws are of another split."""
        return Session(world, "", 0, self._allowed(level))

    def observe(self, state: Session[WorkshopWorld]) -> str:
        """The brief, or what the last calls did."""
        return state.observation or self.ask(state.world)

    def ask(self, world: WorkshopWorld) -> str:
        """The brief, and the first morning."""
        model = model_of(world.key)
        at = first_day(model, 1)
        morning = _morning(model, at) if model.learning else []
        return " ".join([f"{model.brief()}\n{_state(model, at)}", *morning])

    def apply(self, state: Session[WorkshopWorld], action: str) -> Transition:
        """Carries out the calls; with the last evening, or the last call, the years are judged."""
        if not state.world.at.stock:
            state = state._replace(world=state.world._replace(at=first_day(model_of(state.world.key), 1)))
        after, verdict, over, role = super().apply(state, action)
        if not over and (after.world.over or after.calls >= after.budget):
            return Transition(after, self.judge(after.world, ""), terminated=True, role=role)
        return Transition(after, verdict, over, role)

    def reply(self, state: Session[WorkshopWorld], action: str) -> Transition:
        """Nothing happens."""
        text = "That was no call: nothing was done. Days pass only by next_day."
        return Transition(state._replace(observation=text), NO_CALL)

    def judge(self, world: WorkshopWorld, reply: str) -> Verdict:
        """The mean of what the years are worth; one that is not over is worth nothing."""
        model = model_of(world.key)
        coins = dict(enumerate(world.coins, 1))
        parts = {f"year {n}": share_of_optimum(model, n, coins[n]) if n in coins else 0.0 for n in model.scored}
        reward = sum(parts.values()) / len(parts)
        if reward == 1.0:
            return correct(reason="no year could have brought more").replace(parts=parts)
        reason = f"the years that count are worth {reward:.3f} in the mean"
        return Verdict(reward, "partial", None, reason, parts) if reward else wrong(reason=reason).replace(parts=parts)

    def out_of_turns(self, state: Session[WorkshopWorld], turns: int) -> Verdict:
        """The years that are over."""
        return self.judge(state.world, "")

    def plan(self, session: Session[WorkshopWorld]) -> Call:
        """What somebody does who has read the brief, the notes and the last observation."""
        world, model = session.world, model_of(session.world.key)
        at = world.at if world.at.stock else first_day(model, 1)
        brief = model.brief()
        seen = self.observe(session)
        return next_call(public_part(model), at, "\n".join((brief, *world.notes)), seen.removeprefix(brief))

    def sample_action(self, state: Session[WorkshopWorld], rng: random.Random) -> str:
        """A call with an item of the workshop and a small number."""
        model, drawn = model_of(state.world.key), rng.choice(self.toolset)
        values = {
            "item": rng.choice(model.items)[1],
            "count": rng.randint(1, 3),
            "name": rng.choice([each.name for each in model.visitors] or ["Ada"]),
            "text": "sold some",
        }
        return write_call(Call(drawn.name, {name: values[name] for name in drawn.names}), self.tool_style, drawn.names)
