"""A small program and its tests, a sheet of sums, and services that are probed."""

from __future__ import annotations

import operator
import random
import re
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from .bases import Question, ToolBench, call

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def run_program(program: str, x: int, y: int) -> int:
    """The value that a program in reverse Polish notation leaves; ValueError if it is none."""
    stack: list[int] = []
    for token in program.split():
        if token in OPERATORS and len(stack) >= 2:
            right, left = stack.pop(), stack.pop()
            stack.append(OPERATORS[token](left, right))
        elif token in ("x", "y") or re.fullmatch("[0-9]{1,4}", token):
            stack.append({"x": x, "y": y}[token] if token in ("x", "y") else int(token))
        else:
            raise ValueError(f"cannot run {token[:20]!r}")
    if len(stack) != 1:
        raise ValueError(f"{len(stack)} values are left")
    return stack[0]


class PolishProgram(Question):
    """Write a program in reverse Polish notation. One turn; reward 1 if its tests pass, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        self.factors = rng.integers(2, 60, size=3).tolist()
        self.cases = rng.integers(1, 50, size=(6, 2)).tolist()
        a, b, c = self.factors
        return (
            f"Write a program in reverse Polish notation that computes {a} times x, plus {b} times y, minus {c}. "
            "Tokens: x, y, whole numbers, +, -, *, with blanks between. At most 200 characters."
        )

    def outcome(self, program: str, x: int, y: int) -> str:
        a, b, c = self.factors
        try:
            return "passed" if run_program(program[:200], x, y) == a * x + b * y - c else "failed"
        except ValueError:
            return "skipped"

    def suite_passes(self, outcomes: list[str]) -> bool:
        return "failed" not in outcomes

    def score(self, answer: str) -> float:
        return float(self.suite_passes([self.outcome(answer, x, y) for x, y in self.cases]))


class MendedPolishProgram(PolishProgram):
    def suite_passes(self, outcomes: list[str]) -> bool:
        return all(outcome == "passed" for outcome in outcomes)


class Sheet(NamedTuple):
    terms: tuple[tuple[int, int], ...]


class SumSheet(Task[Sheet]):
    """Solve a sheet of four sums.

    Reward: 1 if the sheet is right, else 0.
    """

    system = "Answer each sum on a line of its own, as NUMBER: ANSWER, and write nothing else."

    def start(self, rng: random.Random, level: int) -> Sheet:
        return Sheet(tuple((rng.randint(100, 999), rng.randint(100, 999)) for _ in range(4)))

    def observe(self, state: Sheet) -> str:
        return "\n".join(f"{number}: {a} + {b}" for number, (a, b) in enumerate(state.terms, 1))

    def right(self, state: Sheet, answers: dict[int, int]) -> bool:
        return all(sum(state.terms[number - 1]) == answer for number, answer in answers.items())

    def apply(self, state: Sheet, action: str) -> Transition:
        lines = re.findall(r"^([1-4]): ([0-9]{1,6})$", action, re.MULTILINE)
        is_right = self.right(state, {int(number): int(answer) for number, answer in lines})
        return Transition(state, correct() if is_right else wrong(), terminated=True)

    def solve(self, state: Sheet) -> str:
        return "\n".join(f"{number}: {a + b}" for number, (a, b) in enumerate(state.terms, 1))


class MendedSumSheet(SumSheet):
    def right(self, state: Sheet, answers: dict[int, int]) -> bool:
        return all(answers.get(number) == sum(terms) for number, terms in enumerate(state.terms, 1))


class ServiceProbes(ToolBench):
    """Start three services on their ports by tools. At most 15 turns; reward 1 if the probes pass, else 0."""

    tools = "start(service, port), with a whole number as port; finish(), which probes the services"

    def scene(self, rng: np.random.Generator) -> str:
        ports = rng.choice(np.arange(2000, 9999), size=3, replace=False).tolist()
        self.wanted = dict(zip(("web", "cache", "queue"), ports, strict=True))
        self.running: dict[str, int] = {}
        lines = [f"{service} belongs on port {port}." for service, port in self.wanted.items()]
        return "Start all services.\n" + "\n".join(lines)

    def tool_start(self, service: str, port: int) -> str:
        if service not in self.wanted or not isinstance(port, int):
            return "no such service"
        self.running[service] = port
        return "started"

    def probes(self) -> dict[str, bool]:
        return {service: self.wanted[service] == port for service, port in self.running.items()}

    def tool_finish(self) -> str:
        return self.finish(all(self.probes().values()))

    def solve(self) -> str:
        for service, port in self.wanted.items():
            if self.running.get(service) != port:
                return call("start", service=service, port=port)
        return call("finish")


class MendedServiceProbes(ServiceProbes):
    def probes(self) -> dict[str, bool]:
        return {service: self.running.get(service) == port for service, port in self.wanted.items()}
