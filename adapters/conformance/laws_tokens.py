"""Laws of the tokens that would be trained: prompts, history, masks, roles, decodings, calls of tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlvr.adapters.conformance.evidence import (
    NO_DECODER,
    NO_IDS,
    Evidence,
    LawFinding,
    around,
    broken,
    first_difference,
    holds,
    refusal,
    unknown,
    where,
)
from rlvr.adapters.conformance.probes import (
    ANSWER,
    ARGUMENTS,
    KEPT,
    NEXT,
    QUESTION,
    REPEATS,
    RESULT,
    UNICODE,
    GatewayExchange,
)
from rlvr.adapters.conformance.replies import GatewayChoice

HALF = "\ufffd"  # what decoders write for bytes that are no whole character
RETOKENISED = "retokenised: the same text, encoded anew as other tokens"
LEAST_TOKENS = 8  # that a long text costs in any tokenizer; fewer say that it is gone


def check_prefix(evidence: Evidence) -> Iterator[LawFinding]:
    """The prompt of a turn begins with the prompt and the sampled ids of the turn before."""
    for before, after in evidence.follow_ups():
        if refused := refusal([before, after]):
            yield refused
            continue
        sampled, prompt, new = before.reply.choices[0].ids, before.reply.prompt_ids, after.reply.prompt_ids
        if sampled is None or prompt is None or new is None:
            yield unknown(NO_IDS if sampled is None else "the gateway gives no ids of prompts", where(after))
            continue
        expected = prompt + sampled
        at = first_difference(expected, new)
        if at is None:
            yield holds(where(after), f"the first {len(expected)} tokens of its prompt are those of the turn before")
        else:
            cause = cause_of_break(evidence, before, after, at)
            yield broken(where(after), cause, at, around(expected, at), around(new, at))


def cause_of_break(evidence: Evidence, before: GatewayExchange, after: GatewayExchange, at: int) -> str:
    """What a gateway did to a history whose ids part at a position, in words."""
    prompt, new, reply = before.reply.prompt_ids or (), after.reply.prompt_ids or (), before.reply.choices[0]
    part = "the sampled reply" if at >= len(prompt) else "an earlier part of the prompt"
    old_text = evidence.decoder.decode(prompt + (reply.ids or ()), skip_special=False)
    new_text = evidence.decoder.decode(new, skip_special=False)
    if old_text is None or new_text is None:
        return f"the ids of {part} are others in the next prompt; --tokenizer would say why"
    if new_text.startswith(old_text):
        return RETOKENISED
    if HALF in reply.text and at >= len(prompt):
        return "retokenised: what was sampled is no whole text, and its characters were replaced"
    if at < len(prompt) and _lost_message(after, new_text):
        return "history rewritten: an earlier message is left out of the prompt"
    thought = reply.thought or (reply.text.partition("</think>")[0] if "</think>" in reply.text else "")
    if thought and thought.strip("\n ") not in new_text:
        return "history rewritten: the thinking was stripped"
    if reply.calls and any(arguments not in new_text for _, arguments in reply.calls):
        return "history rewritten: the call of a tool was written anew"
    if "".join(new_text.split()).startswith("".join(old_text.split())):
        return "history rewritten: whitespace was changed"
    if reply.text.strip() and reply.text not in new_text and reply.text.strip() in new_text:
        return "history rewritten: whitespace was changed"
    return f"history rewritten: {part} stands otherwise in the next prompt"


def _lost_message(exchange: GatewayExchange, text: str) -> bool:
    contents = [message["content"] for message in exchange.messages if isinstance(message.get("content"), str)]
    return any(content.strip() and content.strip() not in text for content in contents[:-2])


def check_kept(evidence: Evidence) -> Iterator[LawFinding]:
    """An assistant's message that is sent back stands in the prompt as it was sent."""
    base = next(iter(evidence.of("kept base")), None)
    for name, (text, cause) in KEPT.items():
        for exchange in evidence.of(f"kept {name}"):
            if refused := refusal([exchange]):
                yield refused
                continue
            decoded = _decoded_prompt(evidence, exchange)
            if decoded is not None and (name != "unicode" or _keeps_letters(evidence)):
                if text in decoded:
                    yield holds(where(exchange), "it stands there letter for letter")
                else:
                    shown = decoded[decoded.find(QUESTION) + len(QUESTION) :][: len(text) + 40]
                    yield broken(where(exchange), cause, None, text, shown)
                continue
            count, least = exchange.reply.prompt_count, base.reply.prompt_count if base else None
            if count is None or least is None or name == "unicode":
                hidden = "the gateway gives no ids of prompts" if exchange.reply.prompt_ids is None else NO_DECODER
                yield unknown(hidden if name == "unicode" else "the gateway counts no prompt", where(exchange))
            elif count - least < (2 if name == "whitespace" else LEAST_TOKENS):
                detail = f"{cause}: {len(text) - len(ANSWER)} more characters cost {count - least} tokens"
                yield broken(where(exchange), detail, None, least, count)
            else:
                yield holds(where(exchange), f"it costs {count - least} tokens more than the plain answer")


def _keeps_letters(evidence: Evidence) -> bool:
    """Whether the tokenizer gives unusual characters back as they were in a user's message."""
    return any(UNICODE in (_decoded_prompt(evidence, exchange) or "") for exchange in evidence.of("letters"))


def _decoded_prompt(evidence: Evidence, exchange: GatewayExchange) -> str | None:
    ids = exchange.reply.prompt_ids
    return None if ids is None else evidence.decoder.decode(ids, skip_special=False)


def check_turns(evidence: Evidence) -> Iterator[LawFinding]:
    """Each message is a turn of its own in the prompt, in the order of sending."""
    exchanges = [
        exchange for probe in ("kept base", "turns joined", "turns paragraphs") for exchange in evidence.of(probe)
    ]
    if len(exchanges) < 3:
        yield unknown("the probe was not played")
        return
    if refused := refusal(exchanges):
        yield refused
        return
    base, joined, paragraphs = exchanges
    decoded = _decoded_prompt(evidence, base)
    if decoded is not None:
        yield _boundaries(base, decoded)
    elif base.reply.prompt_ids is not None and base.reply.prompt_ids == paragraphs.reply.prompt_ids:
        yield broken(where(base), "three messages have the ids of one message of three paragraphs")
    elif base.reply.prompt_count is None or joined.reply.prompt_count is None:
        yield unknown("the gateway counts no prompt")
    else:
        cost = base.reply.prompt_count - joined.reply.prompt_count
        if cost <= 2:
            yield broken(where(base), f"two boundaries between messages cost {cost} tokens: the messages were merged")
        elif cost < 6 and base.reply.prompt_ids is None:
            yield unknown(f"two boundaries between messages cost {cost} tokens, which may be those of a merged message")
        else:
            yield holds(where(base), f"two boundaries between messages cost {cost} tokens")


def _boundaries(exchange: GatewayExchange, decoded: str) -> LawFinding:
    position = 0
    for content in (QUESTION, ANSWER, NEXT):
        found = decoded.find(content, position)
        if found < 0:
            return broken(where(exchange), f"the message {content!r} does not stand in its place in the prompt")
        if position and not decoded[position:found].strip():
            return broken(where(exchange), f"nothing but whitespace parts {content!r} from the message before: merged")
        position = found + len(content)
    return holds(where(exchange), "every message stands in the prompt once, between marks of turns")


def check_roles(evidence: Evidence) -> Iterator[LawFinding]:
    """Special tokens that a user spells out stay text."""
    base = next(iter(evidence.of("marker ")), None)
    markers = [each for each in evidence.exchanges if each.probe.startswith("marker ") and each is not base]
    if base is None or base.reply.prompt_count is None:
        yield (refusal([base]) if base else None) or unknown("the gateway counts no prompt")
        return
    parsed = 0
    for exchange in markers:
        marker, count = exchange.probe.removeprefix("marker "), exchange.reply.prompt_count
        if count is None:
            yield refusal([exchange]) or unknown("the gateway counts no prompt", where(exchange))
            continue
        cost = count - base.reply.prompt_count
        if cost <= REPEATS + 2 and marker.strip():
            parsed += 1
            token = _first_repeated(base, exchange)
            detail = f"{REPEATS} times {marker!r} in a user's message are {cost} tokens: parsed as special tokens"
            yield broken(where(exchange), detail, token, f"{len(marker)} characters as text", _ids_at(exchange, token))
    if markers and not parsed:
        yield holds("marker", f"none of {len(markers)} spellings became a token of its own")


def _first_repeated(base: GatewayExchange, exchange: GatewayExchange) -> int | None:
    """Where the first id stands that the prompt has so many times more than the prompt without markers."""
    ids, plain = exchange.reply.prompt_ids or (), base.reply.prompt_ids or ()
    return next((at for at, token in enumerate(ids) if ids.count(token) - plain.count(token) >= REPEATS), None)


def _ids_at(exchange: GatewayExchange, token: int | None) -> list[int] | None:
    return None if token is None else around(exchange.reply.prompt_ids or (), token)


def check_mask(evidence: Evidence) -> Iterator[LawFinding]:
    """Exactly the sampled tokens would be trained: none lost, none doubled, none of the template's among them."""
    for exchange, choice in evidence.answers():
        if choice.mask is not None and choice.ids is not None and choice.mask != (1,) * len(choice.ids):
            at = first_difference((1,) * len(choice.ids), choice.mask)
            yield broken(where(exchange, choice), "the gateway's mask is not 1 on each sampled token", at)
    after_stop: list[tuple[GatewayExchange, int, int]] = []  # where a reply ended by itself: what stands behind it
    after_cut: set[int] = set()
    for before, after in evidence.follow_ups():
        reply = next(iter(before.reply.choices), None)
        new = after.reply.prompt_ids
        if reply is None or not reply.ids or before.reply.prompt_ids is None or new is None:
            yield unknown(NO_IDS, where(after))
            continue
        expected = before.reply.prompt_ids + reply.ids
        if new[: len(expected)] != expected or len(new) == len(expected):
            yield unknown("the history breaks, so no mask can be laid over it", where(after))
        elif reply.finish == "length":
            after_cut.add(new[len(expected)])
        elif new[len(expected)] == reply.ids[-1]:
            detail = "the token that ends the reply stands twice: sampled, and added by the template"
            yield broken(where(after), detail, len(expected), None, around(new, len(expected) - 1))
        else:
            after_stop.append((after, len(expected), new[len(expected)]))
    yield from _ends(evidence, after_stop, after_cut)


def _ends(
    evidence: Evidence, after_stop: Sequence[tuple[GatewayExchange, int, int]], after_cut: set[int]
) -> Iterator[LawFinding]:
    """Whether replies that ended by themselves have their end token among the sampled ids.

    The template adds that token behind a reply that was cut; behind any other it must have been sampled.
    """
    ends = evidence.decoder.end_ids or after_cut
    for exchange, at, token in after_stop:
        if token in ends:
            detail = "the token that ends the reply is none of the sampled ids: it would never be trained"
            yield broken(where(exchange), detail, at, None, token)
        else:
            yield holds(where(exchange), f"the context begins at token {at}, behind the end of the reply")
    if after_cut and not after_stop:
        yield holds("conversations", "the context begins behind the sampled ids of each reply that was cut")


def check_decoding(evidence: Evidence) -> Iterator[LawFinding]:
    """A reply's text is the decoding of its ids, without special tokens or with them, as was asked."""
    for exchange, choice in evidence.answers():
        if choice.ids is None or exchange.fields.get("stop"):
            continue
        raw = evidence.decoder.decode(_without_end(evidence, choice), skip_special=False)
        plain = evidence.decoder.decode(choice.ids, skip_special=True)
        if raw is None:
            yield unknown(NO_DECODER, where(exchange, choice))
            return
        is_raw = exchange.fields.get("skip_special_tokens") is False
        text = _text_of_ids(evidence, exchange, raw if is_raw or plain is None else plain)
        if choice.thought or choice.calls:
            parts = [part for part in (choice.text.strip(), choice.thought.strip()) if part]
            missing = [part for part in parts if part not in raw]
            if missing:
                yield broken(where(exchange, choice), "a part of the message is not in its ids", None, missing[0], raw)
            else:
                yield holds(where(exchange, choice), "the parts of the message stand in the decoded ids")
        elif choice.text in (text, text.rstrip(HALF)) or (plain is None and choice.text == raw):
            kept = "with" if is_raw else "without"
            yield holds(where(exchange, choice), f"its ids decode to it, {kept} special tokens")
        else:
            yield _other_text(evidence, exchange, choice, text, raw)
    if not any(choice.ids is not None for _, choice in evidence.answers()):
        yield unknown(NO_IDS)


def _without_end(evidence: Evidence, choice: GatewayChoice) -> tuple[int, ...]:
    ids = choice.ids or ()
    return ids[:-1] if choice.finish != "length" and ids and ids[-1] in evidence.decoder.end_ids else ids


def _text_of_ids(evidence: Evidence, exchange: GatewayExchange, decoded: str) -> str:
    """The decoded reply, behind the tag of a thought that the prompt ends with."""
    prompt = _decoded_prompt(evidence, exchange) or ""
    opened = "<think>" if prompt.rstrip().endswith("<think>") else ""
    texts = [choice.text for choice in exchange.reply.choices]
    return opened + prompt[len(prompt.rstrip()) :] + decoded if opened and texts[0].startswith(opened) else decoded


def _other_text(
    evidence: Evidence, exchange: GatewayExchange, choice: GatewayChoice, text: str, raw: str
) -> LawFinding:
    if choice.text == raw:
        detail = "special tokens stand in the text, and were not asked for"
    elif choice.text.strip() == text.strip():
        detail = "whitespace at its ends was trimmed"
    elif "".join(choice.text.split()) == "".join(text.split()):
        detail = "whitespace was changed"
    elif text.startswith(choice.text):
        detail = "its end is missing"
    else:
        detail = "it is another text"
    at = first_difference(text, choice.text)
    at = len(text) if at is None else at
    token = _token_at(evidence, choice.ids or (), at)
    return broken(where(exchange, choice), detail, token, text[at : at + 20], choice.text[at : at + 20])


def _token_at(evidence: Evidence, ids: Sequence[int], character: int) -> int:
    """The token that holds a character of the text."""
    for count in range(1, len(ids) + 1):
        if len(evidence.decoder.decode(ids[:count], skip_special=True) or "") > character:
            return count - 1
    return max(0, len(ids) - 1)


def check_tools(evidence: Evidence) -> Iterator[LawFinding]:
    """The arguments of a call come as they were sampled, and a call and its result stand in the next prompt."""
    called = [(exchange, choice) for exchange, choice in evidence.answers() if choice.calls]
    if not called:
        yield unknown("the model called no tool, or the gateway read no call in what it wrote", "tool")
    for exchange, choice in called:
        raw = None if choice.ids is None else evidence.decoder.decode(choice.ids, skip_special=False)
        if raw is None:
            raw = raw_text(choice)
        for _, arguments in choice.calls:
            if raw is None:
                yield unknown(NO_DECODER, where(exchange))
            elif arguments in raw:
                yield holds(where(exchange), "the arguments stand in the sampled text letter for letter")
            else:
                yield broken(where(exchange), "the arguments were written anew", None, raw[:200], arguments)
    yield from _results(evidence)


def raw_text(choice: GatewayChoice) -> str | None:
    """The sampled text by the bytes of its log-probabilities; None where they are not given."""
    pieces = [score.data for score in choice.scores or ()]
    data = [piece for piece in pieces if piece is not None]
    return b"".join(data).decode("utf-8", "replace") if pieces and len(data) == len(pieces) else None


def _results(evidence: Evidence) -> Iterator[LawFinding]:
    pair = [*evidence.of("result short"), *evidence.of("result long")]
    if refused := refusal(pair):
        yield refused
        return
    if len(pair) < 2:
        return
    short, long = pair
    decoded = _decoded_prompt(evidence, long)
    if decoded is not None:
        missing = [text for text in ("get_weather", RESULT) if text not in decoded]
        if missing:
            yield broken(where(long), f"{missing[0]!r} of the call and its result is not in the prompt")
        elif ARGUMENTS not in decoded:
            yield broken(
                where(long),
                "the arguments of an earlier call do not stand there as sent",
                None,
                ARGUMENTS,
                decoded[-400:],
            )
        else:
            yield holds(where(long), "the call and its result stand in the prompt letter for letter")
    elif long.reply.prompt_count is None or short.reply.prompt_count is None:
        yield unknown("the gateway counts no prompt", where(long))
    elif (cost := long.reply.prompt_count - short.reply.prompt_count) < LEAST_TOKENS:
        yield broken(where(long), f"a result of {2 * len(RESULT)} characters costs {cost} tokens: it was left out")
    else:
        yield holds(where(long), f"the result costs {cost} tokens")
