"""Terminal: a real shell on a pseudo-terminal, a drawn screen, and a check of what is left that nothing typed can
reach."""

from __future__ import annotations

import pickle
import random
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.agentic import chores, keys, terminal
from rlvr.envs.agentic.chore_kinds import compose
from rlvr.envs.agentic.chore_kinds.compose import FAMILIES, HELD_OUT, KINDS, SIZES, SPLITS, composed, split_of_seed
from rlvr.envs.agentic.chore_kinds.draft import ChoreDraft, StepKind, Unfit
from rlvr.envs.agentic.chores import Chore
from rlvr.envs.agentic.keys import Key, read_keys, write_keys
from rlvr.envs.agentic.screens import COLUMNS, ROWS, Screen
from rlvr.envs.agentic.terminal import Terminal, TerminalState, chore_of
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.sandbox import SandboxError, SandboxUnavailable, TerminalWorkspace, probes, running

pytest.importorskip("pyte")
NAMED = {kind.name: kind for kind in KINDS}
LEVELS = range(1, len(SIZES) + 1)


def available() -> bool:
    try:
        terminal.require()
    except SandboxUnavailable:
        return False
    return True


held = pytest.mark.skipif(not available(), reason="no sandbox tier in which permissions may be changed")
sees_processes = pytest.mark.skipif(not probes.probe_tier("T3").holds, reason="only T3 has job control and a /proc")


def seated(level: int, seed: int = 0) -> tuple[Terminal, TerminalState]:
    return Terminal(), TerminalState(level, seed, "")


def alone(kind: StepKind, seed: int) -> Chore:
    """A chore of one step."""
    for attempt in range(40):
        draft = ChoreDraft(random.Random(f"{kind.name} {seed} {attempt}"), look=1.0)
        try:
            kind.play(draft, compose.next_step(draft, [[kind]], [], {})[1])
        except Unfit:
            continue
        return draft.chore()
    raise AssertionError(f"{kind.name} suits nothing that a chore begins with")


def play(task: Terminal, state: TerminalState, *actions: str) -> tuple[TerminalState, Verdict]:
    verdict = Verdict(0.0, "partial")
    for action in actions:
        state, verdict, *_ = task.apply(state, action)
    return state, verdict


def shown(task: Terminal, state: TerminalState, *actions: str) -> list[str]:
    """The lines of the screen after some actions, without the one that tells of the cursor."""
    return task.observe(play(task, state, *actions)[0]).splitlines()[:-1]


def solved(task: Terminal, state: TerminalState) -> tuple[TerminalState, Verdict]:
    while True:
        state, verdict, over, _ = task.apply(state, task.solve(state))
        if over:
            return state, verdict


# keys


def test_keys_have_the_names_that_are_documented():
    assert read_keys("ls -l<Enter>") == [Key("ls -l"), Key("\r")]
    assert read_keys("<c-C><Ctrl-d><C-[><C-Space>") == [Key("\x03"), Key("\x04"), Key("\x1b", 0.15), Key("\0")]
    assert read_keys("<Down*3><A-f><F5>") == [Key("\x1b[B" * 3), Key("\x1bf"), Key("\x1b[[E")]
    assert read_keys("a\nb<Enter>\nc") == [Key("a\r"), Key("b"), Key("\r"), Key("c")]
    assert read_keys("<Lt>Enter> <Return>") == [Key("<"), Key("Enter> "), Key("\r")]
    assert read_keys("cat <<EOF >a <b>") == [Key("cat <<EOF >a <b>")]


@given(st.text(alphabet=st.sampled_from("<>EntrDowlC-*3 \\[]x"), max_size=40))
def test_what_is_written_as_keys_types_itself(text):
    assert "".join(key.sent for key in read_keys(write_keys(text))) == text


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[A", "\ud800", "<Esc>" * 401, "<Down*99>" * 5])
def test_what_no_key_sends_is_refused(text):
    with pytest.raises(ValueError, match=r"printable|400 keys"):
        read_keys(text)


# screens


def drawn(text: str) -> list[str]:
    screen = Screen()
    screen.feed(text.encode())
    return screen.text().split("\n")


def test_a_screen_is_what_an_emulator_draws():
    assert drawn("100 %\r  7\r\nred\x1b[31m ink\x1b[0m\x1b[2D!") == ["  7 %", "red i!k"]
    assert drawn("\r\n".join(map(str, range(200))))[-1] == "199"
    screen = Screen()
    assert screen.feed(b"ab\x1b[6n") == "\x1b[1;3R"
    assert screen.cursor() == (1, 3)


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from("a1;?[]m\x1b\x9b\x00\r\n\t\x08HJKhlr0953漢"), max_size=120))
def test_no_printed_text_breaks_the_screen(text):
    rows = drawn(text)
    assert len(rows) <= ROWS
    assert all(len(row) <= COLUMNS for row in rows)
    assert drawn(f"{text}\x1b\\\x1bcstill here")[-1].endswith("here")


# chores


def test_there_are_as_many_kinds_as_are_promised():
    assert len(NAMED) == len(KINDS) >= 200
    counts = [sum(kind.family == family for kind in KINDS) for family in FAMILIES]
    assert len(counts) == 15
    assert min(counts) > max(number for held in HELD_OUT.values() for number in held)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_split_has_kinds_that_no_other_split_has(level, split):
    drawn = [composed(level, seed, split).kinds for seed in range(60)]
    for names in drawn:
        assert {SPLITS[name] for name in names} <= {"train", split}
        assert SPLITS[names[0]] == split
        assert len(set(names)) == len(names) == SIZES[level - 1].steps
    assert level == 1 or len(set(drawn)) > 40


@held
def test_a_chore_of_a_split_has_its_kinds():
    env = gym.make("rlvr/Terminal-v0").unwrapped
    assert isinstance(env, TextEnv)
    for split in ("train", "validation", "test"):
        for seed in range(5):
            env.reset(seed=seed, options={"level": 2, "split": split})
            state = env.get_state().state
            assert split_of_seed(state.seed) == state.split == split


@held
def test_with_holdout_tasks_all_kinds_are_in_all_splits():
    env = gym.make("rlvr/Terminal-v0", holdout="tasks", level=3).unwrapped
    assert isinstance(env, TextEnv)
    splits = set()
    for seed in range(20):
        env.reset(seed=seed, options={"split": "train"})
        state = env.get_state().state
        splits |= {SPLITS[name] for name in composed(state.level, state.seed, state.split).kinds}
    assert splits == {"train", "validation", "test"}


def test_a_holdout_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="holdout is one of families, tasks"):
        Terminal(holdout="seeds")


@pytest.mark.parametrize("level", LEVELS)
def test_a_chore_is_as_long_as_its_level_says_and_the_same_every_time(level):
    lengths = []
    for seed in range(60):
        chore = composed(level, seed, split_of_seed(seed)).chore
        composed.cache_clear()
        assert chore == composed(level, seed, split_of_seed(seed)).chore
        lengths.append(len(chore.commands))
        assert 3 * lengths[-1] <= 2 * SIZES[level - 1].turns
        assert max(map(len, chore.actions)) <= terminal.MAX_TYPED
        assert "@" not in re.sub(r"\S+@\S+\.org|@@", "", chore.text), chore.text
    low, high = ((2, 4), (4, 8), (9, 14), (14, 20), (23, 30))[level - 1]
    assert low <= sum(lengths) / len(lengths) <= high


@pytest.mark.parametrize(("level", "share"), [(3, 0.5), (5, 0.6)])
def test_most_steps_work_on_what_an_earlier_one_left(level, share, monkeypatch):
    steps = []
    next_step = compose.next_step

    def noted(draft, choices, items, used):
        kind, item = next_step(draft, choices, items, used)
        steps.append(any(item is each for each in items))
        return kind, item

    monkeypatch.setattr(compose, "next_step", noted)
    for seed in range(100):
        composed.__wrapped__(level, seed, split_of_seed(seed))
    assert sum(steps) / len(steps) >= share


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_chore_is_not_done_before_it_begins(kind):
    for seed in range(4):
        chore = alone(kind, seed)
        files = {path: ("file", content, 0o600) for path, content in chore.files.items()}
        untouched = TerminalWorkspace(files, {daemon.name: None for daemon in chore.daemons})
        if chore.modes and chore.setup:  # permissions and links that the setup makes
            continue
        if chore.repositories or chore.databases:
            continue  # these are looked at in the sandbox, after a start of the terminal
        assert chores.judged(chore, untouched).reward == 0.0


@pytest.mark.slow
@held
@pytest.mark.parametrize("family", FAMILIES)
def test_of_each_kind_the_expert_earns_1_and_doing_nothing_0(family, monkeypatch):
    task = Terminal()
    for number, kind in enumerate(kind for kind in KINDS if kind.family == family):
        chore = alone(kind, number)
        monkeypatch.setattr(terminal, "chore_of", lambda state, chore=chore: chore)
        state = TerminalState(1, 0, "")
        after, verdict = solved(task, state)
        assert verdict.reward == 1.0, (kind.name, verdict, after.screen)
        assert play(task, state, "<Done>")[1].status == "wrong", kind.name


@pytest.mark.slow
@held
@pytest.mark.parametrize("level", LEVELS)
def test_one_thing_more_or_less_earns_nothing(level):
    """After all that the expert does a file of the task is changed, or one that it made is deleted."""
    for seed in range(3):
        task, state = seated(level, seed)
        chore = chore_of(state)
        files = {**chore.files, **chore.wanted}
        kept = [path for path, content in files.items() if content is not None and path not in chore.free]
        for spoil in (f"chmod u+w {kept[0]}; echo more >> {kept[0]}", f"rm -f {kept[-1]}"):
            actions = (*chore.actions, f"<Enter>{spoil}<Enter>", "<Done>")
            assert play(task, state, *actions)[1].status == "wrong", (spoil, chore.text)


@pytest.mark.parametrize(
    ("content", "right"),
    [
        (b'{"b": [1, true],\n "a": {"x": "y"}}', True),
        (b'{"a": {"x": "y"}, "b": [1, 1]}', False),
        (b'{"a": {"x": "y"}, "b": [1, true], "c": 0}', False),
        (b"{'a': {'x': 'y'}, 'b': [1, True]}", False),
        (b"[" * 100_000, False),
        (b"\xff\xfe\x00", False),
        (None, False),
    ],
)
def test_json_is_compared_by_its_values(content, right):
    chore = Chore("", {}, (), {}, data={"a.json": {"a": {"x": "y"}, "b": [1, True]}})
    files = {} if content is None else {"a.json": ("file", content, 0o644)}
    assert chores.judged(chore, TerminalWorkspace(files, {})).reward == float(right)


def database(*statements: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    return connection.serialize()


@held
@pytest.mark.parametrize(
    ("content", "right"),
    [
        (database("CREATE TABLE t (a INTEGER, b TEXT)", "INSERT INTO t VALUES (2, 'y'), (1, 'x')"), True),
        (database("CREATE TABLE t (a TEXT, b TEXT)", "INSERT INTO t VALUES ('1', 'x'), ('2', 'y')"), True),
        (database("CREATE TABLE t (a INTEGER, b TEXT)", "INSERT INTO t VALUES (1, 'x')"), False),
        (database("CREATE TABLE t (b INTEGER, a TEXT)", "INSERT INTO t VALUES (2, 'y'), (1, 'x')"), False),
        (database("CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')", "CREATE TABLE u (a)"), False),
        (database("CREATE VIEW t AS SELECT 1 AS a, 'x' AS b UNION SELECT 2, 'y'"), False),
        (b"a\n1,x\n2,y\n", False),
        (b"", False),
    ],
)
def test_a_database_is_compared_by_the_rows_of_its_tables(content, right):
    chore = Chore("", {}, (), {}, databases={"a.db": {"t": (("a", "b"), ("1", "x"), ("2", "y"))}})
    verdict = chores.judged(chore, TerminalWorkspace({"a.db": ("file", content, 0o600)}, {}))
    assert (verdict.reward, verdict.valid) == (float(right), True)


@held
@pytest.mark.parametrize(
    "actions",
    [
        ("echo passed<Enter>", "echo 'reward: 1'<Enter>"),
        ("rm -rf ~/* ~/.[a-z]*<Enter>",),
        ("exit 0<Enter>", "<C-d>", "exec false<Enter>"),
        ("kill -9 $PPID<Enter>",),
        ("kill -9 -1<Enter>",),
        ("echo 'import sys; sys.exit(0)' | tee json.py base64.py os.py stat.py main.py<Enter>",),
        ("trap 'echo $BASH_COMMAND' DEBUG<Enter>", "PROMPT_COMMAND='exit'<Enter>", "ls<Enter>"),
        ("exec 1>&-<Enter>", "exec 0<&-<Enter>"),
        ("chmod 000 ~<Enter>",),
        ("mkfifo sorted.txt out.txt; ln -s /dev/zero zero<Enter>",),
        ("cd / && ls; cat /etc/passwd /proc/1/environ<Enter>",),
        ("stty raw -echo -isig<Enter>", "stty rows 2 columns 2<Enter>"),
        ("printf '\\033[?3h\\033[99999999999999999999C\\033]0;x'<Enter>", "head -c 3000000 /dev/urandom<Enter>"),
    ],
)
def test_cheats_and_vandals_earn_nothing(actions):
    task, state = seated(2, 7)
    over, verdict = False, None
    for action in (*actions, "<Done>"):
        if not over:
            state, verdict, over, _ = task.apply(state, action)
    assert (verdict.reward, verdict.valid, over) == (0.0, True, True)


@pytest.mark.slow
@held
@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("stop by name", ("kill -9 $(cat run/*.pid)<Enter>",)),
        ("stop by name", ("for f in run/*.pid; do kill $(cat $f); done<Enter>",)),
        ("reload", ("echo port 1 | tee conf/*.conf state/*.txt<Enter>",)),
        ("old lock", ("rm */lock; for d in */; do echo serves > $d/state.txt; done<Enter>",)),
        ("wrong checksum", ("sed -i 's/sum/SUM/' service.py; kill -HUP $(cat */service.pid)<Enter>",)),
        ("full-screen program", ("echo yes | python3 *.py<Enter>", "touch settings.dat<Enter>")),
        ("commit a part", ("cd *[0-9]; git commit -qam x<Enter>",)),
        ("merge a branch", ("cd *[0-9]; git merge -q -s ours $(git branch --format='%(refname:short)')<Enter>",)),
        ("merge a branch", ("cd *[0-9]; printf '#!/bin/sh\\necho fake' > .git/config; rm -r .git/refs<Enter>",)),
        ("first bad commit", ("cd *[0-9]; git log --format=%s > ../bad.txt<Enter>",)),
        ("blanks for a tab", ("tac *.txt > x; f=$(grep -o '> .*' *.mk | cut -c3-); sort *.txt > $f<Enter>",)),
        ("rows by word", ("python3 query.py *.db 'DELETE FROM sqlite_master'; rm *.db; touch a.csv<Enter>",)),
        ("set permissions", ("chmod 777 *<Enter>", "chmod 666 *.*<Enter>")),
        ("pack a folder", ("tar -czf all.tar.gz *; for i in 1 2 3; do cp all.tar.gz $i.tar.gz; done<Enter>",)),
    ],
)
def test_a_wrong_way_through_a_chore_earns_nothing(name, actions, monkeypatch):
    for seed in (1, 2):
        chore = alone(NAMED[name], seed)
        monkeypatch.setattr(terminal, "chore_of", lambda state, chore=chore: chore)
        verdict = play(Terminal(), TerminalState(1, 0, ""), *actions, "<Done>")[1]
        assert (verdict.reward, verdict.valid) == (0.0, True)


@held
def test_a_makefile_that_copies_its_answer_is_found_out(monkeypatch):
    """What a mended Makefile makes of another text is made anew, where nothing of the workspace is but the Makefile."""
    chore = alone(NAMED["blanks for a tab"], 1)
    monkeypatch.setattr(terminal, "chore_of", lambda state: chore)
    ((trial,), (made,)) = chore.trials, (path for path in chore.wanted if path.endswith(".txt"))
    cheat = f"cp {made} answer; printf '{made}:\\n\\tcp answer {made}\\n' > {trial.files[0]}<Enter>"
    verdict = play(Terminal(), TerminalState(1, 0, ""), *chore.actions, cheat, "<Done>")[1]
    assert (verdict.reward, verdict.reason) == (0.0, f"{trial.files[0]} does not do what it should with other files")


# the terminal


@held
def test_the_shell_keeps_its_folder_and_its_names_and_a_restored_one_lives_through_the_same():
    task, state = seated(3)
    state = play(
        task, state, "mkdir data; cd data; x=41; f() { echo $((x + 1)); }<Enter>", "clear; f; basename $PWD<Enter>"
    )[0]
    assert task.observe(state).splitlines()[:2] == ["42", "data"]
    terminal._TERMINALS.clear()
    again = pickle.loads(pickle.dumps(state))
    assert shown(pickle.loads(pickle.dumps(task)), again, "clear; f<Enter>")[0] == "42"


@held
def test_two_forks_do_not_see_each_others_files():
    env = TextEnv(Terminal(), level=1)
    env.reset(seed=1)
    env.step("echo one > one.txt<Enter>")
    twin = env.fork()
    env.step("echo two > two.txt<Enter>")
    assert "two.txt" not in twin.step("ls *.txt<Enter>")[0].partition("ls *.txt")[2]
    assert "two.txt" in env.step("ls *.txt<Enter>")[0].partition("ls *.txt")[2]


@pytest.mark.slow
@held
@pytest.mark.parametrize(
    "name",
    ["pack a folder", "commit a part", "full-screen program", "reload", "first bad commit", "old lock", "totals"],
)
def test_a_terminal_is_brought_back_whatever_was_done_in_it(name, monkeypatch):
    chore = alone(NAMED[name], 4)
    monkeypatch.setattr(terminal, "chore_of", lambda state: chore)
    task, state = seated(1)
    for action in chore.actions:
        state = play(task, state, action)[0]
        terminal._TERMINALS.clear()
    verdict = play(task, state, "<Done>")[1]
    assert verdict.reward == 1.0, verdict


@held
def test_what_cannot_be_brought_back_is_refused_with_the_reason():
    task, state = seated(1)
    state = play(task, state, "date +%N > now.txt; clear<Enter>")[0]
    terminal._TERMINALS.clear()
    verdict = play(task, state, "ls<Enter>")[1]
    assert (verdict.status, verdict.valid) == ("env_error", False)
    assert "led to another workspace" in verdict.reason


@held
def test_a_program_that_does_not_end_is_left_running_and_can_be_interrupted(monkeypatch):
    monkeypatch.setattr(terminal, "ACTION_SECONDS", 0.5)
    task, state = seated(1)
    state, verdict = play(task, state, "sleep 60<Enter>")
    assert verdict.valid
    assert not probes.probe_tier("T3").holds or "still running" in state.screen
    state = play(task, state, "<C-c>", "yes<Enter>", "<C-c>")[0]
    assert "still here" in shown(task, state, "clear; echo still here<Enter>")


@held
def test_wait_waits_for_what_comes():
    task, state = seated(1)
    state = play(task, state, "clear; (sleep 0.4; echo soon) &<Enter>")[0]
    assert "soon" not in task.observe(state)
    assert "soon" in task.observe(play(task, state, "<Wait>")[0])


@held
def test_line_editing_history_and_completion_work():
    task, state = seated(1)
    state = play(task, state, "mkdir a-long-name; clear<Enter>", "echo nw<BS>e<Left*2>o<Enter>")[0]
    assert "one" in task.observe(state).splitlines()
    assert shown(task, state, "<Up> two<Enter>")[-2] == "one two"
    assert shown(task, state, "cd a-<Tab><Enter>")[-1] == "~/a-long-name$"


@sees_processes
def test_jobs_are_stopped_and_brought_back():
    task, state = seated(1)
    state = play(task, state, "cat > kept.txt<Enter>one<Enter>", "<C-z>")[0]
    assert any("Stopped" in line for line in task.observe(state).splitlines())
    state = play(task, state, "fg<Enter>two<Enter><C-d>", "clear; cat kept.txt<Enter>")[0]
    assert task.observe(state).splitlines()[:2] == ["one", "two"]


@sees_processes
def test_a_command_that_takes_a_while_is_waited_for():
    task, state = seated(1)
    assert "late" in shown(task, state, "clear; sleep 0.3; sleep 0.3 | cat; echo late<Enter>")


BUSY_BETWEEN_WAITS = """import select, sys, time
wait = lambda: select.select([sys.stdin], [], [], 0.1)
wait()
while time.process_time() < 1.5: pass
wait()
print("late")
"""


@pytest.mark.slow
@sees_processes
def test_work_between_two_brief_waits_is_waited_for():
    task, state = seated(1)
    state = play(task, state, f"cat > busy.py<Enter>{write_keys(BUSY_BETWEEN_WAITS)}<C-d>")[0]
    assert shown(task, state, "clear; python3 busy.py<Enter>")[0] == "late"


def on_screen(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") is None]
    return pytest.mark.skipif(bool(missing), reason=f"{missing} not installed")


@pytest.mark.slow
@held
@on_screen("vi")
def test_vi_edits_a_file():
    task, state = seated(1)
    state = play(task, state, "vi new.txt<Enter>", "ione<Enter>two<Esc>", "kx", "<Esc>:wq<Enter>")[0]
    assert shown(task, state, "clear; cat new.txt<Enter>")[:2] == ["on", "two"]
    at_once = "clear; vi other.txt<Enter>ione<Esc>yyp:wq<Enter>clear; cat other.txt<Enter>"
    assert shown(task, state, at_once) == ["one", "one", "~$"]


@held
@on_screen("nano")
def test_nano_edits_a_file():
    task, state = seated(1)
    state = play(task, state, "nano new.txt<Enter>", "one<Enter>two", "<C-o><Enter><C-x>")[0]
    assert shown(task, state, "clear; cat new.txt<Enter>")[:2] == ["one", "two"]


@held
@on_screen("ed")
def test_ed_edits_a_file():
    task, state = seated(1)
    state = play(task, state, "ed new.txt<Enter>", "a<Enter>one<Enter>two<Enter>.<Enter>1d<Enter>w<Enter>q<Enter>")[0]
    assert shown(task, state, "clear; cat new.txt<Enter>")[0] == "two"


@held
@on_screen("less")
def test_less_pages_and_finds():
    task, state = seated(1)
    state = play(task, state, "seq 500 > numbers.txt; less numbers.txt<Enter>")[0]
    assert shown(task, state)[:2] == ["1", "2"]
    state = play(task, state, "<PgDn>")[0]
    assert str(ROWS) in shown(task, state)[:3]
    state = play(task, state, "/37<Enter>", "<Down*2>")[0]
    assert shown(task, state)[0] == "39"
    assert shown(task, state, "qclear; echo back<Enter>")[0] == "back"


@sees_processes
@on_screen("top", "ps")
def test_top_and_ps_see_the_sandbox_and_nothing_else():
    task, state = seated(1)
    state = play(task, state, "top<Enter>")[0]
    assert any("PID" in line for line in task.observe(state).splitlines())
    rows = shown(task, state, "q", "clear; ps -e -o comm= | sort -u | tr '\\n' ' '<Enter>")
    assert set(rows[0].partition("~$")[0].split()) <= {
        "bash",
        "python3",
        "python3.11",
        "ps",
        "sort",
        "tr",
        "python",
    } | {name for name in rows[0].split() if name.startswith("python")}


@held
def test_a_python_prompt_is_talked_to():
    task, state = seated(1)
    state = play(task, state, "python3 -q<Enter>", "x = 6<Enter>x * 7<Enter>")[0]
    assert "42" in task.observe(state).splitlines()
    assert shown(task, state, "<C-d>", "clear; echo out<Enter>")[0] == "out"


@held
@pytest.mark.parametrize(
    "reply", ["", " \n", "\x1b[A", "a\x00b", "x" * 5_000, "\ud800", "<think>ls", "ls<Enter><Done>"]
)
def test_what_cannot_be_typed_is_told_and_types_nothing(reply):
    task, state = seated(1)
    after, verdict = play(task, state, reply)
    assert (after.typed, verdict.status) == ((), "unparsable")
    assert after.problem in task.observe(after)
    assert after.problem not in task.observe(play(task, after, "<C-l>")[0])


@held
def test_a_sandbox_that_fails_is_no_zero(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise SandboxError("no room")

    monkeypatch.setattr(terminal, "shared", lambda **_: type("Broken", (), {"terminal": fail})())
    task, state = seated(1)
    assert play(task, state, "ls")[1].status == "env_error"


@held
def test_a_machine_too_busy_is_a_timeout(monkeypatch):
    monkeypatch.setattr(running, "PATIENCE", 0.0)
    monkeypatch.setattr(running, "patience", lambda: 0.0)
    monkeypatch.setattr(running, "_FIRST_LOOK", 0.0)
    task, state = seated(1)
    verdict = play(task, state, "ls<Enter>")[1]
    assert (verdict.status, verdict.valid) == ("timeout", False), verdict


@held
def test_many_terminals_at_once_lose_none():
    task = Terminal()
    states = [TerminalState(1 + seed % 4, seed, "") for seed in range(16)]
    with ThreadPoolExecutor(len(states)) as pool:
        assert [verdict.reward for _, verdict in pool.map(lambda state: solved(task, state), states)] == [1.0] * len(
            states
        )


def test_it_refuses_where_nothing_keeps_a_shell_in(monkeypatch):
    monkeypatch.setattr(probes, "require", lambda: "T2")
    monkeypatch.setattr(terminal.plans, "can_mount", lambda: False)
    with pytest.raises(SandboxUnavailable, match="permissions"):
        gym.make("rlvr/Terminal-v0")


def test_the_system_prompt_names_keys_that_there_are():
    named = {name for name in keys.NAMES if f"<{name}>" in Terminal.system}
    assert {"Enter", "Tab", "Esc", "Up", "Lt"} <= named
