"""Tasks of two splits that differ in names and order alone, or in little, are reported."""

from __future__ import annotations

import random

import gymnasium as gym

from rlvr.envs.audit import audit
from rlvr.envs.near_duplicates import canonical, overlap

TASK = "Ann is {a} years older than Ben. Ben is {b} years older than Cay. Together they are {c} years old."


def prompts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return [TASK.format(a=rng.randint(2, 900), b=rng.randint(2, 900), c=rng.randint(900, 9_999)) for _ in range(count)]


def renamed(prompt: str) -> str:
    first, second, third = prompt.replace("Ann", "Zoe").replace("Cay", "Ann").removesuffix(".").split(". ")
    return f"{second}. {first}. {third}."


def test_names_and_order_make_no_other_prompt_and_numbers_do():
    one, other = prompts(0, 2)
    assert renamed(one) != one
    assert canonical(renamed(one)) == canonical(one)
    assert canonical(other) != canonical(one), "the control"
    assert canonical("What is 3 + 4? Ann asks.") != canonical("What is 4 + 3? Ann asks.")


def test_a_test_split_of_renamed_train_tasks_is_seen():
    train, fresh = prompts(0, 40), prompts(1, 40)
    found = overlap(train, [renamed(prompt) for prompt in train[:10]])
    assert found.same == tuple((index, index) for index in range(10))
    assert overlap(train, fresh).same == (), "the control"


def test_a_test_prompt_with_the_words_of_one_train_prompt_is_near_it():
    rng = random.Random(2)
    words = [f"w{number}" for number in range(300)]
    train = [" ".join(rng.choices(words, k=60)) for _ in range(20)]
    near = train[3].rsplit(" ", 2)[0] + " another end"
    fresh = " ".join(rng.choices(words, k=60))
    assert overlap(train, [fresh, near]).near == (1,)


def test_prompts_that_are_all_alike_say_nothing():
    assert overlap(["Guess my number."] * 20, ["Guess my number."] * 20).tried == 0


def test_the_audit_reports_it():
    report = audit(gym.make("rlvr/AgeProblems-v0").unwrapped, tasks=8)
    measured = next(result.measured for result in report.results if result.check.id == "sound.splits")
    assert measured == {"equal but for names and order": 0, "nearly all n-grams shared": 0}
