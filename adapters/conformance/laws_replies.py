"""Laws of a reply: log-probabilities, counts, ends, streams, seeds, requests side by side."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rlvr.adapters.conformance.evidence import (
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
from rlvr.adapters.conformance.laws_tokens import HALF, raw_text
from rlvr.adapters.conformance.probes import UNICODE, GatewayExchange, middle_of
from rlvr.adapters.conformance.replies import GatewayChoice, GatewayReply

NO_SCORES = "the gateway gives no log-probabilities"
LEAST_LOGPROB = -1_000.0  # below it a number stands for "none", as vLLM's -9999
SAME = 0.1  # log-probabilities of one token after one prompt in two batches, bfloat16 included
ROUNDING = 1e-6
MASS = 1.02  # of probabilities that add up to at most 1, with their rounding


def check_logprobs(evidence: Evidence) -> Iterator[LawFinding]:
    """Each sampled token has one log-probability, a finite number of at most 0."""
    is_scored = False
    for exchange, choice in evidence.answers():
        if choice.scores is None:
            continue
        is_scored, location = True, where(exchange, choice)
        count = len(choice.ids) if choice.ids is not None else _completion_count(exchange)
        values = [score.logprob for score in choice.scores]
        wrong = next((at for at, value in enumerate(values) if not LEAST_LOGPROB < value <= ROUNDING), None)
        mixed = [at for at, score in enumerate(choice.scores) if _names_other_id(choice, at, score.id)]
        if count is not None and count != len(values):
            detail = f"{len(values)} log-probabilities of {count} sampled tokens"
            yield broken(location, detail, min(count, len(values)), count, len(values))
        elif wrong is not None:
            yield broken(location, f"{values[wrong]} is no log-probability", wrong, "finite, at most 0", values[wrong])
        elif mixed:
            at = mixed[0]
            yield broken(location, "it names another token", at, around(choice.ids or (), at), choice.scores[at].token)
        else:
            yield holds(location, f"{len(values)} log-probabilities, their sum {math.fsum(values):.3f}")
    if not is_scored:
        yield unknown(NO_SCORES)


def _completion_count(exchange: GatewayExchange) -> int | None:
    return exchange.reply.usage[1] if len(exchange.reply.choices) == 1 else None


def _names_other_id(choice: GatewayChoice, at: int, named: int | None) -> bool:
    return named is not None and choice.ids is not None and choice.ids[at] != named


def check_scored(evidence: Evidence) -> Iterator[LawFinding]:
    """A log-probability is that of the token that was sampled there."""
    if not any(choice.scores for _, choice in evidence.answers()):
        yield unknown(NO_SCORES)
        return
    for exchange, choice in evidence.answers():
        yield from _beside_candidates(exchange, choice)
    yield from _first_tokens(evidence)
    yield from _cut_short(evidence.of("limit"))


def _beside_candidates(exchange: GatewayExchange, choice: GatewayChoice) -> Iterator[LawFinding]:
    """A token's number beside those of the most likely tokens there."""
    for at, score in enumerate(choice.scores or ()):
        best = max((value for _, value in score.top), default=None)
        if best is None or math.isnan(score.logprob):
            continue
        mass = math.fsum(math.exp(min(value, 1.0)) for _, value in score.top)
        # Parts of a character have one name, often "", so the nearest of that name is meant.
        named = [value for token, value in score.top if token == score.token]
        listed = min(named, key=lambda value: abs(value - score.logprob), default=None)
        if listed is not None and abs(listed - score.logprob) > ROUNDING + 1e-4:
            detail = f"{score.token!r} has another number among the candidates"
            yield broken(where(exchange, choice), detail, at, listed, score.logprob)
        elif mass > MASS:
            yield broken(where(exchange, choice), "the candidates' probabilities add up to more than 1", at, 1.0, mass)
        elif listed is None and score.logprob > best + SAME:
            yield broken(where(exchange, choice), "it is above that of every candidate", at, best, score.logprob)
        elif listed is None and abs(score.logprob - best) < ROUNDING:
            detail = "the sampled token is no candidate, and has the number of the most likely one"
            yield broken(where(exchange, choice), detail, at, None, score.logprob)
        else:
            continue
        return


def _first_tokens(evidence: Evidence) -> Iterator[LawFinding]:
    """First tokens after one prompt: one token has one number, and distinct tokens share a probability of 1."""
    seen: dict[str | int, list[tuple[float, GatewayExchange]]] = defaultdict(list)
    for exchange in evidence.of("first"):
        for choice in exchange.reply.choices:
            if choice.scores:
                name = choice.ids[0] if choice.ids else choice.scores[0].token
                seen[name].append((choice.scores[0].logprob, exchange))
    if not seen:
        return
    for token, numbers in seen.items():
        values = [value for value, _ in numbers]
        if max(values) - min(values) > SAME:
            detail = f"token {token} has different log-probabilities after one prompt"
            yield broken(where(numbers[-1][1]), detail, 0, min(values), max(values))
            return
    mass = math.fsum(math.exp(min(numbers[0][0], 1.0)) for numbers in seen.values())
    numbers_of_all = {round(numbers[0][0], 5) for numbers in seen.values()}
    if mass > MASS:
        detail = f"{len(seen)} distinct first tokens have probabilities that add up to {mass:.2f}"
        yield broken("first", detail, 0, "at most 1", mass)
    elif len(seen) >= 3 and len(numbers_of_all) == 1:
        yield broken("first", f"{len(seen)} distinct first tokens have one number, that of the most likely one", 0)
    elif len(seen) >= 2:
        yield holds("first", f"{len(seen)} distinct first tokens share a probability of {mass:.2f}")


def _cut_short(exchanges: Sequence[GatewayExchange]) -> Iterator[LawFinding]:
    """A reply that is cut has the numbers of the same tokens in the longer one."""
    choices = [each.reply.choices[0] for each in exchanges if each.reply.choices and each.reply.choices[0].scores]
    if len(choices) < 2:
        return
    whole = _named_scores(choices[0])
    for exchange, choice in zip(exchanges[1:], choices[1:], strict=False):
        for at, ((token, expected), (same, value)) in enumerate(zip(whole, _named_scores(choice), strict=False)):
            if token != same:
                break
            if abs(expected - value) > SAME:
                detail = "the same token after the same tokens has another number in a longer reply: shifted"
                yield broken(where(exchange), detail, at, expected, value)
                return
    yield holds("limit", "tokens of a reply that was cut have the numbers of the longer reply")


def _named_scores(choice: GatewayChoice) -> list[tuple[str | int, float]]:
    names: Sequence[str | int] = choice.ids or [score.token for score in choice.scores or ()]
    return [(name, score.logprob) for name, score in zip(names, choice.scores or (), strict=False)]


def check_usage(evidence: Evidence) -> Iterator[LawFinding]:
    """Usage counts the ids: of the prompt, of all completions, and their sum."""
    is_compared = False
    for exchange in evidence.exchanges:
        prompt, completion, total = exchange.reply.usage
        counts = [choice.count for choice in exchange.reply.choices]
        sampled = sum(count for count in counts if count is not None) if None not in counts and counts else None
        for name, expected, count in (
            ("prompt_tokens", len(exchange.reply.prompt_ids) if exchange.reply.prompt_ids else None, prompt),
            ("completion_tokens", sampled, completion),
            ("total_tokens", None if prompt is None or completion is None else prompt + completion, total),
        ):
            if count is not None and expected is not None and count != expected:
                yield broken(where(exchange), f"{name} is {count}, and {expected} are there", None, expected, count)
                break
            is_compared = is_compared or (name != "total_tokens" and None not in (count, expected))
        else:
            if None not in (sampled, completion):
                yield holds(where(exchange), f"{prompt} and {completion} tokens, as there are ids")
    if not is_compared:
        yield unknown("the gateway gives no usage, or nothing to compare it with")


def check_finish(evidence: Evidence) -> Iterator[LawFinding]:
    """``finish_reason`` says why the reply ended, and no reply is longer than ``max_tokens``."""
    ends = evidence.decoder.end_ids
    for exchange, choice in evidence.answers():
        count, limit, location = _count(exchange, choice), exchange.max_tokens, where(exchange, choice)
        if count is not None and limit is not None and count > limit:
            yield broken(location, f"{count} tokens, where max_tokens is {limit}", limit, limit, count)
        elif choice.finish is None:
            yield broken(location, "a reply that has ended names no finish_reason")
        elif choice.finish == "length" and None not in (count, limit) and count < limit:  # type: ignore[operator]
            yield broken(location, f"finish_reason is length after {count} of {limit} tokens", count)
        elif choice.finish == "length" and choice.ids and choice.ids[-1] in ends:
            detail = "finish_reason is length, and the last token is one that ends a reply"
            yield broken(location, detail, len(choice.ids) - 1, "stop", choice.ids[-1])
        elif choice.finish == "tool_calls" and not choice.calls:
            yield broken(location, "finish_reason is tool_calls, and there is no call")
        elif choice.finish == "stop" and choice.calls and not exchange.probe.startswith("recorded"):
            yield broken(location, "finish_reason is stop, and the reply calls a tool", None, "tool_calls", "stop")
    yield from _cut_is_reported(evidence.of("limit"))


def _count(exchange: GatewayExchange, choice: GatewayChoice) -> int | None:
    return choice.count if choice.count is not None else _completion_count(exchange)


def _cut_is_reported(exchanges: Sequence[GatewayExchange]) -> Iterator[LawFinding]:
    """A reply that goes on when it is given more tokens was cut."""
    if refused := refusal(exchanges):
        yield refused
        return
    if not exchanges:
        return
    whole = exchanges[0].reply.choices[0]
    for exchange in exchanges[1:]:
        cut = exchange.reply.choices[0]
        if whole.ids is not None and cut.ids is not None:
            goes_on = len(whole.ids) > len(cut.ids) and whole.ids[: len(cut.ids)] == cut.ids
        else:
            text = cut.text.rstrip(HALF)
            goes_on = len(whole.text) > len(text) and whole.text.startswith(text)
        if not goes_on:
            yield unknown("the longer reply does not go on from the shorter one", where(exchange))
        elif cut.finish != "length":
            detail = f"max_tokens {exchange.max_tokens} cut the reply, and finish_reason is {cut.finish}"
            yield broken(where(exchange), detail, cut.count, "length", cut.finish)
        else:
            yield holds(where(exchange), "a reply that max_tokens cut says length")


def check_stop(evidence: Evidence) -> Iterator[LawFinding]:
    """A stop string ends the reply where it first stands, in the text always or never, and streamed too."""
    stopped = evidence.of("stop")
    whole = next(iter(evidence.of("limit")), None)
    if refused := refusal([whole, *stopped] if whole else stopped):
        yield refused
        return
    if not stopped or whole is None:
        yield unknown("no reply to put a stop string into")
        return
    text = whole.reply.choices[0].text
    stop = middle_of(text)
    end = text.find(stop)
    kept: set[str] = set()
    for exchange in stopped:
        choice = exchange.reply.choices[0]
        if choice.text == text[:end]:
            kept.add("out")
        elif choice.text == text[: end + len(stop)]:
            kept.add("in")
        else:
            at = first_difference(text[:end], choice.text)
            detail = f"the stop string {stop!r} stands at character {end} of the reply, and it ends otherwise"
            yield broken(where(exchange), detail, None, text[max(0, end - 20) : end], choice.text[-20:])
            del at
            continue
        if choice.finish != "stop":
            yield broken(where(exchange), f"a stop string ended it, and finish_reason is {choice.finish}")
        elif len(kept) == 2:
            yield broken(where(exchange), "the stop string is in the whole answer, and not in the stream")
        else:
            yield holds(
                where(exchange),
                f"it ends there; the stop string is left {' '.join(kept)} of the text"
                if "out" in kept
                else "it ends there; the stop string stays in the text",
            )


def check_choices(evidence: Evidence) -> Iterator[LawFinding]:
    """``n`` replies are n choices, numbered from 0, each with ids, log-probabilities and an end of its own."""
    exchanges = evidence.of("choices")
    if refused := refusal(exchanges):
        yield refused
        return
    for exchange in exchanges:
        choices = exchange.reply.choices
        if [choice.index for choice in choices] != list(range(4)):
            yield broken(where(exchange), f"4 were asked for, and those of index {[c.index for c in choices]} came")
        elif len({(c.ids is None, c.scores is None, c.finish is None) for c in choices}) > 1:
            yield broken(where(exchange), "some choices have ids, log-probabilities or a finish_reason, and others not")
        elif len({c.ids or c.text for c in choices}) == 1 and len(choices[0].text) > 20:
            yield unknown("all four say the same, so nothing tells them apart", where(exchange))
        else:
            yield holds(where(exchange), "four choices")


def check_stream(evidence: Evidence) -> Iterator[LawFinding]:
    """A stream says what the whole answer says: text, ids, log-probabilities, finish_reason, usage."""
    pairs = [(w, s) for w in evidence.exchanges for s in evidence.exchanges if s.probe == _streamed(w.probe)]
    if not pairs:
        yield unknown("no stream was asked for")
    for whole, stream in pairs:
        if refused := refusal([whole, stream]):
            yield refused
            continue
        first = next((each for each in evidence.of(whole.probe.removeprefix("whole ")) if each.turn == 0), None)
        if first and first.reply.choices and _text(first.reply) != _text(whole.reply):
            yield unknown("the whole answer is not the same twice", where(whole))
            continue
        yield _compare(whole, stream)


def _streamed(probe: str) -> str:
    return f"stream {probe.removeprefix('whole ')}" if probe.startswith("whole ") else ""


def _text(reply: GatewayReply) -> tuple[str, str]:
    return reply.choices[0].text, reply.choices[0].thought


def _compare(whole: GatewayExchange, stream: GatewayExchange) -> LawFinding:
    a, b, location = whole.reply.choices[0], stream.reply.choices[0], where(stream)
    if not stream.reply.ended:
        return broken(location, "the stream ends without its last event")
    if a.ids is not None and b.ids is None:
        return unknown("the stream has no token ids", location)
    for name, expected, got in (("token id", a.ids or (), b.ids or ()), ("character", a.text, b.text)):
        at = first_difference(expected, got)
        if at is not None or len(expected) != len(got):
            at = len(expected) if at is None else at
            token = at if name == "token id" else None
            detail = f"{name} {at} of the stream is another than that of the whole answer"
            return broken(location, detail, token, list(expected[at : at + 8]), list(got[at : at + 8]))
    if a.calls != b.calls or a.thought != b.thought:
        return broken(location, "the calls or the thought of the stream are others", None, a.calls, b.calls)
    if a.finish != b.finish:
        return broken(location, "another finish_reason than the whole answer's", None, a.finish, b.finish)
    if a.scores is not None and b.scores is not None:
        values = [(x.logprob, y.logprob) for x, y in zip(a.scores, b.scores, strict=False)]
        off = next((at for at, (x, y) in enumerate(values) if abs(x - y) > SAME), None)
        off = min(len(a.scores), len(b.scores)) if off is None and len(a.scores) != len(b.scores) else off
        if off is not None:
            return broken(location, "another log-probability than in the whole answer", off, around(values, off))
    if None not in stream.reply.usage and None not in whole.reply.usage and whole.reply.usage != stream.reply.usage:
        return broken(location, "another usage than the whole answer's", None, whole.reply.usage, stream.reply.usage)
    return holds(location, f"it is the whole answer, in {len(stream.reply.deltas or ())} pieces of text")


def check_unicode(evidence: Evidence) -> Iterator[LawFinding]:
    """A character whose bytes lie in several tokens arrives whole, streamed too."""
    for exchange in evidence.of("letters"):
        decoded = exchange.reply.prompt_ids and evidence.decoder.decode(exchange.reply.prompt_ids, skip_special=False)
        if decoded and UNICODE in decoded:
            yield holds(where(exchange), "the user's letters stand in the prompt as they were sent")
        elif decoded:
            yield broken(
                where(exchange), "the user's letters stand otherwise in the prompt", None, UNICODE, decoded[:80]
            )
    wide = [(e, c) for e, c in evidence.answers() if any(ord(letter) > 0x7F for letter in c.text)]
    if not wide:
        yield unknown("the model wrote no character of several bytes")
    for exchange, choice in wide:
        raw = raw_text(choice)
        torn = [piece for piece in exchange.reply.deltas or () if HALF in piece]
        if torn and HALF not in choice.text.rstrip(HALF) and raw is not None and HALF not in raw:
            yield broken(where(exchange), "a piece of the stream ends inside of a character", None, None, torn[0])
        elif (
            torn
            and (whole := _whole_beside(evidence, exchange)) is not None
            and whole.count(HALF) < choice.text.count(HALF)
        ):
            yield broken(where(exchange), "a piece of the stream ends inside of a character", None, whole, choice.text)
        elif raw is not None and choice.text.count(HALF) > raw.count(HALF):
            yield broken(where(exchange), "characters of several tokens were replaced", None, raw, choice.text)
        elif HALF not in choice.text:
            yield holds(where(exchange), "its characters of several bytes are whole")


def _whole_beside(evidence: Evidence, exchange: GatewayExchange) -> str | None:
    probe = exchange.probe.replace("stream ", "whole ", 1)
    return next((each.reply.choices[0].text for each in evidence.of(probe) if each.reply.choices), None)


def check_greedy(evidence: Evidence) -> Iterator[LawFinding]:
    """At temperature 0 the same request gets the same reply."""
    yield from _same(evidence.of("greedy"))


def _same(exchanges: Sequence[GatewayExchange]) -> Iterator[LawFinding]:
    if refused := refusal(exchanges):
        yield refused
        return
    if len(exchanges) < 2:
        return
    first, second = (each.reply.choices[0] for each in exchanges[:2])
    expected, got = (first.ids or first.text), (second.ids or second.text)
    at = first_difference(expected, got)
    if at is None and len(expected) == len(got):
        yield holds(where(exchanges[1]), "it is the same")
    else:
        at = len(expected) if at is None else at
        token = at if first.ids else None
        yield broken(where(exchanges[1]), "the second reply is another", token, expected[at : at + 8], got[at : at + 8])


def check_seed(evidence: Evidence) -> Iterator[LawFinding]:
    """At temperature 1 a seed gives the same reply again, and other seeds give others."""
    exchanges = evidence.of("seed")
    if reason := evidence.offers.get("seeds (seed)"):
        yield unknown(reason, "seed")
        return
    if refused := refusal(exchanges):
        yield refused
        return
    if len({each.reply.choices[0].text for each in exchanges}) == 1 and exchanges:
        yield unknown("four seeds gave one reply, so nothing tells whether they are heeded", "seed")
        return
    yield from _same(exchanges)


def check_together(evidence: Evidence) -> Iterator[LawFinding]:
    """A reply does not depend on the requests beside it."""
    alone = evidence.of("alone")
    together = sorted(evidence.of("together"), key=lambda each: each.turn)
    if refused := refusal([*alone, *together]):
        yield refused
        return
    for a, b in zip(alone, together, strict=False):
        x, y = a.reply.choices[0], b.reply.choices[0]
        others = [each.turn for each in alone if each is not a and each.reply.choices[0].text != x.text]
        crossed = [n for n in others if alone[n].reply.choices[0].text == y.text and y.text != x.text]
        if a.reply.prompt_ids != b.reply.prompt_ids:
            yield broken(where(b), "its prompt has other ids than when it was sent alone")
        elif crossed:
            yield broken(where(b), f"it got the reply of request {crossed[0] + 1}")
        elif (at := first_difference(x.ids or x.text, y.ids or y.text)) is not None and not _is_tie(x, y, at):
            expected, got = (x.ids or x.text)[at : at + 4], (y.ids or y.text)[at : at + 4]
            yield broken(where(b), "it is another reply than alone", at if x.ids else None, expected, got)
        else:
            yield holds(where(b), "it is the reply that it got alone, up to a tie in the last bits")


def _is_tie(first: GatewayChoice, second: GatewayChoice, at: int) -> bool:
    """Whether two greedy replies part at tokens of nearly one probability, which the bits of a batch decide."""
    if not first.scores or not second.scores or at >= min(len(first.scores), len(second.scores)):
        return False
    return abs(first.scores[at].logprob - second.scores[at].logprob) < SAME and bool(first.ids or at == 0)
