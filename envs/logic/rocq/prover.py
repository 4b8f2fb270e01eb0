"""Rocq in the sandbox: how far a script goes, and whether what it proves is the theorem.

Three programs, none of which sees another's folder. The first compiles the statement alone, before any script is there.
The second compiles a script behind it, and hands out the compiled proof. The third has the two compiled files and not
the script: it checks that the proof has the statement's type, lists the axioms, and has ``coqchk``, which knows no
tactics, check all of it again.
"""

from __future__ import annotations

import binascii
import re
import shutil
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from rlvr.envs.sandbox import Limits, Result, SandboxDied, SandboxUnavailable, probes, shared

LIMITS: Final = Limits(seconds=15.0, memory_mb=1536, processes=8)
MAX_SHOWN: Final = 3_000  # characters of goals and of messages
CLOSED: Final = "Closed under the global context"
_PROGRAMS: Final = ("coqc", "coqchk")
_WITHIN: Final = ("/usr/", "/nix/store/", "/gnu/store/")  # what a sandbox sees
_FINDLIB: Final = Path("/etc/ocamlfind.conf")  # it does not see this, and Rocq asks for it
_COMPILE: Final = "coqc -q -w none -noglob -native-compiler no -Q . Rlvr"
_ERROR: Final = re.compile(r'File "\./(\w+)\.v", line ([0-9]+), characters [0-9]+-[0-9]+:\nError:(.*)', re.DOTALL)
_AXIOM: Final = re.compile(r"([\w.']+)(?: :.*)?", re.ASCII)
_UNFINISHED: Final = "incomplete proof"


class RocqStatement(NamedTuple):
    """What is to be proved: sentences that stand in every file (imports, scopes), definitions, and a proposition."""

    header: str
    definitions: str
    proposition: str

    def __str__(self) -> str:
        parts = (self.header, self.definitions, f"Theorem the_theorem : {self.proposition}.\nProof.")
        return "\n\n".join(part for part in parts if part)


class Attempt(NamedTuple):
    """How far a script went: how many sentences stand, the compiled proof if it is whole, and what the prover said.

    ``error`` is None where every sentence stands; after a limit ``standing`` is -1.
    """

    standing: int
    proof: bytes | None = None
    error: str | None = None


class StatementError(ValueError):
    """Rocq does not take the statement itself."""


def require() -> None:
    """Fail unless Rocq can be run in a sandbox here.

    Raises:
        SandboxUnavailable: no tier holds, or a program is missing.
    """
    probes.require()
    for name in _PROGRAMS:
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found is None or not str(Path(found).resolve()).startswith(_WITHIN):
            raise SandboxUnavailable(
                f"rlvr/Rocq-v0 needs the program {name} of the Rocq prover below /usr: apt-get install coq"
            )


@lru_cache(maxsize=256)
def compiled_statement(statement: RocqStatement) -> bytes:
    """The compiled file of the definitions and the statement.

    Raises:
        StatementError: Rocq refuses it.
        SandboxError: the sandbox failed.
    """
    source = (
        f"{statement.header}\n{statement.definitions}\nDefinition the_statement : Prop := {statement.proposition}.\n"
    )
    result = _run(f"{_COMPILE} Task.v >&2 && base64 -w0 Task.vo", {"Task.v": source})
    if not result.ok:
        raise StatementError(f"Rocq does not take the statement: {_message(result)}")
    return binascii.a2b_base64(result.stdout)


def attempt(statement: RocqStatement, script: list[str]) -> Attempt:
    """Run a script, a sentence a line, up to the first that fails.

    Raises:
        StatementError: Rocq refuses the statement.
        SandboxError: the sandbox failed.
    """
    result = _run(f"{_COMPILE} Answer.v >&2 && base64 -w0 Answer.vo", _files(statement, [*script, "Qed."]))
    if result.ok:
        return Attempt(len(script), binascii.a2b_base64(result.stdout))
    found = _ERROR.search(result.stderr)
    if found is None:  # a limit: no sentence is known to be the one
        return Attempt(-1, error=_message(result))
    standing = int(found[2]) - _opening(statement).count("\n") - 1
    if standing == len(script) and _UNFINISHED in found[3]:
        return Attempt(standing)
    return Attempt(standing, error=_message(result))


def goals(statement: RocqStatement, script: list[str]) -> str:
    """The goals that a script leaves, all of whose sentences stand.

    Raises:
        SandboxError: the sandbox failed.
    """
    lines = [*script, 'Redirect "goals" Show.', "Abort."]
    return _run(f"{_COMPILE} Answer.v >/dev/null 2>&1; cat goals.out", _files(statement, lines)).stdout.strip()


def certified(statement: RocqStatement, proof: bytes, axioms: frozenset[str]) -> str:
    """Why a compiled proof is none of the statement; empty if it is one, by no other axioms than these.

    Raises:
        SandboxError: the sandbox failed.
    """
    check = (
        "Require Rlvr.Task Rlvr.Answer.\n"
        "Definition answer : Rlvr.Task.the_statement := Rlvr.Answer.the_theorem.\n"
        'Redirect "axioms" Print Assumptions answer.\n'
    )
    files: dict[str, str | bytes] = {"Check.v": check, "Task.vo": compiled_statement(statement), "Answer.vo": proof}
    modules = " ".join(f"-norec Rlvr.{name}" for name in ("Task", "Answer", "Check"))
    result = _run(f"{_COMPILE} Check.v >&2 && coqchk -silent -Q . Rlvr {modules} >&2 && cat axioms.out", files)
    if not result.ok:
        return f"the compiled proof is not one of the statement: {_message(result)}"
    return _unlisted(result.stdout.strip(), axioms)


def _unlisted(printed: str, axioms: frozenset[str]) -> str:
    """What a list of assumptions holds beside the axioms that are allowed."""
    if printed == CLOSED:
        return ""
    title, *lines = printed.split("\n")
    named = [_AXIOM.fullmatch(line) for line in lines if line[:1].strip()]
    if title != "Axioms:" or not all(named):  # a fixpoint without a guard, a type in itself
        return f"the proof rests on what is not proved: {printed[:300]}"
    strange = [each[1] for each in named if each and each[1] not in axioms]
    return f"the proof uses the axiom {strange[0]}" if strange else ""


def _opening(statement: RocqStatement) -> str:
    return f"{statement.header}\nRequire Import Rlvr.Task.\nTheorem the_theorem : {statement.proposition}.\nProof.\n"


def _files(statement: RocqStatement, lines: list[str]) -> dict[str, str | bytes]:
    return {
        "Answer.v": _opening(statement) + "\n".join(lines) + "\n",
        "Task.vo": compiled_statement(statement),
    }


def _message(result: Result) -> str:
    """What the prover complains of, without the file's name."""
    if result.status not in ("ok", "error"):
        return f"the prover was ended: {result.status.replace('_', ' ')}"
    found = _ERROR.search(result.stderr)
    return " ".join((found[3] if found else result.stderr).split())[:MAX_SHOWN]


def _run(command: str, files: Mapping[str, str | bytes]) -> Result:
    """A program that is tried again where it may have brought the sandbox down by itself."""
    findlib = {"findlib.conf": _FINDLIB.read_text(encoding="utf-8")} if _FINDLIB.exists() else {}
    env = {"OCAMLFIND_CONF": "findlib.conf"} if findlib else {}
    for number in count():
        try:
            return shared().run_shell(command, files={**files, **findlib}, limits=LIMITS, env=env)
        except SandboxDied as died:
            if not died.try_again(number, late=False):
                break
    return Result("killed", None, "", "", 0.0, 0.0, "T2")
