"""Who plays in ``rlvr eval``, and how: agents, what a suite pins, and a run's policy as it was trained."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.agents.evaluation.suites import SUITES, EvaluationSuite
from rlvr.cli.options import key_of, value_of
from rlvr.envs.core.code_rule import require_code
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.agents import Agent
    from rlvr.agents.models.token_agent import TokenAgent
    from rlvr.algorithms.config import TrainConfig

# What a suite pins, and what `rlvr eval` takes where nobody says anything.
_PINNED = {"seed": 0, "samples": 1, "temperature": 0.0, "episodes": None}
# What an option of `rlvr eval` is where neither a flag nor a run says anything.
DEFAULTS: dict[str, Any] = {
    "no_system": False,
    "max_new_tokens": 512,
    "dtype": "float32",
    "max_length": None,
    "template_options": None,
    "thinking_budget": None,
    "float32_head": None,
    "condition": None,
}


def pinned_suite(options: argparse.Namespace, settings: dict[str, Any]) -> EvaluationSuite:
    """The suite that ``options.suite`` names; its seed, samples and sampling become those of the options, and an option
    ``max_new_tokens`` becomes the suite's, whose digest is then another.

    Raises:
        ValueError: there is no such suite or file, it is no suite, or an option asks for what it pins.
    """
    suite = read_suite(options.suite)
    asked = [name for name, default in _PINNED.items() if getattr(options, name) != default] + sorted(settings)
    if asked:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise ValueError(
            f"suite {suite.name} pins {names}: leave it out, or copy the suite to a file and change it there"
        )
    if options.max_new_tokens is not None:  # long thoughts are cut by the limit of any suite, and change its digest
        suite = replace(suite, max_new_tokens=options.max_new_tokens)
    for name in ("seed", "samples", "temperature", "max_new_tokens"):
        setattr(options, name, getattr(suite, name))
    return suite


def read_suite(name: str) -> EvaluationSuite:
    """A suite by its name, or from a YAML or JSON file.

    Raises:
        ValueError: there is no such suite or file, or it is no suite.
    """
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if not path.is_file():
        near = nearest(name, SUITES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(SUITES))}"
        raise ValueError(f"{name!r} is neither a suite nor a file; {hint}")
    if path.suffix == ".json":
        return EvaluationSuite.from_dict(load_json(path.read_text(encoding="utf-8")), path.stem)
    try:
        from rlvr.algorithms.config.yaml_text import read_yaml_file

        return EvaluationSuite.from_dict(read_yaml_file(path), path.stem)
    except ModuleNotFoundError as error:
        raise ImportError(
            f'a suite in YAML needs {error.name}: pip install "rlvr[train]", or write it in JSON'
        ) from error


def each_agent(options: argparse.Namespace, suite: EvaluationSuite | None) -> list[argparse.Namespace]:
    """For each agent that the options name, or else the suite's file, the options of `rlvr eval` with it alone.

    Of several each has a file of its own in the folder ``out``, and a scripted one no settings of servers.

    Raises:
        ValueError: nobody is named, one is named twice, or ``out`` is no folder.
    """
    kinds = ("agent", "model", "vllm")
    named = [{kind: name} for kind in kinds for name in getattr(options, kind) or ()]
    named = named or [dict(agent) for agent in (suite.agents if suite is not None else ())]
    if options.endpoint is not None and not any("agent" not in agent for agent in named):
        raise ValueError("--endpoint needs the model's name there: --model NAME, or --vllm MODEL for its token ids")
    if not named:
        raise ValueError("say who plays: --agent expert, --model NAME or --vllm MODEL")
    if twice := next((agent for number, agent in enumerate(named) if agent in named[:number]), None):
        raise ValueError(f"an agent is named twice: {' at '.join(twice.values())}")
    agents = [_with_agent(options, agent, len(named) > 1) for agent in named]
    if options.out is not None and (len(named) > 1 or options.out.is_dir()):
        if options.out.is_file() or options.out.suffix == ".jsonl":
            raise ValueError(
                f"several agents have a file each: --out takes a folder for them, not the file {options.out}"
            )
        taken: dict[str, int] = {}
        for agent_options in agents:
            name = (
                re.sub(
                    r"[^A-Za-z0-9._-]+", "_", agent_options.agent or agent_options.model or agent_options.vllm
                ).strip("._")
                or "agent"
            )
            taken[name] = taken.get(name, 0) + 1
            agent_options.out = options.out / (f"{name}.jsonl" if taken[name] == 1 else f"{name}-{taken[name]}.jsonl")
    return agents


def _with_agent(options: argparse.Namespace, agent: dict[str, str], several: bool) -> argparse.Namespace:
    agent_options = argparse.Namespace(**{**vars(options), "agent": None, "model": None, "vllm": None})
    if "endpoint" in agent and agent["endpoint"] != options.endpoint:
        agent_options.api_key_env = None  # a key is for the server that the command names, and no other
    vars(agent_options).update(agent)
    if several and agent_options.endpoint is None and agent_options.vllm is None:
        agent_options.options = agent_options.tool_messages = agent_options.api_key_env = None
    if several and agent_options.agent is not None:
        agent_options.endpoint = agent_options.options = agent_options.tool_messages = agent_options.api_key_env = None
    return agent_options


def check_samples(agents: list[argparse.Namespace], samples: int) -> None:
    """Beside others that can, an agent that does the same each time plays each task once, which is said.

    Raises:
        ValueError: there are to be several samples, and no agent's can differ.
    """
    alike = [agent for agent in agents if not (agent.agent == "random" or (agent.temperature and agent.agent is None))]
    if samples == 1 or not alike:
        return
    why = "--temperature 0 takes the likeliest token each time"
    if scripted := [agent.agent for agent in alike if agent.agent]:
        why = f"--agent {scripted[0]} does the same each time"
    if len(alike) == len(agents):
        raise ValueError(f"--samples {samples} needs samples that can differ: {why}")
    for agent in alike:
        agent.samples = 1
    names = ", ".join(agent.agent or agent.model or agent.vllm for agent in alike)
    print(f"rlvr: {why}: {names} plays each task once, the others {samples} times", file=sys.stderr)


def check_score(options: argparse.Namespace, agents: list[argparse.Namespace]) -> None:
    """See that likelihoods can be had from each agent, and that no flag asks for what has no meaning for them; no
    record then says that a system prompt was read.

    Raises:
        ValueError: they cannot, or one does.
    """
    if options.score is None:
        return
    if any(agent.model is None or agent.endpoint is not None for agent in agents):
        raise ValueError(
            f"--score {options.score} needs log-probabilities of prompts, which only a model in this process has: give "
            "--model NAME without --endpoint, --vllm and --agent"
        )
    flags = {
        "suite": options.suite,
        "temperature": options.temperature or None,
        "max-new-tokens": options.max_new_tokens,
    }
    system = {True: "no-system", False: "system"}.get(options.no_system)
    flags |= {"samples": options.samples if options.samples > 1 else None, str(system): system}
    if without := [f"--{name}" for name, value in flags.items() if value is not None]:
        raise ValueError(
            f"--score {options.score} samples nothing and reads a plain prompt: leave {', '.join(without)} out"
        )
    for agent in agents:
        agent.no_system = True


def agent_of(options: argparse.Namespace, settings: dict[str, Any]) -> Agent:
    """The agent that options of one agent name; ``options.agent`` becomes its name."""
    from rlvr.agents import ConstantAgent, ExpertAgent, RandomAgent

    if options.tool_messages and (options.endpoint is None or options.vllm is not None):
        raise ValueError("--tool-messages is for --endpoint with --model: elsewhere tools' outputs have their role")
    if options.endpoint is not None or options.vllm is not None:
        return _foreign_agent(options, settings)
    if options.options is not None:
        raise ValueError("--options are for --endpoint and --vllm")
    if options.model is not None:
        from rlvr.agents.models.model_folder import policy_folder

        folder = policy_folder(options.model)
        from rlvr.agents.models.tiny import load_policy

        options.agent = options.model
        template = "plain" if options.score else ""  # which nothing reads, and base models have none
        model, tokenizer = load_policy(folder, device=options.device, dtype=options.dtype, chat_template=template)
        if options.float32_head:
            from rlvr.algorithms.learner.head import use_float32

            use_float32(model)
        if options.score:
            from rlvr.agents.evaluation.likelihood import LikelihoodAgent

            normalised = options.score == "likelihood-norm"
            return LikelihoodAgent(model, tokenizer, normalised=normalised, max_length=options.max_length)
        from rlvr.agents.models.transformers import TransformersAgent

        return _conditioned(TransformersAgent(model, tokenizer, **_local_sampling(options)), options)
    scripted: dict[str, Callable[[], Agent]] = {
        "expert": ExpertAgent,
        "random": lambda: RandomAgent(options.seed),
        "empty": ConstantAgent,
    }
    return scripted[options.agent]()


def _foreign_agent(options: argparse.Namespace, settings: dict[str, Any]) -> Agent:
    """vLLM in this process or behind an endpoint, or any chat endpoint."""
    from rlvr.envs.endpoint import Endpoint, EndpointError

    more = value_of(options.options or "{}")
    if not isinstance(more, dict):
        raise ValueError(f"--options takes a JSON object, got {options.options!r}")
    options.agent = name = options.vllm or options.model
    if options.endpoint is None:
        server = None
    else:
        server = Endpoint(
            options.endpoint,
            name,
            key_of(options.api_key_env),
            deadline=options.deadline,
            retries=4,
            temperature=options.temperature,
            max_tokens=options.max_new_tokens,
        )
        options.agent = f"{name} at {server.address()}"
    if options.vllm is None and server is not None:
        from rlvr.agents.models.openai import OpenAIAgent

        style = str(settings.get("tool_style", "hermes"))
        seed = options.seed if options.temperature else None
        limits = {"concurrency": options.concurrency, "tool_messages": options.tool_messages, "price": options.price}
        return OpenAIAgent(server, seed=seed, tool_style=style, request=more, **limits)
    from rlvr.agents.models.model_folder import policy_folder

    folder = policy_folder(name)
    from rlvr.agents.models.vllm import PLAIN_OPTIONS, VLLMAgent

    if server is not None and more:
        raise ValueError("--options are vLLM's own in this process; a server was started with its own")
    for name in sorted(more.keys() - PLAIN_OPTIONS):
        require_code(f"--options {name}, which vLLM may take for a class or a file to load,")
    try:
        agent = VLLMAgent.load(folder, engine=server or {"dtype": options.dtype, **more}, **_local_sampling(options))
    except EndpointError as error:
        raise ValueError(str(error)) from error
    return _conditioned(agent, options)


def _conditioned(agent: TokenAgent, options: argparse.Namespace) -> TokenAgent:
    """The agent behind the condition that its run trained it with."""
    agent.renderer.condition = options.condition or ""
    return agent


def _local_sampling(options: argparse.Namespace) -> dict[str, Any]:
    """How a local model samples."""
    names = ("max_new_tokens", "seed", "max_length", "template_options", "thinking_budget")
    settings = {name: getattr(options, name) for name in names}
    return settings | {"temperature": options.temperature or 1.0, "greedy": options.temperature == 0}


def run_folder(name: str) -> Path | None:
    """The folder of the run that a name of a model means: the run's own, or the one with its policy in it."""
    folder = Path(name)
    if (folder / "config.yaml").is_file() and (folder / "policy").is_dir():
        return folder
    folder = folder.resolve()
    return folder.parent if folder.name == "policy" and (folder.parent / "config.yaml").is_file() else None


def config_of(options: argparse.Namespace) -> TrainConfig | None:
    """How the policy was trained that ``options`` name; None for a model that is no run's, or at an endpoint."""
    name = options.model or options.vllm
    if name is None or options.endpoint is not None or (folder := run_folder(name)) is None:
        return None
    from rlvr.algorithms.config import ConfigError, load_config

    try:
        return load_config(folder / "config.yaml")
    except (ConfigError, OSError) as error:
        raise ValueError(
            f"{folder / 'config.yaml'} does not say how {name} was trained ({error}): mend it, or copy the model to a "
            "folder without it"
        ) from error


def take_sampling(options: argparse.Namespace, config: TrainConfig | None) -> list[str]:
    """Fill in what no flag names, from the run or else `DEFAULTS`; what was taken from the run, in words."""
    trained = {} if config is None else _sampling(config)
    if (limit := options.max_new_tokens) is not None and trained:
        if limit > trained["max_new_tokens"]:
            del trained["max_length"]  # it was chosen for shorter replies
        if trained["thinking_budget"] is not None and limit <= trained["thinking_budget"].high:
            del trained["thinking_budget"]  # no token would be left for the answer
    taken = []
    for name, default in DEFAULTS.items():
        if getattr(options, name, None) is not None:
            continue
        setattr(options, name, value := trained.get(name, default))
        if value != default:
            taken.append("without the system prompt" if name == "no_system" else f"{name} {value}")
    return taken


def _sampling(config: TrainConfig) -> dict[str, Any]:
    """How the run's own evaluations play the policy, in the words of `DEFAULTS`."""
    from rlvr.agents.budget import ThinkingBudget

    sampling = config.sampling
    budget = None
    if sampling.thinking_budget:
        low = sampling.thinking_budget - sampling.thinking_spread
        budget = ThinkingBudget(sampling.thinking_phrase, low, sampling.thinking_budget)
    return {
        "no_system": not config.env.system,
        "max_new_tokens": sampling.max_new_tokens,
        "dtype": config.model.dtype,
        "max_length": sampling.max_length,
        "template_options": config.model.template_options or None,
        "thinking_budget": budget,
        "float32_head": config.model.float32_head or None,
        "condition": config.condition or None,
    }


def env_settings(configs: list[TrainConfig | None], env_id: str, named: dict[str, Any]) -> dict[str, Any]:
    """What the runs whose policies are measured say of an environment and no flag does; nothing where they differ."""
    each = [
        _env_settings(config)
        for config in configs
        if config is not None and config.env.id.rpartition(":")[2] == env_id.rpartition(":")[2]
    ]
    if any(settings != each[0] for settings in each):
        print(
            f"rlvr: the runs were trained with different settings of {env_id}, and none of them is taken: give --set, "
            "--level or --split",
            file=sys.stderr,
        )
        return {}
    return {name: value for name, value in (each[0] if each else {}).items() if name not in named}


def _env_settings(config: TrainConfig) -> dict[str, Any]:
    from rlvr.agents.players.self_play import without_models

    settings = without_models(dict(config.env.settings))
    if config.env.level != 1:
        settings["level"] = config.env.level
    if config.evaluation.split != "test":
        settings["split"] = config.evaluation.split
    return settings


def say_taken(name: str, taken: list[str], settings: dict[str, Any]) -> None:
    """Say on stderr what was taken from a run."""
    every = taken + [f"{setting} {value}" for setting, value in settings.items()]
    if every:
        print(f"rlvr: {name} is played as it was trained: {', '.join(every)}; flags win over it", file=sys.stderr)
