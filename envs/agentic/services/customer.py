"""The customer: a state machine that reads the desk's messages by their words and numbers, and answers.

It gives what it is asked for, agrees to a change only when all of it is read back, corrects itself, speaks against
refusals, and says the next wish when the last is dealt with. No model has a say.
"""

from __future__ import annotations

import re
from typing import Final

from rlvr.envs.agentic.services.visit import (
    ANSWERED,
    DECLINED,
    DONE,
    HANDED_OVER,
    OPERATED,
    WITHDRAWN,
    ServiceVisit,
    Slot,
    Wish,
)

MAX_CHARS: Final = 1_200
MAX_NUMBERS: Final = 12
TOO_MUCH: Final = "That is too much at once for me. Please say it in fewer words."
_SET_WORDS: Final = ("set", "turn", "switch", "put", "change", "choose", "select", "make")
_SMALL_TALK: Final = (
    "It has been raining here since breakfast. ",
    "I have 3 more things to do today, you know. ",
    "My neighbour says that 7 is her lucky number, by the way. ",
    "What a day! ",
    "Sorry, the dog is barking. ",
    "I waited 20 minutes for somebody to answer, but never mind. ",
    "You have a nice voice. ",
    "Let me find my glasses. There. ",
    "My sister told me to ask you. ",
)


class DeskMessage(str):
    """What the desk says, in lower case and with single blanks: its words and numbers."""

    def mentions(self, value: str) -> bool:
        """Whether a value stands in it, with no letter or digit right before or behind it."""
        value = " ".join(value.lower().split())
        return bool(value) and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w)", self) is not None

    def asks(self, slot: Slot) -> bool:
        """Whether it has one of the words of a slot."""
        return any(self.mentions(word) for word in slot.words)


def answer(visit: ServiceVisit, text: str) -> tuple[ServiceVisit, str]:
    """The customer's answer to a message of the desk.

    Args:
        text: what a customer sees of it: no calls, no thoughts.
    """
    message = DeskMessage(" ".join(text.lower().replace("e-mail", "email").split()))
    if len(message) > MAX_CHARS or len(re.findall(r"\d+", message)) > MAX_NUMBERS:
        return visit, TOO_MUCH
    if visit.current in visit.settled:
        return _move_on(visit)
    wish = visit.wish
    if wish.outcome == ANSWERED and message.mentions(wish.reply):
        others = set(re.findall(r"\d+", message.replace(wish.reply.lower(), ""))) - {str(wish.record)}
        if others or any(map(message.mentions, wish.others)):
            return visit, "Please give me just the one answer."
        return _move_on(visit.settle(visit.current), "Thank you. ")
    if wish.outcome == OPERATED and (operated := _operate(visit, message)):
        return operated
    return _about_wish(visit, wish, message)


def _about_wish(visit: ServiceVisit, wish: Wish, message: DeskMessage) -> tuple[ServiceVisit, str]:
    """The answer to what is read back, or to questions: who the customer is, and what the wish is about."""
    missing = [index for index in range(len(wish.slots)) if not _known(visit, wish, index)]
    asked = [index for index in missing if message.asks(wish.slots[index])]
    if not asked and not missing and _names_record(wish, message):
        return _agreed(visit, wish, message)
    answers = [slot.answer for slot in visit.case.identity if message.asks(slot)]
    if not asked and not answers:
        again = [index for index in range(len(wish.slots)) if message.asks(wish.slots[index])]
        asked = again or (missing[:1] if "?" in message else [])
    if visit.case.mood == "curt":
        answers, asked = answers[:1], [] if answers else asked[:1]
    answers += [_spoken(visit, wish, index) for index in asked]
    if not answers:
        return visit, _toned(visit, wish.sentence)
    new = tuple((visit.current, index) for index in asked if (visit.current, index) not in visit.answered)
    return visit._replace(answered=visit.answered + new), _toned(visit, " ".join(answers))


def _known(visit: ServiceVisit, wish: Wish, index: int) -> bool:
    return wish.slots[index].open or (visit.current, index) in visit.answered


def _spoken(visit: ServiceVisit, wish: Wish, index: int) -> str:
    slot = wish.slots[index]
    return slot.mistaken[0] if slot.mistaken[0] and (visit.current, index) not in visit.corrected else slot.answer


def _names_record(wish: Wish, message: DeskMessage) -> bool:
    """Whether a message is about the record; where the person is the record, about any of the details."""
    if any(slot.label == "number" for slot in wish.slots):
        return message.mentions(str(wish.record))
    return any(message.mentions(value) for slot in wish.slots for value in (slot.value, slot.mistaken[1]) if value) or (
        message.mentions(wish.action.replace("_", " ")) or message.mentions(str(wish.record))
    )


def _agreed(visit: ServiceVisit, wish: Wish, message: DeskMessage) -> tuple[ServiceVisit, str]:
    """Yes if every detail and amount is read back; else what is missing or wrong."""
    if wish.outcome in (ANSWERED, OPERATED):
        return visit, _toned(visit, f"Yes. {wish.sentence}")
    for index, slot in enumerate(wish.slots):
        if slot.mistaken[0] and (visit.current, index) not in visit.corrected:
            visit = visit._replace(corrected=(*visit.corrected, (visit.current, index)))
            return visit, f"Wait, I was wrong before. {slot.answer}"
    for slot in wish.slots:
        if slot.label != "number" and not (message.mentions(slot.value) or message.mentions(slot.spoken)):
            return visit, f"Please read everything back to me first: what about the {slot.label}?"
    spoken = {slot.label for slot in wish.slots}
    for name, value in wish.arguments:
        label = name.replace("_", " ")
        if (
            label not in spoken
            and isinstance(value, int)
            and not message.mentions(str(value))
            and _is_amount(visit, name)
        ):
            return visit, f"And the {label}? Please tell me the amount first."
    if wish.outcome == WITHDRAWN:
        return visit.settle(visit.current), "No, then I do not want it. Please leave everything as it is."
    if visit.current not in visit.agreed:
        visit = visit._replace(agreed=(*visit.agreed, visit.current))
    return visit, "Yes, please." if visit.case.mood == "curt" else "Yes, that is right. Please go ahead."


def _is_amount(visit: ServiceVisit, name: str) -> bool:
    rule = visit.case.world.amounts.get(visit.wish.action)
    return rule is not None and rule.param == name


def _move_on(visit: ServiceVisit, thanks: str = "") -> tuple[ServiceVisit, str]:
    """What is said when the current wish is dealt with: against a refusal, the next wish, or that this was all."""
    wish = visit.wish
    if wish.outcome == DECLINED and visit.pushed < len(wish.pushes):
        return visit._replace(pushed=visit.pushed + 1), wish.pushes[visit.pushed]
    following = visit.current + 1
    if not thanks:
        thanks = {DONE: "Thank you. ", DECLINED: "All right, if it must be. ", HANDED_OVER: "I see. "}.get(
            wish.outcome, ""
        )
    if following < len(visit.case.wishes):
        visit = visit._replace(current=following, pushed=0)
        return visit, _toned(visit, f"{thanks}There is something else. {visit.wish.sentence}")
    return visit._replace(finished=True), f"{thanks}No, that is all. Goodbye!"


def _operate(visit: ServiceVisit, message: DeskMessage) -> tuple[ServiceVisit, str] | None:
    """Shows the setting that a message names, or sets it to the value that it names; None if it names no setting."""
    device = visit.case.world.domain.device
    if device is None:
        return None
    for index, (name, values) in enumerate(device.settings):
        if not message.mentions(name):
            continue
        behind = DeskMessage(message.partition(name.lower())[2])
        value = next((each for each in values if behind.mentions(each)), None)
        if value is None or not any(map(message.mentions, _SET_WORDS)):
            return visit, f"The {device.name} shows {name}: {visit.device[index][1]}."
        settings = (*visit.device[:index], (name, value), *visit.device[index + 1 :])
        visit = visit._replace(device=settings)
        if all(now == right[0] for (_, now), (_, right) in zip(settings, device.settings, strict=True)):
            return visit.settle(
                visit.current
            ), f"Done. {name.capitalize()} is {value} now, and the {device.name} works again!"
        return visit, f"Done. {name.capitalize()} is {value} now, but the {device.name} still does not work."
    return None


def _toned(visit: ServiceVisit, text: str) -> str:
    if visit.case.mood != "chatty":
        return text
    return _SMALL_TALK[(visit.steps + visit.current) % len(_SMALL_TALK)] + text
