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


def table(head: str, row: str) -> Form:
    """A phrasing as a Markdown table of two columns."""
    rows = each(f"| {row} |", "\n")
    return lambda parts, names: f"| {head} |\n|---|---|\n{rows(parts, names)}"


BARE = [whole("{a}"), whole("({a})", ";"), whole(r"\left[{a}\right]", "; "), whole(r"\text{{{a}}}")]
# For each id: a pattern of the question whose first group lists the names, and the phrasings.
PHRASINGS: dict[str, tuple[str, list[Form]]] = {
    "KnightsAndKnaves": (r"What (?:are|is) ([A-Z][^?]*)\?", [
        each("{n}: {p}", "; "), each("{n} is a {p}"), each("{n} = {p}"), each(r"{n} \to {p}"), each("{n}-{p}"),
        each("- **{n}**: {p}", "\n"), table("Name | Kind", "{n} | {p}"), *BARE]),
    "StableMatching": (r"For (.*?), in this order", [
        each("{n}-{p}"), each("{n} → {p}"), each("{n}: {p}"), each("({n}, {p})"), each("{n} gets {p}"), *BARE]),
    "SwapTracking": (r"What (?:do|does) (.*?) hold now", [
        each("{n}: {p}"), each("{n} holds the {p}"), each("{n} has the {p}"), each("{n}: the {p}"), each("the {p}"),
        each("{k}. the {p}", "\n"), *BARE]),
    "FalseBeliefs": ("", [
        each("({k}) the {p}", "; "), each("({k}) In the {p}", "\n"),
        each("({k}) {p}"), each("({k}) {p}", "\n"), each("the {p}"), each("in the {p}"), each("{k}. the {p}", "\n"),
        *BARE]),
    "LinearSystems": (r"whole numbers? (.*?) in this order", [
        each("{n}={p}"), each("{n} = {p}", " and "), each("- ${n} = {p}$", "\n"), *BARE]),
    "AssignmentProblem": ("", [
        each("{k}-{p}"), each("({k}, {p})"), each("person {k}: job {p}"), each("person {k} → job {p}"),
        each("job {p}"), each("Person {k}: Job {p}", "\n"), table("Person | Job", "Person {k} | {p}"),
        table("Person | Job", "{k} | **{p}**"), *BARE]),
    "Colouring": ("", [
        each("{k}: {p}"), each("node {k}: colour {p}"), each("node {k} = {p}"), each(r"{k}\mapsto {p}"),
        each("Node {k}: Color {p}"), table("Node | Colour", "{k} | {p}"), *BARE]),
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
    "Eigenvalues": ("", [
        each("λ_{k} = {p}"),
        lambda parts, names: ", ".join(f"λ{chr(0x2080 + k)} = {p}" for k, p in enumerate(parts, 1)),
        *BARE]),
    "RobotWalk": ("", [
        lambda parts, names: "x={}, y={}, {}".format(*parts), lambda parts, names: "({}, {}), facing {}".format(*parts),
        lambda parts, names: "({},{}) {}".format(*parts),
        lambda parts, names: "x: {}, y: {}, direction: {}".format(*parts), *BARE]),
    "Entailment": ("", [each("Statement {p}"), whole("Statements {a}"), *BARE]),
    "Bipartition": ("", [whole("People {a}"), *BARE]),
    "AgeProblems": (r"How old are (.*?) (?:today|now)", [
        each("{p} years"), each("{n} is {p} years old", " and "), each("{n}: {p} years"), *BARE]),
    "Directions": ("", [each("{p} km"), lambda parts, names: "{} km east and {} km north".format(*parts),
        lambda parts, names: "East: {} km, North: {} km".format(*parts),
        lambda parts, names: r"{}\text{{ km east}}, {}\text{{ km north}}".format(*parts),
        each(r"{p}\text{{ km}}"), whole("{a}", " and "), *BARE]),
    "ComplexNumbers": ("", [
        lambda parts, names: f"{parts[0]} {'-' if parts[1][0] == '-' else '+'} {parts[1].lstrip('-')}i",
        lambda parts, names: f"{parts[0]}{int(parts[1]):+}i", *BARE]),
    "NullSpace": ("", [
        whole("({a})^T"), whole(r"\vec{{v}} = ({a})"),
        whole(r"\begin{{bmatrix}}{a}\end{{bmatrix}}^T", " & "), whole(r"[{a}]^{{\top}}"),
        whole("v = ({a})"), whole(r"\mathbf{{v}} = ({a})^{{T}}"), *BARE]),
    "CriticalPath": ("", [
        lambda parts, names: f"{parts[0]}, " + ", ".join(f"{chr(65 + k)}={p}" for k, p in enumerate(parts[1:])),
        *BARE]),
    "MeetingTimes": ("", [
        lambda parts, names: f"on {parts[0]} at {parts[1]}:{parts[2]:0>2}",
        lambda parts, names: f"{parts[0]}., {parts[1]}, {parts[2]:0>2}",
        lambda parts, names: f"{parts[0]}\\ {parts[1]}{{:}}{parts[2]:0>2}",
        lambda parts, names: f"{parts[1]}:{parts[2]:0>2} on {parts[0]}",
        lambda parts, names: f"{parts[0]} at {parts[1]}h {parts[2]}m",
        lambda parts, names: f"Day: {parts[0]}, Hour: {parts[1]}, Minute: {parts[2]}",
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


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("Bridges", lambda answer: re.sub(r"(\w)(\w)(\d)", r"\1-\2: \3", answer)),
        ("Bridges", lambda answer: re.sub(r"(\w\w)(\d)", r"\1 = \2", answer)),
        ("Bridges", lambda answer: re.sub(r"(\w)(\w)(\d)", r"\1–\2 (\3)", answer)),
        ("Satisfiability", lambda answer: ", ".join(
            f"x{k} = {'true' if bit == '1' else 'false'}" for k, bit in enumerate(answer, 1))),
        ("Satisfiability", lambda answer: ", ".join("true" if bit == "1" else "false" for bit in answer)),
        ("MazePath", lambda answer: ", ".join(
            {"U": "up", "D": "down", "L": "left", "R": "right"}[step] for step in answer)),
        ("SlidingTiles", lambda answer: ", ".join(
            {"U": "Up", "D": "Down", "L": "Left", "R": "Right"}[step] for step in answer)),
        ("BitManipulation", lambda answer: f"0b{answer}"), ("BitManipulation", lambda answer: f"{answer}_2"),
        ("BitManipulation", lambda answer: f"({answer})_{{2}}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("level", [1, 2, 3])
def test_marks_within_a_part(name: str, write: Callable[[str], str], level: int) -> None:
    env, _, answer = drawn(name, level, 0)
    assert paid(env, f"\\boxed{{{write(answer)}}}")
    for other in (drawn(name, level, 1)[2], answer[::-1]):
        if not paid(env, f"\\boxed{{{other}}}"):
            assert not paid(env, f"\\boxed{{{write(other)}}}"), other


def test_labels_of_a_table_are_those_of_the_question() -> None:
    env, _, answer = drawn("AssignmentProblem", 2, 0)
    rows = [f"| {k} | {job} |" for k, job in enumerate(answer.split(", "), 1)]
    for head, told in [
        ("Person | Job", [*reversed(rows)]), ("Person | Job", rows[:-1]), ("Person | Wrong job", rows),
        ("Not the person | Job", rows),
    ]:  # fmt: skip
        assert not paid(env, "\\boxed{" + f"| {head} |\n|---|---|\n" + "\n".join(told) + "}"), (head, told)


def test_parts_in_backticks_behind_a_marker() -> None:
    env, _, answer = drawn("SortWords", 2, 0)
    parts = answer.split(", ")
    for lead in ("Answer:", "**Answer:**", "####", "The answer is"):
        assert paid(env, f"{lead} {', '.join(f'`{part}`' for part in parts)}")
        assert paid(env, f"{lead} {', '.join(f'`{part}`' for part in parts)}.")
        assert not paid(env, f"{lead} {', '.join(f'`{part}`' for part in parts[:-1])}")
        assert not paid(env, f"{lead} {', '.join(f'`{part}`' for part in parts)} or `{parts[0]}`")


def test_a_row_of_hashes_in_the_fence_of_an_answer_is_no_marker() -> None:
    fence = "Answer:\n```\n#ab#\n####\n#cd#\n####e\n```"
    assert extract(fence).answer == "#ab#\n####\n#cd#\n####e"
    assert extract("Answer:\n```\n#### 42\n```").answer == "42"  # of one line: as before
    assert extract(f"{fence}\n#### 7").answer == "7"  # behind the fence it is the later marker
