"""Cores of classes that keep an order or a history: a calendar, an editor, a store with reservations."""

from __future__ import annotations

from rlvr.envs.agentic.programs.classes import Core, Fill

# fmt: off
CALENDAR = Core(
    "Calendar",
    "It keeps bookings from a start to an end, whole numbers with start < end.\n"
    "- book(start, end) accepts a booking if {fits}. It returns the booking's number, which counts the accepted "
    "bookings from 1, or 0 if it is refused.\n"
    "- cancel(number) takes out the booking of that number and returns True, or False if there is none. {freed}\n"
    "- extend(number, by) makes the end of that booking later by so much, if {longer}, and returns the new end; "
    "otherwise nothing changes and it returns -1.\n"
    "- busy() returns {report}.",
    """
class Calendar:
    def __init__(self):
        self.bookings = {}
        self.last = 0
        #state
    def fits(self, start, end, others):
        #fits
    def book(self, start, end):
        if not self.fits(start, end, list(self.bookings.values())):
            #wait
            return 0
        self.last += 1
        self.bookings[self.last] = (start, end)
        return self.last
    def cancel(self, number):
        if number not in self.bookings:
            return False
        #cancel
        del self.bookings[number]
        #freed
        return True
    def extend(self, number, by):
        if number not in self.bookings:
            return -1
        start, end = self.bookings[number]
        others = [span for other, span in self.bookings.items() if other != number]
        #longer
        self.bookings[number] = (start, end + by)
        return end + by
    def busy(self):
        #report
""",
    {
        "fits": (
            Fill("apart", "it overlaps no other (one may start when another ends)",
                 {"fits": "return not [span for span in others if start < span[1] and span[0] < end]"}),
            Fill("pause", "at least $pause lie between it and each other",
                 {"fits": "return not [span for span in others if start < span[1] + $pause and span[0] < end + "
                          "$pause]"},
                 {"pause": (1, 2)}),
            Fill("double", "at no time more than $most bookings are under way with it (one is under way from its start "
                 "up to, not including, its end)",
                 {"fits": "for time in range(start, end):\n"
                  "    if len([span for span in others if span[0] <= time < span[1]]) >= $most:\n        return False\n"
                  "return True"}, {"most": (2,)}),
            Fill("total", "it overlaps no other (one may start when another ends), and all bookings together last at "
                 "most $total with it",
                 {"fits": "if sum(span[1] - span[0] for span in others) + end - start > $total:\n    return False\n"
                  "return not [span for span in others if start < span[1] and span[0] < end]"},
                  {"total": range(12, 18)}),
        ),
        "freed": (
            Fill("plain", ""),
            Fill("moved", "The bookings that start at its end or later, and whose numbers are greater, are then moved "
                 "to start and end $earlier sooner.",
                 {"cancel": "freed_end = self.bookings[number][1]",
                  "freed": "for other, (start, end) in self.bookings.items():\n"
                  "    if start >= freed_end and other > number:\n"
                  "        self.bookings[other] = (start - $earlier, end - $earlier)"}, {"earlier": (1, 2)}),
            Fill("next", "Then the booking that was refused last, if it was not tried again before, is tried once more "
                 "by the rules of book; if it is refused again it is forgotten.",
                 {"state": "self.again = None", "wait": "self.again = (start, end)",
                  "freed": "if self.again:\n    start, end = self.again\n    self.again = None\n"
                  "    if self.fits(start, end, list(self.bookings.values())):\n        self.book(start, end)"}),
        ),
        "longer": (
            Fill("fits", "it still fits beside the others by the rule of book",
                 {"longer": "if not self.fits(start, end + by, others):\n    return -1"}),
            Fill("capped", "it still fits beside the others by the rule of book and lasts at most $long then",
                 {"longer": "if end + by - start > $long or not self.fits(start, end + by, others):\n    return -1"},
                 {"long": range(6, 10)}),
            Fill("latest", "no other booking starts at its present end or later",
                 {"longer": "if [span for span in others if span[0] >= end]:\n    return -1"}),
        ),
        "report": (
            Fill("list", "the list of all bookings [start, end], sorted",
                 {"report": "return sorted([start, end] for start, end in self.bookings.values())"}),
            Fill("length", "the sum of the lengths of all bookings",
                 {"report": "return sum(end - start for start, end in self.bookings.values())"}),
            Fill("numbers", "the numbers of the bookings, the longest first, equally long ones by number",
                 {"report": "return sorted(self.bookings, key=lambda each: (self.bookings[each][0] - "
                  "self.bookings[each][1], each))"}),
        ),
    },
)
EDITOR = Core(
    "Editor",
    "It keeps a line, empty at first, with a cursor in front of a character or at the end.\n"
    "- write(text) {mode} the cursor, which then stands behind what was written. {limit}It returns the length of the "
    "line.\n"
    "- erase(count) takes out the {erase} the cursor, as many as there are up to count, and returns them as a text.\n"
    "- move(count) moves the cursor by count, to the left if it is negative. {edge} It returns the cursor's position.\n"
    "- undo() {undo}. It returns the line.\n"
    "- show() returns {report}.",
    """
class Editor:
    def __init__(self):
        self.line = ''
        self.cursor = 0
        self.past = []
        #state
    def write(self, text):
        #limit
        #save
        #mode
        self.cursor += len(text)
        return len(self.line)
    def erase(self, count):
        #erase
        gone = self.line[low:high]
        #save_erase
        self.line = self.line[:low] + self.line[high:]
        self.cursor = low
        return gone
    def move(self, count):
        #edge
        return self.cursor
    def undo(self):
        if self.past:
            self.line, self.cursor = self.past.pop()
            #undone
        return self.line
    def show(self):
        #report
""",
    {
        "mode": (
            Fill("insert", "puts the text into the line at", {"mode":
                 "self.line = self.line[:self.cursor] + text + self.line[self.cursor:]"}),
            Fill("over", "writes the text over the characters behind", {"mode":
                 "self.line = self.line[:self.cursor] + text + self.line[self.cursor + len(text):]"}),
        ),
        "limit": (
            Fill("open", ""),
            Fill("cut", "A text is cut to its first $most characters before. ", {"limit": "text = text[:$most]"},
                 {"most": (2, 3, 4)}),
            Fill("full", "If the line has $full characters or more already, nothing happens, and undo leaves this call "
                 "out. ",
                 {"limit": "if len(self.line) >= $full:\n    return len(self.line)"}, {"full": range(8, 13)}),
            Fill("spaced", "If the character before the cursor is equal to the first of the text, '$mark' is put in "
                 "front of the text before. ",
                 {"limit": "if text and self.cursor > 0 and self.line[self.cursor - 1] == text[0]:\n"
                  "    text = '$mark' + text"}, {"mark": ("-", "+", "_")}),
        ),
        "erase": (
            Fill("left", "characters before", {"erase": "low = max(self.cursor - count, 0)\nhigh = self.cursor"}),
            Fill("right", "characters behind",
                 {"erase": "low = self.cursor\nhigh = min(self.cursor + count, len(self.line))"}),
        ),
        "edge": (
            Fill("stop", "It stops at both ends of the line.",
                 {"edge": "self.cursor = min(max(self.cursor + count, 0), len(self.line))"}),
            Fill("wrap", "Behind the end of the line it goes on at the beginning, and the other way round, as on a "
                 "ring of one position more than the line has characters.",
                 {"edge": "self.cursor = (self.cursor + count) % (len(self.line) + 1)"}),
            Fill("stay", "It does not move at all if it would leave the line.",
                 {"edge": "if 0 <= self.cursor + count <= len(self.line):\n    self.cursor += count"}),
        ),
        "undo": (
            Fill("all", "restores the line and the cursor as they were before the last call of write or erase that was "
                 "not undone yet, if there is one",
                 {"save": "self.past.append((self.line, self.cursor))",
                  "save_erase": "self.past.append((self.line, self.cursor))"}),
            Fill("written", "restores the line and the cursor as they were before the last call of write that was not "
                 "undone yet, if there is one; what was erased since is back then",
                 {"save": "self.past.append((self.line, self.cursor))"}),
            Fill("end", "restores the line as it was before the last call of write or erase that was not undone yet, "
                 "if there is one, and puts the cursor at the end of it",
                 {"save": "self.past.append((self.line, self.cursor))",
                  "save_erase": "self.past.append((self.line, self.cursor))",
                  "undone": "self.cursor = len(self.line)"}),
        ),
        "report": (
            Fill("bar", "the line with '|' at the cursor",
                 {"report": "return self.line[:self.cursor] + '|' + self.line[self.cursor:]"}),
            Fill("halves", "the list of the text before the cursor, written backwards, and the text behind it",
                 {"report": "return [self.line[:self.cursor][::-1], self.line[self.cursor:]]"}),
        ),
    },
)
STOCK = Core(
    "Stock",
    "It keeps a store of items, each counted in whole pieces; of an item that was not named before there are 0.\n"
    "- supply(item, count) adds pieces. {supply}It returns how many pieces are free (not reserved).\n"
    "- reserve(item, count) reserves pieces. If fewer than count are free, {short}. It returns the number of the "
    "reservation, which counts them from 1, or 0 if there is none.\n"
    "- ship(number) ends a reservation: its pieces leave the store. It returns {shipped}, or -1 if there is no such "
    "reservation.\n"
    "- tick() lets a day pass. {expiry} It returns {report}.",
    """
class Stock:
    def __init__(self):
        self.free = {}
        self.held = {}
        self.last = 0
        #state
    def supply(self, item, count):
        self.free[item] = self.free.get(item, 0) + count
        #supply
        return self.free[item]
    def reserve(self, item, count):
        free = self.free.get(item, 0)
        if free < count:
            #short
        self.free[item] = free - count
        self.last += 1
        self.held[self.last] = [item, count, 0]
        return self.last
    def ship(self, number):
        if number not in self.held:
            return -1
        item, count, age = self.held.pop(number)
        #shipped
    def tick(self):
        for held in self.held.values():
            held[2] += 1
        #expiry
        #report
""",
    {
        "supply": (
            Fill("plain", ""),
            Fill("limit", "Free pieces of this item over $most are then thrown away. ",
                 {"supply": "self.free[item] = min(self.free[item], $most)"}, {"most": range(7, 12)}),
            Fill("pack", "Then only whole packs of $pack free pieces are kept, and the rest is thrown away. ",
                 {"supply": "self.free[item] -= self.free[item] % $pack"}, {"pack": (2, 3)}),
        ),
        "short": (
            Fill("refuse", "nothing is reserved", {"short": "return 0"}),
            Fill("part", "all that are free are reserved, and nothing if there are none",
                 {"short": "if free == 0:\n    return 0\ncount = free"}),
            Fill("seize", "the last reservation of this item is cancelled and its pieces are free again, if there is "
                 "one; if still fewer are free, that stays so and nothing is reserved",
                 {"short": "older = [number for number in self.held if self.held[number][0] == item]\nif older:\n"
                  "    free += self.held.pop(older[-1])[1]\n    self.free[item] = free\nif free < count:\n"
                  "    return 0"}),
        ),
        "shipped": (
            Fill("count", "how many pieces these were", {"shipped": "return count"}),
            Fill("price", "their price, $price for each, and $less less in all for each whole day since the "
                 "reservation, but at least 0", {"shipped": "return max(count * $price - age * $less, 0)"},
                 {"price": (3, 4, 5), "less": (2, 3, 4)}),
            Fill("left", "the number of reservations that are left of the same item",
                 {"shipped": "return len([held for held in self.held.values() if held[0] == item])"}),
        ),
        "expiry": (
            Fill("back", "Reservations whose age in days is $days or more then end, and their pieces are free again.",
                 {"expiry": "for number in [each for each in self.held if self.held[each][2] >= $days]:\n"
                  "    item, count, age = self.held.pop(number)\n    self.free[item] += count"}, {"days": (1, 2)}),
            Fill("shrink", "Each reservation of more than $keep pieces loses one piece, which is free again.",
                 {"expiry": "for held in self.held.values():\n    if held[1] > $keep:\n        held[1] -= 1\n"
                  "        self.free[held[0]] += 1"}, {"keep": (2, 3)}),
            Fill("spoil", "Of each item with more than $fresh free pieces one of these is lost.",
                 {"expiry": "for item in self.free:\n    if self.free[item] > $fresh:\n        self.free[item] -= 1"},
                 {"fresh": (2, 3)}),
        ),
        "report": (
            Fill("free", "the list of pairs [item, free pieces] of all items, sorted by item",
                 {"report": "return [[item, self.free[item]] for item in sorted(self.free)]"}),
            Fill("held", "the list of the numbers of all reservations, the one with the most pieces first, equal ones "
                 "by number",
                 {"report": "return sorted(self.held, key=lambda number: (-self.held[number][1], number))"}),
        ),
    },
)
# fmt: on
