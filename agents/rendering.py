"""From messages to tokens, a little at a time: only what is new is encoded, and appended to what was there.

A chat template renders whole conversations, and may write an earlier reply differently from how it was sampled
(Qwen3's drops earlier thinking, Llama-3's trims). Training needs the tokens as they were sampled. So a reply is
never encoded again: the template is asked what it puts after a stand-in for it, and that is appended.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from rlvr.agents.chat_template import (
    CLOSING,
    OPENING,
    TemplateStopped,
    Turn,
    render_template,
    require_variables,
    template_words,
)
from rlvr.agents.conversation import Conversation, Message, require_text
from rlvr.agents.plain_text import PlainText, any_of, control_tokens
from rlvr.envs.tools.calls import STYLES, Call, read_calls
from rlvr.envs.tools.tool import shown_schema

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Same prompts come in groups, so a few rounds of them are remembered.
REMEMBERED = 256
SURROGATES = re.compile("[\ud800-\udfff]")


class NoChatTemplate(ValueError):
    """The tokenizer has no chat template."""


def require_chat_template(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Raise `NoChatTemplate`, naming the model ``name``, when its tokenizer has none."""
    if not tokenizer.chat_template:
        raise NoChatTemplate(
            f"the tokenizer of {name!r} has no chat template, so nothing says how to show it a conversation: "
            "use an instruction-tuned model, or name a template in model.chat_template (chatml, qwen_math, r1_zero, "
            "plain, or a file)"
        )


class Renderer:
    """Turns the messages of a conversation into token ids with a tokenizer's chat template, incrementally.

    Many threads may share one: a tokenizer raises "Already borrowed" when two use it at once, so they take turns.

    What a message or a tool's schema contains is data: whatever spells an added token of the tokenizer, special or not,
    or words that alone delimit the template's messages, is encoded as the plain characters, never as what the template
    writes there. The assistant's own messages keep the tokens that only a policy writes, such as those around a call.
    Where a template has no system role, the system text goes before the first user message; where it has no tool role,
    a tool's output is a user message.

    Some templates open a thought in the prompt. `reply_text` then begins with that tag, and a demonstration that holds
    no thought ends it before it answers. Environments read thoughts in ``<think>``, however the model spells them.

    Attributes:
        end_id: the token that ends the assistant's turn in this template; None when there is none at all.
        end_ids: every token at which sampling stops.
        rewrites_history: the template, given the whole conversation, would not begin with what it began with
            before; such a conversation still trains exactly what was sampled, because it is never rendered anew.
        explanation: one sentence about that, for a log.
        data, own_data: find what must stay text in everybody else's messages and schemas, and in the assistant's own.
        opened_ids: the last ids of a prompt, those of the thought that the template opens there; empty for most.
        condition: what stands before the first observation of every conversation, see `render`; "" for nothing.

    Args:
        tokenizer: any Hugging Face tokenizer with a chat template.
        template_options: variables for the template, such as ``{"enable_thinking": False}``; one that is spelt like a
            variable of the template, and is none, is refused.
        end_ids: more tokens that end a turn (``model.generation_config.eos_token_id``), beside the tokenizer's
            end-of-sequence token and the template's own.

    Raises:
        NoChatTemplate: the tokenizer has none.
        ValueError: the template shows no reply.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        template_options: Mapping[str, Any] | None = None,
        end_ids: Iterable[int] = (),
    ) -> None:
        require_chat_template(tokenizer, tokenizer.name_or_path)
        require_variables(tokenizer, template_options or {})
        self.tokenizer: Any = tokenizer
        self._lock = threading.RLock()
        self._decode = decoder(tokenizer)
        self.template_options = dict(template_options or {})
        self.condition = ""
        self._tokens = control_tokens(tokenizer)
        special = {spelling for spelling, token in self._tokens.items() if token is None or token.special}
        self._special, self._control = any_of(special), any_of(self._tokens)
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._new_ids)

        user, reply = ("user", "Question."), ("assistant", "Reply.")
        self._system_role = self._shows([("system", "Rule.\ue000"), user], "Rule.\ue000")
        self._tool_role = self._shows([user, reply, ("tool", "Output.\ue000")], "Output.\ue000")
        # Some templates insist that users and assistants take turns.
        self._joins_users = not self._shows([user, ("user", "More.\ue000")], "More.\ue000")
        self._learn_words(special)

        self.end_id = self._template_end()
        eos: int | None = tokenizer.eos_token_id
        if self.end_id is None:
            self.end_id = eos
        candidates = (self.end_id, eos, *end_ids)
        self.end_ids: frozenset[int] = frozenset(token for token in candidates if token is not None)
        self.rewrites_history, self.explanation = self._history()

    def render(self, conversation: Conversation, condition: str | None = None) -> list[int]:
        """The ids to append for the messages not rendered yet, up to where the assistant begins to speak.

        Nothing is changed: the caller appends the ids and counts the messages.

        Args:
            condition: a paragraph to put before the first observation in place of ``self.condition``.

        Raises:
            ValueError: there is no new message, the message before them is not the assistant's, the template refuses
                the messages or leaves out the tools, or they show images.
        """
        messages, done = conversation.messages, conversation.rendered
        require_text(messages[done:], "a policy that samples tokens here")
        new = tuple((message["role"], message["content"]) for message in messages[done:])
        if not new or new[-1][0] == "assistant":
            raise ValueError(
                f"conversation {conversation.key!r} has no new message that asks for a reply: "
                "append the user's or tool's message before the agent acts again"
            )
        if not done:
            new = _behind(self.condition if condition is None else condition, new, conversation.opening)
            with self._lock:
                return list(self._remembered(new, True, None, conversation.tools))
        if messages[done - 1]["role"] != "assistant":
            raise ValueError(
                f"conversation {conversation.key!r} counts {done} messages as rendered, but the last of them is "
                f"the {messages[done - 1]['role']}'s: rendering stops after the assistant's"
            )
        last = conversation.tokens.ids[-1] if conversation.tokens.ids else None
        with self._lock:
            return list(self._remembered(new, False, last if last in self.end_ids else None))

    def render_demonstration(
        self, messages: Sequence[Message], tools: str = "", opening: int = 0
    ) -> tuple[list[int], list[int]]:
        """A whole conversation as a policy would have sampled it: ids and loss mask, of one length T.

        The mask is 1 on each token of the assistant's contents and on the token that ends each, 0 elsewhere and on the
        first ``opening`` messages, such as worked examples. What follows the last reply is left out.

        Raises:
            ValueError: the assistant says nothing, or speaks first, or the template refuses the messages, or they show
                images.
        """
        require_text(messages, "a policy that samples tokens here")
        turns = _behind(self.condition, [(message["role"], message["content"]) for message in messages], opening)
        replies = [index for index, (role, _) in enumerate(turns) if role == "assistant" and index >= opening]
        if not replies or replies[0] == 0:
            raise ValueError("a demonstration needs a prompt and then at least one message of the assistant's")
        if self.end_id is None:
            raise ValueError("this tokenizer has no end-of-sequence token, so a reply could never end: set one")
        with self._lock:
            ids = list(self._remembered(tuple(turns[: replies[0]]), True, None, tools))
            mask = [0] * len(ids)
            for reply, following in zip(replies, [*replies[1:], len(turns)], strict=True):
                completion = [*self._encode_reply(clean(turns[reply][1]), ids), self.end_id]
                ids += completion
                mask += [1] * len(completion)
                new = tuple(turns[reply + 1 : following])
                if following < len(turns):
                    context = self._remembered(new, False, self.end_id)
                    ids += context
                    mask += [0] * len(context)
        return ids, mask

    @property
    def opened_thought(self) -> tuple[str, str] | None:
        """The tags of the thought that the template opens at the end of a prompt; None where it opens none."""
        return (self._thought.begin, self._thought.end) if self._opened else None

    @cached_property
    def call_style(self) -> str:
        """How the template writes calls, one of `rlvr.envs.tools.STYLES`: found out by having it write one.

        Raises:
            ValueError: it shows no tools, or writes calls in none of the styles.
        """
        name, arguments = "look_up", {"word": "apple"}
        properties = {"word": {"type": "string", "description": "The word."}}
        schema = {"type": "object", "properties": properties, "required": ["word"]}
        tools = [shown_schema(name, "Look a word up.", schema)]
        question = {"role": "user", "content": "Question."}
        with self._lock:
            render = partial(render_template, self.tokenizer, tools=tools, options=self.template_options)
            require_tools_shown(tools, prompt := render([question], generate=True))
            for written in (arguments, json.dumps(arguments)):  # templates want one or the other
                function = {"name": name, "arguments": written}
                call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}
                with suppress(ValueError):
                    text = render([question, call], generate=False)
                    behind = text.removeprefix(prompt).rpartition("Question.")[2]
                    reply = self.reply_text(self.tokenizer.encode(behind, add_special_tokens=False), ())
                    for style in STYLES:
                        if read_calls(reply, style, {name: [*arguments]}).calls == (Call(name, arguments),):
                            return style
        raise ValueError(
            f"the chat template writes calls of tools in none of the styles {', '.join(STYLES)}: leave native_tools out"
        )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids`` without special tokens."""
        with self._lock:
            return self._decode(ids)

    def reply_text(self, ids: Sequence[int], prompt: Sequence[int]) -> str:
        """What the assistant says with ``ids``, sampled after ``prompt``: without special tokens, thoughts in
        ``<think>``, of which the opening tag may stand at the end of the prompt.
        """
        with self._lock:
            text = self._decode_thoughts(ids)
        return self._opened_text + text if self._opens_thought(prompt) else text

    def encode_reply(self, text: str) -> list[int]:
        """The ids of the assistant's own words, as a part of a reply."""
        with self._lock:
            return self._encode_own(clean(text))

    def _learn_words(self, special: set[str]) -> None:
        """Find out what the template writes around messages, and which thought it opens."""
        words = template_words(
            self._try_template,
            self._control,
            self._tokens,
            str(self.tokenizer.chat_template),
            ["user", *["tool"] * self._tool_role, *["system"] * self._system_role],
        )
        others = words.tokens - special | words.delimiters
        self._thought, self._opened = words.thought, words.opened
        self._opened_text = OPENING + words.opened.removeprefix(words.thought.begin) if words.opened else ""
        self.opened_ids: list[int] = self._end_of_prompt() if words.opened else []
        not_special = {*self._tokens} - special | words.delimiters
        self._plain = PlainText(self.tokenizer, self._encode_plain, self._tokens, not_special)
        self._own = PlainText(self.tokenizer, self._encode_plain, self._tokens, others)
        tags = {words.thought.begin, words.thought.end}
        self.data = any_of({*self._tokens} | words.delimiters)  # what is no more than text where others wrote it
        self.own_data = any_of((special - tags) | others)
        self._tag_ids = {self.tokenizer.convert_tokens_to_ids(tag): tag for tag in tags & special}
        self._tags = any_of(tags & special)

    def _try_template(self, turns: Sequence[Turn], generate: bool) -> str | None:
        try:
            return self._template(turns, generate=generate)
        except TemplateStopped:
            raise
        except ValueError:
            return None

    def _end_of_prompt(self) -> list[int]:
        """The last ids of a prompt, those of the thought that it opens."""
        ids = self.tokenizer.encode(self._template([("user", "Question.")], generate=True), add_special_tokens=False)
        for begin in range(len(ids) - 1, -1, -1):
            if self.tokenizer.decode(ids[begin:], clean_up_tokenization_spaces=False).endswith(self._opened):
                return list(ids[begin:])
        return list(ids)

    def _opens_thought(self, prompt: Sequence[int]) -> bool:
        length = len(self.opened_ids)
        return length > 0 and list(prompt[-length:]) == self.opened_ids

    def _decode_thoughts(self, ids: Sequence[int]) -> str:
        if self._thought.usual and not self._tag_ids:
            return self._decode(ids)
        parts: list[str] = []
        begin = 0
        for index, token in enumerate(ids):
            if token in self._tag_ids:
                parts += [self._decode(ids[begin:index]), self._tag_ids[token]]
                begin = index + 1
        text = "".join([*parts, self._decode(ids[begin:])])
        return text.replace(self._thought.begin, OPENING).replace(self._thought.end, CLOSING)

    def _encode_reply(self, text: str, prompt: Sequence[int]) -> list[int]:
        """The ids of a whole reply after a prompt, without its end."""
        return self._encode_own(self._after_opening(text) if self._opens_thought(prompt) else text)

    def _after_opening(self, text: str) -> str:
        """What follows where the prompt has opened a thought already; a reply without a thought ends that first."""
        line = "\n" if self._opened.endswith("\n") else ""
        if text.startswith(self._opened_text):
            return text.removeprefix(self._opened_text)
        if text.startswith(OPENING):
            return text.removeprefix(OPENING).removeprefix(line)
        before, end_tag, _ = text.partition(CLOSING)
        if end_tag and "<tool_call>" not in before and not before.lstrip().startswith(("{", "[", "```", "<")):
            return text
        return f"{line}{CLOSING}{line * 2}{text}"

    def _encode_own(self, text: str) -> list[int]:
        text = self._with_tags(text)
        if not self._tag_ids:
            return self._own.encode(text)
        ids: list[int] = []
        position = 0
        for match in self._tags.finditer(text):
            ids += self._own.encode(text[position : match.start()])
            ids.append(self.tokenizer.convert_tokens_to_ids(match[0]))
            position = match.end()
        return ids + self._own.encode(text[position:])

    def _new_ids(self, new: tuple[Turn, ...], first: bool, ended: int | None, tools: str = "") -> tuple[int, ...]:
        """Ids for ``new`` messages: the beginning, or what follows a reply that ended with token ``ended``.

        ``tools``, the schemas as JSON, go to the template with the first messages.
        """
        new = tuple((role, clean(content)) for role, content in new)
        marks = unused_characters([tools, *(content for _, content in new)])
        sentinel = next(marks)
        new, schemas, spelled = self._disarm(new, json.loads(tools) if first and tools else None, marks)
        if first:
            text = self._template(self._adapt(new), generate=True, tools=schemas)
            require_tools_shown(schemas or (), text)
            for mark in spelled if schemas else ():  # of a template that writes JSON in ASCII
                text = text.replace(f"\\u{ord(mark):04x}", mark)
        else:
            # The first message stands for all that was before: a template wants some user to answer to.
            stand_in = (("user", "."), ("assistant", sentinel))
            text = self._template([*stand_in, *self._adapt(new)], generate=True)
            if text.count(sentinel) != 1:
                raise ValueError(
                    f"the chat template shows a reply {text.count(sentinel)} times before "
                    f"{[role for role, _ in new]}: it must show it once"
                )
            text = text.partition(sentinel)[2]
        end = None if ended is None else self.tokenizer.convert_ids_to_tokens(ended)
        if end is None or not text.lstrip().startswith(end):
            return tuple(self._encode(text, spelled))
        # The reply brought its own end; encoded with it and cut off, so that what follows is split the same.
        ids = self._encode(text.lstrip(), spelled)
        return tuple(ids[1:] if ids[:1] == [ended] else ids)

    def _adapt(self, turns: Iterable[Turn]) -> list[Turn]:
        """The turns in the roles that this template has."""
        adapted: list[Turn] = []
        waiting: list[str] = []  # system texts for the next user message
        for role, content in turns:
            if role == "system" and not self._system_role:
                waiting.append(content)
                continue
            if role == "tool" and not self._tool_role:
                role = "user"
            if waiting and role == "user":
                content = "\n\n".join([*waiting, content])
                waiting = []
            if role == "user" and self._joins_users and adapted and adapted[-1][0] == "user":
                content = f"{adapted.pop()[1]}\n\n{content}"
            adapted.append((role, content))
        if waiting:
            adapted.append(("user", "\n\n".join(waiting)))
        return adapted

    def _template(self, turns: Sequence[Turn], *, generate: bool, tools: list[Any] | None = None) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            return render_template(self.tokenizer, messages, tools, self.template_options, generate=generate)
        except (ImportError, TemplateStopped):
            raise
        except Exception as error:  # a template is a stranger's program, and fails in any way
            roles = ", ".join(role for role, _ in turns)
            raise ValueError(f"the chat template refuses messages of the roles {roles}: {error!s:.300}") from error

    def _shows(self, turns: Sequence[Turn], content: str) -> bool:
        """Whether the template accepts these turns and shows this content."""
        try:
            return content in self._template(turns, generate=True)
        except TemplateStopped:
            raise
        except ValueError:
            return False

    def _disarm(
        self, turns: tuple[Turn, ...], schemas: Any, marks: Iterator[str]
    ) -> tuple[tuple[Turn, ...], Any, dict[str, str]]:
        """Put an unused character for each spelling that is to stay text; return which stands for which."""
        stands_for: dict[str, str] = {}

        def mark(match: re.Match[str]) -> str:
            if match[0] not in stands_for:
                stands_for[match[0]] = next(marks)
            return stands_for[match[0]]

        def safe(value: Any) -> Any:
            if isinstance(value, str):
                return self.data.sub(mark, value)
            if isinstance(value, dict):
                return {safe(key): safe(inner) for key, inner in value.items()}
            return [safe(inner) for inner in value] if isinstance(value, list) else value

        contents: list[Turn] = []
        for role, text in turns:
            is_own = role == "assistant"
            data = self.own_data if is_own else self.data
            contents.append((role, data.sub(mark, self._with_tags(text) if is_own else text)))
        return tuple(contents), safe(schemas), {sign: spelling for spelling, sign in stands_for.items()}

    def _with_tags(self, text: str) -> str:
        """The assistant's text with its thoughts in the model's own tags."""
        if self._thought.usual:
            return text
        return text.replace(OPENING, self._thought.begin).replace(CLOSING, self._thought.end)

    def _encode(self, text: str, spelled: Mapping[str, str]) -> list[int]:
        """Encode the template's text; ``spelled`` maps marks in it to the plain text they stand for."""
        if not spelled:
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        ids: list[int] = []
        # Special tokens stay text by themselves; the others are encoded in other pieces.
        special = {mark: spelling for mark, spelling in spelled.items() if self._special.fullmatch(spelling)}
        restore = str.maketrans(special)
        cut = any_of([*self._tokens, *(spelled.keys() - special.keys())])
        position, begins, before = 0, True, None
        for match in chain(cut.finditer(text), [None]):
            piece = text[position : match.start() if match else len(text)]
            after = self._tokens.get(match[0]) if match else None
            piece = piece.lstrip() if before is not None and before.rstrip else piece
            piece = piece.rstrip() if after is not None and after.lstrip else piece
            ids += self._plain.inside(piece.translate(restore), begins)
            if match:
                before, begins = after, match[0] in self._tokens and self._plain.begins_after_tokens
                ids += self._token_ids(match[0], spelled)
                position = match.end()
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def _token_ids(self, cut: str, spelled: Mapping[str, str]) -> list[int]:
        if cut in spelled:
            return list(self._plain.broken_ids(spelled[cut]))
        return [self.tokenizer.convert_tokens_to_ids(cut)]

    def _template_end(self) -> int | None:
        """The token that the template puts right after a reply."""
        sentinel = "\ue000"
        end_marker = self._template([("user", "Question."), ("assistant", sentinel)], generate=False)
        if sentinel not in end_marker:
            raise ValueError("the chat template does not show the assistant's reply: use another template")
        match = self._control.match(end_marker.partition(sentinel)[2].lstrip())
        return None if match is None else self.tokenizer.convert_tokens_to_ids(match[0])

    def _history(self) -> tuple[bool, str]:
        """Whether the template keeps what it wrote before, tried on three kinds of reply."""
        replies = {
            "it writes an earlier reply differently from the latest": "Reply.",
            "it drops or changes the thinking of earlier replies": "<think>\nThought.\n</think>\n\nReply.",
            "it trims the blank space around earlier replies": " Reply. ",
        }
        broken = [note for note, reply in replies.items() if not self._keeps(reply)]
        if not broken:
            return False, "the template keeps history as it was"
        if len(broken) == len(replies):
            broken = broken[:1]
        return True, f"the template rewrites history ({'; '.join(broken)}); the tokens sampled are kept instead"

    def _keeps(self, reply: str) -> bool:
        turns: list[Turn] = [("user", "Question.")]
        before = self._template(turns, generate=True)
        for role in ("tool", "user") if self._tool_role else ("user", "user"):
            turns += [("assistant", reply), (role, "More.")]
            after = self._template(turns, generate=True)
            if not after.startswith(before + reply):
                return False
            before = after
        return True


def _behind(condition: str, turns: Sequence[Turn], opening: int) -> tuple[Turn, ...]:
    """The turns with a condition before the first observation, which stands behind the opening messages."""
    if not condition:
        return tuple(turns)
    first = next((at for at, (role, _) in enumerate(turns) if at >= opening and role != "system"), len(turns) - 1)
    role, content = turns[first]
    return (*turns[:first], (role, f"{condition}\n\n{content}"), *turns[first + 1 :])


def decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """What gives the text of ids without special tokens: the tokenizer's own, past a wrapper that costs several times
    as much where it does nothing else."""
    try:
        from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
    except ImportError:  # a stand-in for a tokenizer
        kinds: tuple[Any, ...] = ()
    else:
        kinds = (PreTrainedTokenizerBase, PreTrainedTokenizerFast)
    kind = type(tokenizer)
    if kinds and isinstance(tokenizer, kinds[1]) and (kind.decode, kind._decode) == (kinds[0].decode, kinds[1]._decode):
        return lambda ids: str(tokenizer.backend_tokenizer.decode(ids, skip_special_tokens=True))
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def require_tools_shown(tools: Iterable[Mapping[str, Any]], text: str) -> None:
    """Refuse a chat template that says nothing of the tools it was given: the policy would not know of them.

    Args:
        tools: their JSON schemas, each with its name at the top or under ``function``.
        text: what the template made of the conversation's beginning.

    Raises:
        ValueError: a tool's name is not in the text.
    """
    missing = [name for tool in tools if (name := tool.get("function", tool).get("name", "")) not in text]
    if missing:
        raise ValueError(
            f"the chat template says nothing of the tools {', '.join(missing)}: leave native_tools out, which is "
            "tools_in='system'; tools that a program or a log brings need a model whose template takes tools"
        )


def clean(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which have no UTF-8 form and hence no tokens."""
    return text if text.isascii() else SURROGATES.sub("\ufffd", text)


def unused_characters(texts: Sequence[str]) -> Iterator[str]:
    """Private-use characters that occur in none of the texts."""
    used = set().union(*texts)
    private = chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))
    return (char for char in map(chr, private) if char not in used)
