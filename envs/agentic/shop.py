"""A made-up shop: its database, its rules, and the functions by which a service desk works in it.

A database is SQLite, kept as bytes: a change makes new bytes, so a state can be forked and restored like any other.
The functions do what they are told and keep no rule by themselves; keeping the rules is the work.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from rlvr.envs.agentic import made_up_names
from rlvr.envs.tools import ToolError

TODAY = 200
CANCEL_REASONS = ("not needed", "ordered by mistake", "too expensive")
TIERS = {"basic": 30, "silver": 30, "gold": 60}  # days in which a delivered order may come back
LATE = {"basic": 0, "silver": 10, "gold": 15}  # credit for an order that is late
RULES = f"""Today is day {TODAY}. The rules of the shop:
1. First make sure who the customer is: by the e-mail address, or by name and postcode together. Without a match, do
nothing for them.
2. An order can be cancelled or sent to another address only while its status is processing.
3. Items of a delivered order can be returned up to 30 days after the delivery, 60 for gold customers. The refund goes
where the customer wants it: to the original payment, or to their credit.
4. An item of a delivered order can be exchanged for another product of the same kind that is in stock.
5. For an order that was shipped more than 7 days ago and has not arrived, silver customers get 10 of credit and gold
customers 15, others nothing.
Do what is asked for as far as the rules allow, and nothing else. Then close the ticket: say how many of the requests
you carried out, and the number of the rule that forbids the rest (0 if nothing was refused)."""
NOBODY = "nobody"  # what is seen when nobody matches
SCHEMA = """
PRAGMA page_size = 512;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name, email, postcode, tier, credit);
CREATE TABLE products (id INTEGER PRIMARY KEY, name, kind, price, stock);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer, status, ordered, shipped, delivered, address, note);
CREATE TABLE items (order_id, product, price, state);
"""
KINDS = ("boots", "clock", "coat", "desk", "kettle", "lamp", "scarf", "tent")
Number = Annotated[int, Field(ge=0, le=10**9)]


class Desk(NamedTuple):
    """What the service desk works on, and what it has done.

    Attributes:
        database: the shop.
        looked_up: the customers that were found by what they gave, and the orders that were looked at.
        closed: what the ticket was closed with: requests carried out, and the rule that forbade the rest.
        customer: whom the desk talks to, see ``Customer``.
        turn: how many replies the desk has made; the expert counts them.
        talk: what the desk said and a customer who is a model answered.
    """

    database: bytes
    customer: Any
    expected: str
    looked_up: tuple[str, ...] = ()
    closed: tuple[int, int] | None = None
    turn: int = 0
    talk: tuple[tuple[str, str], ...] = ()


def read(database: bytes, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of a query of ours."""
    with closing(_open(database)) as connection:
        return connection.execute(sql, values).fetchall()


def change(database: bytes, *statements: tuple[str, tuple[object, ...]]) -> bytes:
    """The database after some statements of ours."""
    with closing(_open(database)) as connection:
        for sql, values in statements:
            connection.execute(sql, values)
        connection.commit()
        return connection.serialize()


def _open(database: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(database)
    return connection


def digest(database: bytes) -> str:
    """Names the content of a database, however it came about."""
    tables = ("customers", "products", "orders", "items")
    rows = [sorted(read(database, f"SELECT * FROM {table}"), key=repr) for table in tables]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def stocked(rng: random.Random, customers: int) -> bytes:
    """A shop with so many customers, each with two to five orders."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    taken: set[str] = set()
    people = made_up_names.distinct(made_up_names.person, rng, customers, taken)
    if customers > 6:
        people[1] = people[0]  # two of one name: the postcode tells them apart
    for number, name in enumerate(people, 1):
        email = f"{name.lower().replace(' ', '.')}{number}@{rng.choice(('mail', 'post', 'letters'))}.example"
        person = (number, name, email, str(rng.randint(10_000, 99_999)), rng.choice(list(TIERS)), 5 * rng.randint(0, 8))
        connection.execute("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?)", person)
    makers = made_up_names.distinct(made_up_names.surname, rng, 4 * len(KINDS), taken)
    for number, (kind, maker) in enumerate(zip(KINDS * 4, makers, strict=True), 1):
        name = f"{maker} {kind}"
        stock = rng.choice((0, 3, 8, 20))
        connection.execute(
            "INSERT INTO products VALUES (?, ?, ?, ?, ?)", (number, name, kind, rng.randint(5, 200), stock)
        )
    order = rng.randint(1000, 5000)
    for customer in range(1, customers + 1):
        products = rng.sample(range(1, 4 * len(KINDS) + 1), 15)
        for status in rng.choices(("processing", "shipped", "delivered"), k=rng.randint(2, 5)):
            order += rng.randint(1, 9)
            days = {"processing": (1, 3, 0), "shipped": (4, 20, 0), "delivered": (10, 90, 1)}[status]
            ordered = TODAY - rng.randint(days[0], days[1])
            shipped = None if status == "processing" else ordered + rng.randint(1, 3)
            delivered = shipped + rng.randint(1, 5) if status == "delivered" and shipped else None
            row = (order, customer, status, ordered, shipped, delivered, address(rng), "")
            connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            for _ in range(rng.randint(1, 3)):
                product = products.pop()
                price = connection.execute("SELECT price FROM products WHERE id = ?", (product,)).fetchone()[0]
                connection.execute("INSERT INTO items VALUES (?, ?, ?, 'bought')", (order, product, price))
    connection.commit()
    return connection.serialize()


def address(rng: random.Random) -> str:
    return f"{rng.randint(1, 99)} {made_up_names.surname(rng)} Street, {made_up_names.town(rng)}"


# what the desk can do; each is a tool


def find_customer(desk: Desk, email: str = "", name: str = "", postcode: str = "") -> tuple[Desk, str]:
    """Find a customer by e-mail address, or by name and postcode together.

    Args:
        email: the whole address.
        name: first and family name.
        postcode: five digits.
    """
    if email:
        sql, values = "SELECT * FROM customers WHERE lower(email) = ?", (email.strip().lower(),)
    elif name and postcode:
        sql = "SELECT * FROM customers WHERE lower(name) = ? AND postcode = ?"
        values = (name.strip().lower(), postcode.strip())  # type: ignore[assignment]
    else:
        raise ToolError("give the e-mail address, or both name and postcode")
    rows = read(desk.database, sql, *values)
    if not rows:
        return _saw(desk, NOBODY), "no customer matches"
    number, full, address_, code, tier, credit = rows[0]
    text = f"customer {number}: {full}, {address_}, postcode {code}, tier {tier}, credit {credit}"
    return _saw(desk, f"customer {number}"), text


def list_orders(desk: Desk, customer: Number) -> str:
    """List the orders of a customer.

    Args:
        customer: the number of the customer.
    """
    rows = read(desk.database, "SELECT id, status, ordered FROM orders WHERE customer = ? ORDER BY id", customer)
    lines = [f"order {number}: {status}, ordered on day {day}" for number, status, day in rows]
    return "\n".join(lines) or "no orders"


def get_order(desk: Desk, order: Number) -> tuple[Desk, str]:
    """Show an order with its items.

    Args:
        order: the number of the order.
    """
    _, customer, status, ordered, shipped, delivered, to, note = _order(desk, order)
    days = [f"ordered on day {ordered}"]
    days += [f"shipped on day {shipped}"] * (shipped is not None)
    days += [f"delivered on day {delivered}"] * (delivered is not None)
    lines = [f"order {order} of customer {customer}: {status}, {', '.join(days)}, to {to}{'; ' + note if note else ''}"]
    sql = "SELECT p.id, name, kind, i.price, state FROM items i JOIN products p ON p.id = product WHERE order_id = ?"
    for number, name, kind, price, state in read(desk.database, sql, order):
        lines.append(f"  product {number}: {name} ({kind}), price {price}, {state}")
    return _saw(desk, f"order {order}"), "\n".join(lines)


def search_products(desk: Desk, text: str) -> str:
    """Find products by a part of their name or by their kind.

    Args:
        text: a part of the name, or a kind.
    """
    if not text.strip():
        raise ToolError("say what to look for")
    matches = [
        f"product {number}: {name} ({kind}), price {price}, {stock} in stock"
        for number, name, kind, price, stock in read(desk.database, "SELECT * FROM products ORDER BY id")
        if text.strip().lower() in name.lower()
    ]
    return "\n".join(matches[:10]) or "nothing was found"


def cancel_order(
    desk: Desk, order: Number, reason: Literal["not needed", "ordered by mistake", "too expensive"]
) -> tuple[Desk, str]:
    """Cancel an order and pay everything back.

    Args:
        order: the number of the order.
        reason: the customer's.
    """
    _order(desk, order)
    sql = "UPDATE orders SET status = 'cancelled', note = ? WHERE id = ?"
    items = (
        "UPDATE products SET stock = stock + 1 WHERE id IN (SELECT product FROM items WHERE order_id = ?)",
        (order,),
    )
    return _changed(desk, (sql, (reason, order)), items), f"order {order} is cancelled"


def change_address(desk: Desk, order: Number, address: str) -> tuple[Desk, str]:
    """Send an order to another address.

    Args:
        order: the number of the order.
        address: number and street, town.
    """
    _order(desk, order)
    text = " ".join(address.split())
    return _changed(
        desk, ("UPDATE orders SET address = ? WHERE id = ?", (text, order))
    ), f"order {order} goes to {text}"


def return_item(
    desk: Desk, order: Number, product: Number, refund_to: Literal["payment", "credit"]
) -> tuple[Desk, str]:
    """Take an item of an order back.

    Args:
        order: the number of the order.
        product: the number of the product.
        refund_to: the original payment, or the customer's credit.
    """
    price, customer = _item(desk, order, product)
    state = f"returned for {refund_to}"
    changes: list[tuple[str, tuple[object, ...]]] = [
        ("UPDATE items SET state = ? WHERE order_id = ? AND product = ?", (state, order, product))
    ]
    if refund_to == "credit":
        changes.append(("UPDATE customers SET credit = credit + ? WHERE id = ?", (price, customer)))
    return _changed(desk, *changes), f"product {product} of order {order} is {state}: {price}"


def exchange_item(desk: Desk, order: Number, product: Number, new_product: Number) -> tuple[Desk, str]:
    """Exchange an item of an order for another product; the difference of the prices goes to or from the payment.

    Args:
        order: the number of the order.
        product: the number of the product that comes back.
        new_product: the number of the product to send.
    """
    _item(desk, order, product)
    if not read(desk.database, "SELECT 1 FROM products WHERE id = ?", new_product):
        raise ToolError(f"there is no product {new_product}")
    state = f"exchanged for {new_product}"
    item_change = ("UPDATE items SET state = ? WHERE order_id = ? AND product = ?", (state, order, product))
    stock_change = ("UPDATE products SET stock = stock - 1 WHERE id = ?", (new_product,))
    return _changed(desk, item_change, stock_change), f"product {product} of order {order} is {state}"


def give_credit(desk: Desk, customer: Number, amount: Annotated[int, Field(ge=1, le=1_000)]) -> tuple[Desk, str]:
    """Add to a customer's credit.

    Args:
        customer: the number of the customer.
        amount: how much.
    """
    if not read(desk.database, "SELECT 1 FROM customers WHERE id = ?", customer):
        raise ToolError(f"there is no customer {customer}")
    sql = "UPDATE customers SET credit = credit + ? WHERE id = ?"
    return _changed(desk, (sql, (amount, customer))), f"customer {customer} has {amount} more credit"


def close_ticket(desk: Desk, carried_out: Number, rule: Number) -> tuple[Desk, str]:
    """Close the ticket; this ends the conversation.

    Args:
        carried_out: how many of the customer's requests were carried out.
        rule: the number of the rule that forbids the rest, 0 if nothing was refused.
    """
    return desk._replace(closed=(carried_out, rule)), "closed"


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    find_customer,
    list_orders,
    get_order,
    search_products,
    cancel_order,
    change_address,
    return_item,
    exchange_item,
    give_credit,
    close_ticket,
)


def _saw(desk: Desk, what: str) -> Desk:
    return desk if what in desk.looked_up else desk._replace(looked_up=(*desk.looked_up, what))


def _changed(desk: Desk, *statements: tuple[str, tuple[object, ...]]) -> Desk:
    return desk._replace(database=change(desk.database, *statements))


def _order(desk: Desk, order: int) -> tuple[Any, ...]:
    if not (rows := read(desk.database, "SELECT * FROM orders WHERE id = ?", order)):
        raise ToolError(f"there is no order {order}")
    return rows[0]


def _item(desk: Desk, order: int, product: int) -> tuple[int, int]:
    """The price that was paid for an item, and who paid it."""
    customer = _order(desk, order)[1]
    rows = read(desk.database, "SELECT price, state FROM items WHERE order_id = ? AND product = ?", order, product)
    if not rows:
        raise ToolError(f"order {order} has no product {product}")
    if rows[0][1] != "bought":
        raise ToolError(f"product {product} of order {order} was {rows[0][1]} before")
    return int(rows[0][0]), int(customer)
