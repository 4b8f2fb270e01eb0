"""A thought that the template opens in the prompt is a thought, for every agent and adapter: no answer, no call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import PreTrainedTokenizerFast

from rlvr.adapters import rows
from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.adapters.token_session import TokenSession
from rlvr.agents import Conversation, ExpertAgent, Rollout, task_requests
from rlvr.agents.models.token_agent import Draft, TokenAgent
from rlvr.agents.rendering import Renderer
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.tools import Call, read_calls, write_call

from ..templates import CHATML, byte_level_bpe
from .families import family_tokenizer

SUMS = "rlvr/Sums-v0"


def opening(tag: str, closing: str = "", special: Sequence[str] = (), others: Sequence[str] = ()) -> Renderer:
    """A renderer of ChatML whose prompt ends with a tag."""
    backend = byte_level_bpe(("<|im_end|>", "<|im_start|>", *special), others)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.chat_template = CHATML.replace("assistant\n' -}}", f"assistant\n{tag}' -}}}}") + (
        f"{{# {closing} #}}" if closing else ""
    )
    return Renderer(tokenizer)


@cache
def siblings() -> dict[str, tuple[Renderer, str]]:
    return {
        "<think> with a line": (opening("<think>\\n", others=("<think>", "</think>")), "</think>"),
        "<think> of words": (opening("<think>"), "</think>"),
        "[THINK]": (opening("[THINK]", special=("[THINK]", "[/THINK]")), "[/THINK]"),
        "<seed:think>": (opening("<seed:think>", others=("<seed:think>", "</seed:think>")), "</seed:think>"),
        "<|START_THINKING|>": (
            opening("<|START_THINKING|>", special=("<|START_THINKING|>", "<|END_THINKING|>")),
            "<|END_THINKING|>",
        ),
        "<|channel>": (opening("<|channel>thought\\n", special=("<|channel>", "<channel|>")), "<channel|>"),
        "a reason of no list": (opening("<pondering>\\n", "</pondering>"), "</pondering>"),
    }


KINDS = (
    "<think> with a line", "<think> of words", "[THINK]", "<seed:think>", "<|START_THINKING|>", "<|channel>",
    "a reason of no list",
)  # fmt: skip


def ids_of(renderer: Renderer, text: str) -> list[int]:
    """What a policy samples to write this, its own special tokens as tokens."""
    return list(renderer.tokenizer.encode(text, add_special_tokens=False))


class Saying(TokenAgent):
    """Samples the tokens of given texts, one a turn."""

    def __init__(self, renderer: Renderer, texts: Sequence[str], *, ends: bool = True, **options: Any) -> None:
        super().__init__(renderer.tokenizer, end_ids=[], limit=None, max_new_tokens=500, **options)
        self.texts, self.ends = texts, ends

    def _sample(self, drafts: Sequence[Draft], limits: Sequence[int]) -> Iterable[Any]:
        for draft, limit in zip(drafts, limits, strict=True):
            turn = sum(message["role"] == "assistant" for message in draft.conversation.messages)
            ids = ids_of(self.renderer, self.texts[turn]) + [self.renderer.end_id] * self.ends
            yield ids[:limit], [-1.0] * len(ids[:limit])


@cache
def right() -> str:
    """The answer of the first sum, in its box."""
    turn = Rollout(SUMS, ExpertAgent())(task_requests(None, 1, seed=0))[0].turns[-1]
    return f"\\boxed{{{extract(turn.action).answer}}}"


def earned(agent: TokenAgent, env: str = SUMS) -> float:
    return Rollout(env, agent)(task_requests(None, 1, seed=0))[0].reward


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_closed_thought_counts_and_nothing_else(kind: str) -> None:
    renderer, closing = siblings()[kind]
    thought = f"Maybe {right()}, but let me check"
    assert earned(Saying(renderer, [f"{thought}{closing}\nIt is {right()}"])) == 1
    assert earned(Saying(renderer, [f"Maybe \\boxed{{-1}}{closing}\nIt is {right()}"])) == 1
    for ends in (True, False):
        assert earned(Saying(renderer, [thought], ends=ends)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_demonstration_ends_the_thought_before_it_answers(kind: str) -> None:
    renderer, closing = siblings()[kind]
    messages = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "It is \\boxed{4}"}]
    ids, mask = renderer.render_demonstration(messages)
    start = mask.index(1)
    said = renderer.tokenizer.decode(ids[start:], clean_up_tokenization_spaces=False)
    assert said.strip().startswith(closing)
    text = renderer.reply_text(ids[start:-1], ids[:start])
    assert extract(text).answer == "4"
    messages[1]["content"] = text  # as an episode keeps it
    assert renderer.render_demonstration(messages) == (ids, mask)
    messages[1]["content"] = "<think>\nHm.\n</think>\nIt is \\boxed{4}"
    ids, mask = renderer.render_demonstration(messages)
    said = renderer.tokenizer.decode(ids[start:], clean_up_tokenization_spaces=False)
    assert said.count(closing) == 1
    assert "think>\nHm" not in said or closing != "</think>"


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_the_thought_is_not_carried_out(kind: str) -> None:
    renderer, closing = siblings()[kind]
    call = write_call(Call("python", {"code": "1"}), "hermes")
    prompt = renderer.render(Conversation("k", [{"role": "user", "content": "2+2?"}]))
    for text, count in ((f"I could {call}", 0), (f"I could {call}{closing}\n{call}", 1), (f"x{closing}done", 0)):
        action = renderer.reply_text(ids_of(renderer, text), prompt)
        assert len(read_calls(action, "hermes", {"python": ["code"]}).calls) == count


def test_a_prompt_that_opens_none_or_ends_it_changes_nothing() -> None:
    for tag in ("", "<think>\\n\\n</think>\\n\\n"):
        renderer = opening(tag, others=("<think>", "</think>"))
        assert renderer.opened_ids == []
        assert earned(Saying(renderer, [f"It is {right()}"])) == 1
        assert earned(Saying(renderer, [f"<think>Maybe {right()}"])) == 0
    for name in ("chatml", "qwen3", "llama3", "gemma", "mistral", "llama2", "words"):
        assert Renderer(family_tokenizer(name)).opened_thought is None
    for name in ("opened", "glm", "deepseek"):
        assert Renderer(family_tokenizer(name)).opened_thought == ("<think>", "</think>")
    assert Renderer(family_tokenizer("brackets")).opened_thought == ("[THINK]", "[/THINK]")


def test_a_turn_after_a_prompt_that_opens_none_is_no_thought() -> None:
    renderer = siblings()["<think> with a line"][0]
    ids = ids_of(renderer, "It is 4")
    assert renderer.reply_text(ids, []) == "It is 4"
    prompt = renderer.render(Conversation("k", [{"role": "user", "content": "2+2?"}]))
    assert renderer.reply_text(ids, prompt) == "<think>\nIt is 4"


def test_special_tags_that_a_policy_writes_itself_are_thoughts() -> None:
    renderer = opening("", special=("[THINK]", "[/THINK]"))
    text = renderer.reply_text(ids_of(renderer, "[THINK]Maybe \\boxed{5}[/THINK]It is \\boxed{4}"), [])
    assert text == "<think>Maybe \\boxed{5}</think>It is \\boxed{4}"
    assert extract(renderer.reply_text(ids_of(renderer, "[THINK]Maybe \\boxed{5}"), [])).answer is None


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_of_adapters_follow(kind: str) -> None:
    renderer, closing = siblings()[kind]
    spec = TaskSpec(SUMS, 0)
    env, _, _ = spec.start()
    box = f"\\boxed{{{extract(env.unwrapped.solve()).answer}}}"
    for text, reward in ((f"Maybe {box}, but", 0.0), (f"Hm{closing}{box}", 1.0)):
        by_tokens = TokenSession(spec, renderer, 1000)
        by_tokens.step_tokens(ids_of(renderer, text))
        assert by_tokens.session.reward == reward


def test_rows_say_which_thought_the_prompt_opens_to_those_who_hand_on_texts() -> None:
    tokenizer = siblings()["<think> with a line"][0].tokenizer
    (row,) = rows(SUMS, 1, "skyrl", tokenizer=tokenizer)
    spec = TaskSpec.parse(row["extra_info"]["spec"])
    assert spec.thought == ("<think>", "</think>")
    env, _, _ = spec.start()
    box = f"\\boxed{{{extract(env.unwrapped.solve()).answer}}}"
    for text, reward in ((f"Maybe {box}, but", 0.0), (f"Hm</think>{box}", 1.0), (f"<think>Hm</think>{box}", 1.0)):
        session = EpisodeSession(spec)
        session.step(text)
        assert session.reward == reward
    (plain,) = rows(SUMS, 1, "skyrl")
    assert "thought" not in json.loads(plain["extra_info"]["spec"])
