"""Names of secrets: whether a variable of which nothing is declared probably holds one.

Only for what may be shown. What is declared a secret is one, whatever it is called.
"""

from __future__ import annotations

import re

#: Parts of a name after which its value is taken for a secret. A wrong guess costs a second look;
#: a missed one costs a secret in a terminal's scrollback or a ticket.
SECRET = re.compile(
    r"PASS|PWD|SECRET|TOKEN|CREDENTIAL|PRIVATE|AUTH|DSN|SALT|COOKIE|SESSION|SIGNATURE"
    r"|CERT|(?:^|_)PW(?:_|$)|(?:^|_)JWT$|(?:^|_)(?:API)?KEYS?(?:_|$)|[A-Z]KEY$",
    re.IGNORECASE,
)


def may_be_secret(name: str) -> bool:
    """Whether a name is one of a secret, as far as names tell."""
    return SECRET.search(name) is not None
