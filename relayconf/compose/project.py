"""The entry to the compose reader: files in, a project with each container's environment out.

It answers what Docker Compose v2 would give each service, without a network, an engine or a shell,
and keeps for every variable the chain of places that say something about it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping as Named
from collections.abc import Sequence as Listed

from relayconf.compose import formats
from relayconf.compose.canonical import services_of
from relayconf.compose.consistency import check
from relayconf.compose.environment import Binding, bindings_of, check_names
from relayconf.compose.errors import ComposeError
from relayconf.compose.expand import substitute
from relayconf.compose.loader import Scope, load_model
from relayconf.compose.locate import Located, locate, normalize_name
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence, text_of
from relayconf.compose.session import Note, Session
from relayconf.compose.variables import Variable, Variables


class Project:
    """A loaded project.

    Attributes:
        name: the project's name.
        files: the compose files, absolute, in order.
        services: for each enabled service its variables by name.
        disabled: the services whose profiles are not active.
        variables: what ``${NAME}`` sees, each with its layer.
        notes: what Compose warns of, or should.
        model: the merged document, disabled services and ``x-`` sections included.
    """

    def __init__(
        self,
        *,
        name: str,
        files: tuple[str, ...],
        services: dict[str, dict[str, Binding]],
        disabled: tuple[str, ...],
        variables: Variables,
        notes: tuple[Note, ...],
        model: Mapping,
    ) -> None:
        self.name = name
        self.files = files
        self.services = services
        self.disabled = disabled
        self.variables = variables
        self.notes = notes
        self.model = model

    def environments(self) -> dict[str, dict[str, str | None]]:
        """What each enabled service's container gets; ``None`` means the name is taken out."""
        return {
            service: {name: binding.value for name, binding in bindings.items()}
            for service, bindings in self.services.items()
        }


def load(
    files: Listed[str] = (),
    env_files: Listed[str] = (),
    *,
    environ: Named[str, str] | None = None,
    profiles: Listed[str] = (),
    directory: str | None = None,
    version: str = "newest",
) -> Project:
    """Read a project as ``docker compose`` does.

    Args:
        files: ``-f`` options in order; none means ``COMPOSE_FILE``, else the default file names in
            the directory and its parents.
        env_files: ``--env-file`` options in order; none means ``COMPOSE_ENV_FILES``, else ``.env``.
        environ: the process environment; ``None`` means this process's own.
        profiles: ``--profile`` options; any replaces ``COMPOSE_PROFILES``.
        directory: the working directory; ``None`` means this process's own.
        version: ``newest``, or ``2.40`` for what that release did differently.

    Returns:
        The project with the environment of every service of an active profile.

    Raises:
        ComposeError: what Compose refuses, with its kind and its position.
    """
    where = os.path.abspath(os.getcwd() if directory is None else directory)
    session = Session(where, version=version)
    return load_in(session, files, env_files, environ=environ, profiles=profiles)


def load_in(
    session: Session,
    files: Listed[str],
    env_files: Listed[str],
    *,
    environ: Named[str, str] | None,
    profiles: Listed[str],
) -> Project:
    """Read a project in a session of the caller's, who may look at what was read afterwards.

    Raises:
        ComposeError: as ``load``; the session then holds what was read up to there.
    """
    located = locate(
        session,
        files=files,
        env_files=env_files,
        environ=os.environ if environ is None else environ,
        profiles=profiles,
    )
    name = _name(located, session)
    record = Variable(name, "project name")
    variables = Variables({**located.variables.records, "COMPOSE_PROJECT_NAME": record})
    scope = Scope(located.folder, located.folder, variables)
    model = load_model(located.files, scope, session)
    if not model.entries:
        shown = session.display(located.files[0])
        raise ComposeError("empty compose file", kind="schema", origin=shown)
    if not name:
        reason = "project name must not be empty; set name: or COMPOSE_PROJECT_NAME"
        raise ComposeError(reason, kind="project")
    return _project(name, model, located, variables, session)


def _project(
    name: str, model: Mapping, located: Located, variables: Variables, session: Session
) -> Project:
    services = dict(services_of(model))
    enabled = {
        service: node
        for service, node in services.items()
        if _active(node.entries.get("profiles"), located.profiles)
    }
    disabled = tuple(service for service in services if service not in enabled)
    try:
        _judge(model, enabled, frozenset(disabled))
    except ComposeError as error:
        if not session.tolerates(error, ()):
            raise
    bindings = {
        service: bindings_of(service, node, variables, session) for service, node in enabled.items()
    }
    return Project(
        name=name,
        files=located.files,
        services=bindings,
        disabled=disabled,
        variables=variables,
        notes=session.notes,
        model=model,
    )


def _judge(model: Mapping, enabled: Named[str, Mapping], disabled: frozenset[str]) -> None:
    """Refuse a document whose parts do not fit together, or that no container can be made from."""
    formats.check(model)
    for service, node in services_of(model):
        check_names(service, node)
    check(model, enabled, disabled)


def _active(node: Node | None, profiles: tuple[str, ...]) -> bool:
    """Whether a service's profiles are met; a service without any always is."""
    own = [text_of(item) for item in node.items] if isinstance(node, Sequence) else []
    return not own or "*" in profiles or any(profile in own for profile in profiles)


def _name(located: Located, session: Session) -> str:
    """The project's name: fixed by the environment, else from the files, else the folder's."""
    if located.name is not None:
        if normalize_name(located.name) != located.name:
            record = located.variables.records["COMPOSE_PROJECT_NAME"]
            reason = (
                "invalid project name: must consist only of lowercase alphanumeric characters, "
                "hyphens, and underscores as well as start with a letter or number"
            )
            raise ComposeError(reason, kind="project", origin=record.origin)
        return located.name
    named = Scalar("", Mark("", 1, 1))
    for path in located.files:
        for document in session.documents(path):
            root = document.root
            found = root.entries.get("name") if isinstance(root, Mapping) else None
            if isinstance(found, Scalar) and text_of(found):
                named = found
    holder = Mapping(named.mark)
    holder.put("name", named, named.mark)
    substitute(holder, located.variables, session)
    own = normalize_name(text_of(holder.entries["name"]) or "")
    return own or normalize_name(os.path.basename(located.folder))
