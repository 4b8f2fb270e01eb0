"""Cores of classes that keep amounts: accounts, a queue of tasks, a cache."""

from __future__ import annotations

from rlvr.envs.agentic.programs.classes import Core, Fill

# fmt: off
ACCOUNTS = Core(
    "Accounts",
    "It keeps accounts with names and balances in whole numbers; one that was not named before has the balance 0.\n"
    "- deposit(name, amount) adds the amount to the account. {bonus}It returns the new balance.\n"
    "- withdraw(name, amount) takes the amount from the account and returns True, if {floor}. Otherwise it is refused, "
    "and "
    "returns False. {refusal}\n"
    "- transfer(source, target, amount) withdraws the amount from the source by the rules of withdraw. If that is "
    "refused "
    "it returns False; otherwise it deposits {share} into the target by the rules of deposit, and returns True.\n"
    "- close() ends the day. {day} It then returns {report}.",
    """
class Accounts:
    def __init__(self):
        self.balances = {}
        #state
    def deposit(self, name, amount):
        #bonus
        self.balances[name] = self.balances.get(name, 0) + amount
        #unlock
        return self.balances[name]
    def withdraw(self, name, amount):
        balance = self.balances.get(name, 0)
        #floor
        #lock
        if not allowed:
            #refusal
            return False
        self.balances[name] = balance - amount
        #allowed
        return True
    def transfer(self, source, target, amount):
        if not self.withdraw(source, amount):
            return False
        #share
        return True
    def close(self):
        #day
        #report
""",
    {
        "bonus": (
            Fill("plain", ""),
            Fill("nth", "The deposits of all accounts are counted together, from 1; each whose number is divisible by "
                 "$k is increased by $b. ",
                 {"state": "self.deposits = 0",
                  "bonus": "self.deposits += 1\nif self.deposits % $k == 0:\n    amount += $b"},
                 {"k": (2, 3), "b": (2, 3, 4)}),
            Fill("capped", "A balance over $cap is cut to $cap. ",
                 {"unlock": "self.balances[name] = min(self.balances[name], $cap)"}, {"cap": range(15, 22)}),
        ),
        "floor": (
            Fill("zero", "the balance does not fall below 0 by it", {"floor": "allowed = balance >= amount"}),
            Fill("credit", "the balance does not fall below -$credit by it",
                 {"floor": "allowed = balance - amount >= -$credit"}, {"credit": range(3, 8)}),
            Fill("often", "the balance does not fall below 0 by it, and fewer than $most withdrawals from this account "
                 "were allowed since the last close()",
                 {"state": "self.withdrawn = []",
                  "floor": "allowed = balance >= amount and self.withdrawn.count(name) < $most",
                  "allowed": "self.withdrawn.append(name)", "day": "self.withdrawn = []"}, {"most": (2, 3)}),
        ),
        "refusal": (
            Fill("plain", ""),
            Fill("lock", "After $strikes refusals in a row an account is locked: all its withdrawals are refused "
                 "until a deposit to it; that or an allowed withdrawal begins the count anew.",
                 {"state": "self.refusals = {}", "unlock": "self.refusals[name] = 0",
                  "lock": "if self.refusals.get(name, 0) >= $strikes:\n    allowed = False",
                  "refusal": "self.refusals[name] = self.refusals.get(name, 0) + 1", "allowed": "self.refusals[name] = "
                   "0"},
                 {"strikes": (2,)}),
            Fill("fee", "A refused withdrawal takes a fee of $fee from the account, or all that it holds if that is "
                 "less, and nothing from a balance below 0.",
                 {"refusal": "self.balances[name] = balance - min($fee, max(balance, 0))"}, {"fee": (1, 2, 3)}),
        ),
        "share": (
            Fill("whole", "the amount", {"share": "self.deposit(target, amount)"}),
            Fill("toll", "the amount minus $toll, but at least 0,", {"share": "self.deposit(target, max(amount - "
                 "$toll, 0))"},
                 {"toll": (1, 2, 3)}),
        ),
        "day": (
            Fill("gain", "Each account with a balance of at least $rich gets $gain more; this is no deposit.",
                 {"day": "for name in self.balances:\n    if self.balances[name] >= $rich:\n"
                  "        self.balances[name] += $gain"}, {"rich": range(5, 10), "gain": (1, 2, 3)}),
            Fill("levy", "The account with the greatest balance, of several the first by name, pays $levy if that "
                 "leaves it at least 0; this is no withdrawal.",
                 {"day": "if self.balances:\n    top = min(self.balances, key=lambda name: (-self.balances[name], "
                         "name))\n"
                  "    if self.balances[top] >= $levy:\n        self.balances[top] -= $levy"}, {"levy": range(2, 7)}),
        ),
        "report": (
            Fill("sum", "the sum of all balances", {"report": "return sum(self.balances.values())"}),
            Fill("rank", "the names of the accounts with a balance above 0, the greatest balance first, equal ones by "
                 "name",
                 {"report": "names = [name for name in self.balances if self.balances[name] > 0]\n"
                  "return sorted(names, key=lambda name: (-self.balances[name], name))"}),
        ),
    },
)
QUEUE = Core(
    "TaskQueue",
    "It keeps a queue of tasks, each with a name and a priority, a whole number.\n"
    "- add(name, priority) puts a task behind the others. {again} {full}It returns the number of tasks in the queue.\n"
    "- next() takes out the task with {order}, and returns its name, or None if the queue is empty. {aging}\n"
    "- cancel(name) takes the task of that name out and returns True; it returns False if there is none. {ban}\n"
    "- waiting() returns {report}.",
    """
class TaskQueue:
    def __init__(self):
        self.tasks = []
        #state
    def add(self, name, priority):
        #ban
        #again
        #full
        self.tasks.append([name, priority])
        return len(self.tasks)
    def next(self):
        if not self.tasks:
            return None
        #order
        self.tasks.remove(chosen)
        #aging
        return chosen[0]
    def cancel(self, name):
        for task in self.tasks:
            if task[0] == name:
                self.tasks.remove(task)
                #banned
                return True
        return False
    def waiting(self):
        #report
""",
    {
        "again": (
            Fill("ignored", "If a task of that name is in the queue, nothing changes.",
                 {"again": "if name in [task[0] for task in self.tasks]:\n    return len(self.tasks)"}),
            Fill("raised", "If a task of that name is in the queue, it stays in its position and gets the greater of "
                 "the two priorities, and nothing else changes.",
                 {"again": "for task in self.tasks:\n    if task[0] == name:\n        task[1] = max(task[1], "
                           "priority)\n"
                  "        return len(self.tasks)"}),
            Fill("renewed", "If a task of that name is in the queue, it is taken out first, and its priority is added "
                 "to the new one.",
                 {"again": "for task in list(self.tasks):\n    if task[0] == name:\n        self.tasks.remove(task)\n"
                  "        priority += task[1]"}),
        ),
        "full": (
            Fill("open", ""),
            Fill("refuse", "If there are $size tasks already, the new one is not put in. ",
                 {"full": "if len(self.tasks) >= $size:\n    return len(self.tasks)"}, {"size": (2, 3)}),
            Fill("displace", "If there are $size tasks already, the one with the smallest priority, of several the "
                 "last of the queue, leaves for it if its priority is smaller than the new one; otherwise the new one "
                 "is not put in. ",
                 {"full": "if len(self.tasks) >= $size:\n    low = min(reversed(self.tasks), key=lambda task: "
                          "task[1])\n"
                  "    if low[1] >= priority:\n        return len(self.tasks)\n    self.tasks.remove(low)"},
                  {"size": (2, 3)}),
        ),
        "order": (
            Fill("high", "the greatest priority, of several the first of the queue",
                 {"order": "chosen = max(self.tasks, key=lambda task: task[1])"}),
            Fill("low", "the smallest priority, of several the last of the queue",
                 {"order": "chosen = min(reversed(self.tasks), key=lambda task: task[1])"}),
            Fill("turns", "the greatest priority and, at every second call that takes a task out, that with the "
                 "smallest, of several the first of the queue",
                 {"state": "self.taken = 0",
                  "order": "self.taken += 1\nif self.taken % 2 == 1:\n    chosen = max(self.tasks, key=lambda task: "
                           "task[1])\n"
                  "else:\n    chosen = min(self.tasks, key=lambda task: task[1])"}),
        ),
        "aging": (
            Fill("plain", ""),
            Fill("older", "After that the priority of each task that was before it in the queue grows by $step.",
                 {"order": "before = self.tasks[:self.tasks.index(chosen)]",
                  "aging": "for task in before:\n    task[1] += $step"}, {"step": (1, 2, 3)}),
            Fill("fading", "After that the priority of every task in the queue falls by $step, and those that fall "
                 "below 0 leave the queue.",
                 {"aging": "for task in self.tasks:\n    task[1] -= $step\n"
                  "self.tasks = [task for task in self.tasks if task[1] >= 0]"}, {"step": (1, 2)}),
        ),
        "ban": (
            Fill("plain", ""),
            Fill("banned", "The next call of add with that name changes nothing.",
                 {"state": "self.banned = []", "banned": "self.banned.append(name)",
                  "ban": "if name in self.banned:\n    self.banned.remove(name)\n    return len(self.tasks)"}),
        ),
        "report": (
            Fill("names", "the names of the tasks in the order of the queue",
                 {"report": "return [task[0] for task in self.tasks]"}),
            Fill("load", "the sum of the priorities in the queue, each times the task's position, counted from 1",
                 {"report": "return sum(i * task[1] for i, task in enumerate(self.tasks, 1))"}),
        ),
    },
)
CACHE = Core(
    "Cache",
    "It is a cache with $size slots for keys and their values, whole numbers.\n"
    "- put(key, value) writes a value. {again} A key that is not in the cache is put behind the others; if the cache "
    "was "
    "full, {evict} leaves before. It returns the key that left, or None.\n"
    "- get(key) returns the value of a key, or {miss}. {hit}\n"
    "- drop(value) takes out all keys with a value {drop}, and returns how many these were.\n"
    "- keys() returns {report}.",
    """
class Cache:
    def __init__(self):
        self.values = {}
        #state
    def put(self, key, value):
        if key in self.values:
            #again
            return None
        gone = None
        if len(self.values) >= $size:
            #evict
            del self.values[gone]
        self.values[key] = value
        #new
        return gone
    def get(self, key):
        if key not in self.values:
            #miss
        #use
        value = self.values[key]
        #hit
        return value
    def drop(self, value):
        #drop
        for key in gone:
            del self.values[key]
        return len(gone)
    def keys(self):
        #report
""",
    {
        "again": (
            Fill("replace", "A key that is in the cache gets the new value and stays in its position.",
                 {"again": "self.values[key] = value"}),
            Fill("back", "A key that is in the cache gets the new value and goes behind the others.",
                 {"again": "del self.values[key]\nself.values[key] = value"}),
            Fill("add", "A key that is in the cache keeps its position, and the value is added to its own, up to $top.",
                 {"again": "self.values[key] = min(self.values[key] + value, $top)"}, {"top": range(9, 15)}),
        ),
        "evict": (
            Fill("first", "the first key", {"evict": "gone = next(iter(self.values))"}),
            Fill("least", "the key with the smallest value, of several the first,",
                 {"evict": "gone = min(self.values, key=lambda each: self.values[each])"}),
            Fill("unused", "the key that get found least often since it was put in, of several the first,",
                 {"state": "self.uses = {}", "new": "self.uses[key] = 0", "use": "self.uses[key] += 1",
                  "evict": "gone = min(self.values, key=lambda each: self.uses[each])"}),
        ),
        "miss": (
            Fill("none", "None if it is not in the cache", {"miss": "return None"}),
            Fill("count", "minus the number of calls of get so far, this one included, that did not find their key",
                 {"state": "self.misses = 0", "miss": "self.misses += 1\nreturn -self.misses"}),
            Fill("clear", "None if it is not in the cache; after $limit such calls in a row, without one between them "
                 "that finds its key, the cache is emptied, and the count begins anew",
                 {"state": "self.misses = 0", "use": "self.misses = 0",
                  "miss": "self.misses += 1\nif self.misses == $limit:\n    self.values = {}\n    self.misses = 0\n"
                          "return None"},
                 {"limit": (2, 3)}),
        ),
        "hit": (
            Fill("plain", "Nothing changes when it is found."),
            Fill("recent", "When it is found, it goes behind the others.",
                 {"hit": "del self.values[key]\nself.values[key] = value"}),
            Fill("wear", "When it is found, its value falls by $wear after that, and at 0 or less the key leaves the "
                 "cache.",
                 {"hit": "self.values[key] -= $wear\nif self.values[key] <= 0:\n    del self.values[key]"},
                 {"wear": (1, 2)}),
        ),
        "drop": (
            Fill("below", "smaller than it", {"drop": "gone = [key for key in self.values if self.values[key] < "
                 "value]"}),
            Fill("near", "that differs from it by at most $near",
                 {"drop": "gone = [key for key in self.values if abs(self.values[key] - value) <= $near]"},
                 {"near": (1, 2)}),
        ),
        "report": (
            Fill("order", "the list of the keys in their order", {"report": "return list(self.values)"}),
            Fill("rank", "the keys by their values, the greatest first, equal ones in their order",
                 {"report": "return sorted(self.values, key=lambda key: -self.values[key])"}),
        ),
    },
    {"size": (2, 3)},
)
# fmt: on
