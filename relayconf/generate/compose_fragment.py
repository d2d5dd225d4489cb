"""The compose fragments: two ways to hand every setting to a container, each a service to extend.

``pass`` has entries without a value, which Compose fills from its own environment; ``file`` reads
an env file. They are never mixed on one service, where an entry without a value would shadow what
the file says. Neither repeats a default, so that none of them ages. Each comes a second time with
the state directory, for a container that is to obey kills and to keep them.
"""

from __future__ import annotations

from relayconf.setting import Contract
from relayconf.state.location import DIR_NAME

_HEAD = """\
# How to hand the settings of {target} to a container under Docker Compose 2.24 or newer. Generated
# by 'relayconf generate'. In your compose.yaml, extend one of the two:
#
#   services:
#     my-service:
#       image: my-image
#       extends: {{file: schema/{target}.compose.yaml, service: {target}-pass}}
#
# Never both on one service: an entry without a value shadows what an env_file says, even where it
# stays unset. Neither repeats a default; what nobody sets keeps the declared one.
{live}
services:
  # What is set in the shell, in .env or by --env-file reaches the container under its own name;
  # what is set nowhere does not exist there. This list may as well be pasted into a service.
  {target}-pass:
    environment:
"""

_FILE = """\

  # The container gets what stands in {target}.env, and starts without that file as well. The shell,
  # .env and --env-file do not reach it. The path is relative to the file that you read here.
  {target}-file:
    env_file:
      - path: ../{target}.env
        required: false
"""

_LIVE_HEAD = """\
#
# A service that is to obey kills and overrides while it runs, and to know of them after it was
# replaced, extends {target}-pass-live or {target}-file-live instead: the same with the state
# directory on a volume, which your compose.yaml declares and every such service shares:
#
#   volumes:
#     relayconf-state:
#
# Then 'docker compose exec my-service relayconf kill ...' reaches all of them. The image has
# {path}, owned by the container's user, or the volume belongs to root and the service
# can obey but not say so. Users that differ share it by RELAYCONF_STATE_GROUP and group_add.
"""

_LIVE = """\

  {target}-pass-live:
    extends: {{service: {target}-pass}}
    environment:
      RELAYCONF_STATE_DIR: {path}
      RELAYCONF_STATE_GROUP:
    volumes: ["relayconf-state:{path}"]

  {target}-file-live:
    extends: {{service: {target}-file}}
    environment:
      RELAYCONF_STATE_DIR: {path}
    volumes: ["relayconf-state:{path}"]
"""

#: Where the state directory is mounted; the examples and their images have it there as well.
STATE = "/var/lib/relayconf"


def compose_fragment(contract: Contract) -> str:
    """Return the whole file."""
    names = "".join(f"      {name}:\n" for name in contract.settings)
    facts = {"target": contract.target, "path": STATE}
    # relayconf's own contract says by itself where the directory is.
    obeys = DIR_NAME not in contract.settings
    head = _HEAD.format(**facts, live=_LIVE_HEAD.format(**facts) if obeys else "")
    tail = _FILE.format(**facts) + (_LIVE.format(**facts) if obeys else "")
    return head + (names or "      {}\n") + tail
