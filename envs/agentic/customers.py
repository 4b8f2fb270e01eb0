"""A language model as the customer of a service desk: it says, in its own words, what the scripted one would.

It decides how things are said, not what is true: the shop, the requests and the judge are those of the task.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rlvr.envs.core.hints import require_known
from rlvr.envs.core.verdict import Provoked, answer_beside_control
from rlvr.envs.endpoint import DEADLINE, Endpoint, EndpointError, chat
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.tools.kits import within
from rlvr.envs.tools.tool import NotInTime, ToolError, ToolFault, shown

MAX_ANSWER_CHARS: Final = 600  # of an answer that reaches the desk
REMEMBERED: Final = 100_000
BRIEF: Final = (
    "You are a customer of a shop and talk with its service desk. Stay in that part whatever the desk says. Answer "
    "what you are asked, in one to three sentences of plain text, and say nothing that you were not asked for. You "
    "know only what stands here; never make up a number, an address, a name or a product. You want nothing else.\n\n"
    "What you want: {wanted}\nWhat you know:\n{known}"
)
UNHEARD: Final = "I am sorry, I could not follow that."
UNRECORDED: Final = "(no answer: no such conversation is recorded)"
HARMLESS: Final = "Hello?"  # a message that any customer can answer
GREETING: Final = "Service desk. What can we do for you?"

Chat = Callable[[Sequence[Mapping[str, str]]], str]
_LOG = logging.getLogger("rlvr.envs")
Exchanges = tuple[tuple[str, str], ...]  # the message of the desk, the answer of the customer


class ModelCustomer:
    """Answers as a language model does; the same conversation gets the same answer again.

    Answers are kept in ``replies``, by a digest of the conversation, so that an episode is replayed exactly as
    long as they are there: in this process the last 100,000, in another one those that it is given. ``replies`` is a
    mapping of texts, which JSON can hold.

    Args:
        speaker: an OpenAI-compatible endpoint, or any function from chat messages to text; None says only what is in
            ``replies``, and `UNRECORDED` to all else: it replays episodes, and serves no policy.
        seconds: how long a function may take; an endpoint has a deadline of its own.
        replies: of an earlier customer.

    Raises:
        TypeError: the speaker is neither.
        ValueError: no time, or nobody who could say anything.
    """

    def __init__(
        self, speaker: Endpoint | Chat | None, *, seconds: float = 60.0, replies: Mapping[str, str] | None = None
    ) -> None:
        if speaker is not None and not isinstance(speaker, Endpoint) and not callable(speaker):
            raise TypeError(f"a customer is an Endpoint or a function from messages to text, not {speaker!r}")
        if speaker is None and not replies:
            raise ValueError("a customer without a speaker needs the replies of an earlier one")
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, got {seconds}")
        self.speaker, self.seconds = speaker, seconds
        self.replies: OrderedDict[str, str] = OrderedDict(replies or {})
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def answer(self, wanted: str, facts: Sequence[str], talk: Exchanges, message: str) -> str:
        """The customer's answer to a message of the desk.

        Args:
            wanted: what the customer opened with.
            facts: the facts that may be asked for.
            talk: the messages and answers since.
            message: the desk's last.

        Where the model has no answer to what the desk wrote, as it is beyond its context say, and has one to harmless
        messages in its place, the answer is `UNHEARD`.

        Raises:
            ToolFault: no answer, or none in time, to harmless messages either.
        """
        messages = conversation(wanted, facts, talk, message.strip() or "(says nothing)")
        key = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
        answer = self.replies.get(key)
        if answer is None:
            if self.speaker is None:  # the policy chose its words: it must not void its episode by them
                _LOG.warning("a customer without a speaker was asked what is not recorded: it only replays episodes")
                return UNRECORDED
            harmless = conversation(wanted, facts, tuple((HARMLESS, answered) for _, answered in talk), HARMLESS)
            try:
                answer = answer_beside_control(partial(self._ask, self.speaker), messages, harmless)
            except Provoked:
                answer = UNHEARD
            with self._lock:
                answer = self.replies.setdefault(key, answer)  # of two who asked at once, the first
                while len(self.replies) > REMEMBERED:
                    self.replies.popitem(last=False)
        return answer

    def _ask(self, speaker: Endpoint | Chat, messages: Sequence[Mapping[str, str]]) -> str:
        if isinstance(speaker, Endpoint):
            try:
                reply = chat(speaker, messages)
            except EndpointError as error:
                late = error.code == DEADLINE
                raise ToolFault(f"the customer: {error}", "timeout" if late else "env_error") from error
        else:
            try:
                reply = within(self.seconds, "the customer", lambda: _text(speaker(messages)))
            except NotInTime as error:
                raise ToolFault(str(error), "timeout") from error
            except ToolError as error:
                raise ToolFault(str(error)) from error
        text = shown(" ".join(visible_text(reply).split()), MAX_ANSWER_CHARS)
        if not text:
            raise ToolFault("the customer: the reply has no text")
        return text


def conversation(wanted: str, facts: Sequence[str], talk: Exchanges, message: str) -> list[dict[str, str]]:
    """The chat as the model gets it: it is the assistant, and the desk is the user."""
    brief = BRIEF.format(wanted=wanted, known="\n".join(f"- {fact}" for fact in facts))
    messages = [{"role": "system", "content": brief}, {"role": "user", "content": GREETING}]
    messages.append({"role": "assistant", "content": wanted})
    for desk, customer in talk:
        messages += [{"role": "user", "content": desk}, {"role": "assistant", "content": customer}]
    messages.append({"role": "user", "content": message})
    return messages


def _text(reply: Any) -> str:
    if not isinstance(reply, str):
        raise TypeError(f"a customer's function gives text, not {type(reply).__name__}")
    return reply


def model_customer(customer: Any) -> ModelCustomer | None:
    """The customer that a setting names: None is the scripted one; an endpoint may be written as a mapping.

    Raises:
        TypeError: the setting is none of these.
    """
    if customer is None or isinstance(customer, ModelCustomer):
        return customer
    if isinstance(customer, Mapping):
        require_known("the endpoint customer=", customer, inspect.signature(Endpoint).parameters)
        try:
            customer = Endpoint(**customer)
        except TypeError as error:
            raise TypeError(f"customer: an endpoint lacks a setting: {error}") from None
    return ModelCustomer(customer)
