"""What the laws look at: the exchanges, a decoder of ids, and findings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rlvr.adapters.conformance.probes import GatewayExchange
from rlvr.adapters.conformance.replies import GatewayChoice

Outcome = Literal["holds", "broken", "unknown"]
NO_IDS = "the gateway gives no token ids"
NO_DECODER = "nothing decodes its ids here: name the model's folder with --tokenizer"
# Probes that are conversations of several turns, each of which goes on from the reply before.
CONVERSATIONS = ("chat", "warm", "hot", "cut", "verbatim", "unicode", "thinking", "tool")


@dataclass(frozen=True, slots=True)
class LawFinding:
    """What one law says of one exchange, or of several.

    Attributes:
        outcome: whether it holds, is broken, or cannot be told.
        where: the probe and the turn.
        detail: one sentence.
        token: the position of the first wrong token, from 0; None where it is none of a token.
        expected, got: what stands there, a few tokens or characters of it.
    """

    outcome: Outcome
    where: str
    detail: str
    token: int | None = None
    expected: Any = None
    got: Any = None


class Decoder(Protocol):
    """Decodes token ids.

    Attributes:
        end_ids: tokens that end a reply; empty where they are not known.
    """

    end_ids: frozenset[int]

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str | None:
        """The text of ids, with or without special tokens; None where that cannot be told."""
        ...


class NoDecoder:
    """Where there is neither a tokenizer nor a gateway that decodes."""

    end_ids: frozenset[int] = frozenset()

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str | None:
        """None, whatever the ids are."""
        return None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the laws look at.

    Attributes:
        exchanges: in the order of asking.
        decoder: of the model's tokenizer.
        conversations: exchanges that go on from one another, in order.
        offers: what the gateway offers, as `GatewayClient.offers`.
    """

    exchanges: Sequence[GatewayExchange]
    decoder: Decoder = field(default_factory=NoDecoder)
    conversations: Sequence[Sequence[GatewayExchange]] = ()
    offers: Mapping[str, str] = field(default_factory=dict)

    def of(self, probe: str) -> list[GatewayExchange]:
        """The exchanges of a probe."""
        return [exchange for exchange in self.exchanges if exchange.probe == probe]

    def answers(self) -> Iterator[tuple[GatewayExchange, GatewayChoice]]:
        """Every completion there is."""
        for exchange in self.exchanges:
            for choice in exchange.reply.choices:
                yield exchange, choice

    def follow_ups(self) -> Iterator[tuple[GatewayExchange, GatewayExchange]]:
        """Each turn of a conversation with the turn after it."""
        for conversation in self.conversations:
            yield from itertools.pairwise(conversation)


def where(exchange: GatewayExchange, choice: GatewayChoice | None = None) -> str:
    """The probe and the turn, counted from 1, in words."""
    text = f"{exchange.probe.strip()}, turn {exchange.turn + 1}"
    return f"{text}, choice {choice.index}" if choice is not None and choice.index else text


def holds(location: str, detail: str) -> LawFinding:
    """The law holds there."""
    return LawFinding("holds", location, detail)


def unknown(detail: str, location: str = "") -> LawFinding:
    """Nothing tells whether the law holds."""
    return LawFinding("unknown", location, detail)


def broken(location: str, detail: str, token: int | None = None, expected: Any = None, got: Any = None) -> LawFinding:
    """The law is broken there."""
    return LawFinding("broken", location, detail, token, expected, got)


def refusal(exchanges: Sequence[GatewayExchange]) -> LawFinding | None:
    """The first answer that is an error, as what cannot be told."""
    for exchange in exchanges:
        if exchange.reply.error or not exchange.reply.choices:
            return unknown(exchange.reply.error or "an answer without choices", where(exchange))
    return None


def first_difference(expected: Sequence[Any], got: Sequence[Any]) -> int | None:
    """The index at which two sequences part; None where the first is the beginning of the second."""
    for index, value in enumerate(expected):
        if index >= len(got) or got[index] != value:
            return index
    return None


def around(values: Sequence[Any], index: int) -> list[Any]:
    """Four values from an index on."""
    return list(values[index : index + 4])
