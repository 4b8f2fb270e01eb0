"""The ``rlvr`` command: envs, card, play, eval, serve, train, audit, new, doctor, algorithms, explain."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.code_rule import command_line, make_env, require_code, require_registered
from rlvr.envs.core.files import write_whole
from rlvr.envs.core.json_text import TooDeep, load_json
from rlvr.envs.core.registry import size_of
from rlvr.envs.core.terminal import plain_output, show_traceback

if TYPE_CHECKING:
    from rlvr.agents import Agent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. What a user did wrong is one line on stderr and status 2.

    Settings and configs may name code only with ``--allow-code``, and nothing printed can steer a terminal.
    """
    if arguments is None:
        sys.excepthook = show_traceback
    parser = _parser()
    known, rest = parser.parse_known_args(arguments)
    if rest and known.command is not train:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    # A person's line editor and the live display speak to the terminal itself, and escape what they show.
    with command_line(getattr(known, "allow_code", False)), plain_output(out=known.command not in (play, train)):
        return _run(known, rest)


def _run(known: argparse.Namespace, rest: list[str]) -> int:
    try:
        return int(known.command(known, rest))
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, ImportError, OSError, gym.error.Error) as error:
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from rlvr.envs.sandbox import SandboxUnavailable

        if not isinstance(error, SandboxUnavailable):
            raise
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"rlvr: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rlvr: interrupted", file=sys.stderr)
        return 130


def envs(options: argparse.Namespace, rest: list[str]) -> int:
    """List the registered environments."""
    ids = list_envs(options.contains)
    if options.long:
        from rlvr.envs.cards import summary

        width = max(map(len, ids), default=0)
    for env_id in ids:
        print(f"{env_id:<{width}}  {summary(env_id)}" if options.long else env_id)
    if not ids:
        print(f"rlvr: no environment's id contains {options.contains!r}", file=sys.stderr)
    return 0 if ids else 1


def card(options: argparse.Namespace, rest: list[str]) -> int:
    """Print what there is to know about environments."""
    from rlvr.envs.cards import card as describe

    for env_id in options.env:
        require_registered(env_id, {})
    print("\n\n".join(str(describe(env_id)) for env_id in options.env))
    return 0


def play(options: argparse.Namespace, rest: list[str]) -> int:
    """A person plays one episode in the terminal."""
    from rlvr.agents import HumanAgent, Rollout, RolloutRequest
    from rlvr.agents.scripted import printable

    settings = _settings(options)
    require_registered(options.env, settings)
    rollout = Rollout(options.env, HumanAgent(), env_settings=settings)
    request = RolloutRequest(seed=_seed(options.seed), index=options.index)
    try:
        episode = rollout([request])[0]
    except EOFError:
        print()
        return 130
    print(printable(episode.final_observation))
    if episode.verdict is not None:
        print(printable(f"{episode.verdict.status}: reward {episode.reward:g}"))
    return 0


def evaluate(options: argparse.Namespace, rest: list[str]) -> int:
    """Play tasks with an agent and print what they amount to."""
    from rlvr.agents import Episode, Rollout, evaluation, task_requests

    settings = _settings(options)
    require_registered(options.env, settings)
    if options.endpoint is not None and options.model is None and options.vllm is None:
        raise ValueError("--endpoint needs the model's name there: --model NAME, or --vllm MODEL for its token ids")
    agent = _agent(options, settings)
    rollout = Rollout(
        options.env,
        agent,
        batch_size=options.batch_size,
        use_system=not options.no_system,
        env_settings=settings,
    )
    size = size_of(rollout.env)
    requests = task_requests(size, options.episodes, seed=options.seed, samples=options.samples)
    if options.out is not None:
        _same_evaluation(options.out, {**vars(options), "command": "eval", **settings})
    invalid: list[Episode] = []
    try:
        result = evaluation.evaluate(
            rollout, requests, record=options.out, on_episode=lambda e: None if e.valid else invalid.append(e)
        )
    finally:
        if close := getattr(agent, "close", None):
            close()
    split = getattr(rollout.env.unwrapped, "split", settings.get("split", "train"))
    print(f"{options.env}  split {split}  agent {options.agent}")
    print(result)
    if invalid and (verdict := invalid[0].verdict) is not None:
        failed = f"{len(invalid)} episodes failed through no fault of the policy and are not counted"
        print(f"rlvr: {failed}; the first: {verdict.reason}", file=sys.stderr)
    return 0 if result.valid or not result.episodes else 1


def audit(options: argparse.Namespace, rest: list[str]) -> int:
    """Attack the verifiers of environments; status 1 if anything was found."""
    from rlvr.envs.audit import audit as attack

    clean = True
    for env_id in options.env or list_envs():
        env = make_env(env_id, **_settings(options)).unwrapped
        if not isinstance(env, TextEnv):
            raise TypeError(f"{env_id} is no environment of this project's kind, and cannot be audited")
        result = attack(env, options.tasks, options.seed)
        print(result, flush=True)
        clean = clean and result.clean
    return 0 if clean else 1


def serve(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve an environment over WebSocket and HTTP until Ctrl-C."""
    from rlvr.adapters.serving.serve import EnvServer

    settings = _settings(options)
    require_registered(options.env, settings)
    server = EnvServer(
        options.env,
        settings,
        host=options.host,
        port=options.port,
        token=_token(options),
        limit=options.sessions,
        ttl=options.ttl,
        timeout=options.timeout or None,
        backend=options.backend,
        workers=options.workers,
        expert=options.expert,
        hosts=options.allow_host,
    )
    print(f"{options.env} at {server.url} ({options.sessions} sessions; Ctrl-C ends it)", flush=True)
    server.run()
    return 0


def new(options: argparse.Namespace, rest: list[str]) -> int:
    """Write a package with an environment in it."""
    from rlvr.envs.template import env_id, new_package

    for path in new_package(options.name, options.folder):
        print(path)
    folder = options.folder / options.name
    print(f"next: pip install -e {folder}[dev] && pytest {folder} && rlvr audit {env_id(options.name)}")
    return 0


def doctor(options: argparse.Namespace, rest: list[str]) -> int:
    """Say which sandbox tier holds on this machine, and what would raise it."""
    from rlvr.envs import sandbox

    print(sandbox.doctor())
    return 0


def algorithms(options: argparse.Namespace, rest: list[str]) -> int:
    """The table of algorithms."""
    from rlvr.algorithms.registry import table

    print(table())
    return 0


def explain(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the way of one training episode from its verdict to the gradient."""
    from rlvr.algorithms.runs.explain import explain as describe

    print(describe(options.run, options.episode))
    return 0


def train(options: argparse.Namespace, rest: list[str]) -> int:
    """Train a policy."""
    try:
        from rlvr.algorithms.train.command import train as command
    except ModuleNotFoundError as error:
        raise ImportError(f'training needs {error.name}: pip install "rlvr[train]"') from error
    return command(rest)


# Options of `rlvr eval` that change how long it takes, or how much of it there is, and no episode.
_NOT_MEASURED = ("out", "episodes", "batch_size", "set", "concurrency", "deadline", "api_key_env")


def _same_evaluation(record: Path, options: dict[str, Any]) -> None:
    """Write what is measured beside the record; refuse to go on with a record of something else."""
    given = {name: str(value) for name, value in options.items() if name not in _NOT_MEASURED}
    beside = record.with_name(record.name + ".options.json")
    record.parent.mkdir(parents=True, exist_ok=True)
    if record.exists() and beside.exists():
        before = load_json(beside.read_text(encoding="utf-8"))
        if not isinstance(before, dict):
            raise ValueError(f"{beside} does not hold the options of an evaluation: remove it, or give another --out")
        changed = sorted(name for name in {*before, *given} if before.get(name, "None") != given.get(name, "None"))
        if changed:
            raise ValueError(f"{record} was made with another {', '.join(changed)}: give another --out")
    write_whole(beside, json.dumps(given, indent=1))


def _agent(options: argparse.Namespace, settings: dict[str, Any]) -> Agent:
    from rlvr.agents import ConstantAgent, ExpertAgent, RandomAgent

    if options.endpoint is not None or options.vllm is not None:
        return _foreign_agent(options, settings)
    if options.options is not None:
        raise ValueError("--options are for --endpoint and --vllm")
    if options.model is not None:
        from rlvr.agents.models.tiny import load_policy
        from rlvr.agents.models.transformers import TransformersAgent

        options.agent = options.model
        model, tokenizer = load_policy(options.model, device=options.device, dtype=options.dtype)
        return TransformersAgent(
            model,
            tokenizer,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature or 1.0,
            greedy=options.temperature == 0,
            seed=options.seed,
        )
    scripted: dict[str, Callable[[], Agent]] = {
        "expert": ExpertAgent,
        "random": lambda: RandomAgent(options.seed),
        "empty": ConstantAgent,
    }
    return scripted[options.agent]()


# Options of vllm.LLM that are numbers, switches or names of formats, and load no code.
_PLAIN_ENGINE = frozenset(
    "block_size cpu_offload_gb disable_custom_all_reduce disable_log_stats dtype enable_chunked_prefill "
    "enable_prefix_caching enforce_eager gpu_memory_utilization kv_cache_dtype limit_mm_per_prompt max_logprobs "
    "max_model_len max_num_batched_tokens max_num_seqs pipeline_parallel_size quantization revision seed swap_space "
    "tensor_parallel_size tokenizer_revision".split()
)


def _foreign_agent(options: argparse.Namespace, settings: dict[str, Any]) -> Agent:
    """vLLM in this process or behind an endpoint, or any chat endpoint."""
    from rlvr.envs.endpoint import Endpoint, EndpointError

    more = _value(options.options or "{}")
    if not isinstance(more, dict):
        raise ValueError(f"--options takes a JSON object, got {options.options!r}")
    options.agent = name = options.vllm or options.model
    if options.endpoint is None:
        server = None
    else:
        server = Endpoint(
            options.endpoint,
            name,
            _key(options.api_key_env),
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
        return OpenAIAgent(server, concurrency=options.concurrency, seed=seed, tool_style=style, request=more)
    from rlvr.agents.models.vllm import VLLMAgent

    if server is not None and more:
        raise ValueError("--options are vLLM's own in this process; a server was started with its own")
    for name in sorted(more.keys() - _PLAIN_ENGINE):
        require_code(f"--options {name}, which vLLM may take for a class or a file to load,")
    try:
        return VLLMAgent.load(
            name,
            engine=server or {"dtype": options.dtype, **more},
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature or 1.0,
            greedy=options.temperature == 0,
            seed=options.seed,
        )
    except EndpointError as error:
        raise ValueError(str(error)) from error


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    if not os.environ.get(variable):
        raise ValueError(f"the environment variable {variable}, which --api-key-env names, holds nothing")
    return os.environ[variable]


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What ``gym.make`` is given: --split, --level and every --set name=value; a value may be JSON."""
    settings: dict[str, Any] = {
        name: _value(text) for name, equals, text in (pair.partition("=") for pair in options.set) if equals
    }
    if len(settings) != len(options.set):
        raise ValueError(f"--set takes name=value, got {' '.join(options.set)}")
    settings |= {name: getattr(options, name) for name in ("split", "level") if getattr(options, name) is not None}
    return settings


def _token(options: argparse.Namespace) -> str | None:
    """The token that clients must show: from a file or the environment, never from the command line for all to see. ""
    for a new one, None for none."""
    if options.no_token:
        return None
    if options.token_file is not None:
        token = options.token_file.read_text(encoding="utf-8").strip()
    elif options.token_env is not None:
        token = os.environ.get(options.token_env, "").strip()
    else:
        return ""
    if not token:
        raise ValueError(f"there is no token in {options.token_file or options.token_env}")
    return str(token)


def _value(text: str) -> Any:
    try:
        return load_json(text)
    except TooDeep as error:
        raise ValueError(f"a setting's JSON cannot be read: {error}") from None
    except ValueError:
        return text


def _seed(given: int | None) -> int:
    import secrets

    return secrets.randbits(32) if given is None else given


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rlvr", description="Environments with verified rewards for language models.")
    commands = parser.add_subparsers(required=True, metavar="command")

    listing = commands.add_parser("envs", help="list the environments")
    listing.add_argument("contains", nargs="?", default="", help="only ids that contain this text")
    listing.add_argument("-l", "--long", action="store_true", help="with a sentence on each")
    listing.set_defaults(command=envs)

    describing = commands.add_parser("card", help="print the card of an environment")
    describing.add_argument("env", nargs="+", help="ids of environments")
    describing.set_defaults(command=card)

    writing = commands.add_parser("new", help="write a package with an environment of your own")
    writing.add_argument("name", help="of the package, as my_env")
    writing.add_argument("--folder", type=Path, default=Path(), help="where to put it; here, if left out")
    writing.set_defaults(command=new)

    playing = commands.add_parser("play", help="play an episode yourself")
    playing.add_argument("env", help="id of the environment")
    playing.add_argument("--seed", type=int, help="which task; random if left out")
    playing.add_argument("--index", type=int, help="which task of the seed")
    playing.set_defaults(command=play)

    evaluating = commands.add_parser("eval", help="measure an agent")
    evaluating.add_argument("--env", required=True, help="id of the environment")
    who = evaluating.add_mutually_exclusive_group()
    who.add_argument(
        "--agent", default="expert", choices=("expert", "random", "empty"), help="an agent without a model"
    )
    who.add_argument("--model", help="rlvr/tiny, or a Hugging Face model by name or folder; its name at --endpoint")
    who.add_argument("--vllm", metavar="MODEL", help="a Hugging Face model, sampled by vLLM here or at --endpoint")
    evaluating.add_argument(
        "--endpoint", metavar="URL", help="an OpenAI-compatible server, as http://localhost:8000/v1"
    )
    evaluating.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the endpoint's key")
    evaluating.add_argument("--deadline", type=float, default=300.0, help="seconds a call may take, retries included")
    evaluating.add_argument("--concurrency", type=int, default=32, help="calls to the endpoint under way at once")
    evaluating.add_argument("--options", metavar="JSON", help="more fields of the endpoint's request, or of vllm.LLM")
    evaluating.add_argument("--episodes", type=int, help="how many tasks; all rows of a table, else 100, if left out")
    evaluating.add_argument("--samples", type=int, default=1, help="episodes on each task")
    evaluating.add_argument("--seed", type=int, default=0, help="decides the tasks and the sampling")
    evaluating.add_argument("--out", type=Path, help="JSONL file of the episodes; goes on with one that is there")
    evaluating.add_argument("--batch-size", type=int, default=256, help="episodes under way at once")
    evaluating.add_argument("--no-system", action="store_true", help="leave the environment's system prompt out")
    evaluating.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token")
    evaluating.add_argument("--max-new-tokens", type=int, default=512, help="tokens a turn may take")
    evaluating.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 …")
    evaluating.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    evaluating.set_defaults(command=evaluate)

    auditing = commands.add_parser("audit", help="attack the verifiers of environments")
    auditing.add_argument("env", nargs="*", help="ids; all registered ones if left out")
    auditing.add_argument("--tasks", type=int, default=20, help="tasks of each level")
    auditing.add_argument("--seed", type=int, default=0, help="which tasks")
    auditing.set_defaults(command=audit)
    _add_serve(serving := commands.add_parser("serve", help="serve an environment over WebSocket and HTTP"))
    for command in (playing, evaluating, auditing, serving):
        command.add_argument("--split", help="train, validation or test")
        command.add_argument("--level", type=int, help="difficulty, from 1")
        command.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of its own; JSON is read"
        )
        _add_allow_code(command)

    commands.add_parser("doctor", help="say which sandbox holds on this machine").set_defaults(command=doctor)
    commands.add_parser("algorithms", help="list the algorithms").set_defaults(command=algorithms)

    explaining = commands.add_parser("explain", help="from an episode's verdict to its gradient, with the numbers")
    explaining.add_argument("run", type=Path, help="folder of a run")
    explaining.add_argument("episode", help="train-000010:3, a number in the last training file, or a key")
    explaining.set_defaults(command=explain)

    training = commands.add_parser(
        "train", help="train a policy; `rlvr train --help` explains each field", add_help=False, allow_abbrev=False
    )
    _add_allow_code(training)
    training.set_defaults(command=train)
    return parser


def _add_allow_code(command: argparse.ArgumentParser) -> None:
    command.add_argument("--allow-code", action="store_true", help="let settings name modules, functions and commands")


def _add_serve(serving: argparse.ArgumentParser) -> None:
    serving.add_argument("env", help="id of the environment")
    serving.add_argument("--host", default="127.0.0.1", help="where to listen")
    serving.add_argument("--port", type=int, default=8765, help="0 takes any that is free")
    token = serving.add_mutually_exclusive_group()
    token.add_argument("--token-file", type=Path, help="file with the token that clients must show; else a new one")
    token.add_argument("--token-env", metavar="NAME", help="environment variable with it")
    token.add_argument("--no-token", action="store_true", help="let in every user of this machine")
    serving.add_argument("--sessions", type=int, default=256, help="at once")
    serving.add_argument("--ttl", type=float, default=600.0, help="seconds that an abandoned session lives on")
    serving.add_argument("--timeout", type=float, default=60.0, help="seconds a step may take; 0 for no limit")
    serving.add_argument("--backend", default="thread", choices=("thread", "process"), help="where environments run")
    serving.add_argument("--workers", type=int, help="threads or processes")
    serving.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="name that clients may use")
    serving.add_argument("--expert", action="store_true", help="clients may ask for the expert's action, and snapshots")
    serving.set_defaults(command=serve)
