"""Rows of tests for programs as data sets publish them, brought into the forms of ``rlvr.envs.rewards.graders.code``.

- APPS (arXiv 2105.09938): ``{"inputs": […], "outputs": […]}``, with ``fn_name`` where a function is called.
- LiveCodeBench (arXiv 2403.07974): a list of ``{"input", "output", "testtype"}``, or the row that has it as
  ``public_test_cases`` and ``private_test_cases``, and the function's name in ``metadata``.
- SYNTHETIC-1: ``{"language": "python", "test_cases": [{"type", "input", "output", "fn_name"}, …]}``.

LiveCodeBench packs private tests with pickle. No pickle is executed here: one that holds a text is read byte by byte.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rlvr.envs.core.json_text import load_json
from rlvr.envs.rewards.errors import BadReference

MAX_UNPACKED: Final = 256 << 20  # bytes of one row's packed tests
_PROTO, _FRAME, _STOP = 0x80, 0x95, 0x2E
_TEXTS: Final = {0x8C: 1, 0x58: 4, 0x8D: 8}  # opcode -> bytes of the length that follows it
_NOTES: Final = {0x94: 0, 0x71: 1, 0x72: 4}  # opcode that keeps the text for later -> bytes of its argument


def normalized_row(row: Any, metadata: Any = None) -> Mapping[str, Any]:
    """The row in one of the grader's own forms; such a row comes back as it is.

    Args:
        row: in a published form, or as JSON text.
        metadata: of LiveCodeBench, where the row is a list of tests: names the function.

    Raises:
        BadReference: it has none of the forms.
    """
    row = _read(row)
    if isinstance(row, list):
        return _of_cases(row, metadata)
    if not isinstance(row, Mapping):
        raise BadReference(f"tests are a mapping, or a list of LiveCodeBench's, got {type(row).__name__}")
    if "public_test_cases" in row or "private_test_cases" in row:
        lists = [_read(row.get(name) or []) for name in ("public_test_cases", "private_test_cases")]
        return _of_cases([case for cases in lists for case in cases], row.get("metadata", metadata))
    if "test_cases" in row:
        return _of_cases(row["test_cases"], metadata)
    if "inputs" in row and "outputs" in row:
        inputs, outputs = row["inputs"], row["outputs"]
        if len(inputs) != len(outputs):
            raise BadReference(f"{len(inputs)} inputs but {len(outputs)} outputs")
        pairs = list(zip(inputs, outputs, strict=True))
        if row.get("fn_name"):
            return _called(row["fn_name"], [(given, _values(value)) for given, value in pairs])
        return {"tests": [{"stdin": _text(given), "stdout": _text(printed)} for given, printed in pairs]}
    return row


def _of_cases(cases: Sequence[Any], metadata: Any) -> Mapping[str, Any]:
    """Tests that each say of what kind they are."""
    if not cases or not all(isinstance(case, Mapping) and {"input", "output"} <= case.keys() for case in cases):
        raise BadReference("a list of tests needs at least one, and 'input' and 'output' in each")
    pairs = [(case["input"], case["output"]) for case in cases]
    kinds = {str(case.get("testtype") or case.get("type") or "stdin") for case in cases}
    if kinds <= {"stdin", "stdin_stdout"}:
        return {"tests": [{"stdin": _text(given), "stdout": _text(printed)} for given, printed in pairs]}
    if not kinds <= {"functional", "function_call"}:
        raise BadReference(f"tests are of one kind, stdin or functional, got {', '.join(sorted(kinds))}"[:200])
    named = _read(metadata) if metadata else {}
    name = cases[0].get("fn_name") or (named.get("func_name") if isinstance(named, Mapping) else None)
    if not name:
        raise BadReference("functional tests need the function's name: the row's metadata has it as func_name")
    if kinds == {"functional"}:  # a line of JSON for each argument
        return _called(name, [(list(map(_json, given.split("\n"))), [_json(value)]) for given, value in pairs])
    return _called(name, [(given, _values(value)) for given, value in pairs])


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
    """What a JSON text or LiveCodeBench's packed tests hold; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return load_json(value if value.lstrip()[:1] in ("{", "[") else _unpacked(value))
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
