"""Sessions of several servers as one vector environment: what a server's death costs, and where its sessions go."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from rlvr.adapters.fleet.members import HEARTBEAT, REACH_SECONDS, SHUT_SECONDS, Member, Members, opened
from rlvr.adapters.fleet.remote_vector import GONE, RemoteVectorEnv
from rlvr.adapters.serving.answers import Range
from rlvr.adapters.serving.connection import WireConnection, error_of
from rlvr.adapters.serving.wire import pack
from rlvr.envs.core.images import text_of

PATIENCE = 60.0  # seconds to wait for any server at all
Fields = Mapping[int, dict[str, Any]]  # of an item, by the index of its session
Results = dict[int, dict[str, Any]]


@dataclass(slots=True)
class _Place:
    """Where a session is, and what was played there since its episode began.

    Attributes:
        begun: the fields of the reset; None where it cannot be played again.
        played: each action, and a hash of what came of it; the first is of the reset.
    """

    member: Member
    session: str
    begun: dict[str, Any] | None = None
    played: list[tuple[str, int]] = field(default_factory=list)


class ClusterVectorEnv(RemoteVectorEnv):
    """Sessions of several servers of the same environment as one ``gymnasium.vector.VectorEnv``.

    Sessions are opened where most are free. When a server is lost, the episodes there end with a verdict
    ``env_error``, or ``timeout`` if it did not answer in time, and their next episodes begin on the others; it is tried
    again in the background, and gets its share back as episodes end. A request is sent twice only to the server that it
    was sent to first, under its id, and carried out once.

    Args:
        addresses: of the servers, as in `connect`; ``dns+http://name:port`` stands for every address of that name.
        token, timeout, reward_range, env, num_envs, autoreset_mode: as in `RemoteVectorEnv`.
        restore: whether an episode of a lost server is played again on another, from its seed and its actions, and goes
            on where everything comes out as before. It needs seeds: those of `reset`, and for the episodes that begin
            by themselves, seeds that are drawn here.

    Raises:
        ConnectionError: no server can be reached, within a minute where there was one before.
        PermissionError, TimeoutError, RemoteError, ValueError: as `RemoteVectorEnv`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        num_envs: int,
        *,
        token: str | None = None,
        timeout: float | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        reward_range: Range | None = None,
        env: str | None = None,
        restore: bool = False,
    ) -> None:
        self._check(num_envs, autoreset_mode)

        def reach(url: str, ip: str | None) -> WireConnection:
            return WireConnection(
                url, token, timeout, reward_range, env, ip=ip, open_seconds=REACH_SECONDS, heartbeat=HEARTBEAT
            )

        self._members = Members(list(addresses), reach)
        assert self._members.greeting is not None, "one was reached"
        try:
            self._declare(self._members.greeting, 1 << 20)
        except ValueError:
            self._members.close()
            raise
        self._restore = restore
        self._places: list[_Place | None] = [None] * self.num_envs
        self._began = False
        self.restored = 0  # episodes that went on after their server was lost

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions, and close the connections."""
        for member in self._members.up():
            if member.connection is not None:
                member.connection.leave([place.session for place in self._places if place and place.member is member])
        self._places = [None] * self.num_envs
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
        fields = {
            index: {"seed": self._seed(None if seeds is None else seeds[index]), "options": packed} for index in indices
        }
        self._settle(indices)
        infos: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + PATIENCE
        while left := [index for index in indices if index not in infos]:
            self._seat(left, until)
            results = self._asked("reset", {index: fields[index] for index in left})
            for index, result in results.items():
                error = result.get("error")
                if error is None:
                    self._observations[index], infos[index] = result["observation"], result["info"]
                    self._over[index] = False
                    self._note(index, "", result, fields[index])
                elif error["code"] not in GONE or time.monotonic() > until:
                    raise error_of(error)
        return infos

    def _play(self, indices: Sequence[int], actions: Sequence[str]) -> list[dict[str, Any]]:
        said = dict(zip(indices, actions, strict=True))
        before = {index: self._places[index] for index in indices}
        results = self._asked("step", {index: {"action": action} for index, action in said.items()})
        lost = {index: place for index, place in before.items() if place and self._places[index] is None}
        if self._restore and lost:
            again = {i: place for i, place in lost.items() if place.begun and _code(results[i]) != "timeout"}
            results |= self._again(again, said)
        for index, result in results.items():
            if index not in lost and "error" not in result:
                self._note(index, said[index], result)
        return [results[index] for index in indices]

    def _seed(self, seed: int | None) -> int | None:
        return int(self.np_random.integers(1 << 31)) if seed is None and self._restore else seed

    def _asked(self, op: str, fields: Fields) -> Results:
        """What became of an item of each of these sessions; a lost server's are errors, and have no place any more."""
        at: dict[Member, list[int]] = {}
        results: Results = {}
        for index in fields:
            place = self._places[index]
            if place is None or place.member.connection is None:
                self._places[index] = None
                results[index] = {"error": {"code": "closing", "message": "the session's server was lost"}}
            else:
                at.setdefault(place.member, []).append(index)
        jobs = [(member, partial(self._sent, member, op, indices, fields)) for member, indices in at.items()]
        for (member, _), told in zip(jobs, self._members.each(jobs).values(), strict=True):
            if isinstance(told, Exception):
                code = "timeout" if isinstance(told, TimeoutError) else "closing"
                self._lose(member, str(told))
                told = [{"error": {"code": code, "message": f"its server was lost: {told}"[:500]}} for _ in at[member]]
            for index, result in zip(at[member], told, strict=True):
                results[index] = result
                if "error" in result and result["error"]["code"] in GONE:
                    self._leave(index, result["error"]["code"])
        return results

    def _sent(self, member: Member, op: str, indices: Sequence[int], fields: Fields) -> list[dict[str, Any]]:
        connection, told = member.connection, []
        assert connection is not None, "it was there"
        for first in range(0, len(indices), connection.greeting.items):
            part = indices[first : first + connection.greeting.items]
            items = [{"session": place.session, **fields[i]} for i in part if (place := self._places[i]) is not None]
            told += connection.ask(op, items)
        return told

    # where sessions are

    def _lose(self, member: Member, reason: str) -> None:
        self._members.lose(member, reason)
        for index, place in enumerate(self._places):
            if place is not None and place.member is member:
                self._places[index] = None

    def _leave(self, index: int, code: str) -> None:
        place, self._places[index] = self._places[index], None
        if place is None:
            return
        place.member.seats = max(0, place.member.seats - 1)
        if code == "draining":
            place.member.shut = time.monotonic() + SHUT_SECONDS

    def _settle(self, indices: Sequence[int]) -> None:
        """Where a server came back, those above their share let go of sessions whose episodes are over."""
        if not self._members.returned:
            return
        up = self._members.open_to(time.monotonic())
        fair = -(-self.num_envs // max(1, len(up)))
        leaving: dict[Member, list[str]] = {}
        for index in indices:
            place = self._places[index]
            if place is not None and place.member.seats > fair and any(member.seats < fair for member in up):
                leaving.setdefault(place.member, []).append(place.session)
                self._leave(index, "")
        for member, sessions in leaving.items():
            if member.connection is not None:
                closing = [{"session": session} for session in sessions]
                self._members.each([(member, partial(member.connection.ask, "close", closing))])
        self._members.returned = any(member.seats > fair for member in up)

    def _seat(self, indices: Sequence[int], until: float) -> None:
        """Give each a session, if it has none."""
        homeless = [index for index in indices if self._places[index] is None]
        while homeless:
            now = time.monotonic()
            members = self._members.open_to(now)
            if not members:
                if now > until:
                    reasons = "; ".join(f"{member.url}: {member.reason}" for member in self._members.all)
                    raise ConnectionError(f"no server has taken a session for {PATIENCE:g} s: {reasons}"[:1000])
                self._members.wait(0.1)
                continue
            plan: dict[Member, int] = dict.fromkeys(members, 0)
            for _ in homeless:
                plan[min(plan, key=lambda member: member.load(plan[member]))] += 1
            jobs = [(member, partial(_opened_at, member, count)) for member, count in plan.items() if count]
            for (member, _), names in zip(jobs, self._members.each(jobs).values(), strict=True):
                if isinstance(names, Exception):
                    if "begins nothing new" in str(names):  # it drains, and its other sessions go on
                        names = []
                    else:
                        self._lose(member, str(names))
                        continue
                if len(names) < plan[member]:
                    member.shut, member.reason = time.monotonic() + SHUT_SECONDS, "it takes no more sessions"
                for session in names:
                    self._places[homeless.pop()] = _Place(member, session)
                    member.seats += 1

    # episodes of lost servers, played again

    def _note(self, index: int, action: str, result: Mapping[str, Any], begun: dict[str, Any] | None = None) -> None:
        place = self._places[index]
        if not self._restore or place is None:
            return
        if begun is not None:
            place.begun, place.played = begun, []
        place.played.append((action, _hash(result)))

    def _again(self, lost: Mapping[int, _Place], said: Mapping[int, str]) -> Results:
        """Play episodes again on other servers, and go on with what is said; those that came out as before."""
        going = dict(lost)
        if not going:
            return {}
        try:
            self._seat(list(going), time.monotonic() + PATIENCE)
        except ConnectionError:
            return {}
        for turn in range(max(len(place.played) for place in going.values())):
            now = {index: place for index, place in going.items() if turn < len(place.played)}
            fields = {i: {"action": place.played[turn][0]} if turn else place.begun or {} for i, place in now.items()}
            for index, result in self._asked("step" if turn else "reset", fields).items():
                if "error" in result or _hash(result) != now[index].played[turn][1]:
                    del going[index]  # it is another episode, or has no place again
        results = self._asked("step", {index: {"action": said[index]} for index in going})
        found = {index: result for index, result in results.items() if "error" not in result}
        for index, result in found.items():
            old, new = lost[index], self._places[index]
            if new is not None:
                new.begun, new.played = old.begun, [*old.played, (said[index], _hash(result))]
        self.restored += len(found)
        return found


def _opened_at(member: Member, count: int) -> list[str]:
    if member.connection is None:
        raise ConnectionError(member.reason)
    return opened(member.connection, count)


def _code(result: Mapping[str, Any]) -> str:
    return str(result.get("error", {}).get("code", ""))


def _hash(result: Mapping[str, Any]) -> int:
    """Of what a reset or a step answered, as far as it must be the same again."""
    ends = result.get("reward"), result.get("terminated"), result.get("truncated")
    return hash((text_of(result["observation"]), *ends))
