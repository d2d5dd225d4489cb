"""Generation: from the declarations to every file that repeats them.

Each generator is a pure function from a contract to text, so that the same declaration always gives
the same bytes. ``plan`` says which file holds what; writing and comparing are the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from relayconf.contract.document import to_document
from relayconf.errors import TargetError
from relayconf.generate.compose_fragment import compose_fragment
from relayconf.generate.env_example import env_example
from relayconf.generate.reference import reference
from relayconf.generate.vectors import vectors
from relayconf.setting import Contract

#: Where the vectors of all targets together are.
VECTORS = "schema/vectors.json"


def plan(contracts: Sequence[Contract]) -> Mapping[str, str]:
    """Return the generated files: path from the project's root, and whole text.

    Raises:
        TargetError: two of the contracts have the same name, and so the same files.
    """
    files: dict[str, str] = {}
    for contract in contracts:
        own = plan_one(contract)
        if files.keys() & own.keys():
            raise TargetError(f"two targets are called {contract.target}; rename one")
        files.update(own)
    files[VECTORS] = as_lines(vectors(contracts))
    return files


def plan_one(contract: Contract) -> Mapping[str, str]:
    """Return the generated files of one contract."""
    target = contract.target
    return {
        f"schema/{target}.schema.json": as_json(to_document(contract)),
        f"schema/{target}.env.example": env_example(contract),
        f"schema/{target}.compose.yaml": compose_fragment(contract),
        f"docs/reference/{target}.md": reference(contract),
    }


def as_json(document: object) -> str:
    """Return a document as the text of a file: indented, UTF-8, one final newline."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_lines(document: Mapping[str, object]) -> str:
    """Return a document of long arrays as the text of a file: one item a line."""
    parts = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            lines = (json.dumps(item, ensure_ascii=False) for item in value)
            text = "[\n    " + ",\n    ".join(lines) + "\n  ]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
