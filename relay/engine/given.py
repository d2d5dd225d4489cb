"""What a runner is given: settings, tools, a state directory, and what is to be served.

Each comes from an argument, else from the settings or the process environment. Nothing is opened
here but the files that say so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from relay.engine.announce import refuse_too_much
from relay.errors import RelayError
from relay.settings import RelaySettings
from relay.tools.file import load_tools
from relay.tools.registry import Registry, Tool
from relayconf.classes.build import text_of
from relayconf.errors import StateError
from relayconf.layers import Entry, Layer, Sources
from relayconf.live.rereading import Rereader
from relayconf.live.snapshot import Live, Snapshot, load
from relayconf.process import read_process
from relayconf.resolve import resolve
from relayconf.settings import contract_of
from relayconf.state.directory import FIX
from relayconf.state.location import state_path

#: A path, as an argument takes one.
Path = str | os.PathLike[str]

#: What a program may hand over as tools.
Tools = Mapping[str, Callable[..., Any] | Tool] | Iterable[Tool]


class NothingToServe(RelayError):
    """A runner has no directory, or no tools."""

    code = "usage"


def given_settings(
    given: Live[RelaySettings] | RelaySettings | None, state: Path | None
) -> Live[RelaySettings]:
    """Return live settings: those given, else the process environment's.

    Args:
        given: live settings, or settings that stay.
        state: the state directory whose overrides apply, where it is another than the usual one.

    Raises:
        RelayconfError: the environment's cannot be read.
    """
    if isinstance(given, Live):
        return given
    sources = read_process(os.environ).sources if given is None else Sources({})
    if state is not None:
        sources = sources._replace(state_dir=os.path.abspath(state))
    return load(RelaySettings, sources) if given is None else _held_still(given, sources)


def _held_still(settings: RelaySettings, sources: Sources) -> Live[RelaySettings]:
    """Return settings that somebody has built by hand as if each had been an option."""
    contract = contract_of(RelaySettings)
    entries = tuple(
        Entry(name, text_of(contract.settings[name], getattr(settings, field)), "RelaySettings")
        for field, name in RelaySettings.__names__.items()
        if field in settings.model_fields_set
    )
    layers = [Layer("option", entries)]
    resolution = resolve(contract, layers)
    rereader = Rereader(contract, sources, fixed=layers)
    return Live(Snapshot(1, settings, resolution), sources, rereader=rereader)


def given_tools(tools: Tools | None, settings: RelaySettings) -> Registry:
    """Return the tools that are offered: those given, else the file's that RELAY_TOOLS_FILE names.

    Raises:
        RelayError: there are none, or their file has faults.
    """
    if tools is not None:
        offered = Registry.of(tools)
    elif settings.tools_file is None:
        raise NothingToServe("no tools are named: give some, or set RELAY_TOOLS_FILE")
    else:
        offered = load_tools(str(settings.tools_file))
    refuse_too_much(offered)
    return offered


def given_state(given: Path | None, sources: Sources) -> str:
    """Return the path of the state directory.

    Raises:
        StateError: none is named, and there is no home directory.
    """
    path = os.fspath(given) if given is not None else sources.state_dir or state_path(os.environ)
    if path is None:
        raise StateError(f"there is no home directory to keep the relay's state in: {FIX}")
    return os.path.abspath(path)


def what_to_serve(one: Path | None, root: Path | None, settings: RelaySettings) -> tuple[str, bool]:
    """Return the path of what is served, as it was written, and whether it is a root.

    Raises:
        NothingToServe: neither is named, or both are.
    """
    # A blank is unset, here as in every text.
    one, root = (
        None if path is None or not os.fspath(path).strip() else path for path in (one, root)
    )
    if one is None and root is None:
        one, root = settings.dir, settings.root
    if one is not None and root is not None:
        raise NothingToServe(
            "RELAY_DIR and RELAY_ROOT are both set, and a runner serves one session or a root of "
            "many: unset one"
        )
    path = one if root is None else root
    if path is None:
        raise NothingToServe(
            "no session directory is named: give one, or set RELAY_DIR; or RELAY_ROOT for many"
        )
    return os.fspath(path), root is not None
