"""The loop that plays many episodes at once, whatever they are played for, and `ActiveEpisode`, one under way.

Whoever plays an episode does it through `ActiveEpisode`: the rollout, continuations from states inside episodes, and
the sessions of foreign trainers. It makes the calls of the environment and records what they return; where and when
they run is the caller's business.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import gymnasium as gym

from rlvr.agents.conversation import (
    FLAWS,
    Agent,
    Conversation,
    Reply,
    TokenSequence,
    capability,
    observation_to_message,
    opening_messages,
)
from rlvr.agents.driver.branches import Branches
from rlvr.agents.driver.env_calls import (
    NO_CALL,
    PLAYED,
    CallRaised,
    EnvCall,
    EnvCalls,
    Event,
    Outcome,
    TimeLimitExceeded,
)
from rlvr.agents.episode import Episode, RolloutRequest, Turn
from rlvr.envs import Verdict
from rlvr.envs.core.images import text_of
from rlvr.envs.core.verdict import Provoked, env_error, provoked_verdict
from rlvr.envs.vector.step_trials import StepHistory

Env = gym.Env[Any, str]
Submit = Callable[[Sequence[Conversation]], list["Future[Reply]"]]
ActEach = Callable[[Sequence[Conversation]], Iterator[tuple[int, Reply]]]
LATER = -1  # the index of a future that is no reply
LARGEST: Final = 3.4e38  # of rewards: learners keep them as 32-bit floats


@dataclass(slots=True)
class ActiveEpisode:
    """An episode and what it is played with.

    Attributes:
        env: the environment; None until it has been made, and after one that failed.
        episode: the record. It has the tokens once the episode has ended or is paused.
        conversation: what the agent sees; only this class changes it.
        use_system: whether the conversation begins with the environment's system prompt.
        info: the last ``info`` of the environment.
        make: makes the environment where there is none, and another in which a step that is over its time is played
            again.
        timed: whether the episode's ``usage`` gets seconds.
        asked_at: when the agent was asked, by `time.perf_counter`; 0.0 for one whose time is not taken.
        may_branch: whether an environment may hold several conversations; where whoever plays the episode takes one
            alone, each observation is its next message.
        branches: these conversations, see `rlvr.agents.driver.branches`; None where the environment holds one.
        prefix: actions that are played before the agent is asked.
    """

    env: Env | None
    episode: Episode
    conversation: Conversation
    use_system: bool = True
    info: dict[str, Any] = field(default_factory=dict)
    make: Callable[[], Env] | None = None
    timed: bool = False
    asked_at: float = 0.0
    may_branch: bool = False
    branches: Branches | None = None
    prefix: Sequence[str] = ()

    # the beginning

    def reset_call(self, index: int, make: Callable[[], Env] | None = None) -> EnvCall:
        """The call that begins the episode, or plays again what there is of it."""
        episode = self.episode
        seed, options = episode.seed, options_of(episode)

        def reset(env: Env) -> tuple[Any, dict[str, Any]]:
            if not episode.turns:
                return env.reset(seed=seed, options=options)
            *_, (_, observation) = replay(env, episode)
            return observation, {}

        return EnvCall(index, self.env, reset, make)

    def begin(self, outcome: Outcome) -> bool:
        """Record what `reset_call` returned; whether the episode has ended, which only a fault brings about."""
        if self.env is not None:
            self.conversation.env = self.env.unwrapped
        where = "replay" if self.episode.turns else "reset"
        if isinstance(outcome, BaseException):
            return self._fault(outcome, where)
        try:
            observation, self.info = outcome
            if self.episode.turns:
                self._continue(observation)
            else:
                self._begin(observation)
        except Exception as error:  # somebody else's environment returns anything
            return self.fail(where, error)
        return False

    def _begin(self, observation: Any) -> None:
        episode, info = self.episode, self.info
        episode.index = info.get("index", episode.index)
        episode.split = info.get("split", episode.split)
        episode.level = info.get("level", episode.level)
        if self.use_system and info.get("system"):
            episode.system = info["system"]
        episode.examples = opening_messages(None, info.get("examples", ()))
        self.conversation.messages += episode.opening()
        self.conversation.opening = len(self.conversation.messages)
        if info.get("tools"):
            episode.tools = self.conversation.tools = json.dumps(info["tools"])
        self._observe(observation)

    def _continue(self, observation: Any) -> None:
        """Continue an episode that was paused and whose turns so far have been played again."""
        episode, conversation = self.episode, self.conversation
        if any(turn.branch for turn in episode.turns):
            raise ValueError("an episode with branches cannot be continued after a pause: sample without a segment")
        self.may_branch = False  # what a program asks from here on is told in one conversation
        if text_of(observation) != episode.turns[-1].observation:
            raise ValueError("the environment returned another observation the second time: it cannot be continued")
        *before, last = episode.messages()[:-1]  # the last message is the empty action of the turn that was paused
        conversation.messages.extend(before)
        conversation.opening = len(episode.opening())
        # before the first reply of its own nothing is rendered, and a prefix may stand before that
        conversation.rendered = len(before) if episode.tokens else 0
        conversation.messages.append(last)
        conversation.tools = episode.tools
        conversation.tokens = episode.tokens.copy()
        conversation.partial_completion, episode.partial_completion = episode.partial_completion, TokenSequence()

    # a turn

    @property
    def in_prefix(self) -> bool:
        """Whether the action of the present turn is one of the prefix."""
        return len(self.episode.turns) <= len(self.prefix)

    def prefix_reply(self) -> Reply:
        """That action as text alone: the agent renders it as a part of its first prompt, so it carries no loss."""
        self.episode.prefix = len(self.episode.turns)
        return Reply(self.prefix[self.episode.prefix - 1])

    def answer(self, reply: Reply, index: int = 0) -> EnvCall:
        """Record the agent's reply; the call that plays it, which does nothing when the episode ends or pauses here."""
        return EnvCall(index, self.env, self.record(reply), self.make, self.played)

    def played(self) -> StepHistory:
        """What the episode is played again with, its last action included."""
        episode = self.episode
        if episode.seed is None:
            return StepHistory()
        first = episode.turns[0].observation
        return StepHistory((episode.seed, options_of(episode)), first, [turn.action for turn in episode.turns])

    def record(self, reply: Reply) -> Callable[[Env], Any] | None:
        """Record the agent's reply; what plays it in the environment, None when the episode ends or pauses here."""
        episode, conversation, turn = self.episode, self.conversation, self.episode.turns[-1]
        turn.action, turn.stop = text, stop = reply.text, reply.stop
        turn.limit, turn.flaw, turn.option_logprobs = reply.limit, reply.flaw, [*reply.option_logprobs]
        self._count(reply)
        if stop == "stop" or stop == "length":
            conversation.append_reply(reply)
            turn.end = self._end_of_tokens()
            if self.branches is not None:
                self.branches.note_reply(len(episode.turns) - 1, conversation)
            return lambda env: env.step(text)
        turn.end = self._end_of_tokens()
        if reply.stop == "pause":
            conversation.append_reply(reply)
            episode.partial_completion = conversation.partial_completion.copy()
        elif reply.stop == "context":
            episode.truncated = True
            episode.verdict = turn.verdict = Verdict(0.0, "wrong", reason=_full(turn.limit))
        else:
            episode.verdict = turn.verdict = env_error(str(reply.error), "agent")
        return None

    def step(self, outcome: Outcome) -> bool:
        """Record what the call of `answer` returned; whether the episode has ended or is paused."""
        if outcome is NO_CALL:
            self._keep_tokens()
            return True
        if isinstance(outcome, BaseException):
            return self._fault(outcome, "step")
        turn, episode = self.episode.turns[-1], self.episode
        try:
            observation, reward, terminated, truncated, self.info = outcome
            turn.reward = float(reward)
            if not abs(turn.reward) <= LARGEST:  # also NaN
                raise ValueError(f"the reward was {reward!r}: it must be a number of at most {LARGEST:.2g} either way")
            turn.verdict = verdict = self.info.get("verdict")
            if verdict is not None and not verdict.valid:  # a fault ends the episode, also in the middle
                turn.reward, truncated = 0.0, not terminated
            if not (terminated or truncated):
                self._observe(observation)
                return False
        except Exception as error:  # somebody else's environment returns anything
            return self.fail("step", error)
        episode.terminated, episode.truncated = bool(terminated), bool(truncated)
        episode.verdict = _explained(turn.verdict or _from_reward(turn.reward, self.info), turn)
        turn.verdict = turn.verdict and episode.verdict
        episode.final_observation = text_of(observation)
        self._keep_tokens()
        return True

    def take(self, call: EnvCall, outcome: Outcome) -> bool:
        """Record what a call of this episode returned; whether the episode has ended or is paused."""
        self.env = None if isinstance(outcome, TimeLimitExceeded) else call.env
        if self.timed:
            self._add({"env_seconds": call.seconds})
            self.episode.usage["ended"] = time.time()
        return self.step(outcome) if self.conversation.messages else self.begin(outcome)

    # what both need

    def fail(self, where: str, error: Exception) -> bool:
        """End the episode: "timeout" where nothing came in time, a 0 if the action made that, else "env_error"."""
        if isinstance(error, TimeLimitExceeded) and error.provoked:
            self.episode.verdict = provoked_verdict("the environment", f"{where}: {error}")
            self.episode.terminated = True
        elif isinstance(error, Provoked):
            self.episode.verdict = provoked_verdict(where, f"{error}")
            self.episode.terminated = True
        elif isinstance(error, TimeLimitExceeded):
            self.episode.verdict = env_error(str(error), where, timeout=True)
        else:
            self.episode.verdict = env_error(error, where)
        if self.episode.turns:
            self.episode.turns[-1].reward = 0.0
        self._keep_tokens()
        return True

    def _count(self, reply: Reply) -> None:
        """Add up what a reply took, and note which model it is from."""
        if reply.stop == "pause":  # the tokens so far are among those of the whole reply
            return
        tokens: dict[str, float] = {}
        if reply.completion is not None:
            tokens = {"prompt_tokens": len(self.conversation.tokens) + len(reply.context)}
            tokens["completion_tokens"] = reply.completion.sampled
        if self.asked_at:
            tokens["model_seconds"] = time.perf_counter() - self.asked_at
        self._add(tokens | dict(reply.usage))
        if reply.model:
            self.episode.agent = {**self.episode.agent, "revision": reply.model}

    def _add(self, usage: Mapping[str, float]) -> None:
        totals = self.episode.usage
        for name, value in usage.items():
            totals[name] = totals.get(name, 0) + value

    def _fault(self, error: BaseException, where: str) -> bool:
        if not isinstance(error, Exception):  # somebody wants the process to end
            raise error
        return self.fail(where, error)

    def _observe(self, observation: Any) -> None:
        message = observation_to_message(observation, self.info)
        turn = Turn(message["content"], message["role"], "", "stop")
        if len(message) > 2:
            turn.image = "".join(message.get("images", ()))
            turn.outputs = [*message.get("outputs", ())]
        if self.may_branch and "follows" in self.info:
            self.branches = self.branches or Branches()
            if not self.episode.turns:  # the program's own messages say what the opening does
                self.conversation.messages.clear()
            first = (self.branches.conversations or [self.conversation])[0]
            self.conversation, added = self.branches.take_up(self.info, first, self.use_system)
            turn.branch = self.branches.current
            if added is not None:  # the observation tells the whole where it does not follow the turn before
                turn.observation, turn.role = added["content"], added["role"]
            if not self.episode.turns:
                self.conversation.opening = len(self.conversation.messages) - 1
        else:
            self.conversation.messages.append(message)
        self.episode.turns.append(turn)

    def _end_of_tokens(self) -> int:
        """Tokens of the first conversation so far: a branch's are its own."""
        several = self.branches is not None and self.branches.conversations
        return len(several[0].tokens if several else self.conversation.tokens)

    def _keep_tokens(self) -> None:
        branches, tokens = self.branches, self.conversation.tokens
        if branches is not None and branches.conversations:
            tokens, self.episode.branches = branches.conversations[0].tokens, branches.beside_the_first()
        if tokens:
            self.episode.tokens = tokens.copy()


def _full(limit: str) -> str:
    return "the context was full before the reply" + (f" ({limit})" if limit else "")


def _explained(verdict: Verdict, turn: Turn) -> Verdict:
    """A verdict that is not right says that the last reply was cut, or what came in its place."""
    reasons = [FLAWS[turn.flaw]] if turn.flaw in FLAWS else []
    if turn.stop == "length":
        reasons.append(f"the reply was cut at {turn.limit or 'its token limit'}")
    if not reasons or verdict.success or not verdict.valid:
        return verdict
    unread = verdict.status == "wrong" and not verdict.reward and turn.flaw in FLAWS and turn.flaw != "bad_call"
    return verdict.replace(
        status="unparsable" if unread else verdict.status, reason=f"{'; '.join(reasons)}: {verdict.reason}"
    )


def new_episode(env_id: str, request: RolloutRequest, env_digest: str = "") -> Episode:
    """The record of an episode that has not begun."""
    return Episode(
        env_id=env_id,
        key=request.key(env_id),
        seed=request.seed,
        group=request.group,
        sample=request.sample,
        index=request.index,
        split=request.split,
        level=request.level,
        env_digest=env_digest,
    )


def task_of(episode: Episode) -> RolloutRequest:
    """The task that an episode is played on."""
    return RolloutRequest(episode.seed, episode.index, episode.split, episode.level)


def options_of(episode: Episode) -> dict[str, Any] | None:
    """The ``options`` of the reset that begins an episode."""
    options = {"index": episode.index, "split": episode.split, "level": episode.level}
    return {name: value for name, value in options.items() if value is not None} or None


def replay(env: Env, episode: Episode, first: Any = None) -> Iterator[tuple[Turn, Any]]:
    """Play an episode again: each turn with what the environment observes before it; the last action is not played.

    ``first`` is what a reset to this task has observed; without it the environment is reset.
    """
    observation = env.reset(seed=episode.seed, options=options_of(episode))[0] if first is None else first
    for number, turn in enumerate(episode.turns):
        if number:
            observation = env.step(episode.turns[number - 1].action)[0]
        yield turn, observation


def _from_reward(reward: float, info: dict[str, Any]) -> Verdict:
    """A verdict for an environment that gives none: ``info["success"]``, else whether the reward is positive."""
    success = bool(info.get("success", reward > 0))
    return Verdict(reward, "correct" if success else "wrong", reason="the environment gives a reward and no verdict")


@dataclass(slots=True)
class EpisodeLoop:
    """Plays episodes until they end or pause, `batch_size` of them at a time.

    An agent that has a ``submit`` (`ConcurrentAgent`) is asked for each episode as soon as it is ready, and no episode
    waits for another one's reply. Any other agent is asked for all that are ready, in one batch.

    With ``each_reply`` an agent that has an ``act_each`` is asked in batches too, and each reply is played as soon
    as it is there: an episode that it ends need not wait for the longest reply of the batch.

    Where one episode alone is under way, an agent that says ``in_any_thread`` is asked in the environment's thread:
    to pass a turn to another thread and back costs more than everything else the loop does for it.

    Args:
        agent: who acts.
        calls: makes the calls of the environments; closed at the end.
        batch_size: how many episodes are under way at once.
        each_reply: play each reply of a batch by itself.
    """

    agent: Agent
    calls: EnvCalls
    batch_size: int
    each_reply: bool = False
    _replies: dict[int, Future[Reply]] = field(default_factory=dict, init=False)  # waited for

    def run(self, episodes: Iterable[ActiveEpisode | Future[None]]) -> Iterator[tuple[int, ActiveEpisode]]:
        """Each episode once it has ended or is paused, with its index among the episodes.

        Episodes are taken when there is place for them. One whose conversation has messages has begun already. A future
        among them means that there is none now, and that it is time to ask again once it is done.
        """
        try:
            yield from self._run(iter(episodes))
        finally:
            self.calls.close()
            for reply in self._replies.values():
                reply.cancel()

    def _run(self, waiting: Iterator[ActiveEpisode | Future[None]]) -> Iterator[tuple[int, ActiveEpisode]]:
        submit: Submit | None = capability(self.agent, "submit")
        act_each: ActEach | None = capability(self.agent, "act_each") if self.each_reply else None
        live: dict[int, ActiveEpisode] = {}
        ready: list[int] = []
        calls: list[EnvCall] = []
        scripted = bool(capability(self.agent, "in_any_thread"))
        here = self.calls.in_other_threads and submit is None and scripted
        in_turn = not self.calls.parallel and submit is None
        numbers = count()
        exhausted = asked = False  # asked: for more, which is not there yet

        def take(events: Iterable[Event]) -> Iterator[tuple[int, ActiveEpisode]]:
            """Take in what has happened: the episodes that have ended by it."""
            nonlocal asked
            for what, outcome in events:
                if what == LATER:
                    asked = False
                elif not isinstance(what, EnvCall):
                    calls.append(live[what].answer(self._replies.pop(what).result(), what))
                elif isinstance(outcome, CallRaised):
                    raise outcome.error
                elif outcome is PLAYED or live[what.index].take(what, outcome):
                    yield what.index, live.pop(what.index)
                else:
                    ready.append(what.index)

        while True:
            while not exhausted and not asked and len(live) < self.batch_size:
                active = next(waiting, None)
                if active is None:
                    exhausted = True
                elif isinstance(active, Future):
                    asked = True
                    self.calls.watch(LATER, active)
                else:
                    live[index := next(numbers)] = active
                    active.timed &= not scripted  # a second run of such an agent writes the same bytes
                    if active.conversation.messages:
                        ready.append(index)
                    else:
                        calls.append(active.reset_call(index, active.make))
            if not live and not asked:
                return
            if here and len(live) == len(calls) == 1:
                calls[0].then = self._then(live[calls[0].index])
            if not in_turn:
                self._start(calls)
            prefixed = [i for i in ready if live[i].in_prefix]
            calls += [live[i].answer(live[i].prefix_reply(), i) for i in prefixed]
            ready[:] = [i for i in ready if i not in prefixed]
            if ready:
                batch = ready[:]
                ready.clear()
                conversations = [live[index].conversation for index in batch]
                began = time.perf_counter()
                for index in batch:
                    live[index].asked_at = began if live[index].timed else 0.0
                if submit is not None:
                    for index, future in zip(batch, submit(conversations), strict=True):
                        self._replies[index] = future
                        self.calls.watch(index, future)
                elif act_each is not None:
                    self._start(calls)
                    for number, reply in act_each(conversations):
                        self.calls.start([live[batch[number]].answer(reply, batch[number])])
                        yield from take(self.calls.collect(every_call=in_turn, wait_for_one=False))
                else:
                    replies = self.agent.act(conversations)
                    calls += [live[i].answer(reply, i) for i, reply in zip(batch, replies, strict=True)]
            self._start(calls)
            # In turn, the agent's next batch holds all episodes; otherwise whichever are ready.
            idle = bool(ready) or not (live or asked)
            yield from take(self.calls.collect(every_call=in_turn, wait_for_one=not idle))

    def _start(self, calls: list[EnvCall]) -> None:
        self.calls.start(calls[:])
        calls.clear()

    def _then(self, active: ActiveEpisode) -> Callable[[EnvCall, Outcome], EnvCall | None]:
        """Plays an episode on, after each call: records its outcome, asks the agent, and gives the next call."""

        def go_on(call: EnvCall, outcome: Outcome) -> EnvCall | None:
            if active.take(call, outcome):
                return None
            reply = active.prefix_reply() if active.in_prefix else act([active.conversation])[0]
            call.function, call.played = active.record(reply), active.played
            return call

        act = self.agent.act
        return go_on
