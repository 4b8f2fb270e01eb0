"""What experts say before their answers is true, and about the task at hand."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.tables import DataError
from rlvr.envs.tasks.deduction import Constraint, deduction

# A chain of equal terms: numbers, operators and brackets, with "=" between them.
CHAIN = re.compile(r"[-(]*\d[-+*/%(). \d]*(?:=[-+*/%(). \d]*[\d)])+")
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def value(text: str) -> Fraction:
    """The exact value of a term.

    Raises:
        SyntaxError, TypeError, KeyError, AttributeError: it is no term of numbers, such as ``7 5`` or ``3(2)``.
    """

    def of(node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant):
            return Fraction(str(node.value))
        if isinstance(node, ast.UnaryOp):
            return -of(node.operand)
        return OPERATIONS[type(node.op)](of(node.left), of(node.right))

    return of(ast.parse(text.strip().rstrip("."), mode="eval").body)


def equations(text: str) -> Iterator[tuple[str, list[Fraction]]]:
    """The chains of equal terms of a text that hold numbers alone, and the values of their terms."""
    for found in CHAIN.finditer(text):
        before, after = text[: found.start()], text[found.end() :].lstrip(" ")
        # Part of a term with a letter, a power, a list or a decimal number: not all of the term is in the chain.
        if re.search(r"[\w+*/=^)\]}|\\√π≡'-] *$|\d[.,]$", before) or re.match(r"[\w(*/^+°√π%-]|[.,]\d", after):
            continue
        try:
            yield found[0], [value(part) for part in found[0].split("=")]
        except (SyntaxError, TypeError, KeyError, AttributeError, ValueError):
            continue


def test_equations_are_found_and_worked_out() -> None:
    text = "x: 3 + 4 = 7, 2x + 3 = 7, (1/2)*4 - 3 = -1; f(3) = 5, 7*8 = 54."
    assert [(chain, len(set(values)) == 1) for chain, values in equations(text)] == [
        ("3 + 4 = 7", True),
        ("(1/2)*4 - 3 = -1", True),
        ("7*8 = 54", False),
    ]


def one_turn_ids() -> list[str]:
    ids = [env_id for env_id in list_envs() if "_" not in env_id and env_id != "rlvr/Mixture-v0"]
    return [env_id for env_id in ids if gym.spec(env_id).kwargs.get("task", "").startswith("rlvr.")]


def workings(env_id: str, level: int, seeds: int) -> list[tuple[str, str]]:
    """Questions of some seeds, and what the expert says before its answer."""
    try:
        env = gym.make(env_id, disable_env_checker=True).unwrapped
    except DataError:
        return []
    if not isinstance(env, TextEnv) or env.size is not None or level > env.task.levels or env.task.turns(level) > 1:
        return []
    found = []
    for seed in range(seeds):
        observation, _ = env.reset(seed=seed, options={"level": level})
        found.append((str(observation), env.solve().partition("\\boxed{")[0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("env_id", one_turn_ids())
def test_every_equation_of_a_working_is_true(env_id: str, level: int) -> None:
    for _, working in workings(env_id, level, seeds=6):
        for chain, values in equations(working):
            rounded = Fraction(1, 1000) if "." in chain else 0
            assert max(values) - min(values) <= rounded * abs(values[0]), chain


# Those whose facts are no words: cells by row and column, or brackets.
WITHOUT_WORDS = ["MazePath", "Masyu", "Norinori", "NumberLink", "BracketCompletion", "ObjectTransformation"]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [env_id for env_id in one_turn_ids() if "Visual" not in env_id])
def test_a_working_names_facts_of_its_own_task(env_id: str) -> None:
    """Words and numbers that not every question of the id has, in all of four tasks but one at most.

    By chance a working may share no word with its own question alone: a sum whose terms are no numbers of it.
    """
    for level in (1, 5):
        found = workings(env_id, level, seeds=4)
        dressing = set.intersection(*(words(question) for question, _ in found)) if found else set()
        named = [not working or words(working) & (words(question) - dressing) for question, working in found]
        name = env_id.removeprefix("rlvr/").removesuffix("-v0")
        assert sum(map(bool, named)) >= len(named) - 1 or name in WITHOUT_WORDS, found


def words(text: str) -> set[str]:
    """The words and numbers of a text, and each two and three of them that follow each other."""
    found = re.findall(r"\w+", text)
    return {*found, *map(" ".join, pairwise(found)), *map(" ".join, zip(found, found[1:], found[2:], strict=False))}


def test_a_deduction_finds_the_only_solution_and_says_why() -> None:
    constraints = [
        Constraint(("a", "b"), lambda a, b: a < b, "the first clue"),
        Constraint(("b", "c"), lambda b, c: b < c, "the second clue"),
    ]
    domains = {name: frozenset({1, 2, 3}) for name in "abc"}
    lines = deduction(domains, constraints, lambda name, left: f"{name} is {' or '.join(map(str, sorted(left)))}")
    assert domains == {"a": {1}, "b": {2}, "c": {3}}
    assert lines[0] == "A is 1 or 2 (the first clue)."
    assert lines[-1] == "A is 1 (the first clue)."


def test_suppositions_refute_what_no_single_constraint_does() -> None:
    constraints = [
        Constraint(("p", "q"), lambda p, q: p or q, "P or Q"),
        Constraint(("p", "q"), lambda p, q: p or not q, "P or not Q"),
        Constraint(("p", "r"), lambda p, r: p != r, "P xor R"),
    ]
    domains = {name: frozenset({False, True}) for name in "pqr"}
    lines = deduction(domains, constraints, lambda name, left: f"{name.upper()} is {sorted(left)[0]}")
    assert domains["p"] == {True}
    assert domains["r"] == {False}
    assert "Suppose P is False" in lines[0]
    assert "contradicts" in lines[0]
    assert lines[0].endswith("So P is True.")
