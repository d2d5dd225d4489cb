"""The program of a remote sandbox as an argument: small, for any Python, the same in every run.

Documentation, annotations and what only they need are cut off, the rest is compressed: it travels
with every request, and a shorter one fits into fewer packets.
"""

from __future__ import annotations

import ast
import base64
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

#: What the program consists of, in this order.
_PARTS = ("drainwatch.py", "drain.py")

_UNPACK = "import binascii,zlib;exec(zlib.decompress(binascii.a2b_base64({0!r})))"


@cache
def python_program() -> str:
    """Return what ``python3 -c`` is to run."""
    here = files("relay.remote")
    parts = [here.joinpath(part).read_text(encoding="utf-8") for part in _PARTS]
    text = "\n".join(map(stripped, parts))
    return _UNPACK.format(base64.b64encode(zlib.compress(text.encode(), 9)).decode())


@cache
def node_program() -> str:
    """Return what ``node -e`` is to run."""
    text = files("relay.remote").joinpath("drain.js").read_text(encoding="utf-8")
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return f"eval(require('zlib').inflateSync(Buffer.from('{packed}','base64')).toString())"


def stripped(source: str) -> str:
    """Return a module without docstrings, comments and annotations, for Python 3.6 and later."""
    tree = _Stripper().visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree))


class _Stripper(ast.NodeTransformer):
    """Takes out what only readers and type checkers need."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        # One part of the program has the others in front of it.
        apart = node.module in {"__future__", "typing"} or str(node.module).startswith("relay.")
        return None if apart else node

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self._bare(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._bare(node)

    def visit_Module(self, node: ast.Module) -> Any:
        return self._bare(node)

    def _bare(self, node: ast.FunctionDef | ast.ClassDef | ast.Module) -> Any:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        return node
