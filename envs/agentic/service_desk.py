"""ServiceDesk: serve a customer of a made-up shop by its rules, with its tools, and close the ticket.

The customer says what is wanted and answers questions; what they do not say must be asked for or looked up. Reward 1
if the database is at the end exactly as the rules and the requests demand, with nothing else changed, and the ticket
was closed with what was done and the rule that forbade the rest; otherwise 0. A language model may speak for the
customer; it decides nothing.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from rlvr.envs.agentic import shop
from rlvr.envs.agentic.customers import Chat, ModelCustomer, model_customer
from rlvr.envs.agentic.shop import Desk
from rlvr.envs.core.task import Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.endpoint import Endpoint
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.tools import Call, Session, Tool, ToolFault, ToolTask, tool, write_call
from rlvr.envs.tools.tool import MAX_OUTPUT, shown

MAX_MESSAGE_CHARS = 2_000  # of a message that the customer reads
SPOKE = Verdict(0.0, "partial", reason="spoke to the customer")


class ServiceDeskLevel(NamedTuple):
    """How many customers the shop has, how many requests there are, their kinds, and how often one is refused."""

    customers: int
    requests: int
    kinds: tuple[str, ...]
    refused: float
    says_order: bool


SIMPLE, GOODS = ("cancel", "address"), ("return", "exchange")
LEVELS = (
    ServiceDeskLevel(4, 1, SIMPLE, 0.3, True),
    ServiceDeskLevel(6, 1, SIMPLE, 0.4, False),
    ServiceDeskLevel(8, 1, GOODS, 0.4, False),
    ServiceDeskLevel(10, 2, (*SIMPLE, *GOODS), 0.4, False),
    ServiceDeskLevel(14, 3, (*SIMPLE, *GOODS, "late"), 0.5, False),
)


class Customer(NamedTuple):
    """Who calls: the first words, what is answered to which questions, and the expert's way.

    ``answers`` are (words, answer): the answer is given to a message that holds all words of one of the groups.
    """

    opening: str
    answers: tuple[tuple[tuple[str, ...], str], ...]
    otherwise: str
    plan: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # calls; a name of "" is said to the customer
    outcome: tuple[int, int]
    looked_at: tuple[str, ...]  # what has to have been found before anything may be decided


class CustomerRequest(NamedTuple):
    """One request: what the customer says, what they answer, the calls it takes (none if refused), the rule."""

    words: str
    answers: tuple[tuple[tuple[str, ...], str], ...]
    calls: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
    rule: int
    order: int


class ServiceDesk(ToolTask[Desk]):
    """Serve the customers of a shop through its tools and by its policy.

    Levels 1 to 5: one request with its order number, one without, returns and exchanges, two requests, three.

    About 300 tasks per CPU-second at level 1 and 100 at level 5: a shop is stocked for each.

    Observation: the customer's opening words; then what each call gave, or what the customer answers.
    Actions: a call of the shop's ten tools; any other text is said to the customer.
    Reward: 1 if the database, the look-ups and the closed ticket are as rules and requests demand, else 0.
    Episode end: ``close_ticket``, or the turns are used up.

    Args:
        customer: who answers the desk. None is the scripted customer: pure, as every task is. A model may do it
            instead: an OpenAI-compatible endpoint (an ``Endpoint``, or a mapping of its settings), a function from
            chat messages to text, or a ``ModelCustomer``, which also says when such an episode can be replayed. Its
            words change no reward. If it fails or is too slow, the episode ends with an invalid verdict.
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(LEVELS)
    task = (
        "You are the service desk of a shop. Work with the tools; whatever is not a call is said to the customer, in "
        f"plain text.\n\n{shop.RULES}"
    )
    toolset: ClassVar[Sequence[Tool]] = tuple(tool(function, given=1) for function in shop.FUNCTIONS)

    def __init__(
        self,
        *,
        customer: ModelCustomer | Endpoint | Mapping[str, Any] | Chat | None = None,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        self.customer = model_customer(customer)

    def begin(self, rng: random.Random, level: int) -> Desk:
        """Stocks shops until a customer fits the level, and keeps the digest of the database that serving demands."""
        settings = LEVELS[level - 1]
        customer = None
        while customer is None:
            database = shop.stocked(rng, settings.customers)
            tries = (_customer(rng, database, settings) for _ in range(30))
            customer = next(filter(None, tries), None)
        desk = Desk(database, customer, "")
        for name, arguments in customer.plan:
            if name:
                done = self._tools[name].function(desk, **dict(arguments))
                desk = desk if isinstance(done, str) else done[0]
        return Desk(database, customer, shop.digest(desk.database))

    def budget(self, level: int) -> int:
        """Six calls for each request and ten more."""
        return 10 + 6 * LEVELS[level - 1].requests

    def turns(self, level: int) -> int:
        """The calls, and as many words with the customer as there are requests, and some."""
        return super().turns(level) + 4 + 3 * LEVELS[level - 1].requests

    def content(self, state: Session[Desk]) -> str:
        """The customer's opening words and the database that serving them must lead to."""
        return f"{state.world.customer.opening} {state.world.expected[:12]}"

    def ask(self, world: Desk) -> str:
        """The customer's opening words alone; everything else is looked up or asked for."""
        return f"Customer: {world.customer.opening}"

    def apply(self, state: Session[Desk], action: str) -> Transition:
        """As every tool task; a ticket that was closed by the call ends the episode with the verdict."""
        state = state._replace(world=state.world._replace(turn=state.world.turn + 1))
        after, verdict, terminated, role = super().apply(state, action)
        if after.world.closed is not None:
            return Transition(after, self.judge(after.world, action), terminated=True)
        return Transition(after, verdict, terminated, role)

    def reply(self, state: Session[Desk], action: str) -> Transition:
        """Answers by the words that the message holds, or by a model, which changes no reward."""
        if self.customer is not None:
            return self._answered(self.customer, state, shown(visible_text(action)[:MAX_MESSAGE_CHARS]))
        message = visible_text(action)[:MAX_MESSAGE_CHARS].lower()
        words = set(re.findall(r"[a-z-]+", message.replace("e-mail", "email")))
        answers = [answer for needed, answer in state.world.customer.answers if words.issuperset(needed)]
        answer = " ".join(dict.fromkeys(answers)) or state.world.customer.otherwise
        return Transition(state._replace(observation=f"Customer: {answer}"), SPOKE)

    def _answered(self, who: ModelCustomer, state: Session[Desk], message: str) -> Transition:
        world = state.world
        facts = [answer for _, answer in world.customer.answers]
        try:
            answer = who.answer(world.customer.opening, facts, world.talk, message)
        except ToolFault as fault:
            return Transition(state, fault.verdict, terminated=True)
        world = world._replace(talk=(*world.talk, (message, answer)))
        return Transition(state._replace(world=world, observation=f"Customer: {answer}"), SPOKE)

    def judge(self, world: Desk, reply: str) -> Verdict:
        """Requires a closed ticket, the demanded database, the look-ups before it, and the right outcome."""
        if world.closed is None:
            return wrong(reason="the ticket was not closed")
        if shop.digest(world.database) != world.expected:
            return wrong(reason="the database is not as the rules and the requests demand")
        missing = [what for what in world.customer.looked_at if what not in world.looked_up]
        if missing:
            return wrong(reason=f"decided without looking at {missing[0]}")
        if world.closed != world.customer.outcome:
            done, rule = world.customer.outcome
            return wrong(reason=f"the ticket should say {done} carried out, forbidden by rule {rule}")
        return correct(reason="served by the rules")

    def plan(self, session: Session[Desk]) -> Call | str:
        """The steps that the shop's own books show to be right."""
        plan = session.world.customer.plan
        name, arguments = plan[min(session.world.turn, len(plan) - 1)]
        return Call(name, dict(arguments)) if name else str(arguments[0][1])

    def sample_action(self, state: Session[Desk], rng: random.Random) -> str:
        """One time in five closes the ticket with random numbers, else a random call or reply."""
        if rng.random() < 0.2:
            numbers = {"carried_out": rng.randint(0, 3), "rule": rng.randint(0, 5)}
            return write_call(Call("close_ticket", numbers), self.tool_style)
        return super().sample_action(state, rng)


# who calls, and what for


def _message(text: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
    return "", (("text", text),)


def _call(name: str, /, **arguments: Any) -> tuple[str, tuple[tuple[str, Any], ...]]:
    return name, tuple(arguments.items())


def _customer(rng: random.Random, database: bytes, level: ServiceDeskLevel) -> Customer | None:
    """A customer with as many requests as the level has, at most one of them forbidden; None if the shop has none."""
    people = shop.read(database, "SELECT * FROM customers ORDER BY id")
    number, name, email, postcode, tier, _ = rng.choice(people)
    refuse = rng.randrange(level.requests) if rng.random() < level.refused else None
    requests: list[CustomerRequest] = []
    for index, kind in enumerate(rng.sample(level.kinds, level.requests)):
        used = [request.order for request in requests]
        drafted = MAKERS[kind](
            RequestDraft(rng, database, number, tier, tuple(used), index == refuse, level.says_order)
        )
        if drafted is None:
            return None
        requests.append(drafted)
    by_mail = rng.random() < 0.5
    stranger = level.requests == 3 and rng.random() < 0.15
    if stranger:
        postcode, email = str(rng.randint(10_000, 99_999)), f"x{email}"
    who: list[tuple[tuple[str, ...], str]] = [
        (("email",), f"My e-mail address is {email}." if by_mail else "I do not have my e-mail address at hand."),
        (("postcode",), f"My postcode is {postcode}."),
        (("name",), f"My name is {name}."),
    ]
    credentials = {"email": email} if by_mail else {"name": name, "postcode": postcode}
    plan = [
        _message("Hello! What are your e-mail address, your name and your postcode?"),
        _call("find_customer", **credentials),
    ]
    outcome, looked_at = (0, 1), [shop.NOBODY]
    if not stranger:
        plan.append(_call("list_orders", customer=number))
        plan += [_message(f"Thank you. {QUESTIONS}")]
        listed = [
            order for (order,) in shop.read(database, "SELECT id FROM orders WHERE customer = ? ORDER BY id", number)
        ]
        opened: list[int] = []
        for request in requests:
            # Who was told the product alone opens one order after the other until it is found.
            last = listed.index(request.order) + 1
            wanted = [request.order] if level.says_order else listed[:last]
            looks = [order for order in wanted if order not in opened and request.order not in opened]
            plan += [*(_call("get_order", order=order) for order in looks), *request.calls]
            opened += looks
        looked_at = [f"customer {number}", *(f"order {request.order}" for request in requests)]
        rules = [request.rule for request in requests if request.rule]
        outcome = (sum(not request.rule for request in requests), rules[0] if rules else 0)
    plan.append(_call("close_ticket", carried_out=outcome[0], rule=outcome[1]))
    answers = [*who, *(answer for request in requests for answer in request.answers)]
    opening = " ".join(request.words for request in requests)
    otherwise = f"I would like you to see to this: {opening}"
    return Customer(f"Hello. {opening}", tuple(answers), otherwise, tuple(plan), outcome, tuple(looked_at))


QUESTIONS = (
    "Which order is it, what is the number, what is the reason, what is the new address, where shall the refund go, "
    "and which product do you want instead?"
)
Row = tuple[Any, ...]
Answers = tuple[tuple[tuple[str, ...], str], ...]


class RequestDraft(NamedTuple):
    """What a maker of requests is given."""

    rng: random.Random
    database: bytes
    customer: int
    tier: str
    used: tuple[int, ...]  # orders that other requests are about
    refuse: bool
    says_order: bool

    def pick(self, condition: str, *values: object) -> Row | None:
        """One of the customer's orders with one item of it: order, status, shipped, delivered, product, name, kind."""
        sql = (
            "SELECT o.id, o.status, o.shipped, o.delivered, p.id, p.name, p.kind FROM orders o "
            "JOIN items i ON i.order_id = o.id JOIN products p ON p.id = i.product "
            f"WHERE o.customer = ? AND {condition} ORDER BY o.id, p.id"
        )
        rows = [row for row in shop.read(self.database, sql, self.customer, *values) if row[0] not in self.used]
        if not self.says_order:  # the customer names the product, which must be in no other order of theirs
            sold = "SELECT i.product FROM items i JOIN orders o ON i.order_id = o.id WHERE o.customer = ?"
            often = Counter(product for (product,) in shop.read(self.database, sold, self.customer))
            rows = [row for row in rows if often[row[4]] == 1]
        return self.rng.choice(rows) if rows else None

    def named(self, row: Row) -> tuple[str, Answers]:
        """How the customer names an order, and what they answer when they are asked which it is."""
        if self.says_order:
            return f"my order {row[0]}", ((("order",), f"It is order {row[0]}."),)
        answer = f"I do not know the number of the order; it is the one with the {row[5]}."
        return f"my order with the {row[5]}", ((("order",), answer),)


def _cancel(draft: RequestDraft) -> CustomerRequest | None:
    row = draft.pick("o.status = 'shipped'" if draft.refuse else "o.status = 'processing'")
    if row is None:
        return None
    which, answers = draft.named(row)
    reason = draft.rng.choice(shop.CANCEL_REASONS)
    calls = () if draft.refuse else (_call("cancel_order", order=row[0], reason=reason),)
    answers += ((("reason",), f"The reason to cancel: {reason}."),)
    return CustomerRequest(f"I want to cancel {which}.", answers, calls, 2 if draft.refuse else 0, row[0])


def _readdress(draft: RequestDraft) -> CustomerRequest | None:
    row = draft.pick("o.status = 'shipped'" if draft.refuse else "o.status = 'processing'")
    if row is None:
        return None
    which, answers = draft.named(row)
    new = shop.address(draft.rng)
    calls = () if draft.refuse else (_call("change_address", order=row[0], address=new),)
    answers += ((("address",), f"The new address is {new}."),)
    return CustomerRequest(
        f"I have moved; please send {which} to another address.", answers, calls, 2 * draft.refuse, row[0]
    )


def _return(draft: RequestDraft) -> CustomerRequest | None:
    sign = "<" if draft.refuse else ">="
    row = draft.pick(f"o.status = 'delivered' AND o.delivered {sign} ?", shop.TODAY - shop.TIERS[draft.tier])
    if row is None:
        return None
    _, answers = draft.named(row)
    where = draft.rng.choice(("payment", "credit"))
    calls = () if draft.refuse else (_call("return_item", order=row[0], product=row[4], refund_to=where),)
    answers += ((("refund",), f"For the refund: to my {'original payment' if where == 'payment' else 'credit'}."),)
    order = f" of order {row[0]}" if draft.says_order else ""
    return CustomerRequest(f"I want to give back the {row[5]}{order}.", answers, calls, 3 * draft.refuse, row[0])


def _exchange(draft: RequestDraft) -> CustomerRequest | None:
    row = draft.pick("o.status = 'delivered'")
    if row is None:
        return None
    sql = "SELECT id, name, kind, stock FROM products WHERE id <> ? ORDER BY id"
    others = shop.read(draft.database, sql, row[4])
    if draft.refuse:
        wanted = [other for other in others if other[2] != row[6] or not other[3]]
    else:
        wanted = [other for other in others if other[2] == row[6] and other[3]]
    if not wanted:
        return None
    other = draft.rng.choice(wanted)
    look = _call("search_products", text=other[1])
    take = _call("exchange_item", order=row[0], product=row[4], new_product=other[0])
    _, answers = draft.named(row)
    answer = f"I want the {other[1]} instead."
    answers += ((("product",), answer), (("instead",), answer))
    order = f" of order {row[0]}" if draft.says_order else ""
    words = f"I want to exchange the {row[5]}{order} for something else."
    return CustomerRequest(words, answers, (look,) if draft.refuse else (look, take), 4 * draft.refuse, row[0])


def _late(draft: RequestDraft) -> CustomerRequest | None:
    amount = shop.LATE[draft.tier]
    if draft.refuse != (amount == 0):
        condition, bound = ("o.status = 'shipped' AND o.shipped >= ?", shop.TODAY - 7)
        if not draft.refuse:
            return None
    else:
        condition, bound = ("o.status = 'shipped' AND o.shipped < ?", shop.TODAY - 7)
    row = draft.pick(condition, bound)
    if row is None:
        return None
    which, answers = draft.named(row)
    calls = () if draft.refuse else (_call("give_credit", customer=draft.customer, amount=amount),)
    words = f"I am still waiting for {which}, and want credit for that."
    return CustomerRequest(words, answers, calls, 5 * draft.refuse, row[0])


MAKERS = {"cancel": _cancel, "address": _readdress, "return": _return, "exchange": _exchange, "late": _late}
