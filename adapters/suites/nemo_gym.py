"""NeMo Gym: our environments as a resources server for its ``gymnasium_agent``; see docs/adapters/nemo_gym.md.

    write_project("my_gym", "rlvr/GuessNumber-v0", 1000)        # the server's folder, its configuration and the rows

A row's ``input`` begins the conversation, its ``spec`` names the task, and the server plays it. There an answer must
have a reward, so an episode that must not be trained on is answered with status 500 and the reason. It is not among the
rollouts then, and never a 0.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr.adapters.rows import AGENT, read_spec, rows, write_rows
from rlvr.adapters.serving.guard import GuardedApp
from rlvr.adapters.spec import EpisodeSession, TaskSpec, turns_of
from rlvr.adapters.versions import require
from rlvr.envs.core.code_rule import CodeRefused
from rlvr.envs.core.files import require_new, write_new

TESTED = ("nemo-gym", "0.4", "0.8")
IDLE_SECONDS = 3600.0

try:
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from nemo_gym.server_utils import SESSION_ID_KEY
    from resources_servers.gymnasium import GymnasiumServer, extract_text
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
except ImportError:
    BaseResourcesServerConfig = object

    class GymnasiumServer:  # type: ignore[no-redef]
        """In its place: asking for a server is an error that names what is missing."""

        def __init__(self, **settings: Any) -> None:
            require(*TESTED)

        @classmethod
        def run_webserver(cls) -> None:
            """Refuse: the framework is missing, or older than what was tested."""
            require(*TESTED)


class RlvrServerConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """What the YAML may say beside NeMo Gym's own keys.

    Attributes:
        modules: modules that a row's spec may import: every client of the server may send rows.
        idle_seconds: an episode that nobody steps for so long is dropped; their agents say nothing when they give up.
        hosts: names that the server goes by in ``Host``, beside those of the loopback where a connection arrives there.
    """

    modules: list[str] = ["rlvr"]  # noqa: RUF012  (a field of pydantic's)
    idle_seconds: float = IDLE_SECONDS
    hosts: list[str] = []  # noqa: RUF012


@dataclass(slots=True)
class _Episode:
    """One session. A step that arrives a second time, because the connection broke, is answered and not played."""

    session: EpisodeSession
    used: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    request: Any = None
    answer: tuple[str | None, float, bool, bool, dict[str, Any]] | None = None


class RlvrServer(GymnasiumServer):  # type: ignore[misc]
    """Plays the tasks of rows that `rlvr.adapters.rows` made with ``format="nemo_gym"``."""

    config: RlvrServerConfig

    def model_post_init(self, context: Any) -> None:
        """Check the version of NeMo Gym first."""
        require(*TESTED)
        super().model_post_init(context)

    def setup_webserver(self) -> Any:
        """NeMo Gym's application, with ``/close``, behind `GuardedApp`."""
        app = super().setup_webserver()
        app.post("/close")(self._close_endpoint)
        app.add_middleware(GuardedApp, hosts=self.config.hosts)
        return app

    async def reset(self, metadata: Mapping[str, Any], session_id: str | None = None) -> tuple[None, dict[str, Any]]:
        """Begin a row's task. Nothing is observed: the row's ``input`` has it already."""
        await self._drop_idle()
        try:
            spec = read_spec(metadata)
        except (ValueError, TypeError) as error:
            raise HTTPException(400, str(error)) from error
        if spec.module not in self.config.modules:
            allowed = ", ".join(self.config.modules)
            raise HTTPException(400, f"a task of module {spec.module!r}; the configuration's modules are {allowed}")
        await self._drop(session_id)
        try:
            session = await asyncio.to_thread(EpisodeSession, spec)
        except (CodeRefused, ValueError) as error:
            raise HTTPException(400, str(error)) from error
        if session.done:
            await asyncio.to_thread(session.close)
            raise HTTPException(
                500, session.verdict.reason if session.verdict else "the episode is over before it begins"
            )
        self.session_state[session_id] = _Episode(session, time.monotonic())
        return None, {"supports_explicit_close": True, "supports_step_idempotency": True}

    async def step(
        self, action: Any, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play the text of a model's answer."""
        episode: _Episode | None = self.session_state.get(session_id)
        if episode is None:
            raise HTTPException(
                409, "no episode is under way in this session: reset it first, and send its cookie along"
            )
        async with episode.lock:
            request = metadata.get("_ng_step_request_id")
            if episode.answer is not None and request is not None and request == episode.request:
                return episode.answer
            session, episode.used = episode.session, time.monotonic()
            if session.done:
                raise HTTPException(409, "the episode is over: reset the session first")
            before = session.reward
            message = await asyncio.to_thread(session.step, extract_text(action))
            verdict = session.verdict
            if verdict is not None and not session.valid and session.done:
                await self._drop(session_id)
                raise HTTPException(500, f"the episode cannot be scored: {verdict.status}: {verdict.reason}")
            info = {"turn": session.turns, "verdict": verdict.to_dict() if verdict else None}
            if session.done:
                info["success"] = bool(verdict and verdict.success)
            terminated = session.done and not session.truncated
            observation = message["content"] if message else None
            episode.request = request
            episode.answer = (observation, session.reward - before, terminated, session.truncated, info)
            return episode.answer

    async def close_session(self, session_id: str | None) -> None:
        """After the last step: the environment goes; its answer stays for a client that may ask for it again."""
        episode = self.session_state.get(session_id)
        if episode is not None and episode.request is None:
            await self._drop(session_id)
        elif episode is not None:
            await asyncio.to_thread(episode.session.close)

    async def _close_endpoint(self, request: Request) -> dict[str, Any]:
        await self._drop(request.session.get(SESSION_ID_KEY))
        return {}

    async def _drop(self, session_id: str | None) -> None:
        episode = self.session_state.pop(session_id, None)
        if episode is not None:
            await asyncio.to_thread(episode.session.close)

    async def _drop_idle(self) -> None:
        oldest = time.monotonic() - self.config.idle_seconds
        for name in [name for name, episode in self.session_state.items() if episode.used < oldest]:
            await self._drop(name)


APP = """\
from rlvr.adapters.suites.nemo_gym import RlvrServer

if __name__ == "__main__":
    RlvrServer.run_webserver()
"""
CONFIG = """\
{agent}:
  resources_servers:
    {agent}:
      entrypoint: app.py
      domain: other
      verified: false
      description: {description}
      modules: {modules}
{agent}_agent:
  responses_api_agents:
    gymnasium_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: {agent}
      model_server:
        type: responses_api_models
        name: policy_model
      max_steps: {max_steps}
      datasets:
      - name: example
        type: example
        jsonl_fpath: resources_servers/{agent}/data/example.jsonl
"""


def write_project(
    folder: str | Path,
    env_id: str,
    n: int | None = None,
    *,
    max_steps: int | None = None,
    requirement: str = "rlvr",
    force: bool = False,
    **options: Any,
) -> Path:
    """Write what ``gym env start`` looks for in the folder it is called in; the path of the YAML.

    ``resources_servers/rlvr`` gets ``app.py``, ``requirements.txt``, ``configs/rlvr.yaml`` and ``data/example.jsonl``.

    Args:
        folder: of the project.
        env_id, n, options: the tasks, as in `rlvr.adapters.rows`.
        max_steps: turns that the agent plays at most; None asks the environment. An episode that is cut there keeps
            what it earned, so it should not be fewer.
        requirement: what pip installs us from, such as ``rlvr @ file:///…``.
        force: write over files of those names that nothing of ours wrote as they are now.

    Raises:
        ValueError: a file is there, or ``max_steps`` is missing for an environment that does not say how long its
            episodes are; else as `rlvr.adapters.rows`.
    """
    home = Path(folder) / "resources_servers" / AGENT
    app, requirements, config = home / "app.py", home / "requirements.txt", home / "configs" / f"{AGENT}.yaml"
    example = home / "data" / "example.jsonl"
    for path in (app, requirements, config, example):
        require_new(path, force)
    table = rows(env_id, n, "nemo_gym", **options)
    specs = [read_spec(row) for row in table]
    max_steps = max_steps or _turns(specs[0])
    for name in ("configs", "data"):
        (home / name).mkdir(parents=True, exist_ok=True)
    write_new(app, APP, force)
    write_new(requirements, requirement + "\n", force)
    write_rows(table, example, force=force)
    modules = json.dumps(sorted({"rlvr", *(spec.module for spec in specs)}))  # JSON is YAML
    description = json.dumps(f"tasks of {specs[0].env_id}")
    text = CONFIG.format(agent=AGENT, description=description, modules=modules, max_steps=max_steps)
    write_new(config, text, force)
    return config


def _turns(spec: TaskSpec) -> int:
    env, _, info = spec.start()
    turns = turns_of(env, info)
    env.close()
    if turns is None:
        raise ValueError(f"{spec.env_id} does not say how many turns an episode has: give max_steps")
    return turns
