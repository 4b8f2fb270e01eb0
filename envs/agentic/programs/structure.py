"""Programs as structure: typed blocks in a row, from which description, source and inputs are made.

A block takes a value of one type and gives one of another. A program's *signature* names its input and its blocks, but
neither their constants nor any noun; a family of programs is a signature with all values of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

Allowed = Sequence[int | str]
HELPER_LINES = 4  # a block of as many lines becomes a function of its own, where a program has more than three blocks


class CodeBlock(NamedTuple):
    """One operation.

    Attributes:
        frame: the operation without what fills it in: "keep" of the block "keep_high".
        name: unique among the blocks.
        takes: the type of its input, which is also the variable that ``code`` reads.
        gives: the type of its output, the variable that ``code`` sets last.
        text: an order, "Reverse the list."; with a small first letter a noun phrase, "the sum of the numbers".
        code: statements; ``$parameters`` stand in it and in the text.
    """

    frame: str
    name: str
    takes: str
    gives: str
    text: str
    code: str
    parameters: Mapping[str, Allowed] = {}


class Family(NamedTuple):
    """Programs that differ in the values of their parameters.

    Attributes:
        name: the signature.
        entry: the function or class that the source defines.
        text: what it must do.
        parameters: the values that each ``$parameter`` of text and source may have.
        inputs: a generator of ``inputs`` for each argument; for a class, the one that makes its calls.
        source: the reference solution. It always ends, never prints and does not change its arguments.
        kind: the signature without what fills it in: the frames of its blocks, or the core of a class.
    """

    name: str
    entry: str
    text: str
    parameters: Mapping[str, Allowed]
    inputs: tuple[str, ...]
    source: str
    kind: str


# What a type is called as an input, and how it is returned.
TYPES: Mapping[str, tuple[str, str]] = {
    "numbers": ("a list of integers", "the list of the numbers"),
    "words": ("a list of words in small letters", "the list of the words"),
    "groups": ("a list of groups, each a list of at least one integer", "the list of the groups"),
    "pairs": ("a list of pairs [name, points]", "the list of the pairs"),
    "spans": ("a list of spans [start, end] with start < end, in any order", "the list of the spans"),
    "grid": ("a grid, a list of rows of integers, all of one length", "the grid"),
    "links": ("a list of links [a, b] between points, which have the numbers 0 to 7", "the list of the links"),
    "jobs": ("a list of jobs [arrival, duration] in the order of their arrivals", "the list of the jobs"),
    "text": ("a text of words in small letters with one blank between two", "the text"),
    "line": ("a text", "the text"),
    "value": ("an integer that is not negative", "the result"),
    "letters": ("a word in small letters", "the word"),
    "marks": ("a text of round and square brackets", "the text"),
    "formula": (
        "a text of integers, the operators '+', '-' and '*', and round brackets, without blanks, as in '2*(3+4)-5'",
        "the text",
    ),
    "fields": ("a text of entries 'name=number' with ';' between two, as in 'ada=3;ben=-4'", "the text"),
    "lines": (
        "a list of instructions for a stack of integers, each 'push N', 'add', 'mul', 'dup' or 'swap'",
        "the list of the instructions",
    ),
    "times": ("a list of times of day such as '09:05', from 00:00 to 23:59", "the list of the times"),
}


def renamed(template: str, parameters: Mapping[str, Allowed], suffix: str) -> str:
    """The template with a suffix behind the names of the parameters, so that those of two parts stay apart."""
    return Template(template).safe_substitute({name: f"${{{name}{suffix}}}" for name in parameters})


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in code.strip("\n").split("\n"))


def _sentences(steps: Sequence[str], gives: str) -> list[str]:
    """What each block says, the last one with what is returned."""
    sentences = [step if step[0].isupper() else f"Take {step}." for step in steps]
    if steps[-1][0].isupper():
        return [*sentences, f"Return {TYPES[gives][1]}."]
    return [*sentences[:-1], f"Return {steps[-1]}."]


def is_long(block: CodeBlock) -> bool:
    """Whether a block becomes a function of its own."""
    return block.code.count("\n") >= HELPER_LINES


def _body(blocks: Sequence[CodeBlock], codes: Sequence[str]) -> tuple[str, str]:
    """Functions for the long blocks of a long program, and the lines that pass a value through all."""
    helpers, lines = "", ""
    for block, code in zip(blocks, codes, strict=True):
        if len(blocks) > 3 and is_long(block):
            helpers += f"\ndef {block.name}({block.takes}):\n{_indented(code)}    return {block.gives}\n"
            code = f"{block.gives} = {block.name}({block.takes})"
        lines += code.strip("\n") + "\n"
    last, gives = lines.strip("\n").rpartition("\n"), blocks[-1].gives
    if last[2].startswith(f"{gives} = "):
        return helpers, f"{last[0]}{last[1]}return {last[2].removeprefix(f'{gives} = ')}"
    return helpers, f"{lines}return {gives}"


def chain(blocks: Sequence[CodeBlock]) -> Family:
    """The family of programs that pass their argument through the blocks."""
    texts = [renamed(block.text, block.parameters, str(at)) for at, block in enumerate(blocks, 1)]
    codes = [renamed(block.code, block.parameters, str(at)) for at, block in enumerate(blocks, 1)]
    sentences, source_type = _sentences(texts, blocks[-1].gives), blocks[0].takes
    opening = f"Take {TYPES[source_type][0]}"
    if len(blocks) <= 3:
        text = " ".join((f"{opening}.", *sentences))
    else:
        steps = "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1))
        text = f"{opening}, and go through these steps, each with what the one before it gave:\n{steps}"
    entry = f"{blocks[-1].name}_after_{blocks[0].name}"
    helpers, lines = _body(blocks, codes)
    source = f"{helpers}\ndef {entry}({source_type}):\n{_indented(lines)}"
    parameters = {f"{name}{at}": each for at, block in enumerate(blocks, 1) for name, each in block.parameters.items()}
    return Family(
        ":".join((source_type, *(block.name for block in blocks))),
        entry,
        text,
        parameters,
        (source_type,),
        source,
        ":".join((source_type, *(block.frame for block in blocks))),
    )


def filled(template: str, values: Mapping[str, int | str]) -> str:
    """A text or a source with the values of its parameters."""
    return re.sub(r"\n{3,}", "\n\n", Template(template).substitute(values))
