"""WorldSearch: a question about a made-up world whose documents must be searched, one after the other.

Every world has its own people, towns, firms and events, so nothing can be known beforehand. A question names one of
them and asks for a fact some documents away: each document gives the name of the next. Reward 1 for the exact answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from rlvr.envs.agentic import made_up_names
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards import grade
from rlvr.envs.rewards.grading import WORKED_OUT
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool
from rlvr.envs.tools.search import Document, Index, require_bm25
from rlvr.envs.tools.tool import MAX_OUTPUT


class WorldSearchLevel(NamedTuple):
    """How many of each kind, how many documents lie on the way, and what makes it harder."""

    people: int
    others: int
    hops: int
    bynames: bool
    namesakes: bool


LEVELS = (
    WorldSearchLevel(12, 6, 2, False, False),
    WorldSearchLevel(20, 10, 3, False, False),
    WorldSearchLevel(30, 15, 3, True, True),
    WorldSearchLevel(45, 25, 4, True, True),
    WorldSearchLevel(70, 40, 5, True, True),
)

# Each relation: from what kind to what kind, how a document says it, how a question asks for it.
RELATIONS = {
    "birthplace": ("person", "town", ("was born in {x}", "is a native of {x}"), "the birthplace of {x}"),
    "employer": ("person", "firm", ("works for {x}", "is on the staff of {x}"), "the firm that employs {x}"),
    "teacher": ("person", "person", ("is a pupil of {x}", "was taught by {x}"), "the teacher of {x}"),
    "mayor": ("town", "person", ("is governed by {x}", "has elected {x} mayor"), "the mayor of {x}"),
    "twin": ("town", "town", ("is the twin town of {x}", "is twinned with {x}"), "the twin town of {x}"),
    "founder": ("firm", "person", ("was founded by {x}", "is the creation of {x}"), "the founder of {x}"),
    "seat": ("firm", "town", ("is based in {x}", "is run from {x}"), "the home town of {x}"),
    "place": ("event", "town", ("was held in {x}", "was hosted by {x}"), "the town that hosted {x}"),
    "opener": ("event", "person", ("was opened by {x}", "began with a speech of {x}"), "the person who opened {x}"),
    "sponsor": ("event", "firm", ("was paid for by {x}", "was sponsored by {x}"), "the sponsor of {x}"),
}
# What a document may also say: how it was before.
BEFORE = {"employer": "once worked for {x}", "mayor": "was once governed by {x}", "seat": "was once based in {x}"}
# Each fact: of what kind, its grader, how a document says it, how a question asks for it.
FACTS = {
    "born": ("person", "number", "was born in the year {x}", "What is the year of birth of {x}?"),
    "profession": ("person", "exact", "follows the profession of {x}", "What is the profession of {x}?"),
    "river": ("town", "exact", "lies on the river {x}", "Which river flows through {x}?"),
    "settled": ("town", "number", "was settled in the year {x}", "In which year did people first settle in {x}?"),
    "product": ("firm", "exact", "makes {x}", "What is made by {x}?"),
    "started": (
        "firm",
        "number",
        "has been in business since the year {x}",
        "What was the first year in business of {x}?",
    ),
    "year": ("event", "number", "took place in the year {x}", "In which year did {x} take place?"),
}
WORDS = {"profession": made_up_names.PROFESSIONS, "river": made_up_names.RIVERS, "product": made_up_names.PRODUCTS}
BORN, NOW = (1930, 1999), 2024  # all people may still be alive, as their documents say
ADULT, ELDER = 20, 15  # years of age, and by how many a teacher is older than a pupil
KINDS = {
    "person": made_up_names.person,
    "town": made_up_names.town,
    "firm": made_up_names.firm,
    "event": made_up_names.event,
}


class SearchWorld(NamedTuple):
    """``seed`` and ``level`` make the documents."""

    seed: int
    level: int
    question: str
    answer: str
    grader: str
    path: tuple[tuple[str, str], ...]  # what to search for, and the title that it leads to


class SearchFacts(NamedTuple):
    """Everybody and everything: by name the kind, the byname, the relations and the facts."""

    kinds: dict[str, str]
    bynames: dict[str, str]
    links: dict[str, dict[str, str]]
    facts: dict[str, dict[str, str]]
    documents: list[Document]


def search(world: SearchWorld, query: str, limit: int = 5) -> str:
    """Search the documents; gives the titles and first words of the best.

    Args:
        query: words to look for.
        limit: how many documents to list, from 1 to 10.
    """
    if not 1 <= limit <= 10:
        raise ToolError("limit must be from 1 to 10")
    documents = index(world.seed, world.level).search(query, limit)
    if not documents:
        return "nothing was found"
    return "\n".join(f"{n}. {title}: {text.partition('.')[0][:100]}" for n, (title, text) in enumerate(documents, 1))


def read(world: SearchWorld, title: str) -> str:
    """Read a document.

    Args:
        title: its title, as a search lists it.
    """
    document = index(world.seed, world.level).by_title.get(title.strip())
    if document is None:
        raise ToolError(f"there is no document {title[:80]!r}: search for it first")
    return document.text


class WorldSearch(ToolTask[SearchWorld]):
    r"""Answer questions about a made-up world that need several searches.

    Levels 1 to 5: 2 to 5 documents on the way, among 30 to 190; from level 3 on with bynames and namesakes.

    About 2,000 tasks per CPU-second at level 1 and 250 at level 5: a whole world is made for each.

    Observation: the question; then the titles that a search lists, or the document that was read.
    Actions: a call of ``search`` or ``read``; any other reply is the answer, alone in ``\boxed{}``.
    Reward: 1 for the right answer, else 0; a search earns nothing.
    Episode end: any reply without a call, or the turns are used up; three calls a document and two more are allowed.

    Args:
        hops: how many documents lie on the way, from 1 to 5; the level decides if None. The worlds are those of the
            level. With 1 the question asks for a fact of what it names.
        facts: which facts a question may ask for, of born, profession, river, settled, product, started and year; any
            if None.
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(LEVELS)
    task = (
        "Answer the question. It is about a world of which you know nothing, so look things up: each document leads to "
        "the next. Put the answer alone, a number or a name or a word, in \\boxed{}."
    )
    toolset: ClassVar[Sequence[Tool]] = (tool(search, given=1), tool(read, given=1))

    def __init__(
        self,
        *,
        hops: int | None = None,
        facts: Sequence[str] | None = None,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        if hops is not None and hops not in range(1, LEVELS[-1].hops + 1):
            raise ValueError(f"hops must be a whole number from 1 to {LEVELS[-1].hops}, got {hops!r}")
        wanted = tuple(FACTS) if facts is None else tuple(facts)
        if not wanted or not set(wanted) <= set(FACTS):
            raise ValueError(f"facts must be some of {', '.join(FACTS)}, got {facts!r}")
        if hops != 1 and wanted == ("year",):
            raise ValueError("no document leads to an event: year alone can be asked for with hops=1 only")
        require_bm25()
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        self.hops, self.facts = hops, wanted

    def begin(self, rng: random.Random, level: int) -> SearchWorld:
        """Draws a seed; world, documents and question follow from it."""
        seed = rng.getrandbits(48)
        return _asked(seed, level, self._hops(level), self.facts)

    def _hops(self, level: int) -> int:
        return LEVELS[level - 1].hops if self.hops is None else self.hops

    def budget(self, level: int) -> int:
        """Three calls a document and two more, so the expert's two a document leave some to spare."""
        return 3 * self._hops(level) + 2

    def content(self, state: Session[SearchWorld]) -> str:
        """Question and answer: the same words asked of another world are another task."""
        return f"{state.world.question} {state.world.answer}"

    def ask(self, world: SearchWorld) -> str:
        """The question alone; no document is shown."""
        return world.question

    def judge(self, world: SearchWorld, reply: str) -> Verdict:
        """The grader of the fact: numbers by value, names and words by exact match."""
        return grade(world.grader, reply, world.answer, **WORKED_OUT.get(world.grader, {}))

    def plan(self, session: Session[SearchWorld]) -> Call | str:
        """For each document of the way a search and a reading; then the answer."""
        path = session.world.path
        if session.calls >= min(2 * len(path), session.budget):
            return f"\\boxed{{{session.world.answer}}}"
        words, title = path[session.calls // 2]
        return Call("read", {"title": title}) if session.calls % 2 else Call("search", {"query": words})

    def direct_answer(self, state: Session[SearchWorld]) -> str:
        """The answer in a box, without a search."""
        return f"\\boxed{{{state.world.answer}}}"


@lru_cache(maxsize=64)
def index(seed: int, level: int) -> Index:
    return Index(make(seed, level).documents)


@lru_cache(maxsize=64)
def make(seed: int, level: int) -> SearchFacts:
    """All that a world holds; it depends on nothing but its arguments."""
    rng, settings = random.Random(seed), LEVELS[level - 1]
    taken: set[str] = set()
    of_kind: dict[str, list[str]] = {}
    for kind, draw in KINDS.items():
        of_kind[kind] = made_up_names.distinct(
            draw, rng, settings.people if kind == "person" else settings.others, taken
        )
    if settings.namesakes:
        people = of_kind["person"]
        for index in range(1, len(people), 3):  # every third shares a neighbour's family name
            twin = f"{rng.choice(made_up_names.FIRST)} {people[index - 1].split()[1]}"
            if twin not in taken:
                taken.add(twin)
                people[index] = twin
    kinds = {name: kind for kind, members in of_kind.items() for name in members}
    called = made_up_names.distinct(made_up_names.byname, rng, len(kinds) // 3, taken) if settings.bynames else []
    bynames = dict(zip(rng.sample(list(kinds), len(called)), called, strict=True))
    links: dict[str, dict[str, str]] = {name: {} for name in kinds}
    facts: dict[str, dict[str, str]] = {name: {} for name in kinds}
    born = {person: rng.randint(*BORN) for person in of_kind["person"]}
    for name, kind in kinds.items():
        for relation, (source, target, _, _) in RELATIONS.items():
            if source == kind:
                others = [other for other in of_kind[target] if other != name]
                if relation == "teacher":
                    others = [other for other in others if born[other] <= born[name] - ELDER]
                if others:
                    links[name][relation] = rng.choice(others)
    years = _years(rng, of_kind, links, born)
    for name, kind in kinds.items():
        for fact, (source, _, _, _) in FACTS.items():
            if source == kind:
                facts[name][fact] = str(years[fact][name]) if fact in years else rng.choice(WORDS[fact])
    world = SearchFacts(kinds, bynames, links, facts, [])
    world.documents.extend(Document(name, _written(rng, world, of_kind, name)) for name in kinds)
    rng.shuffle(world.documents)
    return world


def _years(
    rng: random.Random, of_kind: dict[str, list[str]], links: dict[str, dict[str, str]], born: dict[str, int]
) -> dict[str, dict[str, int]]:
    """For each fact that is a year, of whom: towns are older than people, who found firms and open events when adult;
    a sponsor is in business before the event.
    """
    settled = {town: rng.randint(1000, BORN[0] - 31) for town in of_kind["town"]}
    started = {}
    for firm in of_kind["firm"]:
        adult = born[links[firm]["founder"]] + ADULT
        started[firm] = rng.randint(adult, min(adult + 40, NOW - 4))
    held = {}
    for event in of_kind["event"]:
        opener, sponsor = links[event]["opener"], links[event]["sponsor"]
        held[event] = rng.randint(max(born[opener] + ADULT, started[sponsor]), NOW)
    return {"born": born, "settled": settled, "started": started, "year": held}


def _mention(rng: random.Random, world: SearchFacts, name: str) -> str:
    """The name, or half of the time the byname if there is one."""
    return world.bynames[name] if name in world.bynames and rng.random() < 0.5 else name


def _called(world: SearchFacts, source: str, relation: str) -> str:
    """What the document of ``source`` calls the one that a relation leads to: what a reader can search for."""
    target, ways = world.links[source][relation], RELATIONS[relation][2]
    text = next(document.text for document in world.documents if document.title == source)
    byname = world.bynames.get(target, target)
    return byname if any(way.format(x=byname) in text for way in ways) else target


def _written(rng: random.Random, world: SearchFacts, of_kind: dict[str, list[str]], name: str) -> str:
    """A document: what it is first, then all that is true of it, in any order."""
    kind = world.kinds[name]
    sentences = []
    for relation, target in world.links[name].items():
        _, target_kind, ways, _ = RELATIONS[relation]
        sentences.append(rng.choice(ways).format(x=_mention(rng, world, target)))
        if relation in BEFORE and rng.random() < 0.5:
            earlier = rng.choice(of_kind[target_kind])
            if earlier not in (target, name):
                sentences.append(BEFORE[relation].format(x=_mention(rng, world, earlier)))
    sentences += [FACTS[fact][2].format(x=value) for fact, value in world.facts[name].items()]
    rng.shuffle(sentences)
    byname = world.bynames.get(name)
    verb = "was an" if kind == "event" else "is a"
    also = f", also called {byname}," if byname else ""
    subjects = ["This person" if kind == "person" else "It", byname[0].upper() + byname[1:] if byname else name]
    # The byname opens a sentence, so that who searches for it finds this document before those that mention it.
    starts = [subjects[1], *rng.choices(subjects, k=len(sentences))]
    opened = [f"{start} {sentence}." for start, sentence in zip(starts, sentences, strict=False)]
    return " ".join([f"{name}{also} {verb} {kind}.", *opened])


def _asked(seed: int, level: int, hops: int, facts: Sequence[str]) -> SearchWorld:
    """The question of a world: a walk from one document to the next that meets none twice, and a fact at its end."""
    world, rng = make(seed, level), random.Random(seed + 1)
    while True:
        here = rng.choice(list(world.kinds))
        mention = _mention(rng, world, here)
        met, path, phrase = {here}, [(mention, here)], mention
        for _ in range(hops - 1):
            relation = rng.choice(list(world.links[here]))
            source, here = here, world.links[here][relation]
            if here in met:
                break
            met.add(here)
            path.append((_called(world, source, relation), here))
            phrase = RELATIONS[relation][3].format(x=phrase)
        else:
            candidates = [fact for fact in world.facts[here] if fact in facts]
            if not candidates:
                continue
            fact = rng.choice(candidates)
            _, grader, _, question = FACTS[fact]
            return SearchWorld(seed, level, question.format(x=phrase), world.facts[here][fact], grader, tuple(path))
