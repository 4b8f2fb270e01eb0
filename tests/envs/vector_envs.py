"""Environments that do what their action says. A module of their own, so that worker processes can import them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

from rlvr.envs.core.spaces import Text
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import correct, wrong


class Puppet(gym.Env):
    """Says who it is: seed, episode and turn. Some actions end the episode, some break it.

    A reset without a seed goes on with the seed that there is.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.observation_space, self.action_space = Text(), Text()
        self.render_mode = render_mode
        self.seed_ = None
        self.episode = 0
        self.closed_file = None

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.seed_, self.episode = seed, 0
        self.episode += 1
        self.turn = 0
        options = options or {}
        if "act" in options:
            self.act(options["act"])
        return self.said(), {"seed": self.seed_, "told": options.get("told")}

    def said(self):
        return f"seed {self.seed_} episode {self.episode} turn {self.turn}"

    def step(self, action):
        self.turn += 1
        self.act(action)
        info = {"turn": self.turn, "action": action, "value": self.turn, "error": None}
        if action == "unpicklable":
            info["thing"] = threading.Lock()
        if action == "three":
            return self.said(), 0.0, False
        if action == "no info":
            return self.said(), 0.0, False, False, None
        if action == "no text":
            return 5, 0.0, False, False, {}
        reward = {"nan": float("nan"), "word": "many"}.get(action, float(self.turn))
        return self.said(), reward, action == "end", action == "cut", info

    def act(self, action):
        word, _, rest = action.partition(" ")
        if word == "raise":
            raise RuntimeError("as I was told")
        if word == "exit":
            raise SystemExit(3)
        if word == "stop":
            raise StopIteration
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        while word == "spin":
            pass
        while word == "wait" and not Path(rest).exists():
            time.sleep(0.002)

    def note_close(self, path):
        self.closed_file = path

    def render(self):
        return self.said()

    def who(self, word):
        if word == "raise":
            raise LookupError("nobody")
        return f"{word} {self.seed_}"

    def pid(self):
        return os.getpid()

    def parent(self):
        return os.getppid()

    def close(self):
        if self.closed_file:
            Path(self.closed_file).touch()


class Awaited(Puppet):
    """Waits without a thread."""

    async def step_async(self, action):
        word, _, rest = action.partition(" ")
        while word == "wait" and not Path(rest).exists():
            await asyncio.sleep(0.002)
        if word == "cancelled":
            raise asyncio.CancelledError
        await asyncio.sleep(0)
        return self.step(action)


class AllAwaited(Puppet):
    """Has nothing but coroutines."""

    async def reset(self, **kwargs):
        await asyncio.sleep(0)
        return super().reset(**kwargs)

    async def step(self, action):
        await asyncio.sleep(0)
        return super().step(action)


class Walk(gym.Env):
    """Arrays and numbers: a walk of random length from the environment's own generator."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-100, 100, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.normal(size=2).astype(np.float32)
        return self.at.copy(), {"start": self.at.copy(), "bias": float((options or {}).get("bias", 0))}

    def step(self, action):
        self.at = self.at + np.float32(action) + self.np_random.normal(size=2).astype(np.float32)
        over = self.np_random.random()
        info = {"speed": float(self.at[0]), "big": bool(self.at[0] > 1), "nested": {"x": int(action), "y": "z"}}
        if action == 2:
            info["twice"] = np.float32(2)
        return self.at.copy(), float(self.at[1]), over < 0.2, over > 0.9, info


class Crooked(Walk):
    """Its observation has the wrong shape when it is told 2."""

    def step(self, action):
        observation, *rest = super().step(action)
        return observation[: 1 if action == 2 else 2], *rest


class Fatal(BaseException):
    """What no ``except Exception`` catches."""


RAISED = {
    "keyboard": KeyboardInterrupt,
    "generator": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "exit": SystemExit,
    "fatal": Fatal,
}
# Starts a program that forks twice and begins a session of its own, and notes its process id.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(3600)
    os._exit(0)
os._exit(0)
"""


class Wicked(Puppet):
    """Does to its process what no environment should."""

    def act(self, action):
        word, _, rest = action.partition(" ")
        if word in RAISED:
            raise RAISED[word]("as I was told")
        if word == "fork-and-die" and os.fork() > 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "fork-and-die":  # the child holds open whatever its parent had
            Path(rest).write_text(str(os.getpid()))
            time.sleep(3600)
        if word == "fork-and-return" and os.fork() == 0:
            Path(rest).write_text(str(os.getpid()))
        if word == "hold-the-gil":
            ctypes.PyDLL(None).sleep(3600)
        if word == "block":
            while not Path(rest).exists():
                time.sleep(0.002)
        if word == "daemon":
            subprocess.run([sys.executable, "-c", DAEMON, rest], check=True)
            while not Path(rest).exists():
                time.sleep(0.002)
        super().act(action)


class WickedAwaited(Wicked):
    """The same in a coroutine."""

    async def step_async(self, action):
        word, _, rest = action.partition(" ")
        while word == "wait" and not Path(rest).exists():
            await asyncio.sleep(0.002)
        if word == "cancel-myself":
            asyncio.current_task().cancel()
        await asyncio.sleep(0)
        return self.step(action)


class Unclosable(Puppet):
    """Its ``close`` does not return before the test is over."""

    def close(self):
        while self.closed_file and not Path(self.closed_file).exists():
            time.sleep(0.002)


class Hanging(Task[tuple[int, tuple[str, ...]]]):
    """Three turns. Some words never end, or end the process; with ``always`` every action takes too long."""

    def __init__(self, *, always: bool = False) -> None:
        self.always = always

    def turns(self, level):
        return 3

    def start(self, rng, level):
        return rng.randrange(10**6), ()

    def observe(self, state):
        return f"Say {state[0]}."

    def content(self, state):
        return str(state[0])

    def apply(self, state, action):
        if action == "sleep" or "poison" in state[1] or self.always:
            time.sleep(8)
        over = time.monotonic() + 30  # far beyond every limit; a thread that spins for ever slows the tests behind it
        while action == "spin" and time.monotonic() < over:
            pass
        if action == "match":
            re.match("(a+)+$", "a" * 60 + "b")
        if action == "leave":
            os._exit(1)
        done = len(state[1]) == 2
        return Transition((state[0], (*state[1], action)), correct() if action == "right" else wrong(), done)

    def solve(self, state):
        return "right"


def hanging(always: bool = False) -> TextEnv:
    return TextEnv(Hanging(always=always))
