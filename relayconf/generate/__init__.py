"""Generation: from the declarations to every file that repeats them.

Each generator is a pure function from a contract to text, so that the same declaration always gives
the same bytes. ``plan`` says which file holds what; writing and comparing are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from relayconf.document import to_document
from relayconf.generate.vectors import vectors
from relayconf.setting import Contract


def plan(contracts: Sequence[Contract]) -> Mapping[str, str]:
    """Return the generated files: path from the project's root, and whole text."""
    files = {f"schema/{c.target}.schema.json": as_json(to_document(c)) for c in contracts}
    files["schema/vectors.json"] = as_json(vectors(contracts))
    return files


def as_json(document: object) -> str:
    """Return a document as the text of a file: indented, UTF-8, one final newline."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
