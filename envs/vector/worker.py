"""The protocol between a vector environment and its worker processes, and the worker's side of it.

Messages are pickled tuples over a socket, each a kind and what belongs to it. To the worker:

    ("slots", {index: (maker, state)})   take these environments; a maker is pickled on its own, and ``state`` is the
                                         pickle of a slot that was brought over from another worker, or a new slot
    ("commands", [(index, command), …])      carry these out, in turn
    ("rescue", index)                    if that environment is under way: touch no other any more, and send them here
    ("close", None)                      close every environment, and end

From the worker:

    ("ready", None)                      the environments of "slots" are there, or their failure is known
    ("done", [(index, outcome), …])      in the order of "commands"; as many at a time as have gathered
    ("rescued", {index: state} or None)  the pickles of those that can be pickled; None: that one is not under way
    ("broken", reason)                   a message could not be read

One thread reads, one writes, and the main thread steps the environments, so that a worker whose environment is stuck
can still hand out the others. Everything in a message comes from the same program, never from a model.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from rlvr.envs.vector.env_slot import CallResult, Command, EnvSlot, Outcome
from rlvr.envs.vector.faults import ignore_interrupts

Job = tuple[int, Command]


def pack(message: tuple[str, Any]) -> bytes:
    """A message as bytes; functions and classes of the user's script travel along."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except Exception:  # pickle alone cannot take lambdas, nor what __main__ defines
        return pickle.dumps(CloudpickleWrapper(message), pickle.HIGHEST_PROTOCOL)  # type: ignore[arg-type]


def unpack(data: bytes) -> tuple[str, Any]:
    """The message of ``pack``."""
    message = pickle.loads(data)
    return message.fn if isinstance(message, CloudpickleWrapper) else message  # type: ignore[return-value]


def work(channel: Connection) -> None:
    """Be a worker until the channel closes."""
    ignore_interrupts()  # Ctrl-C is for the user's process, which then closes us
    gc.freeze()  # what was there before the fork is shared and stays: collecting it would only copy it
    worker = Worker(channel)
    threading.Thread(target=worker.read, name="read", daemon=True).start()
    threading.Thread(target=worker.write, name="write", daemon=True).start()
    worker.step()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


UNIMPORTABLE = (
    "a worker process cannot import {}, which the environments need: install it or put its folder on PYTHONPATH, "
    "or use the thread back end"
)


class Worker:
    """The three loops of a worker process."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._slots: dict[int, EnvSlot] = {}
        self._orders: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._outbox: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._gate = threading.Lock()  # held while the environment under way changes
        self._running: int | None = None

    def read(self) -> None:
        """Take messages; ends the process with the channel, whatever the other threads are in."""
        try:
            while True:
                data = self._channel.recv_bytes()
                try:
                    kind, content = unpack(data)
                except ImportError as error:
                    self._outbox.put(("broken", UNIMPORTABLE.format(error.name or error)))
                    continue
                except Exception as error:
                    self._outbox.put(("broken", f"it cannot read what it is sent: {type(error).__name__}: {error}"))
                    continue
                if kind == "rescue":
                    self._rescue(content)
                else:
                    self._orders.put((kind, content))
        finally:
            os._exit(0)

    def write(self) -> None:
        """Send what is done, everything that has gathered in one message."""
        while True:
            waiting = [self._outbox.get()]
            while not self._outbox.empty():
                waiting.append(self._outbox.get())
            done: list[tuple[int, Outcome]] = []
            for kind, content in waiting:
                if kind == "done":
                    done.append(content)
                    continue
                self._send(done)
                done = []
                self._channel.send_bytes(pack((kind, content)))
            self._send(done)

    def step(self) -> None:
        """Carry out what was read."""
        while True:
            kind, content = self._orders.get()
            if kind == "close":
                for slot in self._slots.values():
                    slot.close()
                return
            if kind == "slots":
                self._take(content)
                continue
            for index, command in content:
                with self._gate:
                    self._running = index
                outcome = self._slots[index].run(command)
                with self._gate:
                    self._running = None
                self._outbox.put(("done", (index, outcome)))

    def _take(self, slots: dict[int, tuple[Any, EnvSlot | bytes]]) -> None:
        for index, (make, state) in slots.items():
            slot = pickle.loads(state) if isinstance(state, bytes) else state
            slot.make = make
            if slot.env is None:
                slot.run(("make", None))  # if it fails it is tried again, and answered for, by the first command
            self._slots[index] = slot
        self._outbox.put(("ready", None))

    def _rescue(self, index: int) -> None:
        self._gate.acquire()  # for good, if we hand them out: the main thread must not begin anything else
        if self._running != index:
            self._gate.release()
            self._outbox.put(("rescued", None))
            return
        saved = {}
        for other, slot in self._slots.items():
            if other != index:
                try:
                    saved[other] = pickle.dumps(slot, pickle.HIGHEST_PROTOCOL)
                except Exception:  # it has something that cannot be pickled: it is lost, and said to be
                    continue
        self._outbox.put(("rescued", saved))

    def _send(self, done: list[tuple[int, Outcome]]) -> None:
        if not done:
            return
        try:
            data = pack(("done", done))
        except Exception:
            data = pack(("done", [self._sendable(index, outcome) for index, outcome in done]))
        self._channel.send_bytes(data)

    def _sendable(self, index: int, outcome: Outcome) -> tuple[int, Outcome]:
        try:
            pack(("done", outcome))
        except Exception as error:
            reason = f"what the environment said cannot be sent to another process: {error}"
            if isinstance(outcome[4], CallResult):
                return index, (*outcome[:4], CallResult(error=TypeError(reason)))
            slot = self._slots[index]
            slot.done = True
            return index, slot.ended_for_now(slot.failure("env_error", reason))
        return index, outcome
