"""The compose fragments: two ways to hand every setting to a container, each a service to extend.

``pass`` has entries without a value, which Compose fills from its own environment; ``file`` reads
an env file. They are never mixed on one service, where an entry without a value would shadow what
the file says. Neither repeats a default, so that none of them ages.
"""

from __future__ import annotations

from relayconf.setting import Contract

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


def compose_fragment(contract: Contract) -> str:
    """Return the whole file."""
    names = "".join(f"      {name}:\n" for name in contract.settings)
    head, file = _HEAD.format(target=contract.target), _FILE.format(target=contract.target)
    return head + (names or "      {}\n") + file
