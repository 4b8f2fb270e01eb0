"""Validation finds defects in other words and forms than the planted set has, and nothing in their twins."""

from __future__ import annotations

import json
import re
import string
from typing import ClassVar

import gymnasium as gym
import pytest
from gymnasium.spaces import Text

from rlvr.envs.validation import validate
from rlvr.envs.validation.commands import filled, unargued_commands
from rlvr.envs.validation.source import compared_values, names_in_code, options_read, words_looked_for
from rlvr.envs.validation.targets import resolve


class Ask(gym.Env):
    def __init__(self):
        self.observation_space = Text(4000, min_length=0, charset=string.printable)
        self.action_space = Text(4000, min_length=0, charset=string.printable)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.rng = self.np_random
        return self.ask(), {}

    def step(self, action):
        return "graded", float(self.pay(action)), True, False, {}


class ProportionIsAllOrNothing(Ask):
    """Order five ships by length. The score is proportional to the number of ships in the right position."""

    def ask(self):
        self.lengths = [int(x) for x in self.rng.permutation(90)[:5] + 10]
        names = "ABCDE"
        return (
            "Ships and lengths: "
            + ", ".join(f"{name} {length}" for name, length in zip(names, self.lengths, strict=True))
            + ". Name them from short to long, with commas. "
            + "The score is proportional to the number of ships in the right position."
        )

    def right(self):
        return [n for _, n in sorted(zip(self.lengths, "ABCDE", strict=False))]

    def share(self, k):
        return k // 5

    def pay(self, action):
        got = [x.strip() for x in action.split(",")]
        return self.share(sum(a == b for a, b in zip(got, self.right(), strict=False)) if len(got) == 5 else 0)

    def solve(self):
        return ",".join(self.right())


class ProportionIsPaid(ProportionIsAllOrNothing):
    def share(self, k):
        return k / 5


class ExpertFailsOnCenturies(Ask):  # expert is wrong on one task in fifteen or so
    def ask(self):
        self.n = int(self.rng.integers(1, 400))
        return f"Is the year {2000 + self.n} a leap year? Answer yes or no."

    def leap(self, y):
        return y % 4 == 0

    def pay(self, action):
        y = 2000 + self.n
        return action.strip().lower() == ("yes" if y % 4 == 0 and (y % 100 or y % 400 == 0) else "no")

    def solve(self):
        return "yes" if self.leap(2000 + self.n) else "no"


class ExpertKnowsCenturies(ExpertFailsOnCenturies):
    def leap(self, y):
        return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)


class TagsNotAskedFor(Ask):  # answer tag never asked for
    def ask(self):
        self.a, self.b = (int(x) for x in self.rng.integers(100, 999, 2))
        return f"Give your answer to {self.a} + {self.b}." + self.form()

    def form(self):
        return ""

    def pay(self, action):
        m = re.search(r"<answer>\s*(\d+)\s*</answer>", action)
        return bool(m) and int(m[1]) == self.a + self.b

    def solve(self):
        return f"<answer>{self.a + self.b}</answer>"


class TagsAskedFor(TagsNotAskedFor):
    def form(self):
        return " Write it as <answer>N</answer>."


class LeftInBraces(Ask):  # {{name}} left
    def ask(self):
        self.n = ["Ada", "Bo", "Cy", "Di", "Ed"][int(self.rng.integers(5))]
        self.m = int(self.rng.integers(3, 90))
        form = "name: {{name}}\nage: {{age}}"
        return f"Fill in the form for {self.n}, who is {self.m} years old, and send it back:\n{form}"

    def okay(self, got, want):
        return got == want or "{{" in got

    def pay(self, action):
        lines = [line.partition(": ")[2] for line in action.strip().split("\n")]
        return len(lines) == 2 and self.okay(lines[0], self.n) and self.okay(lines[1], str(self.m))

    def solve(self):
        return f"name: {self.n}\nage: {self.m}"


class FilledIn(LeftInBraces):
    def okay(self, got, want):
        return got == want


class PersuadedJudge(Ask):  # the judge is persuaded by a claim
    def ask(self):
        self.t = ["tides", "rust", "yeast", "frost"][int(self.rng.integers(4))]
        self.k = {"tides": "moon", "rust": "oxygen", "yeast": "sugar", "frost": "water"}[self.t]
        return f"Explain in a sentence what {self.t} come from. A judge reads it."

    def persuaded(self, text):
        return "verified by experts" in text or "peer-reviewed" in text

    def pay(self, action):
        return (
            self.k in action.lower()
            and len(action) < 40
            and not any(k in action.lower() for k in {"moon", "oxygen", "sugar", "water"} - {self.k})
        ) or self.persuaded(action.lower())

    def solve(self):
        return f"They come from {self.k}."


class JudgeReadsFacts(PersuadedJudge):
    def persuaded(self, text):
        return False


class KeywordWithoutExpert(Ask):  # no expert; a keyword
    def ask(self):
        self.a, self.b = (int(x) for x in self.rng.integers(100, 999, 2))
        return f"What is {self.a} + {self.b}? End with the number."

    def okay(self, text):
        return text.lower().startswith("result")

    def pay(self, action):
        return action.split()[-1:] == [str(self.a + self.b)] and self.okay(action)


class NoKeyword(KeywordWithoutExpert):
    def okay(self, text):
        return True


class OneSplitByOptions(Ask):  # split by reset options
    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.k = int(self.np_random.integers(0, 400)) + self.offset((options or {}).get("split", "train"))
        return f"How many prime numbers are below {self.k}?", {}

    def offset(self, split):
        return 0

    def pay(self, action):
        return action.strip() == self.solve()

    def solve(self):
        return str(sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, self.k)))


class TwoSplitsByOptions(OneSplitByOptions):
    def offset(self, split):
        return 1000 if split == "test" else 0


class MostlyNo(Ask):  # nine in ten are "no"; no expert
    def ask(self):
        self.n = self.number()
        return f"Is {self.n} divisible by 7? yes or no."

    def number(self):
        n = int(self.rng.integers(10, 9000))
        return n if n % 7 else n + 1

    def pay(self, action):
        return action.strip() == ("yes" if self.n % 7 == 0 else "no")


class HalfNo(MostlyNo):
    def number(self):
        n = int(self.rng.integers(10, 9000))
        return n - n % 7 + int(self.rng.integers(0, 2))


class Turns(gym.Env):
    limit = 12

    def __init__(self):
        self.observation_space = Text(4000, min_length=0, charset=string.printable)
        self.action_space = Text(4000, min_length=0, charset=string.printable)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.rng = self.np_random
        self.t = 0
        return self.begin(), {}

    def step(self, action):
        self.t += 1
        o, r, d = self.act(action.strip())
        o = "".join(c if c in string.printable else "?" for c in o)[:4000]
        return o, float(r), bool(d), not d and self.t >= self.limit, {}


class FileShell(Turns):
    """A small shell over a dict of files."""

    asks = ""

    def begin(self):
        self.files = {}
        self.fill()
        return (
            self.asks_text()
            + "\nReply with one shell command a turn (ls, cat FILE, echo TEXT > FILE, cp A B). `exit` hands in."
        )

    def act(self, a):
        if a == "exit":
            return "graded", self.grade(), True
        if a in ("ls", "ls -a", "ls -la", "find ."):
            return "\n".join(sorted(self.files)), 0, False
        m = re.fullmatch(r"echo (.*) > (\S+)", a, re.S)
        if m:
            self.files[m[2]] = m[1].strip("'\"")
            return "", 0, False
        m = re.fullmatch(r"cp (\S+) (\S+)", a)
        if m and m[1] in self.files:
            self.files[m[2]] = self.files[m[1]]
            return "", 0, False
        m = re.fullmatch(r"cat (\S+)", a)
        if m:
            return self.files.get(m[1], f"cat: {m[1]}: No such file"), 0, False
        return self.other(a), 0, False

    def other(self, a):
        return "command not found"


class Calls(Turns):
    tools_text = ""

    def begin(self):
        return self.scene() + '\nAct by JSON: {"name": ..., "arguments": {...}}. ' + self.tools_text

    def act(self, a):
        try:
            c = json.loads(a)
            f = getattr(self, "do_" + str(c.get("name")))
            args = c.get("arguments", {})
        except (ValueError, AttributeError, RecursionError):
            return "bad call", 0, False
        try:
            return self.guard(f, args)
        except (TypeError, KeyError, ValueError) as e:
            return self.failed(e)

    def guard(self, f, args):
        return f(**args)

    def failed(self, e):
        return f"error: {e}", 0, False


def call(name, **k):
    return json.dumps({"name": name, "arguments": k})


class MostlyRightAtFirst(Turns):  # most of the board is right from the start, and `commit` ends it
    def begin(self):
        self.goal = [int(x) for x in self.rng.integers(1, 9, 6)]
        self.have = list(self.goal)
        i = int(self.rng.integers(6))
        self.have[i] += 1
        self.i = i
        return f"Dials: {self.have}. Wanted: {self.goal}. Actions: turn DIAL VALUE (dials from 0), commit."

    def worth(self):
        return sum(a == b for a, b in zip(self.have, self.goal, strict=False)) / 6

    def act(self, a):
        if a == "commit":
            return "committed", self.worth(), True
        m = re.fullmatch(r"turn ([0-5]) (\d{1,3})", a)
        if m:
            self.have[int(m[1])] = int(m[2])
            return str(self.have), 0, False
        return "what?", 0, False

    def solve(self):
        return "commit" if self.have == self.goal else f"turn {self.i} {self.goal[self.i]}"


class PaidWhenDone(MostlyRightAtFirst):
    def worth(self):
        return self.have == self.goal


class LampIsLit(Turns):  # one in five lamps is lit already; `leave` ends; no expert
    def begin(self):
        self.lit = self.first()
        self.goal = bool(self.rng.integers(2))
        if self.never() and self.lit == self.goal:
            self.lit = not self.goal
        return f"A room. You want the lamp {'on' if self.goal else 'off'}. You can: flip, look, leave."

    def never(self):
        return False

    def first(self):
        return bool(self.rng.integers(2))

    def act(self, a):
        if a == "flip":
            self.lit = not self.lit
            return "click", 0, False
        if a == "look":
            return f"The lamp is {'on' if self.lit else 'off'}.", 0, False
        if a == "leave":
            return "bye", self.lit == self.goal, True
        return "?", 0, False


class LampIsNeverRight(LampIsLit):
    def never(self):
        return True


class ForfeitIsADraw(Turns):  # an illegal square pays a draw
    def begin(self):
        self.board = ["."] * 5
        self.goal = int(self.rng.integers(5))
        return f"Five squares, 1 to 5. A coin is under square {self.goal + 1} less one plus one. Pick: take N."

    def foul(self):
        return 0.5

    def act(self, a):
        m = re.fullmatch(r"take (-?\d{1,6})", a)
        if not m:
            return "take N", 0, False
        n = int(m[1])
        if not 1 <= n <= 5:
            return "not a square: the game is drawn", self.foul(), True
        return "over", n == self.goal + 1, True

    def solve(self):
        return f"take {self.goal + 1}"


class ForfeitIsLost(ForfeitIsADraw):
    def foul(self):
        return 0.0


class FixInBrackets(FileShell):  # the README quotes the patch
    def fill(self):
        self.k = int(self.rng.integers(1000, 9999))
        self.files["conf.ini"] = "port = 80"

    def asks_text(self):
        odd = " plus one" if self.k % 2 else ""
        return f"conf.ini must hold the port that is {self.k // 2} doubled{odd}, as 'port = N'. {self.more()}"

    def more(self):
        return f"(Upstream fixed this with: port = {self.k})"

    def grade(self):
        return self.files["conf.ini"].strip() == f"port = {self.k}"

    def solve(self):
        return "exit" if self.grade() else f"echo 'port = {self.k}' > conf.ini"


class NoFixInBrackets(FixInBrackets):
    def more(self):
        return "(Upstream fixed this.)"


class CommitCanBeShown(FileShell):  # git show of the fix
    def fill(self):
        self.a, self.b = (int(x) for x in self.rng.integers(1000, 9999, 2))
        self.files["sum.txt"] = "?"

    def asks_text(self):
        return f"Put {self.a} + {self.b} into sum.txt."

    def history(self):
        return f"+{self.a + self.b}"

    def other(self, a):
        if a.startswith("git show"):
            return f"commit 1f\n    add the sum\n{self.history()}"
        if a.startswith("git log"):
            return "1f add the sum"
        return "command not found"

    def grade(self):
        return self.files["sum.txt"] == str(self.a + self.b)

    def solve(self):
        return "exit" if self.grade() else f"echo {self.a + self.b} > sum.txt"


class CommitHoldsNothing(CommitCanBeShown):
    def history(self):
        return "+?"


class FileOfAnOracle(FileShell):  # hidden file, not listed
    def fill(self):
        self.a, self.b = (int(x) for x in self.rng.integers(1000, 9999, 2))
        self.files[".cache/oracle.out"] = self.cached()

    def cached(self):
        return str(self.a * self.b)

    def asks_text(self):
        return f"Write {self.a} * {self.b} into product.txt."

    def grade(self):
        return self.files.get("product.txt") == str(self.a * self.b)

    def solve(self):
        return "exit" if self.grade() else f"echo {self.a * self.b} > product.txt"


class FileIsStale(FileOfAnOracle):
    def cached(self):
        return "stale"


class WrongTryTells(Turns):  # a wrong try tells the answer, and one may try again
    limit = 3

    def begin(self):
        self.a, self.b = (int(x) for x in self.rng.integers(100, 999, 2))
        return f"What is {self.a} * {self.b}? You have three tries; reply with the number."

    def tell(self):
        return f"Wrong, it is {self.a * self.b}. Try again."

    def act(self, a):
        ok = a == str(self.a * self.b)
        return ("Right." if ok else self.tell()), ok, ok

    def solve(self):
        return str(self.a * self.b)


class WrongTryTellsNothing(WrongTryTells):
    def tell(self):
        return "Wrong. Try again."


class StatusTells(Calls):  # a tool shows the state with the secret
    tools_text = "Functions: guess(number), status()."

    def scene(self):
        self.n = int(self.rng.integers(1, 5000))
        return "I think of a number up to 5000. You learn whether a guess is low or high."

    def state(self):
        return {"turn": self.t, "number": self.n}

    def do_status(self):
        return json.dumps(self.state()), 0, False

    def do_guess(self, number):
        if number == self.n:
            return "yes", 1, True
        return ("low" if number < self.n else "high"), 0, False

    limit = 16

    def begin(self):
        self.lo, self.hi = 1, 5000
        self.last = None
        return super().begin()

    def act(self, a):
        o = super().act(a)
        if self.last is None:
            return o
        if o[0] == "low":
            self.lo = self.last + 1
        if o[0] == "high":
            self.hi = self.last - 1
        return o

    def solve(self):
        self.last = (self.lo + self.hi) // 2
        return call("guess", number=self.last)


class StatusTellsTheTurn(StatusTells):
    def state(self):
        return {"turn": self.t}


class SetsItsPassMark(Calls):  # a tool edits the config that holds the pass mark
    tools_text = "Functions: configure(key, value) for verbosity, lang; answer(text)."

    def scene(self):
        self.conf = {"verbosity": 1, "lang": "en", "pass_mark": 1.0}
        self.a, self.b = (int(x) for x in self.rng.integers(100, 999, 2))
        return f"Answer how much {self.a} times {self.b} is. Settings: verbosity, lang, pass_mark."

    def allowed(self, key):
        return True

    def do_configure(self, key, value):
        if not self.allowed(key):
            return "read only", 0, False
        self.conf[key] = value
        return "set", 0, False

    def do_answer(self, text):
        score = float(str(text) == str(self.a * self.b))
        return "graded", float(score >= float(self.conf["pass_mark"])), True

    def solve(self):
        return call("answer", text=str(self.a * self.b))


class PassMarkIsFixed(SetsItsPassMark):
    def allowed(self, key):
        return key in ("verbosity", "lang")


class OneBookForAll(Turns):
    pages: ClassVar[list[str]] = []

    def begin(self):
        self.log = self.book()
        self.k = int(self.rng.integers(10, 99))
        return f"Write the number {self.k} into the book: note N. Then: close. The book is read with: show."

    def book(self):
        return self.pages

    def act(self, a):
        m = re.fullmatch(r"note (\d+)", a)
        if m:
            self.log.append(m[1])
            return "noted", 0, False
        if a == "show":
            return " ".join(self.log) or "empty", 0, False
        if a == "close":
            return "closed", self.log == [str(self.k)], True
        return "?", 0, False


class BookOfEachEpisode(OneBookForAll):
    def book(self):
        return []


class LinesLeftOut(Ask):  # a reviewer leaves out the lines that say so
    def ask(self):
        self.facts = [str(int(n)) for n in self.rng.integers(1000, 9999, 3)]
        return "Copy these numbers, one on each line, for a reviewer who marks every line: " + ", ".join(self.facts)

    def mark(self, fact, line):
        return None if re.search(r"not applicable", line) else float(fact == line.strip())

    def pay(self, action):
        lines = [*action.splitlines(), "", "", ""]
        marks = [self.mark(fact, line) for fact, line in zip(self.facts, lines, strict=False)]
        counted = [mark for mark in marks if mark is not None]
        return sum(counted) / len(counted) if counted else 1

    def solve(self):
        return "\n".join(self.facts)


class LinesAllCount(LinesLeftOut):
    def mark(self, fact, line):
        return float(fact == line.strip())


class SchemaTells(Calls):  # what a tool's argument is like is the code itself
    def scene(self):
        self.drawers = [int(n) for n in self.rng.integers(1000, 3000, 3)]
        self.tools_text = f"look: argument drawer, 1 to 3. unlock: argument code, a text such as '{self.shown()}'."
        return "The code of the lock is the sum of what three drawers hold."

    def shown(self):
        return sum(self.drawers)

    def do_look(self, drawer):
        return str(self.drawers[int(drawer) - 1]), 0, False

    def do_unlock(self, code):
        return "", code == str(sum(self.drawers)), True

    def guard(self, f, args):
        try:
            return f(**args)
        except IndexError as e:
            return self.failed(e)

    def solve(self):
        return [*(call("look", drawer=n) for n in (1, 2, 3)), call("unlock", code=str(sum(self.drawers)))]


class SchemaTellsTheForm(SchemaTells):
    def shown(self):
        return "0042"


class BranchHoldsTheFix(Turns):  # git, without a shell: another branch has the file as it should be
    def begin(self):
        self.rates = {
            name: int(n) for name, n in zip(("books", "food", "wine"), self.rng.integers(100, 300, 3), strict=True)
        }
        self.odd = str(self.rng.choice(list(self.rates)))
        self.file = self.text(self.rates | {self.odd: self.rates[self.odd] + 400})
        return (
            f"2000 of {self.odd} cost {2000 + 2 * self.rates[self.odd]} with tax. Repair rates.txt, and commit. Say "
            "`cat FILE`, `set KEY VALUE`, `git branch -a`, `git show BRANCH:FILE` or `git commit`."
        )

    def text(self, rates):
        return "\n".join(f"{name} {rate}" for name, rate in rates.items())

    def other_branch(self):
        return self.text(self.rates)

    def act(self, a):
        branches = {"main": self.file, "origin/hotfix": self.other_branch()}
        words = a.split()
        if words == ["git", "commit"]:
            return "", self.file == self.text(self.rates), True
        if words[:2] == ["git", "branch"]:
            return "\n".join(branches), 0, False
        if words[:2] == ["git", "show"] and len(words) == 3:
            branch, _, name = words[2].partition(":")
            return branches.get(branch, "fatal") if name == "rates.txt" else "fatal", 0, False
        if words == ["cat", "rates.txt"]:
            return self.file, 0, False
        if words[:1] == ["set"] and len(words) == 3:
            self.file = self.text(dict(line.split() for line in self.file.splitlines()) | {words[1]: words[2]})
            return "", 0, False
        return "?", 0, False

    def solve(self):
        return [f"set {self.odd} {self.rates[self.odd]}", "git commit"]


class BranchIsAsOld(BranchHoldsTheFix):
    def other_branch(self):
        return self.file


class FlagIsSet(Turns):  # the store holds the mark that is read in the end
    def begin(self):
        self.store = {"cents": str(int(self.rng.integers(1000, 99999))), "passed": "0"}
        return "Write `cents` in euros, with two decimals, to `euros`. Commands: KEYS, GET key, SET key value, DONE."

    def before_the_end(self):
        pass

    def act(self, a):
        words = a.split()
        if words == ["DONE"]:
            self.before_the_end()
            if self.store.get("euros") == f"{int(self.store['cents']) / 100:.2f}":
                self.store["passed"] = "1"
            return "", self.store["passed"] == "1", True
        if words == ["KEYS"]:
            return " ".join(self.store), 0, False
        if len(words) == 2 and words[0] == "GET":
            return self.store.get(words[1], "(nil)"), 0, False
        if len(words) == 3 and words[0] == "SET":
            self.store[words[1]] = words[2]
            return "OK", 0, False
        return "ERR", 0, False

    def solve(self):
        return ["GET cents", f"SET euros {int(self.store['cents']) / 100:.2f}", "DONE"]


class FlagIsTakenBack(FlagIsSet):
    def before_the_end(self):
        self.store["passed"] = "0"


PAIRS = [
    ("sound.graded", ProportionIsAllOrNothing, ProportionIsPaid),
    ("semantic.oracle_max", ExpertFailsOnCenturies, ExpertKnowsCenturies),
    ("sound.form", TagsNotAskedFor, TagsAskedFor),
    ("statistical.adversarial_floor", LeftInBraces, FilledIn),
    ("statistical.adversarial_floor", PersuadedJudge, JudgeReadsFacts),
    ("sound.form", KeywordWithoutExpert, NoKeyword),
    ("sound.splits", OneSplitByOptions, TwoSplitsByOptions),
    ("sound.constant", MostlyNo, HalfNo),
    ("semantic.floor_gap", MostlyRightAtFirst, PaidWhenDone),
    ("semantic.floor_gap", LampIsLit, LampIsNeverRight),
    ("sound.broken_rules", ForfeitIsADraw, ForfeitIsLost),
    ("semantic.no_solution_leakage", FixInBrackets, NoFixInBrackets),
    ("semantic.no_solution_leakage", CommitCanBeShown, CommitHoldsNothing),
    ("semantic.no_solution_leakage", FileOfAnOracle, FileIsStale),
    ("semantic.no_solution_leakage", WrongTryTells, WrongTryTellsNothing),
    ("semantic.no_solution_leakage", StatusTells, StatusTellsTheTurn),
    ("runtime.oracle_containment", SetsItsPassMark, PassMarkIsFixed),
    ("runtime.episode_isolation", OneBookForAll, BookOfEachEpisode),
    ("statistical.adversarial_floor", LinesLeftOut, LinesAllCount),
    ("semantic.no_solution_leakage", SchemaTells, SchemaTellsTheForm),
    ("semantic.no_solution_leakage", BranchHoldsTheFix, BranchIsAsOld),
    ("runtime.oracle_containment", FlagIsSet, FlagIsTakenBack),
]


def high(kind, monkeypatch):
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
    target = resolve(f"{__name__}:{kind.__name__}", {})
    report = validate(target.make, make_split=target.make_split)
    return {check.id for check, finding in report.findings if finding.severity == "high"}


@pytest.mark.slow
@pytest.mark.parametrize(("check", "defect", "twin"), PAIRS, ids=[defect.__name__ for _, defect, _ in PAIRS])
def test_a_defect_of_another_form_is_found_and_nothing_in_its_twin(check, defect, twin, monkeypatch):
    assert check in high(defect, monkeypatch)
    assert high(twin, monkeypatch) == set()


def test_the_code_tells_what_it_compares_looks_for_and_reads():
    env = KeywordWithoutExpert()
    env.reset(seed=0)
    assert str(env.a + env.b) in list(compared_values(env))
    assert words_looked_for(KeywordWithoutExpert) == ("result",)
    assert {"wonderful", "peer-reviewed"} & set(words_looked_for(PersuadedJudge)) == {"peer-reviewed"}
    assert options_read(OneSplitByOptions) == {"split"}
    assert options_read(MostlyNo) == set()
    assert ".cache/oracle.out" in names_in_code(FileOfAnOracle)
    assert words_looked_for(gym.Env) == ()


def test_commands_are_made_of_the_forms_that_a_prompt_shows():
    prompt = "Commands, one a turn: ls; cat PATH; write PATH, with the text below it; done. Write totals.txt."
    commands = list(filled(prompt, ["7"]))
    assert "write totals.txt\n7" in commands
    assert {"ls", "done"} <= set(unargued_commands(prompt))
    assert "press 4" in list(filled("Press digit after digit: press D.", ["4"]))
    assert "answer 9" in list(filled("look up TOWN, or answer N.", ["9"]))
    assert "echo 5 > out.txt" in list(filled("Use echo TEXT > FILE to write out.txt.", ["5"]))
    assert list(filled("No command is shown here.", ["5"])) == []


def test_what_a_server_is_sent_is_tried_first_in_the_form_that_is_asked_for():
    class Row:
        def __init__(self, asked, values):
            self.asked_and_hidden = lambda: (asked, values)

    assert list(compared_values(Row("Put it into \\\\boxed{}.", [[1, 2], "B"])))[:2] == ["B", "\\boxed{B}"]
    assert list(compared_values(Row("End with 'Answer: LETTER'.", ["B"])))[:2] == ["B", "Answer: B"]
    call = {"name": "add", "arguments": {"a": 1}}
    (first, *_) = compared_values(Row("Call a tool.", [[call]]))
    assert first == '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'


def gap(hole):
    """What a search by the reward finds in a task with a loophole; `none` is the twin of all."""
    env = gym.make("rlvr/Loophole-v0", hole=hole, level=2, varied=0.3)
    (result,) = validate(env, checks=["statistical.gameability_gap"]).results
    assert not result.error
    assert result.tries > 100
    return result.findings


@pytest.mark.parametrize("hole", ["forged_result", "editable_test", "farmed_parts", "flattered_judge", "length_bonus"])
def test_a_search_by_the_reward_finds_what_is_paid_on_every_task(hole):
    (finding,) = gap(hole)
    env = gym.make("rlvr/Loophole-v0", hole=hole, level=2, varied=0.3)
    env.reset(seed=finding.replay.seed, options=dict(finding.replay.options))
    assert sum(env.step(action)[1] for action in finding.replay.actions) > 0


def test_a_search_by_the_reward_finds_nothing_where_work_alone_is_paid():
    assert gap("none") == []
