"""Key presses as text: what stands in an action is typed, and names in angle brackets are keys.

    ls -l<Enter>        vi notes.txt<Enter>ihello<Esc>:wq<Enter>        <C-c>        <Down*3><Space>

A name that is no key's is typed as it stands, so that most redirections need nothing; ``<Lt>`` is the character <.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ESCAPE_SECONDS = 0.15  # programs take an Escape for the beginning of a longer key until that long nothing follows
NEWS_SECONDS = 3.0  # how long <Wait> waits for anything new
MOST_KEYS, MOST_TIMES = 400, 99

# What a Linux console sends.
_NAMED = {
    "Enter": "\r", "Tab": "\t", "Esc": "\x1b", "Space": " ", "BS": "\x7f", "Del": "\x1b[3~", "Lt": "<",
    "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[1~", "End": "\x1b[4~",
    "PgUp": "\x1b[5~", "PgDn": "\x1b[6~", "Ins": "\x1b[2~", "S-Tab": "\x1b[Z",
    "F1": "\x1b[[A", "F2": "\x1b[[B", "F3": "\x1b[[C", "F4": "\x1b[[D", "F5": "\x1b[[E", "F6": "\x1b[17~",
    "F7": "\x1b[18~", "F8": "\x1b[19~", "F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}  # fmt: skip
_ALIASES = {
    "return": "Enter", "cr": "Enter", "escape": "Esc", "backspace": "BS", "delete": "Del", "insert": "Ins",
    "pageup": "PgUp", "pagedown": "PgDn",
}  # fmt: skip
NAMES = tuple(_NAMED)
_SENT = {name.lower(): sent for name, sent in _NAMED.items()} | {a: _NAMED[name] for a, name in _ALIASES.items()}
_KEY = re.compile(
    rf"<(?:(?:C|Ctrl)-(?P<control>[a-z@\[\\\]^_]|Space)|(?:A|Alt|M)-(?P<alt>[!-~])|(?P<wait>Wait)"
    rf"|(?P<name>{'|'.join(sorted(_SENT, key=len, reverse=True))}))(?:\*(?P<times>[0-9]{{1,2}}))?>",
    re.IGNORECASE,
)


class Key(NamedTuple):
    """Characters to send, and how many seconds to give them; negative: as many at most, until something is new."""

    sent: str
    pause: float = 0.0


def read_keys(text: str) -> list[Key]:
    """The keys that a text stands for; a newline is <Enter>, but not one right behind an <Enter>.

    Raises:
        ValueError: it has a character that no key sends, or more than 400 keys with names.
    """
    keys: list[Key] = []
    at = named = 0
    for match in _KEY.finditer(text):
        keys += _plain(text[at : match.start()], after_enter=bool(keys) and keys[-1].sent == "\r")
        times = min(int(match["times"] or 1), MOST_TIMES)
        named += times
        key = _key(match)
        keys += [Key(key.sent * times, key.pause)] if not key.pause else [key] * times
        at = match.end()
    keys += _plain(text[at:], after_enter=bool(keys) and keys[-1].sent == "\r")
    if max(named, len(keys)) > MOST_KEYS:
        raise ValueError(f"no more than {MOST_KEYS} keys can be pressed at once")
    return keys


def write_keys(text: str) -> str:
    """An action that types a text as it stands."""
    return _KEY.sub(lambda match: "<Lt>" + match[0][1:], text)


def _plain(text: str, after_enter: bool) -> list[Key]:
    if after_enter:
        text = text.removeprefix("\r\n").removeprefix("\n")
    for character in text:
        if not (character.isprintable() or character in "\n\r\t"):
            raise ValueError("only printable characters can be typed; other keys have names, such as <Esc> or <C-c>")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    keys = [Key(line + "\r") for line in lines[:-1]]
    return keys + ([Key(lines[-1])] if lines[-1] else [])


def _key(match: re.Match[str]) -> Key:
    if match["wait"]:
        return Key("", -NEWS_SECONDS)
    if match["control"]:
        character = match["control"].upper()
        return Key("\0" if character == "SPACE" else chr(ord(character) & 0x1F), _pause(character == "["))
    if match["alt"]:
        return Key("\x1b" + match["alt"])
    sent = _SENT[match["name"].lower()]
    return Key(sent, _pause(sent == "\x1b"))


def _pause(escape: bool) -> float:
    return ESCAPE_SECONDS if escape else 0.0
