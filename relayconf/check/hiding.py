"""Hiding: which values no message, fix or excerpt of the check may show.

A secret by declaration or by the sound of its name, whatever has a password in a url, and the
hashes that people keep of passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from relayconf.names import fileable
from relayconf.secretnames import may_be_secret
from relayconf.setting import Contract

# How the hashes begin that stand in env files: bcrypt, htpasswd, crypt, argon2 and the like.
HASH = re.compile(r"\$(?:2[abxy]?|apr1|[1-9]|y|gy|argon2\w*|scrypt|pbkdf2[\w-]*|sha\d+)\$")

_USERINFO = re.compile(r"://[^/\s@]*@")


class Hiding:
    """Knows the names of secrets.

    Args:
        contracts: whose secrets are hidden, whatever they are called.
    """

    def __init__(self, contracts: Iterable[Contract]) -> None:
        settings = [s for contract in contracts for s in contract.settings.values() if fileable(s)]
        self.secrets = {name for s in settings if s.secret for name in (s.name, *s.legacy)}

    def name(self, name: str) -> bool:
        """Whether the value of a variable is hidden, whatever it is."""
        return name in self.secrets or may_be_secret(name)

    def value(self, name: str, *texts: str | None) -> bool:
        """Whether these values of a variable are hidden."""
        if self.name(name):
            return True
        shown = [text for text in texts if text]
        return any(HASH.search(text) or _USERINFO.search(text) for text in shown)
