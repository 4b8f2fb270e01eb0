"""The conformance kit: what any adapter must get right, whatever the framework on its other side.

A test writes one function, `Play`: it plays tasks through the adapter and the real framework, with a `RecordingEngine`
in place of the inference engine, and gives each episode back as the trainer would see it. `conform` does the rest:

>>> def play(specs, engine): ...
>>> report = conform(play, RecordingEngine(*tiny_policy(hidden=32)), tokens=True)

The engine records its prompts and what it sampled, so the kit knows which tokens are the policy's without
asking the adapter; and it samples from a model, so one forward pass over the sequence that the adapter put together
shows at once whether tokens, masks and log-probabilities belong together.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym

from rlvr.adapters.spec import TaskSpec
from rlvr.agents import TokenSequence
from rlvr.envs import Verdict
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.text_env import TextEnv, replay
from rlvr.envs.core.verdict import env_error
from rlvr.envs.rewards.workers import resident_pids
from rlvr.envs.tools.sessions import Handle, Sessions

MODULE = "rlvr.adapters.testing"
SAY = "rlvr-testing/Say-v0"
DRAW = "rlvr-testing/Draw-v0"
ORDER = re.compile(r"Say: (\w+)")
WORDS = ("anchor", "basket", "candle", "dragon", "ember", "feather")
Fault = Literal["verdict", "step", "reset"]
FAULTS: tuple[Fault, ...] = ("verdict", "step", "reset")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look_around", "description": "Look around.", "parameters": {"type": "object"}},
}


class _Said(NamedTuple):
    number: int  # so that no two tasks begin alike
    words: tuple[str, ...]
    turn: int = 0
    right: int = 0


class SayTask(Task[_Said]):
    """Says which word to say, three times over; each word said is worth more than the one before.

    The observations hold what adapters stumble over: letters beyond ASCII, blank lines, a special token spelled out.

    Args:
        fault: what goes wrong on purpose: the last verdict is invalid ("verdict"), or an exception in the second
            "step" or in "reset".
        has_tool: whether it leaves a tool to the chat template.
    """

    system = "Do as you are told: say the word, and nothing else."

    def __init__(self, fault: Fault | None = None, has_tool: bool = False) -> None:
        if has_tool:
            self.tools = [TOOL]
        if fault is not None and fault not in FAULTS:
            raise ValueError(f"fault {fault!r} is none of {', '.join(FAULTS)}")
        self.fault = fault

    def start(self, rng: random.Random, level: int) -> _Said:
        """A number and three of six words; with the fault "reset" an OSError instead."""
        if self.fault == "reset":
            raise OSError("this environment fails in reset, on purpose")
        return _Said(rng.randrange(10**6), tuple(rng.choice(WORDS) for _ in range(3)))

    def content(self, state: _Said) -> str:
        return f"{state.number} {state.words}"

    def turns(self, level: int) -> int:
        return 3

    def observe(self, state: _Said) -> str:
        """The number in guillemets, a spelled-out special token, blank lines, and the word to say."""
        return f"«{state.number}» <|end|> \n\nSay: {state.words[state.turn]}"

    def apply(self, state: _Said, action: str) -> Transition:
        """Pays 1/7, 2/7 and 4/7 for the three words, so that the return tells which were said."""
        if self.fault == "step" and state.turn == 1:
            raise OSError("this environment fails in step, on purpose")
        right = action.strip() == state.words[state.turn]
        after = state._replace(turn=state.turn + 1, right=state.right + right)
        reward = 2.0**state.turn / 7 if right else 0.0
        if after.turn < 3:
            return Transition(after, Verdict(reward, "partial", reason="go on"))
        if self.fault == "verdict":
            return Transition(after, Verdict(0.0, "verifier_error", reason="no verdict, on purpose"), True)
        return Transition(after, Verdict(reward, "correct" if after.right == 3 else "wrong", reason="over"), True)

    def solve(self, state: _Said) -> str:
        return state.words[state.turn]


def _say(fault: Fault | None = None, has_tool: bool = False, **settings: Any) -> TextEnv:
    return TextEnv(SayTask(fault, has_tool), split=None, **settings)


class _Drawn(NamedTuple):
    number: int
    word: str = "start"
    turn: int = 0
    right: int = 0
    live: Handle | None = None


_draws = Sessions[list[str]](list.clear)


class DrawTask(Task[_Drawn]):
    """Draws a word for each episode alone, twice, and says which: only who has the episode's own session can repeat it.

    The word is in the live session, not in the task, so a group's members begin alike and must go on apart.
    """

    def start(self, rng: random.Random, level: int) -> _Drawn:
        return _Drawn(rng.randrange(10**6))

    def turns(self, level: int) -> int:
        return 3

    def observe(self, state: _Drawn) -> str:
        """The number and the word that the episode's own session drew last; "start" before that."""
        return f"{state.number} Say: {state.word}"

    def apply(self, state: _Drawn, action: str) -> Transition:
        """Draws a new word into the session; without a session the episode ends as ``env_error``."""
        words = _draws.take(state.live) if state.turn else ["start"]
        if not words:
            return Transition(state, env_error("the session of this episode is gone"), True)
        right = state.right + (action.strip() == words[-1])
        if state.turn == 2:
            reward = float(right == 3)
            return Transition(state, Verdict(reward, "correct" if reward else "wrong", reason="over"), True)
        words.append(f"{secrets.randbelow(10**6):06}")
        after = _Drawn(state.number, words[-1], state.turn + 1, right, _draws.give(words))
        return Transition(after, Verdict(0.0, "partial", reason="go on"))

    def solve(self, state: _Drawn) -> str:
        return state.word

    def detached(self, state: _Drawn) -> _Drawn:
        """The state without its session, which cannot be made again: its words are drawn from the system."""
        return state._replace(live=None)


def _draw(**settings: Any) -> TextEnv:
    return TextEnv(DrawTask(), split=None, **settings)


for _name, _make in ((SAY, _say), (DRAW, _draw)):
    if _name not in gym.registry:
        gym.register(_name, f"{__name__}:{_make.__name__}")  # named, so settings that are data may be given to it


def say_specs(groups: int = 2, group_size: int = 1, fault: Fault | None = None) -> list[TaskSpec]:
    """Tasks of the kit's own environment, each ``group_size`` times in a row."""
    kwargs = {"fault": fault} if fault else {}
    specs = [TaskSpec(SAY, seed, MODULE, kwargs) for seed in range(groups)]
    return [spec for spec in specs for _ in range(group_size)]


def obey(text: str) -> str:
    """The scripted policy: the word that was asked for last, which scores 1 on the kit's environment."""
    orders = ORDER.findall(text)
    return orders[-1] if orders else "nothing"


class EngineCall(NamedTuple):
    """One request to the engine: ids it was given, ids it sampled, their log-probabilities."""

    prompt: list[int]
    sampled: list[int]
    logprobs: list[float]


class EngineFault(RuntimeError):
    """Raised by an engine that was told to fail."""


class RecordingEngine:
    """Stands in for an inference engine: samples from a model, or says what a script says, and writes it all down.

    May be asked from several threads.

    Args:
        model: a small causal language model; scores the script's words, too. None: texts alone (`reply`).
        tokenizer: its tokenizer; its end-of-sequence token ends a reply.
        script: from the text so far to the next words; None samples from the model.
        max_new_tokens: the longest reply.
        wrong_every: every how many replies the script says something else, so that rewards differ in a group.
        fails: every request raises `EngineFault`.
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        script: Callable[[str], str] | None = obey,
        max_new_tokens: int = 12,
        wrong_every: int = 4,
        fails: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.script = model, tokenizer, script
        self.max_new_tokens, self.wrong_every, self.fails = max_new_tokens, wrong_every, fails
        self.calls: list[EngineCall] = []
        self.texts: list[str] = []  # what was replied to texts
        self._lock = threading.Lock()
        self._asked = 0

    def like(self, **changes: Any) -> RecordingEngine:
        """A new engine of the same settings but for those."""
        names = ("script", "max_new_tokens", "wrong_every", "fails")
        return RecordingEngine(self.model, self.tokenizer, **{name: getattr(self, name) for name in names} | changes)

    def reply(self, text: str) -> str:
        """The next words, for surfaces that deal in text: ``text`` is the conversation so far, in any form."""
        with self._lock:
            reply = self._say(text)
            self.texts.append(reply)
            return reply

    def generate(self, prompt: Sequence[int], max_tokens: int | None = None) -> EngineCall:
        """Sample after these tokens, ``max_tokens`` at most."""
        from rlvr.agents.models.sampling import Sampling, uniforms
        from rlvr.agents.models.transformers import sample

        prompt = [int(token) for token in prompt]
        limit = min(self.max_new_tokens, max_tokens or self.max_new_tokens)
        end = self.tokenizer.eos_token_id
        with self._lock:
            if self.script is None:
                self._fail_if_asked()
                noise = uniforms(0, f"{len(self.calls)}", len(prompt), limit)
                ids, logprobs = sample(self.model, [prompt], [limit], [noise], [end], Sampling())[0]
            else:
                text = self._say(self.tokenizer.decode(prompt))
                ids = [*self.tokenizer.encode(text, add_special_tokens=False), end][:limit]
                logprobs = score(self.model, prompt + ids)[len(prompt) :]
            call = EngineCall(prompt, ids, logprobs)
            self.calls.append(call)
            return call

    def _say(self, text: str) -> str:
        self._fail_if_asked()
        if self.script is None:
            raise ValueError("an engine that replies to texts has a script")
        self._asked += 1
        return "nothing" if self._asked % self.wrong_every == 0 else self.script(text)

    def _fail_if_asked(self) -> None:
        if self.fails:
            raise EngineFault("the engine fails, on purpose")


def score(model: Any, ids: Sequence[int]) -> list[float]:
    """Log-probability of each token given those before it, in one forward pass; 0.0 for the first."""
    import torch

    with torch.no_grad():
        sequence = torch.tensor([list(ids)])
        logprobs = model(input_ids=sequence, use_cache=False).logits[:, :-1].float().log_softmax(-1)
    scores: list[float] = logprobs.gather(-1, sequence[:, 1:, None])[0, :, 0].tolist()
    return [0.0, *scores]


@dataclass(slots=True)
class PlayedEpisode:
    """One episode as an adapter left it to its trainer.

    Attributes:
        spec: the task that was asked for.
        reward: what the trainer was given; None when the adapter dropped the episode.
        tokens: prompt and completion with mask and log-probabilities; None where a surface deals in text.
        actions: the policy's texts, in order; read from the tokens when there are any.
        verdict: the last verdict, where the surface carries it.
        weight: 0.0 when the adapter had the trainer to learn nothing from it, by other means than the mask.
    """

    spec: TaskSpec
    reward: float | None
    tokens: TokenSequence | None = None
    actions: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    weight: float = 1.0

    @property
    def trained(self) -> bool:
        """Whether anything of it enters the training signal."""
        return self.reward is not None and self.weight != 0.0 and (self.tokens is None or self.tokens.sampled > 0)


Play = Callable[[Sequence[TaskSpec], RecordingEngine], Sequence[PlayedEpisode]]


def segments(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Where the runs of ones begin and end."""
    edges = [i for i in range(len(mask) + 1) if (i < len(mask) and mask[i] == 1) != (i > 0 and mask[i - 1] == 1)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def actions_of(tokens: TokenSequence, tokenizer: Any) -> list[str]:
    """The texts that the policy sampled, without special tokens."""
    return [
        tokenizer.decode(tokens.ids[start:stop], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for start, stop in segments(tokens.mask)
    ]


def check_rewards(played: PlayedEpisode, tokenizer: Any = None) -> None:
    """The same actions, stepped directly, give the same return and verdict.

    Raises:
        AssertionError: they do not.
    """
    actions = played.actions or (actions_of(played.tokens, tokenizer) if played.tokens else [])
    _require(bool(actions), f"{played.spec}: the adapter says of no action")
    steps = replay(played.spec.make(), played.spec.seed, actions, dict(played.spec.options) or None)
    turns = len(steps) - 1
    _require(turns == len(actions), f"{played.spec}: the episode is over after {turns} actions, not {len(actions)}")
    direct = sum(step[1] for step in steps)
    if played.reward is None:
        raise AssertionError(f"{played.spec}: the adapter dropped an episode with a valid verdict")
    _require(abs(played.reward - direct) < 1e-6, f"{played.spec}: reward {played.reward}, stepped directly {direct}")
    if played.verdict is not None:
        _require(played.verdict == steps[-1][4]["verdict"], f"{played.spec}: another verdict than stepped directly")


def check_masks(played: PlayedEpisode, calls: Sequence[EngineCall]) -> None:
    """The mask is 1 on every token that the engine sampled for this episode, and 0 on every other.

    What the trainer cut off at its longest completion is not asked for.

    Raises:
        AssertionError: a token is masked that should not be, or the other way round, or tokens were encoded anew.
    """
    tokens = _tokens(played)
    lengths = {len(tokens.ids), len(tokens.mask), len(tokens.logprobs)}
    _require(len(lengths) == 1, f"{played.spec}: ids, mask and log-probabilities differ in length")
    expected = [0] * len(tokens)
    for call in calls:
        start = len(call.prompt)
        stop = min(start + len(call.sampled), len(tokens))
        if start < stop and tokens.ids[:stop] == (call.prompt + call.sampled)[:stop]:
            expected[start:stop] = [1] * (stop - start)
    _require(any(expected), f"{played.spec}: the sequence is not what the engine was asked and sampled: encoded anew?")
    wrong = [index for index, (mask, right) in enumerate(zip(tokens.mask, expected, strict=True)) if mask != right]
    _require(not wrong, f"{played.spec}: the mask is wrong at tokens {wrong[:10]} of {len(tokens)}")


def check_logprobs(played: PlayedEpisode, model: Any, tolerance: float = 1e-4) -> float:
    """What was recorded at sampling equals one forward pass over the whole sequence; the largest difference.

    Raises:
        AssertionError: it does not.
    """
    tokens = _tokens(played)
    triples = zip(tokens.mask, tokens.logprobs, score(model, tokens.ids), strict=True)
    off = max((abs(recorded - exact) for mask, recorded, exact in triples if mask), default=0.0)
    _require(
        off <= tolerance, f"{played.spec}: log-probabilities are off by up to {off:.3g}: shifted, or of other tokens"
    )
    return off


def check_groups(episodes: Sequence[PlayedEpisode], group_size: int) -> None:
    """Each run of ``group_size`` episodes begins with the same tokens, and different groups with others.

    Raises:
        AssertionError: they do not.
    """
    _require(len(episodes) % group_size == 0, f"{len(episodes)} episodes are no groups of {group_size}")
    starts: list[tuple[int, ...]] = []
    for begin in range(0, len(episodes), group_size):
        group = episodes[begin : begin + group_size]
        _require(len({episode.spec.to_json() for episode in group}) == 1, "a group's episodes are on several tasks")
        with_tokens = [episode.tokens for episode in group if episode.tokens is not None]
        prompts = {tuple(tokens.ids[: tokens.mask.index(1)]) for tokens in with_tokens if 1 in tokens.mask}
        _require(len(prompts) <= 1, f"a group's episodes began with {len(prompts)} different prompts")
        starts += prompts
    _require(len(set(starts)) == len(starts), "different groups began with the same prompt")


@contextmanager
def nothing_left(grace: float = 10.0) -> Iterator[None]:
    """Fails when the block leaves threads or child processes behind that are still there ``grace`` seconds later.

    Worker pools that stay for as long as this process, such as the one that renders chat templates, do not count.

    Raises:
        AssertionError: it does; they are named.
    """
    before = set(threading.enumerate()), set(_children())
    yield
    deadline = time.monotonic() + grace
    while True:
        threads = [thread.name for thread in threading.enumerate() if thread not in before[0]]
        processes = [pid for pid in _children() if pid not in before[1] | resident_pids()]
        if not threads and not processes:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"left behind: threads {threads}, processes {processes}")
        time.sleep(0.02)


def _children() -> list[int]:
    """Processes whose parent this one is; none where the system keeps no /proc."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            pids.append(int(entry.name))
    return pids


def conform(
    play: Play,
    engine: RecordingEngine,
    *,
    tokens: bool,
    logprobs: bool = True,
    groups: int = 2,
    group_size: int = 2,
    on_fault: Literal["kept out", "raises"] = "kept out",
    engine_errors: bool = True,
) -> list[str]:
    """Put an adapter through everything above; what was checked, a line each.

    Args:
        play: plays tasks through the adapter; one `PlayedEpisode` for each spec, in order, fewer only where it drops.
        engine: what stands in for the inference engine; the kit makes others like it.
        tokens: whether the surface shows tokens (else texts and rewards alone are compared).
        logprobs: whether it carries log-probabilities.
        groups, group_size: how many tasks are played, and how often each.
        on_fault: how an environment that failed shows: its episode is kept out of training, or the error is raised.
        engine_errors: whether an engine that raises must end the rollout with that error.

    Raises:
        AssertionError: the adapter does not conform; the message says where.
    """
    report: list[str] = []
    specs = say_specs(groups, group_size)
    engines = {"scripted policy": engine.like(script=engine.script or obey)}
    if tokens:
        engines["tiny model"] = engine.like(script=None)
    with nothing_left():
        for name, policy in engines.items():
            report += [f"{name}: {line}" for line in _played_well(play, specs, policy, group_size, tokens, logprobs)]
        report.append(_apart(play, engine, 2 * group_size))
        report.append(f"a system prompt: {_shown(play, engine, specs[0], SayTask.system)}")
        report.append(f"a tool of the chat template: {_tool_shown(play, engine)}")
        for fault in FAULTS:
            report.append(f"{fault} fault: {_kept_out(play, engine, fault, on_fault)}")
        if engine_errors:
            _fails(lambda: play(specs, engine.like(fails=True)), "the engine fails, on purpose", "EngineFault")
            report.append("an error of the engine is raised")
    return [*report, "no thread and no process is left"]


def _played_well(
    play: Play, specs: list[TaskSpec], engine: RecordingEngine, group_size: int, tokens: bool, logprobs: bool
) -> list[str]:
    episodes = play(specs, engine)
    _require([episode.spec for episode in episodes] == specs, "the adapter did not play the tasks asked for, in order")
    if tokens:  # before the rewards: with a wrong mask the actions are read wrong
        for episode in episodes:
            check_masks(episode, engine.calls)
    for episode in episodes:
        check_rewards(episode, engine.tokenizer)
    if engine.script is not None:
        _require(
            len({episode.reward for episode in episodes}) > 1, "all rewards are equal, so their order is not tested"
        )
    report = [f"{len(episodes)} rewards as stepped directly"]
    check_groups(episodes, group_size)
    report.append("groups on one task")
    if tokens:
        report.append("masks exactly on the environment's tokens")
    if tokens and logprobs:
        off = max(check_logprobs(episode, engine.model) for episode in episodes)
        report.append(f"log-probabilities as in one forward pass (at most {off:.1e} off)")
    return report


def _apart(play: Play, engine: RecordingEngine, members: int) -> str:
    """The members of a group each go on in a live session of their own."""
    specs = [TaskSpec(DRAW, 0, MODULE)] * members
    episodes = play(specs, engine.like(script=obey, wrong_every=10**9))
    rewards = [episode.reward for episode in episodes]
    _require(rewards == [1.0] * members, f"members of a group did not keep what they drew: rewards {rewards}")
    return f"{members} members of a group, none of which sees what another drew"


def _shown(play: Play, engine: RecordingEngine, spec: TaskSpec, expected: str) -> str:
    """The policy reads something before its first action."""
    read: list[str] = []

    def script(text: str) -> str:
        read.append(text)
        return obey(text)

    play([spec], engine.like(script=script, wrong_every=10**9))
    _require(bool(read) and expected in read[0], f"the policy was not shown {expected!r}")
    return "shown to the policy"


def _tool_shown(play: Play, engine: RecordingEngine) -> str:
    """Tools that are left to the chat template reach the policy, or the adapter refuses the environment."""
    spec = TaskSpec(SAY, 0, MODULE, {"has_tool": True})
    try:
        return _shown(play, engine, spec, TOOL["function"]["name"])
    except AssertionError:
        raise
    except Exception as error:
        refused = error

    def refuse() -> None:
        raise refused

    _fails(refuse, "tools_in='system'")
    return "refused"


def _kept_out(play: Play, engine: RecordingEngine, fault: Fault, on_fault: str) -> str:
    good, bad = say_specs(1)[0], say_specs(1, fault=fault)[0]
    if on_fault == "raises" and fault != "verdict":
        _fails(lambda: play([good, bad], engine.like()), "on purpose")
        return "raised"
    episodes = play([good, bad], engine.like())
    _require(good in [episode.spec for episode in episodes], "the valid episode is missing")
    for episode in episodes:
        faulty = episode.spec == bad
        _require(
            episode.trained != faulty, f"{episode.spec}: " + ("trained on" if faulty else "kept out, and was valid")
        )
    return "kept out of training, the others go on"


def _fails(action: Callable[[], object], *messages: str) -> None:
    """The action raises an error that says one of these, or one caused by such a one. Servers tell the kind alone."""
    raised: BaseException | None = None
    try:
        action()
    except Exception as error:
        raised = error
    _require(raised is not None, f"an error was swallowed: {messages[0]}")
    messages_raised: list[str] = []
    while raised is not None and len(messages_raised) < 10:
        messages_raised.append(str(raised))
        raised = raised.__cause__ or raised.__context__
    is_expected = any(message in text for message in messages for text in messages_raised)
    _require(is_expected, f"another error was raised: {messages_raised}")


def _tokens(played: PlayedEpisode) -> TokenSequence:
    if played.tokens is None:
        raise AssertionError(f"{played.spec}: the adapter gives no tokens")
    return played.tokens


def _require(holds: bool, otherwise: str) -> None:
    """An assert statement that ``python -O`` keeps."""
    if not holds:
        raise AssertionError(otherwise)
