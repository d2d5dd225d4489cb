"""Scalars: the grammar of every type that is one value, and so may be an item of a list.

Ground floor.
"""

from __future__ import annotations

from typing import Dict

from relayconf.values.duration import DURATION
from relayconf.values.numerals import INTEGER, NUMBER
from relayconf.values.result import Grammar
from relayconf.values.size import SIZE
from relayconf.values.text import PATH, SECRET, STRING
from relayconf.values.url import URL
from relayconf.values.words import BOOLEAN, ENUM, ROLLOUT

SCALARS: Dict[str, Grammar] = {
    "integer": INTEGER,
    "number": NUMBER,
    "duration": DURATION,
    "size": SIZE,
    "boolean": BOOLEAN,
    "rollout": ROLLOUT,
    "enum": ENUM,
    "string": STRING,
    "secret": SECRET,
    "path": PATH,
    "url": URL,
}
