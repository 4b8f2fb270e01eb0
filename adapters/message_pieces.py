"""One message between the fixed tokens that a chat template puts around it, where that gives the template's own tokens.

A framework's helper renders its chat template, and encodes all of it, for each new message. Between two special tokens
the text is encoded by itself; so of most templates only the stretch that holds the message has to be encoded, and the
rest is known from the message before. `learn` finds out whether a template is such a one:

- a program reads which texts the template looks for in a message (Qwen3's asks whether one begins with
  ``<tool_response>``). A message that holds one of them is left to the framework's helper;
- the helper's tokens are compared with ours for messages of many kinds. One difference, and it keeps all messages.

What neither sees is a template that counts the characters of a message and changes where no probe does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import nodes

MARK: Final = "\ue000"  # stands for a message
PROBES: Final = (
    "x",
    "A question.",
    "  blanks around \n",
    "\n\nlines\n\nbetween\n",
    "\ttab\t",
    "two  blanks   three",
    "'single' \"double\" \\ back {{ m }} {% if %} {# no #} </a> <b>bold</b> &amp; & < >",
    "é ü ß 漢字 한국어 🙂 e\u0301 \u200b \u00a0 \u2028",
    "\u00a0unusual blanks\u3000",
    '{"name": "look", "arguments": {"at": [1, 2.5, null, true]}}',
    "[1, 2]",
    "1234567890 + 0.5 = ?",
    "lower UPPER Title",
    "user: hello\nassistant: hello",
    "a word " * 40 + "and\nan end",
    "a long line, longer than templates are patient " * 120,
    "\n".join(f"line {number}" for number in range(200)),
)
GENERATION: Final = re.compile(r"\{%[-+]?\s*(end)?generation\s*[-+]?%\}")  # a block that transformers adds to Jinja
# What these are given is no text that is looked for.
WITHOUT_TEXTS: Final = frozenset(
    "raise_exception strftime_now default d join tojson selectattr rejectattr map attr sort groupby dictsort indent "
    "get items".split()
)
STRIPS: Final = frozenset("strip lstrip rstrip trim".split())  # of blanks: the probes show them

Reference = Callable[[str], tuple[list[int], Sequence[str]]]


@dataclass(frozen=True, slots=True)
class MessagePieces:
    """The tokens that one message adds, whatever it says.

    Attributes:
        encode: of the tokenizer, special tokens read as such and none added.
        shape: what the template does to a content: nothing, or strip it.
        looked_for: what the template may look for in a content.
        before, after: the tokens around the stretch, special ones next to it.
        lead, trail: the text of the stretch around the content, a special token at each outer end.
    """

    encode: Callable[[str], list[int]]
    shape: Callable[[str], str]
    looked_for: re.Pattern[str]
    before: list[int]
    after: list[int]
    lead: str
    trail: str

    def ids(self, content: str) -> list[int] | None:
        """The message's tokens; None where the framework's helper must be asked.

        Args:
            content: the message, in which no special token is spelled.
        """
        if not content or content.isspace() or self.looked_for.search(content):
            return None
        found = self.encode(self.lead + self.shape(content) + self.trail)
        # A special token's position could be taken by one that begins in the content.
        if found[0] != self.before[-1] or found[-1] != self.after[0]:
            return None
        return self.before + found[1:-1] + self.after


def learn(
    reference: Reference, template: str, special: re.Pattern[str], encode: Callable[[str], list[int]]
) -> MessagePieces | None:
    """The pieces of one role's messages; None where they would not give what the framework's helper gives.

    Args:
        reference: for a content, the tokens that the helper adds for it, and the texts that it rendered, which
            must be two: what was before the message, and the same with the message.
        template: the chat template's program.
        special: what spells a special token.
        encode: as for `MessagePieces`.
    """
    looked_for = texts_looked_for(template)
    if looked_for is None:
        return None
    unwanted = re.compile("|".join(map(re.escape, sorted(looked_for))) or r"(?!)")
    shapes: tuple[Callable[[str], str], ...] = (str, str.strip)
    for shape in shapes:
        pieces = _cut(reference, shape, unwanted, special, encode)
        if pieces is None:
            return None
        if all(_agrees(pieces, reference, special, probe) for probe in PROBES):
            return pieces
    return None


def _agrees(pieces: MessagePieces, reference: Reference, special: re.Pattern[str], probe: str) -> bool:
    if special.search(probe):
        return True
    ours = pieces.ids(probe)
    return ours is None or ours == reference(probe)[0]


def _cut(
    reference: Reference,
    shape: Callable[[str], str],
    looked_for: re.Pattern[str],
    special: re.Pattern[str],
    encode: Callable[[str], list[int]],
) -> MessagePieces | None:
    """Cut what is rendered for a mark at the special tokens next to it."""
    ids, texts = reference(MARK)
    if len(texts) != 2 or not texts[1].startswith(texts[0]) or texts[1].count(MARK) != 1:
        return None
    added = texts[1][len(texts[0]) :]
    at = added.find(MARK)
    marks = list(special.finditer(added))
    left = [each for each in marks if each.end() <= at][-1:]
    right = [each for each in marks if each.start() > at][:1]
    if not left or not right:
        return None
    before, after = encode(added[: left[0].end()]), encode(added[right[0].start() :])
    lead, trail = added[left[0].start() : at], added[at + 1 : right[0].end()]
    stretch = encode(lead + MARK + trail)
    if not before or not after or before + stretch[1:-1] + after != ids:
        return None
    return MessagePieces(encode, shape, looked_for, before, after, lead, trail)


def texts_looked_for(template: str) -> frozenset[str] | None:
    """Every text for which a chat template may look in a message; None where it cannot be read.

    These are its constants in comparisons, in the arguments of calls, filters and tests, and in variables. The roles
    that it compares ``message.role`` with are not among them.
    """
    from jinja2 import Environment, TemplateError, nodes

    environment = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
    try:
        tree = environment.parse(GENERATION.sub("", template))
    except TemplateError:
        return None
    found: set[str] = set()
    for compared in tree.find_all(nodes.Compare):
        if not _is_of_roles(compared):
            found.update(_texts(compared))
    called: Any
    for called in chain(tree.find_all(nodes.Call), tree.find_all(nodes.Filter), tree.find_all(nodes.Test)):
        name = _name(called.node) if isinstance(called, nodes.Call) else called.name
        given = {text for each in [*called.args, *called.kwargs] for text in _texts(each)}
        if name in STRIPS:
            given = {text for text in given if not text.isspace()}
        if name not in WITHOUT_TEXTS:
            found |= given
    for node in _variables(tree):
        if not isinstance(node, nodes.Name) and not any(node.find_all((nodes.Name, nodes.Call))):
            found.update(_texts(node))
    return frozenset(found - {""})


def _variables(tree: nodes.Template) -> Iterator[nodes.Node]:
    """What variables are set to, and blocks of text that are."""
    from jinja2 import nodes

    for assigned in tree.find_all(nodes.Assign):
        yield assigned.node
    for block in tree.find_all(nodes.AssignBlock):
        yield from block.body
    for loop in tree.find_all(nodes.For):
        yield loop.iter
    for macro in tree.find_all(nodes.Macro):
        yield from macro.defaults
    for scope in tree.find_all(nodes.With):
        yield from scope.values


def _is_of_roles(compared: nodes.Compare) -> bool:
    """Whether one side is a message's role."""
    sides = [compared.expr, *(operand.expr for operand in compared.ops)]
    return any("role" in _name(side) for side in sides)


def _name(node: Any) -> str:
    """What an expression is called: a variable's name, or the last attribute or key."""
    from jinja2 import nodes

    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return ""


def _texts(node: nodes.Node) -> Iterator[str]:
    """The constant texts of an expression, those of comparisons in it left out."""
    from jinja2 import nodes

    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, nodes.TemplateData):
        yield node.data
    for child in node.iter_child_nodes():
        if not isinstance(child, nodes.Compare):
            yield from _texts(child)
