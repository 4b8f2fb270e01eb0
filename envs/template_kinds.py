"""The tasks that ``rlvr new --kind …`` writes, beside that of a single turn: texts with NAME, CLASS and ID in them."""

from __future__ import annotations

from typing import Final

TURNS: Final = '''\
"""CLASS: find a secret number; every guess is answered "higher" or "lower". Reward 1 for naming it in time."""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, wrong
from rlvr.envs.rewards import grade

WIDTHS = (15, 31, 127)  # numbers to choose from, by level: below a power of 2, so that halving always gets there


class Search(NamedTuple):
    """All that one episode knows. Immutable: an action makes another state, and never changes this one."""

    secret: int
    first: int
    last: int
    low: int
    high: int
    answer: str = ""


class CLASS(Task[Search]):
    """Find a number from "higher" and "lower".

    Levels 1 to 3: one of 15, 31 and 127 numbers in 4, 5 and 7 turns.
    """

    system = "Guess the secret number. Put one whole number, and nothing else, in \\\\boxed{}."
    levels = len(WIDTHS)

    def start(self, rng: random.Random, level: int) -> Search:
        """Chance comes from ``rng`` alone, so that a seed is a task. The range moves, so that no secret is known."""
        first = rng.randint(1, 9_000)
        last = first + WIDTHS[level - 1] - 1
        return Search(rng.randint(first, last), first, last, first, last)

    def turns(self, level: int) -> int:
        """As many as an expert needs at worst."""
        return WIDTHS[level - 1].bit_length()

    def content(self, state: Search) -> str:
        """What makes this task this task; a hash of it decides the split."""
        return f"{state.secret} of {state.first} to {state.last}"

    def observe(self, state: Search) -> str:
        """The question at first, then the answer to the last action."""
        return state.answer or f"Guess my number from {state.first} to {state.last}."

    def apply(self, state: Search, action: str) -> Transition:
        """Never raises, whatever the policy wrote; the grader sees to that. An episode goes on until ``terminated``."""
        verdict = grade("number", action, str(state.secret))
        if verdict.success:
            return Transition(state, verdict, terminated=True)
        guess = verdict.answer or ""
        if not (guess.isascii() and guess.isdecimal() and len(guess) < 9):
            after = state._replace(answer="Write one whole number in \\\\boxed{}.")
            return Transition(after, Verdict(0.0, "unparsable", reason="no whole number"))
        number = int(guess)
        if number < state.secret:
            after = state._replace(answer="higher", low=max(state.low, number + 1))
        else:
            after = state._replace(answer="lower", high=min(state.high, number - 1))
        return Transition(after, Verdict(0.0, "partial", answer=guess, reason="not the secret number"))

    def solve(self, state: Search) -> str:
        """What an expert says next. It must win: otherwise nobody can tell a hard task from a broken one."""
        return f"\\\\boxed{{{(state.low + state.high) // 2}}}"

    def sample_action(self, state: Search, rng: random.Random) -> str:
        """A random action of the right form; shows what luck alone earns."""
        return f"\\\\boxed{{{rng.randint(state.first, state.last)}}}"

    def out_of_turns(self, state: Search, turns: int) -> Verdict:
        """The verdict when nothing ended the episode in time."""
        return wrong(reason=f"not found in {turns} turns: it was {state.secret}")
'''

TOOLS: Final = '''\
"""CLASS: follow slips of paper from box to box with a tool, and say the number at the end."""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards import grade
from rlvr.envs.tools import Call, Session, ToolError, ToolTask, tool

LETTERS = "bcdfghjklmnprstvwz"


class Boxes(NamedTuple):
    """The world. Immutable: a tool makes another one, and never changes this one.

    ``chain`` are the boxes in the order of their slips, ``steps`` how many of them were opened in that order.
    """

    names: tuple[str, ...]
    chain: tuple[str, ...]
    number: int
    steps: int = 0


def open_box(world: Boxes, name: str) -> tuple[Boxes, str]:
    """Open a box and read the slip of paper in it.

    Args:
        name: the box, such as dk.
    """
    if name not in world.names:
        raise ToolError(f"there is no box {name[:20]!r}")  # the policy reads this, and the episode goes on
    if name not in world.chain:
        return world, "The box is empty."
    step = world.chain.index(name) + 1
    after = world._replace(steps=max(world.steps, step)) if step <= world.steps + 1 else world
    return after, f"Open {world.chain[step]}." if step < len(world.chain) else f"The number is {world.number}."


class CLASS(ToolTask[Boxes]):
    """Follow slips of paper from box to box, and say the number at the end.

    Levels 1 to 3: 2, 3 and 4 boxes to open, of 6, 8 and 10.
    """

    levels = 3
    task = "Find the number with the tool. Then put it, and nothing else, in \\\\boxed{}."
    toolset = (tool(open_box, given=1),)  # the world comes first, and is not the policy's to give

    def begin(self, rng: random.Random, level: int) -> Boxes:
        """A new world. Chance comes from ``rng`` alone, so that a seed is a task."""
        names = tuple(rng.sample([a + b for a in LETTERS for b in LETTERS], 4 + 2 * level))
        return Boxes(names, tuple(rng.sample(names, 1 + level)), rng.randint(1_000, 999_999))

    def ask(self, world: Boxes) -> str:
        """The first observation. It must not hold the answer."""
        return f"There are boxes {', '.join(world.names)}. Begin with {world.chain[0]} and do what each slip says."

    def budget(self, level: int) -> int:
        """How many calls an episode may make."""
        return 4 + level

    def judge(self, world: Boxes, reply: str) -> Verdict:
        """The verdict on a reply without a call, which ends the episode."""
        return grade("number", reply, str(world.number))

    def plan(self, session: Session[Boxes]) -> Call | str:
        """The expert's next call, or its final reply."""
        world = session.world
        if world.steps < len(world.chain):
            return Call("open_box", {"name": world.chain[world.steps]})
        return f"\\\\boxed{{{world.number}}}"
'''

DATASET: Final = '''\
"""CLASS: questions of a table, one a row, answered in a word or two. Replace the rows in ``data`` by your own."""

from __future__ import annotations

from rlvr.envs.core.tables import Source
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts


class CLASS(TableTask):
    """Questions about nature, answered in a word or two.

    Rows come from ``data/train.jsonl`` and ``data/test.jsonl``; ``data_files=`` names others of the same columns.
    """

    source = Source(folder="NAME", hub=None, revision="main", columns=("question", "answer"))
    graders = ("exact",)  # number, math, choice, json, code, … are others; the first is the usual one
    wanted = "the answer in a word or two"
    splits = ("train", "test")

    def problem(self, row: Row) -> Problem:
        """One row, read. Raise ValueError for a row that is not what it should be: the error names its number."""
        question, answer = texts(row, "question", "answer")
        return Problem(question.strip(), "", (answer.strip(),), answer_text=answer.strip())
'''

_TRAIN: Final = (
    ("Which planet of our system has the most mass?", "Jupiter"),
    ("Which metal is liquid in a warm room?", "mercury"),
    ("What do bees make from nectar?", "honey"),
    ("Which organ pumps blood through the body?", "heart"),
    ("Which animal is the tallest on land?", "giraffe"),
    ("What is frozen water called?", "ice"),
    ("Which gas do divers call air's larger part?", "nitrogen"),
    ("Of which element are diamonds made?", "carbon"),
    ("What do caterpillars turn into?", "butterflies"),
    ("Which bird cannot fly and swims around Antarctica?", "penguin"),
)
_TEST: Final = (
    ("Which star is nearest to the Earth?", "sun"),
    ("How is molten rock called once it has left a volcano?", "lava"),
    ("Which mammal uses echoes to hunt moths at night?", "bat"),
    ("From which tree do acorns fall?", "oak"),
    ("What pulls an apple to the ground?", "gravity"),
    ("Which of the senses do ears serve?", "hearing"),
)

PLAYERS: Final = '''\
"""CLASS: a game of two seats. The policy has one of them, bots the other; PettingZoo gets both."""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.players.catalogue import register_game
from rlvr.envs.players.game import SeatGame
from rlvr.envs.players.single import AsSingleAgent


class Heaps(NamedTuple):
    """All of the game, of every seat. Immutable: a move makes another state."""

    a: int
    b: int
    turn: int = 0


class CLASSGame(SeatGame[Heaps]):
    """Take one to three stones from one of two heaps; whoever takes the last stone of all wins."""

    title = "Two heaps"
    nouns = ("heap", "stones", "stone", "from", "take")  # words that a move may have besides
    decisions = 13  # an upper bound of the moves of one seat
    first_state = Heaps(13, 12)
    opening = (0, 3)  # random moves before a task begins, so that tasks differ

    def rules(self) -> str:
        """What every seat reads first."""
        return (
            "Two heaps of 13 and 12 stones. The seats take turns; a move takes one, two or three stones from one heap. "
            "Whoever takes the last stone of all wins. A move is a heap's letter and how many to take, such as a 1."
        )

    def actors(self, state: Heaps) -> tuple[int, ...]:
        """Who moves now; nobody when the game is over."""
        return (state.turn,) if state.a + state.b else ()

    def legal(self, state: Heaps, seat: int) -> list[str]:
        """Every legal move, always in the same order."""
        return [f"{name} {count}" for name in "ab" for count in range(1, min(3, getattr(state, name)) + 1)]

    def apply(self, state: Heaps, seat: int, move: str) -> Heaps:
        """The state after a legal move; the referee asks for no other."""
        name, count = move.split()
        a, b = (int(count), 0) if name == "a" else (0, int(count))
        return Heaps(state.a - a, state.b - b, 1 - seat)

    def returns(self, state: Heaps) -> tuple[float, ...]:
        """What each seat has won: the one that would move next has lost."""
        return (-1.0, 1.0) if state.turn == 0 else (1.0, -1.0)

    def show(self, view: Heaps, seat: int) -> str:
        """What a seat reads. Where a game hides something, ``view`` leaves it out first."""
        return f"Heaps: a {view.a}, b {view.b}."

    def expert(self, view: Heaps, seat: int, rng: random.Random) -> str:
        """A winning move: afterwards both heaps leave the same rest by 4. A random one where there is none."""
        legal = self.legal(view, seat)
        after = {move: self.apply(view, seat, move) for move in legal}
        return rng.choice([move for move in legal if after[move].a % 4 == after[move].b % 4] or legal)


register_game("CLASS", "NAME.task:CLASSGame")


class CLASS(AsSingleAgent):
    """One seat of CLASSGame as a task; levels 1 to 3: the other moves at random, half well, or well."""
'''

# Tests of the expert where luck has a say: the others hold that it always scores 1.
PLAYERS_TEST: Final = """\
def _mean(level, choose):
    env = gym.make(ENV, level=level).unwrapped
    rewards = []
    for seed in range(40):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(choose(env, seed))
            over = terminated or truncated
        assert info["verdict"].valid, info["verdict"].reason
        rewards.append(reward)
    return sum(rewards) / len(rewards)


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_wins_more_than_luck_and_silence_wins_nothing(level):
    luck = _mean(level, lambda env, seed: env.sample_action(random.Random(seed)))
    assert _mean(level, lambda env, seed: env.solve()) > luck
    assert _mean(level, lambda env, seed: "") == 0.0
"""


def jsonl(split: str) -> str:
    """The rows of the kind ``dataset``."""
    import json

    rows = _TRAIN if split == "train" else _TEST
    return "".join(json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in rows)
