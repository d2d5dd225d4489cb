"""``relayconf completion``: a script that completes commands, options and files in a shell.

The script is static text made from the parsers, so that completing starts no Python.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from relayconf.cli import common

SHELLS = ("bash", "zsh")

#: Options whose value is a file, for every command that has them.
_FILES = ("--env-file", "--file", "-f", "--tools")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion",
        help="a script that completes commands and options in the shell",
        description='Print the script for a shell. In ~/.bashrc: eval "$(relayconf completion '
        'bash)"; in ~/.zshrc: eval "$(relayconf completion zsh)".',
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script; always 0."""
    from relayconf.cli.parser import build_parser  # noqa: PLC0415 - it imports this module

    common.print_text(script(arguments.shell, build_parser()))
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion script of one command line.

    Args:
        shell: one of ``SHELLS``.
        parser: the whole parser; its ``prog`` is the command that is completed.
    """
    name = re.sub(r"\W", "_", parser.prog)
    chains = [(" ".join(path), " ".join(words)) for path, words in _words(parser)]
    body = _BODY.format(
        name=name,
        files="|".join(_FILES),
        known="|".join(f"'{chain}'" for chain, _ in chains if chain),
        cases="\n".join(f"    '{chain}') words='{words}' ;;" for chain, words in chains),
    )
    return body + (_ZSH if shell == "zsh" else _BASH).format(name=name, prog=parser.prog)


def _words(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield each chain of commands, the empty one first, with what may follow it."""
    words: list[str] = []
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of what it takes
        words.extend(action.option_strings)
        choices: Any = action.choices
        if isinstance(choices, dict):
            below.update(choices)
        if choices is not None and not action.option_strings:
            words.extend(map(str, choices))
    yield path, words
    for command, inner in below.items():
        yield from _words(inner, (*path, command))


_BODY = """\
_{name}_complete() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local chain='' words='' word index next
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="${{COMP_WORDS[index]}}"
    [[ $word == -- ]] && {{ COMPREPLY=($(compgen -c -f -- "$current")); return; }}
    next="${{chain:+$chain }}$word"
    case "$next" in {known}) chain="$next" ;; esac
  done
  case "$before" in
    {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$chain" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* || $chain == '' ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
"""

_BASH = "complete -o filenames -F _{name}_complete {prog}"

_ZSH = """\
autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
complete -o filenames -F _{name}_complete {prog}"""
