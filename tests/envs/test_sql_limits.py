"""A query gets no more of this process than a moment, whatever it makes SQLite do."""

from __future__ import annotations

import sqlite3

import gymnasium as gym
import pytest

from rlvr.envs.agentic.databases.rows import database, open_database
from rlvr.envs.agentic.databases.schema import DatabaseKey
from rlvr.envs.tools import Call, SQLite, ToolError, write_call
from rlvr.envs.tools import sql as module
from rlvr.envs.tools.sql import HERE_COPIES, _copies, _Costly, _select, guard, query

KEY = DatabaseKey(1, "library", 1)
MANY = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 100000), b(x) AS (SELECT " + (
    "replace(replace('" + "a" * 20 + "', 'a', '" + "a" * 20 + "'), 'a', '" + "a" * 20 + "')) "
)
# The step count stops none of these early: what is slow lies within a step, or before the first.
WITHIN_A_STEP = {
    "glob": MANY + "SELECT count(*) FROM t, b WHERE x GLOB '*a*a*a*a*a*[a-z]b' || i",
    "instr": MANY + "SELECT sum(instr(x, substr(x, 1, 4000) || 'b' || i)) FROM t, b",
    "like": MANY + "SELECT count(*) FROM t, b WHERE x LIKE '%a%_a%a_%a%a%b' || i",
}
TIMES_TWO = ", ".join(f"a{n} AS (SELECT x + x AS x FROM a{n - 1})" for n in range(1, 30))
BEFORE_THE_FIRST = {
    "common tables": "WITH a0 AS (SELECT 1 AS x), "
    + ", ".join(f"a{n} AS (SELECT p.x FROM a{n - 1} p, a{n - 1} q)" for n in range(1, 24))
    + " SELECT count(*) FROM a23",
    "columns": f"WITH a0 AS (SELECT 1 AS x), {TIMES_TWO} SELECT x FROM a29",
    "quoted": f"WITH a0 AS (SELECT 1 AS x), {TIMES_TWO} SELECT x FROM a29".replace("x", '"+"'),
    "subqueries": "SELECT x + x FROM (" * 25 + "SELECT 1 AS x" + ")" * 25,
}
WIDE = MANY + f"SELECT {', '.join(['x'] * 500)} FROM t, b"


@pytest.mark.slow
@pytest.mark.parametrize("sql", WITHIN_A_STEP.values(), ids=WITHIN_A_STEP)
def test_a_long_step_is_ended(sql: str) -> None:
    with pytest.raises(_Costly):
        _select(open_database(KEY), sql, 10, 2_000_000, 0.05)
    with pytest.raises(ToolError, match="too"):
        query(open_database(KEY), sql)


@pytest.mark.slow
@pytest.mark.parametrize("sql", [*BEFORE_THE_FIRST.values(), WIDE], ids=[*BEFORE_THE_FIRST, "wide"])
def test_a_statement_that_multiplies_is_prepared_elsewhere(sql: str) -> None:
    assert sql is WIDE or _copies(sql) > HERE_COPIES
    with pytest.raises(ToolError, match=r"too|over|syntax"):
        query(open_database(KEY), sql)


def test_what_runs_elsewhere_says_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    name = next(iter(database(KEY).documentation))
    asked = f"SELECT *, id / 7.0, NULL, x'00ff' FROM {name} ORDER BY id"
    here = query(open_database(KEY), asked)
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (a)")
        made.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(5)])
    made.close()
    kit = SQLite(path)
    session = kit.open()
    monkeypatch.setattr(module, "HERE_COPIES", -1.0)
    assert query(open_database(KEY), asked) == here
    assert query(session, "SELECT sum(a) FROM t").rows == [(10,)]
    with pytest.raises(ToolError, match="no such table"):
        query(session, "SELECT 1 FROM nowhere")
    kit.close(session)


@pytest.mark.slow
def test_a_bomb_is_an_error_and_the_next_query_is_right() -> None:
    env = gym.make("rlvr/SQL-v0").unwrapped
    for sql in (WITHIN_A_STEP["glob"], BEFORE_THE_FIRST["columns"]):
        env.reset(seed=0)
        observation, _, terminated, _, info = env.step(write_call(Call("run_query", {"sql": sql}), "hermes"))
        assert (terminated, info["verdict"].status) == (False, "unparsable")
        assert observation.startswith("error: ")
        while not terminated:
            _, reward, terminated, _, _ = env.step(env.solve())
        assert reward == 1.0


def test_a_result_has_a_size() -> None:
    connection = guard(sqlite3.connect(":memory:"))
    wide = ", ".join(["replace('" + "a" * 90 + "', 'a', '" + "b" * 90 + "')"] * 30)
    with pytest.raises(ToolError, match="characters"):
        query(connection, f"WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT {wide} FROM t")
