"""Kits: the tools that need something live, an interpreter or a folder, and how it is opened and closed.

``rlvr.envs.tools.registry`` names those that need no arguments.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from rlvr.envs.endpoint import Endpoint
from rlvr.envs.rewards.expressions.arithmetic import evaluate
from rlvr.envs.sandbox import Limits, SandboxError, SandboxStarved, shared
from rlvr.envs.sandbox.sandbox import SandboxSession as Interpreter
from rlvr.envs.tools.functions.portable import NeedsThisProcess, portable_copy
from rlvr.envs.tools.functions.processes import FunctionProcesses, WorkerEnded
from rlvr.envs.tools.search import DenseIndex, Document, Index
from rlvr.envs.tools.sql import FileConnection, guard, written
from rlvr.envs.tools.sql import query as select
from rlvr.envs.tools.tool import NotInTime, Tool, ToolError, ToolFault, tool

MAX_SHOWN_ROWS: Final = 50


class Kit:
    """Tools that share something live. A subclass sets ``tools``; each function is handed what ``open`` gave.

    Attributes:
        tools: what the policy may call.
        remembers: whether a call changes what later ones say; then a forked or restored episode makes its calls
            again in a fresh session before it goes on. Where one of them says something else, the next call is not
            carried out: the policy is told, and goes on without what its calls made.
    """

    tools: Sequence[Tool] = ()
    remembers: bool = False

    def require(self) -> None:
        """Fail now, with one clear message, if the kit cannot work on this machine."""

    def open(self) -> Any:
        """A fresh session for one episode.

        Raises:
            ToolFault: it cannot be had.
        """
        return None

    def run(self, session: Any, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """Carry out one call within so many seconds.

        Raises:
            ToolError: the call makes no sense; the message is for the policy.
            ToolFault: the tool failed, or did not end in time.
        """
        return str(used.function(session, **arguments))

    def close(self, session: Any) -> None:
        """Leave nothing behind of a session."""

    def shut(self) -> None:
        """Leave nothing behind of the kit, and wait until that is so; it may be used again."""


class Functions(Kit):
    """Plain functions without memory; each call is given up at its deadline.

    What a function raises is told to the policy, and so is that it did not end in time: its arguments are the policy's.
    A function whose backend is gone raises ``ToolFault``.

    A function that uses nothing but its arguments, constants, the standard library and functions that use no more runs
    in a process of its own, which is killed at the deadline, also in a ``10**10**8`` or a regular expression that
    backtracks. Any other runs in a thread of this process, in which an exception is raised at the deadline. C code that
    never lets go of the interpreter's lock cannot be given up there: serve such a tool by ``MCP``.

    Args:
        functions: typed, with a docstring; see ``tool``.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.tools = [tool(function) for function in functions]
        self._forget()

    def _forget(self) -> None:
        self._lock, self._owner = threading.Lock(), os.getpid()
        self._processes: FunctionProcesses | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"tools": self.tools}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @cached_property
    def _plain(self) -> Mapping[str, Callable[..., Any]]:
        """Copies of the functions that run in another process as they do here."""
        copies = {}
        for each in self.tools:
            with suppress(NeedsThisProcess):
                copies[each.name] = portable_copy(each.function)
        return copies

    def run(self, session: Any, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """Calls the function, without a session, in a process of its own where it can, else in a thread."""
        if used.name in self._plain:
            with suppress(ValueError):  # an argument that cannot be sent
                return self._in_process(used.name, arguments, seconds)
        return within(seconds, used.name, lambda: str(used.function(**arguments)))

    def _in_process(self, name: str, arguments: Mapping[str, Any], seconds: float) -> str:
        for last in (False, True):
            processes = self._started()
            try:
                kind, text, status = processes.call(name, arguments, seconds)
            except TimeoutError:
                raise _late(name, seconds) from None
            except WorkerEnded as error:
                raise ToolError(str(error)) from error
            except OSError as error:  # somebody has killed who forks the workers
                self.shut()
                if last:
                    raise ToolFault(f"no process can be had for it: {error}") from error
                continue
            if kind == "ToolFault":
                raise ToolFault(text, status)
            if kind != "returned":
                raise ToolError(text if kind == "ToolError" else f"{name}: {text}")
            return text
        raise AssertionError("the second try returns or raises")

    def _started(self) -> FunctionProcesses:
        if self._owner != os.getpid():  # a fork: what runs belongs to the parent, and so may whoever holds the lock
            self._forget()
        import cloudpickle

        with self._lock:
            if self._processes is None:
                try:
                    self._processes = FunctionProcesses(cloudpickle.dumps(self._plain))
                except OSError as error:
                    raise ToolFault(f"no process can be had for it: {error}") from error
            return self._processes

    def shut(self) -> None:
        """Ends the processes; the next call starts others."""
        if self._owner == os.getpid():
            with self._lock:
                processes, self._processes = self._processes, None
            if processes is not None:
                processes.close()


def _late(name: str, seconds: float) -> NotInTime:
    return NotInTime(f"{name} did not end within {seconds:g} s")


def within(seconds: float, name: str, work: Callable[[], str]) -> str:
    """What some work gives, in a thread that is given up when time is up.

    Raises:
        NotInTime: it did not end in time.
        ToolError: it raised something else than a ``ToolFault``.
        ToolFault: it raised that.
    """
    outcome: list[Any] = []

    def carry_on() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=carry_on, name=f"rlvr-tool-{name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        raise _late(name, seconds)
    if isinstance(outcome[0], ToolError | ToolFault):
        raise outcome[0]
    if isinstance(outcome[0], BaseException):
        raise ToolError(f"{name}: {type(outcome[0]).__name__}: {outcome[0]}") from outcome[0]
    return str(outcome[0])


def calculator(expression: str) -> str:
    """Work out an expression exactly.

    Args:
        expression: numbers with + - * / and brackets; fractions stay fractions.
    """
    try:
        return str(evaluate(expression))
    except (ValueError, ZeroDivisionError) as error:
        raise ToolError(str(error)) from None


# The tools of a workspace: each gives the program that its interpreter then runs.


def python(code: str) -> str:
    """Run Python code. Names stay from call to call; print what you want to see. Work left in the background goes on
    during later calls only.

    Args:
        code: the code; a last line that is an expression is printed.
    """
    return code


def shell(command: str) -> str:
    """Run a command of the shell in the working folder. Work left in the background goes on during later calls only.

    Args:
        command: what sh -c is given.
    """
    return (
        "import subprocess as _s\n"
        f"_r = _s.run(['sh', '-c', {command!r}], stdin=_s.DEVNULL, stdout=_s.PIPE, stderr=_s.STDOUT)\n"
        "print(_r.stdout.decode('utf-8', 'replace'), end='')\n"
        "if _r.returncode: print(f'[exit status {_r.returncode}]')\n"
    )


def read_file(path: str) -> str:
    """Show a file of the working folder.

    Args:
        path: relative to the folder.
    """
    return f"print(open({path!r}, encoding='utf-8', errors='replace').read(), end='')"


def write_file(path: str, content: str) -> str:
    """Write a file of the working folder, over what was there.

    Args:
        path: relative to the folder.
        content: the whole text.
    """
    return (
        f"import os as _o\n_o.makedirs(_o.path.dirname({path!r}) or '.', exist_ok=True)\n"
        f"with open({path!r}, 'w', encoding='utf-8') as _f:\n"
        f"    print(_f.write({content!r}), 'characters written')"
    )


COMPUTES = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < {}: pass"


class Workspace(Kit):
    """An interpreter and a folder in the sandbox, both kept from call to call; no network.

    Args:
        names: which of python, shell, read_file and write_file the policy gets.
        files: what the folder holds at the beginning, by relative path.
        limits: of the whole session; a call's deadline is the shorter of its own and ``limits.seconds``.
    """

    remembers = True
    _known: ClassVar[Mapping[str, Callable[..., str]]] = {
        function.__name__: function for function in (python, shell, read_file, write_file)
    }

    def __init__(self, *names: str, files: Mapping[str, str] | None = None, limits: Limits | None = None) -> None:
        unknown = [name for name in names if name not in self._known]
        if unknown or not names:
            raise ValueError(f"a workspace has {', '.join(self._known)}; asked for were {names}")
        self.tools = [tool(self._known[name]) for name in names]
        self.files = dict(files or {})
        self.limits = limits or Limits()

    def require(self) -> None:
        """Makes the shared sandbox, which raises what keeps it from holding here."""
        shared()

    def open(self) -> list[Interpreter | None]:
        """An interpreter in a one-element list, so that ``run`` can put another in its place."""
        return [self._interpreter()]

    def _interpreter(self) -> Interpreter:
        try:
            return shared().session(self.limits, self.files)
        except SandboxError as error:
            raise ToolFault(f"the sandbox: {error}") from error

    def run(self, session: list[Interpreter | None], used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """``session`` holds the interpreter; None once one has ended and the policy was told so: then it gets another.

        Raises:
            ToolFault: the sandbox failed, also on a program of ours.
        """
        interpreter = session[0] = session[0] or self._interpreter()
        text, how = "", "" if interpreter.alive else "between calls"  # by what an earlier call has left behind
        try:
            if not how:
                result = interpreter.run(used.function(**arguments), min(seconds, self.limits.seconds))
                text, how = result.stdout + result.stderr, result.status.replace("_", " ")
        except SandboxError as error:
            interpreter.close()  # with what the policy left running in it
            self._require_sandbox(error)
            how = "it did not answer"
        if not interpreter.alive:
            interpreter.close()
            session[0] = None
            text += f"\nerror: the interpreter was ended ({how}); the next call gets a new one, in a new folder"
        return text.strip("\n") or "(no output)"

    def _require_sandbox(self, error: SandboxError) -> None:
        """Run a program of ours in a fresh interpreter, where the policy's has broken its own.

        Raises:
            ToolFault: that fails, too.
        """
        fresh = self._interpreter()
        # Whether a machine is too busy shows on a program that computes.
        control = COMPUTES.format(self.limits.seconds / 2) if isinstance(error, SandboxStarved) else "0"
        try:
            fresh.run(control, self.limits.seconds)
        except SandboxError:
            status = "timeout" if isinstance(error, SandboxStarved) else "env_error"
            raise ToolFault(f"the sandbox: {error}", status) from error
        finally:
            fresh.close()

    def close(self, session: list[Interpreter | None]) -> None:
        """Ends the interpreter, if the last call has not ended it."""
        if session[0] is not None:
            session[0].close()


def search(index: Index | DenseIndex, query: str, limit: int = 5) -> str:
    """Search the documents; gives titles and first words of the best.

    Args:
        query: words to look for.
        limit: how many to list, from 1 to 20.
    """
    documents = index.search(query, limit)
    return (
        "\n".join(f"{n}. {title}: {text[:200]}" for n, (title, text) in enumerate(documents, 1)) or "nothing was found"
    )


def read_document(index: Index | DenseIndex, title: str) -> str:
    """Read a document.

    Args:
        title: its title, as a search lists it.
    """
    if title not in index.by_title:
        raise ToolError(f"there is no document {title[:80]!r}: search for it first")
    return index.by_title[title].text


class Search(Kit):
    """Searching in documents, and reading them: with BM25, or by the nearness of embeddings.

    Args:
        documents: what is searched; ``rlvr.envs.tools.search.load_documents`` reads a folder or a JSONL file.
        embeddings: an OpenAI-compatible endpoint, ``rlvr.envs.endpoint.Endpoint``, to embed documents (now)
            and queries with; BM25 if None. Where it answers neither a search nor a query of ours, the episode ends
            as invalid.

    Raises:
        rlvr.envs.endpoint.EndpointError: the endpoint does not embed the documents.
    """

    def __init__(self, documents: Sequence[Document], *, embeddings: Endpoint | None = None) -> None:
        self.tools = [tool(search, given=1), tool(read_document, given=1)]
        self.index = Index(documents) if embeddings is None else DenseIndex(documents, embeddings)

    def open(self) -> Index | DenseIndex:
        """The index itself: it never changes, so all episodes share it."""
        return self.index

    def run(self, session: Any, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """A dense index asks an endpoint, so its calls have a deadline; BM25 runs at once."""
        if isinstance(session, DenseIndex):  # somebody else's machine: it may hang
            try:
                return within(seconds, used.name, lambda: str(used.function(session, **arguments)))
            except ToolError as error:
                if used.name == "search":
                    _require_answer(session, seconds, error)
                raise
        return super().run(session, used, arguments, seconds)


def _require_answer(index: DenseIndex, seconds: float, error: ToolError) -> None:
    """Have a query of ours embedded, where the policy's was not.

    Raises:
        ToolFault: it is not, either.
    """
    try:
        within(seconds, "search", lambda: str(len(index.search("control", 1))))
    except ToolError:
        raise ToolFault(f"{error}, and no other query is answered") from error


def query(connection: sqlite3.Connection, sql: str) -> str:
    """Query the database.

    Args:
        sql: one SELECT statement of SQLite.
    """
    return written(select(connection, sql), MAX_SHOWN_ROWS)


def schema(connection: sqlite3.Connection) -> str:
    """Show the tables of the database and their columns."""
    rows = select(connection, "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name").rows
    return ";\n".join(str(row[0]) for row in rows if row[0]) or "there are no tables"


class SQLite(Kit):
    """Reading a SQLite database: one SELECT at a time, within limits of work and size; nothing can be changed.

    Args:
        path: the file of the database.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no database.
    """

    def __init__(self, path: str | Path) -> None:
        self.tools = [tool(query, given=1), tool(schema, given=1)]
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no database {path}")
        try:
            self.open().close()
        except ToolFault as fault:
            raise ValueError(str(fault)) from None

    def open(self) -> FileConnection:
        """A read-only connection under the guard of ``rlvr.envs.tools.sql``; ``ToolFault`` if it is no database."""
        address = f"{self.path.as_uri()}?mode=ro"
        try:
            connection: FileConnection = sqlite3.connect(
                address, uri=True, check_same_thread=False, timeout=1.0, factory=FileConnection
            )
            connection.path = self.path
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
            return guard(connection)
        except sqlite3.Error as error:
            raise ToolFault(f"{self.path} cannot be read as a database: {error}") from error

    def run(self, session: Any, used: Tool, arguments: Mapping[str, Any], seconds: float) -> str:
        """Interrupts the statement when ``seconds`` are over."""
        timer = threading.Timer(seconds, session.interrupt)
        timer.daemon = True
        timer.start()
        try:
            return super().run(session, used, arguments, seconds)
        finally:
            timer.cancel()

    def close(self, session: sqlite3.Connection) -> None:
        """Closes the connection; the file is never written."""
        session.close()
