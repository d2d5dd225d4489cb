"""Arguments against a schema: one line on what is wrong, and a quick look that never errs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from relay.tools.validate import Validator

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)
NAMES = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
PROPERTIES = st.fixed_dictionaries(
    {"type": TYPES}, optional={"minimum": st.just(3), "title": TYPES}
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("object"),
        "properties": st.dictionaries(NAMES, PROPERTIES | st.booleans() | st.just({}), max_size=3),
        "required": st.lists(NAMES, unique=True),
        "additionalProperties": st.booleans() | PROPERTIES,
        "minProperties": st.just(2),
        "description": st.text(max_size=3),
    },
)


class TestFault:
    def test_where_it_is(self) -> None:
        """The message says where in the arguments the fault is."""
        schema = {"properties": {"a": {"items": {"properties": {"b": {"type": "integer"}}}}}}
        assert "a[1].b: 'x' is not of type 'integer'" == Validator(schema).fault(
            {"a": [{"b": 1}, {"b": "x"}]}
        )

    def test_how_long_it_is(self) -> None:
        """A megabyte in the wrong place does not come back as a message."""
        fault = Validator({"properties": {"a": {"type": "integer"}}}).fault({"a": "x" * 1_000_000})
        assert fault is not None
        assert len(fault) < 1000

    @given(SCHEMAS, st.dictionaries(NAMES, VALUES, max_size=3))
    def test_the_quick_look_agrees(self, schema: dict[str, Any], args: dict[str, Any]) -> None:
        """Whatever the quick look lets pass, the validator lets pass too."""
        fits = Draft202012Validator(schema).is_valid(args)
        assert (Validator(schema).fault(args) is None) == fits

    @pytest.mark.parametrize("schema", [{"type": "string"}, {"type": 3}, [], {"$ref": "other"}])
    def test_schemas_of_no_arguments(self, schema: Any) -> None:
        """What cannot describe arguments is refused when the tool is declared."""
        with pytest.raises(ValueError, match=r"."):
            Validator(schema)
