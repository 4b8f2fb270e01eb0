"""The list of the planted environments: the kind of defect, the form, what is wrong, and where it was reported."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .bases import gym


class Kind(NamedTuple):
    """A kind of defect; ``module`` holds its three environments."""

    number: int
    module: str
    defect: str
    source: str


class Pair(NamedTuple):
    """An environment with a defect; ``Mended`` and its name is the same without."""

    kind: Kind
    name: str
    form: str
    defect: str

    def load(self, mended: bool = False) -> type[Any]:
        """The class: a ``gymnasium.Env``, or a ``Task``."""
        module = importlib.import_module(f".{self.kind.module}", __package__)
        return getattr(module, ("Mended" if mended else "") + self.name)

    @property
    def interface(self) -> str:
        """What the class is: "Env" of Gymnasium, or "Task" of rlvr."""
        return "Env" if issubclass(self.load(), gym.Env) else "Task"

    @property
    def mended_part(self) -> str:
        """The method or attribute in which the twin differs."""
        return ", ".join(name for name in vars(self.load(mended=True)) if not name.startswith("__"))


def make_env(target: str | type[Any], **settings: Any) -> Any:
    """The environment of a class, or of ``module:Class``; ``settings`` are ``split`` or nothing."""
    if isinstance(target, str):
        module, _, name = target.partition(":")
        target = getattr(importlib.import_module(module), name)
    if issubclass(target, gym.Env):
        return target(**settings)
    from rlvr.envs.core.text_env import TextEnv

    return TextEnv(target(), **({"split": None} | settings))


# number | module | kind | source, and below it each environment: name | form | defect
TABLE = """
1 | pays_anything | the verifier pays anything | marin#7784
InvoiceFields | single turn | what is no JSON has no fields, and so no wrong ones: it is paid
Conversions | files | only files that are there are checked: an empty folder is paid
DeliveryRobot | tools | a command that crashes the controller ends the episode with the full score
2 | skips_pass | skipped or uncollected tests count as passed | marin#7784, SWE-smith#24
PolishProgram | single turn | a program that cannot run skips its tests, and no test failed
SumSheet | single turn | sums without an answer are not looked at
ServiceProbes | tools | a service that was never started is not probed
3 | untouched_paid | the untouched workspace is paid | marin#7784, open-range#366, tau2#384
PriceSettings | files | the tests that pass before anything is done earn three quarters
RefundDesk | tools | where a refusal is right, doing nothing leaves the same data and is paid
Greenhouse | multi-turn | beds that were moist from the start earn four fifths
4 | maximum_out_of_reach | the maximum cannot be reached | marin#7784
BackwardWords | single turn | a bonus of 0.15 is capped at 0.0225, so that the best reply earns 0.8725
FlagWalk | multi-turn | the steps allowed are one fewer than the shortest walk
Grocer | multi-turn | the budget is one less than the list costs
5 | wrong_grading | a graded reward is silently binary, or the other way round | marin#7784
WordOrder | single turn | a division without remainder makes the promised sixths 0 or 1
RomanSheet | single turn | the promised quarter for each line is paid for all four or not at all
DoorCodes | tools | all or nothing is asked for, and each code is paid
6 | oracle_fails | the oracle's own solution fails where it is graded | marin#9083
MilesToKilometres | single turn | the expert rounds the mile, and its answer is not within the tolerance
CraneGrid | multi-turn | the expert takes the number of rows for the number of columns
PaperFolders | files | the expert files every paper under one year
7 | other_platform | names or paths of another platform make right work fail | marin#7784
ProjectPath | single turn | the path expected has the separators of another system
RenamedFiles | files | names are compared as a file system does that does not know capitals
NumberedPoem | single turn | the lines expected end as on another system
8 | form_not_asked | the checker wants a form that the prompt never asked for | marin#9083
Products | single turn | only "FINAL: N" is read, which is never asked for
Corridor | multi-turn | only "open(N)" opens a door, which is never said
DaysLater | single turn | only a date of eight digits is read, which is never asked for
9 | placeholder_passes | a placeholder left as it was passes | tlaps-bench#46
CompositeProofs | files | a proof that is left "omitted" is accepted
ServerSettings | files | a setting that is left "CHANGEME" is complete
OrderLetter | single turn | the letter with its brackets is accepted
10 | goal_at_start | the goal already holds at the start | Agent World Model#16
Thermostat | multi-turn | the room often has the temperature from the start
BookShelf | multi-turn | the books stand in order from the start
MeetingRoom | tools | the calendar holds the booking from the start
11 | rule_break_paid | breaking the rules earns a partial reward | TextArena, cookbook#362
StoneHeap | multi-turn | an illegal move earns 0.1, which counts as won
WordChain | multi-turn | a word that breaks the chain earns a quarter for each word so far
AuctionHouse | tools | a bid above the budget earns 0.25
12 | seed_ignored | the seed is ignored | OpenEnv#1102
ChangeInCoins | single turn | numbers are drawn from Python's global generator
Safe | multi-turn | each reset draws from a new generator without a seed
Warehouse | single turn | the task draws from a generator of its own, without a seed
13 | missing_tool | a missing import or tool of the environment is read as a wrong answer | NeMo-Gym#2611, qiskit
OldLengths | single turn | a module that is not there makes every answer wrong
RingDiagram | files | a linter that is not installed makes every file wrong
CityClocks | single turn | a table that cannot be imported makes every answer wrong
14 | verifier_crashes | an odd but legal reply crashes the verifier | mitre-atlas/atlas-data#21, inspect_ai#3870
FractionSum | single turn | a denominator of 0 makes the verifier raise
HighestTrump | single turn | a card that is not there is the environment's error, and the episode does not count
LedgerCalls | tools | arguments of another form make the environment raise
15 | flattered_judge | the judge leaves items out, is flattered, or reads instructions | CHERRL 2606.04923
JudgedNotes | single turn | the first score of the transcript counts, and the reply can write one
ShiftReport | single turn | items that the reply does not name are left out of the mean
HotelDesk | multi-turn | a warm word pleases the guest as much as the answer
16 | solution_in_prompt | the solution stands in the instructions | Repo2RLEnv#45
WorkedProducts | single turn | the worked example is the question itself
FaultReport | files | the report quotes the line of the fix
LetterByLetter | multi-turn | the heading of each observation shows the secret word
17 | fix_in_history | the fix stands in the git history | SWE-bench#465
MachineLimits | files | a later commit, which can be shown, holds the corrected file
StashedWork | files | the stash of the author holds the table
SumRepository | files | the first commit of a real repository holds the sum
18 | answer_readable | the answer is in a file, info, or a tool's output that the agent can read | terminal-bench#410
CubeQuiz | single turn | info of the reset holds the answer
SquaresFolder | files | the expected file lies in a folder that can be read
RecordDesk | tools | the message on an unknown town quotes the query and its result
19 | hidden_keyword | a hidden keyword decides | harness-bench#9
GroupFare | single turn | an explanation without "therefore" is refused
ParcelTalk | multi-turn | a talk that does not end with "goodbye" is refused
StoreTotals | files | a file without the heading "# generated" is refused
20 | length_bonus | longer episodes earn a bonus per turn | verl#7244
Bargain | multi-turn | every turn of talk earns 0.05
BitByBit | multi-turn | every bit earns 0.04, right or wrong
SensorRound | tools | every reading of a sensor earns 0.1
21 | reward_writable | the agent can write the reward file or the test | terminal-bench#1267, OpenEnv#1199
ScoredSums | files | a score that the agent writes into the log stands
TestedTable | files | the tests are read from a file that the agent can empty
PlantControl | tools | the tolerance of the tests can be set by the agent's tool
22 | shared_splits | train and test share tasks | reasoning-gym
SiblingAges | single turn | tasks that differ in names alone are in both splits
PrimeCount | single turn | the splits are drawn from one pool by different seeds
QuestionBank | multi-turn | the last hundred questions of the train split are in the test split
23 | constant_answer | a constant answer or the longest option is right far above chance | reasoning-core, deepeval#3066
ProductOptions | single turn | only the right option is explained, and so the longest
WeekdayAfter | single turn | four visits in five end on a Saturday
WordCount | single turn | a count of at least 0 is asked for, which every text has
24 | state_leaks | state leaks between episodes or neighbours | tau2#392
NoteShelf | multi-turn | all environments of a process write on one shelf
TransferDesk | tools | transfers of one episode are there in the next
DraftFolder | files | all episodes write into one folder of the machine
"""


def read_table(table: str) -> list[Pair]:
    """The pairs of a text in the form of ``TABLE``."""
    pairs = []
    for line in table.strip().splitlines():
        first, *rest = line.split(" | ")
        if first.isdecimal():
            kind = Kind(int(first), *rest)
        else:
            pairs.append(Pair(kind, first, *rest))
    return pairs


PAIRS = read_table(TABLE)


def table() -> str:
    """The table of the README, in Markdown."""
    lines = ["| kind | environment | form | is a | defect | mended part |", "|---|---|---|---|---|---|"]
    for pair in PAIRS:
        target = f"`{pair.kind.module}:{pair.name}`"
        cells = [pair.kind.number, target, pair.form, pair.interface, pair.defect, f"`{pair.mended_part}`"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
