"""What becomes of each setting of a config under another trainer, one line each."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EXACTLY, APPROXIMATELY, NOT_AT_ALL, NOT_USED = "exactly", "approximately", "not at all", "not used"
NO_BOUND = 1e9  # where a trainer wants a bound and the algorithm has none


class LaunchRefused(ValueError):
    """A config that the trainer cannot run as it stands; the message names the field, and what the trainer can."""


@dataclass(frozen=True)
class Machines:
    """Where the trainer runs: GPUs of a node, and nodes."""

    gpus: int = 8
    nodes: int = 1

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.nodes < 1:
            raise ValueError(f"a trainer needs at least one GPU on one node, got {self.gpus} on {self.nodes}")


@dataclass(frozen=True)
class Line:
    """What becomes of one setting.

    setting  its name in our config, ``learner.lr``; a choice of the algorithm as ``overrides.clip``
    value    what it is
    how      exactly, approximately, not at all, not used
    target   the trainer's own options
    note     why, or how it differs
    consent  whether it changes the algorithm, so that the caller must accept it by name
    """

    setting: str
    value: Any
    how: str
    target: str = ""
    note: str = ""
    consent: bool = False


@dataclass
class Translation:
    """Collects the lines and the trainer's options.

    engine    the trainer's name
    values    every setting of the config by its dotted name
    idle      choices of the algorithm that have no effect in it
    accepted  settings whose change was accepted
    options   the trainer's options, by its own names
    """

    engine: str
    values: Mapping[str, Any]
    idle: Collection[str] = ()
    accepted: Collection[str] = ()
    options: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def add(self, line: Line) -> None:
        """Classify a setting, once.

        Raises:
            KeyError: there is no such setting.
            ValueError: it was classified before.
        """
        if line.setting not in self.values:
            raise KeyError(f"the config has no setting {line.setting!r}")
        if line.setting in self.lines:
            raise ValueError(f"{line.setting} is classified twice")
        self.lines[line.setting] = line

    def exact(self, setting: str, options: Mapping[str, Any] | str = "", note: str = "") -> None:
        """It carries over as it is, into these options of the trainer (or as the text says)."""
        self.add(Line(setting, self.values.get(setting), EXACTLY, self._set(options), note))

    def approximate(self, setting: str, options: Mapping[str, Any] | str, note: str) -> None:
        """It carries over, and differs in a way that leaves the algorithm what it is."""
        self.add(Line(setting, self.values.get(setting), APPROXIMATELY, self._set(options), note))

    def left(self, setting: str, note: str) -> None:
        """It does not carry over, and what is learned does not depend on it."""
        self.add(Line(setting, self.values.get(setting), NOT_AT_ALL, "", note))

    def unused(self, setting: str, note: str) -> None:
        """It has no effect in this config."""
        self.add(Line(setting, self.values.get(setting), NOT_USED, "", note))

    def changes(self, setting: str, note: str, options: Mapping[str, Any] | str = "") -> None:
        """It changes the algorithm: refused, unless the caller accepts it by name."""
        how = APPROXIMATELY if options else NOT_AT_ALL
        self.add(Line(setting, self.values.get(setting), how, self._set(options), note, consent=True))

    def refuse(self, setting: str, note: str) -> None:
        """The trainer has nothing like it."""
        self.add(Line(setting, self.values.get(setting), NOT_AT_ALL, "", note))
        self.refusals.append(f"{setting}: {note}")

    def choose(self, setting: str, table: Mapping[Any, Mapping[str, Any]], note: str = "") -> None:
        """Exactly, by a table from values to options; a value that is not in it is refused with those that are."""
        value = self.values[setting]
        if value in table:
            self.exact(setting, table[value], note)
        else:
            choices = ", ".join(map(str, table))
            self.refuse(setting, f"{self.engine} has no {value!r}; it can {choices}")

    def _set(self, options: Mapping[str, Any] | str) -> str:
        if isinstance(options, str):
            return options
        for name, value in options.items():
            if self.options.setdefault(name, value) != value:
                raise ValueError(f"{name} is set to {self.options[name]!r} and to {value!r}")
        return ", ".join(f"{name}={shown(value)}" for name, value in options.items())

    def finish(self) -> None:
        """Refuse what changes the algorithm and was not accepted.

        Raises:
            LaunchRefused: the settings, each with what the trainer can; or an accepted name that there is nothing to
                accept for.
            LookupError: a setting was not classified.
        """
        if missing := [name for name in self.values if name not in self.lines]:
            raise LookupError(f"settings that are not classified for {self.engine}: {', '.join(missing)}")
        if self.refusals:
            raise LaunchRefused(f"{self.engine} cannot run this: {'; '.join(self.refusals)}")
        pending = {line.setting: line for line in self.lines.values() if line.consent}
        if wrong := [name for name in self.accepted if name not in pending]:
            asked = f"there is {', '.join(pending)}" if pending else "there is nothing to accept"
            raise LaunchRefused(f"--accept {wrong[0]}: this config has no such difference under {self.engine}; {asked}")
        if open_ := [line for name, line in pending.items() if name not in self.accepted]:
            reasons = "; ".join(f"{line.setting}: {line.note}" for line in open_)
            names = " ".join(line.setting for line in open_)
            raise LaunchRefused(f"{self.engine} would run another algorithm: {reasons}. To run it so: --accept {names}")

    def table(self, width: int = 110) -> str:
        """The lines as text, those that differ first."""
        order = [APPROXIMATELY, NOT_AT_ALL, EXACTLY]
        parts = []
        for how in order:
            rows = [line for line in self.lines.values() if line.how == how]
            parts += [f"{how} ({len(rows)})", *(_line_text(line, width) for line in rows), ""]
        idle = [line.setting for line in self.lines.values() if line.how == NOT_USED]
        parts += textwrap.wrap(f"not used by this config ({len(idle)}): {', '.join(idle)}", width)
        return "\n".join(parts) + "\n"


def _line_text(line: Line, width: int) -> str:
    head = f"  {line.setting} = {shown(line.value)}"
    tail = f" -> {line.target}" if line.target else ""
    text = head + tail + (f"  ({line.note})" if line.note else "") + ("  [accepted]" if line.consent else "")
    return textwrap.fill(text, width, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False)


def shown(value: Any) -> str:
    """A value as options and tables write it: true, null, [a,b]."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(shown, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{shown(each)}" for name, each in value.items()) + "}"
    return str(value)
