"""slime, and miles, once its fork: our environments as a custom generate function; see docs/adapters/slime.md.

    --custom-generate-function-path rlvr.adapters.trainers.slime.generate
    --dynamic-sampling-filter-path rlvr.adapters.trainers.slime.valid_groups

Written from their source (slime 0.3.1 at 624b824, miles 0.1.0 at 31f1ca9), since neither is on the package index and
both sample from SGLang on GPUs. A task whose verdict is invalid is played once more; should that fail too, the sample
is ABORTED. The fully asynchronous rollouts play such a group again. The others would form a baseline with it
(``remove_sample`` empties a mask, but only after that), so a filter leaves its group out, and the batch is filled up.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy, deepcopy
from functools import partial
from importlib import metadata
from types import ModuleType
from typing import Any

from rlvr.adapters.rows import read_spec
from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.token_session import Sampled, TokenSession, play_tokens
from rlvr.adapters.versions import require
from rlvr.agents.rendering import Renderer

TESTED = {"slime": ("slime", "0.3.1", "0.4"), "miles": ("miles", "0.1.0", "0.2")}
OURS = "rlvr"  # what stands in a sample's metadata
MILES_FILTER = "miles.rollout.filter_hub.dynamic_sampling_filters.check_no_aborted"  # it leaves out our faults, too
FILTER = "--dynamic-sampling-filter-path rlvr.adapters.trainers.slime.valid_groups"
FRESH: dict[str, Callable[[], Any]] = {"tokens": list, "response": str, "response_length": int, "weight_versions": list}
UNSET = (
    *("loss_mask", "rollout_log_probs", "reward", "rollout_routed_experts", "rollout_indexer_topk"),
    *("rollout_top_p_token_ids", "rollout_top_p_token_offsets"),
)

logger = logging.getLogger(__name__)
Filter = Callable[..., Any]


class EpisodeGenerator:
    """The generate function: plays a row's task, tokens to SGLang and back, and nothing encoded twice.

    One with other settings is a module's variable, named in ``--custom-generate-function-path``::

        generate = EpisodeGenerator(use_system=False)

    ``--rollout-max-response-len`` bounds each reply, ``--rollout-max-context-len`` the whole conversation; without it
    the former bounds all that follows the first prompt. An episode that runs out of room keeps what it earned.

    Args:
        use_system: whether the conversation begins with the environment's system prompt.
        template_options: variables for the chat template, beside ``--apply-chat-template-kwargs``.
        attempts: how often a task is played, at most, until its verdict is valid.

    Raises:
        ValueError: attempts is below 1.
    """

    def __init__(
        self, *, use_system: bool = True, template_options: Mapping[str, Any] | None = None, attempts: int = 2
    ) -> None:
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {attempts}")
        self.use_system, self.attempts = use_system, attempts
        self.template_options = dict(template_options or {})
        self._renderers: dict[str, Renderer] = {}

    async def __call__(
        self, args: Any, sample: Any, sampling_params: Mapping[str, Any], evaluation: bool = False
    ) -> Any:
        """Play one sample. What comes back is a copy; of a task that was not played to a valid end, as it was given.

        Raises:
            ValueError: the sample names no task, its environment shows images, or an argument of the training would
                make a fault a 0 or replace the reward.
        """
        trainer = type(sample).__module__.partition(".")[0]
        refuse(args, evaluation)
        spec = read_spec({"metadata": sample.metadata})
        renderer = self._renderer(trainer, args)
        for _ in range(self.attempts):
            played, was_stopped = await self._play(trainer, args, sample, sampling_params, spec, renderer, evaluation)
            if played is not None or was_stopped:
                break
        return _aborted(sample, evaluation) if played is None else played

    def _renderer(self, trainer: str, args: Any) -> Renderer:
        if args.hf_checkpoint not in self._renderers:
            _require(trainer)
            chat_template = getattr(args, "chat_template_path", None)  # of miles
            template_path = {"chat_template_path": chat_template} if chat_template else {}
            load = _module(trainer, "utils.processing_utils").load_tokenizer
            tokenizer = deepcopy(load(args.hf_checkpoint, trust_remote_code=True, **template_path))
            options = {**(getattr(args, "apply_chat_template_kwargs", None) or {}), **self.template_options}
            self._renderers[args.hf_checkpoint] = Renderer(tokenizer, template_options=options)
        return self._renderers[args.hf_checkpoint]

    async def _play(
        self,
        trainer: str,
        args: Any,
        sample: Any,
        sampling_params: Mapping[str, Any],
        spec: TaskSpec,
        renderer: Renderer,
        evaluation: bool,
    ) -> tuple[Any | None, bool]:
        """A copy of the sample with the episode, None where that is not trained on; and whether slime stopped it."""
        longest = args.rollout_max_context_len
        if evaluation and trainer != "miles":  # whose own requests keep to the former
            longest = args.eval_max_context_len
        max_reply = sampling_params["max_new_tokens"]
        begin = partial(TokenSession, spec, renderer, longest or max_reply, longest=longest, use_system=self.use_system)
        played, finish = copy(sample), ""
        _forget(played)
        stops = sorted({*(sampling_params.get("stop_token_ids") or ()), *renderer.end_ids})

        async def ask_engine(episode: TokenSession) -> Sampled | None:
            nonlocal finish
            if not episode.session.turns:
                played.tokens = episode.tokens.ids[:]
            _add_context(args, played, episode.tokens.ids[len(played.tokens) :])
            limit = min(max_reply, episode.tokens_left)
            params = {**sampling_params, "stop_token_ids": stops, "max_new_tokens": limit}
            output = await _reply(trainer, args, played, params, episode.prompt())
            finish = output["meta_info"]["finish_reason"]["type"]
            scored = output["meta_info"].get("output_token_logprobs")
            if finish == "abort" or scored is None:
                finish = "abort"
                return None
            return Sampled([int(each[1]) for each in scored], [float(each[0]) for each in scored])

        episode = await play_tokens(begin, ask_engine)
        return (played if _end(played, episode, finish) else None), finish == "abort"


def refuse(args: Any, evaluation: bool = False) -> None:
    """Refuse arguments of a training under which a fault would be a reward, or a reward not ours.

    Raises:
        ValueError: names the argument, and what to give instead.
    """
    for name in ("group_rm", "reward_key"):
        if getattr(args, name, None):
            raise ValueError(f"the environment gives the reward, a number: leave out --{name.replace('_', '-')}")
    path = getattr(args, "dynamic_sampling_filter_path", None)
    asynchronous = getattr(args, "fully_async", False) or "fully_async" in str(
        getattr(args, "rollout_function_path", "")
    )
    if not (evaluation or asynchronous or path == MILES_FILTER or _leaves_out_faults(path)):
        raise ValueError(
            f"a fault of the environment would enter the baseline of its group, and {path or 'no filter'} leaves out "
            f"such groups: give {FILTER}, or wrap your own filter in `without_faults`"
        )


def _leaves_out_faults(path: str | None) -> bool:
    if not path:
        return False
    module, _, name = path.rpartition(".")
    return getattr(getattr(importlib.import_module(module), name), "leaves_out_faults", False) is True


def without_faults(function: Filter) -> Filter:
    """A dynamic sampling filter that leaves out groups with a fault, and asks ``function`` about the others."""

    def filtered(args: Any, samples: Iterable[Any], **named: Any) -> Any:
        samples = list(samples)
        flat = [sample for each in samples for sample in (each if isinstance(each, list) else [each])]
        if all(sample.status.value != "aborted" for sample in flat):
            return function(args, samples, **named)
        output = _module(_trainer_of(flat), "rollout.filter_hub.base_types").DynamicFilterOutput
        return output(keep=False, reason="fault")

    filtered.leaves_out_faults = True  # type: ignore[attr-defined]
    return filtered


@without_faults
def valid_groups(args: Any, samples: list[Any], **named: Any) -> bool:
    """Keep every group without a fault."""
    return True


@without_faults
def varied_groups(args: Any, samples: list[Any], **named: Any) -> Any:
    """Of the groups without a fault, those whose rewards differ, as the trainer's own filter finds them."""
    filters = _module(_trainer_of(samples), "rollout.filter_hub.dynamic_sampling_filters")
    return filters.check_reward_nonzero_std(args, samples, **named)


def without_faulty_evaluations(
    rollout_id: int, args: Any, data: dict[str, dict[str, list[Any]]], extra_metrics: Any = None
) -> bool:
    """Take the episodes that failed out of an evaluation, for ``--custom-eval-rollout-log-function-path``; the trainer
    then logs the others itself. Without it, or with ``--log-passrate``, which wants groups of one size, or where all
    failed, a failed episode makes the mean no number (NaN). It is never a 0.
    """
    for name, columns in data.items():
        rewards = columns["rewards"]
        played = [index for index, reward in enumerate(rewards) if not math.isnan(reward)]
        if failed := len(rewards) - len(played):
            logger.warning("eval/%s: %d of %d episodes failed, and are not counted", name, failed, len(rewards))
            if played and not args.log_passrate:
                data[name] = {
                    key: [values[index] for index in played] if len(values) == len(rewards) else values
                    for key, values in columns.items()
                }
    return False


def _forget(sample: Any) -> None:
    """Take all that playing has put into a sample out of it."""
    for name, make in FRESH.items():
        setattr(sample, name, make())
    for name in UNSET:
        if hasattr(sample, name):
            setattr(sample, name, None)


async def _reply(trainer: str, args: Any, sample: Any, params: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """Ask SGLang to continue these tokens, and append its answer to the sample."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    post = _module(trainer, "utils.http_utils").post
    if trainer == "miles":
        endpoint = _module(trainer, "rollout.generate_utils.generate_endpoint_utils")
        payload, _ = endpoint.compute_request_payload(args, ids, params)
        output = await post(url, payload, headers=endpoint.compute_routing_headers(args, sample))
        if output["meta_info"]["finish_reason"]["type"] != "abort":
            await endpoint.update_sample_from_response(args, sample, payload, output, update_loss_mask=True)
        return dict(output)
    payload = {"input_ids": ids, "sampling_params": params, "return_logprob": True}
    if args.use_rollout_routing_replay:
        payload["return_routed_experts"] = True
    is_keyed = sample.session_id and getattr(args, "router_policy", None) == "consistent_hashing"
    output = await post(url, payload, headers={"X-SMG-Routing-Key": sample.session_id} if is_keyed else None)
    info = output["meta_info"]
    if info["finish_reason"]["type"] != "abort" and (scored := info.get("output_token_logprobs")) is not None:
        sample.append_response_tokens(
            args,
            tokens=[each[1] for each in scored],
            log_probs=[each[0] for each in scored],
            trainable=True,
            meta_info=info,
            text=output["text"],
        )
    return dict(output)


def _add_context(args: Any, sample: Any, ids: list[int]) -> None:
    """Append the environment's tokens, which the policy did not sample."""
    if not ids:
        return
    if hasattr(sample, "append_response_tokens"):
        sample.append_response_tokens(args, tokens=ids, trainable=False)
        return
    sample.tokens = sample.tokens + ids
    sample.response_length += len(ids)
    sample.loss_mask = sample.loss_mask + [0] * len(ids)
    sample.rollout_log_probs = sample.rollout_log_probs + [0.0] * len(ids)


def _end(sample: Any, episode: TokenSession, finish: str) -> bool:
    """Give the sample its reward and its status; whether it may be trained on."""
    session = episode.session
    if finish == "abort" or not session.valid or not episode.tokens.sampled:
        return False
    if sample.tokens != episode.tokens.ids or sample.loss_mask != episode.tokens.mask[episode.start :]:
        raise RuntimeError(f"SGLang gave more tokens than it was asked for, after {len(episode.tokens)} of them")
    cut = finish == "length" or not session.done
    sample.response = episode.renderer.tokenizer.decode(sample.tokens[episode.start :])  # with its special tokens
    sample.reward = session.reward
    sample.status = type(sample.status)("truncated" if cut else "completed")
    verdict = session.verdict
    outcome = {"turn_rewards": session.turn_rewards, "turns": session.turns}
    if verdict is not None:
        outcome |= {"status": verdict.status, "success": verdict.success}
    sample.metadata = {**sample.metadata, OURS: outcome}
    return True


def _aborted(sample: Any, evaluation: bool) -> Any:
    """The sample as if nobody had played it, to be played again or left out."""
    _forget(sample)
    sample.status = type(sample.status)("aborted")
    if evaluation:
        sample.reward = math.nan  # an evaluation adds rewards up, and would count None as 0
    return sample


def _trainer_of(samples: list[Any]) -> str:
    return type(samples[0]).__module__.partition(".")[0]


def _module(trainer: str, name: str) -> ModuleType:
    return importlib.import_module(f"{trainer}.{name}")


def _require(trainer: str) -> None:
    """Look at the version, where there is one: a checkout on the path has none."""
    if trainer not in TESTED:
        raise ValueError(f"a sample of {trainer!r} was given; this function plays samples of {' and '.join(TESTED)}")
    try:
        metadata.version(trainer)
    except metadata.PackageNotFoundError:
        return
    require(*TESTED[trainer])


generate = EpisodeGenerator()
