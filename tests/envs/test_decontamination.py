"""What stands in both sets is found, whatever was done to its looks; what only sounds alike is left."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.tasks.decontamination import find_overlaps

STORY = (
    "A gardener plants nine rows of eleven tulips along the northern wall of the park. Fifteen of them do not grow "
    "because of the frost in April. How many of the tulips are in bloom by the middle of May?"
)
SHORT = "How many prime numbers are there between 30 and 60?"  # ten words
BRIEF = "What is 17 times 23?"  # five words


def found(train: str, test: str, **settings: float) -> bool:
    return bool(find_overlaps([train], [test], **settings))


# what is the same


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        str.title,
        lambda text: text.replace(".", " ;").replace("?", "..."),
        lambda text: text.replace(" ", "  \n\t"),
        lambda text: f"**{text}**",
        lambda text: text.replace(" are ", " _are_ "),
    ],
    ids=["capitals", "title", "punctuation", "blanks", "emphasis", "marks within"],
)
@pytest.mark.parametrize("text", [STORY, SHORT, BRIEF], ids=["story", "short", "brief"])
def test_looks_do_not_count(text, change):
    assert found(change(text), text)
    assert found(text, change(text))


@pytest.mark.parametrize("text", [STORY, SHORT], ids=["story", "short"])
def test_what_is_put_around_a_question_does_not_hide_it(text):
    around = "You are given a task. Read it twice and answer with one number only. {} Think step by step. Good luck!"
    assert found(around.format(text), text)
    assert find_overlaps([around.format(text)], [text])[0].run


def test_a_word_changed_here_and_there_does_not_hide_it():
    changed = STORY.replace("gardener", "florist").replace("April", "March")
    assert found(changed, STORY)
    words = STORY.split()
    every_eighth = " ".join("thing" if i % 8 == 7 else word for i, word in enumerate(words))
    assert not found(every_eighth, STORY), "no run of 13 and too few shingles are left"
    assert found(every_eighth, STORY, jaccard=0.3)


def test_an_entry_names_the_places_the_index_and_the_run():
    train = ["something else altogether", STORY.upper(), "Mind this: " + SHORT, STORY]
    overlaps = find_overlaps(train, [BRIEF, SHORT, STORY])
    assert [(overlap.train, overlap.test) for overlap in overlaps] == [(1, 2), (2, 1), (3, 2)]
    assert overlaps[0].jaccard == 1.0
    assert overlaps[1].run == "how many prime numbers are there between 30 and 60"
    assert len(overlaps[0].run.split()) == 13


# what is not the same


def test_other_numbers_are_another_question():
    template = (
        "A shop sells {} pens for {} euros each and {} books for {} euros each. What does it take in after {} days?"
    )
    one, other = template.format(12, 3, 7, 9, 4), template.format(15, 2, 8, 11, 6)
    assert not found(one, other)
    assert found(one, other, numbers=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BRIEF, "What is 17 times 32?"),
        ("Compute 2 + 2.", "Compute 2 - 2."),
        ("Compute 2 + 2.", "Compute 2 * 2."),
        ("Solve $x^2 = 4$.", "Solve $x^3 = 4$."),
        ("Who wrote Faust?", "Who wrote Emma?"),
        ("", BRIEF),
        ("∅", "∪"),
        (SHORT, STORY),
    ],
)
def test_what_differs_in_what_is_asked_is_not_the_same(one, other):
    assert not found(one, other)
    assert not found(other, one)


def test_a_phrase_of_the_field_is_no_overlap():
    phrase = "Find the number of ordered pairs of positive integers such that the sum of both of them is equal to"
    texts = [f"{phrase} " + " ".join(f"{word}{i}" for word in "abcdefghijklmnopqrstuvwxyz") for i in range(35)]
    train, test = texts[:30], texts[30:]
    assert find_overlaps(train, test) == []
    assert len(find_overlaps(train, test, common=30)) == 30


def test_repeats_of_one_text_do_not_make_a_phrase_of_it():
    assert len(find_overlaps([STORY + " Now?"] * 50, [STORY])) == 50


# any texts

WORDS = st.lists(st.sampled_from("a b c d e f g h 1 2 3".split()), min_size=1, max_size=30)


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=12), st.sampled_from([0.3, 0.5, 0.75, 0.8, 1.0]))
def test_the_jaccard_index_agrees_with_comparing_every_pair(train, test, least):
    def shingles(words):
        size = min(3, len(words))
        return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}

    def index(one, other):
        return len(one & other) / len(one | other)

    train, test = [list(words) for words in train], [list(words) for words in test]
    texts, others = [" ".join(words) for words in train], [" ".join(words) for words in test]
    overlaps = find_overlaps(texts, others, jaccard=least, run=10_000)
    by_place = {overlap.train: overlap for overlap in overlaps if not overlap.run}
    for place, words in enumerate(train):
        best = max((index(shingles(words), shingles(other)) for other in test), default=0.0)
        if place in by_place:
            assert by_place[place].jaccard == best >= least
        elif place not in {overlap.train for overlap in overlaps}:
            assert best < least


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_overlaps_with_itself_and_nothing_raises(one, other):
    find_overlaps([one, other], [other, one])
    assert [overlap.train for overlap in find_overlaps([one], [one])] == [0]


@pytest.mark.parametrize("settings", [{"jaccard": 0.0}, {"jaccard": 1.1}, {"run": 7}, {"common": 0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        find_overlaps([STORY], [STORY], **settings)


def test_what_was_planted_among_thousands_is_found_and_nothing_else():
    rng = random.Random(7)
    vocabulary = [f"w{i}" for i in range(2_000)]

    def texts(count: int) -> list[str]:
        return [" ".join(rng.choices(vocabulary, k=rng.randint(10, 40))) for _ in range(count)]

    train, test = texts(2_000), texts(2_000)
    planted = sorted(rng.sample(range(2_000), 100))
    for i in planted:
        train[i] = f"Question {i}: {test[i].upper()}!"
    overlaps = find_overlaps(train, test)
    assert [(overlap.train, overlap.test) for overlap in overlaps] == [(i, i) for i in planted]
