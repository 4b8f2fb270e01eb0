"""``rlvr completion``: a script that completes commands, options and ids in bash, zsh or fish.

The script holds the words of the parsers as they are when it is printed. Ids of environments are asked for when Tab is
pressed, from the registry alone: no environment is imported.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

IDS: Final = "rlvr envs 2>/dev/null"
_ID_OPTIONS: Final = ("--env", "--expert")
_ID_DESTINATIONS: Final = ("env", "expert")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/=+-]+")

BASH: Final = """\
# bash completion of rlvr: source <(rlvr completion bash)
_rlvr_ids() { if [ -z "${_RLVR_IDS+x}" ]; then _RLVR_IDS=$(IDS_COMMAND); fi; }
_rlvr() {
    local current previous command words index
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref > /dev/null; then
        local cur prev cword; _get_comp_words_by_ref -n : cur prev cword words
        current=$cur; previous=$prev; index=$cword
    else
        current=${COMP_WORDS[COMP_CWORD]}; previous=${COMP_WORDS[COMP_CWORD-1]}
        words=("${COMP_WORDS[@]}"); index=$COMP_CWORD
    fi
    command=""
    local word
    for word in "${words[@]:1:index-1}"; do case $word in -*) ;; *) command=$word; break;; esac; done
    case "$command $previous" in
VALUES
    esac
    case "$command" in
OPTIONS
    esac
}
complete -o default -F _rlvr rlvr
"""

ZSH: Final = """\
# zsh completion of rlvr: source <(rlvr completion zsh)
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
_rlvr_ids() { if [[ -z ${_RLVR_IDS+x} ]]; then _RLVR_IDS=$(IDS_COMMAND); fi; }
_rlvr() {
    local given command="" word
    for word in "${(@)words[2,CURRENT-1]}"; do
        [[ $word == -* ]] || { command=$word; break; }
    done
    case "$command $words[CURRENT-1]" in
VALUES
    esac
    case "$command" in
OPTIONS
    esac
}
compdef _rlvr rlvr
"""


class Option(NamedTuple):
    """One option of a command: its flags, the values that it may have, and whether it takes one, and an id."""

    flags: tuple[str, ...]
    choices: tuple[str, ...]
    takes_value: bool
    takes_id: bool
    help: str


class CommandWords(NamedTuple):
    """What may follow one command."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]  # choices of positional arguments
    takes_id: bool


def words_of(parser: argparse.ArgumentParser) -> list[CommandWords]:
    """The commands of a parser and what may follow each."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    return [_command(name, helps.get(name, ""), each) for name, each in commands.choices.items()]


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> CommandWords:
    options: list[Option] = []
    words: list[str] = []
    for action in parser._actions:
        choices = tuple(str(choice) for choice in action.choices or () if _PLAIN.fullmatch(str(choice)))
        if action.option_strings:
            takes_id = action.nargs != 0 and not set(_ID_OPTIONS).isdisjoint(action.option_strings)
            options.append(
                Option(tuple(action.option_strings), choices, action.nargs != 0, takes_id, _line(action.help))
            )
        else:
            words += choices
    positional_id = any(not a.option_strings and a.dest in _ID_DESTINATIONS for a in parser._actions)
    return CommandWords(name, _line(text), tuple(options), tuple(words), positional_id)


def _line(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell: bash, zsh or fish.

    Raises:
        ValueError: another shell.
    """
    if shell == "fish":
        return "".join(f"{line}\n" for line in _fish(words_of(parser)))
    if shell not in ("bash", "zsh"):
        raise ValueError(f"there are scripts for bash, zsh and fish, not for {shell!r}")
    return _cases(words_of(parser), shell)


def _cases(commands: list[CommandWords], shell: str) -> str:
    """The script of bash or zsh: a case for each option that takes a value, then one for each command."""
    offered, files, current = {
        "bash": (_reply, ":", "$current"),  # where nothing is offered, bash completes files by itself
        "zsh": (_compadd, "_files", "$words[CURRENT]"),
    }[shell]
    values, options = [], []
    for command in commands:
        for option in command.options:
            if not option.takes_value:
                continue
            pattern = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
            if option.takes_id:
                reply = f"_rlvr_ids; {offered('$_RLVR_IDS')}"
            else:
                reply = offered(" ".join(option.choices)) if option.choices else files
            values.append(f"        {pattern}) {reply}; return;;")
        flags = " ".join(flag for option in command.options for flag in option.flags)
        before = "_rlvr_ids; " if command.takes_id else ""
        words = " ".join([*command.words, *(["$_RLVR_IDS"] if command.takes_id else [])])
        # Options when a dash is typed, else what may stand there; nothing at all lets the shell complete files.
        reply = f'case "{current}" in -*) {offered(flags)};; *) {before}{offered(words) if words else files};; esac'
        options.append(f'        "{command.name}") {reply};;')
    names = " ".join(["--help", "--version", *(command.name for command in commands)])
    options.append(f'        "") {offered(names)};;')
    text = (
        (BASH if shell == "bash" else ZSH)
        .replace("IDS_COMMAND", IDS)
        .replace("VALUES", "\n".join(values) or "        *) ;;")
    )
    return text.replace("OPTIONS", "\n".join(options))


def _reply(words: str) -> str:
    return f'COMPREPLY=($(compgen -W "{words}" -- "$current"))'


def _compadd(words: str) -> str:
    return f'given="{words}"; compadd -- ${{=given}}'


def _fish(commands: list[CommandWords]) -> Iterator[str]:
    yield "# fish completion of rlvr: rlvr completion fish | source"
    yield "complete -c rlvr -n __fish_use_subcommand -l help -d 'show help'"
    yield "complete -c rlvr -n __fish_use_subcommand -l version -d 'show the version'"
    for command in commands:
        here = f"-n '__fish_seen_subcommand_from {command.name}'"
        yield f"complete -c rlvr -f -n __fish_use_subcommand -a {command.name} -d {shlex.quote(command.help)}"
        if command.takes_id:
            yield f"complete -c rlvr -f {here} -a '({IDS})'"
        if command.words:
            yield f"complete -c rlvr -f {here} -a {shlex.quote(' '.join(command.words))}"
        for option in command.options:
            long = "".join(f" -l {flag[2:]}" for flag in option.flags if flag.startswith("--"))
            short = "".join(f" -s {flag[1:]}" for flag in option.flags if len(flag) == 2)
            values = f" -x -a '({IDS})'" if option.takes_id else ""
            if option.choices:
                values = f" -x -a {shlex.quote(' '.join(option.choices))}"
            values = values or (" -r" if option.takes_value else "")
            yield f"complete -c rlvr {here}{long}{short}{values} -d {shlex.quote(option.help)}"


def completion(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the script of a shell."""
    print(script(options.shell, options.parser()), end="")
    return 0


def add_parser(commands: Any, parser: Any) -> None:
    """Add ``completion`` to the sub-commands of `rlvr`; ``parser`` makes the whole parser."""
    completing = commands.add_parser("completion", help="print a script that completes rlvr's words in a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "fish"), help="as: source <(rlvr completion bash)")
    completing.set_defaults(command=completion, parser=parser)
