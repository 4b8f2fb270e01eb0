"""Hints: what somebody probably meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any


def nearest(name: object, names: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that is spelt most alike, capitals aside; None where none is ``alike``, of 1 for the same."""
    by_small = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(str(name)[:100].casefold(), by_small, 1, alike)
    return by_small[near[0]] if near else None


def did_you_mean(name: object, allowed: Iterable[str], otherwise: str = "there are") -> str:
    """The end of an error's sentence: the nearest name, or all there are behind ``otherwise``.

    >>> did_you_mean("indx", ("index", "split"))
    "; did you mean 'index'?"
    >>> did_you_mean("x", ("index", "split"))
    '; there are index, split'
    """
    names = list(allowed)
    near = nearest(name, names)
    return f"; did you mean {near!r}?" if near else f"; {otherwise} {', '.join(names)}"


def hint(name: str, allowed: Iterable[str]) -> str:
    """``; did you mean 'grpo'?`` where something is near, else nothing."""
    near = nearest(name, allowed)
    return f"; did you mean {near!r}?" if near else ""


def one_of(what: str, value: str, allowed: Collection[str]) -> None:
    """Refuse a name that is not allowed.

    Raises:
        ValueError: says which are, and the nearest.
    """
    if value not in allowed:
        raise ValueError(f"unknown {what} {value!r}; allowed: {', '.join(allowed)}{hint(value, allowed)}")


def with_near_flag(message: str, flags: Iterable[str]) -> str:
    """The complaint of an argument parser, with the flag that an unknown word is spelt like, or belongs to."""
    unknown, flags = message.partition("unrecognized arguments: ")[2].split(), list(flags)
    if not unknown:
        return message
    word = unknown[0].partition("=")[0]
    near, whole = nearest(word, flags, 0.75), word.rpartition(".")[0]  # all begin with two dashes, many go on with max-
    if whole in flags and near in (None, whole) and not any(flag.startswith(f"{whole}.") for flag in flags):
        return f"{message}; {whole} takes one value, in JSON"  # `--overrides.kl_coef .1`
    if near:
        return f"{message}; did you mean {near}?"
    if "--config" in flags and word.endswith((".yaml", ".yml")):
        return f"{message}; did you mean --config {word}?"
    if "--env" in flags and not word.startswith("-"):
        return f"{message}; did you mean --env {word}?"
    if "--set" in flags and word.startswith("--"):
        return f"{message}; a setting of the environment is given as --set {word[2:].replace('-', '_')}=VALUE"
    return message


def require_known(owner: str, settings: Mapping[str, object], names: Iterable[str], what: str = "setting") -> None:
    """Check the names of a mapping of settings, which nobody reads where they are unknown.

    Args:
        owner: takes them, in words; the error begins with it.

    Raises:
        TypeError: one is unknown; the nearest is named.
    """
    names = tuple(names)
    for name in settings:
        if name not in names:
            raise TypeError(f"{owner} has no {what} {name!r}{did_you_mean(name, names, 'it has')}")


def check_reset_options(options: Mapping[str, object] | None, names: Iterable[str]) -> dict[str, Any]:
    """The options of ``reset`` as a dict of its own.

    Raises:
        ValueError: one that the environment does not know, with the nearest.
    """
    names = tuple(names)
    for name in options or ():
        if name not in names:
            raise ValueError(f"reset has no option {name!r}{did_you_mean(name, names)}")
    return dict(options or {})
