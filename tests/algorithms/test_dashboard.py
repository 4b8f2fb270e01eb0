"""What a person sees of a run: its health by rules over metrics, and the table on a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from rlvr.algorithms.runs.callbacks import LoggedSteps
from rlvr.algorithms.runs.dashboard import dashboard, duration, sparkline, time_line
from rlvr.algorithms.runs.display import Display
from rlvr.algorithms.runs.health import health
from rlvr.algorithms.runs.report import write_report

# A step as a run of the tiny policy wrote it to metrics.jsonl: it guesses numbers, and never rightly.
REAL = json.loads(
    '{"phase": "train", "step": 6, "reward": 0.0, "success": 0.0, "success_all": 0.0, "groups_with_signal": 0.0, '
    '"turns": 4.0, '
    '"tool_calls": 0.0, "sampled_tokens": 56.0625, "hit_token_limit": 1.0, "invalid": 0, "statuses": {"wrong": 16}, '
    '"groups_kept": 4, "policy_loss": 0.0, "regulariser_loss": -0.0566, "loss": -0.0566, "ratio_mean": 1.0, '
    '"approx_kl": 0.0, "clip_frac_low": 0.0, "clip_frac_high": 0.0, "behaviour_kl_k3": 3.1e-14, "ref_kl_k3": 0.042, '
    '"entropy": 5.83, "grad_norm": 0.0047, "lr": 0.003}'
)
TIMING = {"seconds": 2.0, "collect_seconds": 1.5, "sample_seconds": 1.0, "environment_seconds": 0.5,
          "update_seconds": 0.4, "sync_seconds": 0.1, "tokens_per_second": 1635.0}  # fmt: skip
WELL = REAL | {"reward": 0.5, "success": 0.5, "groups_with_signal": 0.6, "policy_loss": -0.01, "hit_token_limit": 0.0}


def steps(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [WELL | {"step": number} | changes for number in range(count)]


def test_a_run_that_is_well_gets_no_complaint():
    for count in (0, 1, 5, 50):
        assert health(steps(count)) == []


def test_the_real_run_learns_nothing_and_is_cut_off():
    found = health([REAL] * 6)
    assert len(found) == 2
    assert found[0].startswith("no group has disagreed for 6 steps: nothing is learned; take a lower env.level")
    for help_ in ("warm_start.steps", "group_size", "env.settings.few_shot"):
        assert help_ in found[0]
    assert found[1].startswith("100% of the episodes are cut at the token limit")


def test_the_log_and_the_report_say_it_too(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    callback = LoggedSteps()
    for number in range(7):
        callback.step(REAL | {"step": number + 1})
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sum(text.startswith("step 5: no group has disagreed for 5 steps") for text in said) == 1
    assert len(said) == 2  # each complaint once
    (tmp_path / "config.yaml").write_text("")
    lines = [json.dumps(REAL | {"step": number + 1}) for number in range(7)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert "no group has disagreed for 7 steps" in write_report(tmp_path).read_text()


COMPLAINTS = [
    ({"groups_with_signal": 0.0, "policy_loss": 0.0}, "no group has disagreed for 5 steps"),
    ({"groups_with_signal": 0.0, "policy_loss": 0.0, "success": 1.0}, "raise env.level"),
    ({"hit_token_limit": 1.0, "sampled_tokens": 0.0}, "every prompt is longer than max_length"),
    ({"hit_token_limit": 0.7}, "70% of the episodes are cut"),
    ({"statuses": {"unparsable": 9, "wrong": 7}}, "56% of the answers cannot be read"),
    ({"hack_rate": 0.06}, "6% of the episodes were paid and are not right"),
    ({"approx_kl": 0.9}, "moves the policy far"),
    ({"clip_frac_low": 0.2, "clip_frac_high": 0.2}, "40% of the tokens are clipped"),
]


@pytest.mark.parametrize(("changes", "text"), COMPLAINTS)
def test_what_lasts_for_five_steps_is_said_and_four_are_not_enough(changes: dict[str, Any], text: str):
    (found,) = health(steps(20) + steps(5, **changes))
    assert text in found
    assert health(steps(20) + steps(4, **changes)) == []
    assert health(steps(5, **changes) + steps(1)) == []


def test_faults_are_said_at_once():
    bad = {"invalid": 4, "statuses": {"wrong": 12, "env_error": 4}}
    assert "4 of 16 episodes" in health(steps(1, **bad))[0]
    assert health(steps(1, invalid=1, statuses={"wrong": 99, "env_error": 1})) == []
    # over the last ten steps together, with both figures, the commonest cause and where they gather
    causes = [{"status": "timeout", "cause": "the tool f: #", "episodes": 1}]
    text = health(steps(12, invalid=1, statuses={"wrong": 18, "correct": 1, "timeout": 1}, success_all=0.05,
                        invalid_causes=causes, gathered=["9 of 9 gather"]))[0]  # fmt: skip
    assert text == (
        "10 of 200 episodes (5.0%) failed through no fault of the policy: success is 0.053 over the valid ones, "
        "0.050 over all; most often timeout: the tool f: #; 9 of 9 gather"
    )


def test_a_collapse_of_the_entropy_is_none_where_the_task_is_solved():
    collapse = [WELL | {"entropy": 2.0 * 0.8**number} for number in range(30)]
    assert "entropy has collapsed from" in health(collapse)[0]
    assert health([record | {"success": 1.0} for record in collapse]) == []
    assert health(collapse[:8]) == []


def test_one_role_that_has_become_certain_is_said_though_the_other_has_not():
    # Of a run of Kuhn poker without a KL: one seat's entropy fell so, the other's did not fall to a tenth.
    certain = [0.361, 0.362, 0.366, 0.336, 0.311, 0.237, 0.099, 0.016, 0.012, 0.003, 0.002, 0.048, 0.002]

    def run(first: list[float]) -> list[dict[str, Any]]:
        return [WELL | {"roles": {"seat 0": {"entropy": at}, "seat 1": {"entropy": 0.3}}} for at in first]

    (found,) = health(run(certain))
    assert found.startswith("the entropy of seat 0 has collapsed from 0.347 to 0.0134 nats a token")
    assert health(run(certain[:9])) == []
    assert health(run([0.361, 0.317, 0.3, 0.29, 0.3, 0.236, 0.217, 0.205, 0.19, 0.18, 0.17, 0.2])) == []
    assert isinstance(health([WELL | {"roles": odd} for odd in (None, "x", {"seat 0": 1}, {})] * 4), list)


def falling(count: int) -> list[dict[str, Any]]:
    """Steps of self-play in which one seat's entropy falls by two fifths of a percent a step."""
    roles = [{"seat 0": {"entropy": 0.4 * 0.996**step}, "seat 1": {"entropy": 0.4}} for step in range(count)]
    return [WELL | {"step": step + 1, "entropy": 0.3, "roles": each} for step, each in enumerate(roles)]


def said(*parts: list[dict[str, Any]], before: list[dict[str, Any]] | None = None) -> str:
    out = io.StringIO()
    with Display(Console(file=out, force_terminal=False, width=200)) as display:
        display.look_back(before or [])
        for part in parts:
            display.phase("reinforcement learning", len(part))
            for record in part:
                display.step(record)
    return out.getvalue()


def test_the_display_holds_a_late_step_beside_the_first_ones_as_the_whole_record_does():
    rung = "the entropy of seat 0 has collapsed from 0.397"
    run = falling(600)
    at = next(count for count in range(501, 600) if health(run[:count]))
    assert rung in health(run[:at])[0]
    assert f"step {at}: {rung}" in said(run)
    mean = [record | {"roles": None, "entropy": record["roles"]["seat 0"]["entropy"]} for record in run]
    assert f"step {at}: entropy has collapsed from 0.397" in said(mean[520:], before=mean[:520])


def test_a_run_that_goes_on_is_held_beside_its_beginning():
    run = falling(600)
    at = next(count for count in range(501, 600) if health(run[:count]))
    rung = f"step {at}: the entropy of seat 0"
    assert rung in said(run[520:], before=run[:520])
    # Steps after the checkpoint were logged, and come again: they count once.
    assert rung in said(run[520:], before=run[:590])
    assert "collapsed" not in said(run[520:])

    def evaluation(step: int, share: float) -> dict[str, Any]:
        panel = {"sampled": {"random": {"not_lost": share, "matches": 1000}}}
        shares = {"greedy_success": 0.5, "sampled_success": 0.5, "tasks": 8} | {
            f"{way}_success_all": 0.5 for way in ("greedy", "sampled")
        }
        return {"phase": "evaluation", "step": step, "name": "now", "panel": panel, **shares}

    begun = [evaluation(0, 0.9), *steps(20)]
    assert "60% of the matches against random" in said([*steps(9, step=30), evaluation(30, 0.6)], before=begun)
    assert "matches" not in said([*steps(9, step=30), evaluation(30, 0.6)])
    later = [*steps(20), evaluation(40, 0.9)]  # after the checkpoint: the run has not been there
    assert "matches" not in said([*steps(9, step=30), evaluation(30, 0.6)], before=later)


def test_one_fact_is_said_once_and_certainty_is_none_where_the_policy_wins():
    run = [record | {"entropy": 0.4 * 0.996**step} for step, record in enumerate(falling(600))]
    (found,) = health(run)
    assert found.startswith("the entropy of seat 0")
    assert health([record | {"success": 1.0} for record in run]) == []
    alone = [record | {"entropy": 0.4} for record in run]  # the mean does not show it

    def panel(*shares: float) -> dict[str, Any]:
        bots = {f"bot {number}": {"not_lost": share, "matches": 200} for number, share in enumerate(shares)}
        return {"phase": "evaluation", "step": 600, "panel": {"sampled": bots}}

    assert health([*alone, panel(0.98, 0.96)]) == []
    assert len(health([*alone, panel(0.98, 0.6)])) == 1


def test_a_reward_that_falls_back_is_said():
    assert "fallen from 0.80 to 0.20" in health(steps(20, reward=0.8) + steps(10, reward=0.2))[0]
    assert health(steps(20, reward=0.2) + steps(10, reward=0.8)) == []


def test_an_update_without_groups_is_no_complaint():
    """A critic learns from single episodes: their groups never disagree, and the loss is not 0."""
    assert health(steps(9, groups_with_signal=0.0)) == []


@pytest.mark.parametrize("value", [None, "x", float("nan"), True, [1]])
def test_figures_that_are_none_break_nothing(value: Any):
    strange = [dict.fromkeys(WELL, value) | {"phase": "train", "statuses": {}} for _ in range(40)]
    assert isinstance(health(strange), list)
    Console(file=io.StringIO()).print(dashboard(strange, dict.fromkeys(TIMING, value), []))


# the table


def shown(renderable: Any, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_figures_times_and_complaints():
    text = shown(dashboard([REAL], TIMING | {"left_seconds": 3720.0}, ["entropy has collapsed"]))
    for word in ("reward", "0.000", "signal", "entropy", "5.83", "KL to the reference", "0.042", "clipped"):
        assert word in text
    assert "1,635 tokens/s  sample 50%  environment 25%  update 20%  sync 5%  2.0 s a step  1 h 02 min left" in text
    assert "! entropy has collapsed" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_the_alarm_of_self_play_rings_at_the_evaluation_whose_panel_has_fallen(terminal: bool):
    def shown_after(*not_lost: float) -> str:
        out = io.StringIO()
        with Display(Console(file=out, force_terminal=terminal, width=200)) as display:
            display.phase("reinforcement learning", 600)
            for share in not_lost:
                for step in steps(300):  # more than the display keeps, so that the best one is long ago
                    display.step(step)
                display.step(
                    {"phase": "evaluation", "name": "now", "greedy_success": 0.5, "sampled_success": 0.5, "tasks": 8}
                    | {f"{way}_success_all": 0.5 for way in ("greedy", "sampled")}
                    | {"panel": {"sampled": {"random": {"not_lost": share}}}, "exploitability": 0.25}
                )
        return out.getvalue()

    rung = "self-play is even (0.50), but 60% of the matches against random are not lost where 90% were"
    fallen = shown_after(0.9, 0.88, 0.6)
    assert rung in fallen
    assert "on 8 held-out tasks, not lost against random 0.600, exploitability 0.250" in fallen
    assert "self-play is even" not in shown_after(0.9, 0.88, 0.85)


def test_an_evaluation_is_shown_with_its_interval():
    record = {"phase": "evaluation", "name": "after", "tasks": 8}
    for way, low, high in (("greedy", 0.2, 0.8), ("sampled", 0.1, 0.6)):
        record |= {f"{way}_success": 0.5, f"{way}_success_all": 0.5, f"{way}_low": low, f"{way}_high": high}
    out = io.StringIO()
    with Display(Console(file=out, force_terminal=False, width=200)) as display:
        display.step(record)
    assert "greedy success 0.500 (0.500 of all) [95 % 0.200 to 0.800], sampled" in out.getvalue()
    assert "[95 % 0.100 to 0.600] on 8 held-out tasks" in out.getvalue()


def test_small_words():
    assert (duration(20), duration(200), duration(3720)) == ("20 s", "3 min", "1 h 02 min")
    assert sparkline([0, 1, 2, 7]) == "▁▂▃█"
    assert sparkline([1, 1]) == "▁▁"
    assert time_line({}) == ""


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e[bold red]x[/]"


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_that_is_shown_can_steer_a_terminal(terminal: bool):
    out = io.StringIO()
    with Display(Console(file=out, force_terminal=terminal, width=100)) as display:
        display.phase("reinforcement learning", 3)
        display.say(HOSTILE)
        display.step(REAL | {"statuses": {HOSTILE: 16}})
    text = out.getvalue()
    assert "\x1b]0" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "\\x1b]0;owned" in text


def test_a_terminal_shows_the_table_and_a_pipe_lines():
    for terminal in (True, False):
        out = io.StringIO()
        with Display(Console(file=out, force_terminal=terminal, width=120 if terminal else 40)) as display:
            display.phase("reinforcement learning", 6)
            for number in range(6):
                display.timed(TIMING)
                display.step(REAL | {"step": number + 1})
        text = out.getvalue()
        assert ("KL to the reference" in text) is terminal
        assert text.count("reinforcement learning 6/6: reward 0.000") == (not terminal)
        assert "no group has disagreed for" in text
        if not terminal:
            assert "\x1b" not in text
            assert text.count("no group has disagreed") == 1
            assert len(text.splitlines()) == 6 + 2  # a record a line, and each complaint once
