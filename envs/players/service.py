"""UserAndAgent: a customer with private goals and facts, and a service desk with the tools of the ServiceDesk world.

The shop, its tools, its rules and the judge of its database are those of ``rlvr/ServiceDesk-v0``. The customer speaks
in statements of a list of its own, some of which are untrue; the agent asks questions and calls tools.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.seeding import stream
from rlvr.envs.players.game import CHANCE, SeatGame
from rlvr.envs.tools import ToolError

USER, AGENT = 0, 1
WORLD: Final = "rlvr/ServiceDesk-v0"
SEEDS: Final = tuple((str(number), 1 / 4096) for number in range(4096))  # two of them name a shop
QUESTIONS: Final = {
    "request": "What else can we do for you?",
    "email": "What is your e-mail address?",
    "name": "What is your name?",
    "postcode": "What is your postcode?",
    "order": "Which order is it?",
    "reason": "What is the reason?",
    "address": "What is the new address?",
    "refund": "Where shall the refund go?",
    "product": "Which product do you want instead?",
}
NOTHING: Final = "say nothing more"
SILENT: Final = "I have nothing more to say to that."
_SENTENCES: Final = re.compile(r"(?<=\.) (?=I )")
_UNTRUE: Final = {
    "The reason to cancel: {}.": ("not needed", "ordered by mistake", "too expensive"),
    "For the refund: to my {}.": ("original payment", "credit"),
}
_STATED: Final = {
    "email": re.compile(r"My e-mail address is (.+)\."),
    "name": re.compile(r"My name is (.+)\."),
    "postcode": re.compile(r"My postcode is (.+)\."),
    "address": re.compile(r"The new address is (.+)\."),
    "product": re.compile(r"I want the (.+) instead\."),
    "reason": re.compile(r"The reason to cancel: (.+)\."),
    "refund": re.compile(r"For the refund: to my (.+)\."),
}
# What each kind of request says: the number of the order, or a product of it.
_ITS_ORDER: Final = r"my order (?:(?P<order>\d+)|with the (?P<product>.+))"
_ITS_ITEM: Final = r"the (?P<product>.+?)(?: of order (?P<order>\d+))?"
_REQUESTS: Final = {
    "cancel": re.compile(rf"I want to cancel {_ITS_ORDER}\."),
    "address": re.compile(rf"I have moved; please send {_ITS_ORDER} to another address\."),
    "return": re.compile(rf"I want to give back {_ITS_ITEM}\."),
    "exchange": re.compile(rf"I want to exchange {_ITS_ITEM} for something else\."),
    "late": re.compile(rf"I am still waiting for {_ITS_ORDER}, and want credit for that\."),
}
_NOBODY: Final = "no customer matches"
_ASKED: Final = 3  # times that the expert asks the same
_CUSTOMER: Final = re.compile(r"^customer (\d+): .*, tier (\w+), credit \d+$", re.M)
_LISTED: Final = re.compile(r"^order (\d+): ", re.M)
_ORDER: Final = re.compile(r"^order (\d+) of customer \d+: (\w+), ordered on day \d+(?:, shipped on day (\d+))?"
                           r"(?:, delivered on day (\d+))?, to ")  # fmt: skip
_ITEM: Final = re.compile(r"^  product (\d+): (.+) \((\w+)\), price \d+, (.+)$", re.M)
_SOLD: Final = re.compile(r"^product (\d+): .+ \((\w+)\), price \d+, (\d+) in stock$", re.M)


class Statement(NamedTuple):
    """What the user may say: the question that it answers, the words, and whether they are true."""

    kind: str
    text: str
    true: bool


class Utterance(NamedTuple):
    """Something that was spoken or done: ``who`` is user, agent or tool, ``kind`` the question or the call."""

    who: str
    kind: str
    text: str


class ServiceState(NamedTuple):
    """Where the shop came from, the ``desk`` with its database, the user's ``statements``, and what happened.

    ``turn`` is whose it is, ``lied`` whether the user has stated something untrue; ``moves`` counts the agent's.
    """

    seeds: tuple[str, ...] = ()
    desk: Any = None
    statements: tuple[Statement, ...] = ()
    words: tuple[Utterance, ...] = ()
    turn: int = USER
    lied: bool = False
    moves: int = 0


class UserAndAgent(SeatGame[ServiceState]):
    """User and agent: a customer says what it wants, and a service desk serves it through tools and by rules.

    Args:
        level: of the ServiceDesk world, 1 to 5: how many requests there are, and of what kinds.
    """

    title = "User and agent"
    teams = (0, 0)
    first_state = ServiceState()
    perfect_information = False
    zero_sum = False
    lowest, highest = 0.0, 1.0
    nouns = ("i", "will", "your", "their", "for", "a")

    def __init__(self, *, level: int = 2) -> None:
        if type(level) is not int or not 1 <= level <= world().levels:
            raise ValueError(f"level must be 1 to {world().levels}, not {level!r}")
        self.level = level
        self.move_limit: int = world().turns(level) + 4
        self.decisions = self.move_limit + 1  # the agent's moves, and an answer to each question

    def rules(self) -> str:
        rules = " ".join(world().task.partition("\n\n")[2].split())
        return (
            "User and agent are one team. Seat 0, the user, is a customer of a shop with a list of statements about "
            "what it wants and knows; those marked untrue are not what it wants. Seat 1, the agent, is the service "
            "desk: it sees what the user says and what its tools answer. The user says one statement at a time, such "
            f"as say 2, or {NOTHING}, which says that there is nothing to add. The agent then calls tools as often "
            "as it likes, until it asks a question, such as ask email; then the user answers. The agent can name "
            "only customers, orders and products that it has read of. Its questions are "
            f"{', '.join(f'ask {kind}' for kind in QUESTIONS)}. "
            "Its calls are find by email, find by name and postcode, list orders of customer 3, open order 1700, "
            "search product (the one that the user wants instead), cancel order 1700 because not needed (or ordered "
            "by mistake, or too expensive), send order 1700 to new address, return product 5 of order 1700 to payment "
            "(or credit), exchange product 5 of order 1700 for product 8, and give 10 credit to customer 3 (or 15). "
            "The last move of the agent closes the ticket, such as close 1 0: with how many requests were carried out "
            f"and the number of the rule that forbids the rest, or 0. The agent has {self.move_limit} moves. {rules} "
            "The agent has succeeded if the database is then as the rules and the requests demand, and nothing else is "
            "changed, all that had to be looked at was looked at, and the ticket says what was done. The user has "
            "succeeded if database and ticket are so, it has said nothing untrue, and it has stated each of its "
            "requests or the agent has succeeded."
        )

    def actors(self, state: ServiceState) -> tuple[int, ...]:
        """Chance stocks the shop; the user speaks when asked, and else the agent moves until the ticket is closed."""
        if len(state.seeds) < 2:
            return (CHANCE,)
        if closed(state) or state.moves == self.move_limit:
            return ()
        return (state.turn,)

    def chance(self, state: ServiceState) -> Sequence[tuple[str, float]]:
        """Two numbers, which key a shop and its customer."""
        return SEEDS

    def witnesses(self, state: ServiceState, actor: int) -> Sequence[int]:
        """The user knows who it is; what else is done reaches a seat by what it reads."""
        return (USER,) if actor == CHANCE else (actor,)

    def apply(self, state: ServiceState, seat: int, move: str) -> ServiceState:
        if seat == CHANCE:
            state = state._replace(seeds=(*state.seeds, move))
            if len(state.seeds) < 2:
                return state
            desk = world().begin(stream("UserAndAgent", self.level, *state.seeds), self.level)
            return state._replace(desk=desk, statements=statements_of(desk.customer))
        if seat == USER:
            state = state._replace(turn=AGENT)
            if move == NOTHING:
                return _with(state, Utterance("user", "nothing", SILENT))
            kind, text, true = state.statements[int(move.split()[1]) - 1]
            return _with(state, Utterance("user", kind, text))._replace(lied=state.lied or not true)
        state = state._replace(moves=state.moves + 1)
        verb, _, rest = move.partition(" ")
        if verb == "ask":
            return _with(state, Utterance("agent", rest, QUESTIONS[rest]))._replace(turn=USER)
        name, arguments = call_of(move, state.words)
        try:
            done = tools()[name](state.desk, **arguments)
        except ToolError as error:
            done = f"error: {error}"
        desk, text = (state.desk, done) if isinstance(done, str) else done
        return _with(state._replace(desk=desk), Utterance("tool", move, text))

    def legal(self, state: ServiceState, seat: int) -> list[str]:
        """Each statement, or questions and calls that name only what the agent has read."""
        if seat == USER:
            return [*(f"say {number}" for number in range(1, len(state.statements) + 1)), NOTHING]
        return calls(state.words)

    def parse(self, view: ServiceState, seat: int, words: str) -> str:
        """Also reads ``3`` and ``statement 3`` of the user, and ``e-mail``."""
        words = super().parse(view, seat, words).replace("e-mail", "email")
        if seat == USER:
            words = words.removeprefix("statement ")
            return f"say {words}" if words.isdigit() else words.replace("say statement", "say")
        return words

    def judged(self, state: ServiceState) -> tuple[bool, bool]:
        """Whether database and ticket are as they should be, and whether all was looked at besides."""
        if not closed(state):
            return (False, False)
        desk, task = state.desk, world()
        careful = desk._replace(looked_up=desk.customer.looked_at)
        return (task.judge(careful, "").status == "correct", task.judge(desk, "").status == "correct")

    def returns(self, state: ServiceState) -> tuple[float, ...]:
        """1 for the user if its goals are stated and met honestly, and for the agent if it served by the rules.

        A user that says nothing is not paid where the agent names the rule that forbids its request by chance.
        """
        met, served = self.judged(state)
        return (float(not state.lied and (served or (met and requested(state)))), float(served))

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return returns[seat]

    def view(self, state: ServiceState, seat: int) -> ServiceState:
        """The user sees its statements and what is said; the agent what is said and what its tools answered."""
        if not self.actors(state):
            return state
        if seat == USER:
            spoken = tuple(each for each in state.words if each.who != "tool")
            return state._replace(seeds=(), desk=None, words=spoken, moves=0)
        return state._replace(seeds=(), desk=None, statements=(), lied=False)

    def show(self, view: ServiceState, seat: int) -> str:
        """The user's statements or the agent's moves left, the conversation, and at the end what came of it."""
        lines = []
        if seat == USER:
            lines += [f"{number}. {each.text}{'' if each.true else ' (untrue)'}"
                      for number, each in enumerate(view.statements, 1)]  # fmt: skip
        for who, kind, text in view.words:
            if who != "tool" or seat == AGENT:
                lines.append(f"Tool ({kind}): {text}" if who == "tool" else f"{who.capitalize()}: {text}")
        if view.desk is not None:
            met, served = self.judged(view)
            lines.append(f"The user's requests were {'' if met else 'not '}met as the rules demand.")
            lines.append("The agent served by the rules." if served else "The agent did not serve by the rules.")
            if view.lied:
                lines.append("The user said something untrue.")
            if not requested(view):
                lines.append("The user did not state all of its requests.")
        elif seat == AGENT:
            lines.append(f"Moves left: {self.move_limit - view.moves}.")
        return "\n".join(lines)

    def expert(self, view: ServiceState, seat: int, rng: random.Random) -> str:
        """The user says what it wants and answers truly; the agent looks everything up and keeps the rules."""
        if seat == USER:
            return _truth(view)
        return serve(view.words)


@lru_cache(maxsize=1)
def world() -> Any:
    """The task of the ServiceDesk world."""
    env: Any = make_env(WORLD).unwrapped
    return env.task


@lru_cache(maxsize=1)
def tools() -> dict[str, Any]:
    """The functions of the world's tools by their names."""
    return {tool.name: tool.function for tool in world().toolset}


def closed(state: ServiceState) -> bool:
    """Whether the ticket is closed."""
    return state.desk is not None and state.desk.closed is not None


def requested(state: ServiceState) -> bool:
    """Whether the user has stated each of its requests."""
    spoken = {each.text for each in state.words if each.who == "user"}
    return all(each.text in spoken for each in state.statements if each.true and each.kind == "request")


def _with(state: ServiceState, words: Utterance) -> ServiceState:
    return state._replace(words=(*state.words, words))


def statements_of(customer: Any) -> tuple[Statement, ...]:
    """What a customer of the world may say: its requests, its facts, and untrue reasons and refunds."""
    requests = _SENTENCES.split(customer.opening.removeprefix("Hello. "))
    statements = [Statement("request", text, True) for text in requests]
    for kinds, text in customer.answers:
        kind = "product" if kinds[0] == "instead" else kinds[0]
        statements.append(Statement(kind, text, True))
        for form, values in _UNTRUE.items():
            true = [value for value in values if form.format(value) == text]
            statements += [Statement(kind, form.format(value), False) for value in values if true and value not in true]
    return tuple(sorted({*statements}, key=lambda each: ([*QUESTIONS].index(each.kind), each.text)))


def stated(words: Sequence[Utterance], kind: str) -> str:
    """The last value of a kind that the user has stated, or an empty text."""
    values = [match[1] for each in words if each.who == "user" and (match := _STATED[kind].fullmatch(each.text))]
    return values[-1] if values else ""


def outputs(words: Sequence[Utterance]) -> list[tuple[str, str]]:
    """Calls and what the tools answered."""
    return [(each.kind, each.text) for each in words if each.who == "tool"]


def calls(words: Sequence[Utterance]) -> list[str]:
    """The agent's moves: questions, and the calls whose arguments it has read."""
    read = "\n".join(text for _, text in outputs(words))
    customers = list(dict.fromkeys(number for number, _ in _CUSTOMER.findall(read)))
    named = [number for each in words if each.who == "user" for number in re.findall(r"\border (\d+)", each.text)]
    orders = list(dict.fromkeys([*named, *_LISTED.findall(read)]))
    items = list(
        dict.fromkeys((order, item[0]) for order, text in opened(words).items() for item in _ITEM.findall(text))
    )
    sold = list(dict.fromkeys(number for number, _, _ in _SOLD.findall(read)))
    moves = [f"ask {kind}" for kind in QUESTIONS]
    moves += ["find by email"] * bool(stated(words, "email"))
    moves += ["find by name and postcode"] * bool(stated(words, "name") and stated(words, "postcode"))
    moves += [f"list orders of customer {customer}" for customer in customers]
    moves += [f"open order {order}" for order in orders]
    moves += ["search product"] * bool(stated(words, "product"))
    for order in orders:
        moves += [f"cancel order {order} because {reason}" for reason in _UNTRUE["The reason to cancel: {}."]]
        moves += [f"send order {order} to new address"] * bool(stated(words, "address"))
    for order, item in items:
        moves += [f"return product {item} of order {order} to {where}" for where in ("payment", "credit")]
        moves += [f"exchange product {item} of order {order} for product {other}" for other in sold]
    moves += [f"give {amount} credit to customer {customer}" for customer in customers for amount in (10, 15)]
    return [*moves, *(f"close {done} {rule}" for done in range(4) for rule in range(6))]


def call_of(move: str, words: Sequence[Utterance]) -> tuple[str, dict[str, Any]]:
    """The tool and its arguments that a move of the agent names."""
    numbers = [int(number) for number in re.findall(r"\d+", move)]
    verb = move.partition(" ")[0]
    if verb == "find":
        kinds = ("email",) if move == "find by email" else ("name", "postcode")
        return ("find_customer", {kind: stated(words, kind) for kind in kinds})
    if verb == "search":
        return ("search_products", {"text": stated(words, "product")})
    if verb == "cancel":
        return ("cancel_order", {"order": numbers[0], "reason": move.partition(" because ")[2]})
    if verb == "send":
        return ("change_address", {"order": numbers[0], "address": stated(words, "address")})
    if verb == "return":
        where = move.rpartition(" ")[2]
        return ("return_item", {"product": numbers[0], "order": numbers[1], "refund_to": where})
    name, arguments = {
        "list": ("list_orders", ("customer",)),
        "open": ("get_order", ("order",)),
        "exchange": ("exchange_item", ("product", "order", "new_product")),
        "give": ("give_credit", ("amount", "customer")),
        "close": ("close_ticket", ("carried_out", "rule")),
    }[verb]
    return (name, dict(zip(arguments, numbers, strict=True)))


def opened(words: Sequence[Utterance]) -> dict[str, str]:
    """What the tools showed of each order last."""
    return {match[1]: text for _, text in outputs(words) if (match := _ORDER.match(text))}


def _truth(view: ServiceState) -> str:
    """The first true statement that answers the last question and was not said, else the last one, else nothing."""
    asked = next((each.kind for each in reversed(view.words) if each.who == "agent"), "request")
    spoken = {each.text for each in view.words if each.who == "user"}
    fitting = [number for number, each in enumerate(view.statements, 1) if each.true and each.kind == asked]
    new = [number for number in fitting if view.statements[number - 1].text not in spoken]
    if new:
        return f"say {new[0]}"
    return f"say {fitting[-1]}" if fitting and asked != "request" else NOTHING


# how the expert serves: it reads what the user said and the tools answered, and nothing else


def serve(words: Sequence[Utterance]) -> str:
    """The next move of an agent that asks for everything, looks everything up, and keeps the rules."""
    customer_line = _CUSTOMER.search("\n".join(text for _, text in outputs(words)))
    if customer_line is None:
        return _identify(words)
    if not _all_requested(words):
        return "ask request"
    customer, tier = customer_line.groups()
    if not _did(words, "list"):
        return f"list orders of customer {customer}"
    carried_out, forbids = 0, 0
    for text in dict.fromkeys(each.text for each in words if each.who == "user" and each.kind == "request"):
        kind, request = next((kind, match) for kind, form in _REQUESTS.items() if (match := form.fullmatch(text)))
        order, move = _order_of(words, request)
        if move:
            return move
        answer = _serve_request(words, kind, order, request["product"] or "", customer, tier)
        if isinstance(answer, str):
            return answer
        carried_out, forbids = carried_out + (not answer), forbids or answer
    return f"close {carried_out} {forbids}"


def _asks(words: Sequence[Utterance], kind: str) -> str:
    """The question, unless it was asked often enough."""
    count = sum(each.who == "agent" and each.kind == kind for each in words)
    return f"ask {kind}" if count < _ASKED else ""


def _did(words: Sequence[Utterance], start: str) -> bool:
    """Whether a call that begins so was made."""
    return any(call.startswith(start) for call, _ in outputs(words))


def _identify(words: Sequence[Utterance]) -> str:
    """Finds the customer by e-mail address, or by name and postcode; closes the ticket where nobody matches."""
    if any(text == _NOBODY for _, text in outputs(words)):
        return "close 0 1"
    if stated(words, "email"):
        return "find by email"
    if not any(each.who == "user" and each.kind == "email" for each in words) and (move := _asks(words, "email")):
        return move
    for kind in ("name", "postcode"):
        if not stated(words, kind):
            return _asks(words, kind) or "close 0 1"
    return "find by name and postcode"


def _all_requested(words: Sequence[Utterance]) -> bool:
    """Whether the user had nothing more to say when it was asked for more, or was asked often enough."""
    pairs = pairwise(words)
    silent = any(first.kind == "request" and first.who == "agent" and then.kind == "nothing" for first, then in pairs)
    return silent or sum(each.who == "agent" and each.kind == "request" for each in words) > _ASKED


def _order_of(words: Sequence[Utterance], request: re.Match[str]) -> tuple[str, str]:
    """The order that a request is about, or the call that looks for it; neither where no order has the product."""
    shown = opened(words)
    if number := request["order"]:
        return (number, "") if number in shown or _did(words, f"open order {number}") else ("", f"open order {number}")
    listed = [number for call, text in outputs(words) if call.startswith("list") for number in _LISTED.findall(text)]
    for number in dict.fromkeys(listed):
        if number not in shown:
            return ("", f"open order {number}")
        if any(name == request["product"] for _, name, _, _ in _ITEM.findall(shown[number])):
            return (number, "")
    return ("", "")


def _serve_request(
    words: Sequence[Utterance], kind: str, order: str, product: str, customer: str, tier: str
) -> str | int:
    """The call that a request takes now; 0 where it is carried out, else the number of the rule that forbids it."""
    match = _ORDER.match(opened(words).get(order, ""))
    if match is None:
        return 1
    _, status, shipped, delivered = match.groups()
    items = {name: (number, sort) for number, name, sort, _ in _ITEM.findall(opened(words)[order])}
    item, sort = items.get(product, ("", ""))
    if kind in ("cancel", "address"):
        if status != "processing":
            return 2
        return _change_order(words, kind, order)
    if kind == "late":
        amount = {"silver": 10, "gold": 15}.get(tier, 0)
        if status != "shipped" or not amount or int(shipped) >= _today() - 7:
            return 5
        return 0 if _did(words, "give") else f"give {amount} credit to customer {customer}"
    if kind == "return":
        days = 60 if tier == "gold" else 30
        if status != "delivered" or int(delivered) < _today() - days:
            return 3
        if _did(words, f"return product {item} "):
            return 0
        where = "credit" if stated(words, "refund") == "credit" else "payment"
        asks = "" if stated(words, "refund") else _asks(words, "refund")
        return asks or f"return product {item} of order {order} to {where}"
    return _exchange(words, order, item, sort) if status == "delivered" else 4


def _change_order(words: Sequence[Utterance], kind: str, order: str) -> str | int:
    """Cancels an order, or sends it to another address."""
    if kind == "cancel":
        if _did(words, f"cancel order {order} "):
            return 0
        reason = stated(words, "reason")
        asks = "" if reason else _asks(words, "reason")
        return asks or f"cancel order {order} because {reason or 'not needed'}"
    if _did(words, f"send order {order} "):
        return 0
    if stated(words, "address"):
        return f"send order {order} to new address"
    return _asks(words, "address") or 2


def _exchange(words: Sequence[Utterance], order: str, item: str, sort: str) -> str | int:
    """Exchanges an item for the product that the user wants, if it is of the same kind and in stock."""
    if _did(words, f"exchange product {item} "):
        return 0
    if not stated(words, "product"):
        return _asks(words, "product") or 4
    if not _did(words, "search"):
        return "search product"
    sold = [row for call, text in outputs(words) if call == "search product" for row in _SOLD.findall(text)]
    fits = [number for number, kind, stock in sold if kind == sort and int(stock)]
    return f"exchange product {item} of order {order} for product {fits[0]}" if fits else 4


@lru_cache(maxsize=1)
def _today() -> int:
    """The day that the rules name."""
    return int(re.findall(r"Today is day (\d+)", world().task)[0])
