"""Steps on settings of programs; on codes, checksums and keys; and on recorded messages of HTTP."""

from __future__ import annotations

import base64
import codecs
import gzip
import hashlib
import hmac
import itertools
import random
import urllib.parse
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from rlvr.envs.agentic.chore_kinds.draft import (
    PLAIN,
    SUFFIXES,
    ChoreDraft,
    Derive,
    Edit,
    Open,
    StepKind,
    WorkItem,
    fresh,
    pick,
    render,
)  # fmt: skip
from rlvr.envs.agentic.chores import WORDS, Presses, lines

Pairs = tuple[tuple[str, str], ...]


# configuration


def _key(rng: random.Random, pairs: Pairs) -> dict[str, Any]:
    """A key, its value, and another value of the same kind."""
    key, value = rng.choice(pairs)
    return {"k": key, "v": rng.randint(2, 9_999) if value.isdigit() else rng.choice(WORDS)}


def _new_key(rng: random.Random, pairs: Pairs) -> dict[str, Any]:
    return {"k": pick(rng, [key for key in ("debug", "verbose", "dry_run", "colour") if key not in dict(pairs)]),
            "v": rng.choice(("on", "off"))}  # fmt: skip


def _only_key(rng: random.Random, pairs: Pairs) -> dict[str, Any]:
    return {"k": rng.choice(pairs)[0]}


def _with(pairs: Pairs, k: str, v: Any) -> Pairs:
    return tuple((key, str(v) if key == k else value) for key, value in pairs)


def _without(pairs: Pairs, k: str) -> Pairs:
    return tuple(pair for pair in pairs if pair[0] != k)


SETTINGS = (
    Edit("set a key", "settings", "In @a set @k to @v.", "sed -i 's/^@k = .*/@k = @v/' @a", _with, _key),
    Edit("delete a key", "settings", "Delete the line of the key @k from @a.", "sed -i '/^@k = /d' @a",
        _without, _only_key),
    Edit("add a key", "settings", "Add the line '@k = @v' at the end of @a.", "echo '@k = @v' >> @a",
         lambda p, k, v: (*p, (k, v)), _new_key),
    Derive("value of a key", "settings", "value", "the value of the key @k in @a, and nothing else,",
           "sed -n 's/^@k = //p' @a", lambda p, k: dict(p)[k], _only_key),
    Derive("sort keys", "settings", "settings", "the lines of @a, sorted by their keys,", "LC_ALL=C sort @a",
           lambda p: tuple(sorted(p))),
    Derive("variables", "settings", "text", "for each line 'key = value' of @a a line 'export KEY=value', with the "
           "key in capitals,", "awk '{print \"export \" toupper($1) \"=\" $3}' @a",
           lambda p: tuple(f"export {key.upper()}={value}" for key, value in p)),
    Derive("settings to csv", "settings", "table", "the settings in @a as a table with the heading 'key,value', in "
           "their order,", "(echo key,value; sed 's/ = /,/' @a)", lambda p: (("key", "value"), *p)),
    Derive("numeric settings", "settings", "settings", "those lines of @a whose values are whole numbers",
           "grep -E '= [0-9]+$' @a", lambda p: tuple(pair for pair in p if pair[1].isdigit())),
    Derive("settings to json", "settings", "objects", "Turn @a into @b, a JSON list with an object for each line: "
           "its keys are key and value, and both values are strings.", "python3 -c \"import json; "
               "print(json.dumps([dict(zip(('key', 'value'), l.rstrip().split(' = '))) for l in open('@a')]))\"",
           lambda p: [{"key": key, "value": value} for key, value in p]),
)  # fmt: skip


def _overrides(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    changed = dict(draft.rng.sample(item.data, 3))
    changed = {key: str(draft.rng.randint(2, 999)) if value.isdigit() else draft.rng.choice(WORDS)
               for key, value in changed.items()}  # fmt: skip
    other, path = draft.give_item("settings", tuple(changed.items())), draft.path("settings")
    data = tuple((key, changed.get(key, value)) for key, value in item.data)
    if data == item.data:
        pick(draft.rng, ())
    draft.see(item.path)
    draft.see(other.path)
    draft.ask("Write to @b the settings of @a in their order, but with the values of @o for the keys that stand there.",
              "awk -F' = ' 'NR == FNR {v[$1] = $2; next} {print $1 \" = \" ($1 in v ? v[$1] : $2)}' @o @a > @b",
              result=path,
              a=item.path, b=path, o=other.path)  # fmt: skip
    return draft.put("settings", path, data)


def _from_value(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """What an earlier step found becomes a setting."""
    if not all(sign.isalnum() or sign in "._-" for sign in item.data):
        pick(draft.rng, ())
    target = draft.give_item("settings", fresh(draft.rng, "settings"))
    key = draft.rng.choice(target.data)[0]
    draft.see(target.path)
    draft.ask("In @o set @k to the value that stands in @a.", "sed -i \"s/^@k = .*/@k = $(cat @a)/\" @o",
              result=target.path, a=item.path, o=target.path, k=key)  # fmt: skip
    return draft.put("settings", target.path, _with(target.data, key, item.data))


def _template(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    keys = draft.rng.sample([key for key, _ in item.data], min(4, len(item.data)))
    rows = [f"{draft.rng.choice(WORDS)} {{{{{key}}}}} {draft.rng.choice(WORDS)}" for key in keys]
    source, path, values = draft.path("txt"), draft.path("text"), dict(item.data)
    draft.give(source, lines(rows))
    draft.see(item.path)
    draft.see(source)
    draft.ask("@t is a template. Write it to @b with the value of each key in @a in the place of {{key}}.",
              "sed 's/^\\(.*\\) = \\(.*\\)$/s|{{\\1}}|\\2|g/' @a > t.tmp", "sed -f t.tmp @t > @b; rm t.tmp",
                  result=path,
              a=item.path, b=path, t=source)  # fmt: skip
    data = tuple(row.replace(f"{{{{{key}}}}}", values[key]) for row, key in zip(rows, keys, strict=True))
    return draft.put("text", path, data)


def _ini_section(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    sections = {
        name: fresh(draft.rng, "settings") for name in draft.rng.sample(("server", "client", "mail", "jobs"), 3)
    }
    chosen, path, source = draft.rng.choice(sorted(sections)), draft.path("settings"), draft.path("ini")
    draft.give(source, lines([row for name, pairs in sections.items()
                              for row in (f"[{name}]", *(f"{key} = {value}" for key, value in pairs))]))  # fmt: skip
    draft.see(source)
    draft.ask("Write the lines of the section [@s] of @a, without that heading, to @b.",
              "awk '/^\\[/ {on = $0 == \"[@s]\"; next} on' @a > @b",
              result=path, a=source, b=path, s=chosen)  # fmt: skip
    return draft.put("settings", path, sections[chosen])


SCREEN = '''"""Choose settings: Up and Down move, Space switches one on or off, s saves, q leaves."""
import os, sys, termios, tty, zlib

NAMES = @n
chosen = set(@c)


def show(at, line=""):
    rows = ["Settings: Up, Down, Space, s to save, q to leave", ""]
    rows += [f"{'>' if i == at else ' '} [{'x' if n in chosen else ' '}] {n}" for i, n in enumerate(NAMES)]
    sys.stdout.write("\\x1b[2J\\x1b[H" + "\\r\\n".join([*rows, "", line]))
    sys.stdout.flush()


def key():
    first = os.read(0, 1)
    return first + os.read(0, 2) if first == b"\\x1b" else first


def save(at):
    text = ",".join(n for n in NAMES if n in chosen)
    number, typed = f"{zlib.crc32(text.encode()) % 10000:04d}", ""
    while True:
        show(at, f"To save, type {number} and Enter: {typed}")
        pressed = key()
        if pressed in (b"\\r", b"\\n"):
            break
        typed = typed[:-1] if pressed == b"\\x7f" else typed + pressed.decode("ascii", "replace")
    if typed != number:
        return "Not saved."
    with open("@p", "w") as file:
        file.write("".join(f"{n} = {'on' if n in chosen else 'off'}\\n" for n in NAMES))
    return "Saved."


before = termios.tcgetattr(0)
tty.setraw(0)
try:
    at, line = 0, ""
    while True:
        show(at, line)
        line, pressed = "", key()
        if pressed in (b"\\x1b[A", b"\\x1b[B"):
            at = (at + (1 if pressed.endswith(b"B") else -1)) % len(NAMES)
        elif pressed == b" ":
            chosen ^= {NAMES[at]}
        elif pressed == b"s":
            line = save(at)
        elif pressed in (b"q", b"\\x03", b"\\x04"):
            break
finally:
    termios.tcsetattr(0, termios.TCSADRAIN, before)
    print("\\n")
'''


def _on_screen(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """A program that takes over the screen."""
    names, path, program = [draft.name() for _ in range(7)], draft.path("settings"), draft.path("py")
    before, after = ([name for name in names if draft.rng.random() < 0.5] for _ in range(2))
    if before == after or not after:
        pick(draft.rng, ())
    text = SCREEN.replace("@n", repr(names)).replace("@c", repr(before)).replace("@p", path)
    draft.give(program, text.encode())
    switched = [index for index, name in enumerate(names) if (name in before) != (name in after)]
    steps = [index - last for last, index in zip([0, *switched], switched, strict=False)]
    presses = "".join(f"<Down*{step}><Space>" if step else "<Space>" for step in steps)
    number = f"{zlib.crc32(','.join(after).encode()) % 10_000:04d}"
    draft.see(program)
    draft.ask("python3 @a is a full-screen program in which settings are switched on and off. Use it to have exactly "
        "these switched on: @w. Save, and leave the program. It writes @b.", f"python3 {program}", Presses(presses),
              Presses("s"), number, Presses("q"), result=path, a=program, b=path, w=", ".join(after))  # fmt: skip
    return draft.put("settings", path, tuple((name, "on" if name in after else "off") for name in names))


CONFIGURATION = (
    *(row.kind("configuration") for row in SETTINGS),
    StepKind("overrides", "configuration", "settings", _overrides),
    StepKind("setting from a value", "configuration", "value", _from_value),
    StepKind("fill a template", "configuration", "settings", _template),
    StepKind("section of a file", "configuration", "", _ini_section),
    StepKind("full-screen program", "configuration", "", _on_screen),
)


# encryption, codes, checksums

_PY = 'python3 -c "import sys; {}"'


def _shifted(content: bytes, n: int) -> bytes:
    """Small letters moved by n in the alphabet."""
    return bytes((each - 97 + n) % 26 + 97 if 97 <= each <= 122 else each for each in content)


def _shift(rng: random.Random, data: Any) -> dict[str, Any]:
    n = rng.randint(1, 25)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {"n": n, "f": f"{letters[n:]}{letters[:n]}"}


CODES = (
    Open("base64", "b64", "@a is a text in base64. Decode it into @b.", "base64 -d @a", base64.encodebytes),
    Open("base32", "b32", "@a is a text in base32. Decode it into @b.", "base32 -d @a",
         lambda content: base64.b32encode(content) + b"\n", look=False),
    Open("hexadecimal", "hex", "@a holds the bytes of a text as hexadecimal digits. Write the text to @b.",
         _PY.format("sys.stdout.buffer.write(bytes.fromhex(open('@a').read()))"),
         lambda content: content.hex("\n", 32).encode() + b"\n"),
    Open("rot13", "rot", "@a was written in ROT13: each letter was moved by 13 in the alphabet, capitals too. Write "
         "the text to @b.", "tr 'A-Za-z' 'N-ZA-Mn-za-m' < @a",
         lambda content: codecs.encode(content.decode(), "rot13").encode()),
    Open("caesar", "txt", "In @a each small letter was moved forward by @n in the alphabet, from z on to a. Write "
         "the text as it was to @b.", "tr @f a-z < @a", lambda content, n, f: _shifted(content, n), _shift),
    Open("xor", "bin", "Each byte of @a was combined with the number @n by exclusive or. Write the text as it was to "
         "@b.",
         _PY.format("sys.stdout.buffer.write(bytes(c ^ @n for c in open('@a', 'rb').read()))"),
         lambda content, n: bytes(each ^ n for each in content), lambda rng, data: {"n": rng.randint(129, 250)}, False),
    Open("reversed bytes", "rev", "The bytes of @a stand in the opposite order, the last one first. Write the text "
         "to @b.",
         _PY.format("sys.stdout.buffer.write(open('@a', 'rb').read()[::-1])"),
         lambda content: content[::-1], look=False),
    Open("base64 of gzip", "b64", "@a is base64 of a text that was compressed with gzip. Write the text to @b.",
         "base64 -d @a | zcat", lambda content: base64.encodebytes(gzip.compress(content, mtime=0))),
)  # fmt: skip


def _checksum(title: str) -> StepKind:
    algorithm = title.replace("-", "").lower()

    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        path = draft.path("value")
        draft.see(item.path)
        draft.ask(f"Write the {title} checksum of @a to @b: the hexadecimal digits alone, in small letters.",
                  f"{algorithm}sum @a | cut -d' ' -f1 > @b", result=path, a=item.path, b=path)  # fmt: skip
        return draft.put("value", path, hashlib.new(algorithm, render(item.form, item.data)).hexdigest())

    return StepKind(f"{title} checksum", "encryption", "file", play)


def _signed(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    key, key_path, path = f"{draft.rng.getrandbits(64):016x}", draft.path("key"), draft.path("value")
    draft.give(key_path, key.encode())
    draft.see(item.path)
    draft.ask("Write the HMAC-SHA-256 of @a to @b, as hexadecimal digits in small letters; the key is what @k holds, "
        "which has no newline.", "python3 -c \"import hmac; print(hmac.new(open('@k', 'rb').read(), open('@a', "
                  "'rb').read(), 'sha256').hexdigest())\" > @b",
                  result=path, a=item.path, b=path, k=key_path)  # fmt: skip
    return draft.put("value", path, hmac.new(key.encode(), render(item.form, item.data), "sha256").hexdigest())


def _checksums(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    path, paths = draft.path("text"), [f"{item.path}/{each}" for each in sorted(item.data)]
    draft.ask("Write to @b what sha256sum prints for each file in @a and its folders, their paths as @a/..., sorted "
        "by the bytes of these paths.", "find @a -type f | LC_ALL=C sort | xargs sha256sum > @b", result=path,
              a=item.path, b=path)  # fmt: skip
    contents = {f"{item.path}/{each}": content for each, content in item.data.items()}
    return draft.put("text", path, tuple(f"{hashlib.sha256(contents[each]).hexdigest()}  {each}" for each in paths))


def _damaged(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    sums, path = draft.path("sums"), draft.path("text")
    contents = {f"{item.path}/{each}": content for each, content in sorted(item.data.items())}
    changed = set(draft.rng.sample(sorted(contents), min(3, len(contents) - 1)))
    rows = [
        f"{hashlib.sha256(content + b'!' * (each in changed)).hexdigest()}  {each}"
        for each, content in contents.items()
    ]
    if len(changed) < 2:
        pick(draft.rng, ())
    draft.give(sums, lines(rows))
    draft.ask("@o holds the SHA-256 checksums that the files in @a should have. Some files are not as they should "
        "be: write their paths, as they stand in @o and in its order, to @b.",
              "sha256sum -c @o 2>/dev/null | sed -n 's/: FAILED$//p' > @b",
              result=path, a=item.path, b=path, o=sums)  # fmt: skip
    return draft.put("text", path, tuple(each for each in contents if each in changed))


def _password(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """Which line has the checksum?"""
    rows = list(dict.fromkeys(item.data))
    row, path = pick(draft.rng, rows), draft.path("value")
    digest = hashlib.sha256(row.encode()).hexdigest()
    draft.see(item.path)
    draft.ask("One line of @a, without its newline, has the SHA-256 checksum @h. Write this line to @b.",
              "while IFS= read -r l; do printf %s \"$l\" | sha256sum | grep -q ^@h && echo \"$l\"; done < @a | head "
              "-n 1 > @b",
              result=path, a=item.path, b=path, h=digest)  # fmt: skip
    return draft.put("value", path, row)


def _encoded(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    path = draft.path("b64")
    draft.see(item.path)
    draft.ask("Write @a in base64 to @b, without any newlines in it but for one at the end.",
              "(base64 -w 0 @a; echo) > @b", result="wc -c @b", a=item.path, b=path)  # fmt: skip
    draft.files[path] = base64.b64encode(render(item.form, item.data)) + b"\n"
    return item


def _openssl(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """A file that the setup encrypts by AES-256, with a fixed salt."""
    form, word = draft.rng.choice(PLAIN), f"{draft.rng.choice(WORDS)}-{draft.rng.randint(100, 999)}"
    data, source, path, key = fresh(draft.rng, form), draft.path("enc"), draft.path(form), draft.path("txt")
    salt = f"{draft.rng.getrandbits(64):016x}"
    draft.start[f".{source}"] = render(form, data)
    draft.give(key, f"{word}\n".encode())
    draft.setup += ["command -v openssl > /dev/null || { echo openssl is not installed >&2; exit 1; }",
                    f"openssl enc -aes-256-cbc -pbkdf2 -S {salt} -pass pass:{word} -in .{source} -out {source}",
                    f"rm .{source}"]  # fmt: skip
    draft.ask("@a was encrypted by openssl enc with -aes-256-cbc and -pbkdf2@s; the password is the line in @k. "
        "Decrypt it into @b.", "openssl enc -d -aes-256-cbc -pbkdf2 -S @x -pass file:@k -in @a -out @b", result=path,
              a=source, b=path, k=key, x=salt, s=f", with the salt {salt} (-S)")  # fmt: skip
    return draft.put(form, path, data)


ENCRYPTION = (
    *(row.kind("encryption") for row in CODES),
    _checksum("SHA-256"), _checksum("MD5"), _checksum("SHA-1"),
    StepKind("message code", "encryption", "file", _signed),
    StepKind("checksums of a folder", "encryption", "folder", _checksums),
    StepKind("damaged files", "encryption", "folder", _damaged),
    StepKind("line of a checksum", "encryption", "text", _password),
    StepKind("write base64", "encryption", "file", _encoded),
    StepKind("decrypt", "encryption", "", _openssl),
)  # fmt: skip


# recorded messages of HTTP: the sandbox has no network, and no sockets


def _response(content: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", "Server: lighthouse/2.1", *headers, "", ""]
    return "\r\n".join(head).encode() + content


def _chunked(content: bytes) -> bytes:
    parts = [content[start : start + 40] for start in range(0, len(content), 40)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))
    return _response(body, "Transfer-Encoding: chunked")


_BODY = "sys.stdout.buffer.write({})"
_AFTER = "open('@a', 'rb').read().partition(b'\\r\\n\\r\\n')[2]"
MESSAGES = (
    Open("body of a response", "http", "@a is a recorded HTTP response. Write its body, all that follows the empty "
         "line after the headers, to @b.",
        _PY.format(_BODY.format(_AFTER)), lambda content: _response(content, "X-Trace: 7")),
    Open("compressed body", "http", "@a is a recorded HTTP response whose body is compressed with gzip. Write the "
         "body, decompressed, to @b.", _PY.format("import gzip; " + _BODY.format(f"gzip.decompress({_AFTER})")),
         lambda content: _response(gzip.compress(content, mtime=0), "Content-Encoding: gzip"), look=False),
    Open("chunked body", "http", "@a is a recorded HTTP response with Transfer-Encoding: chunked: each piece of the "
         "body stands behind a line with its length in hexadecimal. Write the body without these lines to @b.",
         "python3 - > @b <<'END'\nimport sys\nleft = " + _AFTER + "\nwhile left:\n    size, _, left = "
         "left.partition(b'\\r\\n')\n    sys.stdout.buffer.write(left[:int(size, 16)])\n    left = left[int(size, "
         "16) + 2:]\nEND", _chunked),
    Open("percent encoding", "txt", "@a holds a text in percent encoding, as in URLs. Write the text to @b.",
         _PY.format("import urllib.parse as u; sys.stdout.write(u.unquote(open('@a').read().strip()))"),
         lambda content: urllib.parse.quote(content).encode() + b"\n"),
    Open("data url", "txt", "@a holds a data URL, data:text/plain;base64,... Write the text that it carries to @b.",
         "cut -d, -f2- @a | base64 -d", lambda content: b"data:text/plain;base64," + base64.b64encode(content) + b"\n"),
)  # fmt: skip


def _form_body(pairs: Pairs) -> bytes:
    return urllib.parse.urlencode(pairs).encode()


def _headers(rng: random.Random) -> dict[str, str]:
    return {"Content-Type": "text/plain", "ETag": f'"{rng.getrandbits(32):08x}"', "X-Node": rng.choice(WORDS),
            "Age": str(rng.randint(1, 999)), "X-Request": f"{rng.getrandbits(24):06x}"}  # fmt: skip


def _message(name: str, gives: str, wish: str, command: str,
             draw: Callable[[random.Random], tuple[bytes, dict[str, Any], Any]]) -> StepKind:  # fmt: skip
    """Something is read out of a recorded message; ``draw`` gives its bytes, what texts name, and what is read."""

    def play(draft: ChoreDraft, _: WorkItem) -> WorkItem:
        content, values, data = draw(draft.rng)
        source, path = draft.path("http"), draft.path(gives)
        draft.give(source, content)
        draft.see(source)
        draft.ask(wish, f"{command} > @b", result=path, a=source, b=path, **values)
        return draft.put(gives, path, data)

    return StepKind(name, "http", "", play)


def _header(rng: random.Random) -> tuple[bytes, dict[str, Any], Any]:
    headers = _headers(rng)
    key = rng.choice(("ETag", "X-Node", "Age", "X-Request"))
    return _response(b"body\n", *(f"{k}: {v}" for k, v in headers.items())), {"k": key}, headers[key]


def _form(rng: random.Random) -> tuple[bytes, dict[str, Any], Any]:
    pairs = fresh(rng, "settings")
    head = f"POST /settings HTTP/1.1\r\nHost: {rng.choice(WORDS)}.example\r\n\r\n".encode()
    return head + _form_body(pairs) + b"\n", {}, pairs


def _query(rng: random.Random) -> tuple[bytes, dict[str, Any], Any]:
    pairs = fresh(rng, "settings")
    url = f"/search?{_form_body(pairs).decode()}"
    return f"GET {url} HTTP/1.1\r\nHost: {rng.choice(WORDS)}.example\r\n\r\n".encode(), {}, pairs


def _cookies(rng: random.Random) -> tuple[bytes, dict[str, Any], Any]:
    pairs = fresh(rng, "settings")
    cookies = "".join(f"Cookie: {key}={value}\r\n" for key, value in pairs)
    return f"GET / HTTP/1.1\r\nHost: {rng.choice(WORDS)}.example\r\n{cookies}\r\n".encode(), {}, pairs


def _login(rng: random.Random) -> tuple[bytes, dict[str, Any], Any]:
    user, word = rng.choice(WORDS), f"{rng.choice(WORDS)}{rng.randint(100, 999)}"
    code = base64.b64encode(f"{user}:{word}".encode()).decode()
    return f"GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: Basic {code}\r\n\r\n".encode(), {}, word


def _redirects(draft: ChoreDraft, _: WorkItem) -> WorkItem:
    """Responses by path, each of which sends on to another, and the last has the body."""
    form, folder = draft.rng.choice(PLAIN), draft.name()
    names = [draft.name() for _ in range(draft.rng.randint(4, 6))]
    data, path = fresh(draft.rng, form), draft.path(form)
    for name, target in itertools.pairwise(names):
        moved = _response(b"moved\n", f"Location: /{target}", status=draft.rng.choice(("301 Moved", "302 Found")))
        draft.start[f"{folder}/{name}"] = draft.files[f"{folder}/{name}"] = moved
    last = _response(render(form, data), "X-Trace: 9")
    draft.start[f"{folder}/{names[-1]}"] = draft.files[f"{folder}/{names[-1]}"] = last
    draft.ask("@d/NAME is the recorded response to a request for /NAME. Follow the redirects from /@n on, and write "
        "the body of the response that is none to @b.", *(f"grep Location @d/{name}" for name in names[:-1]),
              f"sed '1,/^\\r$/d' @d/{names[-1]} > @b", result=path, d=folder, n=names[0], b=path)  # fmt: skip
    return draft.put(form, path, data)


def _post(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    content, path, host = render(item.form, item.data), draft.path("http"), draft.rng.choice(WORDS)
    draft.see(item.path)
    draft.ask("Write to @b the HTTP request that sends @a: the lines 'POST /@n HTTP/1.1', 'Host: @h.example' and "
              "'Content-Length: ' with the number of bytes of @a, each ended by CR and LF, an empty line that is "
              "ended in the same way, and then the bytes of @a.",
              "printf 'POST /@n HTTP/1.1\\r\\nHost: @h.example\\r\\nContent-Length: "
                  "%d\\r\\n\\r\\n' $(wc -c < @a) > @b", "cat @a >> @b",
                  result=path, a=item.path, b=path, h=host, n=SUFFIXES[item.form])  # fmt: skip
    head = f"POST /{SUFFIXES[item.form]} HTTP/1.1\r\nHost: {host}.example\r\nContent-Length: {len(content)}\r\n\r\n"
    draft.files[path] = head.encode() + content
    return item


_PAIRS = "tr '&' '\\n' | sed 's/=/ = /'"
HTTP: Sequence[StepKind] = (
    *(row.kind("http") for row in MESSAGES),
    _message("header", "value", "Write the value of the header @k of the recorded response @a to @b.",
             "tr -d '\\r' < @a | sed -n 's/^@k: //p'", _header),
    _message("body of a form", "settings", "The body of the recorded request @a is that of a form, "
             "key=value&key=value. Write a line 'key = value' for each to @b, in their order.",
             f"tail -n 1 @a | {_PAIRS}", _form),
    _message("query of a url", "settings", "The first line of the recorded request @a has a URL with a query, "
             "?key=value&key=value. Write a line 'key = value' for each to @b, in their order.",
             f"head -n 1 @a | cut -d' ' -f2 | sed 's/.*?//' | {_PAIRS}", _query),
    _message("cookies", "settings", "Write a line 'key = value' for each header Cookie of the recorded request @a to "
             "@b, in their order.", "tr -d '\\r' < @a | sed -n 's/^Cookie: //p' | sed 's/=/ = /'", _cookies),
    _message("basic authorization", "value", "The recorded request @a has a header Authorization: Basic, base64 of "
             "USER:PASSWORD. Write the password to @b.",
             "tr -d '\\r' < @a | sed -n 's/^Authorization: Basic //p' | base64 -d | cut -d: -f2", _login),
    StepKind("redirects", "http", "", _redirects),
    StepKind("write a request", "http", "file", _post),
)  # fmt: skip

KINDS: tuple[StepKind, ...] = (*CONFIGURATION, *ENCRYPTION, *HTTP)
