"""The contract of slime's and miles' generate function, on stand-ins: neither installs here.

What is stood in for was read from their source: slime 0.3.1 at 624b824 (`utils/types.py`, `utils/http_utils.py`,
`rollout/sglang_rollout.py`, `rollout/filter_hub/`, `ray/rollout.py`), miles 0.1.0 at 31f1ca9 (the same, and
`rollout/generate_utils/generate_endpoint_utils.py`). The stand-ins have the fields and the functions that the adapter
touches, and nothing else.
"""

from __future__ import annotations

import asyncio
import copy
import enum
import importlib
import inspect
import json
import math
import runpy
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlvr.adapters import TaskSpec, read_spec, rows, write_rows
from rlvr.adapters import testing as kit
from rlvr.adapters.trainers import slime as adapter
from rlvr.agents import TokenSequence

TRAINERS = ("slime", "miles")
ADAPTER = "rlvr.adapters.trainers.slime"


class Status(enum.Enum):
    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class Sample:
    index: int = 0
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    reward: Any = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    remove_sample: bool = False
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)

    def _extend(self, tokens: list[int], logprobs: list[float], on: int) -> None:
        assert len(tokens) == len(logprobs)
        self.tokens = self.tokens + tokens
        self.loss_mask = (self.loss_mask or []) + [on] * len(tokens)
        self.rollout_log_probs = (self.rollout_log_probs or []) + logprobs
        self.response_length += len(tokens)

    def _take(self, info: dict[str, Any]) -> None:
        self.weight_versions.append(info["weight_version"])
        ends = {"length": Status.TRUNCATED, "abort": Status.ABORTED, "stop": Status.COMPLETED}
        self.status = ends[info["finish_reason"]["type"]]


@dataclass
class SlimeSample(Sample):
    """Its tokens are appended by a method of its own."""

    session_id: str | None = None
    rollout_top_p_token_ids: Any = None

    def append_response_tokens(
        self, args: Any = None, *, tokens: Any, log_probs: Any = None, trainable: bool = True,
        meta_info: Any = None, text: str | None = None, update_terminal_info: bool = True,
    ) -> None:  # fmt: skip
        assert (log_probs is not None) == trainable
        self.response += text or ""
        self._extend(list(tokens), list(log_probs) if trainable else [0.0] * len(tokens), int(trainable))
        if meta_info is not None:
            self._take(meta_info)


@dataclass
class MilesSample(Sample):
    """Its tokens are appended by a function."""

    routing_key: str | None = None


SlimeSample.__module__, MilesSample.__module__ = "slime.utils.types", "miles.utils.types"


def update_sample(args: Any, sample: Any, payload: Any, output: Any, update_loss_mask: bool = False) -> Any:
    async def update() -> None:
        assert update_loss_mask
        assert sample.tokens == payload["input_ids"]
        scored = output["meta_info"]["output_token_logprobs"]
        sample._extend([each[1] for each in scored], [each[0] for each in scored], 1)
        sample.response += output["text"]
        sample._take(output["meta_info"])

    return update()


def request_payload(args: Any, input_ids: list[int], sampling_params: dict[str, Any]) -> Any:
    room = sampling_params["max_new_tokens"]
    if args.rollout_max_context_len:
        room = min(room, args.rollout_max_context_len - len(input_ids))
    if room <= 0:
        return None, Status.TRUNCATED
    payload = {"input_ids": input_ids, "sampling_params": {**sampling_params, "max_new_tokens": room}}
    return {**payload, "return_logprob": True, "lora_path": "of miles"}, None


class Server:
    """SGLang's ``/generate`` over the kit's engine, as ``http_utils.post`` asks it."""

    def __init__(self, engine: kit.RecordingEngine) -> None:
        self.engine, self.asked, self.headers, self.aborts = engine, list[dict[str, Any]](), list[Any](), set[int]()

    async def post(self, url: str, payload: dict[str, Any], max_retries: int = 60, headers: Any = None) -> Any:
        assert url == "http://router:30000/generate"
        assert payload["return_logprob"] is True
        self.asked.append(copy.deepcopy(payload))
        self.headers.append(headers)
        number = len(self.asked)
        await asyncio.sleep(0)
        if number in self.aborts:
            return {"text": "", "meta_info": {"finish_reason": {"type": "abort"}, "weight_version": "0"}}
        params = payload["sampling_params"]
        answer = self.engine.generate(payload["input_ids"], params["max_new_tokens"])
        ended = answer.sampled[-1:] == [self.engine.tokenizer.eos_token_id]
        assert self.engine.tokenizer.eos_token_id in params["stop_token_ids"]
        scored = [[value, token, None] for value, token in zip(answer.logprobs, answer.sampled, strict=True)]
        info = {"finish_reason": {"type": "stop" if ended else "length"}, "weight_version": str(number)}
        return {
            "text": self.engine.tokenizer.decode(answer.sampled),
            "meta_info": {**info, "output_token_logprobs": scored},
        }


@dataclass
class FilterOutput:
    keep: Any
    reason: str | None = None


def nonzero_std(args: Any, samples: list[Any], **named: Any) -> FilterOutput:
    return FilterOutput(len({sample.reward for sample in samples}) > 1, "zero_std")


class Rig:
    """A trainer's modules in `sys.modules`, its arguments, and a group played as its rollout plays one."""

    def __init__(self, name: str, engine: kit.RecordingEngine, monkeypatch: Any) -> None:
        self.name, self.server = name, Server(engine)
        self.sample = {"slime": SlimeSample, "miles": MilesSample}[name]
        self.generate = adapter.EpisodeGenerator()
        self.args = SimpleNamespace(
            hf_checkpoint="policy", sglang_router_ip="router", sglang_router_port=30000, rollout_max_context_len=300,
            eval_max_context_len=300, use_rollout_routing_replay=False, apply_chat_template_kwargs={}, group_rm=False,
            reward_key=None, dynamic_sampling_filter_path=f"{ADAPTER}.valid_groups", log_passrate=False,
            rollout_function_path="slime.rollout.sglang_rollout.generate_rollout",
        )  # fmt: skip
        parts = {
            "utils.http_utils": {"post": self.server.post},
            "utils.processing_utils": {"load_tokenizer": self.load},
            "rollout.filter_hub.base_types": {"DynamicFilterOutput": FilterOutput},
            "rollout.filter_hub.dynamic_sampling_filters": {"check_reward_nonzero_std": nonzero_std},
            "rollout.generate_utils.generate_endpoint_utils": {
                "compute_request_payload": request_payload,
                "compute_routing_headers": lambda args, sample: {"X-SMG-Routing-Key": sample.routing_key},
                "update_sample_from_response": update_sample,
            },
        }
        for part, names in parts.items():
            module = ModuleType(f"{name}.{part}")
            vars(module).update(names)
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def load(self, path: str, **options: Any) -> Any:
        assert (path, options) == ("policy", {"trust_remote_code": True})
        return self.server.engine.tokenizer

    def sample_of(self, spec: TaskSpec, **fields: Any) -> Any:
        return self.sample(metadata={"spec": spec.to_json()}, **fields)

    def play(self, samples: list[Any], **settings: Any) -> list[Any]:
        params = {"max_new_tokens": 100, "temperature": 1.0, "stop_token_ids": None}

        async def gathered() -> list[Any]:
            return await asyncio.gather(*(self.generate(self.args, each, params, **settings) for each in samples))

        return asyncio.run(gathered())


@pytest.fixture(params=TRAINERS)
def rig(request: Any, policy: Any, monkeypatch: Any) -> Any:
    return lambda engine=None, **changes: Rig(
        request.param, engine or kit.RecordingEngine(*policy, **changes), monkeypatch
    )


def tokens_of(sample: Any) -> TokenSequence:
    start = len(sample.tokens) - sample.response_length
    return TokenSequence(sample.tokens, [0] * start + sample.loss_mask, [0.0] * start + sample.rollout_log_probs)


@pytest.mark.slow
def test_the_adapter_conforms(rig: Any, policy: Any) -> None:
    def play(specs: Any, engine: kit.RecordingEngine) -> list[kit.PlayedEpisode]:
        here = rig(engine)
        found = here.play([here.sample_of(spec) for spec in specs])
        return [
            kit.PlayedEpisode(spec, sample.reward, tokens_of(sample) if sample.reward is not None else None)
            for spec, sample in zip(specs, found, strict=True)
        ]

    print("\n".join(kit.conform(play, kit.RecordingEngine(*policy), tokens=True)))


def test_a_sample_has_what_the_trainer_reads_and_the_one_given_is_as_it_was(rig: Any) -> None:
    here = rig(wrong_every=10**6)
    (spec,) = kit.say_specs(1)
    given = here.sample_of(spec, index=7)
    before = copy.deepcopy(given)
    (sample,) = here.play([given])
    assert given == before
    assert type(sample) is here.sample
    assert (sample.index, sample.status, sample.reward) == (7, Status.COMPLETED, pytest.approx(1.0))
    assert sample.response_length == len(sample.loss_mask) == len(sample.rollout_log_probs) < len(sample.tokens)
    assert {type(each) for each in sample.tokens + sample.loss_mask} == {int}
    assert {type(each) for each in sample.rollout_log_probs} == {float}
    turns = kit.segments(sample.loss_mask)
    assert len(turns) == 3
    assert turns[0][0] == 0  # the response begins with the first reply
    assert turns[-1][1] == sample.response_length
    assert sample.weight_versions == ["1", "2", "3"]
    assert sample.response == here.server.engine.tokenizer.decode(sample.tokens[-sample.response_length :])
    held = sample.metadata["rlvr"]
    assert held["turn_rewards"] == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert (held["turns"], held["status"], held["success"]) == (3, "correct", True)
    assert sample.metadata["spec"] == spec.to_json()
    # Each turn is asked for after exactly what was sampled and said before.
    assert [asked["input_ids"] for asked in here.server.asked] == [
        sample.tokens[: len(asked["input_ids"])] for asked in here.server.asked
    ]
    assert here.server.asked[-1]["sampling_params"]["temperature"] == 1.0


def test_each_reply_and_the_conversation_have_their_limits(rig: Any) -> None:
    here = rig(script=lambda _: "a very long answer " * 20, max_new_tokens=500, wrong_every=10**6)
    (spec,) = kit.say_specs(1)
    here.args.rollout_max_context_len = 400
    (sample,) = here.play([here.sample_of(spec)])
    asked = [each["sampling_params"]["max_new_tokens"] for each in here.server.asked]
    assert asked[0] == 100
    assert len(sample.tokens) <= 400
    assert sample.status is Status.TRUNCATED
    assert asked[-1] == min(100, 400 - len(here.server.asked[-1]["input_ids"]))
    here.args.rollout_max_context_len = None  # then all that follows the prompt is as long as a reply may be
    (sample,) = here.play([here.sample_of(spec)])
    assert (sample.response_length, sample.status, sample.reward) == (100, Status.TRUNCATED, 0.0)
    here.args.rollout_max_context_len = 8
    (sample,) = here.play([here.sample_of(spec)])
    assert (sample.status, sample.reward, sample.tokens) == (Status.ABORTED, None, [])


def test_a_fault_is_no_reward_and_its_group_is_left_out(rig: Any) -> None:
    here = rig(wrong_every=10**6)
    (bad,), (good,) = kit.say_specs(1, fault="step"), kit.say_specs(1)
    found = here.play([here.sample_of(good), here.sample_of(bad, remove_sample=False)])
    assert [sample.reward for sample in found] == [pytest.approx(1.0), None]
    failed = found[1]
    assert failed == here.sample_of(bad, status=Status.ABORTED)  # as if nobody had played it
    assert len(here.server.asked) == 3 + 2 * 2  # it was played twice
    for name in ("valid_groups", "varied_groups"):
        assert getattr(adapter, name)(here.args, found) == FilterOutput(False, "fault")
        assert getattr(adapter, name)(here.args, [found]) == FilterOutput(False, "fault")  # nested, as of fan-out
    assert adapter.valid_groups(here.args, found[:1] * 2) is True
    assert adapter.varied_groups(here.args, found[:1] * 2) == FilterOutput(False, "zero_std")


def test_a_failure_that_passes_is_played_again(rig: Any, monkeypatch: Any) -> None:
    failing = iter([True])
    apply = kit.SayTask.apply

    def broken(task: Any, state: Any, action: str) -> Any:
        if next(failing, False):
            raise OSError("once")
        return apply(task, state, action)

    monkeypatch.setattr(kit.SayTask, "apply", broken)
    here = rig(wrong_every=10**6)
    (sample,) = here.play([here.sample_of(kit.say_specs(1)[0])])
    assert (sample.reward, sample.status, len(kit.segments(sample.loss_mask))) == (
        pytest.approx(1.0),
        Status.COMPLETED,
        3,
    )
    assert sample.weight_versions == ["2", "3", "4"]


def test_what_the_trainer_stops_is_played_from_its_beginning_later(rig: Any) -> None:
    here = rig(wrong_every=10**6)
    here.server.aborts = {2}
    (spec,) = kit.say_specs(1)
    (stopped,) = here.play([here.sample_of(spec)])
    assert stopped == here.sample_of(spec, status=Status.ABORTED)
    assert len(here.server.asked) == 2  # and not once more now
    stopped.tokens, stopped.response, stopped.response_length = [1, 2], "left", 1  # of a rollout that keeps parts
    stopped.loss_mask = [0]
    (sample,) = here.play([stopped])
    assert (sample.reward, sample.status, len(kit.segments(sample.loss_mask))) == (
        pytest.approx(1.0),
        Status.COMPLETED,
        3,
    )


def test_an_evaluation_counts_no_fault(rig: Any) -> None:
    here = rig(wrong_every=10**6)
    (bad,), (good,) = kit.say_specs(1, fault="verdict"), kit.say_specs(1)
    here.args.dynamic_sampling_filter_path = None  # which an evaluation has not
    found = here.play([here.sample_of(bad), here.sample_of(good)], evaluation=True)
    assert math.isnan(found[0].reward)
    assert found[0].status is Status.ABORTED
    rewards = [sample.reward for sample in found]
    for passrate, left in ((True, 2), (False, 1)):
        here.args.log_passrate = passrate
        data = {"say": {"rewards": rewards, "truncated": [False, False], "samples": found, "notes": ["a"]}}
        assert adapter.without_faulty_evaluations(3, here.args, data, None) is False
        assert [len(data["say"][key]) for key in ("rewards", "truncated", "samples")] == [left] * 3
        assert data["say"]["notes"] == ["a"]
    assert data["say"]["samples"] == found[1:]
    assert math.isnan(sum(rewards) / 2)  # what is logged without it: no number, and no 0


@adapter.without_faults
def of_ones_own(args: Any, samples: Any, **named: Any) -> bool:
    return False


def unaware(args: Any, samples: Any, **named: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"group_rm": True}, "leave out --group-rm"),
        ({"reward_key": "score"}, "leave out --reward-key"),
        ({"dynamic_sampling_filter_path": None}, r"no filter leaves out such groups: give --dynamic-sampling-filter"),
        ({"dynamic_sampling_filter_path": f"{__name__}.unaware"}, "unaware leaves out such groups: .*without_faults"),
        ({"dynamic_sampling_filter_path": f"{__name__}.of_ones_own"}, None),
        ({"dynamic_sampling_filter_path": f"{ADAPTER}.varied_groups"}, None),
        ({"dynamic_sampling_filter_path": adapter.MILES_FILTER}, None),
        ({"dynamic_sampling_filter_path": None, "fully_async": True}, None),
        ({"dynamic_sampling_filter_path": None, "rollout_function_path": "slime.rollout.fully_async_rollout.f"}, None),
    ],
)
def test_what_would_make_a_fault_a_reward_is_refused_before_anything_is_played(changes: Any, complaint: Any) -> None:
    args = SimpleNamespace(
        **{"dynamic_sampling_filter_path": f"{ADAPTER}.valid_groups", "rollout_function_path": "x.y", **changes}
    )
    if complaint is None:
        adapter.refuse(args)
        return
    with pytest.raises(ValueError, match=complaint):
        adapter.refuse(args)


def test_bad_samples_are_one_sentence(rig: Any) -> None:
    here = rig()
    with pytest.raises(ValueError, match=r"the row names no task.*rlvr\.adapters\.rows"):
        here.play([here.sample(metadata={"rm_type": "math"})])
    with pytest.raises(ValueError, match="images"):
        here.play([here.sample_of(TaskSpec("rlvr/VisualClocks-v0", 0))])
    with pytest.raises(ValueError, match="attempts must be at least 1, got 0"):
        adapter.EpisodeGenerator(attempts=0)
    with pytest.raises(ValueError, match="a sample of 'elsewhere' was given; this function plays samples of slime and"):
        adapter._require("elsewhere")


def test_settings_and_the_route_are_carried(rig: Any) -> None:
    here = rig(wrong_every=10**6)
    here.generate = adapter.EpisodeGenerator(use_system=False, template_options={"enable_thinking": False}, attempts=1)
    here.args.router_policy = "consistent_hashing"
    key = "session_id" if here.name == "slime" else "routing_key"
    (sample,) = here.play([here.sample_of(kit.say_specs(1)[0], **{key: "mine"})])
    assert "told" not in here.server.engine.tokenizer.decode(sample.tokens)
    assert here.server.headers == [{"X-SMG-Routing-Key": "mine"}] * 3
    assert here.generate._renderers["policy"].template_options == {"enable_thinking": False}
    assert here.server.asked[0].get("lora_path") == ("of miles" if here.name == "miles" else None)


def test_rows_are_what_its_loader_reads(tmp_path: Path) -> None:
    table = rows("rlvr/GuessNumber-v0", 3, "slime")
    for row in table:
        assert set(row) == {"input", "metadata"}  # --input-key and --metadata-key have these names by default
        assert read_spec(row) == read_spec({"metadata": row["metadata"]})
        assert row["input"][-1]["content"] == read_spec(row).start()[1]
    path = write_rows(table, tmp_path / "train.jsonl")
    assert [json.loads(line) for line in path.read_text().splitlines()] == table
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    assert parquet.read_table(write_rows(table, tmp_path / "train.parquet")).to_pylist() == table


def test_the_example_writes_rows_and_names_what_there_is(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    example = Path(__file__).parents[2] / "examples" / "slime_train.py"
    given = ["slime_train.py", "--env", "rlvr/Countdown-v0", "--rows", "4", "--test-rows", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", given)
    runpy.run_path(str(example), run_name="__main__")
    words = shlex.split(capsys.readouterr().out)
    for word in words:
        if word.startswith(ADAPTER):
            assert callable(getattr(adapter, word.rpartition(".")[2]))
    refused = SimpleNamespace(dynamic_sampling_filter_path=words[words.index("--dynamic-sampling-filter-path") + 1])
    adapter.refuse(refused)
    train, test = (
        [json.loads(line) for line in Path(path).read_text().splitlines()]
        for path in (words[words.index("--prompt-data") + 1], words[-1])
    )
    assert (len(train), len(test)) == (4, 2)
    assert {read_spec(row).kwargs.get("split") for row in test} == {"test"}


def test_the_path_in_the_arguments_is_a_function_of_three() -> None:
    """slime looks for ``evaluation`` in the signature; miles takes for its own form what has fewer than three names."""

    found = importlib.import_module(ADAPTER).generate
    assert list(inspect.signature(found).parameters) == ["args", "sample", "sampling_params", "evaluation"]
    assert not inspect.isclass(found)
