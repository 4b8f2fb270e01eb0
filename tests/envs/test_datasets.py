"""Tables of questions: how rows are had, what a data set makes of them, and what every one of them can be told."""

from __future__ import annotations

import csv
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlvr
from rlvr.cli import main
from rlvr.envs.core.tables import DataError, Source, load_rows, look_up, scan_table
from rlvr.envs.mathematics.datasets import MATH, MATH500, OlympiadBench, boxed_answer, plain
from rlvr.envs.rewards.errors import BadOption
from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.sandbox.probes import NATIVE, probe_tier
from rlvr.envs.science.datasets import ARC, GPQA
from rlvr.envs.tasks.prompts import STYLES, worked
from rlvr.envs.tasks.tables import LETTERS, ChoiceTable, TableTask, choice
from rlvr.envs.wrappers import LAYOUTS, PromptFormat

SANDBOXED = ("rlvr/HumanEval-v0", "rlvr/MBPP-v0", "rlvr/CodeContests-v0")
HELD = any(probe_tier(tier).holds for tier in NATIVE)
needs_sandbox = pytest.mark.skipif(not HELD, reason="no sandbox tier holds here")
SOURCE = Source("sums", "nobody/sums", "0" * 40, columns=("question", "answer"), optional=("solution",))
ROWS = [{"question": f"{n} + 1?", "answer": str(n + 1), "level": n % 3} for n in range(10)]


def table_of(env_id: str) -> type[TableTask] | None:
    module, _, name = str(gym.spec(env_id).kwargs.get("task", "")).partition(":")
    if not re.search(r"\.(datasets|own|gsm8k)$", module) or "tools" in gym.spec(env_id).kwargs:
        return None
    return getattr(__import__(module, fromlist=[name]), name)


TABLES = {env_id: kind for env_id in rlvr.list_envs() if (kind := table_of(env_id)) is not None}
OPEN = [env_id for env_id in TABLES if env_id not in SANDBOXED]
PLAYABLE = list(TABLES) if HELD else OPEN


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make(env_id: str, **settings) -> TableTask:
    return gym.make(env_id, **settings).unwrapped.task


# the loader: columns, filters, limits


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"problem": "q", "result": "a"}, {"question": "problem", "answer": "result"}),
        ({"prompt": [{"role": "user", "content": "q"}], "answer": "a"}, {"question": "prompt.0.content"}),
        ({"question": "q", "reward_model": {"ground_truth": "a"}}, {"answer": "reward_model.ground_truth"}),
        ({"question": "q", "a.b": "a", "a": {"b": "no"}}, {"answer": "a.b"}),
    ],
)
def test_columns_are_mapped_flat_or_nested(tmp_path, row, columns):
    path = write(tmp_path / "mine.jsonl", [row])
    (found,) = load_rows(SOURCE, "train", path, columns=columns)
    assert (found["question"], found["answer"]) == ("q", "a")
    assert all(found[name] == value for name, value in row.items() if name not in columns)


@pytest.mark.slow
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.text())
def test_looking_up_any_path_raises_nothing(value, path):
    look_up({"a": value}, f"a.{path}")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"answer": "result"}, r"row 0 of .* lacks result; it has question, answer"),
        ({"answer": "answer.0.x"}, r"lacks answer\.0\.x"),
        ({"gold": "answer"}, "columns maps no 'gold'; it maps question, answer, solution"),
        ("answer", "columns maps expected names"),
        ({"answer": 3}, "columns maps expected names"),
    ],
)
def test_columns_that_are_not_there_are_named(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message):
        load_rows(SOURCE, "train", write(tmp_path / "mine.jsonl", ROWS), columns=columns)


@pytest.mark.parametrize("end", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize(
    ("where", "count"), [({"level": 1}, 3), ({"level": [0, 2]}, 7), ({"level": "1", "answer": "2"}, 1), ({}, 10)]
)
def test_where_chooses_rows_by_value(tmp_path, end, where, count):
    rows = load_rows(SOURCE, "train", write(tmp_path / f"mine{end}", ROWS), where=where)
    assert len(rows) == count


def test_where_names_a_column_that_is_not_there_and_a_choice_that_leaves_nothing(tmp_path):
    path = write(tmp_path / "mine.jsonl", ROWS)
    with pytest.raises(DataError, match="no column 'hardness' to choose by; it has question, answer, level"):
        load_rows(SOURCE, "train", path, where={"hardness": 1})
    with pytest.raises(DataError, match="no rows where level is 7"):
        load_rows(SOURCE, "train", path, where={"level": 7})


def test_a_limit_reads_no_further(tmp_path):
    path = write(tmp_path / "mine.jsonl", ROWS)
    path.write_text(path.read_text() + "not JSON\n")
    assert load_rows(SOURCE, "train", path, limit=4) == ROWS[:4]
    assert load_rows(SOURCE, "train", path, limit=2, where={"level": 1}) == [ROWS[1], ROWS[4]]
    assert next(scan_table(path)) == ROWS[0]
    with pytest.raises(DataError, match="line 11"):
        load_rows(SOURCE, "train", path)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", True])
def test_a_bad_limit_is_refused(tmp_path, limit):
    with pytest.raises(ValueError, match="limit must be a whole number from 1"):
        load_rows(SOURCE, "train", write(tmp_path / "mine.jsonl", ROWS), limit=limit)


@pytest.mark.parametrize("content", ["{", '{"question": 1}', "[1]", "[" * 100_000])
def test_a_json_file_that_is_no_list_of_objects_is_refused(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(DataError, match="is not"):
        load_rows(SOURCE, "train", path)


# the hub


class Hub:
    """Stands in for the client of the hub, and notes what it was asked."""

    def __init__(self, rows=None, error=None, version="4.0.0"):
        self.rows, self.error, self.asked = rows, error, []
        self.__version__ = version
        self.config = SimpleNamespace(HF_HUB_OFFLINE=False, HF_ENDPOINT="http://localhost:1")

    def load_dataset(self, name, config, **options):
        self.asked.append({"name": name, "config": config, "offline": self.config.HF_HUB_OFFLINE, **options})
        if self.error:
            raise self.error
        return self.rows


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.delenv("RLVR_DATA")

    def put(reachable=True, **says):
        client = Hub(**says)
        monkeypatch.setitem(sys.modules, "datasets", client)
        head = (lambda *_, **__: None) if reachable else _refuse
        session = SimpleNamespace(get_session=lambda: SimpleNamespace(head=head))
        monkeypatch.setitem(sys.modules, "huggingface_hub", session)
        return client

    return put


def _refuse(*_, **__):
    raise OSError("no network")


def test_the_hub_is_asked_for_the_pinned_commit_and_its_own_split(hub):
    client = hub(rows=ROWS)
    source = Source("sums", "nobody/sums", "c" * 40, ("question",), config="main", splits={"test": "train"})
    assert load_rows(source, "test") == ROWS
    (asked,) = client.asked
    assert asked == {
        "name": "nobody/sums", "config": "main", "split": "train", "revision": "c" * 40, "streaming": False,
        "offline": False,
    }  # fmt: skip


def test_a_limit_streams_from_the_hub(hub):
    read = []
    client = hub(rows=(read.append(row) or row for row in ROWS))
    assert load_rows(SOURCE, "train", limit=3) == ROWS[:3]
    assert client.asked[0]["streaming"] is True
    assert len(read) <= 4


@pytest.mark.parametrize(("version", "said"), [("3.6.0", {"trust_remote_code": False}), ("4.0.0", {}), ("5.1.0", {})])
def test_code_of_a_data_set_never_runs_and_new_clients_are_not_told_a_word_they_lack(hub, version, said):
    client = hub(rows=ROWS, version=version)
    assert load_rows(SOURCE, "train") == ROWS
    (asked,) = client.asked
    assert {key: asked[key] for key in asked if key == "trust_remote_code"} == said


def test_a_hub_out_of_reach_is_not_asked_again_but_what_is_kept_is_read(hub):
    client = hub(reachable=False, rows=ROWS)
    assert load_rows(SOURCE, "train", limit=3) == ROWS[:3]
    assert (client.asked[0]["offline"], client.asked[0]["streaming"]) == (True, False)
    assert client.config.HF_HUB_OFFLINE is False, "what was set for one call is set back"
    client = hub(reachable=False, error=ConnectionError("nothing kept"))
    with pytest.raises(DataError, match=r"data_files=.*RLVR_DATA.*sums/train\.jsonl.*nobody/sums"):
        load_rows(SOURCE, "train")
    assert [asked["offline"] for asked in client.asked] == [True]


def test_gpqa_without_access_says_how_to_get_it(hub):
    class GatedRepoError(Exception):
        pass

    hub(error=GatedRepoError("401"))
    with pytest.raises(DataError) as error:
        gym.make("rlvr/GPQA-v0")
    for word in ("gated", "huggingface.co/datasets/Idavidrein/gpqa", "log in", "data_files=", "gpqa/gpqa_main.jsonl"):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_dataset_without_a_file_says_what_to_give(hub, capsys):
    client = hub(rows=ROWS)
    with pytest.raises(DataError, match=r"data_files=.*RLVR_DATA.*dataset/train\.jsonl"):
        gym.make("rlvr/Dataset-v0")
    assert client.asked == []
    assert main(["eval", "--env", "rlvr/Dataset-v0", "--agent", "expert"]) == 2
    assert "data_files=" in capsys.readouterr().err


def test_dataset_reads_the_hub_where_it_is_told_to(hub):
    client = hub(rows=ROWS)
    task = make("rlvr/Dataset-v0", hub="me/mine", config="small", revision="d" * 40, grader="number")
    assert task.size == 10
    asked = client.asked[0]
    assert (asked["name"], asked["config"], asked["revision"]) == ("me/mine", "small", "d" * 40)


# every table


def test_every_commit_is_whole_or_no_commit_at_all():
    for env_id, kind in TABLES.items():
        assert re.fullmatch(r"[0-9a-f]{40}|main", kind.source.revision), env_id


def test_the_page_on_data_sets_has_every_one_and_its_folder():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for env_id, kind in TABLES.items():
        splits = ", ".join(kind.splits)
        assert f"| `{env_id}` | `{kind.source.folder}` | {splits} |" in page


@pytest.mark.parametrize("env_id", PLAYABLE)
def test_every_row_of_every_split_and_part_is_solved_by_its_expert_and_by_no_other_answer(env_id):
    kind = TABLES[env_id]
    for config in kind.configs or (None,):
        for split in kind.splits if config in (None, *list(kind.configs)[:1]) else kind.splits[:1]:
            task = make(env_id, split=split, **({"config": config} if config else {}))
            problems = [task.row(index, random.Random(index)) for index in range(task.size)]
            for problem, other in zip(problems, [*problems[1:], problems[0]], strict=True):
                assert task.apply(problem, task.solve(problem))[1].status == "correct", problem
                if env_id not in SANDBOXED and problem.answer != other.answer:
                    assert task.apply(problem, task.solve(other))[1].reward == 0.0, (problem, other)


@pytest.mark.parametrize("env_id", OPEN)
def test_every_prompt_style_is_said_and_its_reply_read(env_id):
    for style in STYLES:
        env = gym.make(env_id, prompt_style=style).unwrapped
        _, info = env.reset(seed=0)
        assert ("system" in info) == (style != "none")
        assert "{answer}" not in info.get("system", "")
        answer = env.solve().rpartition("\\boxed{")[2].removesuffix("}")
        assert env.step(worked(style, "first this, then that", answer))[1] == 1.0, style
    with pytest.raises(ValueError, match="prompt_style 'latex' is not one of boxed, hash"):
        gym.make(env_id, prompt_style="latex")


@pytest.mark.parametrize("env_id", PLAYABLE)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grader": "guess"}, "has no grader 'guess'; it has "),
        ({"config": "nowhere"}, "config"),
        ({"few_shot": -1}, "few_shot must be a whole number"),
        ({"few_shot": 60}, "few_shot=60 needs more than"),
        ({"few_shot": 1, "few_shot_split": "dev"}, "has no split 'dev'"),
        ({"decontaminate": "rlvr/Countdown-v0"}, "no table of questions"),
        ({"decontaminate": "nowhere.jsonl"}, "neither the id of an environment nor a file"),
        ({"columns": {"quastion": "q"}}, "columns maps no 'quastion'"),
        ({"prompt_style": "loud"}, "prompt_style 'loud'"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence(env_id, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        gym.make(env_id, **settings)
    assert "\n" not in str(error.value)


def test_environments_of_one_file_share_its_rows_until_it_changes_or_they_are_read_otherwise(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"question": "1 + 1?", "answer": "2"}])
    first, second = (make("rlvr/Dataset-v0", data_files=str(path)) for _ in range(2))
    assert first.problems is second.problems
    assert make("rlvr/Dataset-v0", data_files=str(path), prompt="So: {question}").problems is not first.problems
    assert make("rlvr/Dataset-v0", data_files=str(path), grader="number").problems is not first.problems
    write(path, [{"question": "1 + 1?", "answer": "two"}])
    assert make("rlvr/Dataset-v0", data_files=str(path)).problems[0].answer_text == "two"
    assert first.problems[0].answer_text == "2"


# worked examples


@pytest.mark.parametrize("env_id", PLAYABLE)
def test_worked_examples_are_turns_before_the_question_and_never_are_the_question(env_id):
    plain_env, env = gym.make(env_id).unwrapped, gym.make(env_id, few_shot=3, few_shot_split=None).unwrapped
    for index in range(env.size):
        options = {"index": index}
        question, plain_info = plain_env.reset(seed=3, options=options)
        observation, info = env.reset(seed=3, options=options)
        turns = info.pop("examples")
        assert (observation, info) == (question, plain_info)
        assert [turn["role"] for turn in turns] == ["user", "assistant"] * 3
        assert all(turn.keys() == {"role", "content"} for turn in turns)
        assert env.task.problems[index].question not in "".join(turn["content"] for turn in turns)
        assert len({turn["content"] for turn in turns[::2]}) == 3
        assert env.content == plain_env.content
        *_, info = env.step(env.solve())
        assert info["verdict"].reward == 1.0
        assert "examples" not in info


@pytest.mark.parametrize("env_id", PLAYABLE)
def test_an_example_has_the_form_of_the_question_and_a_reply_that_its_own_task_takes_for_right(env_id):
    for style in TABLES[env_id].styles:
        env = gym.make(env_id, few_shot=2, prompt_style=style).unwrapped
        asked = {}
        for index in range(env.size):  # as itself, each row is asked in this form
            observation, _ = env.reset(seed=3, options={"index": index})
            asked[env.content] = observation
        examples = {env.task.asked(problem): problem for problem in env.task._examples}
        _, info = env.reset(seed=3, options={"index": 0})
        for question, reply in zip(info["examples"][::2], info["examples"][1::2], strict=True):
            problem = examples[question["content"]]
            if not getattr(env.task, "shuffled", False):
                assert question["content"] == asked[env.task.content(problem)]
            if env_id in OPEN or style == env.task.styles[0]:  # programs are run: once is enough
                assert env.task.judge(problem, reply["content"]).success, (style, reply)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_lays_the_questions_of_examples_out_as_the_question(layout):
    env = PromptFormat(gym.make("rlvr/GSM8K-v0", few_shot=2), layout)
    plain_env = PromptFormat(gym.make("rlvr/GSM8K-v0"), layout)
    shown = {plain_env.reset(seed=0, options={"index": index})[0] for index in range(plain_env.unwrapped.size)}
    observation, info = env.reset(seed=0, options={"index": 0})
    assert {observation, *(turn["content"] for turn in info["examples"][::2])} <= shown
    assert [turn["role"] for turn in info["examples"]] == ["user", "assistant"] * 2
    bare = gym.make("rlvr/GSM8K-v0", few_shot=2).reset(seed=0, options={"index": 0})[1]["examples"]
    assert info["examples"][1::2] == bare[1::2], "replies stay as they are"


def test_examples_come_with_tools_in_mixtures_and_in_vectors():
    settings = {"few_shot": 2}
    expected = gym.make("rlvr/GSM8K-v0", **settings).reset(seed=0)[1]["examples"]
    assert gym.make("rlvr/GSM8K-v0", tools=["calculator"], **settings).reset(seed=0)[1]["examples"] == expected
    mixture = gym.make("rlvr/Mixture-v0", envs=[{"id": "rlvr/GSM8K-v0", **settings}, "rlvr/Countdown-v0"])
    parts = {}
    for seed in range(8):
        _, info = mixture.reset(seed=seed)
        parts[info["part"]] = len(info.get("examples", ()))
    assert parts == {"rlvr/GSM8K-v0": 4, "rlvr/Countdown-v0": 0}
    vector = gym.make_vec("rlvr/GSM8K-v0", 2, vectorization_mode="sync", **settings)
    try:
        _, infos = vector.reset(seed=[0, 0])
        assert [list(turns) for turns in infos["examples"]] == [expected] * 2
    finally:
        vector.close()


def test_rows_without_an_answer_to_show_are_no_examples(tmp_path):
    test = {"inputs": ["1\n"], "outputs": ["1\n"]}
    rows = [{"question": f"Echo, {n} times.", "answer": test} for n in range(6)]
    for n in (1, 4):
        rows[n]["solution"] = "print(input())"
    path = str(write(tmp_path / "train.jsonl", rows))
    env = make_open(path, few_shot=1)
    for index in range(env.size):
        (question, reply) = env.worked_examples(env.row(index, random.Random(0)))[0]
        assert question in ("Echo, 1 times.", "Echo, 4 times.")
        assert reply == "```python\nprint(input())\n```"
    with pytest.raises(ValueError, match="few_shot=2 needs more than the 2 different rows of split 'train' that"):
        make_open(path, few_shot=2)


def make_open(path, **settings):
    return make("rlvr/Dataset-v0", data_files=path, grader="code", **settings)


def test_an_example_does_not_say_twice_what_its_solution_says():
    assert worked("boxed", "so it is $\\boxed{5}$.", "5") == "so it is $\\boxed{5}$."
    assert worked("hash", "so it is $\\boxed{5}$.", "5") == "so it is $\\boxed{5}$.\n#### 5"
    assert worked("r1", "five", "5") == "<think>five</think>\n<answer>5</answer>"
    assert worked("none", "", "5") == "The answer is 5."


def test_examples_may_come_from_another_split_and_skip_the_same_question_there(tmp_path):
    rows = [{"question": f"What is {n} + {n}?", "answer": f"2*{n}\n#### {2 * n}"} for n in range(5)]
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "test.jsonl", rows[:1])
    task = make("rlvr/GSM8K-v0", split="test", data_files=str(tmp_path), few_shot=4, prompt_style="hash")
    examples = task.worked_examples(task.row(0, random.Random(0)))
    assert "What is 0 + 0?" not in dict(examples)
    assert ("What is 3 + 3?", "2*3\n#### 6") in examples
    assert [reply.count("#### ") for _, reply in examples] == [1] * 4
    with pytest.raises(ValueError, match=r"few_shot=5 needs more than the 5 different rows of split 'train'"):
        make("rlvr/GSM8K-v0", split="test", data_files=str(tmp_path), few_shot=5)


# decontamination of a table


def test_rows_that_stand_in_a_held_out_table_are_left_out_and_listed(tmp_path, data_folder):
    held_out = [json.loads(line)["problem"] for line in (data_folder / "math500" / "test.jsonl").open()]
    rows = [{"problem": f"How much is {n} squared plus {n + 1} cubed?", "answer": "1"} for n in range(4)]
    rows.insert(1, {"problem": held_out[3].upper(), "answer": "\\frac{1}{24}"})
    path = str(write(tmp_path / "train.jsonl", rows))
    task = make("rlvr/DeepScaleR-v0", data_files=path, decontaminate=["rlvr/MATH500-v0", "rlvr/AIME24-v0"])
    assert task.size == len(task.problems) == 4
    assert [overlap.train for overlap in task.overlaps] == [1]
    assert held_out[3].upper() not in [problem.question for problem in task.problems]
    again = make("rlvr/DeepScaleR-v0", data_files=path, decontaminate=str(write(tmp_path / "mine.jsonl", rows[:2])))
    assert again.size == 3
    with pytest.raises(DataError, match="decontamination leaves no row"):
        make("rlvr/DeepScaleR-v0", data_files=path, decontaminate=path)


# mathematics


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("so $\\boxed{5}$.", "5"),
        ("first \\boxed{1}, then \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("it is $\\boxed 7$.", "7"),
        ("it is $\\boxed7$.", "7"),
        ("it is $\\fbox{A}$", "A"),
        ("\\boxed {x}", "x"),
    ],
)
def test_the_last_box_of_a_solution_is_its_answer(solution, answer):
    assert boxed_answer(solution) == answer


@given(
    st.recursive(st.sampled_from("ab1"), lambda inner: st.lists(inner, max_size=3).map(lambda x: f"{{{''.join(x)}}}"))
)
def test_a_box_ends_at_its_own_brace(inside):
    assert boxed_answer(f"that is \\boxed{{{inside}}} and {{not}} this") == inside


@pytest.mark.parametrize("solution", ["no box", "\\boxed{1", "\\boxed{{}"])
def test_a_solution_without_a_box_is_refused(tmp_path, solution):
    path = write(tmp_path / "a.jsonl", [{"problem": "?", "solution": solution}])
    with pytest.raises(DataError, match=r"row 0: .*\\boxed"):
        MATH(data_files=path)


@pytest.mark.parametrize(
    ("answer", "text"), [("$x$", "x"), (3.0, "3"), (2.5, "2.5"), (7, "7"), (" 033 ", "033"), ("$a$, $b$", "$a$, $b$")]
)
def test_an_answer_is_made_text(answer, text):
    assert plain(answer) == text


@pytest.mark.parametrize("answer", ["", "  ", True, None, ["1"]])
def test_an_answer_that_is_none_is_refused(answer):
    with pytest.raises(ValueError, match="answer"):
        plain(answer)


def test_leading_zeros_and_points_of_a_number_do_not_count(data_folder):
    task = make("rlvr/AIME24-v0")
    for reply in ("\\boxed{22}", "\\boxed{022}", "\\boxed{22.0}"):
        assert task.apply(task.problems[0], reply)[1].success
    assert not task.apply(task.problems[0], "\\boxed{2 \\times 11}")[1].success
    amc = make("rlvr/AMC-v0")
    assert amc.apply(amc.problems[0], "\\boxed{36}")[1].success


def test_several_final_answers_are_one_list_without_order(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"question": "?", "final_answer": ["$2$", "3"]}])
    task = OlympiadBench(split="test", data_files=path)
    assert task.problems[0].answer == "2, 3"
    assert task.apply(task.problems[0], "\\boxed{3, 2}")[1].success
    assert not task.apply(task.problems[0], "\\boxed{2}")[1].success


def test_a_svamp_story_and_its_question_are_joined_by_one_stop():
    asked = [problem.question for problem in make("rlvr/SVAMP-v0").problems]
    assert "A baker had 54 rolls and sold 29 of them. How many rolls are left?" in asked
    assert "The shelves are 2 metres high. How many books are there?" in " ".join(asked)
    assert "17 more than she, how many stamps does Paul have?" in " ".join(asked)


def test_the_first_release_of_dapo_is_read_with_its_nested_columns(tmp_path):
    row = {"prompt": [{"role": "user", "content": "Add 2 and 3."}], "reward_model": {"ground_truth": "5"}}
    columns = {"question": "prompt.0.content", "answer": "reward_model.ground_truth"}
    task = make("rlvr/DAPOMath-v0", data_files=str(write(tmp_path / "a.jsonl", [row])), columns=columns)
    assert task.problems[0][:3] == ("Add 2 and 3.", "", "5")


def test_rows_are_chosen_by_level_and_limit():
    assert make("rlvr/MATH500-v0", split="test", where={"level": 2}).size == 3
    assert make("rlvr/MATH500-v0", split="test", where={"level": [1, 2]}, limit=4).size == 4
    assert MATH500(split="test", limit=2).problems == MATH500(split="test").problems[:2]


# multiple choice


def test_the_right_option_of_gpqa_stands_everywhere_equally_often():
    env = gym.make("rlvr/GPQA-v0").unwrapped
    counts: Counter[str] = Counter()
    orders: Counter[tuple[str, ...]] = Counter()
    gold = env.task.problems[0].options[0]
    contents = set()
    for seed in range(1_000):
        prompt, _ = env.reset(seed=seed, options={"index": 0})
        problem = env.get_state().state
        assert problem.options[LETTERS.index(problem.answer)] == gold
        assert f"\n{problem.answer}) {gold}" in prompt
        counts[problem.answer] += 1
        orders[problem.options] += 1
        contents.add(env.content)
    assert len(contents) == 1, "the same question in another order is the same question"
    assert set(counts) == set("ABCD")
    assert len(orders) == 24
    # chi-square with 3 and 23 degrees of freedom: one in a thousand is above these
    assert sum((count - 250) ** 2 / 250 for count in counts.values()) < 16.3
    assert sum((count - 1000 / 24) ** 2 / (1000 / 24) for count in orders.values()) < 49.7


def test_gpqa_reads_the_official_columns_of_each_part():
    assert {part: make("rlvr/GPQA-v0", config=part).size for part in GPQA.configs} == {
        "main": 6, "diamond": 3, "extended": 6,
    }  # fmt: skip
    problem = make("rlvr/GPQA-v0").problems[1]
    assert problem.question == "Which change doubles the de Broglie wavelength of a slow particle?"
    assert problem.options[0] == "halving its speed"
    with pytest.raises(ValueError, match="has no config 'gold'; it has main, diamond, extended"):
        gym.make("rlvr/GPQA-v0", config="gold")


def test_the_text_of_an_option_is_an_answer_and_a_letter_with_another_text_is_none():
    env = gym.make("rlvr/GPQA-v0").unwrapped
    env.reset(seed=1, options={"index": 0})
    problem, task = env.get_state().state, env.task
    gold, other = task.problems[0].options[:2]
    assert task.apply(problem, f"\\boxed{{{gold}}}")[1].success
    assert task.apply(problem, f"\\boxed{{{problem.answer}) {gold}}}")[1].success
    assert not task.apply(problem, f"\\boxed{{{problem.answer}) {other}}}")[1].success


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=26, unique=True), st.data())
def test_the_right_option_is_told_by_place_letter_or_text(options, data):
    place = data.draw(st.integers(0, len(options) - 1))
    for right in (place, LETTERS[place], options[place]):
        for column in (options, json.dumps(options), str(options)):  # a table of text alone has no lists
            problem = choice("?", column, right)
            assert (problem.answer, problem.options) == (LETTERS[place], tuple(options))


@pytest.mark.parametrize(
    ("options", "right"),
    [
        (["a"], 0),
        ("ab", 0),
        ('["a"]', 0),
        ('{"a": "b", "c": "d"}', 0),
        (["a"] * 27, 0),
        (["a", "b"], 2),
        (["a", "b"], -1),
        (["a", "b"], "C"),
        (["a", "b"], "AB"),
        (["a", "b"], True),
        (["x", "x"], "x"),
        (None, 0),
    ],
)
def test_options_and_answers_that_do_not_fit_are_refused(options, right):
    with pytest.raises(ValueError, match=r"options|neither"):
        choice("?", options, right)


def test_arc_reads_the_first_release_and_labels_that_are_digits(tmp_path):
    question = {"stem": "Which?", "choices": [{"text": "this", "label": "1"}, {"text": "that", "label": "2"}]}
    path = write(tmp_path / "a.jsonl", [{"id": "1", "question": question, "answerKey": "2"}])
    columns = {"question": "question.stem", "choices": "question.choices"}
    problem = ARC(data_files=path, columns=columns).problems[0]
    assert (problem.question, problem.options, problem.answer) == ("Which?", ("this", "that"), "B")
    path = write(tmp_path / "b.jsonl", [{"question": "?", "choices": question["choices"], "answerKey": "E"}])
    with pytest.raises(DataError, match="row 0: the answer 'E' is none of the labels 1, 2"):
        ARC(data_files=path)


# grids


def test_each_test_pair_of_a_puzzle_is_a_task():
    task = make("rlvr/ARCAGI-v0", split="test")
    assert task.size == 3  # two puzzles, the second with two test pairs
    assert [problem.question.count("Input") for problem in task.problems] == [4, 3, 3]
    assert len({task.content(problem) for problem in task.problems}) == 3


def test_a_grid_is_read_in_any_usual_form_and_is_right_in_every_cell():
    task = make("rlvr/ARCAGI-v0", split="test")
    problem = task.problems[0]
    rows = [line.split() for line in problem.answer.split("\n")]
    joined = ["".join(row) for row in rows]
    as_json = "[" + ", ".join(f"[{', '.join(row)}]" for row in rows) + "]"
    for grid in (problem.answer, "\n".join(joined), as_json, as_json.replace("], [", "],\n["), "; ".join(joined)):
        assert task.judge(problem, f"\\boxed{{{grid}}}").status == "correct", grid
        assert task.judge(problem, f"Mirrored.\n\n<answer>\n{grid}\n</answer>").status == "correct", grid
    other = {"0": "1"}.get(joined[0][0], "0") + joined[0][1:]
    for grid in ("\n".join([other, *joined[1:]]), "\n".join(joined[:-1]), "\n".join([*joined, joined[0]]), "0"):
        assert task.judge(problem, f"\\boxed{{{grid}}}").status == "wrong", grid
    for grid in ("".join(joined[0]) + "1\n" + joined[1], "red blue", "1.5 2", "²"):
        assert task.judge(problem, f"\\boxed{{{grid}}}").status == "unparsable", grid


@pytest.mark.parametrize(("config", "sizes"), [("1", (416, 419)), ("2", (1076, 167))])
def test_the_puzzles_of_the_authors_are_had_from_a_package(config, sizes, monkeypatch):
    monkeypatch.delenv("RLVR_DATA")
    for split, size in zip(("train", "test"), sizes, strict=True):
        task = make("rlvr/ARCAGI-v0", split=split, config=config)
        assert task.size == size
        assert all(task.judge(problem, task.solve(problem)).success for problem in task.problems)
    (problem,) = make("rlvr/ARCAGI-v0", split="train", config=config, where={"id": "007bbfb7"}).problems
    assert "Input 6:\n7 0 7\n7 0 7\n7 7 0\nWhat is output 6?" in problem.question


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ({"train": [], "test": []}, "row 0: train and test are lists of pairs"),
        ({"train": "[]", "test": "{}"}, "row 0: train and test are lists of pairs"),
        (
            {"train": [{"input": [[1, 2], [3]], "output": [[1]]}], "test": [{"input": [[1]], "output": [[1]]}]},
            "1 to 30",
        ),
        ({"train": [{"input": [[1]], "output": [[10]]}], "test": [{"input": [[1]], "output": [[1]]}]}, "from 0 to 9"),
        ({"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[1]]}]}, "output"),
    ],
)
def test_what_is_no_puzzle_of_grids_is_refused(tmp_path, puzzle, message):
    with pytest.raises(DataError, match=message):
        make("rlvr/ARCAGI-v0", data_files=write(tmp_path / "a.jsonl", [puzzle]))


@pytest.mark.parametrize("env_id", [env_id for env_id, kind in TABLES.items() if issubclass(kind, ChoiceTable)])
def test_options_keep_their_order_unless_they_are_shuffled(env_id):
    task = make(env_id)
    seen = {task.row(0, random.Random(seed)).options for seed in range(20)}
    assert (len(seen) > 1) == task.shuffled


# programs


@needs_sandbox
def test_a_humaneval_reply_may_be_the_function_or_its_body_and_must_be_right():
    task = make("rlvr/HumanEval-v0")
    problem = task.problems[1]
    body = "    return sum(c in 'aeiou' for c in text.lower())\n"
    for reply in (body, f"```python\n{body}```", f"```python\ndef vowels(text):\n{body}```", task.solve(problem)):
        assert task.apply(problem, reply)[1].success, reply
    for reply in (
        "    return 2\n",
        "```python\ndef other(text):\n    return 0\n```",
        task.observe(problem),
        "\\boxed{2}",
    ):
        assert task.apply(problem, reply)[1].reward == 0.0, reply
    assert make("rlvr/HumanEval-v0", prompt_style="none").observe(problem) == problem.question


@needs_sandbox
def test_mbpp_shows_one_test_and_pays_for_no_table_of_it():
    task = make("rlvr/MBPP-v0")
    problem = task.problems[0]
    prompt = task.observe(problem)
    assert "assert count_even([1, 2, 4]) == 2" in prompt
    assert "count_even([3, 5])" not in prompt
    assert (
        task.apply(problem, "```python\ndef count_even(xs):\n    return {3: 2}.get(len(xs), 9)\n```")[1].reward == 0.0
    )
    shown = make("rlvr/MBPP-v0", prompt_style="paper").observe(problem)
    assert shown.startswith("You are an expert Python programmer, and here is your task: Write a function")
    assert shown.count("assert ") == 3


@needs_sandbox
def test_mbpp_reads_the_sanitized_part_too(tmp_path):
    row = {
        "task_id": 2,
        "prompt": "Halve.",
        "code": "def half(x):\n    return x / 2",
        "test_list": ["assert half(4) == 2"],
    }
    path = str(write(tmp_path / "a.jsonl", [row | {"test_imports": ["import math"]}]))
    task = make("rlvr/MBPP-v0", config="sanitized", data_files=path)
    assert task.apply(task.problems[0], task.solve(task.problems[0]))[1].success


@needs_sandbox
def test_a_contest_is_graded_by_all_its_tests_and_has_an_expert_only_in_python(tmp_path):
    task = make("rlvr/CodeContests-v0")
    assert not task.apply(task.problems[0], "```python\nprint(5)\n```")[1].success, "right for the public test alone"
    assert task.apply(task.problems[3], "```python\nprint(*range(1, int(input()) + 1))\n```")[1].success
    row = {"description": "Print 1.", "public_tests": [{"input": "", "output": "1\n"}]}
    task = make("rlvr/CodeContests-v0", data_files=str(write(tmp_path / "a.jsonl", [row])))
    assert task.apply(task.problems[0], "print(1)")[1].success
    with pytest.raises(NotImplementedError, match="no solution in Python"):
        task.solve(task.problems[0])


@pytest.mark.parametrize("env_id", [*SANDBOXED, "rlvr/Dataset-v0"])
def test_programs_are_refused_where_no_sandbox_holds(monkeypatch, env_id, capsys):
    def none_holds(*_, **__):
        raise SandboxUnavailable("no sandbox tier holds on this machine")

    monkeypatch.setattr("rlvr.envs.sandbox.probes.require", none_holds)
    settings = {"grader": "code"} if env_id == "rlvr/Dataset-v0" else {}
    with pytest.raises(SandboxUnavailable):
        gym.make(env_id, **settings)
    assert main(["eval", "--env", env_id, "--agent", "expert", *(["--set", "grader=code"] if settings else [])]) == 2
    assert capsys.readouterr().err == "rlvr: no sandbox tier holds on this machine\n"


# answers in a few words


def test_any_accepted_spelling_is_right_and_a_list_of_guesses_is_not():
    task = make("rlvr/NQOpen-v0")
    problem = task.problems[1]
    for reply in ("<answer>Ulan Bator</answer>", "\\boxed{ULAANBAATAR.}", "The answer is the Ulaanbaatar."):
        assert task.apply(problem, reply)[1].success, reply
    assert task.apply(problem, "<answer>Ulaanbaatar or Darkhan</answer>")[1].reward == 0.0
    graded = make("rlvr/NQOpen-v0", grader="f1")
    assert graded.apply(problem, "<answer>Ulaanbaatar or Darkhan</answer>")[1].reward == 0.5


def test_hotpot_shows_its_articles_only_when_told_to():
    closed, shown = make("rlvr/HotpotQA-v0"), make("rlvr/HotpotQA-v0", config="distractor")
    assert "Ola Berg was born in Tornby." in shown.observe(shown.problems[0])
    assert closed.observe(closed.problems[0]) == "In which town was the designer of the made-up Almar Bridge born?"
    assert shown.observe(shown.problems[0]).endswith(closed.observe(closed.problems[0]))


def test_a_test_split_without_answers_is_refused(tmp_path):
    row = {"question": "?", "answer": {"value": "", "aliases": []}}
    with pytest.raises(DataError, match="row 0: there is no answer"):
        make("rlvr/TriviaQA-v0", data_files=str(write(tmp_path / "a.jsonl", [row])))


def test_an_answer_with_a_single_brace_can_still_be_said(tmp_path):
    path = str(write(tmp_path / "a.jsonl", [{"question": "?", "answer": ["set {"]}]))
    task = make("rlvr/NQOpen-v0", data_files=path)
    assert task.apply(task.problems[0], task.solve(task.problems[0]))[1].success


# anybody's own table

OWN = {
    "exact": ({"answer": "Paris"}, {}),
    "f1": ({"answer": ["Paris", "the city of Paris"]}, {}),
    "number": ({"answer": 12}, {"rel_tol": 0.01}),
    "math": ({"answer": "\\frac{1}{2}"}, {}),
    "choice": ({"answer": "that", "options": ["this", "that", "neither"]}, {}),
    "countdown": ({"answer": {"numbers": [3, 4], "target": 7}, "solution": "3 + 4"}, {"use_all": True}),
    "json": ({"answer": {"a": [1, 2]}}, {}),
}
if HELD:
    OWN["code"] = ({"answer": {"inputs": ["2\n"], "outputs": ["4\n"]}, "solution": "print(2 * int(input()))"}, {})


@pytest.mark.parametrize("grader", OWN)
def test_every_grader_takes_its_rows_from_a_file(tmp_path, grader):
    row, options = OWN[grader]
    path = str(write(tmp_path / "mine.jsonl", [{"question": "Well?", **row}]))
    env = gym.make("rlvr/Dataset-v0", data_files=path, grader=grader, grader_options=options).unwrapped
    for reply, reward in (("", 0.0), ("I do not know", 0.0), (None, 1.0)):
        _, info = env.reset(seed=0)
        assert {"code": "```python", "json": "```json"}.get(grader, "\\boxed{}") in info["system"]
        assert env.step(env.solve() if reply is None else reply)[1] == reward


def test_tests_in_a_csv_are_json_in_a_cell(tmp_path):
    row = {"Aufgabe": "Make 7.", "tests": json.dumps({"numbers": [3, 4], "target": 7}), "weg": "3 + 4"}
    path = str(write(tmp_path / "mine.csv", [row]))
    columns = {"question": "Aufgabe", "answer": "tests", "solution": "weg"}
    task = make("rlvr/Dataset-v0", data_files=path, columns=columns, grader="countdown")
    assert task.apply(task.problems[0], task.solve(task.problems[0]))[1].success


def test_prompt_and_system_are_ones_own_and_braces_in_rows_are_not_looked_at(tmp_path):
    row = {"question": "What is {answer}?", "answer": "SECRET", "meta": {"topic": "{question} {0.__class__}"}}
    path = str(write(tmp_path / "mine.jsonl", [row]))
    prompt = "[{meta.topic}] {question} \\frac{1}{2} {nothing}"
    env = gym.make("rlvr/Dataset-v0", data_files=path, prompt=prompt, system="Be brief.").unwrapped
    observation, info = env.reset(seed=0)
    assert observation == "[{question} {0.__class__}] What is {answer}? \\frac{1}{2} {nothing}"
    assert info["system"] == "Be brief."


@pytest.mark.parametrize(
    ("row", "settings", "error", "message"),
    [
        ({"answer": "five"}, {"grader": "number"}, ValueError, "row 0 cannot be graded by 'number'.*not a number"),
        ({"answer": "5"}, {"grader": "number", "grader_options": {"rel_tol": 2}}, BadOption, "rel_tol"),
        ({"answer": "5"}, {"grader": "number", "grader_options": {"tolerance": 2}}, TypeError, "tolerance"),
        ({"answer": "5"}, {"grader": "choice"}, DataError, "row 0: options must be a list"),
        ({"answer": "5"}, {"grader": "countdown"}, DataError, "row 0: for the grader countdown"),
        ({"answer": "{"}, {"grader": "json"}, DataError, "row 0: "),
        ({"answer": "5"}, {"config": "small"}, ValueError, "name it with hub="),
        ({"answer": "5"}, {"grader": "luck"}, ValueError, "no grader 'luck'; it has exact, f1, number"),
        ({"answer": ""}, {}, ValueError, "row 0 cannot be graded"),
        ({"answer": []}, {}, ValueError, "row 0"),
        ({"gold": "5"}, {}, DataError, "lacks answer; it has question, gold"),
    ],
)
def test_what_cannot_be_graded_is_told_when_it_is_made(tmp_path, row, settings, error, message):
    path = str(write(tmp_path / "mine.jsonl", [{"question": "Well?", **row}]))
    with pytest.raises(error, match=message):
        gym.make("rlvr/Dataset-v0", data_files=path, **settings)


def test_the_command_line_takes_columns_as_json(tmp_path, capsys):
    path = write(tmp_path / "mine.csv", [{"q": f"{n} + {n}?", "a": str(2 * n)} for n in range(5)])
    columns = json.dumps({"question": "q", "answer": "a"})
    arguments = ["--set", f"data_files={path}", "--set", f"columns={columns}", "--set", "grader=number"]
    assert main(["eval", "--env", "rlvr/Dataset-v0", "--agent", "expert", *arguments, "--set", "limit=3"]) == 0
    assert "success 3/3" in capsys.readouterr().out
