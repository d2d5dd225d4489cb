"""Layers: where raw text comes from, lowest first, each piece with its origin.

A layer is text and nothing else: it neither parses nor judges. Reading a file may fail, and then
says so with one ``SourceError``; the process environment cannot fail. Ground floor.
"""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from typing import (
    TYPE_CHECKING,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from relayconf.errors import SourceError, TargetError
from relayconf.nearest import nearest
from relayconf.problems import Problem
from relayconf.setting import Contract

if TYPE_CHECKING:
    from relayconf.fleet.options import FleetOptions

#: Every layer, low to high. A value in a later one beats a value in an earlier one.
ORDER = (
    "default",
    "file",
    "env-file",
    "secret-file",
    "environment",
    "option",
    "override",
    "fleet",
)

#: A bound on one env file. Real ones are a few KiB; the bound keeps a wrong path (a device, a log)
#: from being read into memory.
MAX_FILE_BYTES = 4 * 1024 * 1024


class Entry(NamedTuple):
    """One assignment: a name and its text exactly as written, and where it stands.

    ``fault`` says why what stands there is no text at all (a table, a file that cannot be read);
    it never holds any part of a value.
    """

    name: str
    text: str
    origin: str
    fault: Optional[str] = None

    def __repr__(self) -> str:
        return f"Entry({self.name!r}, origin={self.origin!r})"


class Layer(NamedTuple):
    """The assignments of one layer in the order in which they were read; the last one wins.

    ``kills`` name the flags that are killed in it, by their current names; such an entry's text
    counts for nothing. ``problems`` are what was wrong with the layer's own store, ``generation``
    is that store's.
    """

    name: str
    entries: Tuple[Entry, ...]
    kills: Tuple[Entry, ...] = ()
    problems: Tuple[Problem, ...] = ()
    generation: int = 0


class Sources(NamedTuple):
    """Which places to read.

    ``env_files`` are paths, lowest first; ``options`` are texts ``NAME=VALUE``; ``deployment``
    selects sections and files of settings in ``config_dir``; ``secrets_dir`` holds one file for
    each secret. With ``config_dir`` or ``secrets_dir`` of ``None`` nothing is read there; a file
    that ``NAME_FILE`` names is read all the same. ``state_dir`` holds the overrides, and
    ``state_group`` is the group that shares it. ``fleet`` is how to reach those of all hosts.
    """

    environ: Mapping[str, str]
    env_files: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()
    deployment: Optional[str] = None
    config_dir: Optional[str] = None
    secrets_dir: Optional[str] = None
    state_dir: Optional[str] = None
    state_group: Optional[str] = None
    fleet: Optional[FleetOptions] = None

    def __repr__(self) -> str:
        options = [option.partition("=")[0] for option in self.options if "=" in option]
        return (
            f"Sources(env_files={self.env_files!r}, options={options!r}, "
            f"deployment={self.deployment!r}, config_dir={self.config_dir!r})"
        )


def collect(contract: Contract, sources: Sources) -> List[Layer]:
    """Read every source once and return its layers, low to high.

    Raises:
        SourceError: an env file or a settings file cannot be read or parsed.
        TargetError: an option names a setting that the contract does not have.
    """
    layers = configured(contract, sources)
    if sources.state_dir is not None and os.path.lexists(sources.state_dir):
        from relayconf.overrides.layer import override_layer  # noqa: PLC0415 - it imports this one
        from relayconf.overrides.reading import Reader  # noqa: PLC0415 - only where there is one

        reading = Reader(sources.state_dir, group=sources.state_group).read()
        layers.append(override_layer(contract, reading))
    if sources.fleet is not None:
        from relayconf.fleet.layer import fleet_layer  # noqa: PLC0415 - it imports this one
        from relayconf.fleet.reading import read_fleet  # noqa: PLC0415 - only where there is one

        known = read_fleet(sources.state_dir, sources.fleet, group=sources.state_group)
        layers.append(fleet_layer(contract, known, sources.fleet))
    return layers


def configured(contract: Contract, sources: Sources) -> List[Layer]:
    """Return the layers of what is configured: all but those that override it.

    Raises:
        SourceError: an env file or a settings file cannot be read or parsed.
        TargetError: an option names a setting that the contract does not have.
    """
    from relayconf.files.secret import secret_entries  # noqa: PLC0415 - it imports this module

    try:
        files = [
            Layer("file", _file_entries(contract, sources)),
            Layer("env-file", tuple(_env_file_entries(sources.env_files, sources.environ))),
        ]
    except SourceError as error:
        # The frames behind it hold whole files, and a traceback may show local variables.
        error.__context__ = None
        raise error.with_traceback(None) from None
    secrets = secret_entries(contract, sources.secrets_dir, sources.environ, files)
    return [
        *files,
        Layer("secret-file", secrets),
        environment_layer(contract, sources.environ),
        Layer("option", tuple(_option_entries(contract, sources.options))),
    ]


def concerns(contract: Contract, name: str) -> bool:
    """Whether ``name`` is this contract's business: declared, legacy, or carrying its prefix.

    The prefix is compared in any case, so that ``relay_poll_ms`` is found and reported. Every other
    variable is foreign; where a contract has no prefix, every undeclared one is.
    """
    if name in contract.settings:
        return True
    if contract.prefix and name.upper().startswith(contract.prefix.upper()):
        return True
    return any(name in setting.legacy for setting in contract.settings.values())


def read_bytes(path: str) -> bytes:
    """Read one file of at most ``MAX_FILE_BYTES``.

    Raises:
        SourceError: it is missing, unreadable, a directory or a pipe, or too large.
    """
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"cannot read the file: {reason}", origin=path) from None
    if len(data) > MAX_FILE_BYTES:
        raise SourceError(f"the file is larger than {MAX_FILE_BYTES} bytes", origin=path)
    return data


def _open_without_blocking(path: str, flags: int) -> int:
    # A FIFO in the place of a file would block the open for ever. What has been written to it so
    # far is no file either: a part would count as the whole.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, "it is a pipe; write its content to a file")
    return descriptor


def _file_entries(contract: Contract, sources: Sources) -> Tuple[Entry, ...]:
    if sources.config_dir is None:
        return ()
    from relayconf.files import settings_entries  # noqa: PLC0415 - it imports this module

    return settings_entries(contract, sources.config_dir, sources.deployment)


def _env_file_entries(paths: Sequence[str], environ: Mapping[str, str]) -> Iterable[Entry]:
    if not paths:
        return
    from relayconf.compose.dotenv import (  # noqa: PLC0415 - only where a file is given
        last_values,
        parse_dotenv,
    )

    earlier: Dict[str, str] = {}
    for path in paths:
        read = parse_dotenv(read_bytes(path), path=path, lookup=environ.get, earlier=earlier)
        earlier.update(last_values(read))
        for entry in read:
            if entry.value is not None:
                yield Entry(entry.name, entry.value, f"{path}:{entry.line}")


def environment_layer(contract: Contract, environ: Mapping[str, str]) -> Layer:
    """Return the environment's assignments that concern a contract."""
    # Sorted, because no answer may depend on the order of the environment block.
    names = sorted(name for name in environ if concerns(contract, name))
    return Layer("environment", tuple(Entry(n, environ[n], "environment") for n in names))


def _option_entries(contract: Contract, options: Sequence[str]) -> Iterable[Entry]:
    legacy = {old: setting for setting in contract.settings.values() for old in setting.legacy}
    for option in options:
        name, equals, text = option.partition("=")
        known = name in contract.settings or name in legacy
        if not equals:
            # Whatever else stands there may be a value whose name was forgotten.
            raise TargetError(f"--set wants NAME=VALUE, and {name if known else 'it'} has no '='")
        if not known:
            near = nearest(name, list(contract.settings))
            hint = f"; did you mean {near}?" if near else ""
            said = name if near or concerns(contract, name) else "NAME"
            raise TargetError(f"--set {said}: {contract.target} has no setting of that name{hint}")
        yield Entry(name, text, "--set")
