"""Hindsight: what is known of an episode once it is over, as a text, and its tokens behind a prompt that holds it."""

from __future__ import annotations

import re
from typing import Any

from rlvr.agents.conversation import Conversation, TokenSequence
from rlvr.agents.driver.episode_loop import options_of
from rlvr.agents.episode import Episode
from rlvr.agents.rendering import Renderer
from rlvr.envs import TextEnv, Verdict

HIDDEN = "[answer]"
_WORD = re.compile(r"\w+")


def reference_answer(env: Any, episode: Episode) -> str | None:
    """The answer of an episode's task: "" where the task has none, None where nobody tells (a served environment)."""
    if not isinstance(env, TextEnv):
        return None
    twin = env.spawn()
    twin.reset(seed=episode.seed, options=options_of(episode))
    return twin.direct_answer() or ""


def feedback_of(verdict: Verdict, answer: str | None) -> str:
    """A verdict in words: "correct", or its status and its reason without the words of the answer.

    A policy that read the answer in its prompt would learn to copy it. Where the answer is not known (None), nobody can
    tell whether the reason holds it, and the status stands alone.
    """
    if verdict.success:
        return "correct"
    if answer is None or not verdict.reason:
        return verdict.status
    words = {word.casefold() for word in _WORD.findall(answer.replace("\\boxed", ""))}
    reason = _WORD.sub(lambda word: HIDDEN if word[0].casefold() in words else word[0], verdict.reason)
    return f"{verdict.status}: {reason}"


def feedback_condition(feedback: str) -> str:
    """What stands before a task whose response gets this feedback."""
    return f"Feedback: {feedback}"


def behind_condition(renderer: Renderer, episode: Episode, condition: str) -> TokenSequence:
    """The tokens of an episode behind a prompt with this condition; what was sampled, and all after it, stays."""
    opening = episode.opening()
    messages = [*opening, episode.turns[0].message()]
    prompt = Conversation(episode.key, messages, tools=episode.tools, opening=len(opening))
    tokens = TokenSequence()
    tokens.append_context(renderer.render(prompt, condition))
    tokens.extend(episode.tokens.piece(episode.tokens.mask.index(1), len(episode.tokens)))
    return tokens


def too_long(what: str, max_length: int) -> str:
    """The sentence on sequences that are too long behind a prompt with, say, feedback."""
    return f"sequences that are longer than sampling.max_length {max_length} behind their {what} are left out"
