"""A second reading of the classes of CodeTests: functions from a state and a call to what the descriptions say.

A rule is asked for by its slot and name; ``p`` has the parameters of all rules, with their slots behind the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlvr.envs.agentic.programs.families import BLOCKS

from .block_readings import reading

Rules = Mapping[str, str]
Values = Mapping[str, Any]


class Accounts:
    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.money: dict[str, int] = {}
        self.strikes: dict[str, int] = {}
        self.allowed: list[str] = []
        self.count = 0

    def deposit(self, name: str, amount: int) -> int:
        self.count += 1
        if self.rules["bonus"] == "nth" and self.count % self.p["k_bonus"] == 0:
            amount += self.p["b_bonus"]
        total = self.money.get(name, 0) + amount
        if self.rules["bonus"] == "capped" and total > self.p["cap_bonus"]:
            total = self.p["cap_bonus"]
        self.money[name], self.strikes[name] = total, 0
        return total

    def withdraw(self, name: str, amount: int) -> bool:
        money = self.money.get(name, 0)
        least = -self.p["credit_floor"] if self.rules["floor"] == "credit" else 0
        reasons = [
            money - amount < least,
            self.rules["floor"] == "often" and self.allowed.count(name) >= self.p["most_floor"],
            self.rules["refusal"] == "lock" and self.strikes.get(name, 0) >= self.p["strikes_refusal"],
        ]
        if any(reasons):
            self.strikes[name] = self.strikes.get(name, 0) + 1
            if self.rules["refusal"] == "fee" and money > 0:
                self.money[name] = max(money - self.p["fee_refusal"], 0)
            return False
        self.allowed.append(name)
        self.money[name], self.strikes[name] = money - amount, 0
        return True

    def transfer(self, source: str, target: str, amount: int) -> bool:
        if self.withdraw(source, amount):
            toll = self.p["toll_share"] if self.rules["share"] == "toll" else 0
            self.deposit(target, amount - toll if amount > toll else 0)
            return True
        return False

    def close(self) -> Any:
        self.allowed = []
        order = sorted(self.money, key=lambda name: (-self.money[name], name))
        if self.rules["day"] == "gain":
            for name in order:
                self.money[name] += self.p["gain_day"] * (self.money[name] >= self.p["rich_day"])
        elif order and self.money[order[0]] - self.p["levy_day"] >= 0:
            self.money[order[0]] -= self.p["levy_day"]
        if self.rules["report"] == "sum":
            return sum(self.money.values())
        return [name for _, name in sorted((-money, name) for name, money in self.money.items() if money > 0)]


class TaskQueue:
    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.names: list[str] = []
        self.priority: dict[str, int] = {}
        self.bans: dict[str, int] = {}
        self.calls = 0

    def _leave(self, name: str) -> int:
        self.names.remove(name)
        return self.priority.pop(name)

    def _smallest_last(self) -> str:
        return min(reversed(self.names), key=self.priority.__getitem__)

    def add(self, name: str, priority: int) -> int:
        if self.bans.get(name):
            self.bans[name] -= 1
            return len(self.names)
        if name in self.names:
            if self.rules["again"] == "raised" and priority > self.priority[name]:
                self.priority[name] = priority
            if self.rules["again"] != "renewed":
                return len(self.names)
            priority += self._leave(name)
        if self.rules["full"] != "open" and len(self.names) == self.p["size_full"]:
            if self.rules["full"] == "refuse" or self.priority[self._smallest_last()] >= priority:
                return len(self.names)
            self._leave(self._smallest_last())
        self.names.append(name)
        self.priority[name] = priority
        return len(self.names)

    def next(self) -> str | None:
        if not self.names:
            return None
        self.calls += 1
        greatest, smallest = (pick(self.names, key=self.priority.__getitem__) for pick in (max, min))
        low = self.rules["order"] == "turns" and self.calls % 2 == 0
        chosen = self._smallest_last() if self.rules["order"] == "low" else smallest if low else greatest
        ahead = self.names[: self.names.index(chosen)]
        self._leave(chosen)
        if self.rules["aging"] == "older":
            self.priority = {n: v + self.p["step_aging"] * (n in ahead) for n, v in self.priority.items()}
        if self.rules["aging"] == "fading":
            self.priority = {n: v - self.p["step_aging"] for n, v in self.priority.items() if v >= self.p["step_aging"]}
            self.names = [n for n in self.names if n in self.priority]
        return chosen

    def cancel(self, name: str) -> bool:
        if name not in self.names:
            return False
        self._leave(name)
        if self.rules["ban"] == "banned":
            self.bans[name] = self.bans.get(name, 0) + 1
        return True

    def waiting(self) -> Any:
        if self.rules["report"] == "names":
            return list(self.names)
        return sum((i + 1) * self.priority[name] for i, name in enumerate(self.names))


class Cache:
    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.slots: list[list[Any]] = []  # key, value, times found
        self.missed = 0

    def put(self, key: str, value: int) -> str | None:
        for slot in self.slots:
            if slot[0] == key:
                slot[1] = min(slot[1] + value, self.p["top_again"]) if self.rules["again"] == "add" else value
                if self.rules["again"] == "back":
                    self.slots = [each for each in self.slots if each is not slot] + [slot]
                return None
        gone = None
        if len(self.slots) == self.p["size"]:
            column = {"first": None, "least": 1, "unused": 2}[self.rules["evict"]]
            at = 0 if column is None else min(range(len(self.slots)), key=lambda i: (self.slots[i][column], i))
            gone = self.slots.pop(at)[0]
        self.slots.append([key, value, 0])
        return gone

    def get(self, key: str) -> int | None:
        slot = next((each for each in self.slots if each[0] == key), None)
        if slot is None:
            self.missed += 1
            if self.rules["miss"] == "count":
                return -self.missed
            if self.rules["miss"] == "clear" and self.missed == self.p["limit_miss"]:
                self.slots, self.missed = [], 0
            return None
        if self.rules["miss"] == "clear":
            self.missed = 0
        slot[2] += 1
        value = int(slot[1])
        if self.rules["hit"] == "recent":
            self.slots.remove(slot)
            self.slots.append(slot)
        if self.rules["hit"] == "wear":
            slot[1] -= self.p["wear_hit"]
            self.slots = [each for each in self.slots if each is not slot or slot[1] > 0]
        return value

    def drop(self, value: int) -> int:
        before = len(self.slots)
        if self.rules["drop"] == "below":
            self.slots = [slot for slot in self.slots if slot[1] >= value]
        else:
            near = range(value - self.p["near_drop"], value + self.p["near_drop"] + 1)
            self.slots = [slot for slot in self.slots if slot[1] not in near]
        return before - len(self.slots)

    def keys(self) -> list[str]:
        slots = self.slots
        if self.rules["report"] == "rank":
            slots = sorted(slots, key=lambda slot: slot[1], reverse=True)
        return [slot[0] for slot in slots]


class Calendar:
    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.all: list[list[int]] = []  # number, start, end
        self.accepted = 0
        self.again: tuple[int, int] | None = None

    def _fit(self, bookings: Sequence[Sequence[int]]) -> bool:
        """Whether the first of some bookings stands beside the others by the rule."""
        (_, start, end), *others = bookings
        rule = self.rules["fits"]
        if rule == "double":
            minutes = [minute for _, a, b in bookings for minute in range(a, b)]
            return all(minutes.count(minute) <= self.p["most_fits"] for minute in range(start, end))
        if rule == "total" and sum(b - a for _, a, b in bookings) > self.p["total_fits"]:
            return False
        pause = self.p["pause_fits"] if rule == "pause" else 0
        return all(a - end >= pause or start - b >= pause for _, a, b in others)

    def _accept(self, start: int, end: int) -> int:
        if not self._fit([(0, start, end), *self.all]):
            return 0
        self.accepted += 1
        self.all.append([self.accepted, start, end])
        return self.accepted

    def book(self, start: int, end: int) -> int:
        number = self._accept(start, end)
        if not number:
            self.again = (start, end)
        return number

    def cancel(self, number: int) -> bool:
        ended = [booking for booking in self.all if booking[0] == number]
        self.all = [booking for booking in self.all if booking[0] != number]
        if ended and self.rules["freed"] == "moved":
            by = self.p["earlier_freed"]
            self.all = [[n, a - by, b - by] if n > number and a >= ended[0][2] else [n, a, b] for n, a, b in self.all]
        if ended and self.rules["freed"] == "next" and self.again:
            self._accept(*self.again)
            self.again = None
        return bool(ended)

    def extend(self, number: int, by: int) -> int:
        for booking in self.all:
            if booking[0] == number:
                others = [other for other in self.all if other is not booking]
                longer = (number, booking[1], booking[2] + by)
                if self.rules["longer"] == "latest":
                    possible = all(other[1] < booking[2] for other in others)
                else:
                    possible = self._fit([longer, *others])
                if self.rules["longer"] == "capped":
                    possible = possible and longer[2] - longer[1] <= self.p["long_longer"]
                if possible:
                    booking[2] += by
                    return booking[2]
        return -1

    def busy(self) -> Any:
        if self.rules["report"] == "list":
            return sorted([a, b] for _, a, b in self.all)
        if self.rules["report"] == "length":
            return sum(len(range(a, b)) for _, a, b in self.all)
        return [n for _, n in sorted((a - b, n) for n, a, b in self.all)]


class Editor:
    """The line as the texts on the two sides of the cursor."""

    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.left, self.right = "", ""
        self.states: list[tuple[str, str]] = []

    def write(self, text: str) -> int:
        limit = self.rules["limit"]
        if limit == "full" and len(self.left + self.right) >= self.p["full_limit"]:
            return len(self.left + self.right)
        self.states.append((self.left, self.right))
        if limit == "cut":
            text = "".join(c for i, c in enumerate(text) if i < self.p["most_limit"])
        if limit == "spaced" and self.left.endswith(text[0]):
            text = self.p["mark_limit"] + text
        self.left += text
        if self.rules["mode"] == "over":
            self.right = self.right[len(text) :]
        return len(self.left + self.right)

    def erase(self, count: int) -> str:
        if self.rules["undo"] != "written":
            self.states.append((self.left, self.right))
        if self.rules["erase"] == "right":
            gone, self.right = self.right[:count], self.right[count:]
        else:
            keep = len(self.left) - min(count, len(self.left))
            gone, self.left = self.left[keep:], self.left[:keep]
        return gone

    def move(self, count: int) -> int:
        line, at = self.left + self.right, len(self.left) + count
        edge = self.rules["edge"]
        while edge == "wrap" and not 0 <= at <= len(line):
            at += len(line) + 1 if at < 0 else -len(line) - 1
        if edge == "stop":
            at = sorted((0, at, len(line)))[1]
        if 0 <= at <= len(line):
            self.left, self.right = line[:at], line[at:]
        return len(self.left)

    def undo(self) -> str:
        if self.states:
            self.left, self.right = self.states.pop()
            if self.rules["undo"] == "end":
                self.left, self.right = self.left + self.right, ""
        return self.left + self.right

    def show(self) -> Any:
        if self.rules["report"] == "bar":
            return f"{self.left}|{self.right}"
        return ["".join(reversed(self.left)), self.right]


class Stock:
    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.pieces: dict[str, int] = {}
        self.reserved: list[dict[str, Any]] = []
        self.last = self.day = 0

    def supply(self, item: str, count: int) -> int:
        pieces = self.pieces.get(item, 0) + count
        if self.rules["supply"] == "limit":
            pieces = min(pieces, self.p["most_supply"])
        if self.rules["supply"] == "pack":
            pieces = pieces // self.p["pack_supply"] * self.p["pack_supply"]
        self.pieces[item] = pieces
        return pieces

    def reserve(self, item: str, count: int) -> int:
        if self.rules["short"] == "seize" and self.pieces.get(item, 0) < count:
            for held in [held for held in self.reserved if held["item"] == item][-1:]:
                self.reserved.remove(held)
                self.pieces[item] += held["count"]
        if self.rules["short"] == "part":
            count = min(count, self.pieces.get(item, 0))
        if count == 0 or self.pieces.get(item, 0) < count:
            return 0
        self.pieces[item] -= count
        self.last += 1
        self.reserved.append({"number": self.last, "item": item, "count": count, "day": self.day})
        return self.last

    def ship(self, number: int) -> int:
        for held in self.reserved:
            if held["number"] == number:
                self.reserved = [other for other in self.reserved if other is not held]
                same = sum(other["item"] == held["item"] for other in self.reserved)
                worth = 0
                if self.rules["shipped"] == "price":
                    worth = held["count"] * self.p["price_shipped"] - self.p["less_shipped"] * (self.day - held["day"])
                return {"count": held["count"], "left": same, "price": max(worth, 0)}[self.rules["shipped"]]
        return -1

    def tick(self) -> Any:
        self.day += 1
        for held in list(self.reserved):
            old = self.rules["expiry"] == "back" and self.day - held["day"] >= self.p["days_expiry"]
            one = self.rules["expiry"] == "shrink" and held["count"] > self.p["keep_expiry"]
            freed = held["count"] if old else int(one)
            held["count"] -= freed
            self.pieces[held["item"]] += freed
            if old:
                self.reserved.remove(held)
        if self.rules["expiry"] == "spoil":
            self.pieces = {item: count - (count > self.p["fresh_expiry"]) for item, count in self.pieces.items()}
        if self.rules["report"] == "free":
            return [list(pair) for pair in sorted(self.pieces.items())]
        return [n for _, n in sorted((-held["count"], held["number"]) for held in self.reserved)]


class Collection:
    """All classes of blocks."""

    def __init__(self, rules: Rules, p: Values) -> None:
        self.rules, self.p = rules, p
        self.held: list[Any] = []
        self.added = 0

    def _through(self, method: str) -> Any:
        value: Any = list(self.held)
        for slot, name in self.rules.items():
            if slot.rstrip("12") == method:
                own = {parameter: self.p[f"{parameter}_{slot}"] for parameter in BLOCKS[name].parameters}
                value = reading(name)(value, own)
        return value

    def add(self, *given: Any) -> int:
        new, enter, full = given[0] if len(given) == 1 else [*given], self.rules["enter"], self.rules["full"]
        if full == "refuse" and len(self.held) == self.p["most_full"]:
            return len(self.held)
        if enter == "again" and new in self.held:
            at = self.held.index(new)
            self.held = self.held[:at] + self.held[at + 1 :]
        if enter == "front":
            self.held = [new, *self.held]
        elif enter != "once" or self.held.count(new) == 0:
            self.held = [*self.held, new]
        self.added += 1
        long = full == "overflow" and not len(self.held) <= self.p["most_full"]
        if long or (full == "nth" and self.added in range(0, 99, self.p["every_full"])):
            self.change()
        return len(self.held)

    def take(self) -> Any:
        if self.held == []:
            return None
        at = {"first": 0, "last": -1, "middle": len(self.held) >> 1}[self.rules["leave"]]
        gone, before = self.held[at], self.held[:at]
        self.held = [*before, *self.held[len(before) + 1 :]]
        return gone

    def change(self) -> int:
        self.held = self._through("change")
        return len(self.held)

    def view(self) -> Any:
        return self._through("view")


READINGS: Mapping[str, Callable[[Rules, Values], Any]] = {
    reading.__name__: reading for reading in (Accounts, TaskQueue, Cache, Calendar, Editor, Stock)
}


def read_calls(signature: str, calls: Sequence[tuple[str, Sequence[Any]]], values: Values) -> list[Any]:
    """What the descriptions make of calls of a new object: its state is what the calls that count have led to."""
    entry, *parts = signature.split(":")
    rules = dict(part.split("_", 1) for part in parts)
    results: list[Any] = []
    past: list[tuple[str, Sequence[Any]]] = []
    marks: list[int] = []
    for name, arguments in calls:
        if name == "mark":
            marks = [len(past)] if rules["history"] == "repeated" else [*marks, len(past)]
            if rules["history"] == "limited":
                marks = marks[-values["depth_history"] :]
            results.append(None if rules["history"] == "repeated" else len(marks))
        elif name == "back":
            results.append(bool(marks))
            past = past[: marks[-1]] if marks else past
            marks = marks if rules["history"] == "repeated" else marks[:-1]
        else:
            past = [*past, (name, arguments)]
            instance = READINGS.get(entry, Collection)(rules, values)
            results.append([getattr(instance, each)(*given) for each, given in past][-1])
    return results
