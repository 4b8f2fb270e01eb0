"""Inspect AI: our environments as its tasks, a solver, and scorers for any solver; see docs/adapters/inspect_ai.md.

>>> from inspect_ai import eval                                     # doctest: +SKIP
>>> from rlvr.adapters.suites.inspect_ai import episodes                   # doctest: +SKIP
>>> eval(episodes("rlvr/GuessNumber-v0", 100), model="openai/…")    # doctest: +SKIP

A verdict that is not the policy's fault is *unscored* (a NaN, which Inspect leaves out of every metric and reducer),
never a 0; its reason stands in the score's explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from anyio import to_thread

from rlvr.adapters.rows import rows
from rlvr.adapters.spec import EpisodeSession
from rlvr.adapters.versions import require

TESTED = ("inspect-ai", "0.3.285", "0.4")
require(*TESTED)

from inspect_ai import Task, task  # noqa: E402
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser  # noqa: E402
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, mean, scorer, stderr  # noqa: E402
from inspect_ai.solver import solver  # noqa: E402

STORED = "rlvr:outcome"  # where in a sample's store the solver leaves how its episode went


@task  # type: ignore[untyped-decorator, unused-ignore]
def episodes(
    env_id: str,
    n: int | None = None,
    seed: int = 0,
    use_system: bool = True,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Task:
    """A task of Inspect: ``n`` tasks of an environment, played by the model turn by turn.

    Args:
        env_id: an id, perhaps with the module that registers it before a colon.
        n: how many tasks; None for all of a table.
        seed: another seed, other tasks.
        use_system: whether the conversation begins with the environment's system prompt.
        settings: for ``gym.make``: split, level, max_turns, …
        options: of ``inspect_ai.Task``: epochs, message_limit, fail_on_error, …

    Raises:
        ValueError: as `rlvr.adapters.rows`, or the environment leaves its tools to the chat template.
    """
    return Task(
        dataset=dataset(env_id, n, seed=seed, use_system=use_system, settings=settings),
        solver=play(),
        scorer=[verified_return(), success()],
        **{"name": env_id.rpartition(":")[2].replace("/", "-"), **options},
    )


def dataset(
    env_id: str,
    n: int | None = None,
    *,
    seed: int = 0,
    use_system: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> MemoryDataset:
    """Tasks of an environment as samples; the metadata names each, and holds no answer. Arguments as in `episodes`."""
    table = rows(env_id, n, seed=seed, kwargs=settings, use_system=use_system)
    samples = [
        Sample(
            input=_messages(row["prompt"]), id=row["index"], metadata={"spec": row["spec"], "use_system": use_system}
        )
        for row in table
    ]
    return MemoryDataset(samples, name=env_id)


@solver  # type: ignore[untyped-decorator, unused-ignore]
def play() -> Any:
    """Plays the sample's episode to its end: the model's reply is the action, the observation the next message."""

    async def solve(state: Any, generate: Any) -> Any:
        session = await to_thread.run_sync(_started, state)
        try:
            while not session.done:
                state = await generate(state, tool_calls="none")
                message = await to_thread.run_sync(session.step, state.output.completion)
                if message is not None:
                    state.messages.append(ChatMessageUser(content=message["content"]))
                if state.completed:
                    break
        finally:
            await to_thread.run_sync(session.close)
        state.store.set(STORED, _outcome(session))
        return state

    return solve


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]
def verified_return() -> Any:
    """The episode's return. After another solver than `play`, its assistant messages are played again."""
    return partial(_scored, success=False)


@scorer(metrics=[accuracy(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]
def success() -> Any:
    """Whether the episode ended with a correct verdict; as `verified_return`."""
    return partial(_scored, success=True)


async def _scored(state: Any, target: Any, success: bool) -> Score:
    outcome = state.store.get(STORED) or await to_thread.run_sync(_replayed, state)
    verdict = outcome["verdict"]
    about = {"answer": verdict.get("answer"), "explanation": outcome["explanation"], "metadata": outcome}
    if not outcome["valid"]:
        return Score.unscored(reason="scoring_failed", **about)
    if success:
        return Score(value=CORRECT if verdict.get("status") == "correct" else INCORRECT, **about)
    return Score(value=outcome["reward"], **about)


def _started(state: Any) -> EpisodeSession:
    metadata = state.metadata or {}
    if "spec" not in metadata:
        raise ValueError("the sample names no task: make the data set with rlvr.adapters.suites.inspect_ai.dataset")
    return EpisodeSession(metadata["spec"], use_system=metadata.get("use_system", True))


def _replayed(state: Any) -> dict[str, Any]:
    """The outcome of the model's replies, whatever solver led to them."""
    session = _started(state)
    replies = [message.text for message in state.messages if isinstance(message, ChatMessageAssistant)]
    examples = sum(message["role"] == "assistant" for message in session.messages)
    try:
        for text in replies[examples:]:
            if not session.done:
                session.step(text)
    finally:
        session.close()
    return _outcome(session)


def _outcome(session: EpisodeSession) -> dict[str, Any]:
    """How an episode went, as JSON."""
    verdict = session.verdict.to_dict() if session.verdict else {}
    explanation = str(verdict.get("reason", ""))
    if not session.done:
        explanation = f"the episode was not over after {session.turns} turns; {explanation}".rstrip("; ")
    return {
        "reward": session.reward,
        "valid": session.valid,
        "verdict": verdict,
        "turns": session.turns,
        "done": session.done,
        "truncated": session.truncated,
        "explanation": explanation,
    }


def _messages(prompt: Sequence[Mapping[str, str]]) -> list[Any]:
    kinds = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    return [kinds.get(message["role"], ChatMessageUser)(content=message["content"]) for message in prompt]
