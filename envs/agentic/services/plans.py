"""The expert's way through a case: it looks up and asks one thing after the other, reads back, acts, and closes."""

from __future__ import annotations

from typing import Any, Final

from rlvr.envs.agentic.services.desk import desk_of
from rlvr.envs.agentic.services.schema import Entity
from rlvr.envs.agentic.services.tables import Bound, Deed, Tables
from rlvr.envs.agentic.services.visit import (
    ANSWERED,
    DECLINED,
    DONE,
    HANDED_OVER,
    OPERATED,
    WITHDRAWN,
    Case,
    Slot,
    Wish,
)

MORE: Final = "Is there anything else that I can do for you?"
Steps = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


class CasePlanner:
    """Plans a case. What it enters has stood in the policy, in a tool's output or in the customer's words before."""

    def __init__(self, case: Case, tables: Tables, stranger: bool) -> None:
        self.case, self.world, self.tables, self.stranger = case, case.world, tables, stranger
        self.names = desk_of(case.world.key).names
        self.plan: list[tuple[str, tuple[tuple[str, Any], ...]]] = []
        self.seen: set[tuple[str, int]] = set()

    def steps(self) -> Steps:
        """All steps, from the first question to the closed case."""
        if self.world.size.identify:
            self._identify()
        if self.stranger:
            self._decline(self.case.wishes[0])
        else:
            for wish in self.case.wishes:
                self._serve(wish)
        if (
            self.world.size.confirm
            and not self.stranger
            and self.case.wishes[-1].outcome in (DONE, HANDED_OVER, WITHDRAWN)
        ):
            self._say(MORE)
        self._call(("", "close"))
        return tuple(self.plan)

    def _say(self, text: str) -> None:
        self.plan.append(("", (("text", text),)))

    def _call(self, kind: tuple[str, str], /, **arguments: Any) -> None:
        self.plan.append((self.names[kind], tuple(arguments.items())))

    def _identify(self) -> None:
        slots = {slot.label: slot for slot in self.case.identity}
        (first,), second = self.world.ways
        label = {"email": "e-mail address", "phone": "phone number"}[first]
        self._say(f"Good day. What is your {label}, please?")
        if slots[label].value in slots[label].answer:
            self._call(("identify", ""), **{first: slots[label].value})
            if not self.stranger:
                return
            self._say("That is not in our books. What are your name and postcode?")
        else:
            self._say("Then what are your name and postcode, please?")
        if self.case.mood == "curt":
            self._say("And your postcode, please?")
        self._call(("identify", ""), **{name: slots[name].value for name in second})

    def _serve(self, wish: Wish) -> None:
        if wish is not self.case.wishes[0] and self._waits(wish):
            self._say(MORE)
        if wish.outcome == OPERATED:
            self._operate()
            return
        entity = self._entity(wish)
        for slot in wish.slots[:1]:
            if slot.label == "number":
                if not slot.open:
                    self._say(f"Which {entity.name.replace('_', ' ')} is it? Do you know its number?")
                self._reach(entity, wish, slot)
        if not any(slot.label == "number" for slot in wish.slots):
            self._look(entity, wish.record)
        if wish.outcome == ANSWERED:
            kind = next(each for each in entity.attributes if each.name == wish.action)
            reply = f"day {wish.reply}" if kind.kind.form == "day" else wish.reply
            self._say(f"The {kind.label} is {reply}. {MORE}")
            return
        paths = self._paths(wish)
        self._references(wish, entity, paths)
        asked = [slot for slot in wish.slots if slot.label != "number" and self._matters(wish, slot, paths)]
        params = {param.label: param for param in self.world.actions[wish.action].params}
        for slot in asked:
            if not slot.open:
                which = params[slot.label].kind.form == "ref"
                self._say(f"Which {slot.label} would you like?" if which else f"What is the {slot.label}?")
            self._argument(wish, slot)
        if wish.outcome == DECLINED:
            self._decline(wish)
        elif wish.outcome == HANDED_OVER:
            self._call(("", "hand over"), record=wish.record, team=wish.team)
        else:
            self._carry_out(wish, asked)

    def _waits(self, wish: Wish) -> bool:
        """Whether the customer has not begun with this wish by themself."""
        before = self.case.wishes[self.case.wishes.index(wish) - 1]
        return before.outcome not in (ANSWERED, DECLINED, OPERATED)

    def _entity(self, wish: Wish) -> Entity:
        entities = self.world.ledger.entities
        if wish.outcome == ANSWERED:
            return next(entity for entity in entities.values() if wish.record in self.tables[entity.name])
        return entities[self.world.actions[wish.action].on]

    def _look(self, entity: Entity, number: int) -> None:
        if (entity.name, number) not in self.seen:
            self.seen.add((entity.name, number))
            self._call(("look", entity.name), number=number)

    def _reach(self, entity: Entity, wish: Wish, slot: Slot) -> None:
        """Opens the record by its number, or record after record until one fits what the customer says of it."""
        if slot.value in slot.answer.split(";")[0]:
            self._look(entity, wish.record)
            self._parents(entity, wish.record)
            return
        chain = [entity]
        while chain[0].parent != self.world.person:
            chain.insert(0, self.world.ledger.entities[chain[0].parent])
        self._search(chain, self.case.owner, wish.record)

    def _search(self, chain: list[Entity], parent: int, record: int) -> bool:
        entity = chain[0]
        if ("list of " + entity.name, parent) not in self.seen:
            self.seen.add(("list of " + entity.name, parent))
            self._call(("list", entity.name), number=parent)
        for number, row in self.tables[entity.name].items():
            if row[0] != parent:
                continue
            if len(chain) > 1:
                if self._search(chain[1:], number, record):
                    return True
            else:
                self._look(entity, number)
                if number == record:
                    return True
        return False

    def _parents(self, entity: Entity, record: int) -> None:
        """Whose a part is: the records above it are looked at."""
        while entity.parent and entity.parent != self.world.person:
            record, entity = self.tables[entity.name][record][0], self.world.ledger.entities[entity.parent]
            self._look(entity, record)

    def _matters(self, wish: Wish, slot: Slot, paths: list[str]) -> bool:
        """Whether an argument has to be known: where nothing is carried out, only if a rule is about it."""
        if wish.outcome in (DONE, WITHDRAWN):
            return True
        param = next(each for each in self.world.actions[wish.action].params if each.label == slot.label)
        return any(path.partition(".")[0] == f"${param.name}" for path in paths)

    def _references(self, wish: Wish, entity: Entity, paths: list[str]) -> None:
        """What the record refers to, where a rule or an amount is about it."""
        for path in paths:
            head, _, tail = path.partition(".")
            if tail and head != "owner" and not head.startswith("$"):
                kind = next(each.kind for each in entity.attributes if each.name == head)
                number = self.world.ledger.value(self.tables, entity.name, wish.record, head)
                if number is not None:
                    self._look(self.world.ledger.entities[kind.values[0]], number)
            elif head == "owner" and not self.world.size.identify:
                self._look(self.world.ledger.entities[self.world.person], self.case.owner)

    def _paths(self, wish: Wish) -> list[str]:
        """What has to be looked at: the paths of the rule that forbids it, else of all that is about the action."""
        action = wish.action
        bounds = [
            rule.bound
            for rule in self.world.rules
            if rule.bound and action in rule.actions and wish.rule in (0, rule.number)
        ]
        if wish.rule:
            return _paths_of(bounds)
        amount = self.world.amounts.get(action)
        paths = [amount.base] if amount and amount.base else []
        bounds += [amount.better] if amount and amount.better else []
        bounds += [self.world.hand_overs[action][0]] if action in self.world.hand_overs else []
        return list(dict.fromkeys((*paths, *_paths_of(bounds))))

    def _argument(self, wish: Wish, slot: Slot) -> None:
        """Searches what an argument refers to by the customer's words."""
        param = next(each for each in self.world.actions[wish.action].params if each.label == slot.label)
        if param.kind.form == "ref":
            entity = param.kind.values[0]
            words = slot.spoken
            if slot.mistaken[0]:
                words = self.world.ledger.title(self.tables, entity, int(slot.mistaken[1]))
            if ("search", entity) in self.names:
                self._call(("search", entity), text=words)
            else:
                self._look(self.world.ledger.entities[entity], int(slot.value))

    def _carry_out(self, wish: Wish, asked: list[Slot]) -> None:
        action, amount = self.world.actions[wish.action], self.world.amounts.get(wish.action)
        if amount and amount.base and dict(wish.arguments)[amount.param] != self._base(wish):
            self._call(("", "percentage"), percent=amount.number, amount=self._base(wish))
        if self.world.size.confirm:
            if any(slot.mistaken[0] for slot in asked):
                self._read_back(wish, {slot.label: slot.mistaken[1] for slot in asked if slot.mistaken[0]})
                for slot in asked:
                    if slot.mistaken[0]:
                        self._correct(wish, slot, first=slot is next(each for each in asked if each.mistaken[0]))
            self._read_back(wish, {})
        if wish.outcome == WITHDRAWN:
            return
        self._call(("act", action.name), number=wish.record, **dict(wish.arguments))

    def _base(self, wish: Wish) -> int:
        """The amount of which a percentage is due."""
        deed = Deed(self.world.actions[wish.action], wish.record, dict(wish.arguments), self.case.owner)
        return int(self.world.ledger.read(self.tables, deed, self.world.amounts[wish.action].base) or 0)

    def _correct(self, wish: Wish, slot: Slot, first: bool) -> None:
        """Goes after a correction; each further mistake comes to light at another reading."""
        if not first:
            self._read_back(wish, {slot.label: slot.mistaken[1]})
        self._argument(wish, slot._replace(mistaken=("", "")))

    def _read_back(self, wish: Wish, instead: dict[str, str]) -> None:
        action = self.world.actions[wish.action]
        parts = []
        labels = {param.name: param.label for param in action.params}
        for name, value in wish.arguments:
            parts.append(f"{labels[name]} {instead.get(labels[name], value)}")
        noun = action.on.replace("_", " ")
        details = f", with {', '.join(parts)}" if parts else ""
        self._say(f"{noun.capitalize()} {wish.record} would be {action.passive}{details}. Is that right?")

    def _decline(self, wish: Wish) -> None:
        self._call(("", "decline"), record=wish.record, rule=wish.rule)
        for _ in range(len(wish.pushes) + 1):
            self._say(f"I am sorry, but rule {wish.rule} does not allow it. {MORE}")

    def _operate(self) -> None:
        device = self.world.domain.device
        assert device is not None
        wrong = [index for index, (_, now) in enumerate(self.case.device) if now != device.settings[index][1][0]]
        for index, (name, values) in enumerate(device.settings):
            if wrong and index <= wrong[-1]:
                self._say(f"What does your {device.name} show for {name}?")
                if index in wrong:
                    self._say(f"Could you set {name} to {values[0]}, please?")
        self._say(f"I am glad to hear it. {MORE}")


def _paths_of(bounds: list[Bound]) -> list[str]:
    """The paths that conditions are about."""
    paths = []
    for bound in bounds:
        paths += [bound.path, *([bound.value] if bound.op in ("same", "covers") else [])]
        paths += ["owner.tier"] if bound.top is not None else []
    return list(dict.fromkeys(paths))
