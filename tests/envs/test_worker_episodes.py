"""What the workers of bridges keep: an episode is one instance's, and one played again must be the same."""

from __future__ import annotations

import pytest

from rlvr.envs.bridges.worker_episodes import KeptEpisodes, KeptKey, named, recorded
from rlvr.envs.tools.sessions import Handle


def again(value: str, said: str = "hello"):
    return lambda: ([value], recorded("", said))


def test_an_episode_is_found_by_its_instance_and_not_by_what_was_done():
    kept: KeptEpisodes[list[str]] = KeptEpisodes()
    record = recorded("", "hello")
    kept.keep(1, ["first"])
    kept.keep(2, ["second"])
    assert kept.take(1, again("new"), record) == ["first"]
    assert kept.take(1, again("new"), record) == ["new"]  # nobody gets it twice
    assert kept.take(None, again("new"), record) == ["new"]
    assert kept.take(2, again("new"), record) == ["second"]


def test_what_was_played_again_and_differs_is_refused_and_dropped():
    dropped: list[list[str]] = []
    kept: KeptEpisodes[list[str]] = KeptEpisodes(dropped.append)
    with pytest.raises(RuntimeError, match="does not repeat itself"):
        kept.take(5, again("new", "another word"), recorded("", "hello"))
    assert dropped == [["new"]]


def test_what_is_kept_is_bounded_and_let_go():
    dropped: list[list[str]] = []
    kept: KeptEpisodes[list[str]] = KeptEpisodes(dropped.append, max_kept=3)
    for number in range(5):
        kept.keep(number, [str(number)])
    kept.keep(None, ["for nobody"])
    assert (len(kept), dropped) == (3, [["0"], ["1"]])


def test_a_digest_knows_every_word_and_their_order():
    assert recorded(recorded("", "a"), "b") != recorded(recorded("", "b"), "a") != recorded("", "ab")
    assert recorded("", "a", 0.0) != recorded("", "a", 1.0)


def test_a_state_without_a_hold_names_none():
    before, after = Handle(), Handle()
    assert KeptKey(*named(before, after, "r")) == KeptKey(before.number, after.number, "r")
    assert before.number != after.number
    assert KeptKey(*named(None, after, "r")).before is None
