"""Validation finds each planted defect by the check that is for it, and nothing in its twin."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest

from rlvr.cli import main
from rlvr.envs.validation import CHECKS, Replay, ValidationReport, validate
from rlvr.envs.validation.render import as_html, as_markdown, as_openenv
from rlvr.envs.validation.report import SEVERITIES
from rlvr.envs.validation.watched import validate_target


class Sum(gym.Env[str, str]):
    """A sound question of one turn; each defect below breaks one thing."""

    action_space = gym.spaces.Text(200_000)
    observation_space = gym.spaces.Text(10_000)
    asks = "What is {a} + {b}? Reply with the number alone."

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.a, self.b = map(int, self.np_random.integers(100, 1_000, 2))
        return self.asks.format(a=self.a, b=self.b, total=self.a + self.b), self.info()

    def info(self) -> dict[str, Any]:
        return {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", self.grade(action), True, False, {}

    def solve(self) -> str:
        return str(self.a + self.b)

    def right(self, action: str) -> bool:
        return action.strip() == str(self.a + self.b)

    def grade(self, action: str) -> float:
        return float(self.right(action))


class PaysAnything(Sum):
    def grade(self, action: str) -> float:
        return 1.0


class PaysSilence(Sum):
    def grade(self, action: str) -> float:
        return 1.0 if not action.strip() else super().grade(action)


class CannotPayAll(Sum):
    def grade(self, action: str) -> float:
        return 0.15 * super().grade(action)


class WrongOracle(Sum):
    def solve(self) -> str:
        return str(self.a - self.b)


class SilentlyBinary(Sum):
    asks = "Name {a}, {b} and {total}, with commas. Partial credit: each right one earns a fraction of the reward."

    def solve(self) -> str:
        return f"{self.a}, {self.b}, {self.a + self.b}"

    def grade(self, action: str) -> float:
        return float([each.strip() for each in action.split(",")] == [str(self.a), str(self.b), str(self.a + self.b)])


class Graded(SilentlyBinary):
    def grade(self, action: str) -> float:
        wanted = [str(self.a), str(self.b), str(self.a + self.b)]
        named = {each.strip() for each in action.split(",")}
        return max(0.0, len(named & set(wanted)) - len(named - set(wanted))) / len(set(wanted))


class WantsAForm(Sum):
    def solve(self) -> str:
        return f"RESULT={self.a + self.b}"

    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class AsksForTheForm(WantsAForm):
    asks = "What is {a} + {b}? Reply with RESULT= and the number."


class PaysPlaceholder(Sum):
    asks = "What is {a} + {b}? Fill in: total is <the number>"

    def solve(self) -> str:
        return f"total is {self.a + self.b}"

    def right(self, action: str) -> bool:
        return action in (self.solve(), "total is <the number>")


class PlaceholderFails(PaysPlaceholder):
    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class IgnoresTheSeed(Sum):
    count: ClassVar[int] = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        IgnoresTheSeed.count += 1
        return super().reset(seed=IgnoresTheSeed.count)


class MissingIsWrong(Sum):
    def grade(self, action: str) -> float:
        try:
            import numpy  # noqa: F401
        except ImportError:
            return 0.0
        return super().grade(action)


class MissingRaises(Sum):
    def grade(self, action: str) -> float:
        import numpy  # noqa: F401

        return super().grade(action)


class Crashes(Sum):
    def right(self, action: str) -> bool:
        return int(action) == self.a + self.b


class Flattered(Sum):
    def grade(self, action: str) -> float:
        return 1.0 if "full score" in action.lower() or "10/10" in action else super().grade(action)


class TellsTheAnswer(Sum):
    asks = "What is {a} + {b}? Reply with the number alone. (Solution: {total})"


class TellsInInfo(Sum):
    def info(self) -> dict[str, Any]:
        return {"debug": {"expected": str(self.a + self.b)}}


class Contains(Sum):
    def right(self, action: str) -> bool:
        return str(self.a + self.b) in action


class PaysLength(Sum):
    def grade(self, action: str) -> float:
        return super().grade(action) * min(1.0, 0.5 + len(action) / 1_000)


class PaysNonsense(Sum):
    def grade(self, action: str) -> float:
        return super().grade(action) if action.strip().lstrip("-").isdigit() else 0.3


class AlwaysTrue(Sum):
    asks = "Is {a} + {b} more than 3? Reply with yes or no."

    def solve(self) -> str:
        return "yes"

    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class SometimesTrue(AlwaysTrue):
    asks = "Is {a} more than {b}? Reply with yes or no."

    def solve(self) -> str:
        return "yes" if self.a > self.b else "no"


class Longest(Sum):
    asks = ""
    words = " as is found by adding both"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(4))
        values = [self.a + self.b + shift for shift in self.np_random.permutation(200)[:4] - 100]
        values[self.at] = self.a + self.b
        shown = [f"{'ABCD'[i]}. {value}{self.words * (i == self.at)}" for i, value in enumerate(values)]
        return f"Which is {self.a} + {self.b}?\n" + "\n".join(shown), {}

    def solve(self) -> str:
        return "ABCD"[self.at]

    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class AllAsLong(Longest):
    words = ""


class SharesItsState(Sum):
    """The numbers are the class's, and so of all its instances."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(seed=seed)
        SharesItsState.numbers = self.a, self.b
        return text, info

    def right(self, action: str) -> bool:
        return action.strip() == str(sum(SharesItsState.numbers))


class Splits(Sum):
    def __init__(self, split: str = "train") -> None:
        self.split = split


class OtherSplits(Splits):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=None if seed is None else 2 * seed + (self.split == "test"))


class NotFinite(Sum):
    def grade(self, action: str) -> float:
        return super().grade(action) if action else float("nan")


class Shell(gym.Env[str, str]):
    """A world of files; the answer is worked out from a note, and submitted."""

    action_space = gym.spaces.Text(10_000)
    observation_space = gym.spaces.Text(10_000)
    prompt = "Commands: ls, read FILE, write FILE TEXT, submit. Write the double of the number in note.txt to out.txt."
    start_done = False
    hidden: ClassVar[dict[str, str]] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(1_000, 9_000))
        self.files = {"note.txt": str(self.number), **{k: v.format(2 * self.number) for k, v in self.hidden.items()}}
        if self.start_done:
            self.files["out.txt"] = str(2 * self.number)
        self.turn = 0
        return self.prompt, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        verb, _, rest = action.partition(" ")
        path, _, text = rest.partition(" ")
        shown = "no such command"
        if verb == "ls":
            shown = " ".join(self.files)
        elif verb == "read":
            shown = self.files.get(path, "no such file")
        elif verb == "write":
            self.files[path], shown = text, "written"
        done = verb == "submit"
        return shown, self.score() if done else self.pay(), done, self.turn >= 30, {}

    def pay(self) -> float:
        return 0.0

    def score(self) -> float:
        return float(self.files.get("out.txt") == str(2 * self.number))

    def solve(self) -> list[str]:
        return ["read note.txt", f"write out.txt {2 * self.number}", "submit"]


class DoneAtStart(Shell):
    start_done = True


class AnswerInAFile(Shell):
    hidden: ClassVar[dict[str, str]] = {"solution.txt": "{}"}


class RewardFile(Shell):
    def score(self) -> float:
        return 1.0 if self.files.get("reward.txt") in ("1", "1.0") else super().score()


class PaysEachTurn(Shell):
    def pay(self) -> float:
        return 0.01


class DoneOnSome(Shell):
    """Each fourth note is done already: handing in at once is paid there."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(seed=seed)
        if self.number % 4 == 0:
            self.files["out.txt"] = str(2 * self.number)
        return text, info


class ThirdsPromised(SilentlyBinary):
    asks = "Name {a}, {b} and {total}, with commas. Every number that is right is worth a third."


class ThirdsPaid(Graded):
    asks = ThirdsPromised.asks


class AsksForALine(Sum):
    """The form is asked for, and the lines of a reply matter."""

    asks = 'What is {a} + {b}? Show how, and end with a line "RESULT " and the number.'

    def solve(self) -> str:
        return f"Both numbers are added here.\nRESULT {self.a + self.b}"

    def right(self, action: str) -> bool:
        return action.rpartition("\n")[2].strip() == f"RESULT {self.a + self.b}"


class AsksForNoLine(AsksForALine):
    asks = "What is {a} + {b}? Show how."


class WantsEightDigits(Sum):
    asks = "Which day is {a} days after the first of January 2001?"

    def solve(self) -> str:
        return f"{datetime.date(2001, 1, 1) + datetime.timedelta(self.a):%Y%m%d}"

    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class AsksForEightDigits(WantsEightDigits):
    asks = WantsEightDigits.asks + " Reply with eight digits, YYYYMMDD."


class WantsCapitals(SometimesTrue):
    def solve(self) -> str:
        return super().solve().upper()


class AsksForCapitals(WantsCapitals):
    asks = "Is {a} more than {b}? Reply with YES or NO."


class WantsFarewell(gym.Env[str, str]):
    """Two turns; the second is a word that no text asks for."""

    action_space = gym.spaces.Text(1_000)
    observation_space = gym.spaces.Text(1_000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number, self.said = int(self.np_random.integers(100, 999)), ""
        return f"Say the number after {self.number}, then close the talk in your own words.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self.said:
            self.said = action.strip() or "-"
            return "And now?", 0.0, False, False, {}
        paid = self.said == str(self.number + 1) and self.closes(action)
        return "", float(paid), True, False, {}

    def closes(self, action: str) -> bool:
        return action.strip() == "farewell"

    def solve(self) -> str:
        return "farewell" if self.said else str(self.number + 1)


class TakesAnyFarewell(WantsFarewell):
    def closes(self, action: str) -> bool:
        return bool(action.strip())


class SecretForm(WantsFarewell):
    """No expert, and a form that stands in the code alone."""

    solve = None  # type: ignore[assignment]
    form = ""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = 0
        return f"Press the button whose number is {self.number - 3} and three more, twice.{self.form}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += action == f"push#{self.number}"
        return f"Pressed {self.turn} times.", float(self.turn == 2), self.turn == 2, False, {}


class ToldForm(SecretForm):
    form = " The form is push#7."


class Till(gym.Env[str, str]):
    """Tools that are called by JSON: pay two bills out of a purse."""

    action_space = gym.spaces.Text(10_000)
    observation_space = gym.spaces.Text(10_000)
    tools = "pay(bill, amount); note(); finish()"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.bills = {name: int(self.np_random.integers(100, 400)) for name in ("rent", "food")}
        self.purse, self.tolerance, self.turn = sum(self.bills.values()) + 50, 0, 0
        self.payments: dict[str, int] = {}
        due = ", ".join(f"{name} {amount}" for name, amount in self.bills.items())
        form = '{"tool": "NAME", "args": {}}'
        return f"Pay {due}; you have {self.purse}. Call one tool a turn, as in {form}. Tools: {self.tools}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        try:
            call = json.loads(action)
            tool, args = call["tool"], call["args"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return "no such tool", 0.0, False, self.turn >= 30, {}
        if tool == "finish":
            wrong = [abs(self.payments.get(name, 0) - due) > self.tolerance for name, due in self.bills.items()]
            return "", float(not any(wrong)), True, False, {}
        if tool == "note":
            return "noted", self.note_pay(), False, self.turn >= 30, {}
        return self.pay(args) if tool == "pay" else ("no such tool", 0.0, False, self.turn >= 30, {})

    def pay(self, args: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        bill, amount = (args.get("bill"), args.get("amount")) if isinstance(args, dict) else (None, None)
        if not isinstance(bill, str) or not isinstance(amount, int):
            return "pay takes a bill and an amount", 0.0, False, self.turn >= 30, {}
        if amount > self.purse:
            return "more than you have", self.overdrawn(), True, False, {}
        self.payments[bill] = amount
        return self.shown(bill), 0.0, False, self.turn >= 30, {}

    def shown(self, bill: str) -> str:
        return "paid"

    def overdrawn(self) -> float:
        return 0.0

    def note_pay(self) -> float:
        return 0.0

    def solve(self) -> str:
        for bill, amount in self.bills.items():
            if bill not in self.payments:
                return json.dumps({"tool": "pay", "args": {"bill": bill, "amount": amount}})
        return json.dumps({"tool": "finish", "args": {}})


class PaysOverdraft(Till):
    def overdrawn(self) -> float:
        return 0.3


class PaysEachNote(Till):
    def note_pay(self) -> float:
        return 0.05


class CrashesOnArguments(Till):
    def pay(self, args: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return super().pay({"bill": args["bill"], "amount": args["amount"] + 0})


class SetsItsTolerance(Till):
    def pay(self, args: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if isinstance(args, dict) and args.get("bill") == "tolerance" and isinstance(args.get("amount"), int):
            self.tolerance = args["amount"]
            return "set", 0.0, False, self.turn >= 30, {}
        return super().pay(args)

    tools = "pay(bill, amount), where a bill within the tolerance is met; note(); finish()"


class KeepsItsTolerance(Till):
    tools = SetsItsTolerance.tools


class ExampleIsTheQuestion(Sum):
    asks = "For instance, {a} + {b} is {total}. What is {a} + {b}? Reply with the number alone."


class ExampleOfAnother(Sum):
    asks = "For instance, 7 + 8 is 15. What is {a} + {b}? Reply with the number alone."


class FixInTheReport(Shell):
    told = " It was fixed by a change to `total = {}` in there."

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        text, info = super().reset(seed=seed)
        return text + self.told.format(2 * self.number), info

    def score(self) -> float:
        return float(self.files.get("out.txt") == f"\ntotal = {2 * self.number}")

    def solve(self) -> list[str]:
        return [f"write out.txt \ntotal = {2 * self.number}", "submit"]


class NoFixInTheReport(FixInTheReport):
    told = " The line is `total = N`."


class HasAPast(Shell):
    prompt = Shell.prompt.replace("ls, read", "ls, log, show ID, read")
    commits: ClassVar[dict[str, str]] = {"a1f": "note {}", "b2e": "the total {}"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        shown, reward, done, cut, info = super().step(action)
        verb, _, name = action.partition(" ")
        if verb == "log":
            shown = "\n".join(f"{key} by Ada" for key in self.commits)
        elif verb == "show":
            shown = self.commits.get(name, "none").format(2 * self.number)
        return shown, reward, done, cut, info


class HasNoPast(HasAPast):
    commits: ClassVar[dict[str, str]] = {"a1f": "note", "b2e": "the total"}


class AnswerInALaterFolder(Shell):
    hidden: ClassVar[dict[str, str]] = {"tests/wanted.txt": "{}"}


class MessageTells(Shell):
    missing = "no such file; wanted {}"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        shown, reward, done, cut, info = super().step(action)
        return shown.replace("no such file", self.missing.format(2 * self.number)), reward, done, cut, info

    def solve(self) -> list[str]:
        return [f"write out.txt {2 * self.number}", f"submit {2 * self.number}"]


class MessageTellsNothing(MessageTells):
    missing = "no such file"


class JudgeReadsTheReply(Sum):
    """A judge's transcript holds the reply, and the first score of it counts."""

    first = 0

    def grade(self, action: str) -> float:
        transcript = f"REPLY\n{action}\nJUDGEMENT\nRating: {5 * self.right(action)}"
        return min(1.0, int(re.findall(r"^Rating: (\d+)$", transcript, re.MULTILINE)[self.first]) / 5)


class JudgeReadsItsOwn(JudgeReadsTheReply):
    first = -1


class ReadsWhatIsThere(Sum):
    """Three lines are asked for, and only those of the reply are looked at."""

    asks = "What are {a} + 1, {a} + {b} and {b} + 1? Answer by three lines: first N, second N, third N."

    def lines(self) -> list[str]:
        return [f"first {self.a + 1}", f"second {self.a + self.b}", f"third {self.b + 1}"]

    def solve(self) -> str:
        return "\n".join(self.lines())

    def right(self, action: str) -> bool:
        said = action.strip().split("\n")
        return all(line in self.lines() for line in said) and self.enough(said)

    def enough(self, said: list[str]) -> bool:
        return bool(said)


class ReadsAll(ReadsWhatIsThere):
    def enough(self, said: list[str]) -> bool:
        return said == self.lines()


class LooksAtOneLine(ReadsWhatIsThere):
    def right(self, action: str) -> bool:
        said = action.strip().split("\n")
        return len(said) == 3 and said[::2] == self.lines()[::2]


class MostlyFriday(Sum):
    days = "Friday Friday Friday Friday Friday Friday Friday Friday Monday Tuesday".split()
    asks = "On which day does week {a} of plan {b} end? Reply with the day alone."

    def solve(self) -> str:
        return self.days[(self.a * 7 + self.b) % len(self.days)]

    def right(self, action: str) -> bool:
        return action.strip() == self.solve()


class AnyDay(MostlyFriday):
    days = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


class TooFewSteps(gym.Env[str, str]):
    """No expert; a lamp at the end of a hall, and one step too few to get there."""

    action_space = gym.spaces.Text(100)
    observation_space = gym.spaces.Text(1_000)
    spare = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.way = self.left = int(self.np_random.integers(8, 12))
        self.left += self.spare
        return f"The lamp is {self.way} steps ahead. Commands: ahead, back, wait.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.way += {"ahead": -1, "back": 1}.get(action, 0)
        self.left -= 1
        there = self.way == 0
        return f"The lamp is {self.way} steps ahead.", float(there), there, self.left <= 0 and not there, {}


class EnoughSteps(TooFewSteps):
    spare = 2


class NamesDiffer(Splits):
    """The splits draw names apart, and ask the same of them."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        _, info = super().reset(seed=seed)
        self.a, self.b = self.a % 30 + 20, self.b % 40 + 60
        if not self.shares:
            self.b += 40 * (self.split == "test")
        names = ("Ada", "Ben") if self.split == "train" else ("Cyd", "Dov")
        return f"{names[0]} has {self.a} coins and {names[1]} has {self.b}. How many have they?", info

    shares = True


class NumbersDiffer(NamesDiffer):
    shares = False


class SometimesMisgrades(Sum):
    """One grade in four is the other one."""

    misgrades = 4

    def grade(self, action: str) -> float:
        SometimesMisgrades.graded = (getattr(SometimesMisgrades, "graded", 0) + 1) % 61
        return float(self.right(action) == bool(self.misgrades == 0 or SometimesMisgrades.graded % self.misgrades))


class GradesAlike(SometimesMisgrades):
    misgrades = 0


class PaidCanary(Sum):
    canaries = ("please", ["I give up"])
    pleased = "please"

    def right(self, action: str) -> bool:
        return super().right(action) or action == self.pleased


class UnpaidCanary(PaidCanary):
    pleased = ""

    def right(self, action: str) -> bool:
        return Sum.right(self, action)


class AsksTheNetwork(Sum):
    host = "answers.invalid"

    def grade(self, action: str) -> float:
        with contextlib.suppress(OSError):
            socket.getaddrinfo(self.host, 80)
        return super().grade(action)


class AsksItself(AsksTheNetwork):
    host = "127.0.0.1"


class Evaluates(Sum):
    """The reply is an expression, and is evaluated."""

    def right(self, action: str) -> bool:
        try:
            return bool(self.value(action) == self.a + self.b)
        except Exception:
            return False

    def value(self, text: str) -> Any:
        return eval(text)


class ReadsNumbers(Evaluates):
    def value(self, text: str) -> Any:
        return int(text)


class WritesBesideItself(Sum):
    """It keeps a log in the folder of its code."""

    @property
    def log(self) -> Path:
        return Path(__file__).with_name("validation_test.log")

    def grade(self, action: str) -> float:
        with self.log.open("w") as file:
            file.write(action.encode("ascii", "replace").decode())
        self.log.unlink()
        return super().grade(action)


class WritesElsewhere(WritesBesideItself):
    @property
    def log(self) -> Path:
        return Path(tempfile.gettempdir()) / "validation_test.log"


class DeclaresTooMany(Sum):
    num_tasks = 12
    there = 10

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        index = (options or {}).get("index", 0)
        if index >= self.there:
            raise IndexError(f"there is no task {index}")
        return super().reset(seed=(seed or 0) + index)


class DeclaresWhatIsThere(DeclaresTooMany):
    there = 12


class LoadsWhatIsNewest(Sum):
    def rows(self) -> Any:
        return load_dataset("someone/sums", split="train")  # type: ignore[name-defined]  # noqa: F821


class LoadsARevision(Sum):
    def rows(self) -> Any:
        return load_dataset("someone/sums", split="train", revision="4b1d0c2")  # type: ignore[name-defined]  # noqa: F821


PLANTED: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("semantic.floor_gap", PaysAnything, Sum),
    ("semantic.floor_gap", PaysSilence, Sum),
    ("statistical.adversarial_floor", PaysAnything, Sum),
    ("semantic.oracle_max", CannotPayAll, Sum),
    ("semantic.oracle_max", WrongOracle, Sum),
    ("sound.graded", SilentlyBinary, Graded),
    ("sound.form", WantsAForm, AsksForTheForm),
    ("statistical.adversarial_floor", PaysPlaceholder, PlaceholderFails),
    ("runtime.seed_control", IgnoresTheSeed, Sum),
    ("sound.fault_is_no_zero", MissingIsWrong, MissingRaises),
    ("sound.faults", Crashes, Sum),
    ("statistical.adversarial_floor", Flattered, Sum),
    ("semantic.no_solution_leakage", TellsTheAnswer, Sum),
    ("runtime.oracle_containment", TellsInInfo, Sum),
    ("sound.hedges", Contains, Sum),
    ("sound.length", PaysLength, Sum),
    ("sound.broken_rules", PaysNonsense, Sum),
    ("sound.constant", AlwaysTrue, SometimesTrue),
    ("sound.options", Longest, AllAsLong),
    ("runtime.episode_isolation", SharesItsState, Sum),
    ("sound.splits", Splits, OtherSplits),
    ("runtime.reward_well_formed", NotFinite, Sum),
    ("semantic.floor_gap", DoneAtStart, Shell),
    ("semantic.no_solution_leakage", AnswerInAFile, Shell),
    ("runtime.oracle_containment", RewardFile, Shell),
    ("sound.length", PaysEachTurn, Shell),
    ("semantic.floor_gap", DoneOnSome, Shell),
    ("sound.graded", ThirdsPromised, ThirdsPaid),
    ("sound.form", AsksForNoLine, AsksForALine),
    ("sound.form", WantsEightDigits, AsksForEightDigits),
    ("sound.form", WantsCapitals, AsksForCapitals),
    ("sound.form", WantsFarewell, TakesAnyFarewell),
    ("sound.faults", CrashesOnArguments, Till),
    ("sound.broken_rules", PaysOverdraft, Till),
    ("sound.length", PaysEachNote, Till),
    ("runtime.oracle_containment", SetsItsTolerance, KeepsItsTolerance),
    ("semantic.no_solution_leakage", ExampleIsTheQuestion, ExampleOfAnother),
    ("semantic.no_solution_leakage", FixInTheReport, NoFixInTheReport),
    ("semantic.no_solution_leakage", HasAPast, HasNoPast),
    ("semantic.no_solution_leakage", AnswerInALaterFolder, Shell),
    ("semantic.no_solution_leakage", MessageTells, MessageTellsNothing),
    ("statistical.adversarial_floor", JudgeReadsTheReply, JudgeReadsItsOwn),
    ("sound.parts", ReadsWhatIsThere, ReadsAll),
    ("sound.parts", LooksAtOneLine, ReadsAll),
    ("sound.constant", MostlyFriday, AnyDay),
    ("semantic.oracle_max", TooFewSteps, EnoughSteps),
    ("sound.splits", NamesDiffer, NumbersDiffer),
    ("semantic.verifier_determinism", SometimesMisgrades, GradesAlike),
    ("semantic.canary_floor", PaidCanary, UnpaidCanary),
    ("runtime.egress_denied", AsksTheNetwork, AsksItself),
    ("runtime.host_containment", Evaluates, ReadsNumbers),
    ("runtime.host_containment", WritesBesideItself, WritesElsewhere),
    ("runtime.task_declaration_accuracy", DeclaresTooMany, DeclaresWhatIsThere),
    ("static.task_distribution_pinning", LoadsWhatIsNewest, LoadsARevision),
]


def checked(kind: Callable[..., Any], *checks: str) -> ValidationReport:
    make_split = (lambda split: kind(split)) if issubclass(kind, Splits) else None
    return validate(kind, tasks=8, checks=checks or None, make_split=make_split)


def serious(report: ValidationReport) -> set[str]:
    return {check.id for check, finding in report.findings if finding.severity in ("medium", "high")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "defect", "twin"), PLANTED, ids=[f"{check}-{defect.__name__}" for check, defect, _ in PLANTED]
)
def test_a_planted_defect_is_found_and_its_twin_is_not(check: str, defect: Any, twin: Any) -> None:
    assert serious(checked(defect, check)) == {check}
    assert serious(checked(twin, check)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("twin", sorted({twin for _, _, twin in PLANTED}, key=lambda twin: twin.__name__))
def test_a_sound_environment_has_no_findings_at_all(twin: Any) -> None:
    report = checked(twin)
    assert serious(report) == set(), str(report)
    assert not any(result.error for result in report.results), str(report)


# what it is told, and what it says


def test_every_check_has_a_sentence_and_an_id_that_openenv_takes() -> None:
    for id, (check, _) in CHECKS.items():
        assert check.id == id
        assert check.sentence.endswith(".")
        assert check.remedy.endswith(".")
        assert check.severity in SEVERITIES
        assert id.replace("_", "").replace(".", "").isalpha()


def test_a_finding_is_shown_by_its_replay() -> None:
    report = checked(PaysSilence, "semantic.floor_gap")
    replay = next(finding.replay for _, finding in report.findings)
    assert replay is not None
    assert Replay.from_dict(json.loads(json.dumps(replay.to_dict()))) == replay
    env = PaysSilence()
    env.reset(seed=replay.seed)
    assert env.step(replay.actions[0])[1] == 1.0
    assert json.dumps(replay.to_dict()) in replay.command("x")


def test_the_reports_hold_every_finding_and_no_markup_of_the_environment() -> None:
    report = checked(PaysPlaceholder, "statistical.adversarial_floor")
    report.target = "<script>alert(1)</script>"
    assert "<script" not in as_html(report)
    for text in (as_html(report), as_markdown(report), str(report), json.dumps(report.to_dict())):
        assert "statistical.adversarial_floor" in text
    assert report.verdict == "fail"


def test_the_report_of_rfc_008_has_its_checks_alone() -> None:
    record = as_openenv(checked(PaysSilence, "semantic.floor_gap", "sound.faults"))
    assert [result["check_id"] for result in record["results"]] == ["semantic.floor_gap"]
    assert (record["verdict"], record["levels_run"]) == ("fail", [3])
    assert record["results"][0]["remediation"]


@pytest.mark.parametrize("bad", [{"checks": ["semantic.floor"]}, {"minutes": 0.0}, {"tasks": 0}])
def test_what_cannot_be_asked_is_one_sentence(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"there is no check|must be above 0"):
        validate(Sum, **bad)


def test_an_environment_without_an_expert_is_searched() -> None:
    class Mute(Sum):
        solve = None  # type: ignore[assignment]

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
            told = super().reset(seed=seed)
            self.twice, self.a, self.b = 2 * (self.a + self.b), 0, 0  # what the code compares with is no answer
            return told

        def right(self, action: str) -> bool:
            return action.strip().isdigit() and 2 * int(action) == self.twice

    report = checked(Mute, "semantic.oracle_max")
    assert [finding.name for _, finding in report.findings] == ["maximum not shown"]
    assert report.clean

    class Listed(Mute):
        def info(self) -> dict[str, Any]:
            return {"legal_actions": [str(self.a - self.b), str(self.a + self.b)]}

    report = checked(Listed, "semantic.oracle_max")
    assert not list(report.findings)
    assert report.results[0].measured["maximum reached"] == report.results[0].measured["tasks searched"]


@pytest.mark.slow
def test_a_form_that_only_the_code_knows_is_found_by_reading_it() -> None:
    checks = "semantic.oracle_max", "sound.form"
    (finding,) = checked(SecretForm, *checks).at_least("medium")
    assert "'push" in finding.text
    assert not checked(ToldForm, *checks).at_least("medium")


def test_a_check_without_time_to_end_leaves_no_clean_report(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    report = validate(Sum, minutes=1e-9, checks=["sound.faults"])
    assert [result.status for result in report.results] == ["unfinished"]
    assert (report.clean, report.verdict, as_openenv(report)["verdict"]) == (False, "warn", "warn")
    assert str(report).startswith(f"{report.target}: NOT CLEAN: 1 check that did not end\n")
    assert main(["validate", "GuessNumber", "--minutes", "0.01", "--json", str(tmp_path / "report.json")]) == 3
    checks = json.loads((tmp_path / "report.json").read_text())["checks"]
    assert {check["unfinished"] for check in checks if check["status"] == "unfinished"} == {
        "not run: the time was over"
    }
    assert "checks that did not end" in capsys.readouterr().out


def test_what_a_tests_time_limit_raises_in_a_step_is_not_the_environments() -> None:
    class Limited(Sum):
        def grade(self, action: str) -> float:
            pytest.fail("Timeout (>600.0s)")

    class Exits(Sum):
        def grade(self, action: str) -> float:
            raise SystemExit(1)

    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        checked(Limited, "sound.faults")
    assert checked(Exits, "sound.faults").at_least("high")


def test_a_target_of_the_wrong_form_does_not_start() -> None:
    class Old(Sum):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed=seed)[0]

    report = checked(Old)
    assert "reset gives an observation and an info" in report.at_least("high")[0].text
    assert all(result.skipped == "it does not start" for result in report.results[1:])


def test_discrete_actions_are_played_by_number() -> None:
    report = validate(gym.make("FrozenLake-v1", is_slippery=False), tasks=3, checks=["semantic.oracle_max"])
    assert report.results[0].measured["maximum reached"] == 3


# in a process of its own

HOSTILE = """
import os, socket, sys, time
import gymnasium as gym

class Sum(gym.Env):
    action_space = gym.spaces.Text(200_000)
    observation_space = gym.spaces.Text(1_000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.a, self.b = map(int, self.np_random.integers(100, 1000, 2))
        return f"What is {self.a} + {self.b}? Reply with the number alone.", {}

    def step(self, action):
        if action == "nan":
            self.fault()
        return "", float(action.strip() == str(self.a + self.b)), True, False, {}

    def solve(self):
        return str(self.a + self.b)

    def fault(self):
        pass

class Hangs(Sum):
    def fault(self):
        time.sleep(1_000)

class Exits(Sum):
    def fault(self):
        os._exit(7)

class Forks(Sum):
    def fault(self):
        for _ in range(200):
            if not os.fork():
                os.setsid()
                time.sleep(1_000)

class Orphans(Sum):
    def fault(self):
        if not os.fork():
            for _ in range(100):
                if not os.fork():
                    os.setsid()
                    time.sleep(1_000)
            os._exit(0)
        os.wait()

class Prints(Sum):
    def fault(self):
        while True:
            os.write(1, b"x" * 65_536)

class Eats(Sum):
    def fault(self):
        self.held = [bytearray(1 << 26) for _ in range(40)]
        time.sleep(1_000)

class ByTheClock(Sum):
    def reset(self, *, seed=None, options=None):
        text, info = super().reset(seed=seed)
        return f"{text} It is day {int(time.time() // 86_400)}.", info

class RaisesNoException(Sum):
    def fault(self):
        raise KeyboardInterrupt("nobody pressed a key")

class Listens(Sum):
    def __init__(self):
        with open(os.path.join(os.path.dirname(__file__), "port")) as file:
            self.socket = socket.create_server(("127.0.0.1", int(file.read())))

class LiesInItsMetadata(Sum):
    metadata = None
    reward_range = 0.0, 0.5

class CannotBeMade(Sum):
    def __init__(self):
        import a_module_that_is_not_there
"""
FAULTS = {
    "Hangs": "does not return within",
    "Exits": "ends its process with status 7",
    "Forks": "starts more than 64 processes",
    "Prints": "prints more than 64 MB",
    "Eats": "takes more than 512 MB of memory",
}


@pytest.fixture
def hostile(tmp_path: Any) -> str:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    return str(tmp_path / "hostile.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_a_target_that_takes_its_process_with_it_is_a_finding(
    kind: str, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "Eats":  # the others may take what they need
        monkeypatch.setattr("rlvr.envs.validation.watched.MEMORY", 1 << 29)
    if kind == "Forks":  # however late it is looked at, as on a busy machine
        monkeypatch.setattr("rlvr.envs.validation.watched.POLL", 2.0)
    report = validate_target(f"{hostile}:{kind}", tasks=2, minutes=0.6, checks=["runtime.startup", "sound.faults"])
    (finding,) = report.at_least("high")
    assert FAULTS[kind] in finding.text
    assert finding.replay is not None
    assert finding.replay.actions == ("nan",)
    assert report.seconds < 90


SAID = {
    "RaisesNoException": ("sound.faults", "with a fault: KeyboardInterrupt: nobody pressed a key"),
    "Listens": ("runtime.seed_control", "a second environment beside the first cannot be made: OSError: [Errno 98]"),
    "LiesInItsMetadata": ("runtime.reward_well_formed", "the return 1 is outside of [0, 0.5] (declared)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAID)
def test_what_is_bad_is_a_finding_and_a_second_run_says_the_same(kind: str, hostile: str) -> None:
    check, text = SAID[kind]
    with socket.create_server(("127.0.0.1", 0)) as free:
        Path(hostile).with_name("port").write_text(str(free.getsockname()[1]))
    runs = []
    for _ in range(2):  # the port is free again
        report = validate_target(f"{hostile}:{kind}", tasks=2, checks=["runtime.startup", check])
        assert not any(each.error or each.unfinished for each in report.results), str(report)
        runs.append([(each.id, finding.text) for each, finding in report.findings])
    assert runs[0] == runs[1]
    assert any(id == check and text in found for id, found in runs[0]), runs[0]


@pytest.mark.slow
def test_processes_whose_parent_has_ended_are_a_finding(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvr.envs.validation.watched.POLL", 5.0)  # a busy machine is slow to start them
    report = validate_target(f"{hostile}:Orphans", tasks=1, checks=["sound.faults"])
    (finding,) = report.at_least("high")
    assert finding.text == "the target starts more than 64 processes, which live on after the last check"


@pytest.mark.slow
def test_what_depends_on_the_clock_differs_elsewhere(hostile: str) -> None:
    report = validate_target(f"{hostile}:ByTheClock", tasks=2, minutes=2.0)
    assert {check.id for check, finding in report.findings if finding.severity == "high"} == {
        "semantic.verifier_portability"
    }
    clean = validate_target(f"{hostile}:Sum", tasks=2, minutes=2.0)
    assert not clean.at_least("medium"), str(clean)


@pytest.mark.slow
def test_paths_of_the_caller_hold_elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "rows_of_sums.py").write_text(
        f"{HOSTILE}\nclass Rows(Sum):\n    def __init__(self, rows):\n        open(rows).close()\n"
    )
    (tmp_path / "rows.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "modules")
    report = validate_target("rows_of_sums:Rows", {"rows": "rows.txt"}, tasks=1, minutes=2.0)
    (result,) = (each for each in report.results if each.check.id == "semantic.verifier_portability")
    assert (result.unfinished, result.findings, result.tries > 0) == ("", [], True), str(report)


@pytest.mark.slow
def test_a_data_set_of_a_folder_is_played_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are read with pandas, whose compiled modules count on the layout of ``datetime``.

    The last line of a solution says again what stands in a box before: neither is an item of a list.
    """
    pytest.importorskip("datasets")
    monkeypatch.chdir(Path(__file__).parents[1])
    monkeypatch.setenv("RLVR_DATA", "data")
    report = validate_target("rlvr/MATH-v0", minutes=2.0)
    assert report.clean, str(report)
    (result,) = (each for each in report.results if each.check.id == "semantic.verifier_portability")
    assert (result.unfinished, result.findings, result.tries > 0) == ("", [], True), str(report)


@pytest.mark.slow
def test_what_is_not_installed_is_said(hostile: str) -> None:
    with pytest.raises(ValueError, match="a_module_that_is_not_there"):
        validate_target(f"{hostile}:CannotBeMade", tasks=2, minutes=1.0)


@pytest.mark.slow
def test_the_command_needs_leave_and_writes_reports(
    hostile: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", f"{hostile}:Sum"]) == 2
    assert "--allow-code" in capsys.readouterr().err
    files = {name: tmp_path / f"report.{name}" for name in ("json", "openenv", "markdown", "html")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main(["validate", f"{hostile}:Sum", "--allow-code", "--tasks", "2", *words]) == 0
    assert json.loads(files["json"].read_text())["verdict"] in ("pass", "warn")
    assert main(["validate", f"{hostile}:Nothing", "--allow-code"]) == 2
    assert "has no 'Nothing'" in capsys.readouterr().err
    replay = '{"seed": 1, "options": {}, "actions": ["0"]}'
    assert main(["validate", f"{hostile}:Sum", "--allow-code", "--replay", replay]) == 0
    assert json.loads(capsys.readouterr().out)["rewards"] == [0.0]
