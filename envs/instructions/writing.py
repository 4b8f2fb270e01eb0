"""Instructions: write a text about given facts by exact instructions, over several turns in which the user changes
their mind.

Every task is proven: the expert's text obeys all instructions of every turn, and the text of the turn before, or one
that heeds no instruction, does not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from rlvr.envs.core.seeding import SPLITS, nameless, split_of, stream
from rlvr.envs.core.task import DRAWS, Task, Transition
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.instructions.catalogue import (
    KINDS,
    SPLIT_OF,
    judge,
    language_of,
    plain_text,
    sentence_of,
    write_text,
)
from rlvr.envs.instructions.content import REPLY_LANGUAGE
from rlvr.envs.instructions.kind import Instruction, InstructionKind, Scene
from rlvr.envs.instructions.language import CONTACTS, FACTS, SEATS, VENUES
from rlvr.envs.instructions.text import LANGUAGES, MAX_WORDS, Brief, WrittenText, fact_forms


class WritingLevel(NamedTuple):
    """How many instructions and facts there are at first, how many changes each later turn brings, in which languages,
    and whether the kinds are the easy ones alone.
    """

    instructions: int
    facts: int
    changes: tuple[int, ...] = ()
    codes: tuple[str, ...] = tuple(LANGUAGES)
    easy: bool = False


LEVELS: Final = (
    WritingLevel(1, 1, codes=("en",), easy=True),
    WritingLevel(2, 2, codes=("en",)),
    WritingLevel(4, 3),
    WritingLevel(4, 4, changes=(2,)),
    WritingLevel(6, 5, changes=(2, 2, 2)),
)
MAX_IN_FORCE: Final = 8  # none is added beyond; one that was taken back may be restored
ELSEWHERE: Final = 0.2  # of the tasks in six languages: the reply is in another language than the user's
FACT_LISTS: Final = ("facts_on_lines", "facts_in_order")  # kinds that name every fact
MET: Final = Verdict(0.0, "partial", reason="every instruction of this turn is met")


class Change(NamedTuple):
    """One change of mind: an instruction is added, dropped, replaced or restored, or a fact is another or a new one."""

    what: str
    new: Instruction | None = None
    old: Instruction | None = None
    fact: str = ""
    value: str = ""


class Demands(NamedTuple):
    """What holds in a turn: the brief, the instructions in force, and those that were taken back."""

    brief: Brief
    instructions: tuple[Instruction, ...]
    dropped: tuple[Instruction, ...] = ()

    def after(self, changes: Sequence[Change]) -> Demands:
        """What holds once the user has changed their mind."""
        brief, kept, dropped = self.brief, list(self.instructions), list(self.dropped)
        for change in changes:
            if change.old is not None and change.what in ("drop", "replace"):
                kept.remove(change.old)
                dropped.append(change.old)
            if change.what == "restore" and change.old is not None:
                dropped.remove(change.old)
                kept.append(change.old)
            if change.new is not None:
                kept.append(change.new)
            if change.fact:
                brief = _with_fact(brief, change.fact, change.value)
        return Demands(brief, tuple(kept), tuple(dropped))


class WritingState(NamedTuple):
    """What holds at first, the changes of each later turn, and the turns played."""

    demands: Demands
    lead: str
    changes: tuple[tuple[Change, ...], ...]
    turn: int = 0

    def now(self, turn: int | None = None) -> Demands:
        """What holds in a turn, by default in this one."""
        demands = self.demands
        for changes in self.changes[: self.turn if turn is None else turn]:
            demands = demands.after(changes)
        return demands


class Head(NamedTuple):
    """What is drawn of a task before its split is asked for: the cheap part."""

    split: str
    brief: Brief
    target: str
    lead: str
    seed: int


class Instructions(Task[WritingState]):
    """Write a text about given facts by exact instructions, and again when the user changes their mind.

    Levels 1 to 5: one easy instruction; two; four in six languages; four over two turns, with changes of mind; six
    over four turns, in which instructions and facts are added, replaced, taken back and restored.

    133 kinds of instructions in twelve groups, each said and checked in English, German, French, Spanish, Italian and
    Portuguese. A tenth of the kinds occurs in the validation split alone, another tenth in the test split alone.

    Observation: the kind of text, the facts and the instructions; then the changes.
    Actions: the whole text.
    Reward: 1 if the text of every turn is prose about the facts and obeys every instruction in force, else 0; the
        verdict's parts are 1 or 0 for each.
    Episode end: the first text that misses an instruction, or the last turn.
    """

    levels = len(LEVELS)
    system = (
        "The user asks for a text, and may change their mind. Reply with the whole text and nothing else. It must be "
        "prose of your own in whole sentences, mention every detail that is asked for, and follow every instruction "
        f"that is in force; it may have {MAX_WORDS} words at most, and must not copy what the user wrote. A word is "
        "what stands between blanks. A sentence ends with a full stop, a question mark, an exclamation mark or a line "
        "break. Paragraphs stand between blank lines. Where the text is put into a form such as JSON or tags, all "
        "other instructions are about the text inside."
    )

    def start(self, rng: random.Random, level: int) -> WritingState:
        """A proven task: see the module."""
        split = SPLITS[max(0, rng.randrange(10) - 7)]  # eight in ten are of the train split
        for _ in range(DRAWS):
            head = _draw_head(rng, level, split)
            if split_of(_content(head.brief, head.target, head.lead)) == split:
                state = _completed(head, level)
                if state is not None:
                    return state
        raise RuntimeError(f"no composition of level {level} could be written in {DRAWS} draws")

    def turns(self, level: int) -> int:
        """One more than there are changes of mind."""
        return 1 + len(LEVELS[level - 1].changes)

    def difficulty(self, state: WritingState) -> float:
        """Instructions and facts in force, added up over the turns."""
        demands = [state.now(turn) for turn in range(len(state.changes) + 1)]
        return float(sum(len(each.instructions) + len(each.brief.facts) for each in demands))

    def content(self, state: WritingState) -> str:
        """What the text is about, its language and the kind of the leading instruction."""
        brief, instructions, _ = state.demands
        return _content(brief, language_of(brief, instructions).code, state.lead)

    def observe(self, state: WritingState) -> str:
        """The request with its facts and instructions; then what changes."""
        return _request(state.demands) if not state.turn else _changes(state)

    def apply(self, state: WritingState, action: str) -> Transition:
        """Judges the text by what holds in this turn; the first that misses anything ends the episode."""
        demands = state.now()
        verdict = judge(action, demands.brief, demands.instructions, _without_facts(self.observe(state)))
        if verdict.success and state.turn < len(state.changes):
            return Transition(state._replace(turn=state.turn + 1), MET.replace(parts=verdict.parts))
        return Transition(state, verdict, terminated=True)

    def solve(self, state: WritingState) -> str:
        """A text built from sentences of the language, which each instruction in force chooses and changes."""
        demands = state.now()
        text = write_text(demands.brief, demands.instructions)
        if text is None:
            raise RuntimeError("the expert cannot write what it was proven to write")
        return text

    def sample_action(self, state: WritingState, rng: random.Random) -> str:
        """A few sentences of the language that heed no instruction and mention no fact."""
        demands = state.now()
        language = language_of(demands.brief, demands.instructions)
        return " ".join(each.replace("*", "") for each in rng.sample(language.fillers, rng.randint(3, 8)))


def signature(state: WritingState) -> tuple[tuple[str, ...], ...]:
    """What makes a task another one in kind: the kinds of its instructions, and of the changes in each turn."""
    first = tuple(sorted(each.kind for each in state.demands.instructions))
    return first, *(tuple(sorted(map(_change_kind, changes))) for changes in state.changes)


def _change_kind(change: Change) -> str:
    about = change.new or change.old
    return f"{change.what} {about.kind if about else change.fact}"


# what the user writes


def _request(demands: Demands) -> str:
    brief = demands.brief
    language = LANGUAGES[brief.language]
    chat = language.chat
    request = chat["request"].format(form=language.forms[brief.form], event=language.events[brief.event])
    facts = [f"- {language.labels[fact]}: {_shown(fact, value, brief)}" for fact, value in brief.facts]
    rules = [f"- {sentence_of(each, brief.language)}" for each in demands.instructions]
    return "\n".join([request, "", chat["facts"], *facts, "", chat["rules"], *rules])


def _shown(fact: str, value: str, brief: Brief) -> str:
    return fact_forms(fact, value, brief.language)[0]


def _changes(state: WritingState) -> str:
    before = state.now(state.turn - 1)
    brief = before.brief
    language = LANGUAGES[brief.language]
    chat = language.chat
    lines = []
    for change in state.changes[state.turn - 1]:
        old_value = dict(brief.facts).get(change.fact, "")
        what = "fact_add" if change.fact and not old_value else change.what
        new = sentence_of(change.new, brief.language) if change.new else ""
        old = sentence_of(change.old, brief.language) if change.old else ""
        if change.fact:
            new = _shown(change.fact, change.value, brief)
            old = _shown(change.fact, old_value, brief) if old_value else ""
        lines.append(f"- {chat[what].format(new=new, old=old, label=language.labels.get(change.fact, ''))}")
    return "\n".join([chat["changes"], *lines, "", chat["again"]])


def _without_facts(prompt: str) -> str:
    """The first block of lines that begin with a dash holds the facts, which a text may copy."""
    blocks = prompt.split("\n\n")
    return "\n".join(blocks[:1] + blocks[2:]) if len(blocks) > 2 else prompt


# drawing a task


def _content(brief: Brief, target: str, lead: str) -> str:
    return nameless((brief.language, target, brief.event, brief.form, brief.facts, lead))


def _fact_value(rng: random.Random, fact: str) -> str:
    if fact == "date":
        return f"{rng.randint(2, 28)}/{rng.randint(1, 12)}"
    if fact == "time":
        return f"{rng.randint(9, 20):02}:{rng.choice((15, 30, 45)):02}"
    if fact == "price":
        return str(rng.randint(3, 19))
    if fact == "seats":
        return str(rng.choice(SEATS))
    if fact == "phone":
        return f"0{rng.randint(311, 899)} {rng.randint(2100, 9899)}"
    return rng.choice(VENUES if fact == "venue" else CONTACTS)


def _kinds(level: int, code: str, split: str) -> list[InstructionKind]:
    settings = LEVELS[level - 1]
    return [
        kind
        for kind in KINDS.values()
        if SPLIT_OF[kind.name] == split
        and code in kind.codes
        and kind.name != REPLY_LANGUAGE
        and (kind.easy or not settings.easy)
    ]


def _draw_head(rng: random.Random, level: int, split: str) -> Head:
    settings = LEVELS[level - 1]
    code = rng.choice(settings.codes)
    target = code
    if len(settings.codes) > 1 and rng.random() < ELSEWHERE:
        target = rng.choice([each for each in settings.codes if each != code])
    facts = tuple((fact, _fact_value(rng, fact)) for fact in rng.sample(FACTS, settings.facts))
    language = LANGUAGES[code]
    brief = Brief(code, rng.randrange(len(language.events)), rng.randrange(len(language.forms)), facts)
    lead = rng.choice(_kinds(level, target, split)).name
    return Head(split, brief, target, lead, rng.getrandbits(32))


def _completed(head: Head, level: int) -> WritingState | None:
    """The task of a head with all its turns, proven; None where it cannot be written."""
    composer = _Composer(head, level)
    demands = composer.first()
    if demands is None:
        return None
    text = write_text(demands.brief, demands.instructions)
    if text is None:
        return None
    changes: list[tuple[Change, ...]] = []
    now = demands
    for count in LEVELS[level - 1].changes:
        for _ in range(4):
            drawn = composer.change(now, count)
            after = now.after(drawn)
            if judge(text, after.brief, after.instructions).success:
                continue
            next_text = write_text(after.brief, after.instructions)
            if next_text is not None:
                break
        else:
            return None
        changes.append(drawn)
        now, text = after, next_text
    return WritingState(demands, head.lead, tuple(changes))


class _Composer:
    """Draws instructions that do not contradict each other, and changes of them."""

    def __init__(self, head: Head, level: int) -> None:
        self.head, self.level = head, level
        self.rng = stream("composition", head.seed)
        self.kinds = _kinds(level, head.target, "train")
        if head.split != "train":
            self.kinds += 3 * _kinds(level, head.target, head.split)

    def first(self) -> Demands | None:
        """The instructions of the first turn; None where the leading one has no arguments or is met without effort."""
        brief = self.head.brief
        start: tuple[Instruction, ...] = ()
        if self.head.target != brief.language:
            names = LANGUAGES[brief.language].names
            start = (Instruction(REPLY_LANGUAGE, (self.head.target, names[self.head.target])),)
        scene = self._scene(brief)
        args = KINDS[self.head.lead].sample(scene)
        if args is None:
            return None
        lead = Instruction(self.head.lead, args)
        plain_texts = (scene.plain.text, plain_text(brief, scene.language, greets=False))
        if any(judge(text, brief, (*start, lead)).parts[lead.kind] for text in plain_texts):
            return None
        instructions: tuple[Instruction, ...] = (*start, lead)
        missing = LEVELS[self.level - 1].instructions - 1
        for _ in range(missing):
            more = self._another(brief, instructions)
            if more is None:
                return None
            instructions = (*instructions, more)
        shuffled = self.rng.sample(instructions, len(instructions))
        return Demands(brief, tuple(shuffled))

    def _scene(self, brief: Brief) -> Scene:
        language = LANGUAGES[self.head.target]
        return Scene(self.rng, brief, language, WrittenText(plain_text(brief, language), brief, language))

    def _another(self, brief: Brief, instructions: Sequence[Instruction]) -> Instruction | None:
        """An instruction that contradicts none of these."""
        scene = self._scene(brief)
        for _ in range(20):
            kind = self.rng.choice(self.kinds)
            if any(kind.clashes(KINDS[each.kind]) for each in instructions):
                continue
            args = kind.sample(scene)
            if args is not None:
                return Instruction(kind.name, args)
        return None

    def change(self, now: Demands, count: int) -> tuple[Change, ...]:
        """Some changes, no two of which are about the same instruction or fact."""
        changes: list[Change] = []
        touched: set[object] = set()
        after = now
        while len(changes) < count:
            change = self._one_change(after)
            about = {change.old, change.new, change.fact or None} - {None} if change else set()
            if change is None or about & touched:
                continue
            touched |= about
            changes.append(change)
            after = after.after([change])
        return tuple(changes)

    def _one_change(self, now: Demands) -> Change | None:
        rng, brief = self.rng, now.brief
        what = rng.choice(("add", "replace", "replace", "drop", "fact", "fact", "restore"))
        own = [each for each in now.instructions if each.kind != REPLY_LANGUAGE]
        if what == "restore":
            fit = [each for each in now.dropped if self._fits(each, now)]
            return Change("restore", old=rng.choice(fit)) if fit else None
        if what == "fact":
            return self._fact_change(now)
        if what == "drop":
            return Change("drop", old=rng.choice(own)) if len(own) > 2 else None
        if what == "add":
            new = self._another(brief, now.instructions) if len(now.instructions) < MAX_IN_FORCE else None
            return Change("add", new=new) if new else None
        old = rng.choice(own)
        rest = [each for each in now.instructions if each != old]
        new = self._another(brief, rest)
        return Change("replace", new=new, old=old) if new and new.kind != old.kind else None

    def _fits(self, instruction: Instruction, now: Demands) -> bool:
        """Whether it can hold again: it contradicts none, and names no fact that has changed since."""
        kind = KINDS[instruction.kind]
        outdated = {value for _, value in now.brief.outdated}
        lists = instruction.kind in FACT_LISTS
        return (
            not any(kind.clashes(KINDS[each.kind]) for each in now.instructions)
            and not outdated & {*instruction.args}
            and not lists
        )

    def _fact_change(self, now: Demands) -> Change | None:
        rng, brief = self.rng, now.brief
        fact = rng.choice(FACTS)
        args = {arg for each in now.instructions for arg in each.args}
        known = dict(brief.facts)
        if known.get(fact) in args or (fact not in known and any(each.kind in FACT_LISTS for each in now.instructions)):
            return None
        value = _fact_value(rng, fact)
        used = {each for _, each in (*brief.facts, *brief.outdated)} | args
        return None if value in used else Change("fact", fact=fact, value=value)


def _with_fact(brief: Brief, fact: str, value: str) -> Brief:
    """The brief with another value of a fact, or with one more fact."""
    known = dict(brief.facts)
    outdated = (*brief.outdated, (fact, known[fact])) if fact in known else brief.outdated
    return brief._replace(facts=tuple((known | {fact: value}).items()), outdated=outdated)
