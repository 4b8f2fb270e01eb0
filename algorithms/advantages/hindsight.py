"""Hindsight: what is known of an episode once it is over, as a text, and its tokens behind a prompt that holds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rlvr.agents.conversation import Conversation, TokenSequence
from rlvr.agents.driver.episode_loop import options_of, task_of
from rlvr.agents.episode import Episode
from rlvr.agents.rendering import Renderer
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.envs import TextEnv, Verdict

HIDDEN = "[answer]"
_WORD = re.compile(r"\w+")


def reference_answer(env: Any, episode: Episode) -> str | None:
    """The answer of an episode's task: "" where the task has none, None where nobody tells (a served environment)."""
    if not isinstance(env, TextEnv):
        return None
    # asked of a twin, so that the episode under way in this one stays as it is
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
    # word by word: a reason spells the answer in a sentence of its own
    words = {word.casefold() for word in _WORD.findall(answer.replace("\\boxed", ""))}
    reason = _WORD.sub(lambda word: HIDDEN if word[0].casefold() in words else word[0], verdict.reason)
    return f"{verdict.status}: {reason}"


def feedback_texts(episodes: Sequence[Episode], env: Any) -> list[str]:
    """Each episode's verdict in words; the answer is asked once a group, which has one task."""
    answers: dict[int, str | None] = {}
    texts = []
    for episode in episodes:
        if episode.group not in answers:
            answers[episode.group] = reference_answer(env, episode)
        assert episode.verdict is not None  # for the type checker: what is learned from has ended
        texts.append(feedback_of(episode.verdict, answers[episode.group]))
    return texts


def hints(episodes: Sequence[Episode], env: Any, kinds: Sequence[str]) -> list[str]:
    """What a teacher reads before each episode's task; "" where there is nothing.

    Args:
        kinds: of "sibling", the first other success of the group; "demonstration", the expert's; and "feedback", the
            verdict in words on an episode that failed.
    """
    parts: list[list[str]] = [[] for _ in episodes]
    successes = [index for index, episode in enumerate(episodes) if episode.success]
    if "demonstration" in kinds:
        firsts = {episode.group: episode for episode in episodes}  # one of each group, which has one task
        shown = Rollout(env, ExpertAgent(), timeout=None)([task_of(episode) for episode in firsts.values()])
        solutions = {group: solution_of(each) for group, each in zip(firsts, shown, strict=True) if each.success}
    texts = feedback_texts(episodes, env) if "feedback" in kinds else []
    for index, episode in enumerate(episodes):
        # never itself: a sequence that read its own reply would be taught to repeat it
        siblings = [i for i in successes if i != index and episodes[i].group == episode.group]
        if "sibling" in kinds and siblings:
            parts[index].append(f"A solution:\n{solution_of(episodes[siblings[0]])}")
        if "demonstration" in kinds and episode.group in solutions:
            parts[index].append(f"A solution:\n{solutions[episode.group]}")
        if "feedback" in kinds and not episode.success:
            parts[index].append(feedback_condition(texts[index]))
    return ["\n\n".join(each) for each in parts]


def solution_of(episode: Episode) -> str:
    """The actions of an episode, with the observations between them."""
    # the first observation is the task, which the prompt holds anyway
    texts = [text for turn in episode.turns for text in (turn.observation, turn.action)]
    return "\n".join(texts[1:])


def feedback_condition(feedback: str) -> str:
    """What stands before a task whose response gets this feedback."""
    return f"Feedback: {feedback}"


def behind_condition(renderer: Renderer, episode: Episode, condition: str) -> TokenSequence:
    """The tokens of an episode behind a prompt with this condition; what was sampled, and all after it, stays."""
    opening = episode.opening()
    # the prompt goes up to the first turn of the policy's own
    messages = episode.messages()[: len(opening) + 2 * episode.prefix + 1]
    prompt = Conversation(episode.key, messages, tools=episode.tools, opening=len(opening))
    # c + x in place of x, then y as it was sampled    [T] -> [T + |c|]
    tokens = TokenSequence()
    tokens.append_context(renderer.render(prompt, condition))
    # from the first sampled token on: the prompt before it is the one that has the condition
    tokens.extend(episode.tokens.piece(episode.tokens.mask.index(1), len(episode.tokens)))
    return tokens


def too_long(what: str, max_length: int) -> str:
    """The sentence on sequences that are too long behind a prompt with, say, feedback."""
    return f"sequences that are longer than sampling.max_length {max_length} behind their {what} are left out"
