"""Sessions of several servers as one vector environment: what a server's death costs, and where its sessions go."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from gymnasium.vector import AutoresetMode

from rlvr.adapters.fleet.members import HEARTBEAT, REACH_SECONDS, SHUT_SECONDS, Member, Members, opened
from rlvr.adapters.fleet.remote_vector import GONE, RemoteVectorEnv
from rlvr.adapters.serving.connection import Access, WireConnection, error_of
from rlvr.adapters.serving.wire import pack

PATIENCE = 60.0  # seconds to wait for any server at all
Fields = Mapping[int, dict[str, Any]]  # of an item, by the index of its session
Results = dict[int, dict[str, Any]]


@dataclass(slots=True)
class _RemoteSession:
    """A session, and the server that gave it its name."""

    member: Member
    id: str


class ClusterVectorEnv(RemoteVectorEnv):
    """Sessions of several servers of the same environment as one ``gymnasium.vector.VectorEnv``.

    Sessions are opened where most are free. When a server is lost, the episodes there end with a verdict
    ``env_error``, or ``timeout`` if it did not answer in time, and their next episodes begin on the others; it is tried
    again in the background, and gets its share back as episodes end. A request is sent twice only to the server that it
    was sent to first, under its id, and carried out once.

    Args:
        addresses: of the servers, as in `connect`; ``dns+http://name:port`` stands for every address of that name.
        num_envs, autoreset_mode, access: as in `RemoteVectorEnv`.

    Raises:
        ConnectionError: no server can be reached, within a minute where there was one before.
        PermissionError, TimeoutError, RemoteError, ValueError: as `RemoteVectorEnv`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        num_envs: int,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **access: Unpack[Access],
    ) -> None:
        self._check(num_envs, autoreset_mode)

        def reach(url: str, ip: str | None) -> WireConnection:
            return WireConnection(url, **access, ip=ip, open_seconds=REACH_SECONDS, heartbeat=HEARTBEAT)

        self._members = Members(list(addresses), reach)
        assert self._members.greeting is not None, "one was reached"
        try:
            self._declare(self._members.greeting, 1 << 20)
        except ValueError:
            self._members.close()
            raise
        self._remotes: list[_RemoteSession | None] = [None] * self.num_envs
        self._began = False

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions, and close the connections."""
        for member in self._members.up():
            if member.connection is not None:
                member.connection.leave([remote.id for remote in self._remotes if remote and remote.member is member])
        self._remotes = [None] * self.num_envs
        self._members.close()

    def _open(self) -> None:
        self._began = True

    def _opened(self) -> bool:
        return self._began

    # playing

    def _begin(
        self, indices: list[int], seeds: Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        packed = None if options is None else pack(options)
        fields = {index: {"seed": None if seeds is None else seeds[index], "options": packed} for index in indices}
        self._settle(indices)
        infos: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + PATIENCE
        # Episodes on a server that was lost meanwhile begin anew: their observations were not returned yet.
        while unbegun := [index for index in indices if index not in infos or self._remotes[index] is None]:
            self._assign(unbegun, until)
            results = self._asked("reset", {index: fields[index] for index in unbegun})
            for index, result in results.items():
                error = result.get("error")
                if error is None:
                    self._observations[index], infos[index] = result["observation"], result["info"]
                    self._over[index] = False
                elif (error["code"] not in GONE and self._remotes[index] is not None) or time.monotonic() > until:
                    raise error_of(error)  # the environment's own failure; a lost session begins anew elsewhere
        return infos

    def _play(self, indices: Sequence[int], actions: Sequence[str]) -> list[dict[str, Any]]:
        results = self._asked("step", {i: {"action": action} for i, action in zip(indices, actions, strict=True)})
        return [results[index] for index in indices]

    def _asked(self, op: str, fields: Fields) -> Results:
        """The result of an item for each of these sessions; for those of a lost server an error."""
        at: dict[Member, list[int]] = {}
        results: Results = {}
        for index in fields:
            remote = self._remotes[index]
            if remote is None or remote.member.connection is None:
                self._remotes[index] = None
                results[index] = {"error": {"code": "closing", "message": "the session's server was lost"}}
            else:
                at.setdefault(remote.member, []).append(index)
        jobs = [(member, partial(self._sent, member, op, indices, fields)) for member, indices in at.items()]
        for (member, _), answers in zip(jobs, self._members.each(jobs).values(), strict=True):
            if isinstance(answers, ImportError):  # Pillow is missing here: no other server helps
                raise answers
            if isinstance(answers, Exception):
                code = "timeout" if isinstance(answers, TimeoutError) else "closing"
                self._lose(member, str(answers))
                answers = [
                    {"error": {"code": code, "message": f"its server was lost: {answers}"[:500]}} for _ in at[member]
                ]
            for index, result in zip(at[member], answers, strict=True):
                results[index] = result
                if "error" in result and result["error"]["code"] in GONE:
                    self._leave(index, result["error"]["code"])
        return results

    def _sent(self, member: Member, op: str, indices: Sequence[int], fields: Fields) -> list[dict[str, Any]]:
        connection, answers = member.connection, []
        assert connection is not None, "it was there"
        for first in range(0, len(indices), connection.greeting.items):
            part = indices[first : first + connection.greeting.items]
            items = [{"session": remote.id, **fields[i]} for i in part if (remote := self._remotes[i]) is not None]
            answers += connection.ask(op, items)
        return answers

    # where sessions are

    def _lose(self, member: Member, reason: str) -> None:
        self._members.lose(member, reason)
        for index, remote in enumerate(self._remotes):
            if remote is not None and remote.member is member:
                self._remotes[index] = None

    def _leave(self, index: int, code: str) -> None:
        remote, self._remotes[index] = self._remotes[index], None
        if remote is None:
            return
        remote.member.sessions = max(0, remote.member.sessions - 1)
        if code == "draining":
            remote.member.shut = time.monotonic() + SHUT_SECONDS
            remote.member.reason = "it is about to end, and begins nothing new"

    def _settle(self, indices: Sequence[int]) -> None:
        """Where a server came back, close the sessions over their share whose episodes have ended."""
        if not self._members.returned:
            return
        up = self._members.open_to(time.monotonic())
        fair = -(-self.num_envs // max(1, len(up)))
        leaving: dict[Member, list[str]] = {}
        for index in indices:
            remote = self._remotes[index]
            if remote is not None and remote.member.sessions > fair and any(member.sessions < fair for member in up):
                leaving.setdefault(remote.member, []).append(remote.id)
                self._leave(index, "")
        for member, sessions in leaving.items():
            if member.connection is not None:
                items = [{"session": session} for session in sessions]
                self._members.each([(member, partial(member.connection.ask, "close", items))])
        self._members.returned = any(member.sessions > fair for member in up)

    def _assign(self, indices: Sequence[int], until: float) -> None:
        """Give each a session, if it has none."""
        unassigned = [index for index in indices if self._remotes[index] is None]
        while unassigned:
            now = time.monotonic()
            members = self._members.open_to(now)
            if not members:
                if now > until:
                    reasons = "; ".join(f"{member.shown}: {member.reason}" for member in self._members.all)
                    raise ConnectionError(f"no server has taken a session for {PATIENCE:g} s: {reasons}"[:1000])
                self._members.wait(0.1)
                continue
            plan: dict[Member, int] = dict.fromkeys(members, 0)
            for _ in unassigned:
                plan[min(plan, key=lambda member: member.load(plan[member]))] += 1
            jobs = [(member, partial(_opened_at, member, count)) for member, count in plan.items() if count]
            for (member, _), names in zip(jobs, self._members.each(jobs).values(), strict=True):
                reason = "it takes no more sessions"
                if isinstance(names, Exception):
                    if "begins nothing new" not in (reason := str(names)):
                        self._lose(member, reason)
                        continue
                    names = []  # it drains, and its other sessions go on
                if len(names) < plan[member]:
                    member.shut, member.reason = time.monotonic() + SHUT_SECONDS, reason
                for session in names:
                    self._remotes[unassigned.pop()] = _RemoteSession(member, session)
                    member.sessions += 1


def _opened_at(member: Member, count: int) -> list[str]:
    if member.connection is None:
        raise ConnectionError(member.reason)
    return opened(member.connection, count)
