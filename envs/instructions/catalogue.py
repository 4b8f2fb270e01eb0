"""All kinds of instructions in their twelve groups, the split that each belongs to, and the judging of a text.

``SPLIT_OF`` holds kinds out by their names: those of the validation and test splits never occur in the train split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from rlvr.envs.core.seeding import divide, nameless, stream
from rlvr.envs.core.verdict import Verdict, unparsable
from rlvr.envs.instructions.content import FACTS_GIVEN, LANGUAGE, REPLY_LANGUAGE
from rlvr.envs.instructions.draft import CannotWrite, TextDraft
from rlvr.envs.instructions.edges import EDGES, STARTS
from rlvr.envs.instructions.kind import Instruction, InstructionKind
from rlvr.envs.instructions.language import Language
from rlvr.envs.instructions.layout import STRUCTURE, WHOLE
from rlvr.envs.instructions.lengths import LENGTH, PARAGRAPHS
from rlvr.envs.instructions.marks import CASE, PUNCTUATION
from rlvr.envs.instructions.text import LANGUAGES, MAX_CHARS, Brief, WrittenText, prose_fault, words_of
from rlvr.envs.instructions.word_choice import KEYWORDS, LETTERS
from rlvr.envs.rewards.extraction import visible_text

GROUPS: Final[dict[str, tuple[InstructionKind, ...]]] = {
    "length": LENGTH,
    "paragraphs": PARAGRAPHS,
    "structure": STRUCTURE,
    "form of the whole": WHOLE,
    "beginning and end": EDGES,
    "beginnings of sentences": STARTS,
    "words": KEYWORDS,
    "letters": LETTERS,
    "capitals": CASE,
    "punctuation": PUNCTUATION,
    "language and persons": LANGUAGE,
    "facts": FACTS_GIVEN,
}
KINDS: Final = {each.name: each for group in GROUPS.values() for each in group}
# The language of the reply stands beside other kinds in every split.
SPLIT_OF: Final = {REPLY_LANGUAGE: "train", **divide([name for name in KINDS if name != REPLY_LANGUAGE])}
TRIES: Final = 6  # texts that the expert writes until one obeys all


def sentence_of(instruction: Instruction, code: str) -> str:
    """An instruction as the user says it."""
    return KINDS[instruction.kind].says[code].format(*instruction.args)


def language_of(brief: Brief, instructions: Iterable[Instruction]) -> Language:
    """The language that a text is to be in: the user's, unless an instruction names another."""
    codes = [str(each.args[0]) for each in instructions if each.kind == REPLY_LANGUAGE]
    return LANGUAGES[codes[0] if codes else brief.language]


def judge(action: str, brief: Brief, instructions: Sequence[Instruction], prompt: str = "") -> Verdict:
    """Whether a reply is prose about the facts of the brief and obeys every instruction; reward 1 or 0.

    The verdict's parts are 1 or 0 for ``prose`` and for each instruction by its kind.

    Args:
        action: the reply.
        brief: what the text is about.
        instructions: those in force.
        prompt: what the user wrote, without the facts; no text may copy it.
    """
    reply = visible_text(action).strip()
    if len(reply) > MAX_CHARS:
        return Verdict(0.0, "wrong", reason=f"the reply has more than {MAX_CHARS} characters")
    if not words_of(reply):
        return unparsable("there is no text in the reply")
    inner: str | None = reply
    for each in instructions:
        unwrap = KINDS[each.kind].unwrap
        if unwrap is not None:
            inner = unwrap(reply)
    broken = inner is None or not words_of(inner)
    text = WrittenText(reply if inner is None or broken else inner, brief, language_of(brief, instructions))
    sentences = {each.kind: sentence_of(each, brief.language) for each in instructions}
    fault = prose_fault(text, prompt, [*sentences.values()])
    parts = {"prose": float(not fault)}
    for each in instructions:
        kind = KINDS[each.kind]
        parts[kind.name] = float(not broken if kind.unwrap else kind.check(text, *each.args))
    missed = [sentence for name, sentence in sentences.items() if not parts[name]]
    if not fault and not missed:
        return Verdict(1.0, "correct", reason="every instruction is met", parts=parts)
    reason = "; ".join([fault] * bool(fault) + [f"not met: {' '.join(missed)}"] * bool(missed))
    return Verdict(0.0, "wrong", reason=reason[:500], parts=parts)


def plain_text(brief: Brief, language: Language, greets: bool = True) -> str:
    """A text about the facts that obeys no instruction on purpose: with a greeting, or sorted by its sentences."""
    draft = TextDraft(brief, language, stream("plain", nameless(brief), language.code))
    draft.bound(sentences=(len(brief.facts) + 4, 40))
    if greets:
        draft.tops.append(draft.rng.choice(language.greetings))
    else:
        draft.shapes.append(lambda paragraphs: [sorted(sentence for each in paragraphs for sentence in each)])
    return draft.compose()


def write_text(brief: Brief, instructions: Sequence[Instruction]) -> str | None:
    """The expert's text, which obeys every instruction; None where it finds none."""
    language, key = language_of(brief, instructions), nameless((brief, *instructions))
    for attempt in range(TRIES):
        draft = TextDraft(brief, language, stream("rules", key, attempt))
        for each in instructions:  # what all sentences must fulfil is known before the first is chosen
            with suppress(CannotWrite):
                KINDS[each.kind].write(draft, *each.args)
        rules = draft.rules
        draft = TextDraft(brief, language, stream("text", key, attempt))
        draft.rules = list(rules)
        try:
            for each in instructions:
                KINDS[each.kind].write(draft, *each.args)
            text = draft.compose()
        except CannotWrite:
            continue
        if judge(text, brief, instructions).success:
            return text
    return None
