"""Budget forcing: at the thinking budget a phrase ends the thought, and the policy answers with the tokens left.

The phrase's tokens were not sampled, so they carry mask 0 and no loss; the sampled tokens before and after them carry
loss. ScaleRL (2510.13786) trains with it, so that long thoughts still get an answer; Qwen3 (2505.09388) uses it for
inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rlvr.envs.core.seeding import stream

PHRASES: Mapping[str, str] = MappingProxyType(
    {
        "scalerl": "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>",
        "qwen3": (
            "Considering the limited time by the user, I have to give the solution based on the thinking directly "
            "now.\n</think>.\n\n"
        ),
    }
)
CLOSING = "</think>"


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """When a thought ends, and with which phrase.

    Args:
        phrase: a name in `PHRASES`, or a phrase of your own.
        low, high: the thinking budget of a reply in sampled tokens, drawn uniformly from low to high (ScaleRL draws
            from 10,000 to 12,000).

    Raises:
        ValueError: an empty phrase, or not 1 <= low <= high.
    """

    phrase: str
    low: int
    high: int

    def __post_init__(self) -> None:
        if not self.phrase:
            raise ValueError("a thinking budget needs a phrase: scalerl, qwen3, or the words themselves")
        if not 1 <= self.low <= self.high:
            raise ValueError(f"a thinking budget from {self.low} to {self.high} must have 1 <= low <= high")

    @property
    def text(self) -> str:
        """The phrase itself."""
        return PHRASES.get(self.phrase, self.phrase)

    def budget(self, seed: int, key: str, position: int) -> int:
        """The budget of the reply at a position of a conversation, in tokens; it does not depend on the batch."""
        return stream("thinking budget", seed, key, position).randint(self.low, self.high)

    def applies(self, completion: str) -> bool:
        """Whether the completion so far is still a thought; one that has ended its thought goes on to its answer."""
        return not (CLOSING in self.text and CLOSING in completion)
