"""Claude Code as it is shipped, over Anthropic Messages: graded, its tokens kept, a training step made of them."""

from __future__ import annotations

import difflib
import importlib.util
import json
import shutil
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters.harness.program import ProgramHarness
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.agents import Rollout, RolloutRequest

from ..needs import needs_sandbox
from .captured import check_capture, check_step

pytestmark = [pytest.mark.foreign, needs_sandbox]
ENV = "rlvr/RepoRepair-v0"
VARIABLES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",  # as root it asks for no permission only where this says that something keeps it in
}
TOOLS = "{%- if tools -%}{{- '<|system|>' + tools | tojson + '<|end|>' -}}{%- endif -%}"
FEW_TOOLS = ("--bare", "--tools", "Bash,Edit,Read")
SUB_AGENTS = ("--safe-mode", "--system-prompt", "You mend code.", "--tools", "Agent,Bash")


def program():
    """The command that Anthropic's package for Python brings."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        pytest.skip("claude-agent-sdk is not installed")
    return Path(spec.origin).parent / "_bundled" / "claude"


def kept_in(job):
    """Bubblewrap, which lets it write to its own folders alone."""
    if shutil.which("bwrap") is None:
        return []
    folders = [option for folder in (job.folder, job.home) for option in ("--bind", folder, folder)]
    return ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *folders, "--die-with-parent"]


def harness(*options, **variables):
    claude = program()

    def command(job):
        asked = ["-p", job.task, "--model", job.connection.model, "--permission-mode", "bypassPermissions"]
        return [*kept_in(job), claude, *options, *asked]

    return ProgramHarness(ENV, command, variables=VARIABLES | variables, seconds=240)


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def mends(seed=3):
    """Its replies that mend the fault of a task."""
    env = gym.make(ENV)
    env.reset(seed=seed)
    inner = env.unwrapped
    given = inner.get_state().state.world.repository()
    (fault,) = given.faults
    path = given.path(fault.module)
    whole = given.package.modules[fault.module].splitlines(keepends=True)
    broken = str(inner.task.workspace(inner.get_state().state)[path]).splitlines(keepends=True)
    changes = [each for each in difflib.SequenceMatcher(None, broken, whole).get_opcodes() if each[0] != "equal"]
    begin = max(0, changes[0][1] - 3)  # as many lines before it are the same in both
    old, new = "".join(broken[begin : changes[-1][2]]), "".join(whole[begin : changes[-1][4]])
    return [
        call("Read", file_path=path, limit=5.0),
        call("Edit", file_path=path, old_string=old, new_string=new),
        "Done.",
    ]


def says(script, monkeypatch):
    """The policy's replies are these words, with the log-probabilities that its model gives them.

    Args:
        script: from a conversation to the words.
    """
    torch = pytest.importorskip("torch")
    from rlvr.agents.models.transformers import TransformersAgent

    def sample_each(self, drafts, limits):
        for index, draft in enumerate(drafts):
            ids = [*self.renderer.encode_reply(script(draft.conversation)), min(self.renderer.end_ids)]
            prompt = draft.prompt()
            with torch.inference_mode():
                logits = self.model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            scores = logits.float().log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
            yield index, (ids, scores.tolist())

    monkeypatch.setattr(TransformersAgent, "_sample_each", sample_each)


def tiny():
    """A tiny model and its tokenizer, whose template shows tools."""
    pytest.importorskip("transformers")
    from rlvr.agents.models.tiny import tiny_policy

    model, tokenizer = tiny_policy(hidden=16, layers=1, max_positions=32_000)
    tokenizer.chat_template = TOOLS + tokenizer.chat_template
    return model, tokenizer


def play(script, monkeypatch, *options, **variables):
    """An episode of a tiny policy that says the script's words, and its agent."""
    model, tokenizer = tiny()
    from rlvr.agents.models.transformers import TransformersAgent

    agent = TransformersAgent(model, tokenizer, max_new_tokens=4_000)
    says(script, monkeypatch)
    envs = []

    def make():
        envs.append(HarnessEnv(harness(*options, **variables), turn_timeout=120, renderer=agent.renderer))
        return envs[-1]

    (episode,) = Rollout(make, agent, timeout=300)([RolloutRequest(3)])
    for env in envs:
        env.close()
    for tokens in (episode.tokens, *(branch.tokens for branch in episode.branches)):
        assert tokens.sampled, episode.verdict
        check_capture(tokens, model)
    return episode, agent


def replies_so_far(conversation):
    return sum(message["role"] == "assistant" for message in conversation.messages)


def test_its_work_is_graded_and_is_one_sequence(monkeypatch):
    """Its history has a default filled in, and 5 for 5.0; the policy's tokens stay as they were."""
    words = mends()
    episode, agent = play(lambda conversation: words[replies_so_far(conversation)], monkeypatch, *FEW_TOOLS)
    assert (episode.reward, episode.verdict.status) == (1.0, "correct"), episode.verdict
    assert [turn.branch for turn in episode.turns] == [0, 0, 0]
    assert episode.branches == []
    assert episode.tokens.sampled == sum(len(agent.renderer.encode_reply(each)) + 1 for each in words)


def test_each_sub_agent_is_a_branch(monkeypatch):
    options = {"subagent_type": "general-purpose", "run_in_background": False}
    helpers = [call("Agent", description=each, prompt=f"Count {each}.", **options) for each in "ab"]

    def script(conversation):
        texts = "\n".join(message["content"] for message in conversation.messages if message["role"] == "user")
        (helper,) = [each for each in "ab" if f"Count {each}." in texts] or [""]
        if not helper:
            return "Done." if replies_so_far(conversation) else "\n".join(helpers)
        return f"{helper}: 4" if replies_so_far(conversation) else call("Bash", command="ls | wc -l")

    episode, _ = play(script, monkeypatch, *SUB_AGENTS)
    assert episode.verdict.reason == "nothing in the package was changed"
    assert len(episode.turns) == 6, [turn.action for turn in episode.turns]
    assert [branch.follows for branch in episode.branches] == [-1, -1]
    actions = [[turn.action for turn in episode.turns if turn.branch == branch] for branch in range(3)]
    assert actions[0] == ["\n".join(helpers), "Done."]
    assert sorted(actions[1:]) == [[call("Bash", command="ls | wc -l"), f"{helper}: 4"] for helper in "ab"]


def test_a_summary_in_place_of_the_history_is_a_branch(monkeypatch):
    def script(conversation):
        text = conversation.messages[-1]["content"]
        if "TEXT ONLY" in text:
            return "<summary>I read the tests.</summary>"
        if "Continue the conversation" in text:
            return "Done."
        return call("Bash", command="cat tests/*.py | head -c 12000")

    window = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "24000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}
    episode, _ = play(script, monkeypatch, *FEW_TOOLS, **window)
    assert episode.verdict.valid, episode.verdict
    assert [turn.branch for turn in episode.turns] == [0, 0, 1]
    assert [branch.follows for branch in episode.branches] == [-1]


def test_a_step_is_made_from_what_it_asked_a_local_model(tmp_path, monkeypatch):
    """One member of the group mends the fault, the other gives up: the gradient is of all that it said."""
    folder, seeds = tmp_path / "model", []
    for part in tiny():
        part.save_pretrained(folder)
    from rlvr.algorithms.config import load_config
    from rlvr.algorithms.train.run import Trainer

    plays = harness(*FEW_TOOLS)

    def noted(connection):
        seeds.append(connection.seed)
        return plays(connection)

    def make(split: str | None = None, level: int = 1, **_: object) -> HarnessEnv:
        return HarnessEnv(noted, turn_timeout=120)

    def script(conversation):
        mends_it = conversation.key.split("/")[-2] == "0"
        return mends(seeds[0])[replies_so_far(conversation)] if mends_it else "I give up."

    gym.register("test/ClaudeCode-v0", make, disable_env_checker=True, order_enforce=False)
    config = load_config({
        "env": {"id": "test/ClaudeCode-v0", "timeout": 300, "workers": 2},
        "model": {"name": str(folder)},
        "sampling": {"max_new_tokens": 4_000, "max_length": 32_000},
        "steps": 1, "prompts": 1, "group_size": 2, "out": str(tmp_path / "run"),
    })  # fmt: skip
    trainer = Trainer(config)
    says(script, monkeypatch)
    try:
        trainer.prepare()
        trainer.schedule.ready(0)
        sample = trainer.collect()
        played = sample.collected.played
        assert [(len(episode.turns), episode.reward) for episode in played] == [(3, 1.0), (1, 0.0)]
        for episode in played:
            assert (episode.verdict.valid, episode.branches) == (True, [])
            check_capture(episode.tokens, trainer.model)
        check_step(trainer, sample)
    finally:
        trainer.close()
        del gym.registry["test/ClaudeCode-v0"]
