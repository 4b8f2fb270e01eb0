"""Answers as people write them: a right one is paid in each phrasing, and a wrong one, a hedge or a denial in none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.rewards.extraction import extract

Form = Callable[[list[str], list[str]], str]  # of the parts of the answer, and the names that the question lists


def each(template: str, between: str = ", ") -> Form:
    """A phrasing of each part: ``{p}`` is the part, ``{n}`` its name, ``{k}`` its number from 1."""

    def form(parts: list[str], names: list[str]) -> str:
        shown = names or [""] * len(parts)
        texts = (template.format(p=p, n=n, k=k) for k, (p, n) in enumerate(zip(parts, shown, strict=True), 1))
        return between.join(texts)

    return form


def whole(template: str, between: str = ", ") -> Form:
    """A phrasing of all parts together: ``{a}`` is the list."""
    return lambda parts, names: template.format(a=between.join(parts))


BARE = [whole("{a}"), whole("({a})", ";"), whole(r"\left[{a}\right]", "; "), whole(r"\text{{{a}}}")]
# For each id: a pattern of the question whose first group lists the names, and the phrasings.
PHRASINGS: dict[str, tuple[str, list[Form]]] = {
    "KnightsAndKnaves": (r"What (?:are|is) ([A-Z][^?]*)\?", [
        each("{n}: {p}", "; "), each("{n} is a {p}"), each("{n} = {p}"), each(r"{n} \to {p}"), each("{n}-{p}"),
        each("- **{n}**: {p}", "\n"), *BARE]),
    "StableMatching": (r"For (.*?), in this order", [
        each("{n}-{p}"), each("{n} → {p}"), each("{n}: {p}"), each("({n}, {p})"), each("{n} gets {p}"), *BARE]),
    "SwapTracking": (r"What (?:do|does) (.*?) hold now", [
        each("{n}: {p}"), each("{n} holds the {p}"), each("{n} has the {p}"), each("{n}: the {p}"), each("the {p}"),
        each("{k}. the {p}", "\n"), *BARE]),
    "FalseBeliefs": ("", [
        each("({k}) {p}"), each("({k}) {p}", "\n"), each("the {p}"), each("in the {p}"), each("{k}. the {p}", "\n"),
        *BARE]),
    "LinearSystems": (r"whole numbers? (.*?) in this order", [
        each("{n}={p}"), each("{n} = {p}", " and "), each("- ${n} = {p}$", "\n"), *BARE]),
    "AssignmentProblem": ("", [
        each("{k}-{p}"), each("({k}, {p})"), each("person {k}: job {p}"), each("person {k} → job {p}"),
        each("job {p}"), *BARE]),
    "Colouring": ("", [
        each("{k}: {p}"), each("node {k}: colour {p}"), each("node {k} = {p}"), each(r"{k}\mapsto {p}"), *BARE]),
    "Seating": ("", [each("chair {k}: {p}"), each("Chair {k} - {p}"), each("Chair {k}: {p}", "\n"), *BARE]),
    "Reachability": ("", [
        whole("nodes {a}"), whole("Nodes: {a}"), whole(r"\text{{nodes }}{a}"), whole(r"\{{{a}\}}"), *BARE]),
    "SetCover": ("", [whole("sets {a}"), whole(r"\{{{a}\}}"), *BARE]),
    "Anagrams": ("", [whole("words {a}"), whole(r"\text{{Words }}{a}"), *BARE]),
    "HamiltonianPath": ("", [
        whole("{a}", "-"), whole("{a}", " – "), whole("{a}", " - "), whole("{a}", "→"), whole("{a}", r" \to "),
        *BARE]),
    "TravellingSalesman": ("", [
        whole("{a}", "-"), lambda parts, names: " → ".join([*parts, parts[0]]),
        lambda parts, names: "-".join([*parts, parts[0]]), *BARE]),
    "Ordering": ("", [whole("{a}", "-"), whole("{a}", " - "), whole("{a}", " → "), each("{k}. {p}", "\n"), *BARE]),
    "SubsetSum": ("", [
        whole("{a}", " + "), lambda parts, names: f"{'+'.join(parts)} = {sum(map(int, parts))}", *BARE]),
    "Directions": ("", [each("{p} km"), each(r"{p}\text{{ km}}"), whole("{a}", " and "), *BARE]),
    "ComplexNumbers": ("", [
        lambda parts, names: f"{parts[0]} {'-' if parts[1][0] == '-' else '+'} {parts[1].lstrip('-')}i",
        lambda parts, names: f"{parts[0]}{int(parts[1]):+}i", *BARE]),
    "NullSpace": ("", [
        whole("({a})^T"), whole(r"[{a}]^{{\top}}"), whole("v = ({a})"), whole(r"\mathbf{{v}} = ({a})^{{T}}"), *BARE]),
    "CriticalPath": ("", [
        lambda parts, names: f"{parts[0]}, " + ", ".join(f"{chr(65 + k)}={p}" for k, p in enumerate(parts[1:])),
        *BARE]),
    "MeetingTimes": ("", [
        lambda parts, names: f"on {parts[0]} at {parts[1]}:{parts[2]:0>2}",
        lambda parts, names: f"{parts[0]}., {parts[1]}, {parts[2]:0>2}",
        lambda parts, names: f"{parts[0]}\\ {parts[1]}{{:}}{parts[2]:0>2}",
        lambda parts, names: f"{parts[0]}day, hour {parts[1]}, minute {parts[2]}"
        if parts[0] in ("Mon", "Fri") else f"{parts[0]}, hour {parts[1]}, minute {parts[2]}"]),
}  # fmt: skip
GRIDS: list[Callable[[Sequence[str]], str]] = [
    lambda rows: f"\\boxed{{{' / '.join(rows)}}}", lambda rows: f"\\boxed{{{'/'.join(rows)}}}",
    lambda rows: "Answer:\n" + "\n".join(f"`{row}`" for row in rows),
    lambda rows: "\\boxed{" + "\n".join(f"Row {k} = {' '.join(row)}" for k, row in enumerate(rows, 1)) + "}",
    lambda rows: "Answer:\n" + "\n".join(f"**Row {k}:** {row}" for k, row in enumerate(rows, 1)),
]  # fmt: skip
# {0} is the right answer, {1} another.
HEDGES = [
    "{0} or {1}", "either {0} or {1}", "not {0}", "{0}, or maybe {1}", "{0}?", "probably {0}", "I think {0}",
    "{0} (unsure)", "{0} | {1}", "{0}; alternatively {1}", "anything but {0}", "{0} is wrong", "never {0}",
    "neither {0} nor {1}", "if not {1} then {0}", "{0} (or {1})", "{0}, not {1}", "not {1}, {0}", "all but {0}",
    "everything except {0}", "maybe the {0}", "in no {0}", "minus {0}", "-({0})", "2 * ({0})", "{0} ± 1", "about {0}",
    "not the {0}", "wrong nodes {0}", "excluding words {0}", "no statements {0}", "times {0}", "nodes without {0}",
    "sets other than {0}", "{0}^{{-1}}", "{0}^2", "{0} reversed", "{0} (not)", "¬({0})", r"\neg {0}", "false: {0}",
    r"\overline{{{0}}}", "no: {0}", "impossible: {0}", "{0}: rejected", "{0}, {1}", "[{0}] [{1}]", "{0} → {1}",
    "{0} unless {1}", "{0} = {1}", "{0} != {1}", "x = {0} or x = {1}", "hardly {0}", "{0} / {1}", "on no {0}",
]  # fmt: skip


def drawn(name: str, level: int, index: int) -> tuple[TextEnv, str, str]:
    env = gym.make(f"rlvr/{name}-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    observation, _ = env.reset(seed=29, options={"level": level, "index": index})
    answer = extract(env.solve()).answer
    assert answer is not None
    return env, str(observation), answer


def paid(env: TextEnv, reply: str) -> bool:
    return env.task.apply(env.get_state().state, reply)[1].reward == 1


@pytest.mark.parametrize("name", PHRASINGS)
@pytest.mark.parametrize("level", [1, 3, 5])
def test_an_answer_in_any_phrasing(name: str, level: int) -> None:
    pattern, forms = PHRASINGS[name]
    for index in range(3):
        env, question, answer = drawn(name, level, index)
        parts = answer.split(", ")
        found = re.search(pattern, question) if pattern else None
        names = re.split(", | and ", found[1]) if found else []
        swapped = [
            [*parts[:k], parts[k + 1], parts[k], *parts[k + 2 :]] for k, (a, b) in enumerate(pairwise(parts)) if a != b
        ]
        wrong = [[*parts[1:], parts[0]], *swapped]
        wrong = [other for other in wrong if not paid(env, f"\\boxed{{{', '.join(other)}}}")]
        for form in forms:
            text = form(parts, names)
            assert paid(env, f"It follows.\n\\boxed{{{text}}}"), text
            for other in wrong:
                assert not paid(env, f"\\boxed{{{form(other, names)}}}"), form(other, names)


@pytest.mark.parametrize("name", ["Futoshiki", "Calcudoku", "LightsOut", "Tents", "Takuzu", "Sudoku", "GameOfLife"])
def test_a_grid_in_any_phrasing(name: str) -> None:
    env, _, answer = drawn(name, 2, 0)
    rows = answer.split("\n")
    other = [*rows[1:], rows[0]]
    for form in GRIDS:
        assert paid(env, form(rows)), form(rows)
        assert not paid(env, form(other)), form(other)
        assert not paid(env, form(rows[:-1])), form(rows[:-1])


@pytest.mark.parametrize("name", [*PHRASINGS, "Futoshiki", "LightsOut", "Entailment", "SetAlgebra", "CalendarDays"])
def test_a_hedge_in_any_phrasing(name: str) -> None:
    _, _, other = drawn(name, 3, 0)
    env, _, answer = drawn(name, 3, 1)
    assert paid(env, f"\\boxed{{{answer}}}")
    for hedge in HEDGES:
        text = hedge.format(answer, other)
        assert not paid(env, f"\\boxed{{{text}}}"), text
        assert not paid(env, f"Answer: {text}"), text
