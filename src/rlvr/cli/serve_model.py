"""``rlvr serve-model``: a model behind OpenAI's chat completions."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import add_allow_code, key_of, port, value_of, without_progress_bars

if TYPE_CHECKING:
    pass

LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Of a run's sampling: what is served, and what is not.
SERVED = frozenset({"dtype", "max_length", "max_new_tokens", "template_options", "float32_head"})
LACKING = {
    "no_system": "without system prompts, which clients may send",
    "thinking_budget": "with thoughts that are ended after so many tokens, which no server does",
}
LACKING_IN_VLLM = {
    "float32_head": "with a head in float32, which vLLM computes in the dtype of the weights",
    "max_new_tokens": "with a limit of its own for each reply, which clients give as max_tokens",
}


def serve_model(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve a model to clients of OpenAI's chat completions until Ctrl-C or SIGTERM."""
    from rlvr.agents.models.model_folder import policy_folder

    model = policy_folder(options.model)
    trained = _take_training(options)
    name = options.name or Path(options.model).resolve().name
    key = None if options.no_key else key_of(options.api_key_env) or secrets.token_urlsafe(24)
    if key is None and options.host not in LOOPBACK:
        raise ValueError("--no-key serves everybody who reaches the port: leave out --host, or let clients show a key")
    if options.engine == "vllm":
        return _serve_with_vllm(model, name, key, options, trained)
    if options.options is not None or options.host != "127.0.0.1":
        raise ValueError("--host and --options are vLLM's: add --engine vllm, or reach this machine through ssh -L")
    try:
        from rlvr.adapters.serving.generate_server import ChatServer
        from rlvr.agents.models.tiny import load_policy
    except ModuleNotFoundError as error:
        raise ImportError(f'serving a model needs {error.name}: pip install "rlvr[train]"') from error
    without_progress_bars()
    policy, tokenizer = load_policy(model, device=options.device or "cpu", dtype=options.dtype)
    if trained.float32_head:
        from rlvr.algorithms.learner.head import use_float32

        use_float32(policy)
    chats = {"template_options": trained.template_options, "max_new_tokens": trained.max_new_tokens}
    length = options.max_length
    try:
        server = ChatServer(policy, tokenizer, name=name, max_length=length, api_key=key, port=options.port, **chats)
    except OSError as error:
        raise _not_listening("127.0.0.1", options.port, error) from error
    with server, stopped_by_signals() as stopped:
        _say_where(f"{server.url}/v1", name, key, options)
        stopped.wait()
    return 0


def _take_training(options: argparse.Namespace) -> argparse.Namespace:
    """What decides a reply and no flag names, as the run says whose policy it is; says what of it is not served.

    ``dtype`` and ``max_length`` are put into the options.
    """
    from rlvr.cli.eval_agents import DEFAULTS, config_of, say_taken, take_sampling

    settings = {"dtype": options.dtype, "max_length": options.max_length}
    agent_options = argparse.Namespace(
        **{**dict.fromkeys(DEFAULTS), **settings}, model=options.model, vllm=None, endpoint=None
    )
    config = config_of(agent_options)
    take_sampling(agent_options, config)
    options.dtype, options.max_length = agent_options.dtype, agent_options.max_length
    if config is None:
        agent_options.max_new_tokens = None  # all that the length leaves
        return agent_options
    served = SERVED if options.engine != "vllm" else SERVED - set(LACKING_IN_VLLM)
    decided = sorted(
        name for name in served if settings.get(name) is None and getattr(agent_options, name) != DEFAULTS[name]
    )
    say_taken(options.model, [f"{name} {getattr(agent_options, name)}" for name in decided], {})
    lacking = LACKING | (LACKING_IN_VLLM if options.engine == "vllm" else {})
    for text in (text for name, text in lacking.items() if getattr(agent_options, name) != DEFAULTS[name]):
        print(f"rlvr: {options.model} is not served as it was trained: {text}", file=sys.stderr)
    return agent_options


def _not_listening(host: str, port: int, error: OSError) -> ValueError:
    if isinstance(error, socket.gaierror):
        return ValueError(f"--host {host} is no address: {error.strerror}")
    if error.errno == errno.EADDRNOTAVAIL:
        return ValueError(f"--host {host} is not an address of this machine")
    return ValueError(f"port {port} cannot be listened at ({error.strerror}): give another --port")


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set meanwhile; the handlers of before return."""
    stopped = threading.Event()
    before = {signum: signal.signal(signum, lambda *_: stopped.set()) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _serve_with_vllm(
    model: str, name: str, key: str | None, options: argparse.Namespace, trained: argparse.Namespace
) -> int:
    """Become vLLM's server."""
    from rlvr.agents.models.vllm import MISSING as VLLM_MISSING
    from rlvr.agents.models.vllm import PLAIN_OPTIONS, whole_prefills
    from rlvr.agents.models.vllm_process import flags
    from rlvr.envs.core.code_rule import require_code

    if options.device is not None:
        raise ValueError("--device is the other engine's: vLLM chooses by its build, or by --options")
    more = value_of(options.options or "{}")
    if not isinstance(more, dict):
        raise ValueError(f"--options takes a JSON object, got {options.options!r}")
    for option in sorted(more.keys() - PLAIN_OPTIONS):
        require_code(f"--options {option}, which vLLM may take for a class or a file to load,")
    try:
        chosen = {"logprobs_mode": "processed_logprobs", **whole_prefills(), "dtype": options.dtype}
    except ImportError as error:
        raise ImportError(VLLM_MISSING) from error
    chosen |= {"max_model_len": options.max_length} if options.max_length else {}
    chosen |= {"default_chat_template_kwargs": trained.template_options} if trained.template_options else {}
    free = _free_port(options.host, options.port)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--served-model-name", name, "--host", options.host, "--port", str(free)]
    command += flags(chosen | more)
    variables = os.environ | {"PYTHONSAFEPATH": "1"} | ({"VLLM_API_KEY": key} if key else {})
    host = f"[{options.host}]" if ":" in options.host else options.host
    _say_where(f"http://{host}:{free}/v1", name, key, options, ", once vLLM has started")
    os.execve(sys.executable, command, variables)


def _free_port(host: str, port: int) -> int:
    """The port, or any that is free for 0: vLLM says neither which one it took nor, for a minute, that one is taken.

    Raises:
        ValueError: it cannot be listened at.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as vLLM: what was closed just now is free
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise _not_listening(host, port, error) from error


def _say_where(url: str, name: str, key: str | None, options: argparse.Namespace, when: str = "") -> None:
    shown = f", key {key}" if key and options.api_key_env is None else ""
    print(f"{name} at {url}{when}{shown} (Ctrl-C ends it)", flush=True)


def add_parsers(commands: Any) -> None:
    """Add ``serve-model`` to the sub-commands of `rlvr`."""
    serving = commands.add_parser("serve-model", help="serve a model by OpenAI's chat completions")
    serving.add_argument("model", help="folder of a run or of a model, rlvr/tiny, or a Hugging Face model by name")
    serving.add_argument("--engine", choices=("transformers", "vllm"), default="transformers", help="what samples")
    serving.add_argument("--name", help="of the model, for clients; the folder's name if left out")
    serving.add_argument("--host", default="127.0.0.1", help="where vLLM listens")
    serving.add_argument("--port", type=port, default=8000, help="0 takes any that is free")
    key = serving.add_mutually_exclusive_group()
    key.add_argument("--api-key-env", metavar="NAME", help="environment variable with the clients' key; else a new one")
    key.add_argument("--no-key", action="store_true", help="let in every user of this machine")
    serving.add_argument(
        "--max-length",
        type=int,
        help="tokens of a conversation; those of a run, else what the model takes, if left out",
    )
    serving.add_argument("--device", help="cpu, cuda, cuda:1 …; cpu if left out; not of vLLM")
    serving.add_argument("--dtype", help="float32, bfloat16 or float16; that of a run, else float32, if left out")
    serving.add_argument("--options", metavar="JSON", help="more options of vLLM")
    add_allow_code(serving)
    serving.set_defaults(command=serve_model)
