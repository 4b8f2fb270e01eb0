"""What the code of an environment compares actions with and looks for in them, where its source can be read."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Hashable, Iterator
from functools import cache
from types import CodeType
from typing import Any, Final, cast

import gymnasium as gym

LONGEST: Final = 400  # characters of a value
_SAFE: Final = ("str", "int", "float", "len", "min", "max", "sum", "round", "abs", "sorted", "join", "lower", "upper")
_TESTS: Final = ("startswith", "endswith", "find", "index", "count", "removeprefix", "removesuffix", "split", "get")
_PLAIN: Final = (str, int, float)
# In which an answer that a server is sent may be wanted.
_FORMS: Final = ("{}", "\\boxed{{{}}}", "Final Answer: {}", "Answer: {}", "<answer>{}</answer>", '{{"answer": "{}"}}')


def compared_values(env: gym.Env[Any, Any]) -> Iterator[str]:
    """Texts that a method of the environment compares something with, as they are now; a list's items are joined.

    Of a server, they are what it is sent beside what is asked, in the forms of answers, and as calls where they name a
    tool.
    """
    if callable(getattr(env, "asked_and_hidden", None)):  # the bridge to NeMo Gym's servers
        yield from _sent(*env.asked_and_hidden())  # type: ignore[attr-defined]
    copied: Any = None
    for code, names, calls_own in _compared(cast(Hashable, type(env))):
        try:
            if calls_own and copied is None:
                copied = copy.deepcopy(env)  # its own methods may change it
            value = eval(code, names, {"self": copied if calls_own else env})  # as its own method does
        except Exception:
            continue
        if isinstance(value, (list, tuple)) and value and all(map(_is_plain, value)):
            yield from (separator.join(map(str, value)) for separator in ("\n", ", ", " ")[: 3 if value[1:] else 1])
        elif _is_plain(value) and 0 < len(str(value)) < LONGEST:
            yield str(value)


def _sent(asked: str, values: list[Any]) -> Iterator[str]:
    """What a server is sent as calls, where it names tools, and in the forms of answers, those asked for first."""
    heads = {form: form.format("\0").partition("\0")[0].rstrip('{ "').lower() for form in _FORMS}
    forms = sorted(_FORMS, key=lambda form: json.dumps(heads[form])[1:-1] not in asked.lower())
    for value in values:
        parts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
        calls = [
            {key: each[key] for key in ("name", "arguments")} for each in parts if {"name", "arguments"} <= {*each}
        ]
        if calls:
            yield "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls)
    for value in sorted(values, key=lambda value: not _is_plain(value)):
        text = str(value) if _is_plain(value) else json.dumps(value) if isinstance(value, (dict, list)) else ""
        if 0 < len(text) < 10 * LONGEST:
            yield from (form.format(text) for form in forms)


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and not isinstance(value, bool)


@cache
def _compared(kind: Any) -> tuple[tuple[CodeType, dict[str, Any], bool], ...]:
    """Expressions beside `==` in a class, compiled, their names, and whether they call methods of the class."""
    codes: list[tuple[CodeType, dict[str, Any], bool]] = []
    constants: list[tuple[CodeType, dict[str, Any], bool]] = []
    for module, tree in sources(kind):
        for node in ast.walk(tree):
            for side in (node.left, *node.comparators) if isinstance(node, ast.Compare) else ():
                if isinstance(side, (ast.Name, ast.Subscript)) or not _is_safe(side):
                    continue
                code = compile(ast.Expression(side), "<compared>", "eval")
                into = constants if isinstance(side, ast.Constant) else codes
                into.append((code, vars(sys.modules[module]), any(_is_own_call(each) for each in ast.walk(side))))
    return (*codes, *constants)


def source_text(kind: type) -> str:
    """The source of a class, then of its bases but for Gymnasium's and ours, as far as it can be read."""
    texts = []
    for each in kind.__mro__:
        if each is kind or each.__module__.partition(".")[0] not in (*sys.stdlib_module_names, "rlvr", "gymnasium"):
            with contextlib.suppress(OSError, TypeError):
                texts.append(inspect.getsource(each))
    return "\n\n".join(texts)


def sources(kind: type) -> Iterator[tuple[str, ast.Module]]:
    """The classes of a stranger's environment that can be read, with their modules."""
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] in (*sys.stdlib_module_names, "rlvr", "gymnasium"):
            continue
        try:
            yield each.__module__, ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            continue


def _is_own_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "self"
        and not node.func.attr.startswith(("step", "reset", "close"))
    )


def _is_safe(side: ast.AST) -> bool:
    """Whether it makes a value of attributes, and calls only what makes values and the methods of the class."""
    for node in ast.walk(side):
        if isinstance(node, ast.Call) and not _is_own_call(node):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name not in _SAFE:
                return False
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.Lambda)):
            return False
    return True


@cache
def words_looked_for(kind: type) -> tuple[str, ...]:
    """Constant texts that a stranger's class looks for in others: by `==` and `in`, a beginning, a pattern."""
    words: dict[str, None] = {}
    for module, tree in sources(kind):
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                words |= dict.fromkeys(text for side in (node.left, *node.comparators) for text in _texts(side, module))
            elif isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in _TESTS:
                    words |= dict.fromkeys(text for each in node.args for text in _texts(each, module))
                elif name in ("search", "match", "fullmatch", "findall", "compile", "sub", "finditer"):
                    patterns = [text for each in node.args[:1] for text in _texts(each, module)]
                    words |= dict.fromkeys(word for text in patterns for word in _words_of_pattern(text))
            elif isinstance(node, (ast.comprehension, ast.For)):
                words |= dict.fromkeys(_texts(node.iter, module))
    return tuple(word for word in words if 1 < len(word.strip()) <= 60)


@cache
def names_in_code(kind: type) -> tuple[str, ...]:
    """Short constant texts without blanks in a stranger's class: names of files, settings and keys."""
    names: dict[str, None] = {}
    for _, tree in sources(kind):
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if 3 <= len(text) <= 40 and re.fullmatch(r"\.?[\w-]+(?:[./][\w.-]+)*", text):
                names[text] = None
    return tuple(names)


def options_read(kind: type) -> set[str]:
    """Names that a stranger's class reads from what it calls options."""
    names: set[str] = set()
    for module, tree in sources(kind):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
                holder, keys = node.func.value, node.args[:1]
            elif isinstance(node, ast.Subscript):
                holder, keys = node.value, [node.slice]
            else:
                continue
            if "options" in ast.unparse(holder):
                names.update(text for each in keys for text in _texts(each, module))
    return names


def _texts(node: ast.AST, module: str) -> Iterator[str]:
    """The texts that a constant, a display of constants, or a constant of the module holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for each in node.elts:
            yield from _texts(each, module)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _texts(key, module)
    elif isinstance(node, ast.Name):
        value = getattr(sys.modules[module], node.id, None)
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list, set, frozenset, dict)) and len(value) <= 40:
            yield from (each for each in value if isinstance(each, str))


def _words_of_pattern(pattern: str) -> Iterator[str]:
    """The plain words of a regular expression, and short texts that it matches, with marks that judges give."""
    yield from re.findall(r"[A-Za-z][A-Za-z -]{2,}[A-Za-z]", re.sub(r"\\[A-Za-z]|\(\?[a-zA-Z:<!=]+", " ", pattern))
    for mark in ("10", "pass", "1", "yes"):
        plain = re.sub(r"\\[bBAZ]|\\s[*+?]?|[\^$]|\(\?[a-z]+\)", "", pattern)
        plain = re.sub(
            r"\((?:\?:|\?P<\w+>)?[^()]*\)[*+?]?|\[[^\]]*\][*+?]?|\\[dw](?:[*+?]|\{[\d,]+\})?|\.[*+]\??", mark, plain
        )
        plain = re.sub(r"\\(.)", r"\1", plain)
        try:
            if plain != pattern and any(map(str.isalpha, plain)) and re.search(pattern, plain):
                yield plain
        except (re.error, RecursionError):
            return
