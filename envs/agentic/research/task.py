"""Research: a question about a made-up history, answered from its documents and with their words."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.agentic.research.history import WorldKey, history
from rlvr.envs.agentic.research.library import DOUBTED, Fact, StatedFact, catalogue, sources, written
from rlvr.envs.agentic.research.questions import LEVELS, ResearchQuestion, question
from rlvr.envs.core.seeding import split_of, stream
from rlvr.envs.core.verdict import Verdict, wrong
from rlvr.envs.rewards import grade
from rlvr.envs.rewards.grading import WORKED_OUT
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool
from rlvr.envs.tools.search import Document, Index, require_bm25
from rlvr.envs.tools.tool import MAX_OUTPUT

DOCUMENTS_A_TOWN: Final = 20  # about
MAX_DOCUMENTS: Final = 100_000
PART: Final = 3_000  # characters of a document that one reading shows, to the end of a paragraph
MAX_QUOTES, MAX_QUOTE = 16, 400  # citations of an answer, and characters of one
MIN_QUOTE: Final = 8
_CITATION = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[([^\[\]\n]+)\][ \t]*(\S.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_MARKS: Final = (('"', '"'), ("“", "”"), ("'", "'"))
ANSWER: Final = (
    "You answer questions about a land of which you know nothing, from its documents. Put the answer alone, a number "
    "or a name or a word, in \\boxed{}. There are entries of people, towns, firms and books; for each town a register "
    "of its inhabitants and mayors; for each publisher a catalogue; for each prize a list of winners; and there may be "
    "newspapers, called Courier, and letters."
)
RULES: Final = (
    "An author's name on a book may be a pen name. Sources differ at times. What an entry, a register, a catalogue or "
    "a list says is right. Where none of them says anything, a newspaper is right before a letter, and of two "
    "newspapers, or two letters, the later one. If no document holds what is asked for, the answer is unknown.\n"
    "Below the answer cite what it rests on: for each name or number on the way a line [title] words, with the title "
    f"of a document and words copied from it, at most {MAX_QUOTES} lines of at most {MAX_QUOTE} characters."
)


class ResearchKey(NamedTuple):
    """What names a task: everything else is drawn from it. ``documents`` is 0 where the level decides."""

    level: int
    number: int
    seed: int
    documents: int

    @property
    def content(self) -> str:
        """What decides the split, of values alone."""
        return " ".join(map(str, self))

    @property
    def world(self) -> WorldKey:
        """The world that is asked about: each split has its own."""
        level = LEVELS[self.level - 1]
        size = self.documents // DOCUMENTS_A_TOWN or level.size
        return WorldKey(split_of(self.content), self.number, size, level.disputed)


class ResearchWorld(NamedTuple):
    """The task; what was looked at changes nothing."""

    key: ResearchKey


@lru_cache(maxsize=1024)
def asked(key: ResearchKey) -> ResearchQuestion:
    """The question of a task: one that the calls suffice for, and whose documents the search lists."""
    level, world = LEVELS[key.level - 1], key.world
    rng = random.Random(stream("rlvr/Research-v0", "question", *key).getrandbits(64))
    while True:
        drawn = question(world, level, rng)
        if len(steps(world, drawn)) + 3 <= level.calls and _listed(world, drawn):
            return drawn


def parts(key: WorldKey, title: str) -> list[str]:
    """A document in parts that can be read at once."""
    found: list[str] = []
    for paragraph in written(key, title).paragraphs:
        if found and len(found[-1]) + len(paragraph) + 2 <= PART:
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph)
    return found


def evidence(key: WorldKey, asked: ResearchQuestion) -> list[list[tuple[str, StatedFact]]]:
    """For each fact that the answer rests on the documents that settle it, with the words that do."""
    return [[(title, written(key, title).states[fact]) for title in sources(key, fact)] for fact in asked.facts]


def steps(key: WorldKey, asked: ResearchQuestion) -> list[Call]:
    """How a careful person finds out: for each fact a search and the document, and all that differ on it."""
    disputes, calls = catalogue(key).disputes, []
    read: dict[str, int] = {}  # parts of each document

    def look(words: str, titles: Sequence[str], fact: Fact, **more: int) -> None:
        if any(title not in read for title in titles):
            calls.append(Call("search", {"query": words, **more}))
        for title in titles:
            shown, stated = parts(key, title), written(key, title).states.get(fact)
            last = next((n for n, part in enumerate(shown, 1) if stated and stated.sentence in part), len(shown))
            calls.extend(Call("read", {"title": title, "part": n}) for n in range(read.get(title, 0) + 1, last + 1))
            read[title] = max(last, read.get(title, 0))

    facts: list[Fact] = []
    seen = asked.words  # and the values found so far
    for fact in (*asked.facts, *((asked.missing,) if asked.missing else ())):
        if fact[0] == "pages" and (publisher := history(key).books[str(fact[1])].publisher) not in seen:
            facts.append(("publisher", fact[1]))  # whose catalogue says it
            seen += publisher
        facts.append(fact)
        seen += "".join(written(key, title).states[fact].value for title in sources(key, fact)[:1])
    for fact in facts:
        name = str(fact[1])
        titles = sources(key, fact) or (name,)
        if fact in disputes and fact[0] in DOUBTED:
            look(name, (name,), fact)
            accounts = [account.title for account in disputes[fact]]
            look(_accounts_of(fact), accounts, fact, limit=12)
        elif fact[0] == "pen":
            look(f"pen name {written(key, name).states[fact].value}", (name,), fact, limit=12)
        else:
            title = next((each for each in titles if each in read), titles[0])
            look(title, (title,), fact)
    return calls


@lru_cache(maxsize=4)
def index(key: WorldKey) -> Index:
    """The documents of a world, to search in; a word of the title counts as three."""
    return Index([Document(title, f"{title}. {title}.\n{written(key, title).text}") for title in catalogue(key).titles])


def _found(key: WorldKey, query: str, limit: int) -> list[Document]:
    known = index(key)
    named = known.by_title.get(query.strip())
    return [*([named] if named else []), *(each for each in known.search(query, limit) if each is not named)][:limit]


def _listed(key: WorldKey, asked: ResearchQuestion) -> bool:
    """Whether a search lists all accounts that differ on what is asked: a long one that hardly names it is left out."""
    disputes = catalogue(key).disputes
    return all(
        {account.title for account in disputes[fact]} <= {each.title for each in _found(key, _accounts_of(fact), 12)}
        for fact in asked.facts
        if fact in disputes and fact[0] in DOUBTED
    )


def _accounts_of(fact: Fact) -> str:
    """What a person searches for, who wants to know what letters and newspapers say."""
    return f"{fact[1]} letter Courier"


def search(world: ResearchWorld, query: str, limit: int = 6) -> str:
    """Search the documents; gives the titles of the best, each with its sentence that fits best.

    Args:
        query: words to look for.
        limit: how many documents to list, from 1 to 12.
    """
    if not 1 <= limit <= 12:
        raise ToolError("limit must be from 1 to 12")
    found = _found(world.key.world, query, limit)
    if not found:
        return "nothing was found"
    words = set(_WORD.findall(query.lower()))
    return "\n".join(f"{n}. {title}: {_snippet(text, words)}" for n, (title, text) in enumerate(found, 1))


def _snippet(text: str, words: set[str]) -> str:
    sentences = re.split(r"(?<=[.!?]) |\n+", text.partition("\n")[2])
    return max(sentences, key=lambda each: len(words & set(_WORD.findall(each.lower()))))[:140]


def read(world: ResearchWorld, title: str, part: int = 1) -> str:
    """Read a document, a long one part by part.

    Args:
        title: its title, as a search lists it.
        part: which part, from 1.
    """
    key, title = world.key.world, title.strip()
    if title not in catalogue(key).titles:
        raise ToolError(f"there is no document {title[:80]!r}: search for it first")
    shown = parts(key, title)
    if not 1 <= part <= len(shown):
        raise ToolError(f"the document has {len(shown)} part{'s' * (len(shown) > 1)}")
    return shown[part - 1] + (f"\n\n(part {part} of {len(shown)})" if len(shown) > 1 else "")


class Research(ToolTask[ResearchWorld]):
    r"""Answer questions about a made-up history from its documents, and cite them.

    Levels 1 to 5: 80 documents, one or two to read; 170, with tables; 500, from here on with sources that differ, pen
    names and citations; 1,200, with counts over several documents and questions that none answers; 2,500.

    Observation: the question; then what a search lists, or a document.
    Actions: a call of ``search`` or ``read``; any other reply is the answer in ``\boxed{}``, with its citations.
    Reward: 1 for the right answer that rests on words of the right documents, where citations are asked for, else 0.
    ``cited`` of the verdict's parts is the share of facts that were.
    Episode end: any reply without a call, or the turns are used up.

    Args:
        documents: about how many there are, from 100 to 100,000; the level decides if None. Of many documents there are
            few worlds. The first search of 100,000 has to index them: 28 CPU-seconds and 1 GiB.
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(LEVELS)
    task = ANSWER
    toolset: ClassVar[Sequence[Tool]] = (tool(search, given=1), tool(read, given=1))

    def __init__(
        self,
        *,
        documents: int | None = None,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        if documents is not None and (type(documents) is not int or not 100 <= documents <= MAX_DOCUMENTS):
            raise ValueError(f"documents must be a whole number from 100 to {MAX_DOCUMENTS}, got {documents!r}")
        require_bm25()
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        self.documents = documents

    def begin(self, rng: random.Random, level: int) -> ResearchWorld:
        """Draws a world and a seed; everything else follows from these when it is needed."""
        worlds = max(1, 40_000 // self.documents) if self.documents else LEVELS[level - 1].worlds
        return ResearchWorld(ResearchKey(level, rng.randrange(worlds), rng.getrandbits(48), self.documents or 0))

    def budget(self, level: int) -> int:
        """Three calls more than a careful person needs, or many more."""
        return LEVELS[level - 1].calls

    def content(self, state: Session[ResearchWorld]) -> str:
        """The key, whose split decides which world it is and what may be asked."""
        return state.world.key.content

    def difficulty(self, state: Session[ResearchWorld]) -> float:
        """Calls of a careful person."""
        key = state.world.key
        return float(len(steps(key.world, asked(key))))

    def opened(self, world: ResearchWorld, level: int) -> Session[ResearchWorld]:
        """The question is drawn when it is shown: most draws are of another split."""
        return Session(world, "", 0, self._allowed(level))

    def observe(self, state: Session[ResearchWorld]) -> str:
        """The question, or a tool's output."""
        return state.observation or self.ask(state.world)

    def ask(self, world: ResearchWorld) -> str:
        """The question, with what holds where sources differ."""
        return posed(world.key)

    def judge(self, world: ResearchWorld, reply: str) -> Verdict:
        """The grader of the answer; of a right one whether its citations hold what it rests on."""
        return judged(world.key, reply)

    def plan(self, session: Session[ResearchWorld]) -> Call | str:
        """Searches and reads what the answer rests on, one after the other, and answers with citations."""
        key = session.world.key
        calls = steps(key.world, asked(key))
        return calls[session.calls] if session.calls < min(len(calls), session.budget) else answered(key)

    def direct_answer(self, state: Session[ResearchWorld]) -> str:
        """The answer with its citations, without a search."""
        return answered(state.world.key)


def posed(key: ResearchKey) -> str:
    """The question of a task, and the rules for its sources."""
    return f"{asked(key).words}\n\n{RULES}" if key.world.disputed else asked(key).words


def answered(key: ResearchKey) -> str:
    """The right reply."""
    text = f"\\boxed{{{asked(key).answer}}}"
    if not key.world.disputed:
        return text
    lines = [f"[{title}] {words.sentence}" for (title, words), *_ in evidence(key.world, asked(key))]
    return "\n".join([text, *dict.fromkeys(lines)])


def judged(key: ResearchKey, reply: str) -> Verdict:
    """The verdict on a reply."""
    drawn = asked(key)
    verdict = grade(drawn.form, reply, drawn.answer, **WORKED_OUT.get(drawn.form, {}))
    if verdict.status != "correct" or not key.world.disputed:
        return verdict
    quotes = [(title.strip(), _plain(words)) for title, words in _CITATION.findall(reply)]
    if len(quotes) > MAX_QUOTES or any(len(words) > MAX_QUOTE for _, words in quotes):
        reason = f"at most {MAX_QUOTES} citations of at most {MAX_QUOTE} characters are read"
        return wrong(verdict.answer, reason).replace(parts={"cited": 0.0})
    needed = evidence(key.world, drawn)
    found = sum(any(_holds(key.world, quotes, title, stated) for title, stated in fact) for fact in needed)
    parts = {"cited": found / len(needed)}
    if found < len(needed):
        reason = f"the answer is right; of {len(needed)} facts that it rests on {found} are cited"
        return wrong(verdict.answer, reason).replace(parts=parts)
    return verdict.replace(parts=parts)


def _plain(text: str) -> str:
    """One line without quotation marks around it."""
    text = " ".join(text.split())
    return text[1:-1].strip() if len(text) > 1 and (text[0], text[-1]) in _MARKS else text


def _holds(key: WorldKey, quotes: Sequence[tuple[str, str]], title: str, stated: StatedFact) -> bool:
    """Whether a citation of a document gives the value in the words that state it."""
    text, sentence = _plain(written(key, title).text), _plain(stated.sentence)
    return any(
        cited == title
        and len(words) >= MIN_QUOTE
        and words in text
        and (sentence in words or (words in sentence and stated.value in words))
        for cited, words in quotes
    )
