"""Interpolates the values of a compose file, and casts those that Compose casts.

Values and list items are interpolated, keys are not; it runs on every service, also of a profile
that is not active, and on ``x-`` sections. Nothing that was put in is scanned again.
"""

from __future__ import annotations

from collections.abc import Callable

from relayconf.compose.errors import ComposeError
from relayconf.compose.interpolate import Reference, TemplateError, interpolate
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence
from relayconf.compose.session import Session
from relayconf.compose.variables import Variables

Path = tuple[str, ...]
Cast = Callable[[str], bool | int | float]

#: The part of a path that stands for any list item, as in Compose's own messages.
ITEM = "[]"

#: What a tolerated expression comes to: no blank, so that what needs a value has one.
STAND_IN = "0"


def substitute(root: Mapping, variables: Variables, session: Session) -> None:
    """Interpolate every value of a document in place.

    Raises:
        ComposeError: an expression is not valid (kind ``template``), a required variable is missing
            (``required``), or the outcome is not what its place needs (``schema``).
    """
    _Substitution(variables, session).mapping(root, ())


class _Substitution:
    def __init__(self, variables: Variables, session: Session) -> None:
        self.variables = variables
        self.session = session

    def mapping(self, node: Mapping, path: Path) -> None:
        for key, value in node.entries.items():
            node.entries[key] = self.node(value, (*path, key))

    def node(self, node: Node, path: Path) -> Node:
        if isinstance(node, Mapping):
            self.mapping(node, path)
        elif isinstance(node, Sequence):
            node.items = [self.node(item, (*path, ITEM)) for item in node.items]
        elif isinstance(node.value, str):
            return self.scalar(node, node.value, path)
        return node

    def scalar(self, node: Scalar, text: str, path: Path) -> Scalar:
        result = self.interpolated(node, text, path) if "$" in text else node
        cast = _cast_for(path)
        if cast is None or not isinstance(result.value, str):
            return result
        try:
            return result.replaced(cast(result.value))
        except ValueError as error:
            where = ".".join(path)
            reason = f"failed to cast to expected type: {error}"
            message = f"error while interpolating {where}: {reason}"
            raise ComposeError(message, kind="schema", origin=str(node.mark)) from None

    def interpolated(self, node: Scalar, text: str, path: Path) -> Scalar:
        found: list[Reference] = []
        try:
            value = interpolate(
                text,
                self.variables.lookup,
                eager=not self.session.newest,
                references=found,
            )
        except TemplateError as error:
            refusal = _refuse(node, text, path, error)
            if not self.session.tolerates(refusal, path):
                raise refusal from None
            value = STAND_IN
        result = node.replaced(value)
        result.references = tuple(found)
        self.session.note_unset(result.references, str(node.mark))
        return result


def _refuse(node: Scalar, text: str, path: Path, error: TemplateError) -> ComposeError:
    where, mark = ".".join(path), node.mark
    start = node.raw.find(text)
    if start >= 0 and "\n" not in node.raw[: start + error.offset]:
        mark = mark._replace(column=mark.column + start + error.offset)
    message = f"invalid interpolation format for {where}: {error.reason}"
    if error.kind == "required":
        message = f"error while interpolating {where}: {error.reason}"
    return ComposeError(message, kind=error.kind, origin=str(mark))


def _boolean(text: str) -> bool:
    word = text.lower()
    if word in ("true", "y", "yes", "on"):
        return True
    if word in ("false", "n", "no", "off"):
        return False
    raise ValueError("invalid boolean")


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise ValueError("invalid integer")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text.strip("_") if text == text.strip() else "")
    except ValueError:
        raise ValueError("invalid number") from None


# What Compose casts after interpolation, below ``services.NAME`` and then below the top level.
_SERVICE_CASTS: dict[Path, Cast] = {
    **dict.fromkeys(
        [
            ("cpu_count",),
            ("cpu_period",),
            ("cpu_quota",),
            ("cpu_rt_period",),
            ("cpu_rt_runtime",),
            ("cpu_shares",),
            ("oom_score_adj",),
            ("pids_limit",),
            ("scale",),
            ("healthcheck", "retries"),
            ("ports", ITEM, "target"),
            ("ulimits", "*"),
            ("ulimits", "*", "hard"),
            ("ulimits", "*", "soft"),
            ("deploy", "replicas"),
            ("deploy", "update_config", "parallelism"),
            ("deploy", "rollback_config", "parallelism"),
            ("deploy", "restart_policy", "max_attempts"),
            ("deploy", "placement", "max_replicas_per_node"),
        ],
        _integer,
    ),
    **dict.fromkeys([("cpus",), ("cpu_percent",)], _number),
    **dict.fromkeys(
        [
            ("init",),
            ("oom_kill_disable",),
            ("privileged",),
            ("read_only",),
            ("stdin_open",),
            ("tty",),
            ("healthcheck", "disable"),
            ("env_file", ITEM, "required"),
            ("depends_on", "*", "required"),
            ("depends_on", "*", "restart"),
            ("volumes", ITEM, "read_only"),
            ("volumes", ITEM, "volume", "nocopy"),
        ],
        _boolean,
    ),
}
_RESOURCE_CASTS: dict[Path, Cast] = {
    ("networks", "external"): _boolean,
    ("networks", "internal"): _boolean,
    ("networks", "attachable"): _boolean,
    ("networks", "enable_ipv4"): _boolean,
    ("networks", "enable_ipv6"): _boolean,
    ("volumes", "external"): _boolean,
    ("secrets", "external"): _boolean,
    ("configs", "external"): _boolean,
}


def _cast_for(path: Path) -> Cast | None:
    if len(path) < 3:
        return None
    if path[0] != "services":
        return _RESOURCE_CASTS.get((path[0], *path[2:]))
    below = path[2:]
    cast = _SERVICE_CASTS.get(below)
    if cast is None and len(below) > 1:
        cast = _SERVICE_CASTS.get((below[0], "*", *below[2:]))
    return cast
