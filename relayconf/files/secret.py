"""Secret files: one secret a file, as Compose's ``secrets:`` delivers them.

A file is named by ``NAME_FILE``, or is called ``NAME`` (in any case) in the directory of secrets. A
file that cannot be used makes an entry with its fault instead of an error, since one missing
secret must not hide every other value. No content is ever part of a fault. Ground floor.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from relayconf.errors import SourceError
from relayconf.files.regular import read_regular, shown_path
from relayconf.layers import Entry, Layer
from relayconf.names import fileable, pointers
from relayconf.setting import Contract, Setting
from relayconf.values import Invalid, is_blank, parse

#: A bound on one secret file. The longest real ones are bundles of certificates.
MAX_SECRET_BYTES = 64 * 1024


class _Pointer(NamedTuple):
    """One ``NAME_FILE``: which file it names, and where it was set."""

    path: str
    variable: str
    origin: str


def secret_entries(
    contract: Contract,
    directory: Optional[str],
    environ: Mapping[str, str],
    below: Sequence[Layer],
) -> Tuple[Entry, ...]:
    """Read every secret file that concerns a contract.

    Args:
        contract: whose secrets (and urls, whose userinfo is one) are looked for.
        directory: where secrets arrive as files; ``None`` for none. It need not exist.
        environ: the environment, whose ``NAME_FILE`` beats that of every file.
        below: layers of files that may hold a ``NAME_FILE`` too, low to high.

    Returns:
        One entry for each file, a ``NAME_FILE`` after (above) the directory's own.

    Raises:
        SourceError: the directory is there and cannot be read.
    """
    if not any(map(fileable, contract.settings.values())):
        return ()
    named = _named(contract, environ, below)
    settings = {n: s for s in contract.settings.values() for n in (s.name, *s.legacy)}
    again = {(name, os.path.abspath(pointer.path)) for name, pointer in named.items()}
    entries = [
        _read(settings[name], name, path)
        for name, path in _delivered(contract, directory)
        if (name, os.path.abspath(path)) not in again
    ]
    entries.extend(
        _read(settings[name], name, pointer.path, pointer) for name, pointer in named.items()
    )
    return tuple(entries)


def _named(
    contract: Contract, environ: Mapping[str, str], below: Sequence[Layer]
) -> Dict[str, _Pointer]:
    variables = pointers(contract)
    found: Dict[str, _Pointer] = {}
    entries = [entry for layer in below for entry in layer.entries]
    entries.extend(Entry(v, environ[v], "environment") for v in variables if v in environ)
    for entry in entries:
        name = variables.get(entry.name)
        if name is not None and not is_blank(entry.text):
            path = entry.text.strip(" \t\n\r\v\f")
            found[name] = _Pointer(path, entry.name, entry.origin)
    return found


def _delivered(contract: Contract, directory: Optional[str]) -> Iterator[Tuple[str, str]]:
    """Yield name and path of each file in the directory that is called like a secret."""
    if directory is None:
        return
    try:
        files = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"cannot list the directory: {reason}", origin=directory) from None
    spelled: Dict[str, List[str]] = {}
    for file in files:
        spelled.setdefault(file.upper(), []).append(file)
    for name in pointers(contract).values():
        # The exact name last, where it beats the same in another case.
        for file in sorted(spelled.get(name.upper(), ()), key=lambda file: file == name):
            yield name, os.path.join(directory, file)


def _read(setting: Setting, name: str, path: str, pointer: Optional[_Pointer] = None) -> Entry:
    origin = shown_path(path)
    try:
        data = read_regular(path, limit=MAX_SECRET_BYTES)
        text = data.decode("utf-8")
    except SourceError as error:
        return Entry(name, "", origin, _fault(str(error).removeprefix(f"{origin}: "), pointer))
    except UnicodeDecodeError as error:
        return Entry(name, "", origin, _fault(f"it is not UTF-8 at byte {error.start}", pointer))
    end = next((end for end in ("\r\n", "\n") if text.endswith(end)), "")
    text = text[: len(text) - len(end)]
    url = setting.type == "url" and not is_blank(text)
    if url and isinstance(parse(setting, text), Invalid):
        # What is no url may be a bare password, and an invalid url would be shown.
        return Entry(name, "", origin, _fault("it does not hold a url", pointer))
    return Entry(name, text, origin)


def _fault(reason: str, pointer: Optional[_Pointer]) -> str:
    if pointer is None:
        return reason
    return f"{reason}; {pointer.variable} ({pointer.origin}) names it"
