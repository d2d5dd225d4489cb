"""The protocol on any input: what is written is read back, and bytes can be no worse than wrong."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay import protocol, strictjson
from relay.errors import BadRequest, BadResponse
from relay.protocol import Request, Response

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ANY_TEXT = st.text()
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda v: st.lists(v) | st.dictionaries(TEXTS, v), max_leaves=30
)
REQUESTS = st.builds(
    Request,
    TEXTS.filter(bool),
    TEXTS,
    st.dictionaries(TEXTS, VALUES),
    st.none() | st.integers(min_value=0, max_value=10**12),
)

#: Bytes that are nearly JSON: real documents with something cut, doubled or overwritten.
NEARLY = st.builds(
    lambda value, at, junk: (data := json.dumps(value).encode())[:at] + junk + data[at + 1 :],
    VALUES,
    st.integers(0, 200),
    st.binary(max_size=4) | st.sampled_from([b'"', b"\\", b"[", b"}", b'\\"', b"NaN", b"1e999"]),
)


class TestRequests:
    @given(REQUESTS)
    def test_what_is_written_is_read(self, request: Request) -> None:
        """A runner reads exactly what its writer meant."""
        assert request == protocol.decode_request(protocol.encode_request(request))

    @given(st.binary() | NEARLY)
    def test_any_bytes_are_a_request_or_a_bad_one(self, data: bytes) -> None:
        """No bytes raise anything but BadRequest."""
        try:
            request = protocol.decode_request(data)
        except BadRequest:
            return
        assert request == protocol.decode_request(protocol.encode_request(request))


class TestResponses:
    @given(st.binary() | NEARLY)
    def test_any_bytes_are_a_response_or_a_bad_one(self, data: bytes) -> None:
        """No bytes raise anything but BadResponse."""
        try:
            response = protocol.decode_response(data)
        except BadResponse:
            return
        assert response.code == "" or not response.ok

    @given(ANY_TEXT, ANY_TEXT.filter(bool))
    def test_any_text_can_be_answered(self, text: str, code: str) -> None:
        """Whatever a tool says is published, and read as text that can be written anywhere."""
        for response in (Response(ok=True, text=text), Response(ok=False, error=text, code=code)):
            read = protocol.decode_response(protocol.encode_response(response))
            (read.text + read.error + read.code).encode("utf-8")
            assert response.ok == read.ok


class TestStrictJson:
    @given(VALUES)
    def test_agrees_with_the_standard_library(self, value: Any) -> None:
        """What is no trap is read as Python's own reader reads it."""
        for data in (strictjson.dump(value), json.dumps(value, indent=1).encode()):
            assert value == strictjson.load(data)

    @given(st.binary() | NEARLY)
    def test_takes_nothing_that_the_standard_library_refuses(self, data: bytes) -> None:
        """It is stricter than Python's own reader, never laxer."""
        try:
            value = strictjson.load(data)
        except strictjson.Fault:
            return
        assert value == json.loads(data)


class TestNames:
    @given(ANY_TEXT)
    def test_any_call_id_makes_a_request_name(self, call_id: str) -> None:
        """Every id that is made is one that a runner takes for a request."""
        id_ = protocol.new_id(call_id)
        assert id_ == protocol.request_id(id_ + protocol.REQUEST_SUFFIX)
        assert (id_, "r") == protocol.parse_claim(protocol.claim_name(id_, "r"))
        assert protocol.is_temp(protocol.temp_name(id_ + protocol.REQUEST_SUFFIX))

    @given(ANY_TEXT)
    def test_no_name_is_two_things(self, name: str) -> None:
        """Any name is at most one of request, claim and temporary file."""
        kinds = [protocol.request_id(name), protocol.parse_claim(name), protocol.is_temp(name)]
        assert sum(bool(kind) for kind in kinds) <= 1
