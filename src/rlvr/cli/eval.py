"""``rlvr eval``: measure agents."""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import add_settings, nonnegative, price, settings_of
from rlvr.cli.results import line_width, recorded
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.files import write_whole
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.registry import full_id, size_of

if TYPE_CHECKING:
    from rlvr.agents import Agent, Episode, Evaluation, Rollout, RolloutRequest
    from rlvr.agents.evaluation.suites import EvaluationSuite
    from rlvr.agents.models.openai import Usage
    from rlvr.algorithms.config import TrainConfig

# Options of `rlvr eval` that change how long it takes, or how much of it there is, and no episode.
_NOT_MEASURED = (
    "out", "episodes", "samples", "batch_size", "set", "concurrency", "deadline", "api_key_env", "json", "dry_run",
    "env", "price", "traceback", "allow_code", "new",
)  # fmt: skip
LINE_SECONDS = 10.0  # between two lines on the progress, where there is no terminal
_COUNTS = dict.fromkeys(("samples", "concurrency", "batch_size", "max_new_tokens"), (1, math.inf))
_RANGES = {"episodes": (1, 10**6), "temperature": (0, 100), "seed": (0, math.inf), **_COUNTS}


def evaluate(options: argparse.Namespace, rest: list[str]) -> int:
    """Play tasks with each agent and print what they amount to."""
    from rlvr.cli.eval_agents import (
        check_samples,
        check_score,
        config_of,
        each_agent,
        pinned_suite,
        say_taken,
        take_sampling,
    )

    for name, (least, most) in _RANGES.items():
        if (value := getattr(options, name)) is not None and not least <= value <= most:
            limit = f"at most {most:,}" if value > most else f"at least {least}"
            raise ValueError(f"--{name.replace('_', '-')} must be {limit}, got {value}")
    settings = settings_of(options)
    suite = pinned_suite(options, settings) if options.suite is not None else None
    agents = each_agent(options, suite)
    check_score(options, agents)
    check_samples(agents, options.samples)
    configs = [config_of(agent) for agent in agents]
    taken = [take_sampling(agent, config) for agent, config in zip(agents, configs, strict=True)]
    entries, trained = _entries(options, suite, settings, configs)
    settings = {**trained, **settings}
    for agent, config, texts in zip(agents, configs, taken, strict=True):
        say_taken(agent.model or agent.vllm, texts, {} if config is None else trained)
    results: list[dict[str, Any]] = []
    played: list[tuple[str, list[Episode]]] = []
    status = 0
    for agent in agents:
        try:
            status |= _measure(agent, settings, entries, suite, results, played)
        except (ValueError, ImportError, OSError) as error:
            if len(agents) == 1:
                raise
            print(f"rlvr: {agent.agent or agent.model or agent.vllm} cannot play: {error}", file=sys.stderr)
            status = 1  # the others can, and what they play is worth the same
    if not options.dry_run:
        _show_together(options, results, played if len(agents) > 1 else [])
    return status


def _entries(
    options: argparse.Namespace,
    suite: EvaluationSuite | None,
    set_values: dict[str, Any],
    configs: list[TrainConfig | None],
) -> tuple[dict[str, tuple[dict[str, Any], int | None]], dict[str, Any]]:
    """The environments by id, each with its settings and number of tasks; and what of the settings is from a run."""
    from rlvr.agents.evaluation.play import with_test_split
    from rlvr.cli.eval_agents import env_settings

    trained: dict[str, Any] = {}
    if suite is not None:
        entries = {full_id(entry.env): (dict(entry.settings), entry.tasks) for entry in suite.entries}
    elif len(set(options.env)) < len(options.env):
        raise ValueError(f"an environment is named twice: {' '.join(options.env)}")
    else:
        entries = {}
        for env_id in options.env:
            trained |= (settings := env_settings(configs, env_id, set_values))
            entries[env_id] = ({**settings, **set_values}, options.episodes)
    entries = {env_id: (with_test_split(env_id, settings), count) for env_id, (settings, count) in entries.items()}
    for env_id, (settings, _) in entries.items():
        require_registered(env_id, settings)
    return entries, trained


def _measure(
    options: argparse.Namespace,
    env_settings: dict[str, Any],
    entries: dict[str, tuple[dict[str, Any], int | None]],
    suite: EvaluationSuite | None,
    results: list[dict[str, Any]],
    played: list[tuple[str, list[Episode]]],
) -> int:
    """Play with one agent; its results and its episodes are added to those of the others."""
    from rlvr.agents.conversation import capability
    from rlvr.agents.evaluation.records import remove_if_empty
    from rlvr.cli.eval_agents import agent_of
    from rlvr.envs.tools.with_tools import has_tools

    agent = agent_of(options, env_settings)
    try:
        plans = [_plan(env_id, settings, count, agent, options) for env_id, (settings, count) in entries.items()]
        if options.native_tools and not any(has_tools(rollout.env) for rollout, _ in plans):
            named = ", ".join(entries)
            raise ValueError(f"{named} has no tools for --native-tools: leave it out, or give some, --set tools=[…]")
        if options.dry_run:
            return _dry_run(plans, options)
        options.new = options.out is None  # nobody has named a file
        if options.new:
            names = "+".join(env_id.removeprefix("rlvr/") for env_id in entries)
            options.out = _new_record(names if suite is None else suite.name, options.agent)
        if options.out is not None:
            kept = {**vars(options), "command": "eval", **env_settings, "suite": suite and suite.digest}
            _same_evaluation(options.out, kept)
        episodes: list[Episode] = []
        played.append((options.agent, episodes))
        try:
            return _play(plans, options, suite, results, episodes)
        finally:
            if options.new and options.out is not None:
                remove_if_empty(options.out)
    finally:
        if close := capability(agent, "close"):
            close()


def _show_together(
    options: argparse.Namespace, results: list[dict[str, Any]], played: list[tuple[str, list[Episode]]]
) -> None:
    """All results as JSON, or those of several agents as a table."""
    from rlvr.agents.evaluation.table import result_table

    if options.json:
        print(json.dumps(results))
    elif any(episodes for _, episodes in played):
        print("\n" + result_table(played).to_markdown(line_width()), end="")


# --- what is played ---


Plan = tuple["Rollout", "list[RolloutRequest]"]


def _plan(env_id: str, settings: dict[str, Any], count: int | None, agent: Agent, options: argparse.Namespace) -> Plan:
    from rlvr.agents import Rollout, task_requests

    how = {"batch_size": options.batch_size, "native_tools": bool(options.native_tools)}
    rollout = Rollout(env_id, agent, use_system=not options.no_system, env_settings=settings, **how)
    if options.score:
        from rlvr.agents.evaluation.likelihood import require_choices

        rollout.env.reset(seed=options.seed)
        require_choices(rollout.env.unwrapped)
    return rollout, task_requests(size_of(rollout.env), count, seed=options.seed, samples=options.samples)


def _dry_run(plans: list[Plan], options: argparse.Namespace) -> int:
    for rollout, requests in plans:
        tasks = len(requests) // options.samples
        print(f"{_name(rollout, options)}: {tasks} tasks, {options.samples} samples each; nothing was played")
    return 0


def _play(
    plans: list[Plan],
    options: argparse.Namespace,
    suite: EvaluationSuite | None,
    results: list[dict[str, Any]],
    episodes: list[Episode],
) -> int:
    from rlvr.agents import summarise
    from rlvr.agents.evaluation.play import EvaluationStopped, evaluate_together

    progress = EvaluationProgress(plans, options.price)
    try:
        summaries = evaluate_together(plans, record=options.out, on_episode=progress.take)
    except KeyboardInterrupt:
        progress.clear()
        kept = f"they are in {options.out}" if options.out else "--out FILE would have kept them"
        kept += f", which --out {options.out} goes on with" if options.out and options.new else ""
        for rollout, _ in plans:
            if new := progress.of(rollout.env_id):
                print(f"{_name(rollout, options)}: {len(new)} new episodes\n{summarise(new)}")
        print(f"stopped after {len(progress.episodes)} new episodes; {kept}")
        raise
    except EvaluationStopped as stop:
        progress.clear()
        for plan, measured in zip(plans, _played(plans, progress, options), strict=True):
            episodes += measured
            _show_stopped(stop, plan, measured, progress, options, results)
        _say_why(stop, plans, progress, options)
        return 1
    progress.clear()
    status = 0
    for plan, result, measured in zip(plans, summaries, _played(plans, progress, options), strict=True):
        episodes += measured
        status = status or int(not result.valid and result.episodes > 0)
        _show(result, plan, measured, progress, options, results)
    _show_whole(summaries, progress, suite, options, results)
    return status


def _show_whole(
    summaries: list[Evaluation],
    progress: EvaluationProgress,
    suite: EvaluationSuite | None,
    options: argparse.Namespace,
    results: list[dict[str, Any]],
) -> None:
    """What is said of all environments together: time, requests, the record, and a suite's score."""
    if not options.json:
        if taken := progress.taken():
            each = taken["seconds"] / taken["new_episodes"]
            print(f"time: {taken['seconds']:.1f} s for {taken['new_episodes']} new episodes, {each:.3g} s each")
        if (usage := progress.usage()) is not None:
            print(f"endpoint: {usage}")
        if options.out is not None:
            print(f"the episodes are in {options.out}")
    if suite is not None and any(result.valid for result in summaries):
        from rlvr.agents.evaluation.suites import score_suite

        score = score_suite(summaries)
        results.append({"suite": suite.name, "digest": suite.digest, "agent": options.agent, **asdict(score)})
        if not options.json:
            print(f"suite {suite.name} {suite.digest}  agent {options.agent}\n{score}")


def _played(plans: list[Plan], progress: EvaluationProgress, options: argparse.Namespace) -> list[list[Episode]]:
    """The figures of the episodes of each environment: of the record's too, which an earlier command may have played.

    Where a price is named, each that has tokens and no cost of its own gets one.
    """
    from rlvr.agents.models.openai import cost_of

    everything = progress.episodes if options.out is None else recorded(options.out)
    if options.price is not None:
        for usage in (episode.usage for episode in everything):
            if "cost" not in usage and {"prompt_tokens", "completion_tokens"} <= usage.keys():
                usage["cost"] = cost_of(usage, options.price)
    wanted = [{request.key(rollout.env_id) for request in requests} for rollout, requests in plans]
    return [[episode for episode in everything if episode.key in keys] for keys in wanted]


def _show(
    result: Evaluation,
    plan: Plan,
    measured: list[Episode],
    progress: EvaluationProgress,
    options: argparse.Namespace,
    results: list[dict[str, Any]],
) -> None:
    from rlvr.agents.evaluation.same_tasks import digest_notes
    from rlvr.agents.evaluation.summary import total_usage

    rollout, _ = plan
    result.usage = total_usage(measured)  # of those that were played again too
    for note in digest_notes([(str(options.out), measured)]):
        print(f"rlvr: {note}", file=sys.stderr)
    again = determinism(options, progress.scripted)
    taken = progress.taken(rollout.env_id)
    results.append({**_as_json(result, rollout, options), "determinism": again, **taken, **progress.requests()})
    if not options.json:
        print(f"{_name(rollout, options)}\n{result}\n{as_line(again)}")
    invalid = [episode for episode in progress.of(rollout.env_id) if not episode.valid]
    if invalid and (verdict := invalid[0].verdict) is not None:
        failed = f"{result.episodes - result.valid} episodes failed through no fault of the policy and are not counted"
        print(f"rlvr: {failed}; the first: {_with_cure(verdict.reason)}", file=sys.stderr)
    for text in result.warnings:
        print(f"rlvr: warning: {rollout.env_id}: {text}", file=sys.stderr)
    if result.identical and options.samples > 1 and 2 * result.identical >= result.tasks:
        alike = f"the samples of {result.identical} of {result.tasks} tasks are copies of one episode"
        print(f"rlvr: {alike}: the sampling may not be random", file=sys.stderr)


def _as_json(result: Evaluation, rollout: Rollout, options: argparse.Namespace) -> dict[str, Any]:
    about = {"env": rollout.env_id, "split": getattr(rollout.env.unwrapped, "split", None), "agent": options.agent}
    about["env_digest"] = rollout.env_digest
    unknown = {} if result.valid else dict.fromkeys(("success", "reward", "turns", "tokens"))
    return {**about, **result.to_dict(), **unknown, "out": None if options.out is None else str(options.out)}


def _show_stopped(
    stop: RuntimeError,
    plan: Plan,
    measured: list[Episode],
    progress: EvaluationProgress,
    options: argparse.Namespace,
    results: list[dict[str, Any]],
) -> None:
    """What there is of an environment in an evaluation that ended before its end."""
    from rlvr.agents import summarise

    rollout, requests = plan
    last = {episode.key: episode for episode in measured}
    if len(last) == len(requests):
        _show(summarise(list(last.values())), plan, measured, progress, options, results)
        return
    new = progress.of(rollout.env_id)
    valid = [episode for episode in new if episode.valid]
    if options.json:
        results.append({**_as_json(summarise(new), rollout, options), "stopped": str(stop), **progress.requests()})
    elif valid:
        print(f"{_name(rollout, options)}: {len(valid)} new episodes before the server failed\n{summarise(valid)}")


def _say_why(stop: RuntimeError, plans: list[Plan], progress: EvaluationProgress, options: argparse.Namespace) -> None:
    """What ended an evaluation before its end, in one line."""
    valid = any(episode.valid for episode in progress.episodes)
    lost = "; --out FILE would have kept the episodes that had ended" if valid else ""
    command = f"the same command with --out {options.out} goes on" if options.new else ""
    again = f"; {command or f'the same command goes on with {options.out}'}" if options.out else lost
    what = f"{plans[0][0].env_id} was" if len(plans) == 1 else f"the evaluation of {len(plans)} environments was"
    print(f"rlvr: {what} stopped: {_with_cure(str(stop))}{again}", file=sys.stderr)


def _with_cure(reason: str) -> str:
    from rlvr.envs.endpoint import NO_KEY

    return reason + ("; --api-key-env NAME sends one" if reason.endswith(NO_KEY) else "")


def _name(rollout: Rollout, options: argparse.Namespace) -> str:
    return f"{rollout.env_id}  split {getattr(rollout.env.unwrapped, 'split', None)}  agent {options.agent}"


def determinism(options: argparse.Namespace, scripted: bool) -> dict[str, list[str]]:
    """What is ``seeded``, and what is ``not_seeded`` and may make a second run differ.

    Args:
        options: of `rlvr eval`.
        scripted: whether the agent is one without a model.
    """
    seeded, loose = [f"tasks (--seed {options.seed})"], []
    sampled = options.temperature > 0
    if scripted:
        seeded.append("the agent's actions")
    elif options.endpoint is not None:
        if sampled:
            seeded.append("each call, by a seed that is sent")
            loose.append("whether the server heeds the seed")
        else:
            loose.append("the server, which is asked for its likeliest token without a seed")
        loose.append("the server's batches, which change the last bits of its numbers")
    else:
        seeded.append("the sampling of each turn" if sampled else "nothing is sampled at temperature 0")
        loose.append("the last bits of the model's numbers, which depend on the batch, the threads and the device")
    return {"seeded": seeded, "not_seeded": loose}


def as_line(names_of: dict[str, list[str]]) -> str:
    """The same as one line."""
    loose = ", ".join(names_of["not_seeded"]) or "nothing; a second run plays the same episodes"
    return f"seeded: {', '.join(names_of['seeded'])}; not seeded: {loose}"


class EvaluationProgress:
    """The new episodes of an evaluation, and a line on how far it is: one that is written anew on a terminal, and a new
    one every ten seconds elsewhere."""

    def __init__(self, plans: Sequence[Plan], price: tuple[float, float] | None) -> None:
        from rlvr.agents.conversation import capability

        self.episodes: list[Episode] = []
        agent = plans[0][0].agent
        self._what = plans[0][0].env_id if len(plans) == 1 else f"{len(plans)} environments"
        self._total, self._price = sum(len(requests) for _, requests in plans), price
        self._usage: Usage | None = capability(agent, "usage")
        self.scripted = bool(capability(agent, "in_any_thread"))
        self._before = copy.copy(self._usage)
        self._live = getattr(sys.__stderr__, "isatty", bool)()
        self._began = time.monotonic()
        self._ended: dict[str, float] = {}  # when the last episode of an environment did
        self._shown = 0.0 if self._live else self._began

    def of(self, env_id: str) -> list[Episode]:
        """The new episodes of an environment."""
        return [episode for episode in self.episodes if episode.env_id == env_id]

    def usage(self) -> Usage | None:
        """What the endpoint has been asked for so far; None where there is none."""
        return self._usage.since(self._before) if self._usage is not None else None

    def requests(self) -> dict[str, Any]:
        """Calls and requests of the whole command so far, as plain JSON; nothing without an endpoint."""
        usage = self.usage()
        return {} if usage is None else {"endpoint": {n: getattr(usage, n) for n in ("calls", "failed", "requests")}}

    def taken(self, env_id: str | None = None) -> dict[str, Any]:
        """The seconds from the beginning to the last new episode, of an environment or of all, and how many there are;
        nothing of scripted play."""
        episodes = self.episodes if env_id is None else self.of(env_id)
        if not episodes or self.scripted:
            return {}
        ended = max(self._ended.values()) if env_id is None else self._ended[env_id]
        return {"seconds": ended - self._began, "new_episodes": len(episodes)}

    def take(self, episode: Episode) -> None:
        """Take in the figures of an episode that has ended."""
        from rlvr.agents.evaluation.records import figures_only

        self.episodes.append(figures_only(episode))
        now = self._ended[episode.env_id] = time.monotonic()
        if now - self._shown < (0.2 if self._live else LINE_SECONDS):
            return
        self._shown = now
        done, valid = len(self.episodes), [e for e in self.episodes if e.valid]
        right = sum(e.success for e in valid)
        share = f"{right / len(valid):.3f}" if valid else "unknown"
        faults = f" ({right / done:.3f} of all)  faults {done - len(valid)}" if done > len(valid) else ""
        left = (now - self._began) / done * (self._total - done)
        self._write(f"{self._what}  {done}/{self._total}  success {share}{faults}  {self._paid()}  {left:.0f} s left")

    def _paid(self) -> str:
        usage = self.usage()
        if usage is None:
            return f"{sum(e.tokens.sampled for e in self.episodes):,} tokens"
        cost = f"  cost {usage.cost(self._price):.2f}" if self._price is not None else ""
        return f"{usage.calls} calls  {usage.requests - usage.calls} again  {usage.completion_tokens:,} tokens{cost}"

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            self._write("")

    def _write(self, text: str) -> None:
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"\r\x1b[K{text[:110]}" if self._live else f"rlvr: {text}\n")
            sys.__stderr__.flush()


def _new_record(what: str, agent: str) -> Path | None:
    """`new_record`; None, and a line that says why, where nothing can be written."""
    from rlvr.agents.evaluation.records import new_record, results_folder

    try:
        return new_record(what, agent)
    except OSError as error:
        why = f"{results_folder()}: {error.strerror or error}"
        print(f"rlvr: the episodes are not kept, {why}; --out FILE keeps them elsewhere", file=sys.stderr)
        return None


def _same_evaluation(record: Path, options: dict[str, Any]) -> None:
    """Write what is measured beside the record; refuse to go on with a record of something else."""
    from rlvr.agents.evaluation.records import options_beside, require_lines

    require_lines(record)
    if record.exists() and not record.is_file():
        raise ValueError(f"{record} is no plain file: name a JSONL file of episodes")
    settings = {name: str(value) for name, value in options.items() if name not in _NOT_MEASURED}
    beside = options_beside(record)
    record.parent.mkdir(parents=True, exist_ok=True)
    if beside.exists():
        try:
            before = load_json(beside.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        if not isinstance(before, dict) or "command" not in before:
            raise ValueError(f"{beside} does not hold the options of an evaluation: remove it, or give another --out")
        names = sorted({*before, *settings} - {*_NOT_MEASURED})
        changed = [name for name in names if before.get(name, "None") != settings.get(name, "None")]
        if changed and record.exists():
            raise ValueError(f"{record} was made with another {', '.join(changed)}: give another --out")
    write_whole(beside, json.dumps(settings, indent=1))


def add_parsers(commands: Any) -> None:
    """Add ``eval`` to the sub-commands of `rlvr`."""
    evaluating = commands.add_parser(
        "eval",
        help="measure an agent",
        examples=(
            "rlvr eval --env Countdown --agent expert --episodes 50",
            "rlvr eval --suite quick --endpoint http://localhost:8000/v1 --model NAME --out results.jsonl",
        ),
    )
    _add_tasks(evaluating.add_argument_group("what is played"))
    _add_agents(evaluating.add_argument_group("who plays"))
    _add_sampling(evaluating.add_argument_group("how a model is sampled"))
    _add_endpoint(evaluating.add_argument_group("a model behind an endpoint"))
    _add_results(evaluating.add_argument_group("what is kept and printed"))
    evaluating.set_defaults(command=evaluate)


def _add_tasks(group: argparse._ArgumentGroup) -> None:
    what = group.add_mutually_exclusive_group(required=True)
    what.add_argument("--env", action="append", help="id of an environment; give it again for one more")
    what.add_argument("--suite", metavar="NAME", help="core, agents, quick, a YAML or JSON file: pins what is played")
    group.add_argument("--episodes", type=int, help="how many tasks; all rows of a table, else 100, if left out")
    group.add_argument("--samples", type=int, default=1, help="episodes on each task")
    group.add_argument("--seed", type=int, default=0, help="decides the tasks and the sampling")
    group.add_argument(
        "--native-tools",
        action="store_true",
        default=None,  # as in records of before there was this option
        help="leave tools to the endpoint's `tools`, or to the model's chat template",
    )
    add_settings(group)


def _add_agents(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--agent",
        action="append",
        choices=("expert", "random", "empty"),
        help="an agent without a model; again, or with --model, for more",
    )
    group.add_argument(
        "--model",
        action="append",
        help="rlvr/tiny, a Hugging Face model by name or folder, a run's folder, a name at --endpoint; again for more",
    )
    group.add_argument(
        "--vllm",
        action="append",
        metavar="MODEL",
        help="a Hugging Face model, sampled by vLLM here or at --endpoint; again for one more",
    )
    group.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 …")
    group.add_argument("--dtype", help="float32, bfloat16 or float16; that of a run, else float32, if left out")
    group.add_argument("--batch-size", type=int, default=256, help="episodes under way at once")


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    system = group.add_mutually_exclusive_group()
    system.add_argument(
        "--no-system", action="store_true", default=None, help="leave the environment's system prompt out"
    )
    system.add_argument(
        "--system", action="store_false", dest="no_system", default=None, help="show it, to a run's policy too"
    )
    group.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    group.add_argument(
        "--max-new-tokens", type=int, help="tokens a turn may take; those of a run or a suite, else 512, if left out"
    )
    group.add_argument(
        "--score",
        choices=("likelihood", "likelihood-norm"),
        help="of a multiple choice, play the option that --model finds likeliest; -norm: by character of the option",
    )


def _add_endpoint(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--endpoint", metavar="URL", help="an OpenAI-compatible server, as http://localhost:8000/v1")
    group.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the endpoint's key")
    group.add_argument(
        "--tool-messages",
        action="store_true",
        default=None,  # as in records of before there was this option
        help="send tools' outputs to the endpoint under the role tool; rlvr serve-model and vLLM take them",
    )
    group.add_argument("--deadline", type=nonnegative, default=300.0, help="seconds a call may take, retries included")
    group.add_argument("--concurrency", type=int, default=32, help="calls to the endpoint under way at once")
    group.add_argument(
        "--price", type=price, metavar="IN,OUT", help="what a million prompt and completion tokens cost: 0.15,0.6"
    )
    group.add_argument("--options", metavar="JSON", help="more fields of the endpoint's request, or of vllm.LLM")


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--out",
        type=Path,
        help="JSONL file of the episodes, for several agents a folder; goes on with one that is there; a new file in "
        "$RLVR_RESULTS, or in runs/eval, if left out",
    )
    group.add_argument("--json", action="store_true", help="print one JSON list, an object for each environment")
    group.add_argument("--dry-run", action="store_true", help="say what would be played, and play nothing")
