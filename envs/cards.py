"""Cards: what there is to know about an environment before playing it, and what the expert and luck score in it."""

from __future__ import annotations

import importlib
import inspect
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.envs.core.registry import best_scores, list_envs, playable
from rlvr.envs.core.tables import DataError, Source
from rlvr.envs.core.task import Task
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.sandbox import SandboxUnavailable

OURS = "Apache-2.0"
SECTIONS = ("Observation", "Actions", "Reward", "Episode end", "Levels", "Arguments")  # of a task's docstring
_SECTION = re.compile(rf"({'|'.join(SECTIONS)}|Args): *(.*)")
SUMMARIES = Path(__file__).with_name("summaries.json")
# The licences that the authors of data sets state, by the name on the hub.
LICENCES = {
    "ChilleD/SVAMP": "MIT",
    "DigitalLearningGmbH/MATH-lighteval": "MIT",
    "Hothan/OlympiadBench": "Apache-2.0",
    "Idavidrein/gpqa": "CC-BY-4.0",
    "TIGER-Lab/MMLU-Pro": "MIT",
    "agentica-org/DeepScaleR-Preview-Dataset": "MIT",
    "allenai/IFBench_test": "ODC-BY-1.0",
    "allenai/ai2_arc": "CC-BY-SA-4.0",
    "cais/mmlu": "MIT",
    "deepmind/code_contests": "CC-BY-4.0",
    "google-research-datasets/mbpp": "CC-BY-4.0",
    "google-research-datasets/nq_open": "CC-BY-SA-3.0",
    "google/IFEval": "Apache-2.0",
    "hotpotqa/hotpot_qa": "CC-BY-SA-4.0",
    "openai/gsm8k": "MIT",
    "openai/openai_humaneval": "MIT",
}
# What random play, and one answer said to every task, may earn on any level.
RANDOM_MOST, ANSWER_MOST = 0.2, 0.25
# Games of several seats, whose first level has opponents most of whose moves are random.
_AGAINST_RANDOM = (
    "Backgammon BattleshipDuel Breakthrough Checkers Chess Clues ConnectFourDuel DotsAndBoxes Goofspiel Hex LiarsDice "
    "Mancala NimDuel Othello Pig PigTable PriceNegotiation ShareNegotiation Stratego TabooTeams TicTacToeDuel "
    "UltimateTicTacToe WildTicTacToe WordChain"
).split()
_WITH_HABITS = "Blotto Chicken MatchingPennies PrisonersDilemma RockPaperScissors StagHunt".split()
# Where random play earns more, and why that is left so.
LUCK: Mapping[str, str] = {
    "rlvr/Blackjack-v0": "a random move often gives little away",
    "rlvr/Debate-v0": "a judge that guesses is right half of the time, and a debater often wins against random claims",
    "rlvr/FogMaze-v0": "there must be turns enough to walk every corridor twice, and a random walk uses them too",
    "rlvr/GuessNumber-v0": "level 1 is one of 15 numbers in 4 guesses",
    "rlvr/HanabiSmall-v0": "every card that luck adds to a stack counts, and the other seat of the team plays well",
    "rlvr/HigherLower-v0": "each call is right half of the time",
    "rlvr/PushYourLuck-v0": "chance deals: the best play wins seven times in ten",
    "rlvr/TwentyQuestions-v0": "level 1 is one of 8 things in 5 turns",
    "rlvr/HiddenRoles-v0": "one of two roles wins, and four or five others decide it too",
    "rlvr/KuhnPoker-v0": "a random move often gives little away",
    "rlvr/LeducPoker-v0": "a random move often gives little away",
    "rlvr/LiarsDiceTable-v0": "one of four seats loses a round",
    "rlvr/NoLimitHoldem-v0": "the payoff of random moves lies between the bounds",
    **dict.fromkeys(
        (f"rlvr/{name}-v0" for name in _WITH_HABITS),
        "random moves earn the middle between the least and the most",
    ),
    **dict.fromkeys(
        (f"rlvr/{name}-v0" for name in _AGAINST_RANDOM),
        "on level 1 most moves of the other seats are random, too, and random play earns as much as they do",
    ),
}

# Levels of which a thousand seeds give fewer than ``DIFFERENT`` tasks, though their contents are not listed: why so.
DIFFERENT = 700
_SMALL = "level 1 has numbers as small as a small model can handle"
FEW: Mapping[str, str] = {
    "rlvr/Battleship-v0": "level 1 hides two ships in a small sea; another sea would be a harder one",
    "rlvr/ClockAngles-v0": "level 1 asks for whole minutes, of which a clock has 720",
    "rlvr/Committees-v0": _SMALL,
    "rlvr/Countdown-v0": "level 1 has three numbers up to 9",
    "rlvr/Divisors-v0": _SMALL,
    "rlvr/FamilyTree-v0": "a task is the shape of a tree without its names, and some shapes come up often",
    "rlvr/GuessNumber-v0": "a task is a range and a number in it, and level 1 has short ranges",
    "rlvr/KnightsAndKnaves-v0": "a task is what three people say without their names",
    "rlvr/LandmarkNavigation-v0": "a task is its moves, and level 1 has four short legs",
    "rlvr/PegJump-v0": "a task is a position of a small board from which it can be won",
    "rlvr/PrimeFactors-v0": _SMALL,
    "rlvr/Service-v0": "a task is the schema of its world, which has a case of its own for every seed",
    "rlvr/SlidingPuzzle-v0": "level 1 is a few slides away from its end; more would be harder",
    "rlvr/Sokoban-v0": "level 1 has one box in a small room",
    "rlvr/TicTacToe-v0": "a task is a position of nine cells",
    "rlvr/WaterJugs-v0": "a task is the sizes of the jugs and a goal, which small jugs leave few of",
    "rlvr/WordProblems-v0": _SMALL,
}


@dataclass(frozen=True)
class Card:
    """What is true of an environment without playing it.

    Attributes:
        family: the folder it is in, or the package of a plug-in.
        asks: what the task asks for, and how its levels differ; from its docstring.
        source: where its tasks come from.
        turns: how many actions an episode may take, for each level.
        reward: what a reward means.
        best: the best score known of each level, which is the expert's, where luck or strong opponents keep it below 1.
        space: how many tasks a level has, where these are few enough to be listed.
        ready: whether it can be made here; a table without its rows cannot, nor what needs a package that is missing.
        missing: why it cannot; "" where it can.
        sections: what its docstring says under the names of ``SECTIONS``.
    """

    env_id: str
    family: str
    asks: str
    source: str
    licence: str
    levels: int
    turns: tuple[int, ...]
    reward: str
    expert: str
    space: tuple[int | None, ...]
    ready: bool
    missing: str
    best: tuple[float, ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        fewest, largest = min(self.turns), max(self.turns)
        turns = str(fewest) if fewest == largest else f"{fewest} to {largest}"
        rows = {
            "family": self.family,
            "asks": self.asks,
            "source": self.source,
            "licence": self.licence,
            "levels": str(self.levels),
            "turns": turns,
            "reward": self.reward,
            "expert": self.expert,
            "ready": "yes" if self.ready else f"no: {self.missing}",
        }
        if self.best:
            rows["best"] = f"{', '.join(f'{score:.2f}' for score in self.best)} by level: the expert's mean reward"
        rows |= {name.lower(): self.sections[name] for name in self.sections if name != "Levels"}
        return "\n".join([self.env_id, *(f"  {name:<11} {text}" for name, text in rows.items())])


@dataclass(frozen=True)
class Scores:
    """What was measured at one level, over so many seeds.

    Attributes:
        expert, random: mean return, in 0 to 1; the expert's is None where there is none.
        constant: mean return of the expert's most frequent answer, said to every task; None over many turns.
        distinct: how many of the seeds are different tasks; ``drawn`` says of how many seeds.
        shared: how many tasks of the train split were seen in the test split too.
    """

    level: int
    expert: float | None
    random: float
    constant: float | None
    distinct: int
    drawn: int
    shared: int

    @property
    def luck(self) -> float:
        """The better of random play and one constant answer."""
        return max(self.random, self.constant or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def card(env_id: str) -> Card:
    """The card of a registered id, or of what is played in words, see `rlvr.envs.core.registry.playable`.

    Raises:
        gymnasium.error.Error: no such id is registered.
        ValueError: it is not an environment of this project's kind.
    """
    played = playable(env_id)  # which imports the module that registers the id
    spec = gym.spec(played.rpartition(":")[2]) if isinstance(played, str) else played
    env_id = spec.id
    if isinstance(played, str) and env_id not in list_envs(env_id):
        raise ValueError(f"{env_id} is not an environment of this project's kind, and has no card")
    module, _, name = spec.kwargs["task"].partition(":")
    kind: type[Task[Any]] = getattr(importlib.import_module(module), name)
    try:
        env = gym.make(spec).unwrapped
        task: Task[Any] | type[Task[Any]] = env.task if isinstance(env, TextEnv) else kind
        missing = ""
    except DataError:
        task, missing = kind, "its data set is not here"
    except (ImportError, SandboxUnavailable) as error:
        task, missing = kind, " ".join(str(error).split())
    ready = isinstance(task, Task)
    levels = range(1, task.levels + 1)
    inner = getattr(task, "task", None)  # a task with tools holds the task that it gives them to
    described = inner if isinstance(inner, Task) else task
    source, licence = _origin(described, module)
    described_class: type = getattr(
        described, "played_class", described if isinstance(described, type) else type(described)
    )
    read_as = {"Actions": actions} if (actions := getattr(described, "read_as", "")) else {}
    return Card(
        env_id=env_id,
        family=_family(module if isinstance(played, str) else described_class.__module__),
        asks=_asks(described, module) + (" With tools." if described is not task else ""),
        source=source,
        licence=licence,
        levels=task.levels,
        turns=tuple(task.turns(level) for level in levels) if isinstance(task, Task) else (1,),
        reward=str(getattr(task, "pays", getattr(task, "reward", "1 for what is right, 0 for all else"))),
        expert=_expert(described),
        space=tuple(_space(task, level) for level in levels),
        ready=ready,
        missing=missing,
        best=tuple(best_scores(env_id)),
        sections=read_as | sections(described_class),
    )


def measure(env_id: str, level: int, seeds: int = 100, draws: int = 1_000) -> Scores:
    """Play ``seeds`` tasks of a level with the expert, at random and with one constant answer; draw ``draws``."""
    env = gym.make(env_id, level=level).unwrapped
    if not isinstance(env, TextEnv):
        raise ValueError(f"{env_id} is not an environment of this project's kind")
    has_expert = type(env.task).solve is not Task.solve
    answers: Counter[str] = Counter()
    expert = [_play(env, seed, None, answers) for seed in range(seeds)] if has_expert else None
    luck = [_play(env, seed, random.Random(seed), None) for seed in range(seeds)]
    constant = None
    if answers and env.task.turns(level) == 1:
        answer = answers.most_common(1)[0][0]
        constant = _mean(_say(env, seed, answer) for seed in range(seeds))
    contents = _contents(env, range(draws))
    held_out = set(_contents(env, range(draws // 10), split="test")) if "test" in env.task.splits else set()
    return Scores(
        level=level,
        expert=None if expert is None else _mean(expert),
        random=_mean(luck),
        constant=constant,
        distinct=len(set(contents)),
        drawn=len(contents),
        shared=len(held_out & set(contents)) if env.size is None else 0,
    )


def _play(env: TextEnv, seed: int, rng: random.Random | None, answers: Counter[str] | None) -> float:
    """The return of one episode of the expert, or of random actions where there is an ``rng``."""
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action = env.solve() if rng is None else env.sample_action(rng)
        if answers is not None:
            answers[action if rng is not None else env.direct_answer() or action] += 1
        _, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        over = terminated or truncated
    return total


def _say(env: TextEnv, seed: int, answer: str) -> float:
    env.reset(seed=seed)
    return float(env.step(answer)[1])


def _contents(env: TextEnv, seeds: Iterable[int], **options: Any) -> list[str]:
    if env.size is not None:
        seeds = range(env.size)
    contents = []
    for seed in seeds:
        if env.size is None:
            env.reset(seed=seed, options=options)
        else:
            env.reset(seed=0, options={"index": seed})
        contents.append(env.content)
    return contents


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return round(sum(listed) / len(listed), 4)


def _family(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["rlvr", "envs"] and len(parts) > 3 else parts[0]


def summary(env_id: str) -> str:
    """What a registered id asks for, in a sentence; nothing is made for it, and its module is seldom imported.

    Sentences of the ids that come with the package are stored beside this file: reading 180 modules for their
    docstrings takes twice as long as starting Python. ``python benchmarks/gallery.py`` writes them.
    """
    task, text = _stored().get(env_id, ("", ""))
    return text if task == gym.spec(env_id).kwargs.get("task") else summary_from_docstring(env_id)


@cache
def _stored() -> dict[str, list[str]]:
    """The task ("module:Class") and the sentence of each id."""
    stored = json.loads(SUMMARIES.read_text(encoding="utf-8")) if SUMMARIES.exists() else {}
    return stored if isinstance(stored, dict) else {}


def store_summaries(env_ids: Iterable[str]) -> None:
    """Write the file that ``summary`` reads."""
    summaries = {
        env_id: [gym.spec(env_id).kwargs["task"], summary_from_docstring(env_id)] for env_id in sorted(env_ids)
    }
    SUMMARIES.write_text(json.dumps(summaries, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    _stored.cache_clear()


def summary_from_docstring(env_id: str) -> str:
    """The sentence as it stands in the docstring of the id's task."""
    spec = gym.spec(env_id)
    module, _, name = spec.kwargs["task"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    describe = getattr(kind, "describe", None)  # a task of many ids has a sentence for the settings of each
    text = _paragraphs(kind, module)[0] if describe is None else describe(**spec.kwargs)
    return text + (" With tools." if spec.kwargs.get("tools") else "")


def _asks(task: Task[Any] | type[Task[Any]], module: str) -> str:
    text = getattr(task, "asks", None)
    if isinstance(text, str):
        return text
    kind = task if isinstance(task, type) else type(task)
    first, *more = _paragraphs(kind, module)
    levels = [each for each in more[:1] if each.startswith("Level")] or [sections(kind).get("Levels", "")]
    return " ".join([first, *levels]).strip()


def sections(kind: type[Task[Any]]) -> dict[str, str]:
    """What a task's docstring says under each name of ``SECTIONS``, else a base's, else its module's.

    A section is a line ``Observation: the board.`` and the lines below it, up to a blank one or the next section.
    """
    texts: dict[str, str] = {}
    docs = [base.__doc__ for base in reversed(kind.__mro__) if base.__module__ != Task.__module__]
    for doc in (importlib.import_module(kind.__module__).__doc__, *docs):
        name = None
        for line in inspect.cleandoc(doc or "").splitlines():
            if begins := _SECTION.match(line):
                name = begins[1].replace("Args", "Arguments")
                texts[name] = begins[2]
            elif line.strip() and name is not None:
                texts[name] = f"{texts[name]} {line.strip()}".strip()
            else:
                name = None
    return {name: texts[name] for name in SECTIONS if name in texts}


def _paragraphs(kind: type[Task[Any]], module: str) -> list[str]:
    """Those of the task's docstring, or of its module's where it has none."""
    text = (kind.__doc__ or "").strip()
    if not text or text.startswith("Args:") or any(kind.__doc__ == base.__doc__ for base in kind.__mro__[1:]):
        text = (importlib.import_module(module).__doc__ or "").strip()
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return [paragraph for paragraph in paragraphs if not _SECTION.match(paragraph)]


def _origin(task: Task[Any] | type[Task[Any]], module: str) -> tuple[str, str]:
    """Source and licence: the task's own words, else its data set, else made here."""
    table = getattr(task, "source", None) or getattr(importlib.import_module(module), "SOURCE", None)
    if isinstance(table, Source) and table.hub is None:
        return getattr(task, "origin", "rows of your own"), getattr(task, "licence", "that of the rows")
    if isinstance(table, Source):
        licence = getattr(table, "licence", None) or LICENCES.get(str(table.hub), "see the data set's page")
        return f"{table.hub} at {table.revision[:12]}", licence
    if isinstance(table, str):
        return table, getattr(task, "licence", OURS)
    if task.reads_split:
        return "rows of your own", "that of the rows"
    return "generated, without end unless a space is stated", OURS


def _expert(task: Task[Any] | type[Task[Any]]) -> str:
    kind = task if isinstance(task, type) else type(task)
    if kind.solve is Task.solve:
        return "none"
    return "always scores 1" if task.always_solvable else "plays as well as luck allows"


def _space(task: Task[Any] | type[Task[Any]], level: int) -> int | None:
    if not isinstance(task, Task):
        return None
    if task.size is not None:
        return task.size
    contents = task.enumerate_contents(level)
    return len(contents) if contents else None
