"""Worlds that are worked on through tools: solvable by looking, worth nothing without it."""

from __future__ import annotations

import random

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.agentic import shop
from rlvr.envs.agentic.service_desk import ServiceDesk
from rlvr.envs.agentic.world_search import WorldSearch, index, make
from rlvr.envs.tools import Call, write_call

LEVELS = range(1, 6)


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


# WorldSearch


@pytest.mark.parametrize("level", LEVELS)
def test_each_document_of_the_way_is_found_by_what_the_one_before_says(level: int):
    """A player who searches for the names that stand in what it has read gets to the answer."""
    for seed in range(8):
        world = WorldSearch().begin(random.Random(seed), level)
        text = world.question
        for words, title in world.path:
            assert words in text or title in text, (level, seed, words)
            found = [document.title for document in index(world.seed, level).search(words, 5)]
            assert title in found, (level, seed, words)
            text = index(world.seed, level).by_title[title].text
        assert world.answer in text


@pytest.mark.parametrize("level", LEVELS)
def test_a_worlds_documents_say_what_is_true(level: int):
    made = make(12345, level)
    assert len({document.title for document in made.documents}) == len(made.documents) == len(made.kinds)
    for document in made.documents:
        for value in made.facts[document.title].values():
            assert value in document.text
        for target in made.links[document.title].values():
            assert target in document.text or made.bynames.get(target, target) in document.text
            assert target != document.title


@pytest.mark.parametrize("hops", LEVELS)
def test_hops_say_how_many_documents_lie_on_the_way(hops: int):
    env = gym.make("rlvr/WorldSearch-v0", hops=hops, level=1).unwrapped
    for seed in range(10):
        question, _ = env.reset(seed=seed)
        world = env.get_state().state.world
        assert len(world.path) == hops
        assert len(make(world.seed, 1).documents) == 30
        for _ in range(2 * hops):
            assert env.step(env.solve())[4]["role"] == "tool"
        assert env.step(env.solve())[1] == 1.0
        assert question == world.question
    assert (hops == 2) == (gym.make("rlvr/WorldSearch-v0").unwrapped.reset(seed=9)[0] == question)


@pytest.mark.parametrize("hops", [0, 6, "2", 1.5])
def test_hops_that_no_world_has_are_refused(hops: object):
    with pytest.raises(ValueError, match="from 1 to 5"):
        gym.make("rlvr/WorldSearch-v0", hops=hops)


def test_facts_say_what_questions_ask_for():
    for hops in (1, 3):
        for facts in (["river"], ["product", "profession"], ["started"]):
            env = gym.make("rlvr/WorldSearch-v0", facts=facts, hops=hops).unwrapped
            for seed in range(5):
                env.reset(seed=seed)
                world = env.get_state().state.world
                made, last = make(world.seed, 1), world.path[-1][1]
                assert world.answer in [made.facts[last][fact] for fact in facts if fact in made.facts[last]]
    assert (
        gym.make("rlvr/WorldSearch-v0", facts=["year"], hops=1).unwrapped.reset(seed=0)[0].startswith("In which year")
    )


@pytest.mark.parametrize(
    ("facts", "says"), [([], "some of"), (["colour"], "some of"), ("river", "some of"), (["year"], "leads to an event")]
)
def test_facts_that_cannot_be_asked_for_are_refused(facts: object, says: str):
    with pytest.raises(ValueError, match=says):
        gym.make("rlvr/WorldSearch-v0", facts=facts)


def test_copying_what_a_tool_said_is_no_answer():
    env = gym.make("rlvr/WorldSearch-v0").unwrapped
    env.reset(seed=1)
    said = env.step(env.solve())[0]
    _, reward, terminated, _, _ = env.step(said)
    assert (reward, terminated) == (0.0, True)


def test_a_missing_document_is_told():
    env = gym.make("rlvr/WorldSearch-v0").unwrapped
    env.reset(seed=1)
    assert "search for it first" in env.step(call("read", title="Atlantis"))[0]
    assert env.step(call("search", query="qqqq"))[0] == "nothing was found"
    assert "limit must be from 1 to 10" in env.step(call("search", query="x", limit=99))[0]


# ServiceDesk


def desk_env(level: int, seed: int):
    env = gym.make("rlvr/ServiceDesk-v0", level=level).unwrapped
    env.reset(seed=seed)
    return env, env.get_state().state.world


def played(env, actions: list[str]) -> float:
    return sum(env.step(action)[1] for action in actions)


@pytest.mark.parametrize("level", LEVELS)
def test_closing_the_ticket_at_once_is_worth_nothing(level: int):
    for seed in range(10):
        env, world = desk_env(level, seed)
        done, rule = world.customer.outcome
        assert played(env, [call("close_ticket", carried_out=done, rule=rule)]) == 0.0


@pytest.mark.parametrize("level", LEVELS)
def test_right_changes_to_the_wrong_books_are_worth_nothing(level: int):
    """The expert's way, and one thing that nobody asked for."""
    for seed in range(6):
        env, world = desk_env(level, seed)
        *steps, close = world.customer.plan
        for name, arguments in steps:
            env.step(call(name, **dict(arguments)) if name else arguments[0][1])
        before = env.get_state()
        assert played(env, [call(close[0], **dict(close[1]))]) == 1.0
        env.set_state(before)
        extra = call("give_credit", customer=1, amount=1)
        assert played(env, [extra, call(close[0], **dict(close[1]))]) == 0.0
        env.set_state(before)
        done, rule = world.customer.outcome
        assert played(env, [call("close_ticket", carried_out=done, rule=(rule + 1) % 6)]) == 0.0


def test_what_a_rule_forbids_is_not_to_be_done():
    seen = 0
    for seed in range(60):
        env, world = desk_env(1, seed)
        if world.customer.outcome != (0, 2):
            continue
        seen += 1
        order = int(world.customer.looked_at[1].split()[1])
        number = int(world.customer.looked_at[0].split()[1])
        email = shop.read(world.database, "SELECT email FROM customers WHERE id = ?", number)[0][0]
        actions = [call("find_customer", email=email), call("get_order", order=order)]
        actions += [call("cancel_order", order=order, reason="not needed"), call("close_ticket", carried_out=1, rule=0)]
        assert played(env, actions) == 0.0
    assert seen > 5


def test_the_customer_answers_what_is_asked_and_nothing_else():
    env, world = desk_env(2, 3)
    (answer,) = [text for words, text in world.customer.answers if words == ("postcode",)]
    assert env.step("What is your postcode, please?")[0] == f"Customer: {answer}"
    assert answer not in env.step("What is your name?")[0]
    assert world.customer.opening.removeprefix("Hello. ") in env.step("Nice weather!")[0]
    observation, reward, terminated, _, info = env.step("<think>email?</think>Good bye")
    assert (reward, terminated, info["role"]) == (0.0, False, "user")
    assert "@" not in observation


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_tools_of_the_shop_never_break_its_books(rng: random.Random, level: int):
    task = ServiceDesk()
    state = task.start(random.Random(rng.randrange(50)), level)
    counts = "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders), (SELECT count(*) FROM items)"
    before = shop.read(state.world.database, counts)
    for _ in range(12):
        state, verdict, terminated, _ = task.apply(state, task.sample_action(state, rng))
        assert verdict.valid
        if terminated:
            break
    assert shop.read(state.world.database, counts) == before


def test_an_item_comes_back_once():
    env, world = desk_env(1, 0)
    order, product = shop.read(world.database, "SELECT order_id, product FROM items")[0]
    back = call("return_item", order=order, product=product, refund_to="credit")
    assert "returned for credit" in env.step(back)[0]
    assert "was returned for credit before" in env.step(back)[0]
