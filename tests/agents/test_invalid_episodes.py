"""Invalid episodes stand beside each success: their share, their causes, and where they gather."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from rlvr.agents import Episode, Evaluation, Turn, summarise
from rlvr.agents.evaluation.compare import compare
from rlvr.agents.evaluation.suites import score_suite
from rlvr.cli import main
from rlvr.envs import Verdict
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, env_error, wrong


def episode(task: int, status: str, reason: str = "", sample: int = 0) -> Episode:
    made = Episode("e", f"{task}/{sample}", 0, index=task, sample=sample)
    made.turns = [Turn("o", "user", "a", "stop")]
    made.verdict = Verdict(float(status == "correct"), status, reason=reason)
    return made


def test_both_figures_the_share_and_the_causes_are_in_text_and_json():
    played = [episode(n, "correct") for n in range(10)]
    played += [episode(10 + n, "timeout", f"the tool wait: no answer within {n} s") for n in range(38)]
    played += [episode(50 + n, "env_error", "no memory") for n in range(2)]
    result = summarise(played)
    assert (result.success, result.success_all, result.invalid_share) == (1.0, 0.2, 0.8)
    assert str(result).startswith(
        "success 10/10 = 1.000 (95 % 0.722 to 1.000) over valid episodes, 10/50 = 0.200 over all"
    )
    assert "invalid: 38 timeout: the tool wait: no answer within # s\ninvalid: 2 env_error: no memory" in str(result)
    assert result.warnings == [
        "40 of 50 episodes (80.0%) failed through no fault of the policy: success is 1.000 over the valid ones, "
        "0.200 over all; most often timeout: the tool wait: no answer within # s",
        "38 of the 40 invalid episodes are faults of the tool wait",
    ]
    record = json.loads(json.dumps(result.to_dict()))
    assert (record["success_all"], record["invalid_share"]) == (0.2, 0.8)
    assert record["invalid_causes"][1] == {"status": "env_error", "cause": "no memory", "episodes": 2}
    assert Evaluation.from_dict(record) == result


def test_a_run_without_faults_has_both_figures_and_no_warning():
    result = summarise([episode(0, "correct"), episode(1, "wrong")])
    assert "1/2 = 0.500" in str(result)
    assert "1/2 = 0.500 over all" in str(result)
    assert "invalid:" not in str(result)
    assert result.warnings == []
    assert summarise([]).warnings == []


@pytest.mark.parametrize(("invalid", "warned"), [(1, False), (2, True)])
def test_there_is_a_warning_above_one_percent(invalid: int, warned: bool):
    played = [episode(n, "timeout" if n < invalid else "wrong") for n in range(100)]
    assert bool(summarise(played).warnings) == warned


def test_invalid_episodes_of_few_tasks_are_said_and_scattered_ones_are_not():
    def played(invalid: set[tuple[int, int]]) -> Evaluation:
        pairs = [(task, sample) for task in range(20) for sample in range(8)]
        return summarise([episode(t, "env_error" if (t, s) in invalid else "wrong", sample=s) for t, s in pairs])

    gathered = played({(task, sample) for task in (3, 4) for sample in range(8)} | {(9, 0)})
    assert gathered.gathered == ("16 of the 17 invalid episodes are of 2 of the 20 tasks",)
    assert played({(task, 0) for task in range(16)}).gathered == ()
    assert played({(3, 0), (3, 1)}).gathered == ()


def test_a_suite_and_a_comparison_have_both_figures():
    right, faults = summarise([episode(0, "correct")]), summarise([episode(n, "timeout") for n in range(3)])
    score = score_suite([right, faults])
    assert (score.success, score.success_all, score.invalid_share) == (1.0, 0.5, 0.75)
    assert "over valid episodes, 0.500 over all, 75.0% invalid" in str(score)
    found = compare([episode(0, "correct"), episode(1, "timeout")], [episode(0, "wrong"), episode(1, "correct")])
    assert (found.success_all_a, found.success_all_b, found.invalid_a, found.invalid_b) == (0.5, 0.5, 0.5, 0.0)
    assert "success A 0.500 (50.0% invalid)   B 0.500 (0.0% invalid)" in str(found)


class Failing(Task[int]):
    """Half of its tasks cannot be judged."""

    def start(self, rng, level):
        return rng.randrange(1000)

    def observe(self, state):
        return f"Task {state}."

    def apply(self, state, action):
        verdict = env_error("the judge is away") if state % 2 else correct() if state % 4 else wrong()
        return Transition(state, verdict, True)

    def sample_action(self, state, rng):
        return "a"


def test_the_command_prints_both_writes_both_and_warns(tmp_path, capsys):
    gym.register("Failing-v0", "rlvr.envs.core.text_env:TextEnv", kwargs={"task": Failing()})
    try:
        main(
            ["eval", "--env", "Failing-v0", "--agent", "random", "--episodes", "40", "--out", str(tmp_path / "a.jsonl")]
        )
        out, err = capsys.readouterr()
        assert "over valid episodes" in out
        assert "/40 = " in out
        assert "invalid: " in out
        assert "rlvr: warning: Failing-v0: " in err
        assert "over all; most often env_error: the judge is away" in err
        main(["eval", "--env", "Failing-v0", "--agent", "random", "--episodes", "40", "--json"])
        (record,) = json.loads(capsys.readouterr().out)
        assert record["success_all"] == record["successes"] / 40
        assert record["invalid_causes"][0]["cause"] == "the judge is away"
        main(["table", str(tmp_path / "a.jsonl")])
        table = capsys.readouterr().out
        assert f"{record['success_all']:.3f} of all" in table
        assert "failed through no fault of the policy" in table
    finally:
        gym.registry.pop("Failing-v0")
