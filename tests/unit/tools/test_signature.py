"""The schema that a callable's signature becomes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from relay.tools.signature import schema_of


def schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that takes exactly these."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


class TestSchema:
    def test_plain_types(self) -> None:
        """Plain annotations become types; what has no default is required."""

        def tool(a: str, b: int, c: float = 1.5, *, d: bool = False, e: None = None) -> None: ...

        expected = schema(
            a={"type": "string"},
            b={"type": "integer"},
            c={"type": "number", "default": 1.5},
            d={"type": "boolean", "default": False},
            e={"type": "null", "default": None},
        )
        assert {**expected, "required": ["a", "b"]} == schema_of(tool)

    def test_composed_types(self) -> None:
        """Lists, tuples, dicts, unions and literals become what they say."""

        def tool(
            a: list[int] = [],  # noqa: B006 - a default is what is tested
            b: dict[str, float] | None = None,
            c: Literal["x", 1] = "x",
            d: tuple[int, str] = (1, "a"),
            e: Sequence[str] = (),
            f: Mapping[str, Any] = {},
            g: tuple[int, ...] = (),
        ) -> None: ...

        told = schema_of(tool)["properties"]
        assert {"type": "array", "items": {"type": "integer"}, "default": []} == told["a"]
        number = {"type": "object", "additionalProperties": {"type": "number"}}
        assert {"anyOf": [number, {"type": "null"}], "default": None} == told["b"]
        assert {"enum": ["x", 1], "default": "x"} == told["c"]
        assert [{"type": "integer"}, {"type": "string"}] == told["d"]["prefixItems"]
        assert {"type": "string"} == told["e"]["items"]
        assert {"type": "object", "default": {}} == told["f"]
        assert {"type": "integer"} == told["g"]["items"]

    def test_what_says_nothing_accepts_anything(self) -> None:
        """No annotation, and one that JSON has no word for, accept anything."""

        def tool(  # type: ignore[no-untyped-def]  # that is the case
            a,  # noqa: ANN001 - likewise
            b: Any,
            c: object = object(),
            d: Annotated[complex, []] = 1j,
        ) -> None: ...

        assert {"a": {}, "b": {}, "c": {}, "d": {}} == schema_of(tool)["properties"]

    def test_further_keywords(self) -> None:
        """A callable that takes any keyword gets any."""

        def tool(**rest: Any) -> None: ...

        assert {"type": "object", "properties": {}, "additionalProperties": True} == schema_of(tool)

    def test_callables_of_other_kinds(self) -> None:
        """Methods, partials and callable objects have signatures too."""

        class Tool:
            def method(self, a: int) -> None: ...

            def __call__(self, a: int) -> None: ...

        def two(a: int, b: int) -> None: ...

        expected = {**schema(a={"type": "integer"}), "required": ["a"]}
        assert expected == schema_of(Tool().method)
        assert expected == schema_of(Tool())
        partial = schema_of(functools.partial(two, b=1))
        assert ["a"] == partial["required"]

    @pytest.mark.parametrize("tool", [lambda a, /: a, lambda *a: a])
    def test_arguments_that_have_no_name(self, tool: Any) -> None:
        """An argument that cannot be given by keyword makes no tool."""
        with pytest.raises(ValueError, match="cannot be given by keyword"):
            schema_of(tool)
