"""Refuses what is YAML but no compose file: unknown attributes and values of the wrong kind.

The tables name every attribute of a service and of the top level with the kinds of value it takes.
Inside attributes that have nothing to do with an environment nothing is checked, so that a new
attribute of Compose is not refused here before it is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence, kind
from relayconf.compose.scalars import Timestamp

_NAME = re.compile(r"[a-zA-Z0-9._-]+")

# One word a kind; ``|`` where several kinds are one type, ``,`` where they are alternatives (a
# message then names the first). ``dict`` and ``texts`` are checked further inside.
_TEXT = "string"
_FLAG = "boolean|string"
_AMOUNT = "number|string"
_WHOLE = "integer|string"
_TEXT_OR_LIST = "string,list"
_SERVICE: dict[str, str] = {
    **dict.fromkeys(
        [
            "cgroup",
            "cgroup_parent",
            "container_name",
            "cpuset",
            "domainname",
            "hostname",
            "image",
            "ipc",
            "isolation",
            "mac_address",
            "network_mode",
            "platform",
            "pull_policy",
            "pull_refresh_after",
            "restart",
            "runtime",
            "stop_grace_period",
            "stop_signal",
            "user",
            "userns_mode",
            "uts",
            "working_dir",
        ],
        _TEXT,
    ),
    **dict.fromkeys(
        ["attach", "init", "oom_kill_disable", "privileged", "read_only", "stdin_open", "tty"],
        _FLAG,
    ),
    **dict.fromkeys(
        [
            "cpu_percent",
            "cpu_period",
            "cpu_quota",
            "cpu_rt_period",
            "cpu_rt_runtime",
            "cpu_shares",
            "cpus",
            "mem_limit",
            "memswap_limit",
            "pids_limit",
            "shm_size",
        ],
        _AMOUNT,
    ),
    **dict.fromkeys(
        ["cpu_count", "mem_reservation", "mem_swappiness", "oom_score_adj", "scale"], _WHOLE
    ),
    **dict.fromkeys(["annotations", "environment", "labels", "sysctls"], "dict,texts"),
    **dict.fromkeys(
        [
            "cap_add",
            "cap_drop",
            "device_cgroup_rules",
            "dns_opt",
            "external_links",
            "links",
            "profiles",
            "security_opt",
            "volumes_from",
        ],
        "texts",
    ),
    **dict.fromkeys(["dns", "dns_search", "label_file", "tmpfs"], _TEXT_OR_LIST),
    **dict.fromkeys(
        [
            "configs",
            "devices",
            "expose",
            "group_add",
            "ports",
            "post_start",
            "pre_start",
            "pre_stop",
            "secrets",
            "volumes",
        ],
        "list",
    ),
    **dict.fromkeys(
        [
            "blkio_config",
            "credential_spec",
            "healthcheck",
            "logging",
            "provider",
            "storage_opt",
            "ulimits",
        ],
        "mapping",
    ),
    **dict.fromkeys(["deploy", "develop"], "mapping|null"),
    **dict.fromkeys(["command", "entrypoint"], "null,string,texts"),
    **dict.fromkeys(["models", "networks"], "texts,mapping"),
    "build": "string,mapping",
    "depends_on": "texts,mapping",
    "env_file": _TEXT_OR_LIST,
    "extends": "string,mapping",
    "extra_hosts": "mapping,list",
    "gpus": _TEXT_OR_LIST,
    "pid": "null|string",
    "use_api_socket": "boolean",
}
#: Every attribute that a service may have.
SERVICE_ATTRIBUTES = tuple(sorted(_SERVICE))
_TOP: dict[str, str] = {
    "configs": "mapping",
    "include": "list",
    "jobs": "mapping",
    "models": "mapping",
    "name": _TEXT,
    "networks": "mapping",
    "secrets": "mapping",
    "services": "mapping",
    "version": _TEXT,
    "volumes": "mapping",
}
_RESOURCES = {
    "configs": "mapping",
    "networks": "mapping|null",
    "secrets": "mapping",
    "volumes": "mapping|null",
}
_VARIABLE = "boolean|null|number|string"
_ENV_FILE = {"path": _TEXT, "format": _TEXT, "required": _FLAG}
_EXTENDS = {"service": _TEXT, "file": _TEXT}


def validate(root: Mapping, *, newest: bool) -> None:
    """Check a merged document.

    Args:
        root: the document, already interpolated.
        newest: judge as the newest Compose does (it takes dates, and refuses ``.inf``).

    Raises:
        ComposeError: kind ``schema``, at the first value that is not as it must be.
    """
    _check_values(root, newest=newest)
    _attributes(root, _TOP, "")
    for section, kinds in _RESOURCES.items():
        for name, node, where in _named(root, section):
            if section != "networks":
                _check_name(name, node, section)
            _kind(node, kinds, where)
    for name, node, where in _named(root, "services"):
        _check_name(name, node, "services")
        _service(node, where)


def _service(node: Node, where: str) -> None:
    _kind(node, "mapping", where)
    if not isinstance(node, Mapping):
        return
    _attributes(node, _SERVICE, where)
    env_file = node.entries.get("env_file")
    for index, item in enumerate(env_file.items if isinstance(env_file, Sequence) else ()):
        _kind(item, "string,mapping", f"{where}.env_file.{index}")
        if isinstance(item, Mapping):
            _attributes(item, _ENV_FILE, f"{where}.env_file.{index}", extensions=False)
    extends = node.entries.get("extends")
    if isinstance(extends, Mapping):
        _attributes(extends, _EXTENDS, f"{where}.extends", extensions=False)


def _attributes(
    node: Mapping, table: dict[str, str], where: str, *, extensions: bool = True
) -> None:
    """Every key is known and its value of a kind it takes; ``x-`` keys are anybody's."""
    for key, value in node.entries.items():
        if extensions and key.startswith("x-"):
            continue
        kinds = table.get(key)
        if kinds is None:
            place = where or "(root)"
            message = f"schema: {place} additional properties '{key}' not allowed"
            raise _refuse(message, node, key)
        _kind(value, kinds, f"{where}.{key}" if where else key)


def _kind(node: Node, kinds: str, where: str) -> None:
    alternatives = kinds.split(",")
    for alternative in alternatives:
        if _is(node, alternative):
            _inside(node, alternative, where)
            return
    first = {"dict": "mapping", "texts": "list"}.get(alternatives[0], alternatives[0])
    words = sorted(first.split("|"))
    asked = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    message = f"schema: {where} must be a {asked}"
    raise ComposeError(message, kind="schema", origin=str(node.mark))


def _is(node: Node, alternative: str) -> bool:
    """Whether the node is of one of the kinds; a whole float counts as an integer."""
    actual = kind(node)
    words = alternative.split("|")
    if actual in words or (actual == "integer" and "number" in words):
        return True
    if actual == "number" and "integer" in words and isinstance(node, Scalar):
        return isinstance(node.value, float) and node.value.is_integer()
    return (actual, alternative) in {("mapping", "dict"), ("list", "texts")}


def _inside(node: Node, alternative: str, where: str) -> None:
    """Check what a mapping of variables or a list of texts holds."""
    if alternative == "dict" and isinstance(node, Mapping):
        for key, value in node.entries.items():
            if not key:
                message = f"schema: {where} additional properties '' not allowed"
                raise _refuse(message, node, key)
            _kind(value, _VARIABLE, f"{where}.{key}")
    if alternative == "texts" and isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            _kind(item, _TEXT, f"{where}.{index}")


def _named(root: Mapping, section: str) -> Iterator[tuple[str, Node, str]]:
    node = root.entries.get(section)
    if isinstance(node, Mapping):
        for name, value in node.entries.items():
            if not name.startswith("x-") or section == "services":
                yield name, value, f"{section}.{name}"


def _check_name(name: str, node: Node, section: str) -> None:
    if _NAME.fullmatch(name) is None:
        message = f"schema: {section} additional properties '{name}' not allowed"
        raise ComposeError(message, kind="schema", origin=str(node.mark))


def _check_values(node: Node, *, newest: bool) -> None:
    """The newest Compose goes through JSON, which has no infinity; 2.40 has no dates."""
    if isinstance(node, Mapping):
        for value in node.entries.values():
            _check_values(value, newest=newest)
    elif isinstance(node, Sequence):
        for item in node.items:
            _check_values(item, newest=newest)
    elif newest and isinstance(node.value, float) and not math.isfinite(node.value):
        word = "NaN" if math.isnan(node.value) else "+Inf" if node.value > 0 else "-Inf"
        message = f"schema: json: unsupported value: {word}"
        raise ComposeError(message, kind="schema", origin=str(node.mark))
    elif not newest and isinstance(node.value, Timestamp):
        message = "schema: invalid jsonType time.Time: quote the date"
        raise ComposeError(message, kind="schema", origin=str(node.mark))


def _refuse(message: str, node: Mapping, key: str) -> ComposeError:
    return ComposeError(message, kind="schema", origin=str(node.keys.get(key, node.mark)))
