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
from typing import Any, NamedTuple

from rlvr.adapters.quick_calls import call
from rlvr.adapters.rows import read_spec
from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.token_session import TokenSession
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


class _Played(NamedTuple):
    """An episode, the sample that holds it, and whether it may be trained on; ``stopped`` by slime at a batch's end."""

    episode: TokenSession
    sample: Any
    valid: bool
    stopped: bool


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
            played = await self._play(trainer, args, sample, sampling_params, spec, renderer, evaluation)
            if played.valid or played.stopped:
                break
        return played.sample if played.valid else _aborted(sample, evaluation)

    def _renderer(self, trainer: str, args: Any) -> Renderer:
        found = self._renderers.get(args.hf_checkpoint)
        if found is None:
            _require(trainer)
            chat_template = getattr(args, "chat_template_path", None)  # of miles
            given = {"chat_template_path": chat_template} if chat_template else {}
            load = _module(trainer, "utils.processing_utils").load_tokenizer
            tokenizer = deepcopy(load(args.hf_checkpoint, trust_remote_code=True, **given))
            options = {**(getattr(args, "apply_chat_template_kwargs", None) or {}), **self.template_options}
            found = self._renderers[args.hf_checkpoint] = Renderer(tokenizer, template_options=options)
        return found

    async def _play(
        self,
        trainer: str,
        args: Any,
        sample: Any,
        sampling_params: Mapping[str, Any],
        spec: TaskSpec,
        renderer: Renderer,
        evaluation: bool,
    ) -> _Played:
        longest = args.rollout_max_context_len
        if evaluation and trainer != "miles":  # whose own requests keep to the former
            longest = args.eval_max_context_len
        reply = sampling_params["max_new_tokens"]
        begin = partial(TokenSession, spec, renderer, longest or reply, longest=longest, use_system=self.use_system)
        episode = await call(f"reset {spec.env_id}", begin)
        own, rewards, finish = _fresh(sample, episode), list[float](), ""
        stops = sorted({*(sampling_params.get("stop_token_ids") or ()), *renderer.end_ids})
        try:
            while not episode.done and episode.tokens_left > 0 and finish != "abort":
                asked = {**sampling_params, "stop_token_ids": stops, "max_new_tokens": min(reply, episode.tokens_left)}
                output = await _reply(trainer, args, own, asked, episode.prompt())
                finish = output["meta_info"]["finish_reason"]["type"]
                scored = output["meta_info"].get("output_token_logprobs")
                if finish == "abort" or scored is None:
                    finish = "abort"
                    continue
                before, length = episode.session.reward, len(episode.tokens)
                ids, logprobs = [int(each[1]) for each in scored], [float(each[0]) for each in scored]
                await call(spec.env_id, partial(episode.step_tokens, ids, logprobs))
                rewards.append(episode.session.reward - before)
                _add_context(args, own, episode.tokens.ids[length + len(ids) :])
        finally:
            await call(f"close {spec.env_id}", episode.session.close)
        valid = _end(own, episode, rewards, finish)
        return _Played(episode, own, valid, finish == "abort")


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
    for name, found in data.items():
        rewards = found["rewards"]
        kept = [index for index, reward in enumerate(rewards) if reward == reward]  # NaN alone is not itself
        if failed := len(rewards) - len(kept):
            logger.warning("eval/%s: %d of %d episodes failed, and are not counted", name, failed, len(rewards))
            if kept and not args.log_passrate:
                data[name] = {
                    key: [values[index] for index in kept] if len(values) == len(rewards) else values
                    for key, values in found.items()
                }
    return False


def _forget(sample: Any) -> None:
    """Take all that playing has put into a sample out of it."""
    for name, make in FRESH.items():
        setattr(sample, name, make())
    for name in UNSET:
        if hasattr(sample, name):
            setattr(sample, name, None)


def _fresh(sample: Any, episode: TokenSession) -> Any:
    """A copy of a sample with the first prompt, and nothing of an earlier try."""
    own = copy(sample)
    _forget(own)
    own.tokens = episode.tokens.ids[:]
    return own


async def _reply(trainer: str, args: Any, own: Any, asked: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """SGLang's answer to so many tokens, which the sample has afterwards."""
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    post = _module(trainer, "utils.http_utils").post
    if trainer == "miles":
        endpoint = _module(trainer, "rollout.generate_utils.generate_endpoint_utils")
        payload, _ = endpoint.compute_request_payload(args, ids, asked)
        output = await post(url, payload, headers=endpoint.compute_routing_headers(args, own))
        if output["meta_info"]["finish_reason"]["type"] != "abort":
            await endpoint.update_sample_from_response(args, own, payload, output, update_loss_mask=True)
        return dict(output)
    payload = {"input_ids": ids, "sampling_params": asked, "return_logprob": True}
    if args.use_rollout_routing_replay:
        payload["return_routed_experts"] = True
    keyed = own.session_id and getattr(args, "router_policy", None) == "consistent_hashing"
    output = await post(url, payload, headers={"X-SMG-Routing-Key": own.session_id} if keyed else None)
    info = output["meta_info"]
    if info["finish_reason"]["type"] != "abort" and (scored := info.get("output_token_logprobs")) is not None:
        own.append_response_tokens(
            args,
            tokens=[each[1] for each in scored],
            log_probs=[each[0] for each in scored],
            trainable=True,
            meta_info=info,
            text=output["text"],
        )
    return dict(output)


def _add_context(args: Any, own: Any, ids: list[int]) -> None:
    """What the environment said, which the policy did not sample."""
    if not ids:
        return
    if hasattr(own, "append_response_tokens"):
        own.append_response_tokens(args, tokens=ids, trainable=False)
        return
    own.tokens = own.tokens + ids
    own.response_length += len(ids)
    own.loss_mask = own.loss_mask + [0] * len(ids)
    own.rollout_log_probs = own.rollout_log_probs + [0.0] * len(ids)


def _end(own: Any, episode: TokenSession, rewards: list[float], finish: str) -> bool:
    """Give the sample its reward and its status; whether it may be trained on."""
    session = episode.session
    if finish == "abort":
        return False
    if not session.valid:
        logger.warning("%s is not trained on: %s", session.spec.to_json(), session.verdict)
        return False
    if not episode.tokens.sampled:
        logger.warning("%s is not trained on: its first prompt leaves no room for a reply", session.spec.to_json())
        return False
    if own.tokens != episode.tokens.ids or own.loss_mask != episode.tokens.mask[episode.start :]:
        raise RuntimeError(f"SGLang gave more tokens than it was asked for, after {len(episode.tokens)} of them")
    cut = finish == "length" or not session.done
    own.response = episode.renderer.tokenizer.decode(own.tokens[episode.start :])  # with its special tokens
    own.reward = session.reward
    own.status = type(own.status)("truncated" if cut else "completed")
    verdict = session.verdict
    held = {"turn_rewards": rewards, "turns": session.turns}
    if verdict is not None:
        held |= {"status": verdict.status, "success": verdict.success}
    own.metadata = {**own.metadata, OURS: held}
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
