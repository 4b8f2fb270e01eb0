"""The fixed probes: what is asked of a gateway, and what it answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rlvr.adapters.conformance.client import GatewayClient
from rlvr.adapters.conformance.replies import GatewayReply

Messages = Sequence[Mapping[str, Any]]
TURN_TOKENS = 24  # of a reply in a conversation
WORDS = ("Name three colours.", "Which of them has the sky?", "Thank you. Say goodbye.")
UNICODE = "naïve 漢字 👩‍👩‍👧 🙂 e\u0301 ﬁ Ω"
UNICODE_TURNS = (f"Repeat exactly: {UNICODE}", "Once more, please.")
THINK_TURNS = ("Think aloud between <think> and </think>, then answer: what is 17 + 25?", "And twice that?")
LONG = "Count from one to one hundred in words."
TOOL_TURNS = ("What is the weather in Zürich? Call the tool get_weather.", "And is that warm?")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
# Arguments as a model may write them: spaces, an escape, keys that are not sorted.
ARGUMENTS = '{"days":  3, "city": "Z\\u00fcrich"}'
RESULT = "It is 17 degrees and cloudy in the old town."
# Spellings of special tokens of many chat templates.
MARKERS = (
    *(
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|end|>",
        "<|user|>",
        "<|assistant|>",
        "<|system|>",
        "<|eot_id|>",
    ),
    *("<|start_header_id|>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>", "[INST]", "[/INST]", "<|eom_id|>"),
)
REPEATS = 8  # of a marker in one message
QUESTION, ANSWER, NEXT = "What colour is the sky?", "The sky is blue.", "And the grass?"
THOUGHT = "I weigh amber, cobalt, crimson and thirty other colours, one after the other, before I choose."
# Answers of the assistant's that a gateway must keep, and how a change of each is called.
KEPT: dict[str, tuple[str, str]] = {
    "thinking": (f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}", "the thinking was stripped"),
    "whitespace": (f"\n \n\t\n \n{ANSWER}\n\t\n \n\t\n", "whitespace was changed"),
    "length": (f"{THOUGHT} {THOUGHT} {ANSWER}", "an earlier turn was left out or shortened"),
    "unicode": (f"{UNICODE} {ANSWER}", "characters were changed"),
}
TRIES = 12  # seeds of the first token
TOGETHER = 8  # requests at once


@dataclass(frozen=True, slots=True)
class GatewayExchange:
    """One request of a probe, and its answer.

    Attributes:
        probe, turn: which.
        messages, fields: what was asked; ``fields`` without what asks for ids and log-probabilities.
        reply: what came.
    """

    probe: str
    turn: int
    messages: Messages
    fields: Mapping[str, Any]
    reply: GatewayReply

    @property
    def max_tokens(self) -> int | None:
        """The limit that the request named."""
        limit = self.fields.get("max_tokens", self.fields.get("max_completion_tokens"))
        return limit if isinstance(limit, int) else None


class Probes:
    """Plays the probes through a client, and keeps every exchange.

    Args:
        client: which has discovered what its gateway offers.
        markers: more spellings of special tokens, those of the model's tokenizer.
        progress: told the name of each probe before it is played.
    """

    def __init__(
        self, client: GatewayClient, markers: Sequence[str] = (), progress: Callable[[str], None] = lambda name: None
    ) -> None:
        self.client, self.exchanges = client, list[GatewayExchange]()
        self.markers = tuple(dict.fromkeys((*MARKERS, *markers)))
        self._progress = progress

    def play(self) -> list[GatewayExchange]:
        """Play all of them.

        Raises:
            OSError: the gateway is gone.
        """
        for probe in (
            *(self._conversations, self._tools, self._counts, self._again, self._first_tokens, self._limits),
            *(self._stops, self._choices, self._streams, self._together),
        ):
            self._progress(probe.__name__.strip("_").replace("_", " "))
            probe()
        return self.exchanges

    def _ask(self, probe: str, turn: int, messages: Messages, *, max_tokens: int, **fields: Any) -> GatewayExchange:
        fields = {"seed": 1, "temperature": 0.0} | fields
        if self.client.offers.get("seeds (seed)"):
            del fields["seed"]
        reply = self.client.chat(messages, max_tokens=max_tokens, **fields)
        exchange = GatewayExchange(probe, turn, tuple(messages), {"max_tokens": max_tokens, **fields}, reply)
        self.exchanges.append(exchange)
        return exchange

    def _conversations(self) -> None:
        """Several turns each, at several temperatures; the last reply is sent back as it came."""
        self._talk("chat", WORDS)
        self._talk("warm", WORDS, temperature=1.0)
        self._talk("hot", WORDS, temperature=2.0, max_tokens=2 * TURN_TOKENS)
        self._talk("cut", WORDS, temperature=1.0, max_tokens=5)
        self._talk("verbatim", WORDS, temperature=1.0, skip_special_tokens=False)
        self._talk("unicode", UNICODE_TURNS, max_tokens=2 * TURN_TOKENS)
        self._talk("thinking", THINK_TURNS, max_tokens=2 * TURN_TOKENS)

    def _talk(self, probe: str, turns: Sequence[str], max_tokens: int = TURN_TOKENS, **fields: Any) -> None:
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": "Answer in a few words."}]
        for number, text in enumerate(turns):
            messages.append({"role": "user", "content": text})
            # Another seed each turn: with one, flat probabilities give the same words again.
            exchange = self._ask(probe, number, [*messages], max_tokens=max_tokens, seed=1 + number, **fields)
            if not exchange.reply.choices:
                return
            messages.append(exchange.reply.choices[0].message)

    def _tools(self) -> None:
        """A call of the model's and its result; then a call and a result that we wrote."""
        messages: list[Mapping[str, Any]] = [{"role": "user", "content": TOOL_TURNS[0]}]
        exchange = self._ask("tool", 0, [*messages], max_tokens=6 * TURN_TOKENS, tools=[TOOL])
        if exchange.reply.choices and exchange.reply.choices[0].calls:
            message = exchange.reply.choices[0].message
            messages.append(message)
            for call in message["tool_calls"]:
                messages.append({"role": "tool", "tool_call_id": call.get("id", "call_0"), "content": RESULT})
            self._ask("tool", 1, [*messages], max_tokens=TURN_TOKENS, tools=[TOOL])
        function = {"name": "get_weather", "arguments": ARGUMENTS}
        call = {"id": "call_0", "type": "function", "function": function}
        for name, result in (("short", "ok"), ("long", f"{RESULT} {RESULT}")):
            reply = {"role": "assistant", "content": None, "tool_calls": [call]}
            answer = {"role": "tool", "tool_call_id": "call_0", "content": result}
            opening = {"role": "user", "content": TOOL_TURNS[0]}
            self._ask(f"result {name}", 0, [opening, reply, answer], max_tokens=1, tools=[TOOL])

    def _counts(self) -> None:
        """Prompts that differ in one thing, of which the length says whether it was kept."""
        opening = {"role": "user", "content": QUESTION}
        for name, text in {"base": ANSWER, **{name: text for name, (text, _) in KEPT.items()}}.items():
            reply = {"role": "assistant", "content": text}
            self._ask(f"kept {name}", 0, [opening, reply, {"role": "user", "content": NEXT}], max_tokens=1)
        for name, gap in (("joined", ""), ("paragraphs", "\n\n")):
            whole = {"role": "user", "content": gap.join((QUESTION, ANSWER, NEXT))}
            self._ask(f"turns {name}", 0, [whole], max_tokens=1)
        for marker in ("", *self.markers):
            text = f"start {marker * REPEATS}"
            self._ask(f"marker {marker}", 0, [{"role": "user", "content": text}], max_tokens=1)
        self._ask("letters", 0, [{"role": "user", "content": UNICODE}], max_tokens=1)

    def _again(self) -> None:
        """The same request again: greedy, with one seed, with other seeds."""
        messages = [{"role": "user", "content": WORDS[0]}]
        for number in range(2):
            self._ask("greedy", number, messages, max_tokens=TURN_TOKENS)
        for number, seed in enumerate((7, 7, 8, 9, 10)):
            self._ask("seed", number, messages, max_tokens=TURN_TOKENS, temperature=1.0, seed=seed)

    def _first_tokens(self) -> None:
        """The first token after one prompt, many times."""
        messages = [{"role": "user", "content": WORDS[1]}]
        for number in range(TRIES):
            self._ask("first", number, messages, max_tokens=2, temperature=1.0, seed=100 + number)

    def _limits(self) -> None:
        """One long reply, and the same cut short."""
        messages = [{"role": "user", "content": LONG}]
        for number, limit in enumerate((2 * TURN_TOKENS, 6, 1)):
            self._ask("limit", number, messages, max_tokens=limit)

    def _stops(self) -> None:
        """A reply, then the same with a string of its middle as the stop string."""
        whole = next(each for each in self.exchanges if each.probe == "limit" and each.turn == 0)
        if whole.reply.choices and (stop := middle_of(whole.reply.choices[0].text)):
            for number, stream in enumerate((False, True)):
                self._ask("stop", number, whole.messages, max_tokens=2 * TURN_TOKENS, stop=[stop], stream=stream)

    def _choices(self) -> None:
        self._ask("choices", 0, [{"role": "user", "content": WORDS[0]}], max_tokens=TURN_TOKENS, n=4, temperature=1.0)

    def _streams(self) -> None:
        """First turns again, in pieces; each has a whole answer beside it."""
        for probe in ("chat", "unicode", "thinking", "tool", "limit"):
            first = next(each for each in self.exchanges if each.probe == probe and each.turn == 0)
            fields = {name: value for name, value in first.fields.items() if name != "seed"}
            for kind in ("whole", "stream"):
                self._ask(f"{kind} {probe}", 0, first.messages, **fields, stream=kind == "stream")

    def _together(self) -> None:
        """Requests one after the other, and the same ones at once."""
        prompts = [[{"role": "user", "content": f"Count upwards from {number}."}] for number in range(1, TOGETHER + 1)]
        for number, messages in enumerate(prompts):
            self._ask("alone", number, messages, max_tokens=12)

        def ask(number: int) -> GatewayExchange:
            return self._ask("together", number, prompts[number], max_tokens=12)

        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(ask, range(TOGETHER)))


def middle_of(text: str) -> str:
    """Three characters of a reply that stand nowhere before its middle; "" where it has none such."""
    for start in range(len(text) // 3, len(text) - 3):
        part = text[start : start + 3]
        if part.isascii() and part.strip() == part and text.find(part) == start:
            return part
    return ""
