"""The benchmark of learned agent worlds: which phrases become words of a policy."""

import pytest

from ..architecture import ROOT


@pytest.fixture
def words_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from learned_worlds import words_of

    return words_of


def test_what_always_stands_together_is_one_word_and_names_and_numbers_are_none(words_of):
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jan", "Kim", "Leo", "Mia")
    texts = [f"Please call {name} at {number} today." for number, name in enumerate(names * 8)]
    texts += [f"<call>{name}</call>" for name in names * 8]
    words = words_of(texts)
    assert {"Please call", " today.", "<call>", "</call>", "Ada"} <= set(words)
    assert not any(letter.isdigit() for word in words for letter in word)
    assert not any(name in word and name != word for name in names for word in words)


def test_a_phrase_does_not_reach_into_the_next_text_line_or_sentence(words_of):
    words = words_of(["Who is it\n    Nobody else. Never mind", "It is so"] * 20)
    assert {"Who is it", "Nobody else.", " Never mind"} <= set(words)
    assert not any(("it" in word and "Nobody" in word) or ("else" in word and "Never" in word) for word in words)
