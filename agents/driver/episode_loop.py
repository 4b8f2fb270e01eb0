"""The loop that plays many episodes at once, whatever they are played for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from rlvr.agents.conversation import Agent, Conversation, Reply, capability
from rlvr.agents.driver.active_episode import ActiveEpisode, Env
from rlvr.agents.driver.env_calls import PLAYED, CallRaised, EnvCall, EnvCalls, Event, Outcome

Submit = Callable[[Sequence[Conversation]], list["Future[Reply]"]]
ActEach = Callable[[Sequence[Conversation]], Iterator[tuple[int, Reply]]]
LATER = -1  # the index of a future that is no reply


@dataclass(slots=True)
class EpisodeLoop:
    """Plays episodes until they end or pause, `batch_size` of them at a time.

    An agent that has a ``submit`` (`ConcurrentAgent`) is asked for each episode as soon as it is ready, and no episode
    waits for another one's reply. Any other agent is asked for all that are ready, in one batch.

    With ``each_reply`` an agent that has an ``act_each`` is asked in batches too, and each reply is played as soon
    as it is there: an episode that it ends need not wait for the longest reply of the batch.

    Where one episode alone is under way, an agent that says ``in_any_thread`` is asked in the environment's thread:
    to pass a turn to another thread and back costs more than everything else the loop does for it.

    Args:
        agent: who acts.
        calls: makes the calls of the environments; closed at the end.
        batch_size: how many episodes are under way at once.
        make: makes an environment for an episode that has none.
        each_reply: play each reply of a batch by itself.
    """

    agent: Agent
    calls: EnvCalls
    batch_size: int
    make: Callable[[], Env] | None = None
    each_reply: bool = False
    _replies: dict[int, Future[Reply]] = field(default_factory=dict, init=False)  # waited for

    def run(self, episodes: Iterable[ActiveEpisode | Future[None]]) -> Iterator[tuple[int, ActiveEpisode]]:
        """Each episode once it has ended or is paused, with its index among the episodes.

        Episodes are taken when there is place for them. One whose conversation has messages has begun already. A future
        among them means that there is none now, and that it is time to ask again once it is done.
        """
        try:
            yield from self._run(iter(episodes))
        finally:
            self.calls.close()
            for reply in self._replies.values():
                reply.cancel()

    def _run(self, waiting: Iterator[ActiveEpisode | Future[None]]) -> Iterator[tuple[int, ActiveEpisode]]:
        submit: Submit | None = capability(self.agent, "submit")
        act_each: ActEach | None = capability(self.agent, "act_each") if self.each_reply else None
        live: dict[int, ActiveEpisode] = {}
        ready: list[int] = []
        calls: list[EnvCall] = []
        here = self.calls.in_other_threads and submit is None and bool(capability(self.agent, "in_any_thread"))
        in_turn = not self.calls.parallel and submit is None
        numbers = count()
        exhausted = asked = False  # asked: for more, which is not there yet

        def take(events: Iterable[Event]) -> Iterator[tuple[int, ActiveEpisode]]:
            """Take in what has happened: the episodes that have ended by it."""
            nonlocal asked
            for what, outcome in events:
                if what == LATER:
                    asked = False
                elif not isinstance(what, EnvCall):
                    calls.append(live[what].answer(self._replies.pop(what).result(), what))
                elif isinstance(outcome, CallRaised):
                    raise outcome.error
                elif outcome is PLAYED or live[what.index].take(what, outcome):
                    yield what.index, live.pop(what.index)
                else:
                    ready.append(what.index)

        while True:
            while not exhausted and not asked and len(live) < self.batch_size:
                active = next(waiting, None)
                if active is None:
                    exhausted = True
                elif isinstance(active, Future):
                    asked = True
                    self.calls.watch(LATER, active)
                else:
                    live[index := next(numbers)] = active
                    if active.conversation.messages:
                        ready.append(index)
                    else:
                        calls.append(active.reset_call(index, self.make))
            if not live and not asked:
                return
            if here and len(live) == len(calls) == 1:
                calls[0].then = self._then(live[calls[0].index])
            if not in_turn:
                self._start(calls)
            if ready:
                batch = ready[:]
                ready.clear()
                conversations = [live[index].conversation for index in batch]
                if submit is not None:
                    for index, future in zip(batch, submit(conversations), strict=True):
                        self._replies[index] = future
                        self.calls.watch(index, future)
                elif act_each is not None:
                    self._start(calls)
                    for number, reply in act_each(conversations):
                        self.calls.start([live[batch[number]].answer(reply, batch[number])])
                        yield from take(self.calls.collect(every_call=in_turn, wait_for_one=False))
                else:
                    replies = self.agent.act(conversations)
                    calls += [live[i].answer(reply, i) for i, reply in zip(batch, replies, strict=True)]
            self._start(calls)
            # In turn, the agent's next batch holds all episodes; otherwise whichever are ready.
            idle = bool(ready) or not (live or asked)
            yield from take(self.calls.collect(every_call=in_turn, wait_for_one=not idle))

    def _start(self, calls: list[EnvCall]) -> None:
        self.calls.start(calls[:])
        calls.clear()

    def _then(self, active: ActiveEpisode) -> Callable[[EnvCall, Outcome], EnvCall | None]:
        """Plays an episode on, after each call: records its outcome, asks the agent, and gives the next call."""

        def go_on(call: EnvCall, outcome: Outcome) -> EnvCall | None:
            if active.take(call, outcome):
                return None
            (reply,) = act(conversations)
            call.function, call.played = active.record(reply), active.played
            return call

        act, conversations = self.agent.act, [active.conversation]
        return go_on
