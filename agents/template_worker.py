"""Chat templates are rendered in a worker process: a template comes with a model, and is a stranger's program.

A few characters of it can loop for hours or ask C code for all of the memory, so the worker has limits of processor
time and memory, and is killed and replaced when one is passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlvr.envs.core.hints import nearest
from rlvr.envs.rewards.errors import WorkerError, WorkerFailed, WorkerSpent, WorkerTimeout
from rlvr.envs.rewards.workers import named_pool

CPU_SECONDS: Final = 5.0  # thousands of times what a template takes
_HERE: Final = __name__


class TemplateStopped(ValueError):
    """A chat template passed a limit of time or memory, or no worker could render it."""


def render_template(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Any] | None,
    options: Mapping[str, Any],
    *,
    generate: bool,
) -> str:
    """What a tokenizer's chat template makes of messages; a tokenizer of no template of Jinja renders by its own code.

    Args:
        options: variables for the template, which survive JSON.
        generate: whether the prompt for a reply stands at the end.

    Raises:
        TemplateStopped: it passed a limit, or there is no worker.
        ValueError: the template fails.
    """
    from transformers import PreTrainedTokenizerBase

    if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
        return str(
            tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=generate, **options
            )
        )
    template = tokenizer.get_chat_template(None, tools)
    arguments = [template, messages, tools, generate, {**tokenizer.special_tokens_map, **options}]
    try:
        return str(named_pool(f"{_HERE}:load").call(f"{_HERE}:render", arguments, CPU_SECONDS))
    except WorkerSpent as spent:
        raise TemplateStopped(f"the chat template did not finish: {spent}") from None
    except WorkerTimeout as late:
        raise TemplateStopped(f"the chat template did not finish, {late}") from None
    except WorkerFailed as failed:
        raise ValueError(str(failed)) from None
    except WorkerError as error:
        raise TemplateStopped(f"the chat template could not be rendered: {error}") from None


def require_variables(tokenizer: Any, options: Mapping[str, Any]) -> None:
    """Check that no option is spelt like a variable of a tokenizer's chat template, and is none.

    An option that no variable is like does nothing: a config may go with several models.

    Raises:
        ValueError: one is; the variable is named.
        TemplateStopped: the template could not be read within the limits.
    """
    template = getattr(tokenizer, "chat_template", None)
    if not options or not isinstance(template, str):
        return
    try:
        names = named_pool(f"{_HERE}:load").call(f"{_HERE}:variables", [template], CPU_SECONDS)
    except WorkerFailed:
        return  # rendering says what is wrong with the template
    except WorkerError as error:
        raise TemplateStopped(f"the chat template could not be read: {error}") from None
    for name in options:
        if name not in names and (near := nearest(name, names)):
            raise ValueError(f"the chat template has no variable {name!r}; did you mean {near!r}?")


def load() -> None:
    """Import what a worker needs."""
    from transformers.utils import chat_template_utils

    chat_template_utils.render_jinja_template([[{"role": "user", "content": ""}]], chat_template="-")


def render(
    template: str, messages: list[Any], tools: list[Any] | None, generate: bool, variables: dict[str, Any]
) -> str:
    """What the worker does."""
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered: Any = render_jinja_template(
        [messages], tools=tools, chat_template=template, add_generation_prompt=generate, **variables
    )
    return str(rendered[0][0])


def variables(template: str) -> list[str]:
    """What the worker does to know the names that a template reads and does not set."""
    from jinja2 import Environment, meta

    return sorted(meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)))
