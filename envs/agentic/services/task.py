"""Service: serve the customers of twelve kinds of services by their rules, through their tools.

Worlds are compiled from typed schemas: a domain's entities, actions and rules, of which each world has another part.
Rules are written once: they are the policy that is read, what some tools check, and what is judged.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlvr.envs.agentic.services.cases import SIZES, new_case
from rlvr.envs.agentic.services.customer import answer
from rlvr.envs.agentic.services.desk import desk_of
from rlvr.envs.agentic.services.visit import ANSWERED, OPERATED, ServiceVisit
from rlvr.envs.agentic.services.world import DOMAINS, VARIANTS, policy, world
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.tools import Call, Session, instructions, read_calls, write_call
from rlvr.envs.tools.calls import Reading
from rlvr.envs.tools.tool import MAX_OUTPUT, example_call, named, shown
from rlvr.envs.tools.turn import carry_out, require_call_settings

SPOKE: Final = Verdict(0.0, "partial", reason="spoke to the customer")
MAX_MESSAGE: Final = 4_000  # characters of a message that are read
BUDGETS: Final = ((12, 8), (20, 14), (44, 30), (64, 44), (96, 64))  # calls and messages of each level


class Service(Task[Session[ServiceVisit]]):
    """Serve a customer of a made-up service by its rules, through its tools, until the case is closed.

    Levels 1 to 5: one request of an identified customer; one whose customer and record have to be asked for; two, with
    amounts, questions and refusals; up to three, with corrections, pressure and other teams; up to four in a world of
    many entities and rules.

    Observation: at first the rules, the tools and the customer's words; then what each call gave, or what the customer
    answers.
    Actions: a call of one of the world's tools; any other text is said to the customer.
    Reward: 1 if, when the case is closed, the database, the refusals and the hand-overs are as the rules and the
    requests demand, and nothing was done before the customer agreed to it; else 0.
    Episode end: ``close_case``, or the turns are used up.

    Args:
        domains: whose worlds are played; all of the split if None.
        tool_style, tools_in: see ``ToolTask``; each world has tools of its own.
        max_output: characters of a call's output that are shown.
    """

    levels = len(SIZES)

    def __init__(
        self,
        *,
        domains: tuple[str, ...] | list[str] | None = None,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_output: int = MAX_OUTPUT,
    ) -> None:
        require_call_settings(tool_style, tools_in)
        if max_output < 1:
            raise ValueError(f"max_output must be at least 1, got {max_output}")
        self.domains: tuple[str, ...] = DOMAINS if domains is None else tuple(domains)
        if isinstance(domains, str) or not self.domains or not set(self.domains) <= set(DOMAINS):
            raise ValueError(f"domains={domains!r} must be a list of some of {', '.join(DOMAINS)}")
        self.tool_style, self.tools_in, self.max_output = tool_style, tools_in, max_output
        example = write_call(Call("tool_name", {"argument": 1}), tool_style, ("argument",))
        form = f"To call a tool, write for example\n{example}\nand nothing after it; its output comes back to you. "
        self.system = (
            f"You are a service desk. You get its rules, its tools and what a customer says. "
            f"{form if tools_in == 'system' else ''}Whatever is not a call is said to the customer, in plain text."
        )

    # the task

    def start(self, rng: random.Random, level: int) -> Session[ServiceVisit]:
        """A world of the level, and a case in it."""
        chosen = world(rng.choice(self.domains), level, rng.randrange(VARIANTS))
        visit = new_case(random.Random(rng.getrandbits(64)), chosen, SIZES[level - 1])
        return Session(visit, "", 0, BUDGETS[level - 1][0])

    def content(self, state: Session[ServiceVisit]) -> str:
        """The world's schema graph: a split has worlds that no other has."""
        return state.world.case.world.signature

    def turns(self, level: int) -> int:
        """The calls and the messages."""
        return sum(BUDGETS[level - 1])

    def difficulty(self, state: Session[ServiceVisit]) -> float:
        """Rules and tools of the world, times the customer's requests."""
        case = state.world.case
        return float((len(case.world.rules) + len(desk_of(case.world.key).tools)) * len(case.wishes))

    def observe(self, state: Session[ServiceVisit]) -> str:
        """At first the desk, its rules, its tools and the customer's words; then a tool's output or an answer."""
        if state.observation or state.world.steps:
            return state.observation
        case = state.world.case
        desk = desk_of(case.world.key)
        tools = instructions(tuple(desk.tools.values()), self.tool_style).rpartition("\nTo call one")[0]
        shown_here = f"{tools}\n\n" if self.tools_in == "system" else ""
        caller = "" if case.world.size.identify else f"The caller is identified: {case.world.person} {case.owner}.\n"
        return (
            f"This is {case.world.domain.desk}.\n\nRules\n{policy(case.world)}\n\n"
            f"{shown_here}{caller}Customer: {case.opening}"
        )

    def apply(self, state: Session[ServiceVisit], action: str) -> Transition:
        """Carries out the calls of an action in order; without any, the customer answers. A closed case is judged."""
        visit = state.world._replace(steps=state.world.steps + 1)
        desk = desk_of(visit.case.world.key)
        names = {each.name: each.names for each in desk.tools.values()}
        reading = read_calls(action, self.tool_style, names)
        if not reading.calls and not reading.problem:
            visit, text = answer(visit, shown(visible_text(action)[:MAX_MESSAGE], MAX_MESSAGE))
            return Transition(state._replace(world=visit, observation=f"Customer: {text}"), SPOKE)
        return self._called(state, visit, reading)

    def _called(self, state: Session[ServiceVisit], visit: ServiceVisit, reading: Reading) -> Transition:
        tools = desk_of(visit.case.world.key).tools

        def use(call: Call) -> str:
            nonlocal visit
            if visit.closed:
                return "the case is closed"
            tool = named(call.name, tools)
            result = tool.function(visit, **tool.check(call.arguments))
            visit, text = (visit, result) if isinstance(result, str) else result
            return str(text)

        result = carry_out(reading, state.calls, state.budget, use, self.max_output)
        state = state._replace(world=visit, observation=result.output, calls=result.calls)
        if visit.closed:
            return Transition(state, judged(visit), terminated=True)
        return Transition(state, result.verdict, role="tool")

    def solve(self, state: Session[ServiceVisit]) -> str:
        """The next step of the case's plan, in the task's style of calls."""
        visit = state.world
        name, arguments = visit.case.plan[min(visit.steps, len(visit.case.plan) - 1)]
        if not name:
            return str(arguments[0][1])
        tool = desk_of(visit.case.world.key).tools[name]
        return write_call(Call(name, dict(arguments)), self.tool_style, tool.names)

    def sample_action(self, state: Session[ServiceVisit], rng: random.Random) -> str:
        """A call of a random tool with small arguments, or a few words."""
        tools = desk_of(state.world.case.world.key).tools
        drawn = rng.choice([*tools.values(), None])
        if drawn is None:
            return rng.choice(("What is your name and postcode?", "Which one is it?", "Is there anything else?"))
        arguments: dict[str, Any] = {name: str(rng.randint(0, 9)) for name in drawn.names}
        return write_call(Call(drawn.name, arguments), self.tool_style, drawn.names)

    def tool_schemas(self, state: Session[ServiceVisit]) -> Sequence[Mapping[str, Any]] | None:
        """The tools of the state's world, where a template shows them."""
        tools = desk_of(state.world.case.world.key).tools.values()
        return None if self.tools_in == "system" else [each.schema() for each in tools]

    def form_example(self, state: Session[ServiceVisit]) -> str | None:
        """A call of the world's first tool; None where a template shows the form."""
        if self.tools_in != "system":
            return None
        return example_call(next(iter(desk_of(state.world.case.world.key).tools.values())), self.tool_style)

    def out_of_turns(self, state: Session[ServiceVisit], turns: int) -> Verdict:
        """Wrong: the case is still open."""
        return wrong(reason=f"the case was not closed within {turns} turns")


def judged(visit: ServiceVisit) -> Verdict:
    """The verdict on a closed case: every condition must hold, and none outweighs another."""
    case = visit.case
    if visit.offences:
        return wrong(reason=visit.offences[0])
    if case.world.ledger.digest(visit.tables, case.numbers) != case.expected:
        return wrong(reason="the database is not as the rules and the requests demand")
    if tuple(sorted(visit.log, key=repr)) != case.entries:
        return wrong(reason="the refusals and hand-overs are not those that the rules demand")
    decided = [record for _, record, _ in case.entries]
    decided += [wish.record for wish in case.wishes if wish.outcome == ANSWERED]
    if unseen := [record for record in decided if record and record not in visit.looked]:
        return wrong(reason=f"decided or answered without looking at {unseen[0]}")
    if len(visit.settled) < len(case.wishes):
        return wrong(reason="not all that the customer wanted was dealt with")
    if any(wish.outcome == OPERATED for wish in case.wishes) and case.world.domain.device:
        settings = zip(visit.device, case.world.domain.device.settings, strict=True)
        if any(now != values[0] for (_, now), (_, values) in settings):
            return wrong(reason="the customer's device is not set as it should be")
    if (case.world.size.confirm or case.entries) and not visit.finished:
        return wrong(reason="the case was closed before the customer had nothing more to say")
    return correct(reason="served by the rules")
