"""Service worlds: rules that are written once, customers who are hard to serve, goals that only the work reaches."""

from __future__ import annotations

import random
from collections import Counter

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.agentic.service_domains import domain_named
from rlvr.envs.agentic.services import customer
from rlvr.envs.agentic.services.cases import SIZES, new_case
from rlvr.envs.agentic.services.desk import desk_of
from rlvr.envs.agentic.services.schema import Action, Domain, ValueKind, attribute, condition
from rlvr.envs.agentic.services.tables import Deed
from rlvr.envs.agentic.services.task import Service, judged
from rlvr.envs.agentic.services.visit import ServiceVisit, computed_amount, violations
from rlvr.envs.agentic.services.world import (
    DOMAINS,
    HELD_OUT_DOMAINS,
    MAX_TOOLS,
    VARIANTS,
    ServiceWorld,
    policy,
    rule_split,
    world,
)
from rlvr.envs.core.seeding import split_of
from rlvr.envs.tools import Call, write_call

LEVELS = range(1, 6)


def env_of(level: int, seed: int, **settings: object) -> TextEnv:
    env = gym.make("rlvr/Service-v0", level=level, disable_env_checker=True, **settings).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


def visit_of(env: TextEnv) -> ServiceVisit:
    visit = env.get_state().state.world
    assert isinstance(visit, ServiceVisit)
    return visit


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


def case_with(level: int, outcome: str, domain: str = "shop", seeds: int = 400) -> ServiceVisit:
    """The first case of a level with a wish of an outcome."""
    for seed in range(seeds):
        rng = random.Random(seed)
        visit = new_case(rng, world(domain, level, rng.randrange(VARIANTS)), SIZES[level - 1])
        if any(wish.outcome == outcome for wish in visit.case.wishes):
            return visit
    raise AssertionError(f"no case of level {level} in {domain} has a wish that is {outcome}")


# who earns what


def plays(level: int, seeds: range, split: str = "train") -> None:
    env = gym.make("rlvr/Service-v0", level=level, split=split, disable_env_checker=True).unwrapped
    for seed in seeds:
        env.reset(seed=seed)
        ended = False
        while not ended:
            _, reward, terminated, truncated, info = env.step(env.solve())
            ended = terminated or truncated
        assert (reward, info["verdict"].status) == (1.0, "correct"), (level, seed, info["verdict"].reason)


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_serves_every_customer(level: int) -> None:
    plays(level, range(4))


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_serves_every_customer_of_every_split(level: int, split: str) -> None:
    plays(level, range(100, 170), split)


@pytest.mark.parametrize("level", LEVELS)
def test_the_goal_is_not_met_at_the_start(level: int) -> None:
    for seed in range(10):
        visit = visit_of(env_of(level, seed))
        assert judged(visit._replace(closed=True)).reward == 0
        settled = visit._replace(settled=tuple(range(len(visit.case.wishes))), finished=True, closed=True)
        assert judged(settled).reward == 0, "the database or the log has to change"


@pytest.mark.parametrize("level", [2, 3, 4, 5])
def test_each_thing_that_the_expert_does_is_needed(level: int) -> None:
    """Without one call that changes something, or without asking for a yes, nothing is earned."""
    for seed in range(4):
        env = env_of(level, seed)
        case = visit_of(env).case
        changing = {*case.world.actions, "decline", "hand_over"}
        for left_out in [index for index, (name, _) in enumerate(case.plan) if name in changing]:
            env.reset(seed=seed)
            total = 0.0
            for index, (name, arguments) in enumerate(case.plan):
                if index == left_out:
                    continue
                text = call(name, **dict(arguments)) if name else str(arguments[0][1])
                total += env.step(text)[1]
            assert total == 0.0, (seed, left_out)


def test_a_change_before_the_yes_is_an_offence_even_if_it_is_the_right_one() -> None:
    visit = case_with(2, "done")
    name, arguments = next(step for step in visit.case.plan if step[0] in visit.case.world.actions)
    visit = visit._replace(identified=True)
    after, _ = desk_of(visit.case.world.key).tools[name].function(visit, **dict(arguments))
    assert "without" in after.offences[0]
    before, _ = desk_of(visit.case.world.key).tools[name].function(visit._replace(identified=False), **dict(arguments))
    assert "not identified" in before.offences[0]


# rules are written once


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(DOMAINS), st.integers(2, 5))
def test_what_a_tool_refuses_is_what_the_rules_forbid(seed: int, domain: str, level: int) -> None:
    rng = random.Random(seed)
    visit = new_case(rng, world(domain, level, rng.randrange(VARIANTS)), SIZES[level - 1])
    compiled, tables = visit.case.world, visit.tables
    guarded = {rule.number for rule in compiled.rules if rule.guarded}
    for action in compiled.actions.values():
        record = rng.choice(list(tables[action.on]) or [0])
        arguments = {param.name: argument(rng, param.kind, visit) for param in action.params}
        if not record or None in arguments.values():
            continue
        deed = Deed(action, record, arguments, compiled.ledger.owner(tables, action.on, record))
        forbidden = guarded.intersection(violations(compiled, tables, deed, visit.case.owner))
        function = desk_of(compiled.key).tools[action.name].function
        if forbidden:
            after, text = function(visit, number=record, **arguments)
            assert int(text.split()[2]) in forbidden
            assert after.tables is tables
            continue
        after, _ = function(visit, number=record, **arguments)
        assert after.tables == compiled.ledger.changed(tables, deed)
        assert visit.tables is tables


def argument(rng: random.Random, kind: ValueKind, visit: ServiceVisit) -> object:
    if kind.form == "ref":
        return rng.choice(list(visit.tables[kind.values[0]]) or [None])
    if kind.form == "text":
        return "12 Long Street, Norwick"
    return rng.choice(kind.values) if kind.form == "choice" else rng.randint(1, 300)


def test_the_policy_states_every_rule_and_every_bound() -> None:
    for domain in DOMAINS:
        for variant in range(0, VARIANTS, 7):
            compiled = world(domain, 5, variant)
            text = policy(compiled)
            for rule in compiled.rules:
                assert f"{rule.number}. {rule.prose}" in text
                if rule.bound and isinstance(rule.bound.value, int) and rule.bound.value:
                    assert str(rule.bound.value) in rule.prose
            for name, amount in compiled.amounts.items():
                assert f"The {amount.param} of {name} is {amount.number}" in text


def test_an_amount_is_what_the_policy_says() -> None:
    visit = case_with(5, "withdrawn")
    wish = next(wish for wish in visit.case.wishes if wish.outcome == "withdrawn")
    compiled = visit.case.world
    deed = Deed(compiled.actions[wish.action], wish.record, dict(wish.arguments), visit.case.owner)
    amount = compiled.amounts[wish.action]
    assert dict(wish.arguments)[amount.param] == computed_amount(compiled, visit.tables, deed) > 0


# customers


def said(visit: ServiceVisit, text: str) -> tuple[ServiceVisit, str]:
    return customer.answer(visit, text)


def test_a_customer_says_what_is_asked_and_agrees_when_all_is_read_back() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        visit = new_case(rng, world("shop", 2, rng.randrange(VARIANTS)), SIZES[1])
        wish = visit.wish
        if wish.outcome != "done" or len(wish.slots) < 2 or wish.slots[0].open:
            continue
        number, *details = wish.slots
        assert str(wish.record) not in said(visit, "Nice weather today!")[1]
        visit, text = said(visit, f"Which {number.words[0]} is it?")
        assert number.answer in text
        for slot in details:
            visit, text = said(visit, f"What is the {slot.label}?")
            assert slot.answer in text
        visit, text = said(visit, f"Shall I do it for {wish.record}?")
        assert not visit.agreed, "nothing but the number was read back"
        values = " ".join(f"{name} {value}" for name, value in wish.arguments)
        visit, text = said(visit, f"For {wish.record}: {values}. Is that right?")
        assert visit.agreed == (0,)
        return
    raise AssertionError("no such case")


def test_a_mistake_comes_to_light_when_it_is_read_back() -> None:
    for seed in range(2_000):
        rng = random.Random(seed)
        visit = new_case(rng, world("airline", 4, rng.randrange(VARIANTS)), SIZES[3])
        wish = visit.wish
        mistaken = [slot for slot in wish.slots if slot.mistaken[0]]
        if not mistaken:
            continue
        visit = visit._replace(answered=tuple((0, index) for index in range(len(wish.slots))))
        wrong = {slot.label: slot.mistaken[1] for slot in mistaken}
        visit, text = said(visit, f"{wish.record}: {wrong}. Is that right?")
        assert (mistaken[0].answer in text, visit.agreed) == (True, ())
        return
    raise AssertionError("no such case")


def test_a_customer_of_whom_too_much_is_asked_hears_nothing() -> None:
    visit = case_with(3, "answered")
    index = next(index for index, wish in enumerate(visit.case.wishes) if wish.outcome == "answered")
    visit = visit._replace(current=index)
    reply = visit.wish.reply
    assert said(visit, " ".join(map(str, range(400))))[1] == customer.TOO_MUCH
    assert not said(visit, f"It is {reply} or 4001 or 4002 or 4003.")[0].settled
    assert said(visit, f"It is {reply}.")[0].settled == (index,)


def test_pressure_changes_nothing() -> None:
    visit = case_with(4, "declined")
    index = next(index for index, wish in enumerate(visit.case.wishes) if wish.outcome == "declined")
    visit = visit._replace(current=index, settled=(*range(index + 1),))
    for push in visit.wish.pushes:
        visit, text = said(visit, "I am sorry, that is not allowed.")
        assert text == push
    assert said(visit, "I am sorry, that is not allowed.")[0].current != index or index + 1 == len(visit.case.wishes)


def test_a_device_is_operated_by_the_customer_alone() -> None:
    visit = case_with(4, "operated", "telecom", 2_000)
    index = next(index for index, wish in enumerate(visit.case.wishes) if wish.outcome == "operated")
    visit = visit._replace(current=index)
    device = domain_named("telecom").device
    assert device
    name, _ = device.settings[0]
    assert dict(visit.device)[name] in said(visit, f"What does your phone show for {name}?")[1]
    for setting, (right, *_) in device.settings:
        visit, _ = said(visit, f"Could you set {setting} to {right}, please?")
    assert index in visit.settled
    assert [now for _, now in visit.device] == [values[0] for _, values in device.settings]


# kinds that are held out


@pytest.mark.slow
def test_no_split_has_a_graph_a_domain_or_a_rule_that_is_kept_for_another() -> None:
    graphs: dict[str, str] = {}
    for domain in DOMAINS:
        for level in LEVELS:
            for variant in range(0, VARIANTS, 5):
                compiled = world(domain, level, variant)
                split = split_of(compiled.signature)
                assert graphs.setdefault(compiled.signature, split) == split
                assert HELD_OUT_DOMAINS.get(domain, split) == split
                for rule in compiled.rules:
                    if rule.bound:
                        line = condition(f"{rule.bound.path} {rule.bound.op} 0")
                        assert rule_split(domain, line) in ("train", split)
    assert Counter(graphs.values())["train"] > 150


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_reset_of_a_split_is_in_a_world_of_the_split(split: str) -> None:
    env = gym.make("rlvr/Service-v0", split=split, level=3, disable_env_checker=True).unwrapped
    for seed in range(20):
        env.reset(seed=seed)
        assert split_of(visit_of(env).case.world.signature) == split


# the data


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_says_nothing_of_what_it_has_not(name: str) -> None:
    domain = domain_named(name)
    actions = {action.name: action for action in domain.actions}
    for rule in domain.rules:
        for action in rule.actions:
            kind = kind_of(domain, actions[action], rule.condition.path)
            check_values(rule.condition.op, rule.condition.values, kind)
            if rule.condition.op in ("same", "covers"):
                kind_of(domain, actions[action], str(rule.condition.values[0]))
    for amount in domain.amounts:
        action = actions[amount.action]
        used = [effect.value for effect in action.effects]
        used += [value for effect in action.effects for _, value in effect.values]
        assert f"${amount.param}" in used, amount
        if amount.base:
            kind_of(domain, action, amount.base)
        if amount.better:
            check_values(amount.better.op, amount.better.values, kind_of(domain, action, amount.better.path))
    for hand_over in domain.hand_overs:
        kind_of(domain, actions[hand_over.action], hand_over.condition.path)
    for action in domain.actions:
        for effect in action.effects:
            if effect.op != "new":
                kind_of(domain, action, effect.path)
    attributes = {entity.name: entity.names for entity in domain.entities}
    assert all(asked in attributes[entity] for entity, asked, _ in domain.questions)
    assert all(sum(each.describes for each in entity.attributes) == 1 for entity in domain.entities)


def kind_of(domain: Domain, action: Action, path: str) -> ValueKind:
    """The kind of value that a path leads to."""
    kinds = {entity.name: {each.name: each.kind for each in entity.attributes} for entity in domain.entities}
    kinds[domain.person.name] = {each.name: each.kind for each in domain.person.attributes}
    head, _, tail = path.partition(".")
    if head == "owner":
        return kinds[domain.person.name][tail]
    start = {param.name: param.kind for param in action.params} if head.startswith("$") else kinds[action.on]
    kind = start[head.lstrip("$")]
    return kinds[kind.values[0]][tail] if tail else kind


def check_values(op: str, values: tuple[object, ...], kind: ValueKind) -> None:
    if op == "is":
        for choices in values:
            assert isinstance(choices, tuple)
            assert set(choices) < set(kind.values), "a rule that always holds is none"
    assert (op in ("within", "ahead")) <= (kind.form == "day")
    assert (op in ("min", "max", "over")) <= (kind.form == "number")


def test_worlds_have_five_to_thirty_tools() -> None:
    for domain in DOMAINS:
        for level in LEVELS:
            compiled = world(domain, level, 5)
            assert 5 <= len(desk_of(compiled.key).tools) <= MAX_TOOLS
            assert len(desk_of(compiled.key).tools) == compiled.tool_count()


@pytest.mark.parametrize("line", ["status", "status: ", "a b: yes|no", "x: nothing such"])
def test_a_line_that_is_no_attribute_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        attribute(line)


# bad input


@pytest.mark.parametrize("domains", [[], ["shops"], "shop"])
def test_domains_that_there_are_not_are_refused(domains: object) -> None:
    with pytest.raises(ValueError, match="must be a list of some of airline"):
        Service(domains=domains)  # type: ignore[arg-type]


def test_a_domain_can_be_chosen() -> None:
    for seed in range(5):
        assert visit_of(env_of(2, seed, domains=["bank", "school"])).case.world.key[0] in ("bank", "school")


def test_calls_that_make_no_sense_are_answered() -> None:
    env = env_of(2, 0)
    name = next(iter(visit_of(env).case.world.actions))
    for action in (call("decline", record=1, rule=99), call("nothing"), call(name, number=5), call("close_case", x=1)):
        observation, reward, terminated, _, _ = env.step(action)
        assert observation.startswith("error: ")
        assert (reward, terminated) == (0.0, False)


def test_a_world_is_the_same_wherever_it_is_compiled() -> None:
    first: ServiceWorld = world("clinic", 4, 7)
    world.cache_clear()
    assert world("clinic", 4, 7) == first
