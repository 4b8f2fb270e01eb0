"""Task: a small pure description of what a policy can be asked to do.

A task holds settings and no state. Everything that changes lives in the state it hands out: immutable and
picklable, so that restoring, replaying, forking and vectorising need nothing else. No method may touch global
randomness, files, clocks or the network; chance inside an episode is drawn from a seed kept in the state.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rlvr.envs.core.seeding import SPLITS, digest_of_texts, stream
from rlvr.envs.core.verdict import Verdict, wrong

S = TypeVar("S")

EXAMPLE_ROLES = ("user", "assistant")
DRAWS = 10_000  # how often a task is drawn again to land in its split before giving up
MAX_EXAMPLES = 32
EXAMPLE_ATTEMPTS = 4  # episodes of the expert for each worked example, where chance may let it fail
EXAMPLE_SEED = 20_250_122  # of the expert's examples: the same stand before every task


class Transition(NamedTuple):
    """What one action led to. ``role`` is whose words the next observation is: user's, or a tool's.

    A plain tuple of the same four does as well, and is made faster.
    """

    state: Any
    verdict: Verdict
    terminated: bool = False
    role: str = "user"


def as_turns(examples: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Worked examples, pairs of a question and a reply, as chat messages: what ``info["examples"]`` holds."""
    return [
        {"role": role, "content": text} for pair in examples for role, text in zip(EXAMPLE_ROLES, pair, strict=True)
    ]


def checked_examples(few_shot: object) -> int:
    """Raise ValueError unless it is a number of examples."""
    if type(few_shot) is not int or not 0 <= few_shot <= MAX_EXAMPLES:
        raise ValueError(f"few_shot must be a whole number from 0 to {MAX_EXAMPLES}, got {few_shot!r}")
    return few_shot


def expert_episodes(env: Any, level: int, count: int) -> list[list[dict[str, str]]]:
    """The turns of ``count`` episodes in which the expert succeeds, on training tasks of a level.

    Args:
        env: a `TextEnv`, which is played.

    Raises:
        ValueError: it succeeds in too few.
    """
    episodes: list[list[dict[str, str]]] = []
    where: dict[str, Any] = {"level": level} if env.size is not None else {"level": level, "split": "train"}
    for index in range(EXAMPLE_ATTEMPTS * count):
        observation, info = env.reset(seed=EXAMPLE_SEED, options={**where, "index": index})
        turns, over = [{"role": "user", "content": observation}], False
        while not over:
            action = env.solve()
            observation, _, terminated, truncated, info = env.step(action)
            turns += [{"role": "assistant", "content": action}, {"role": "user", "content": observation}]
            over = terminated or truncated
        if info["success"]:
            episodes.append(turns[:-1])
        if len(episodes) == count:
            return episodes
    raise ValueError(
        f"few_shot needs {count} episodes of the expert at level {level}, and it succeeded in {len(episodes)} of "
        f"{EXAMPLE_ATTEMPTS * count}: take fewer"
    )


class MultipleChoice(NamedTuple):
    """A multiple choice as likelihood scoring asks it, see `rlvr.agents.evaluation.likelihood`.

    Attributes:
        prompt: the plain text that an option follows, behind one blank.
        options: the texts that are compared.
        actions: for each option the action that chooses it.
    """

    prompt: str
    options: tuple[str, ...]
    actions: tuple[str, ...]


class Task(Generic[S]):
    """Base of every task; S is the type of its state.

    Attributes:
        system: what the policy is told before the first observation, if anything.
        tools: JSON schemas of tools that the chat template is to describe; None if ``system`` does.
        levels: how many levels of difficulty there are; they count from 1.
        splits: the names ``split`` may take.
        size: how many tasks there are when they are rows of a table; None when they are generated.
        reads_split: whether the constructor takes ``split``, as tables do.
        row_settings: arguments of the constructor that decide nothing but which rows there are.
        packages: modules, beside the task's own, whose source decides what the tasks are (`rlvr.envs.tasks.digests`).
        always_solvable: whether the expert always succeeds; False where luck has a say, as in blackjack.
        held_out: what no two splits share: ``tasks``, or ``seeds`` alone, where nobody knows which tasks they make.
        lists_moves: whether the observation lists the moves that there are, and so the best of them.
        image_shape: height, width and 3 of the image that stands beside each text (see ``image``); None for text alone.
    """

    system: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    levels: int = 1
    splits: tuple[str, ...] = SPLITS
    size: int | None = None
    reads_split: bool = False
    row_settings: frozenset[str] = frozenset()
    packages: tuple[str, ...] = ()
    always_solvable: bool = True
    held_out: str = "tasks"
    lists_moves: bool = False
    image_shape: tuple[int, int, int] | None = None

    @classmethod
    def has_split(cls, split: str, settings: Mapping[str, Any]) -> bool:
        """Whether there are tasks of a split where the constructor is given these settings: nothing is made or read."""
        return isinstance(cls.splits, tuple) and split in cls.splits

    @property
    def name(self) -> str:
        """What seeds and splits are keyed by; tasks of the same name and seed are the same."""
        return type(self).__name__

    def start(self, rng: random.Random, level: int) -> S:
        """A new task of this level, drawn from ``rng`` alone."""
        raise NotImplementedError

    def row(self, index: int, rng: random.Random) -> S:
        """Task ``index`` of a table; only asked when ``size`` is set."""
        raise NotImplementedError

    def rows_digest(self) -> str | None:
        """16 hexadecimal digits of the rows in their order; None where tasks are generated.

        A table whose rows hold more than their ``content``, such as the answers, overrides it.
        """
        if self.size is None:
            return None
        return digest_of_texts(self.content(self.row(index, random.Random(0))) for index in range(self.size))

    def content(self, state: S) -> str:
        """What makes the task this task and no other; decides its split and finds duplicates."""
        return self.observe(state)

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        """The content of every task of a level whose space is small (below a few thousand), else None."""
        return None

    def difficulty(self, state: S) -> float | None:
        """How hard the task of a first state is, by a measure that rises with the levels in expectation.

        What is counted is said in the first line of an override's docstring. None: it is measured by how the expert
        solves it, see ``rlvr.envs.difficulty``.
        """
        return None

    def turns(self, level: int) -> int:
        """How many actions an episode may take."""
        return 1

    def observe(self, state: S) -> str:
        """The text that the policy sees next; not asked once the episode is over."""
        raise NotImplementedError

    def worked_examples(self, state: S) -> Sequence[tuple[str, str]]:
        """Worked examples before the question of a first state: each one's question, in the form of ``observe``, and
        a reply in the form that the prompt asks for.
        """
        return ()

    def tool_schemas(self, state: S) -> Sequence[Mapping[str, Any]] | None:
        """``tools`` of the task of a first state, for tasks of which each has tools of its own."""
        return self.tools

    def image(self, state: S) -> Any:
        """The image beside ``observe``'s text, only asked when ``image_shape`` is set: an array [H, W, 3] of uint8.

        A Pillow image does as well. Also asked once the episode is over; the same state is always the same image.
        """
        raise NotImplementedError

    def apply(self, state: S, action: str) -> tuple[S, Verdict, bool, str]:
        """A ``Transition``: the consequence of an action. Never raises for what a policy may write."""
        raise NotImplementedError

    def solve(self, state: S) -> str:
        """An expert's next action.

        Raises:
            NotImplementedError: no expert is known.
        """
        raise NotImplementedError(f"{type(self).__name__} has no expert")

    def direct_answer(self, state: S) -> str | None:
        """The final answer without the work that leads to it, where there is work to skip; for demonstrations."""
        return None

    def sample_action(self, state: S, rng: random.Random) -> str | None:
        """A random but well-formed action, for the random agent; None if the task has no such notion."""
        return None

    def choices(self, state: S) -> MultipleChoice | None:
        """The options of a multiple choice and the plain prompt before them; None for any other task."""
        return None

    def form_example(self, state: S) -> str | None:
        """An action of the right form, shown to a policy whose last two were not understood; None where there is none.

        It is a random action, always the same one in a state, and so no hint at a good one.
        """
        return self.sample_action(state, stream(self.name, "example"))

    def legal_actions(self, state: S) -> Sequence[str] | None:
        """Every legal move as an action, in one order, or examples; None where the task does not list them."""
        return None

    def out_of_turns(self, state: S, turns: int) -> Verdict:
        """The verdict on an episode that used up its turns."""
        return wrong(reason=f"no final answer within {turns} turns")

    def detached(self, state: S) -> S:
        """The state for another episode instance: equal to it, but with no hold on what runs behind it.

        Asked for every snapshot, fork and copy. Only a task whose states hold something live, an interpreter say, or
        that wraps other tasks, has to write it.
        """
        return state

    def close(self) -> None:
        """Let go of what runs on behalf of the task, such as tools; called by ``env.close()``. It may be used again."""
