"""Browser: what is asked for is what its words mean, pages change nothing, and only exactly the right forms earn."""

from __future__ import annotations

import random
import re
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.agentic import sites
from rlvr.envs.agentic.browser import DONE, LEVELS, Browser, elements, page_of, site_of
from rlvr.envs.agentic.sites import FormField, Link, RefusedError, SiteServer, make, page, post
from rlvr.envs.tools import Call, write_call

EVERY = range(1, len(LEVELS) + 1)


def call(name: str, **arguments: Any) -> str:
    return write_call(Call(name, arguments), "hermes")


def browser(level: int, seed: int):
    env = gym.make("rlvr/Browser-v0", level=level).unwrapped
    env.reset(seed=seed)
    return env


def visit(env):
    return env.get_state().state.world


def number_of(env, label: str) -> int:
    here = visit(env)
    found = [number for number, each in enumerate(elements(site_of(here), page_of(here)), 1) if each.label == label]
    assert found, (label, env.get_state().state.observation)
    return found[0]


def work(env) -> None:
    """All that the expert does before its last words."""
    while (action := env.solve()) != DONE:
        env.step(action)


@pytest.mark.parametrize("level", EVERY)
def test_doing_nothing_or_too_little_or_too_much_is_worth_nothing(level: int):
    for seed in range(6):
        env = browser(level, seed)
        start = env.get_state()
        assert env.step(DONE)[1] == 0.0
        env.set_state(start)
        taken = 0
        while (action := env.solve()) != DONE:
            before = env.get_state()
            env.step(action)
            taken += 1
        done = env.get_state()
        assert env.step("")[1] == 1.0  # the site counts, not the words
        env.set_state(before)
        assert env.step(DONE)[1] == 0.0, "the last form was not sent"
        env.set_state(done)
        env.step(call("click", element=number_of(env, "Home")))
        env.step(call("click", element=number_of(env, "Get our newsletter, and a gift with it!")))
        env.step(call("type", element=number_of(env, "your e-mail address"), text="a@b.example"))
        assert "every week" in env.step(call("submit"))[0]
        assert env.step(DONE)[1] == 0.0, "nobody asked for the letter"
        assert taken <= 0.6 * LEVELS[level - 1].calls


@pytest.mark.parametrize("level", EVERY)
def test_one_wrong_value_is_worth_nothing(level: int):
    task = Browser()
    for seed in range(12):
        world = task.begin(random.Random(seed), level)
        site, rng = site_of(world), random.Random(seed)
        place = rng.randrange(len(world.steps))
        values = list(world.steps[place].values)
        spot = rng.randrange(len(values))
        values[spot] = (values[spot][0], "7" if values[spot][1] != "7" else "8")
        steps = [*world.steps]
        steps[place] = steps[place]._replace(values=tuple(values))
        server = world.start
        for step in steps:
            server, _, _ = post(site, server, step.url, dict(step.values))
        assert task.judge(world._replace(server=server), "").reward == 0.0


@pytest.mark.parametrize("level", EVERY)
def test_the_words_mean_exactly_the_entry_that_the_expert_takes(level: int):
    task = Browser()
    for seed in range(40):
        world = task.begin(random.Random(seed), level)
        site = site_of(world)
        words = sites.KINDS[site.kind]
        wanted = [site.entries[int(step.url[7:])] for step in world.steps if step.url.startswith("/entry/")]
        for entry in wanted:
            one = words.groups[entry.group].removesuffix("s")
            alike = [each for each in site.entries if each.group == entry.group]
            meant = [f"“{entry.name}”"]
            for trait in entry.traits:
                having = [each for each in alike if trait in each.traits]
                if [each for each in having if each.town == entry.town] == [entry]:
                    meant.append(f"the {one} {words.town} {entry.town} {trait}")
                if all(each is entry or each.price > entry.price for each in having):
                    meant.append(f"the cheapest {one} {trait}")
            assert any(phrase in world.goal for phrase in meant), (world.goal, entry)
        for step in world.steps:
            for label, value in step.values:
                assert value in world.goal or label == "time"


def test_a_table_that_is_taken_is_refused_and_the_next_time_is_what_was_asked_for():
    task, seen = Browser(), 0
    for seed in range(80):
        world = task.begin(random.Random(seed), 3)
        site = site_of(world)
        if site.kind != "tables":
            continue
        (step,) = world.steps
        entry, values = site.entries[int(step.url[7:])], dict(step.values)
        asked = re.search(r"at (\d\d:00) \(if that is taken", world.goal)
        times = sites.TIMES[sites.TIMES.index(asked[1]) : sites.TIMES.index(values["time"])]
        for time in times:
            seen += 1
            assert f"{values['day']} {time}" in entry.taken
            with pytest.raises(RefusedError, match="is taken"):
                post(site, world.start, step.url, {**values, "time": time})
    assert seen > 3


def test_a_basket_counts_however_it_was_filled():
    site = next(site for seed in range(50) if (site := make(seed, 6, 0)).kind == "shop")
    colour, form = site.entries[0].options[0], {"name": "A", "address": "B", "delivery": "express"}
    servers = []
    for quantities in (("5",), ("2", "03")):
        server = SiteServer()
        for quantity in quantities:
            server, _, _ = post(site, server, "/entry/0", {"quantity": quantity, "colour": colour})
        servers.append(post(site, server, "/basket", form)[0])
    assert servers[0] == servers[1]
    taken_out, _, _ = post(site, SiteServer(basket=(("item", "1", colour, "x"),)), "/basket/0", {})
    assert taken_out == SiteServer()


def test_no_page_but_a_form_that_was_sent_changes_the_server():
    env = browser(5, 1)
    rng = random.Random(0)
    before = visit(env).server
    for _ in range(60):
        here = visit(env)
        found = elements(site_of(here), page_of(here))
        links = [number for number, each in enumerate(found, 1) if isinstance(each, Link)]
        env.step(call("click", element=rng.choice(links)))
        assert visit(env).server == before
        assert page(site_of(here), here.server, visit(env).url).title


def test_mistakes_are_told():
    env = browser(1, 0)
    for action, says in (
        (call("click", element=99), "no element 99"),
        (call("back"), "no page before"),
        (call("submit"), "no form"),
        (call("type", element=1, text="x"), "no field for text"),
        (call("select", element=1, option="x"), "no field with options"),
        (call("click", element=0), "greater than or equal to 1"),
        (call("open", url="http://127.0.0.1"), "no tool 'open'"),
    ):
        observation, reward, terminated, _, _ = env.step(action)
        assert says in observation
        assert (reward, terminated) == (0.0, False)
    env.reset(seed=0)
    while not page_of(visit(env)).button:
        env.step(env.solve())
    assert "Please give" in env.step(call("submit"))[0]
    for number, field in enumerate(elements(site_of(visit(env)), page_of(visit(env))), 1):
        if isinstance(field, FormField) and not field.options:
            assert "200 characters" in env.step(call("type", element=number, text="x" * 201))[0]
            assert env.step(call("type", element=number, text=" a \n b "))[0].endswith(": a b")
        elif isinstance(field, FormField):
            assert "is no option of" in env.step(call("select", element=number, option="purple"))[0]


def test_reviews_give_orders_that_leave_no_control_tokens_behind():
    told = {review for seed in range(20) for entry in make(seed, 24, 3).entries for review in entry.reviews}
    assert any("SYSTEM:" in review for review in told)
    assert any("</tool_response>" in review for review in told)
    for seed in range(4):
        env = browser(5, seed)
        while (action := env.solve()) != DONE:
            assert "</tool_response>" not in env.step(action)[0]


@given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(1, 12), st.text(max_size=5)), max_size=12))
def test_whatever_is_clicked_and_typed_is_shown_or_explained(seed: int, acts: list[tuple[int, str]]):
    task = Browser()
    state = task.start(random.Random(seed), 2)
    for number, text in acts:
        for action in (call("click", element=number), call("type", element=number, text=text), call("submit")):
            state, verdict, terminated, role = task.apply(state, action)
            assert (verdict.reward, terminated, role) == (0.0, False, "tool")
            assert state.observation
