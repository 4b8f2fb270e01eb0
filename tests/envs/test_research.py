"""Research-v0 and LongContext-v0: what the documents say, read by the rules of the prompt, gives the answers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.agentic.research.history import NOW, MadeUpHistory, WorldKey, history
from rlvr.envs.agentic.research.library import DOUBTED, MONTHS, StatedFact, catalogue, sources, truth, written
from rlvr.envs.agentic.research.questions import ASKS, HELD_OUT, LEVELS, UNKNOWN
from rlvr.envs.agentic.research.task import (
    MAX_QUOTE,
    MAX_QUOTES,
    ResearchKey,
    answered,
    asked,
    evidence,
    judged,
    parts,
    steps,
)

SPLITS = ("train", "validation", "test")
TITLES = ("Catalogue", "Register", "List", "Courier")  # kinds of documents, which the prompt names
each_level = pytest.mark.parametrize("level", range(1, 6))
worlds = st.builds(WorldKey, st.sampled_from(SPLITS), st.integers(0, 300), st.sampled_from((6, 12, 25)), st.booleans())


def keys(level: int, split: str, count: int) -> Iterator[ResearchKey]:
    env = gym.make("rlvr/LongContext-v0", level=level, split=split, disable_env_checker=True).unwrapped
    for seed in range(count):
        env.reset(seed=seed)
        yield env.get_state().state


def cited(level: int = 3) -> Iterator[ResearchKey]:
    return (key for key in keys(level, "train", 12))


@settings(max_examples=25, deadline=None)
@given(worlds)
def test_a_history_does_not_contradict_itself(key: WorldKey):
    world: MadeUpHistory = history(key)
    for person in world.people.values():
        assert not person.died or 50 < person.died - person.born < 100
        assert not person.teacher or world.people[person.teacher].born + 15 <= person.born
        years = [year for _, first, last in person.jobs for year in (first, last)]
        assert years == sorted(set(years))
        assert all(person.born + 20 <= year <= person.last for year in years)
        assert all(world.firms[firm].founded <= first for firm, first, _ in person.jobs)
    for firm in world.firms.values():
        founder = world.people[firm.founder]
        assert founder.born + 20 <= firm.founded <= founder.last
        assert [firm.founded, *(last + 1 for _, _, last in firm.bases)] == [
            *(first for _, first, _ in firm.bases),
            NOW + 1,
        ]
    for book in world.books.values():
        author = world.people[book.author]
        assert author.born + 20 <= book.year <= author.last
        assert world.firms[book.publisher].founded <= book.year
    for town in world.towns.values():
        for mayor, first, last in town.mayors:
            assert world.people[mayor].born + 30 <= first <= last <= world.people[mayor].last
    for prize in world.prizes.values():
        assert all(1 <= year - world.books[title].year <= 3 for year, title in prize.winners)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 200))
def test_sources_that_differ_are_settled_by_the_rules_of_the_prompt(number: int):
    """Tables and entries first, then newspapers, then letters; of one kind the later one."""
    key = WorldKey("train", number, 12, True)
    world, known = history(key), catalogue(key)
    assert known.disputes
    assert known.unknown
    for fact in {*known.disputes, *known.unknown}:
        stating = {title: document.states[fact].value for title, document in documents(key) if fact in document.states}
        if fact in known.unknown:
            assert stating == {} == dict.fromkeys(sources(key, fact))
            continue

        def rank(title: str) -> tuple[int, int, int, int]:
            kind = 0 if title.startswith("Letter of ") else 1 if " Courier, " in title else 2
            day, month, year = title.rpartition(", ")[2].split() if kind < 2 else ("0", "May", "0")
            return kind, int(year), MONTHS.index(month), int(day)

        assert len(set(map(rank, stating))) == len(stating) >= 2
        best = max(stating, key=rank)
        assert stating[best] == truth(world, fact)
        assert sources(key, fact) == (best,)
        assert len(set(stating.values())) >= 2


def documents(key: WorldKey) -> Iterator[tuple[str, object]]:
    for title in catalogue(key).titles:
        yield title, written(key, title)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 200), st.booleans())
def test_what_a_document_states_stands_in_it(number: int, disputed: bool):
    key = WorldKey("test", number, 12, disputed)
    for title, document in documents(key):
        for sentence, value in document.states.values():
            assert value
            assert value in sentence
            assert sentence in document.text
            assert len(sentence) <= MAX_QUOTE
        assert not re.search(r"[{}]|  |None|\b[Aa] [AEIOUaeiou]|\.\.", document.text), document.text
        assert "\n\n".join(parts(key, title)) == document.text


@pytest.mark.slow
@each_level
@pytest.mark.parametrize("split", SPLITS)
def test_a_careful_person_names_only_what_was_read_and_is_paid(level: int, split: str):
    env = gym.make("rlvr/Research-v0", level=level, split=split, disable_env_checker=True).unwrapped
    for seed in range(8):
        seen, _ = env.reset(seed=seed)
        over = False
        while not over:
            action = env.solve()
            if "<tool_call>" in action:
                arguments = json.loads(re.search(r"\{.*\}", action)[0])["arguments"]
                if "title" in arguments:
                    assert f"{arguments['title']}: " in seen, "a search has listed it"
                names = re.findall(r"\b[A-Z]\w+", arguments.get("query", ""))
                assert all(name in seen or name in TITLES for name in names), action
            observation, reward, terminated, truncated, _ = env.step(action)
            seen += f"\n{observation}"
            over = terminated or truncated
        assert reward == 1.0


@each_level
def test_who_asks_for_what_is_held_out_finds_it_in_its_split_alone(level: int):
    kinds = {split: {key_asks(key) for key in keys(level, split, 60)} for split in SPLITS}
    for split, found in kinds.items():
        held_out = {ask for ask, where in HELD_OUT.items() if where == split and ask in LEVELS[level - 1].asks}
        assert found <= set(ASKS) - {ask for ask, where in HELD_OUT.items() if where != split}
        assert (found & held_out != set()) == (held_out != set())
    assert kinds["test"] & set(HELD_OUT)


def key_asks(key: ResearchKey) -> str:
    return asked(key).plan.removesuffix(f"-{UNKNOWN}").rpartition("-")[2]


def test_two_splits_have_other_worlds():
    first, second = (history(WorldKey(split, 3, 12, True)) for split in ("train", "test"))
    assert first.people.keys() != second.people.keys()
    assert {*first.people.values()}.isdisjoint(second.people.values())


@pytest.mark.parametrize("level", [4, 5])
def test_some_questions_have_no_answer_and_say_so_with_what_leads_to_them(level: int):
    found = [key for key in keys(level, "train", 60) if asked(key).missing]
    assert 3 <= len(found) <= 20
    for key in found:
        assert sources(key.world, asked(key).missing) == ()
        assert judged(key, answered(key)).reward == 1.0
        assert judged(key, f"\\boxed{{{UNKNOWN}}}").reward == 0.0
        assert judged(key, "No document says so. \\boxed{unknown}").parts == {"cited": 0.0}


def test_an_answer_without_its_sources_earns_nothing():
    for key in cited():
        answer, *lines = answered(key).split("\n")
        full = judged(key, answered(key))
        assert (full.reward, full.status, full.parts) == (1.0, "correct", {"cited": 1.0})
        assert judged(key, answer).reward == 0.0
        for left_out in lines:
            others = [line for line in lines if line != left_out]
            verdict = judged(key, "\n".join([answer, *others]))
            assert (verdict.reward, verdict.status) == (0.0, "wrong")
            assert verdict.parts["cited"] < 1
        wrong = judged(key, "\n".join(["\\boxed{42424}", *lines]))
        assert wrong.reward == 0.0


def test_citations_are_read_as_people_write_them():
    for key in cited():
        answer, *lines = answered(key).split("\n")
        dressed = [re.sub(r"\] (.*)", r'] "\1"', f"- {line}") for line in lines]
        assert judged(key, "\n".join(["Because:", *dressed, "", answer])).reward == 1.0


def test_words_that_a_document_does_not_hold_are_no_citation():
    for key in cited():
        answer, *lines = answered(key).split("\n")
        first = lines[0]
        for forged in (
            first.replace("] ", "] In truth, "),
            re.sub(r"\[.*?\]", "[Some other document]", first),
            first[:-3] + "xyz",
            first.partition("] ")[0] + "] the",
            first.upper(),
        ):
            assert judged(key, "\n".join([answer, forged, *lines[1:]])).reward == 0.0, forged


def test_a_flood_of_citations_is_not_read():
    key = next(iter(cited()))
    answer, *lines = answered(key).split("\n")
    texts = [f"[{title}] {' '.join(document.text.split())}" for title, document in documents(key.world)]
    assert judged(key, "\n".join([answer, *texts])).reward == 0.0
    assert judged(key, "\n".join([answer, *lines, *[lines[0]] * MAX_QUOTES])).reward == 0.0
    assert judged(key, "\n".join([answer, *lines, f"[x] {'y' * (MAX_QUOTE + 1)}"])).reward == 0.0


def test_part_of_a_sentence_will_do_if_it_gives_the_value():
    for key in cited():
        answer, *lines = answered(key).split("\n")
        (title, stated), *_ = evidence(key.world, asked(key))[0]
        start = max(0, stated.sentence.index(stated.value) - 12)
        words = stated.sentence[start : stated.sentence.index(stated.value) + len(stated.value)]
        without = stated.sentence.replace(stated.value, "|").split("|")[0]
        if words.strip() != stated.sentence and len(words.strip()) >= 8:
            assert judged(key, "\n".join([answer, f"[{title}] {words}", *lines])).reward == 1.0
            assert judged(key, "\n".join([answer, f"[{title}] {words}", *lines[1:]])).reward == 1.0
        if len(without.strip()) >= 8:
            assert judged(key, "\n".join([answer, f"[{title}] {without}", *lines[1:]])).reward == 0.0


@pytest.mark.slow
def test_who_believes_the_first_source_is_wrong():
    misled = 0
    for level in (3, 4, 5):
        for key in keys(level, "train", 40):
            drawn, known = asked(key), catalogue(key.world)
            last = drawn.facts[-1]
            if drawn.missing or last not in known.disputes or drawn.plan.rpartition("-")[2] not in DOUBTED:
                continue
            for account in known.disputes[last][:-1]:
                document = written(key.world, account.title).states[last]
                assert judged(key, quoted(account.value, account.title, document)).reward == 0.0
                misled += 1
    assert misled >= 5


def quoted(answer: str, title: str, stated: StatedFact) -> str:
    return f"\\boxed{{{answer}}}\n[{title}] {stated.sentence}"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.integers(0, 11))
def test_any_reply_is_judged(text: str, number: int):
    key = list(cited())[number]
    for reply in (text, f"\\boxed{{{text}}}", f"{answered(key)}\n[{text}] {text}"):
        assert judged(key, reply).valid


@pytest.mark.parametrize("documents", [0, 99, 100_001, True, "many", 2.5])
def test_a_number_of_documents_that_makes_no_sense_is_refused(documents: object):
    with pytest.raises(ValueError, match="documents must be a whole number from 100 to 100000"):
        gym.make("rlvr/Research-v0", documents=documents)


def test_more_documents_may_be_asked_for():
    env = gym.make("rlvr/Research-v0", level=3, documents=2000, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    key = env.get_state().state.world.key
    assert 1500 <= len(catalogue(key.world).titles) <= 2500
    observation, *_ = env.step('<tool_call>{"name": "read", "arguments": {"title": "Nowhere"}}</tool_call>')
    assert "there is no document 'Nowhere': search for it first" in observation
    observation, *_ = env.step('<tool_call>{"name": "search", "arguments": {"query": "zzzzz"}}</tool_call>')
    assert observation.strip().endswith("nothing was found")


def test_a_long_document_is_read_in_parts():
    world = next(iter(cited())).world
    title = max(catalogue(world).titles, key=lambda each: len(written(world, each).text))
    assert len(parts(world, title)) == 2
    env = gym.make("rlvr/Research-v0", level=3, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    key = env.get_state().state.world.key.world
    title = max(catalogue(key).titles, key=lambda each: len(written(key, each).text))
    for part, expected in ((1, "(part 1 of 2)"), (2, "(part 2 of 2)"), (3, "the document has 2 parts")):
        arguments = json.dumps({"name": "read", "arguments": {"title": title, "part": part}})
        observation, *_ = env.step(f"<tool_call>{arguments}</tool_call>")
        assert expected in observation


@each_level
def test_a_prompt_holds_all_that_a_careful_person_reads(level: int):
    env = gym.make("rlvr/LongContext-v0", level=level, disable_env_checker=True).unwrapped
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        key = env.get_state().state
        for call in steps(key.world, asked(key)):
            if call.name == "read":
                assert written(key.world, call.arguments["title"]).text in observation
        *_, info = env.step(env.solve())
        assert info["success"]


def test_prompts_are_as_long_as_they_are_asked_to_be():
    for characters in (4_000, 100_000, 500_000):
        env = gym.make("rlvr/LongContext-v0", level=5, characters=characters, disable_env_checker=True).unwrapped
        observation, _ = env.reset(seed=1)
        assert abs(len(observation) - characters) < 12_000
    with pytest.raises(ValueError, match="characters must be a whole number from 4000 to 600000"):
        gym.make("rlvr/LongContext-v0", characters=10)


def test_a_world_depends_on_nothing_but_its_key():
    key = WorldKey("train", 1, 12, True)
    before = [written(key, title) for title in catalogue(key).titles]
    for cached in (written, catalogue, history):
        cached.cache_clear()
    titles = list(catalogue(key).titles)
    random.shuffle(titles)
    again = {title: written(key, title) for title in titles}
    assert [again[title] for title in catalogue(key).titles] == before
