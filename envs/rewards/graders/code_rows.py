"""Rows of tests for programs as data sets publish them, brought into the forms of ``rlvr.envs.rewards.graders.code``.

- APPS (arXiv 2105.09938), TACO: ``{"inputs": […], "outputs": […]}``, with ``fn_name`` where a function is called.
- LiveCodeBench (arXiv 2403.07974), ``code_generation_lite``: the columns ``public_test_cases`` (JSON) and
  ``private_test_cases`` (JSON, or packed: JSON, pickled, compressed by zlib, in base64), each a list of
  ``{"input", "output", "testtype"}``, and ``metadata`` (JSON) with ``func_name`` where the type is ``functional``:
  there ``input`` has an argument on each line, and both are JSON. DeepCoder's rows have ``metadata`` in each test.
- SYNTHETIC-1 and what was made of it: ``verification_info``, the ``str`` of a Python dict or an object,
  ``{"language": "python", "test_cases": [{"type", "input", "output", "fn_name"}, …]}``, where ``type`` is
  ``stdin_stdout`` or ``function_call``; ``test_cases`` may be JSON text in APPS' form, as in INTELLECT-2's.

LiveCodeBench packs private tests with pickle. No pickle is executed here: one that holds a text is read byte by byte.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlvr.envs.core.json_text import load_json, load_json_or_literal
from rlvr.envs.rewards.errors import BadReference

MAX_UNPACKED: Final = 256 << 20  # bytes of one row's packed tests
LCB_COLUMNS: Final = ("public_test_cases", "private_test_cases")
PYTHON: Final = "python"
_PROTO, _FRAME, _STOP = 0x80, 0x95, 0x2E
_TEXTS: Final = {0x8C: 1, 0x58: 4, 0x8D: 8}  # opcode -> bytes of the length that follows it
_NOTES: Final = {0x94: 0, 0x71: 1, 0x72: 4}  # opcode that keeps the text for later -> bytes of its argument


def normalized_row(row: Any, columns: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The row in one of the grader's own forms; such a row comes back as it is.

    Args:
        row: in a published form, or as text of JSON or of a Python literal.
        columns: those of the table that ``row`` is one of. LiveCodeBench's ``metadata`` names the function, and all
            tests of its two columns count, whichever of them ``row`` is.

    Raises:
        BadReference: it has none of the forms.
    """
    columns = columns or {}
    if columns.keys() >= set(LCB_COLUMNS) and row in (columns[name] for name in LCB_COLUMNS):
        row = {name: columns[name] for name in LCB_COLUMNS}
    row = _read(row)
    if isinstance(row, list):
        return _of_cases(row, columns.get("metadata"))
    if not isinstance(row, Mapping):
        raise BadReference(f"tests are a mapping, or a list of LiveCodeBench's, got {type(row).__name__}")
    if not row.keys().isdisjoint(LCB_COLUMNS):
        lists = [_read(row.get(name) or []) for name in LCB_COLUMNS]
        return _of_cases([case for cases in lists for case in cases], row.get("metadata") or columns.get("metadata"))
    if "test_cases" in row:
        return _of_verification_info(row, columns)
    if "inputs" in row and "outputs" in row:
        inputs, outputs = row["inputs"], row["outputs"]
        if len(inputs) != len(outputs):
            raise BadReference(f"{len(inputs)} inputs but {len(outputs)} outputs")
        pairs = list(zip(inputs, outputs, strict=True))
        if row.get("fn_name"):
            return _called(row["fn_name"], [(case_input, _values(value)) for case_input, value in pairs])
        return {"tests": [{"stdin": _text(case_input), "stdout": _text(printed)} for case_input, printed in pairs]}
    return row


def _of_verification_info(row: Mapping[str, Any], columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """SYNTHETIC-1's tests; those of programs in other languages cannot be run."""
    language = str(row.get("language") or PYTHON)
    if language.lower() not in (PYTHON, "python3"):
        raise BadReference(
            f"the tests are of a program in {language:.40}, and only Python is run: choose rows by where=…"
        )
    cases = _read(row["test_cases"])
    if isinstance(cases, Mapping):
        return normalized_row({**cases, "fn_name": cases.get("fn_name") or row.get("fn_name")})
    return _of_cases(cases, row.get("metadata") or columns.get("metadata"))


def _of_cases(cases: Sequence[Any], metadata: Any) -> Mapping[str, Any]:
    """Tests that each say of what kind they are."""
    if not cases or not all(isinstance(case, Mapping) and {"input", "output"} <= case.keys() for case in cases):
        raise BadReference("a list of tests needs at least one, and 'input' and 'output' in each")
    pairs = [(case["input"], case["output"]) for case in cases]
    kinds = {str(case.get("testtype") or case.get("type") or "stdin") for case in cases}
    if kinds <= {"stdin", "stdin_stdout"}:
        return {"tests": [{"stdin": _text(inputs), "stdout": _text(printed)} for inputs, printed in pairs]}
    if not kinds <= {"functional", "function_call"}:
        raise BadReference(f"tests are of one kind, stdin or functional, got {', '.join(sorted(kinds))}"[:200])
    names = {case.get("fn_name") or _function_of(case.get("metadata")) or _function_of(metadata) for case in cases}
    name = names.pop()
    if names or not name:
        raise BadReference("functional tests need one function's name: the row's metadata has it as func_name")
    if kinds == {"functional"}:  # a line of JSON for each argument
        return _called(name, [(list(map(_json, inputs.split("\n"))), [_json(value)]) for inputs, value in pairs])
    return _called(name, [(inputs, _values(value)) for inputs, value in pairs])


def _function_of(metadata: Any) -> Any:
    named = _read(metadata) if metadata else None
    return named.get("func_name") if isinstance(named, Mapping) else None


def _called(name: str, pairs: Sequence[tuple[Any, list[Any]]]) -> Mapping[str, Any]:
    """Calls of a function, or of a method of ``Solution``: arguments, and the values of which each is right."""
    tests = [{"args": _read(arguments), "any_of": values} for arguments, values in pairs]
    return {"entry_point": f"Solution.{name}", "tests": tests}


def _values(value: Any) -> list[Any]:
    """What APPS' own judge takes for right: the value, and where it is a list of one, what is in it."""
    return [value, value[0]] if isinstance(value, list) and len(value) == 1 else [value]


def _json(text: str) -> Any:
    try:
        return load_json(text)
    except (ValueError, TypeError) as error:
        raise BadReference(f"a functional test holds no JSON: {error}"[:300]) from None


def _text(value: Any) -> str | bytes:
    """A stream's text, which some rows have as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, (str, bytes)):
        raise BadReference(f"standard input and output are text, got {value!r}"[:200])
    return value


def _read(value: Any) -> Any:
    """What a text of JSON, a Python literal or LiveCodeBench's packed tests hold; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return load_json_or_literal(value) if value.lstrip()[:1] in ("{", "[") else load_json(_unpacked(value))
    except ValueError as error:
        raise BadReference(f"the tests are neither JSON nor packed as LiveCodeBench does: {error}"[:300]) from None


def _unpacked(text: str) -> str:
    try:
        packed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        data = stream.decompress(packed, MAX_UNPACKED)
    except (binascii.Error, zlib.error) as error:
        raise BadReference(str(error)) from None
    if not stream.eof:
        raise BadReference(f"they are cut off, or hold over {MAX_UNPACKED >> 20} MiB")
    return unpickled_text(data)


def unpickled_text(data: bytes) -> str:
    """The text of a pickle that holds one text and nothing else; no pickle is ever executed.

    Raises:
        BadReference: it holds anything else.
    """
    at, text = 0, None
    if data[:1] == bytes([_PROTO]):
        at = 2
    while at < len(data):
        code, at = data[at], at + 1
        if code == _FRAME:
            at += 8
        elif code in _TEXTS and text is None:
            start = at + _TEXTS[code]
            at = start + int.from_bytes(data[at:start], "little")
            if at > len(data):
                break
            try:
                text = data[start:at].decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                break
        elif code in _NOTES and text is not None:
            at += _NOTES[code]
        elif code == _STOP and text is not None and at == len(data):
            return text
        else:
            break
    raise BadReference("the pickle holds something else than one text, and is not executed")
