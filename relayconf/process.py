"""The process: which places it reads, by relayconf's own settings in its environment.

relayconf's own settings (``RELAYCONF_*``) are resolved like everybody else's, from the environment
and secret files alone, and say where everybody else's are looked for. Ground floor.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

from relayconf import report
from relayconf.errors import SourceError
from relayconf.files.secret import secret_entries
from relayconf.fleet.options import fleet_options
from relayconf.layers import Layer, Sources, environment_layer
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract
from relayconf.state.location import state_path
from relayconf.targets import find_contract


class Process(NamedTuple):
    """What relayconf's own settings say about one process."""

    sources: Sources
    strict: bool


def read_process(
    environ: Mapping[str, str],
    *,
    env_files: Sequence[str] = (),
    options: Sequence[str] = (),
    deployment: Optional[str] = None,
    strict: bool = False,
) -> Process:
    """Resolve relayconf's own settings and combine them with what a caller asks for.

    Args:
        environ: the environment; also the layer of that name.
        env_files: paths, lowest first; where there are none, ``RELAYCONF_ENV_FILE`` names them.
        options: texts ``NAME=VALUE``.
        deployment: wins over ``RELAYCONF_DEPLOYMENT``.
        strict: on where it is true or ``RELAYCONF_STRICT`` is.
    """
    contract = find_contract("relayconf")
    resolution = _own(contract, environ)
    report.once(resolution.problems)
    own: Mapping[str, Any] = resolution.values
    deployment = deployment or own["RELAYCONF_DEPLOYMENT"]
    sources = Sources(
        environ,
        tuple(env_files) or tuple(own["RELAYCONF_ENV_FILE"] or ()),
        tuple(options),
        deployment,
        own["RELAYCONF_CONFIG_DIR"] or ".",
        own["RELAYCONF_SECRETS_DIR"],
        state_path(environ, own["RELAYCONF_STATE_DIR"]),
        own["RELAYCONF_STATE_GROUP"],
        fleet_options(resolution, deployment=deployment),
    )
    return Process(sources, strict or bool(own["RELAYCONF_STRICT"]))


def _own(contract: Contract, environ: Mapping[str, str]) -> Resolution:
    """Resolve relayconf's own settings; the environment says where its secret files are."""
    environment = environment_layer(contract, environ)
    place = "RELAYCONF_SECRETS_DIR"
    folder = resolve(contract, [environment], only=[place]).values[place]
    try:
        files = secret_entries(contract, None if folder is None else str(folder), environ, ())
    except SourceError as error:
        # Whoever needs a secret from it is told again; nothing here may hold up a kill.
        report.warn(str(error))
        files = ()
    return resolve(contract, [Layer("secret-file", files), environment])
