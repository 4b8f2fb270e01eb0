"""What the report says of the episodes of a run."""

from __future__ import annotations

import html

import pytest

from rlvr.agents.episode import Episode, Turn
from rlvr.agents.evaluation import write_episodes
from rlvr.algorithms.runs.analysis import COLUMNS, _reflection, analyse
from rlvr.algorithms.runs.hacking import run_signs, signs_section
from rlvr.algorithms.runs.run_folder import RunFolder
from rlvr.cli import main
from rlvr.envs.core.verdict import Verdict


def episode(group: int, action: str, status: str, tokens: int, stop: str = "stop") -> Episode:
    made = Episode("rlvr/Made-v0", f"{group}/{action}", 0, group=group)
    made.turns = [Turn("q", "user", action, stop, float(status == "correct"))]
    made.verdict = Verdict(float(status == "correct"), status)
    made.tokens.append_sampled([0] * tokens, [0.0] * tokens)
    return made


def test_lengths_shares_and_diversity_are_counted_over_valid_episodes(tmp_path):
    (tmp_path / "episodes").mkdir()
    played = [
        episode(0, "a", "correct", 10),
        episode(0, "a", "correct", 20),
        episode(0, "b", "wrong", 40, stop="length"),
        episode(1, "c", "unparsable", 60),
        episode(1, "d", "env_error", 1_000, stop="error"),
    ]
    write_episodes(tmp_path / "episodes" / "train-000001.jsonl", played)
    write_episodes(tmp_path / "episodes" / "train-000002.jsonl", [])
    (name, figures), (_, nothing) = analyse(tmp_path)
    assert name == "train-000001"
    assert dict(zip(COLUMNS, figures, strict=True)) == {
        "episodes": 5,
        "success": 0.5,
        "success, all": 0.4,
        "tokens, right": 15,
        "tokens, wrong": 50,
        "truncated": 0.25,
        "unparsable": 0.25,
        "distinct in a group": pytest.approx(2 / 3),
        "reflect": 0,
        "success, reflecting": None,
        "success, not": 0.5,
        "difference in a group": None,
        "faults": 1,
    }
    assert nothing == (0, *[None] * 11, 0)


def test_reflection_is_compared_within_the_tasks_that_have_both_kinds():
    """Of an easy task all succeed, of a hard one those alone that look again."""
    hard = [("Wait, no: 4", "correct"), ("let me re-check: 4", "correct"), ("5", "wrong"), ("awaiting 5", "wrong")]
    played = [episode(0, f"{text} {n}", status, 1) for n, (text, status) in enumerate(hard)]
    played += [episode(1, f"{n}", "correct", 1) for n in range(4)]
    played += [episode(2, f"double-checking {n}", "wrong", 1) for n in range(2)]
    share, with_it, without, difference = _reflection(played)
    assert share == 0.4
    assert with_it == 0.5  # of the hard tasks
    assert without == pytest.approx(4 / 6)
    assert difference == 1.0  # of the one task that has both


def test_a_report_is_written_again_by_the_command(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    (tmp_path / "config.yaml").write_text("algorithm: grpo\n")
    (tmp_path / "metrics.jsonl").write_text('{"phase": "train", "step": 1, "reward": 0.5}\n')
    (tmp_path / "episodes").mkdir()
    write_episodes(tmp_path / "episodes" / "train-000001.jsonl", [episode(0, "a", "correct", 10)])
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "train-000001" in page
    assert "distinct in a group" in page
    assert "difference in a group" in page
    assert "Provenance" not in page  # of a version that did not write it
    lines = ['{"commit": "abc", "diff": "+a <b>", "versions": {"rlvr": "9"}, "seeds": {"seed": 7}}', "5", "{torn"]
    (tmp_path / "provenance.jsonl").write_text("\n".join(lines))
    assert main(["report", str(tmp_path)]) == 0
    page = html.unescape((tmp_path / "report.html").read_text())
    assert "commit abc, with changes" in page
    assert "+a &lt;b&gt;" in page
    assert "seed 7" in page
    running = RunFolder(tmp_path / "other")
    running.write_config("algorithm: grpo\n")
    assert main(["report", str(running.path)]) == 2
    assert "is being written" in capsys.readouterr().err
    running.close()


def test_a_report_names_an_answer_that_is_rewarded_on_every_task_and_the_faults(tmp_path):
    (tmp_path / "episodes").mkdir()
    played = [episode(task, f"{task} is it", "wrong", 9) for task in range(20)]
    played += [episode(task, "<think>hm</think><b>trust me</b>", "correct", 3) for task in range(6)]
    played += [episode(0, "", "timeout", 0)]
    for number, each in enumerate(played):
        each.index, each.sample = each.group, number
    write_episodes(tmp_path / "episodes" / "train-000007.jsonl", played)
    write_episodes(tmp_path / "episodes" / "evaluation-after-greedy.jsonl", played[:1])
    signs, names = run_signs(tmp_path)
    assert [(c.text, c.rewarded, c.suspicious) for c in signs.clusters] == [("<b>trust me</b>", 6, True)]
    assert names[signs.clusters[0].examples[0]] == "train-000007:20"
    page = signs_section(tmp_path)
    assert "<b>" not in page
    for words in ("<td>look</td>", "&lt;b&gt;trust me&lt;/b&gt;", "train-000007:20", "<td>timeout</td>"):
        assert words in page
    (tmp_path / "episodes" / "train-000007.jsonl").unlink()
    assert run_signs(tmp_path)[1] == ["evaluation-after-greedy:0"]
