"""Episodes travel as JSON and come back equal, whatever is in them."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.export.atif import episode_of
from rlvr.adapters.viewer.foreign import trace_of
from rlvr.agents import Episode, ExpertAgent, Rollout, RolloutRequest, TokenSequence, Turn
from rlvr.agents.episode import VERSION, EpisodeBranch
from rlvr.cli import main
from rlvr.envs import Verdict
from rlvr.envs.core.verdict import INVALID, STATUSES
from rlvr.envs.tools.calls import ActionWithCalls, NativeCall

# Lone surrogates too: models write them, and JSON escapes can carry them.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
VERDICT = st.builds(
    Verdict,
    reward=NUMBER,
    status=st.sampled_from(sorted(STATUSES)),
    answer=st.none() | TEXT,
    reason=TEXT,
    parts=st.dictionaries(TEXT, NUMBER, max_size=3),
)
JSON = st.dictionaries(TEXT, NUMBER | TEXT | st.lists(st.integers(), max_size=2) | st.booleans(), max_size=3)
# What somebody else added; json and foreign are names that our own forms use.
FOREIGN = JSON | st.dictionaries(st.sampled_from(["json", "foreign", "judge", "example", "extra"]), JSON, max_size=2)
CALL = st.builds(NativeCall, TEXT, TEXT, TEXT | st.just('{"a": [1, "é"]}'))
TURN = st.builds(
    Turn,
    observation=TEXT,
    role=st.sampled_from(["user", "tool"]),
    action=TEXT | st.builds(ActionWithCalls, TEXT, TEXT, st.lists(CALL, max_size=3)),
    stop=st.sampled_from(["stop", "length", "context"]),
    reward=NUMBER,
    verdict=st.none() | VERDICT,
    end=st.integers(0, 16),
    image=st.sampled_from(["", "data:image/png;base64,iVBORw0KGgo="]),
    limit=TEXT,
    flaw=TEXT,
    option_logprobs=st.lists(NUMBER, max_size=3),
    branch=st.integers(0, 2),
    outputs=st.lists(TEXT, max_size=3),
    foreign=FOREIGN,
)
COUNTED = st.sampled_from(["prompt_tokens", "completion_tokens", "cached_tokens", "cost", "env_seconds"])


@st.composite
def token_sequences(draw):
    tokens, counts_versions = TokenSequence(), draw(st.booleans())
    for ids in draw(st.lists(st.lists(st.integers(0, 200_000), max_size=4), max_size=4)):
        if draw(st.booleans()):
            tokens.append_context(ids)
        else:
            versions = [draw(st.integers(0, 9)) for _ in ids] if counts_versions else []
            tokens.append_sampled(ids, [draw(st.floats(-50, 0)) for _ in ids], versions)
    return tokens


EPISODE = st.builds(
    Episode,
    env_id=TEXT,
    key=TEXT,
    seed=st.integers(0, 2**64),
    group=st.integers(0, 100),
    sample=st.integers(0, 100),
    index=st.none() | st.integers(0, 10**9),
    split=st.none() | TEXT,
    level=st.none() | st.integers(1, 9),
    system=st.none() | TEXT,
    tools=TEXT | st.just('[{"function": {"name": "a"}}]'),
    turns=st.lists(TURN, max_size=4),
    tokens=token_sequences(),
    verdict=st.none() | VERDICT,
    final_observation=TEXT,
    terminated=st.booleans(),
    truncated=st.booleans(),
    partial_completion=token_sequences(),
    training=JSON,
    forked_from=JSON,
    env_digest=TEXT,
    examples=st.lists(TEXT, max_size=2).map(
        lambda texts: [{"role": role, "content": text} for text in texts for role in ("user", "assistant")]
    ),
    agent=JSON,
    branches=st.lists(st.builds(EpisodeBranch, st.integers(-1, 3), token_sequences()), max_size=2),
    prefix=st.integers(0, 4),
    usage=st.dictionaries(COUNTED, st.floats(0, 1e9)),
    foreign=FOREIGN,
)


@given(EPISODE)
def test_an_episode_comes_back_from_json_equal(episode):
    line = json.dumps(episode.to_dict())
    assert "\n" not in line
    again = Episode.from_dict(json.loads(line))
    assert again == episode
    assert all(type(getattr(again, f.name)) is type(getattr(episode, f.name)) for f in fields(Episode))
    assert json.dumps(again.to_dict()) == line


@given(EPISODE)
def test_what_an_episode_says_of_itself_follows_from_its_parts(episode):
    verdict = episode.verdict
    assert episode.valid == (verdict is not None and verdict.status not in INVALID)
    assert episode.success == (verdict is not None and verdict.status == "correct")
    assert episode.reward == sum(turn.reward for turn in episode.turns)
    assert episode.hit_token_limit == any(turn.stop in ("length", "context") for turn in episode.turns)
    roles = [message["role"] for branch in range(3) for message in episode.messages(branch)]
    assert roles.count("assistant") == len(episode.turns) + len(episode.examples) // 2
    assert ("system" in roles) == bool(episode.system)


@given(VERDICT)
def test_a_verdict_comes_back_from_json_equal(verdict):
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict


def test_a_played_episode_comes_back_equal():
    for episode in Rollout("rlvr/Calculator-v0", ExpertAgent())([RolloutRequest(seed=0, index=i) for i in range(5)]):
        assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    jsonschema = pytest.importorskip("jsonschema")  # adapters' tests import this file where it may be missing
    out = tmp_path_factory.mktemp("schema") / "episode.json"
    assert main(["export", "--schema", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    jsonschema.Draft202012Validator.check_schema(written)
    return jsonschema.Draft202012Validator(written)


@pytest.mark.slow
@given(EPISODE)
@settings(max_examples=1_000)
def test_every_record_is_of_the_schema_which_has_each_of_its_fields(schema, episode):
    record = json.loads(json.dumps(episode.to_dict()))
    schema.validate(record)
    assert record.keys() - episode.foreign.keys() <= schema.schema["properties"].keys()
    for turn, written in zip(episode.turns, record["turns"], strict=True):
        assert written.keys() - turn.foreign.keys() <= schema.schema["$defs"]["Turn"]["properties"].keys()


def test_records_of_real_episodes_are_of_the_schema(schema):
    for env_id in ("rlvr/Calculator-v0", "rlvr/GuessNumber-v0", "rlvr/Countdown-v0"):
        for episode in Rollout(env_id, ExpertAgent())([RolloutRequest(seed=0, index=i) for i in range(5)]):
            schema.validate(episode.to_dict())


CALLED = {"words": "", "calls": [{"id": "1", "name": "a"}]}  # a call without arguments


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"seed": "1"}, ["seed"]),
        ({"turns": [{"observation": "o", "role": "user", "action": "a"}]}, ["turns", 0]),
        ({"turns": [Turn("o", "user", "a", "stop").to_dict() | {"stop": "over"}]}, ["turns", 0, "stop"]),
        (
            {"turns": [Turn("o", "user", "a", "stop").to_dict() | {"native": CALLED}]},
            ["turns", 0, "native", "calls", 0],
        ),
        ({"verdict": {"reward": 1.0, "status": "right"}}, ["verdict"]),
        ({"tokens": {"ids": ["1"]}}, ["tokens", "ids", 0]),
        ({"branches": [{"follows": 0}]}, ["branches", 0]),
        ({"version": "1"}, ["version"]),
    ],
)
def test_a_wrong_record_is_not_of_the_schema(schema, change, where):
    (error,) = schema.iter_errors(Episode("e", "k", 0).to_dict() | change)
    assert list(error.absolute_path) == where


def test_a_record_without_a_version_is_of_the_first_one_and_a_newer_one_is_refused(tmp_path, capsys):
    record = Episode("e", "k", 0).to_dict()
    assert record.pop("version") == VERSION == 1
    assert Episode.from_dict(record).version == 1
    reason = "the record is of version 2, and this rlvr reads version 1: update rlvr"
    with pytest.raises(ValueError, match=reason):
        Episode.from_dict(record | {"version": 2, "acts": []})
    file = tmp_path / "newer.jsonl"
    file.write_text(json.dumps(record | {"version": 2, "acts": []}) + "\n")
    for words in (["table", file], ["export", file, "--out", tmp_path / "x.jsonl"]):
        assert main([*map(str, words)]) == 2
        assert capsys.readouterr().err == f"rlvr: line 1 of {file} is not an episode: {reason}\n"
    with pytest.raises(ValueError, match=reason):  # which the viewer names beside the episodes that it shows
        trace_of(record | {"version": 2})


def test_fields_that_somebody_else_added_are_kept_through_each_command_that_writes_records(tmp_path, capsys):
    words = ["eval", "--env", "Calculator", "--split", "train", "--agent", "expert", "--episodes"]
    assert main([*words, "1", "--out", str(tmp_path / "played.jsonl")]) == 0
    noted = {"judge": {"model": "m", "scores": [1, 0.5]}, "foreign": None, "json": "\ud800"}
    record = json.loads((tmp_path / "played.jsonl").read_text()) | noted
    record["turns"][0]["seen_by"] = ["é", 1e300]
    line, file, out = json.dumps(record), tmp_path / "noted.jsonl", tmp_path / "out.jsonl"
    file.write_text(line + "\n")
    assert json.dumps(Episode.from_dict(json.loads(line)).to_dict()) == line
    assert main(["regrade", str(file), "--out", str(out)]) == 0
    assert out.read_text() == line + "\n"
    assert main(["export", str(file), "--format", "atif", "--out", str(tmp_path / "a.jsonl")]) == 0
    assert json.dumps(episode_of(json.loads((tmp_path / "a.jsonl").read_text())).to_dict()) == line
    assert main([*words, "2", "--out", str(file)]) == 0
    first, second = file.read_text().splitlines()
    assert first == line, "an evaluation that goes on with a file leaves its lines as they are"
    assert not noted.keys() & json.loads(second).keys()


@pytest.mark.parametrize(
    ("old", "new", "where"), [("verdict", "verdit", None), ("tokens", "token", None), ("reward", "rewrad", "turns")]
)
def test_a_known_field_that_is_misspelt_is_refused_by_whoever_goes_on_with_the_file(tmp_path, capsys, old, new, where):
    file = tmp_path / "a.jsonl"
    words = ["eval", "--env", "Calculator", "--agent", "expert", "--episodes", "1", "--out", str(file)]
    assert main(words) == 0
    record = json.loads(file.read_text())
    holder = record[where][0] if where else record
    holder[new] = holder.pop(old)
    file.write_text(json.dumps(record) + "\n")
    capsys.readouterr()
    assert main(words) == 2
    reason = f"line 1 of {file} is not an episode: unknown field {new!r}; did you mean {old!r}?"
    assert capsys.readouterr().err == f"rlvr: {reason}\n"


@pytest.mark.parametrize("part", ["verdict", "tokens"])
def test_a_grade_and_tokens_have_no_fields_but_their_own(part):
    record = Episode("e", "k", 0, verdict=Verdict(1.0, "correct")).to_dict()
    with pytest.raises(TypeError, match="judge"):
        Episode.from_dict(record | {part: record[part] | {"judge": 1}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": float("nan")}, "a reward must be finite"),
        ({"reward": float("inf")}, "a reward must be finite"),
        ({"status": "right"}, "status 'right' is not one of"),
    ],
)
def test_a_verdict_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Verdict(**{"reward": 1.0, "status": "correct"} | change)
    with pytest.raises(ValueError, match=message):
        Verdict(1.0, "correct").replace(**change)


def test_tokens_without_their_log_probabilities_are_refused():
    tokens = TokenSequence()
    tokens.append_context([1, 2])
    tokens.append_sampled([3], [-0.5])
    with pytest.raises(ValueError, match="2 tokens were sampled, but 1 log-probabilities given"):
        tokens.append_sampled([4, 5], [-0.1])
    assert (tokens.ids, tokens.mask, tokens.logprobs) == ([1, 2, 3], [0, 0, 1], [0.0, 0.0, -0.5])
    assert (len(tokens), tokens.sampled) == (3, 1)


def test_a_request_names_its_episode_by_all_that_makes_it_another():
    base = {"seed": 1, "index": 2, "split": "test", "level": 3, "sample": 4, "salt": "step 5"}
    keys = {RolloutRequest(**base | change).key("id") for change in [{}, *({name: 9} for name in base)]}
    assert len(keys) == len(base) + 1
    assert RolloutRequest(**base).key("other") not in keys
    assert RolloutRequest(**base, group=7).key("id") in keys, "which group it is in changes nothing about the episode"
    assert RolloutRequest(seed=0).options() == {}
    assert RolloutRequest(seed=0, index=0, split="test").options() == {"index": 0, "split": "test"}
