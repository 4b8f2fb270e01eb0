"""Worlds that are worked on through tools: solvable by looking, worth nothing without it."""

from __future__ import annotations

import contextlib
import random
import re
import sqlite3

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.agentic import shop
from rlvr.envs.agentic.service_desk import ServiceDesk
from rlvr.envs.agentic.sql import DOMAINS, HIDDEN, SQL, _bytes, open_database
from rlvr.envs.agentic.world_search import WorldSearch, index, make
from rlvr.envs.tools import Call, ToolError, write_call
from rlvr.envs.tools.sql import guard, query

LEVELS = range(1, 6)
HOSTILE_SQL = (
    "DROP TABLE books",
    "DELETE FROM books",
    "INSERT INTO books VALUES (1, 1, 'x', 'crime', 3)",
    "CREATE TABLE x (y)",
    "ATTACH 'x.db' AS y",
    "PRAGMA writable_schema = 1",
    "VACUUM INTO 'x.db'",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT random()",
    "SELECT date('now')",
    "SELECT CURRENT_TIMESTAMP",
    "SELECT zeroblob(1000000000)",
    "SELECT printf('%.*c', 1000000000, 'x')",
    "SELECT 1; DROP TABLE books",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "SELECT count(*) FROM books a, books b, books c, books d, books e, books f, books g",
    "SELECT " + "(" * 5_000,
    "SELECT 1" + " UNION ALL SELECT 1" * 1_000,
    "SELECT '" + "x" * 20_000 + "'",
    "SELECT \x00",
    "",
    ";",
    "no SQL at all",
)


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


# WorldSearch


@pytest.mark.parametrize("level", LEVELS)
def test_each_document_of_the_way_is_found_by_what_the_one_before_says(level: int):
    """A player who searches for the names that stand in what it has read gets to the answer."""
    for seed in range(8):
        world = WorldSearch().begin(random.Random(seed), level)
        text = world.question
        for words, title in world.path:
            assert words in text or title in text, (level, seed, words)
            found = [document.title for document in index(world.seed, level).search(words, 5)]
            assert title in found, (level, seed, words)
            text = index(world.seed, level).by_title[title].text
        assert world.answer in text


@pytest.mark.parametrize("level", LEVELS)
def test_a_worlds_documents_say_what_is_true(level: int):
    made = make(12345, level)
    assert len({document.title for document in made.documents}) == len(made.documents) == len(made.kinds)
    for document in made.documents:
        for value in made.facts[document.title].values():
            assert value in document.text
        for target in made.links[document.title].values():
            assert target in document.text or made.bynames.get(target, target) in document.text
            assert target != document.title


@pytest.mark.parametrize("hops", LEVELS)
def test_hops_say_how_many_documents_lie_on_the_way(hops: int):
    env = gym.make("rlvr/WorldSearch-v0", hops=hops, level=1).unwrapped
    for seed in range(10):
        question, _ = env.reset(seed=seed)
        world = env.get_state().state.world
        assert len(world.path) == hops
        assert len(make(world.seed, 1).documents) == 30
        for _ in range(2 * hops):
            assert env.step(env.solve())[4]["role"] == "tool"
        assert env.step(env.solve())[1] == 1.0
        assert question == world.question
    assert (hops == 2) == (gym.make("rlvr/WorldSearch-v0").unwrapped.reset(seed=9)[0] == question)


@pytest.mark.parametrize("hops", [0, 6, "2", 1.5])
def test_hops_that_no_world_has_are_refused(hops: object):
    with pytest.raises(ValueError, match="from 1 to 5"):
        gym.make("rlvr/WorldSearch-v0", hops=hops)


def test_facts_say_what_questions_ask_for():
    for hops in (1, 3):
        for facts in (["river"], ["product", "profession"], ["started"]):
            env = gym.make("rlvr/WorldSearch-v0", facts=facts, hops=hops).unwrapped
            for seed in range(5):
                env.reset(seed=seed)
                world = env.get_state().state.world
                made, last = make(world.seed, 1), world.path[-1][1]
                assert world.answer in [made.facts[last][fact] for fact in facts if fact in made.facts[last]]
    assert (
        gym.make("rlvr/WorldSearch-v0", facts=["year"], hops=1).unwrapped.reset(seed=0)[0].startswith("In which year")
    )


@pytest.mark.parametrize(
    ("facts", "says"), [([], "some of"), (["colour"], "some of"), ("river", "some of"), (["year"], "leads to an event")]
)
def test_facts_that_cannot_be_asked_for_are_refused(facts: object, says: str):
    with pytest.raises(ValueError, match=says):
        gym.make("rlvr/WorldSearch-v0", facts=facts)


def test_copying_what_a_tool_said_is_no_answer():
    env = gym.make("rlvr/WorldSearch-v0").unwrapped
    env.reset(seed=1)
    said = env.step(env.solve())[0]
    _, reward, terminated, _, _ = env.step(said)
    assert (reward, terminated) == (0.0, True)


def test_a_missing_document_is_told():
    env = gym.make("rlvr/WorldSearch-v0").unwrapped
    env.reset(seed=1)
    assert "search for it first" in env.step(call("read", title="Atlantis"))[0]
    assert env.step(call("search", query="qqqq"))[0] == "nothing was found"
    assert "limit must be from 1 to 10" in env.step(call("search", query="x", limit=99))[0]


# SQL


@pytest.mark.parametrize("level", LEVELS)
def test_the_gold_query_is_right_and_what_it_shows_on_the_visible_database_is_not(level: int):
    task = SQL()
    for seed in range(12):
        state = task.start(random.Random(seed), level)
        world = state.world
        assert task.judge(world, task.direct_answer(state)).reward == 1.0
        rows = query(open_database(world.seed, world.domain, 0), world.gold).rows
        literal = " UNION ALL ".join("SELECT " + ", ".join(map(_literal, row)) for row in rows[:25])
        assert task.judge(world, f"```sql\n{literal}\n```").reward == 0.0
        assert task.judge(world, f"```sql\nSELECT * FROM ({world.gold}) WHERE 0\n```").reward == 0.0


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'" if isinstance(value, str) else str(value)


def test_the_databases_of_a_task_differ_and_are_the_same_every_time():
    seen = {_bytes(7, 0, place) for place in range(HIDDEN + 1)}
    assert len(seen) == HIDDEN + 1
    _bytes.cache_clear()
    assert {_bytes(7, 0, place) for place in range(HIDDEN + 1)} == seen


@pytest.mark.parametrize("domain", range(len(DOMAINS)))
def test_every_row_belongs_to_a_row_of_the_table_before(domain: int):
    connection = sqlite3.connect(":memory:")
    connection.deserialize(_bytes(3, domain, 1))
    owner, item, event = DOMAINS[domain]
    for child, parent in ((item, owner), (event, item)):
        orphans = f"SELECT count(*) FROM {child.table} WHERE {parent.row}_id NOT IN (SELECT id FROM {parent.table})"
        assert connection.execute(orphans).fetchone() == (0,)


@pytest.mark.parametrize(("holdout", "shared"), [("families", False), ("tasks", True)])
def test_no_question_of_the_test_split_is_one_of_the_train_split_with_other_numbers(holdout, shared):
    env = gym.make("rlvr/SQL-v0", holdout=holdout).unwrapped
    for level in range(1, env.task.levels + 1):
        families = {
            split: {
                re.sub(r"\b\d+\b", "#", env.reset(seed=seed, options={"split": split, "level": level})[0])
                for seed in range(40 if split == "train" else 4)
            }
            for split in ("train", "test")
        }
        assert shared or not families["train"] & families["test"]
        if level == 5:  # 24 families: 40 questions have most of them
            assert bool(families["train"] & families["test"]) == shared


def test_a_holdout_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="holdout is one of families, tasks"):
        SQL(holdout="seeds")


@pytest.mark.parametrize("sql", HOSTILE_SQL)
def test_hostile_sql_is_refused_and_changes_nothing(sql: str):
    database = open_database(1, 0, 0)
    before = query(database, "SELECT count(*), sum(pages) FROM books").rows
    with pytest.raises(ToolError):
        query(database, sql)
    assert query(database, "SELECT count(*), sum(pages) FROM books").rows == before
    env = gym.make("rlvr/SQL-v0").unwrapped
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(f"```sql\n{sql}\n```")
    assert (reward, terminated, info["verdict"].valid) == (0.0, True, True)


@given(st.text(max_size=60))
def test_any_text_is_a_result_or_a_complaint(sql: str):
    with contextlib.suppress(ToolError):
        assert query(open_database(1, 0, 1), sql).columns


def test_order_counts_only_where_it_is_asked_for():
    task = SQL()
    for seed in range(60):
        state = task.start(random.Random(seed), 1)
        world = state.world
        turned = f"SELECT * FROM ({world.gold}) ORDER BY 1" + (", 2 DESC" if world.ordered else " DESC")
        reward = task.judge(world, f"```sql\n{turned}\n```").reward
        if not world.ordered:
            assert reward == 1.0


def test_reading_is_all_that_a_guarded_connection_allows(tmp_path):
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (a)")
        made.execute("INSERT INTO t VALUES (1)")
    connection = guard(sqlite3.connect(path))
    with pytest.raises(ToolError, match="not authorized"):
        query(connection, "UPDATE t SET a = 2")
    assert query(connection, "SELECT a FROM t").rows == [(1,)]


# ServiceDesk


def desk_env(level: int, seed: int):
    env = gym.make("rlvr/ServiceDesk-v0", level=level).unwrapped
    env.reset(seed=seed)
    return env, env.get_state().state.world


def played(env, actions: list[str]) -> float:
    return sum(env.step(action)[1] for action in actions)


@pytest.mark.parametrize("level", LEVELS)
def test_closing_the_ticket_at_once_is_worth_nothing(level: int):
    for seed in range(10):
        env, world = desk_env(level, seed)
        done, rule = world.customer.outcome
        assert played(env, [call("close_ticket", carried_out=done, rule=rule)]) == 0.0


@pytest.mark.parametrize("level", LEVELS)
def test_right_changes_to_the_wrong_books_are_worth_nothing(level: int):
    """The expert's way, and one thing that nobody asked for."""
    for seed in range(6):
        env, world = desk_env(level, seed)
        *steps, close = world.customer.plan
        for name, arguments in steps:
            env.step(call(name, **dict(arguments)) if name else arguments[0][1])
        before = env.get_state()
        assert played(env, [call(close[0], **dict(close[1]))]) == 1.0
        env.set_state(before)
        extra = call("give_credit", customer=1, amount=1)
        assert played(env, [extra, call(close[0], **dict(close[1]))]) == 0.0
        env.set_state(before)
        done, rule = world.customer.outcome
        assert played(env, [call("close_ticket", carried_out=done, rule=(rule + 1) % 6)]) == 0.0


def test_what_a_rule_forbids_is_not_to_be_done():
    seen = 0
    for seed in range(60):
        env, world = desk_env(1, seed)
        if world.customer.outcome != (0, 2):
            continue
        seen += 1
        order = int(world.customer.looked_at[1].split()[1])
        number = int(world.customer.looked_at[0].split()[1])
        email = shop.read(world.database, "SELECT email FROM customers WHERE id = ?", number)[0][0]
        actions = [call("find_customer", email=email), call("get_order", order=order)]
        actions += [call("cancel_order", order=order, reason="not needed"), call("close_ticket", carried_out=1, rule=0)]
        assert played(env, actions) == 0.0
    assert seen > 5


def test_the_customer_answers_what_is_asked_and_nothing_else():
    env, world = desk_env(2, 3)
    (answer,) = [text for words, text in world.customer.answers if words == ("postcode",)]
    assert env.step("What is your postcode, please?")[0] == f"Customer: {answer}"
    assert answer not in env.step("What is your name?")[0]
    assert world.customer.opening.removeprefix("Hello. ") in env.step("Nice weather!")[0]
    observation, reward, terminated, _, info = env.step("<think>email?</think>Good bye")
    assert (reward, terminated, info["role"]) == (0.0, False, "user")
    assert "@" not in observation


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_tools_of_the_shop_never_break_its_books(rng: random.Random, level: int):
    task = ServiceDesk()
    state = task.start(random.Random(rng.randrange(50)), level)
    counts = "SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders), (SELECT count(*) FROM items)"
    before = shop.read(state.world.database, counts)
    for _ in range(12):
        state, verdict, terminated, _ = task.apply(state, task.sample_action(state, rng))
        assert verdict.valid
        if terminated:
            break
    assert shop.read(state.world.database, counts) == before


def test_an_item_comes_back_once():
    env, world = desk_env(1, 0)
    order, product = shop.read(world.database, "SELECT order_id, product FROM items")[0]
    back = call("return_item", order=order, product=product, refund_to="credit")
    assert "returned for credit" in env.step(back)[0]
    assert "was returned for credit before" in env.step(back)[0]
