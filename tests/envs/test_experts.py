"""Experts use what the policy has seen: what they ask tools for stands in the transcript before."""

from __future__ import annotations

import builtins
import keyword
import re

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.agentic.browser import site_of
from rlvr.envs.core.images import image_of
from rlvr.envs.core.tables import DataError
from rlvr.envs.sandbox import SandboxUnavailable


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_of_world_search_searches_for_what_it_has_read(level: int) -> None:
    env = gym.make("rlvr/WorldSearch-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    for index in range(12):
        transcript, _ = env.reset(seed=11, options={"level": level, "index": index})
        over = False
        while not over:
            action = env.solve()
            for words in re.findall(r'"(?:query|title)": ?"([^"]+)"', action):
                assert words.lower() in transcript.lower(), (words, transcript)
            answer = re.search(r"\\boxed\{(.*)\}", action)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            assert answer is None or reward == 1.0
            transcript += f"\n{observation}"


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_of_browser_looks_at_all_that_it_chooses_from(level: int) -> None:
    env = gym.make("rlvr/Browser-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    compared = 0
    for index in range(8):
        transcript, _ = env.reset(seed=12, options={"level": level, "index": index})
        visit = env.get_state().state.world
        site = site_of(visit)
        over = False
        while not over:
            action = env.solve()
            step = next((step for step in visit.steps if step.url == env.get_state().state.world.url), None)
            if "submit" in action and step is not None and step.url.startswith("/entry/"):
                chosen = site.entries[int(step.url.removeprefix("/entry/"))]
                others = [entry.name for entry in site.entries if entry.group == chosen.group]
                if f"“{chosen.name}”" not in visit.goal:
                    compared += 1
                    assert all(f"= {name} =" in transcript for name in others)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            transcript += f"\n{observation}"
        assert reward == 1.0
    assert compared or level == 1


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_of_service_desk_opens_orders_until_it_finds_the_product(level: int) -> None:
    env = gym.make("rlvr/ServiceDesk-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    looked = 0
    for index in range(10):
        transcript, _ = env.reset(seed=13, options={"level": level, "index": index})
        listed: list[str] = []
        opened: list[str] = []
        over = False
        while not over:
            action = env.solve()
            if "get_order" in action:
                order = re.findall(r'"order": ?(\d+)', action)[0]
                named = re.search(rf"order (?:is )?{order}\b", transcript.partition("\norder ")[0])
                assert set(listed[: listed.index(order)]) <= {*opened} or named
                opened.append(order)
                looked += 1
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            transcript += f"\n{observation}"
            if "list_orders" in action:
                listed = re.findall(r"order (\d+): ", observation)
        assert reward == 1.0
    assert looked


def plays_on(env_id: str) -> bool:
    """Whether its episodes have several turns, and no sandbox runs in them: that would take minutes."""
    named = gym.spec(env_id).kwargs.get("task", "")
    if not named.startswith("rlvr.") or "coding_tasks" in named or "terminal" in named or env_id == "rlvr/Mixture-v0":
        return False
    try:
        task = gym.make(env_id).unwrapped.task
    except (ImportError, SandboxUnavailable):  # its extra is not installed, or programs cannot run here
        return False
    return max(map(task.turns, range(1, task.levels + 1))) > 1


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [env_id for env_id in list_envs() if plays_on(env_id)])
def test_an_expert_does_the_same_wherever_a_policy_has_seen_the_same(env_id):
    """Of tasks that differ in what is hidden: an expert that looks at the state would tell them apart."""
    env = gym.make(env_id).unwrapped
    for level in (1, 2):
        if level > env.task.levels:
            break
        done: dict[tuple[str, ...], str] = {}
        for seed in range(40):
            observation, _ = env.reset(seed=seed, options={"level": level})
            seen, ended = (str(observation), str(image_of(observation) is None or seed)), False
            while not ended:
                action = env.solve()
                assert done.setdefault(seen, action) == action, (level, seed, seen)
                observation, _, terminated, truncated, _ = env.step(action)
                seen, ended = (*seen, action, str(observation)), terminated or truncated


# To write is the task: the words are the expert's own, its numbers of three digits are not. A proof counts its lines.
OWN_WORDS = {"rlvr/Instructions-v0", "rlvr/NaturalDeduction-v0", "rlvr/Rocq-v0"}
PYTHON = {*keyword.kwlist, *dir(builtins), "END"}  # and the mark that ends a program
REPORTS = {"rlvr/RepoRepair-v0", "rlvr/RepoFeature-v0"}  # a reply without a call says that the work is done


def names_in(action: str) -> list[str]:
    """The words and numbers of an action; the words of SQL and of sentences to a customer are the expert's own."""
    if "```sql" in action or '"sql"' in action:
        days_as_years = re.sub(r"'(\d{4})-\d\d-\d\d'", r"'\1'", action)  # a month is said in words
        return re.findall(r"\b[a-z_]{3,}\b(?!\()|\b\d{2,}\b", days_as_years.replace("100.0 *", ""))
    if action.endswith("?") and "<tool_call>" not in action:
        return re.findall(r"\d{2,}", action)
    names = re.findall(r"[A-Za-z_]{3,}|\d{2,}", re.sub(r"\\+n", " ", action))  # a line's end in a call is no letter
    return [name for name in names if "python3 -" not in action or name not in PYTHON]


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize("env_id", [env_id for env_id in list_envs() if plays_on(env_id)])
def test_an_expert_names_nothing_that_was_not_shown_before(env_id: str, level: int) -> None:
    """What an expert knows from the state alone would be an alias, a number or a path that no observation has."""
    env = gym.make(env_id, disable_env_checker=True).unwrapped
    if level > env.task.levels:
        pytest.skip("it has fewer levels")
    for seed in range(4):
        observation, _ = env.reset(seed=seed, options={"level": level})
        shown, ended = f"{env.task.system} {observation}".lower(), False
        while not ended:
            action = env.solve()
            writes = "RepoFeature" in env_id and ("edit_file" in action or "write_file" in action)  # code of its own
            if "\\boxed" not in action and "check_plan" not in action and not writes:  # what is worked out
                own = env_id in OWN_WORDS or (env_id in REPORTS and "<tool_call>" not in action)
                names = re.findall(r"\d{3,}", action) if own else names_in(action)
                assert [name for name in names if name.lower() not in shown] == [], (seed, action)
            observation, _, terminated, truncated, _ = env.step(action)
            shown += f" {action} {observation}".lower()
            ended = terminated or truncated


def test_an_alias_that_was_not_shown_is_found() -> None:
    """The control of the test above: an expert that names what only the state knows."""
    assert names_in('<tool_call>\n{"name": "search", "arguments": {"query": "Orla"}}\n</tool_call>')[-3:] == [
        "query",
        "Orla",
        "tool_call",
    ]
    assert names_in("SELECT name FROM t WHERE id = 4711 ```sql") == ["name", "4711", "sql"]


def has_one_turn(env_id: str) -> bool:
    """Whether it is generated and ends with its first action."""
    if not gym.spec(env_id).kwargs.get("task", "").startswith("rlvr.") or env_id == "rlvr/Mixture-v0":
        return False
    try:
        env = gym.make(env_id).unwrapped
    except (DataError, SandboxUnavailable):
        return False
    return isinstance(env, TextEnv) and env.size is None and env.task.turns(env.task.levels) == 1


@pytest.mark.parametrize("env_id", [env_id for env_id in list_envs() if "_" not in env_id])
def test_an_expert_of_one_turn_shows_its_working(env_id):
    if not has_one_turn(env_id):
        pytest.skip("several turns, a table, or programs that cannot run here")
    env = gym.make(env_id).unwrapped
    for seed in range(2):
        for level in range(1, env.task.levels + 1):
            env.reset(seed=seed, options={"level": level})
            action = env.solve()
            assert action.partition("\\boxed{")[0].strip(), (level, action)
            assert env.step(action)[1] == 1.0
