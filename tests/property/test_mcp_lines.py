"""Lines on the MCP server's stdin: however they arrive, they are the same lines."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay.mcp.messages import Lines, Message, TooLong, guess_id, line, read

IDS = st.integers(-(10**12), 10**12) | st.text(
    st.characters(codec="ascii", exclude_characters='"\\{}', min_codepoint=32, max_codepoint=126),
    max_size=50,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at these places."""
    edges = [0, *sorted(p % (len(data) + 1) for p in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


class TestLines:
    @given(st.lists(st.binary(max_size=300)), st.lists(st.integers(0, 10_000)), st.integers(1, 200))
    def test_how_they_arrive_does_not_matter(
        self, texts: list[bytes], places: list[int], limit: int
    ) -> None:
        """Cut anywhere, the same lines come out; those over the limit as their length."""
        whole = b"".join(text.replace(b"\n", b"") + b"\n" for text in texts)
        lines = Lines(limit)
        found = [each for piece in cut(whole, places) for each in lines.feed(piece)]
        wanted = [text.replace(b"\n", b"") for text in texts]
        assert [len(w) if len(w) > limit else w for w in wanted if len(w) > limit or w.strip()] == [
            each.size if isinstance(each, TooLong) else each for each in found
        ]

    @given(IDS, st.dictionaries(st.text(max_size=5), JSON), st.sampled_from(["first", "last"]))
    def test_an_id_is_told_without_parsing(
        self, id_: Any, params: dict[str, Any], where: str
    ) -> None:
        """As clients write it, first or last, the id is found and nothing inside is mistaken."""
        head = {"jsonrpc": "2.0", "id": id_}
        body = {"method": "tools/call", "params": {"id": "wrong", **params}}
        text = json.dumps({**body, **head} if where == "last" else {**head, **body}).encode()
        assert id_ == guess_id(text[:4096], text[-4096:])


class TestMessages:
    @given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
    def test_any_line_is_answered_or_passed(self, data: bytes) -> None:
        """Whatever stands on a line gives messages or errors, and nothing is raised."""
        for each in read(data):
            assert isinstance(each, Message) or -32768 <= each["error"]["code"] <= -32000

    @given(st.dictionaries(st.text(), st.text(st.characters()) | st.lists(st.text())))
    def test_what_is_sent_is_one_line(self, body: dict[str, Any]) -> None:
        """A message is one line of UTF-8, whatever is in it."""
        sent = line(body)
        assert (1, True) == (sent.count(b"\n"), sent.endswith(b"\n"))
        json.loads(sent.decode())
