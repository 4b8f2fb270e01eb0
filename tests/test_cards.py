"""Cards say what is true, guesses are guesses, and the committed pages know every id."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlvr
from rlvr.cli import main
from rlvr.envs import cards
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.cards import card, measure, sections, summary, summary_from_docstring
from rlvr.envs.core.task import Task
from rlvr.envs.tasks import guesses

from .needs import needs_rocq, needs_sandbox

ROOT = Path(__file__).parents[1]
OWN = [i for i in rlvr.list_envs() if i.startswith("rlvr/") and not i.startswith(PREFIXES)]


# what a card says


@pytest.mark.parametrize("env_id", OWN)
def test_every_id_has_a_card(env_id):
    found = card(env_id)
    env = gym.make(env_id).unwrapped
    assert (found.env_id, found.levels, len(found.turns)) == (env_id, env.task.levels, env.task.levels)
    assert found.turns[0] == env.task.turns(1)
    assert found.family in gym.spec(env_id).kwargs["task"]
    assert found.ready
    assert len(found.asks) > 20, "say in the docstring of the task, or of its module, what it is"
    assert found.licence
    json.dumps(found.to_dict())


def test_a_table_without_its_rows_has_a_card_that_says_so(monkeypatch):
    monkeypatch.setenv("RLVR_DATA", "/nowhere")
    found = card("rlvr/GSM8K-v0")
    assert not found.ready
    assert found.source.startswith("openai/gsm8k")
    assert found.licence == "MIT"
    assert "not here" in str(found)


def test_what_has_no_card_is_an_error_that_says_so():
    with pytest.raises(gym.error.Error):
        card("rlvr/Nothing-v0")
    with pytest.raises(ValueError, match="no card"):
        card("CartPole-v1")


def test_luck_earns_little_on_every_level_or_it_is_said_why():
    """Of the committed figures: with 100 seeds a rate of 0.2 is seen as up to 0.32 once in a thousand times."""
    noise = 0.12
    rows = json.loads((ROOT / "benchmarks" / "results" / "cards.json").read_text())["cards"]
    for env_id, row in rows.items():
        for score in row["scores"]:
            where = f"{env_id} level {score['level']}"
            assert env_id in cards.LUCK or score["random"] <= cards.RANDOM_MOST + noise, where
            assert (score["constant"] or 0.0) <= cards.ANSWER_MOST + noise, where
    for env_id in cards.LUCK:
        most = max(score["random"] for score in rows[env_id]["scores"])
        assert most > cards.RANDOM_MOST, f"{env_id}: no reason is needed"


@needs_sandbox
def test_a_level_has_hundreds_of_tasks_or_lists_them_or_it_is_said_why():
    """Of the committed figures: how many of a thousand seeds are different tasks."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "cards.json").read_text())["cards"]
    few = set()
    for env_id, row in rows.items():
        scores = [score for score in row["scores"] if score["distinct"] < cards.DIFFERENT * score["drawn"] / 1_000]
        if not scores or env_id.startswith("rlvr/rg."):
            continue
        task = gym.make(env_id).unwrapped.task
        few |= {env_id for score in scores if task.size is None and not task.enumerate_contents(score["level"])}
    assert few == {*cards.FEW}


def test_stored_sentences_are_those_of_the_docstrings():
    stored = json.loads(cards.SUMMARIES.read_text(encoding="utf-8"))
    now = {env_id: [gym.spec(env_id).kwargs["task"], summary_from_docstring(env_id)] for env_id in OWN}
    assert stored == now, "python benchmarks/gallery.py writes them anew"


def test_an_id_of_another_task_or_unknown_to_the_file_has_the_sentence_of_its_own_task():
    tasks = {"rlvr/TestSentence-v0": "Countdown", "rlvr/Wordle-v0": "Countdown"}
    before = gym.registry["rlvr/Wordle-v0"]
    try:
        del gym.registry["rlvr/Wordle-v0"]
        for env_id in tasks:
            rlvr.register(env_id, "rlvr.envs.puzzles.countdown:Countdown")
            assert summary(env_id) == summary("rlvr/Countdown-v0")
    finally:
        gym.registry["rlvr/Wordle-v0"] = before
        del gym.registry["rlvr/TestSentence-v0"]


def test_listing_with_sentences_imports_no_environment():
    code = "import sys; from rlvr.cli import main; main(['envs', '-l']); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(ended.stdout.splitlines()) == len(rlvr.list_envs())
    tasks = {gym.spec(env_id).kwargs["task"].partition(":")[0] for env_id in OWN}
    assert not tasks & set(ended.stderr.split())


def test_the_command_prints_cards(capsys):
    assert main(["card", "rlvr/Countdown-v0", "rlvr/GuessNumber-v0"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    assert lines[:2] == [["rlvr/Countdown-v0"], ["family", "puzzles"]]
    assert ["turns", "4 to 20"] in lines
    assert ["observation", "the numbers and the target."] in lines


def test_questions_and_puzzles_say_what_is_seen_done_and_earned():
    families = ("algorithmic", "coding", "knowledge", "logic", "mathematics", "puzzles", "science", "visual")
    ids = [i for i in OWN if gym.spec(i).kwargs["task"].split(".")[2] in families]
    silent = [i for i in ids if not {"Observation", "Actions", "Reward", "Episode end"} <= card(i).sections.keys()]
    assert len(ids) > 180
    assert not silent


def test_the_command_says_which_id_it_does_not_know(capsys):
    assert main(["card", "rlvr/Nothing-v0"]) == 2
    assert "Nothing" in capsys.readouterr().err


# what is measured


def test_scores_of_a_question_and_of_a_game():
    question = measure("rlvr/VisualMatrices-v0", 1, seeds=40, draws=60)
    assert question.expert == 1.0
    assert 0.0 < question.random < 0.6  # one of four options
    assert question.constant is not None
    assert question.luck == max(question.random, question.constant)
    assert (question.drawn, question.shared) == (60, 0)
    game = measure("rlvr/GuessNumber-v0", 1, seeds=10, draws=200)
    assert (game.expert, game.constant) == (1.0, None)
    assert game.distinct < game.drawn
    assert game == measure("rlvr/GuessNumber-v0", 1, seeds=10, draws=200)


def test_a_table_is_counted_row_by_row():
    scores = measure("rlvr/GSM8K-v0", 1, seeds=5)
    assert scores.drawn == gym.make("rlvr/GSM8K-v0").unwrapped.size


# guesses


@given(st.text(max_size=300), st.integers(0, 2**32))
def test_a_guess_is_made_of_any_text_and_never_raises(text, seed):
    for draw in (guesses.number, guesses.letter, guesses.word, guesses.several):
        guess = draw(text, random.Random(seed))
        assert guess
        assert guess == draw(text, random.Random(seed))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Which are true? Answer with their numbers.\n1. a\n2. b\n3. c", r"[1-3](, [1-3])*"),
        ("Sort these.\npear, fig, apple, plum\nAnswer with all words.", r"\w+(, \w+){3}"),
        ("What are Mia, Dan, Ned? Answer with knight or knave for each.", r"(knight|knave)(, (knight|knave))*"),
        ("Answer with 5 digits, 1 for true, 0 for false.", r"[01]{5}"),
    ],
)
def test_most_guesses_have_the_form_that_is_asked_for(text, form):
    rng = random.Random(0)
    fitting = sum(re.fullmatch(form, guesses.several(text, rng)) is not None for _ in range(200))
    assert fitting > 120


def test_letters_are_those_of_the_options():
    rng = random.Random(0)
    assert {guesses.letter("Pick.\nA) 1\nB) 2\nC) 3", rng) for _ in range(50)} == {"A", "B", "C"}


# what is committed


def test_the_gallery_shows_exactly_the_ids_that_are_registered():
    shown = []
    for page in (ROOT / "docs" / "gallery").glob("*.md"):
        shown += re.findall(r"^## (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    missing, gone = sorted(set(OWN) - set(shown)), sorted(set(shown) - set(OWN))
    assert (missing, gone) == ([], []), "run: make docs"
    assert len(shown) == len(set(shown))


@pytest.mark.slow
@needs_sandbox
@needs_rocq
def test_the_generated_pages_are_up_to_date():
    pytest.importorskip("chess")
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "gallery.py", "--check"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_sandbox
def test_the_measured_cards_are_of_ids_that_exist_and_their_figures_make_sense():
    cards = json.loads((ROOT / "benchmarks" / "results" / "cards.json").read_text())["cards"]
    assert set(cards) <= set(OWN), "run: python benchmarks/cards.py --missing"
    for env_id, found in cards.items():
        always_solvable = gym.make(env_id).unwrapped.task.always_solvable
        for score in found["scores"]:
            assert score["shared"] == 0, f"{env_id}: train and test share a task"
            assert not always_solvable or score["expert"] in (1.0, None), f"{env_id} level {score['level']}"
            assert 0.0 <= score["random"] <= 1.0


def test_a_card_shows_the_sections_of_the_docstring():
    class Family(Task[str]):
        """Words.

        Observation: a word.
        Actions: the word written backwards,
            in a box.
        """

    class Reverse(Family):
        """Write a word backwards.

        Levels 1 and 2: short and long words.

        Observation: a long word.
        Episode end: after one action.

        Args:
            letters: of which words are made.

        Not of any section: this.
        """

    assert sections(Reverse) == {
        "Observation": "a long word.",
        "Actions": "the word written backwards, in a box.",
        "Episode end": "after one action.",
        "Arguments": "letters: of which words are made.",
    }
    assert sections(Task) == {}
