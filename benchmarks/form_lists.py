"""Families of natural forms whose answer an environment asks for: dates, times, lists, named lists, boards."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import gymnasium as gym
from natural_forms import Family, Pays, Spell

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.rewards.extraction import extract

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
Form = Callable[[list[str], str], str | None]  # from the parts of an answer, and its question, to a text


def from_env(
    name: str,
    *,
    level: int = 2,
    spellings: Sequence[Form],
    label: str,
    brackets: bool = False,
) -> Family:
    """A family of the answers of an environment; spellings take the parts of an answer and its question."""
    env: Any = gym.make(f"rlvr/{name}-v0", disable_env_checker=True).unwrapped

    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        while True:
            question, _ = env.reset(seed=rng.randrange(400), options={"level": level})
            parts = (extract(env.solve()).answer or "").split(", ")
            snapshot = env.get_state().state

            def pays(reply: str, state: Any = snapshot) -> bool:
                return env.task.apply(state, reply)[1].reward == 1

            others = [changed(parts, k) for k in range(len(parts))]
            wrong = [other for other in others if other != parts and not pays(f"\\boxed{{{', '.join(other)}}}")]
            if wrong:
                return (parts, question), (rng.choice(wrong), question), pays

    return Family(label, draw, [lambda p, spell=spell: spell(p[0], p[1]) for spell in spellings], brackets=brackets)


def changed(parts: list[str], index: int) -> list[str]:
    """The parts with one of them changed to another of the same kind."""
    part = parts[index]
    others = [other for other in parts if other != part]
    if part.lstrip("-").isdigit():
        new = str(int(part) + 1)
    elif len(parts) == 1 and part.count("-") == 2:
        new = f"{part[:-2]}{(int(part[-2:]) % 28) + 1:02}"
    elif {part} & {"knight", "knave"}:
        new = "knave" if part == "knight" else "knight"
    elif others:
        new = others[0]
    else:
        new = part[1:] + part[0] if part != part[1:] + part[0] else part + "a"
    return [*parts[:index], new, *parts[index + 1 :]]


def dates() -> Family:
    def day(parts: list[str]) -> date | None:
        try:
            return date.fromisoformat(parts[0])
        except ValueError:
            return None

    def ordinal(n: int) -> str:
        return f"{n}{'th' if 10 < n < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"

    def of(shape: Callable[[date], str]) -> Form:
        return lambda parts, question: shape(d) if (d := day(parts)) else None

    spells = [
        of(str),
        of(str),
        of(lambda d: f"{MONTHS[d.month - 1]} {d.day}, {d.year}"),
        of(lambda d: f"{d.day} {MONTHS[d.month - 1]} {d.year}"),
        of(lambda d: f"{MONTHS[d.month - 1]} {ordinal(d.day)}, {d.year}"),
        of(lambda d: f"{MONTHS[d.month - 1][:3]} {d.day}, {d.year}"),
        of(lambda d: f"{d.year}/{d.month:02}/{d.day:02}"),
        of(lambda d: f"{d.year}-{d.month}-{d.day}"),
        of(lambda d: f"\\text{{{d}}}"),
        of(lambda d: f"{d.day} {MONTHS[d.month - 1][:3]} {d.year}"),
        of(lambda d: f"the {ordinal(d.day)} of {MONTHS[d.month - 1]}, {d.year}"),
        of(lambda d: f"{DAYS[d.weekday()]}, {MONTHS[d.month - 1]} {d.day}, {d.year}"),
        of(lambda d: f"{d.year}\u2011{d.month:02}\u2011{d.day:02}"),
        of(lambda d: f"{d.year}.{d.month:02}.{d.day:02}"),
        of(lambda d: f"{d.year}-{MONTHS[d.month - 1][:3]}-{d.day:02}"),
        of(lambda d: f"{d} ({DAYS[d.weekday()]})"),
        of(lambda d: f"{ordinal(d.day)} {MONTHS[d.month - 1]} {d.year}"),
        of(lambda d: f"\\text{{{MONTHS[d.month - 1]} {d.day}, {d.year}}}"),
        of(lambda d: f"{d.year}\u2013{d.month:02}\u2013{d.day:02}"),
        of(lambda d: f"{d.year} {MONTHS[d.month - 1]} {d.day}"),
    ]
    return from_env("DateArithmetic", level=1, spellings=spells, label="dates", brackets=True)


def times() -> Family:
    def clock(parts: list[str], mark: str = ":") -> str:
        return f"{int(parts[1]):02}{mark}{int(parts[2]):02}"

    def half(parts: list[str], am: str = " AM", pm: str = " PM") -> str:
        hour = int(parts[1])
        return f"{(hour - 1) % 12 + 1}:{int(parts[2]):02}{pm if hour > 11 else am}"

    def long(parts: list[str]) -> str:
        return next((day for day in DAYS if day.startswith(parts[0])), parts[0])

    ok = lambda p: p[1].isdigit() and p[2].isdigit() and int(p[1]) < 24 and int(p[2]) < 60  # noqa: E731
    shapes = [
        lambda p: ", ".join(p),
        lambda p: f"{p[0]}, {clock(p)}",
        lambda p: f"{long(p)} {clock(p)}",
        lambda p: f"{long(p)}, {clock(p)}",
        lambda p: f"{long(p)} at {clock(p)}",
        lambda p: f"{p[0]} {half(p)}",
        lambda p: f"{long(p)} at {half(p)}",
        lambda p: f"{long(p)}, {half(p, ' a.m.', ' p.m.')}",
        lambda p: f"{p[0]}, {p[1]}, {int(p[2]):02}",
        lambda p: f"({', '.join(p)})",
        lambda p: f"\\text{{{p[0]}}}, {p[1]}, {p[2]}",
        lambda p: f"\\text{{{long(p)}}}, {clock(p)}",
        lambda p: f"{long(p)}, hour {p[1]}, minute {p[2]}",
        lambda p: f"Day: {p[0]}, hour: {p[1]}, minute: {p[2]}",
        lambda p: f"{clock(p)} on {long(p)}",
        lambda p: f"{half(p)} on {long(p)}",
        lambda p: f"{p[0]} {p[1]} {p[2]}",
        lambda p: f"{long(p)}, {p[1]} h {p[2]} min",
        lambda p: f"{p[0]} {clock(p)} h",
        lambda p: f"{long(p)} at {clock(p, '.')}" if False else f"{long(p)} {clock(p)}",
    ]
    return from_env(
        "TimeZones", spellings=[lambda parts, q, s=s: s(parts) if ok(parts) else None for s in shapes], label="times"
    )


def joined(shape: str, mark: str = ", ") -> Form:
    return lambda parts, question: shape.replace("#", mark.join(parts))


LISTS: list[Form] = [
    joined("#"),
    joined("#"),
    joined("#", ","),
    joined("#", " "),
    joined("#", "; "),
    joined("[#]"),
    joined("(#)"),
    joined("\\{#\\}"),
    joined("\\text{#}"),
    joined("\\left(#\\right)"),
    joined("#", ",\\ "),
    joined("#", "\n"),
    lambda p, q: f"{', '.join(p[:-1])} and {p[-1]}" if len(p) > 1 else None,
    lambda p, q: f"{', '.join(p[:-1])}, and {p[-1]}" if len(p) > 2 else None,
    lambda p, q: "\n".join(f"- {part}" for part in p) if len(p) > 1 and p[0].isalpha() else None,
    lambda p, q: "\n".join(f"{k}. {part}" for k, part in enumerate(p, 1)) if len(p) > 1 else None,
    lambda p, q: "\n".join(f"* {part}" for part in p) if len(p) > 1 else None,
    lambda p, q: "\n".join(f"\u2022 {part}" for part in p) if len(p) > 1 else None,
    lambda p, q: ", ".join(f"**{part}**" for part in p),
    lambda p, q: ", ".join(f"`{part}`" for part in p),
    lambda p, q: ", ".join(f"\\text{{{part}}}" for part in p),
    joined("#", " \\to "),
    joined("#", " \u2192 "),
    lambda p, q: "[" + ", ".join(f'"{part}"' for part in p) + "]",
    lambda p, q: "\n".join(f"- **{part}**" for part in p) if len(p) > 1 and p[0].isalpha() else None,
]


def named_lists(env: str, pattern: str, values: str = "{n} is {p}", dash: str = "{n} - {p}") -> Family:
    def names(question: str, parts: list[str]) -> list[str] | None:
        match = re.search(pattern, question)
        pieces = re.split(", and |, | and ", match[1]) if match else []
        return pieces if len(pieces) == len(parts) else None

    def each(template: str, mark: str = ", ") -> Form:
        return lambda p, q: (
            mark.join(template.format(n=n, p=part) for n, part in zip(ns, p, strict=True))
            if (ns := names(q, p))
            else None
        )

    spells = [
        each("{n}: {p}"),
        each("{n} = {p}"),
        each(values),
        each("{n}: {p}", "; "),
        each("{n}: {p}", "\n"),
        each("- {n}: {p}", "\n"),
        each("- **{n}**: {p}", "\n"),
        each("* {n}: {p}", "\n"),
        each("- **{n}:** {p}", "\n"),
        each("{p} ({n})"),
        each("{n} ({p})"),
        each(dash),
        each(dash.replace("-", "\u2013")),
        each("{n} \u2192 {p}"),
        each("\\text{{{n}}}: {p}"),
        each("\\text{{{n}}} = {p}"),
        each("**{n}**: {p}"),
        each("{n} {p}"),
        each("{p} for {n}"),
        each("{p} ({n})", "; "),
        each("{k}. {n}: {p}".replace("{k}. ", "- "), "\n"),
        each(values, " and "),
        each(values, "; "),
        each("\u2022 {n}: {p}", "\n"),
        joined("#"),
        joined("(#)"),
    ]
    return from_env(env, spellings=spells, label=f"named lists ({env})")


def boards() -> Family:
    env: Any = gym.make("rlvr/Takuzu-v0", disable_env_checker=True).unwrapped

    def draw(rng: random.Random) -> tuple[Any, Any, Pays]:
        env.reset(seed=rng.randrange(300), options={"level": 2})
        rows = (extract(env.solve()).answer or "").split("\n")
        snapshot = env.get_state().state
        wrong = [*rows[:-1], rows[-1].translate(str.maketrans("01", "10"))]
        return rows, wrong, lambda reply: env.task.apply(snapshot, reply)[1].reward == 1

    spells: list[Spell] = [
        "\n".join,
        lambda r: "\n".join(map(" ".join, r)),
        lambda r: "\n".join(map(", ".join, r)),
        lambda r: "\n".join(f"[{', '.join(x)}]" for x in r),
        lambda r: "\n".join(f"| {' | '.join(x)} |" for x in r),
        lambda r: "[" + ", ".join(f"[{', '.join(x)}]" for x in r) + "]",
        " / ".join,
        " \\\\ ".join,
        lambda r: "\\begin{pmatrix}" + " \\\\ ".join(map(" & ".join, r)) + "\\end{pmatrix}",
        lambda r: "; ".join(map(" ".join, r)),
        lambda r: "\\begin{array}{" + "c" * len(r) + "}" + " \\\\ ".join(map(" & ".join, r)) + "\\end{array}",
        lambda r: "\n".join(f"Row {k}: {' '.join(x)}" for k, x in enumerate(r, 1)),
        lambda r: "\n".join(f"{k}. {x}" for k, x in enumerate(r, 1)),
    ]
    return Family("boards", draw, spells, brackets=False)
