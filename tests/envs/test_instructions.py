"""Instructions: every kind passes and fails, the expert obeys, cheats earn nothing, held-out kinds stay held out."""

from __future__ import annotations

import random
from collections import Counter

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.core.seeding import stream
from rlvr.envs.instructions.catalogue import (
    GROUPS,
    KINDS,
    SPLIT_OF,
    judge,
    language_of,
    plain_text,
    sentence_of,
    write_text,
)
from rlvr.envs.instructions.content import REPLY_LANGUAGE
from rlvr.envs.instructions.kind import Instruction, Scene
from rlvr.envs.instructions.language import FACTS
from rlvr.envs.instructions.text import LANGUAGES, Brief, WrittenText, fact_forms, sentences_of, words_of
from rlvr.envs.instructions.writing import LEVELS, Instructions, signature

from .instruction_texts import TEXTS

VALUES = dict(zip(FACTS, ("14/6", "18:30", "Villa Aurora", "5", "Marta", "40", "0471 2290"), strict=True))
BRIEF = Brief("en", 0, 0, tuple(VALUES.items()))
SHORT = BRIEF._replace(facts=BRIEF.facts[:4])
ALL_LEVELS = range(1, len(LEVELS) + 1)


def made(level: int, split: str = "train") -> TextEnv:
    return gym.make("rlvr/Instructions-v0", level=level, split=split, disable_env_checker=True).unwrapped


def obeys(name: str, text: str, brief: Brief = BRIEF) -> bool:
    kind, args = KINDS[name], TEXTS[name][0]
    if kind.unwrap:
        return kind.unwrap(text) is not None
    return kind.check(WrittenText(text, brief, LANGUAGES[brief.language]), *args)


# the kinds


def test_there_are_at_least_120_kinds_in_12_groups_each_said_in_six_languages():
    assert len(KINDS) == sum(map(len, GROUPS.values())) >= 120
    assert (len(GROUPS), len(LANGUAGES)) == (12, 6)
    for kind in KINDS.values():
        assert set(kind.says) == set(LANGUAGES)
        assert len({*kind.says.values()}) == 6, kind.name
    assert f"{len(KINDS)} kinds" in (Instructions.__doc__ or "")


def test_every_kind_has_a_text_that_obeys_and_one_that_does_not():
    assert set(TEXTS) == set(KINDS)


@pytest.mark.parametrize("name", TEXTS)
def test_a_kind_tells_the_two_texts_apart(name):
    _, good, bad = TEXTS[name]
    brief = BRIEF._replace(facts=BRIEF.facts[:2]) if name == "facts_in_order" else BRIEF
    assert obeys(name, good, brief)
    assert not obeys(name, bad, brief)


def scene_of(code: str, seed: int, brief: Brief) -> Scene:
    language = LANGUAGES[code]
    return Scene(
        stream("scene", code, seed), brief, language, WrittenText(plain_text(brief, language), brief, language)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KINDS if name != REPLY_LANGUAGE])
def test_the_expert_obeys_each_kind_in_each_language_and_a_heedless_text_does_not(name):
    outcomes = [written_and_heedless(name, code) for code in sorted(KINDS[name].codes)]
    assert all(written for written, _ in outcomes)
    assert sum(heedless for _, heedless in outcomes) >= 3


def written_and_heedless(name: str, code: str) -> tuple[int, int]:
    """How often the expert obeys, and how often a text that heeds no instruction does not."""
    written = heedless = 0
    for seed in range(8):
        facts = tuple(random.Random(seed).sample(BRIEF.facts, 3))
        if "venue" not in dict(facts) and any(name.startswith(each) for each in ("venue", "quoted_venue")):
            facts = (*facts, ("venue", "Villa Aurora"))
        brief = Brief(code, seed, 0, facts)
        scene = scene_of(code, seed, brief)
        args = KINDS[name].sample(scene)
        if args is None:
            continue
        instruction = Instruction(name, args)
        text = write_text(brief, [instruction])
        written += text is not None
        assert text is None or judge(text, brief, [instruction]).success
        plain_texts = (scene.plain.text, plain_text(brief, scene.language, greets=False))
        heedless += sum(not judge(each, brief, [instruction]).parts[name] for each in plain_texts)
    return written, heedless


@settings(max_examples=40)
@given(st.text(max_size=200), st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(LANGUAGES)))
def test_no_text_makes_a_check_raise(text, name, code):
    brief = SHORT._replace(language=code)
    args = KINDS[name].sample(scene_of(code, 1, BRIEF._replace(language=code))) or TEXTS[name][0]
    verdict = judge(text, brief if name != "table_of_facts" else BRIEF, [Instruction(name, args)])
    assert verdict.reward == 0.0


@pytest.mark.parametrize("name", KINDS)
def test_contradictions_are_mutual(name):
    for other in KINDS.values():
        assert KINDS[name].clashes(other) == other.clashes(KINDS[name])
    assert KINDS[name].clashes(KINDS[name])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("all_small", "all_capitals"),
        ("title_with_hash", "begin_with"),
        ("signed", "end_with"),
        ("words_at_least", "words_at_most"),
        ("json_text", "note_tags"),
        ("one_line", "bullets_with_dashes"),
        ("all_exclaim", "last_is_question"),
        ("sentences_exactly", "postscript"),
        ("facts_in_order", "fact_in_first_sentence"),
    ],
)
def test_what_contradicts_each_other_never_holds_together(a, b):
    assert KINDS[a].clashes(KINDS[b])


@pytest.mark.parametrize(
    ("a", "b"), [("all_small", "words_at_least"), ("json_text", "signed"), ("no_ours", "one_dash")]
)
def test_what_goes_together_may(a, b):
    assert not KINDS[a].clashes(KINDS[b])


# words, sentences, facts


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three? Four...", 4),
        ("We meet at 6 p.m. on Monday. Come.", 2),
        ("Wir treffen uns am 14. Juni. Kommt!", 2),
        ("He said “Come.” Then he left.", 2),
        ("A title\n\nA sentence.", 2),
        ("At 18.30 we meet.", 1),
        ("...", 0),
    ],
)
def test_sentences_are_counted(text, count):
    assert len(sentences_of(text)) == count


def test_words_are_what_stands_between_blanks():
    assert words_of("“Come,” at 18:30 – l'école – **now**!") == ["Come", "at", "18:30", "l'école", "now"]


@pytest.mark.parametrize(
    ("text", "is_mentioned"),
    [
        ("on 14 June", True), ("on June 14", True), ("on 14\nJUNE", True), ("on 14/06", True), ("on **14 June**", True),
        ("on 4 June", False), ("on 114 June", False), ("on 14 Junes", False),
    ],
)  # fmt: skip
def test_a_fact_is_mentioned_as_words_of_its_own(text, is_mentioned):
    brief = Brief("en", 0, 0, (("date", "14/6"),))
    assert (WrittenText(text, brief, LANGUAGES["en"]).where("date") >= 0) == is_mentioned


def test_forms_of_different_values_are_different():
    for code in LANGUAGES:
        for fact, values in {"price": ("5", "15"), "date": ("4/6", "14/6"), "seats": ("30", "80")}.items():
            first, second = (fact_forms(fact, value, code) for value in values)
            assert not {*first} & {*second}
            text = WrittenText(f"x {second[0]} x", Brief(code, 0, 0, ((fact, values[0]),)), LANGUAGES[code])
            assert text.where(fact) < 0


# the tasks


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("level", ALL_LEVELS)
def test_the_expert_earns_one_on_many_seeds(level, split):
    env = made(level, split)
    for seed in range(60 if split == "train" else 20):
        env.reset(seed=seed)
        over, reward = False, 0.0
        while not over:
            _, reward, terminated, truncated, info = env.step(env.solve())
            over = terminated or truncated
        assert reward == 1.0, (seed, info["verdict"].reason)
        assert all(info["verdict"].parts.values())


def cheats(prompt: str, env: TextEnv, rng: random.Random) -> dict[str, str]:
    demands = env.get_state().state.now()
    language = language_of(demands.brief, demands.instructions)
    facts = [fact_forms(fact, value, language.code)[0] for fact, value in demands.brief.facts]
    sentences = [sentence_of(each, demands.brief.language) for each in demands.instructions]
    expert = env.solve()
    return {
        "nothing": "",
        "the prompt": prompt,
        "the instructions": "\n".join(sentences),
        "the facts alone": ". ".join(facts),
        "the facts and the instructions": "\n".join([*facts, *sentences]),
        "a claim": f"I have written a text that follows all instructions. {' '.join(facts)}",
        "frequent words": " ".join([*facts, *rng.choices(sorted(language.common), k=120)]),
        "a giant": expert * 200,
        "the text twice": f"{expert}\n\n{expert}",
        "the text only thought": f"<think>{expert}</think>",
        "the text behind the end": f"<|im_end|>{expert}",
        "sentences without facts": env.sample_action(rng),
    }


@pytest.mark.slow
@pytest.mark.parametrize("level", ALL_LEVELS)
def test_cheats_earn_nothing(level):
    env, rng = made(level), random.Random(level)
    paid: Counter[str] = Counter()
    for seed in range(60):
        prompt, _ = env.reset(seed=seed)
        for _ in range(rng.randrange(env.task.turns(level))):
            prompt = env.step(env.solve())[0]
        state = env.get_state()
        for name, action in cheats(prompt, env, rng).items():
            env.set_state(state)
            _, reward, terminated, _, _ = env.step(action)
            paid[name] += reward > 0 or not terminated
    assert not +paid, paid


@pytest.mark.slow
@pytest.mark.parametrize("level", [4, 5])
def test_the_text_of_the_turn_before_misses_what_changed(level):
    env = made(level)
    for seed in range(10):
        env.reset(seed=seed)
        first = env.solve()
        env.step(first)
        _, reward, terminated, _, _ = env.step(first)
        assert (reward, terminated) == (0.0, True)


@pytest.mark.slow
@pytest.mark.parametrize("level", ALL_LEVELS)
def test_a_heedless_text_and_the_text_of_another_task_earn_nothing(level):
    env = made(level)
    texts = []
    for seed in range(10):
        env.reset(seed=seed)
        demands = env.get_state().state.now()
        language = language_of(demands.brief, demands.instructions)
        texts.append(env.solve())
        heedless = [plain_text(demands.brief, language, greets) for greets in (True, False)]
        assert not any(judge(text, demands.brief, demands.instructions).success for text in heedless)
        if len(texts) > 1:
            assert env.step(texts[-2])[1] == 0.0


def test_the_parts_of_a_verdict_are_the_instructions_and_the_prose():
    instructions = [Instruction("no_commas"), Instruction("words_at_least", (6,))]
    brief = Brief("en", 0, 0, (("contact", "Marta"),))
    verdict = judge("Well, you can ask Marta.", brief, instructions)
    assert (verdict.reward, verdict.status) == (0.0, "wrong")
    assert verdict.parts == {"prose": 1.0, "no_commas": 0.0, "words_at_least": 0.0}
    assert verdict.reason == "not met: Use no commas. Write at least 6 words."


def test_an_outdated_fact_may_not_stay():
    brief = Brief("en", 0, 0, (("contact", "Marta"),), (("contact", "Hugo"),))
    assert judge("Please ask Marta about all of this.", brief, []).success
    verdict = judge("Please ask Marta about this, not Hugo.", brief, [])
    assert verdict.reason == "outdated: contact"


# kinds that are held out


def kinds_of(level: int, split: str, seeds: int) -> set[str]:
    env = made(level, split)
    kinds: set[str] = set()
    for seed in range(seeds):
        env.reset(seed=seed)
        state = env.get_state().state
        for turn in range(len(state.changes) + 1):
            kinds |= {each.kind for each in state.now(turn).instructions}
    return kinds


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 3, 5])
def test_held_out_kinds_never_occur_in_train(level):
    assert {SPLIT_OF[kind] for kind in kinds_of(level, "train", 25)} == {"train"}
    assert {SPLIT_OF[kind] for kind in kinds_of(level, "test", 8)} <= {"train", "test"}
    env = made(level, "test")
    for seed in range(4):
        env.reset(seed=seed)
        assert SPLIT_OF[env.get_state().state.lead] == "test"


def test_a_tenth_of_the_kinds_is_held_out_for_each_split():
    counts = Counter(SPLIT_OF.values())
    assert counts["validation"] == counts["test"] >= 12
    for split in ("validation", "test"):
        assert sum(KINDS[name].easy for name in SPLIT_OF if SPLIT_OF[name] == split) >= 5


@pytest.mark.slow
def test_signatures_are_many_and_none_is_in_two_splits():
    found: dict[str, set[object]] = {}
    for split, seeds in (("train", 100), ("test", 40)):
        found[split] = set()
        for level in ALL_LEVELS:
            env = made(level, split)
            for seed in range(seeds):
                env.reset(seed=seed)
                found[split].add(signature(env.get_state().state))
    assert len(found["train"]) >= 400
    assert not found["train"] & found["test"]
