"""What a drain says is the writer's word: nothing but a whole, sensible report is ever believed."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.hosts.host import Faulty
from relay.remote.report import STATUSES, Batches, Report, read_report

WORDS = st.text("abcXYZ019_-", min_size=1, max_size=30)
NUMBERS = st.integers(0, 2**60)
CLAIMS = st.fixed_dictionaries(
    {"ino": NUMBERS, "mtime": NUMBERS, "size": NUMBERS, "age": st.integers(-(2**40), 2**40)}
)
END = {"status": "claimed", "now": 1, "holder": "", "before": "", "watch": 0}


def output(*lines: object) -> str:
    """Return lines of JSON."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def compact(*lines: object) -> str:
    """Return lines of JSON as the program prints them."""
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


class TestReport:
    @given(st.dictionaries(WORDS, CLAIMS, max_size=5), st.sampled_from(sorted(STATUSES)))
    def test_tells_what_it_says(self, claims: dict[str, dict[str, int]], status: str) -> None:
        """Every claim of a whole report is told, in order."""
        lines = [{"claim": name, **fields} for name, fields in claims.items()]
        report = read_report(output(*lines, {**END, "status": status}))
        assert status == report.status
        assert list(claims) == [claim.request for claim in report.claims]

    @given(st.lists(WORDS, max_size=3))
    def test_tells_what_was_taken_back(self, names: list[str]) -> None:
        """Every request that its caller took back is told, beside claims."""
        lines: list[object] = [{"cancel": name} for name in names]
        claim = {"claim": "a", "ino": 1, "mtime": 2, "size": 0, "age": 0}
        report = read_report(output(*lines, claim, END))
        assert (tuple(names), 1) == (report.cancelled, len(report.claims))

    @given(st.lists(st.lists(WORDS, unique=True, max_size=3), max_size=4), st.integers(1, 50))
    def test_batches_in_any_pieces(self, batches: list[list[str]], size: int) -> None:
        """However output is cut on its way, the same batches are told."""
        fields = {"ino": 1, "mtime": 2, "size": 0, "age": 0}
        whole = b""
        for names in batches:
            lines = [{"claim": name, **fields} for name in names]
            whole += compact(*lines, {"status": "batch", "now": 1}).encode()
        whole += compact(END).encode()
        told: list[Report] = []
        taking = Batches(told.append)
        for start in range(0, len(whole), size):
            taking.take(whole[start : start + size])
        assert batches == [[claim.request for claim in one.claims] for one in told]
        assert "claimed" == read_report(taking.rest).status

    @given(st.integers(0, 200))
    def test_truncated(self, length: int) -> None:
        """A report that was cut anywhere is none."""
        whole = output({"claim": "a", "ino": 1, "mtime": 2, "size": 0, "age": 0, "data": ""}, END)
        cut = whole[: min(length, len(whole) - 1)]
        with pytest.raises(Faulty):
            read_report(cut)

    @given(st.text(max_size=200) | st.lists(st.text(max_size=30)).map("\n".join))
    def test_any_text(self, text: str) -> None:
        """Any text is a report or is refused, and nothing else happens."""
        with suppress(Faulty):
            assert isinstance(read_report(text), Report)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=10),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
            max_leaves=5,
        ),
        st.sampled_from(["claim", "ino", "mtime", "size", "age", "data", "bad", "status", "now"]),
    )
    def test_any_value_anywhere(self, value: object, field: str) -> None:
        """A value of another kind in any field is refused, and nothing else happens."""
        claim = {"claim": "a", "ino": 1, "mtime": 2, "size": 0, "age": 0}
        end = dict(END)
        (end if field in end else claim)[field] = value
        with suppress(Faulty):
            assert isinstance(read_report(output(claim, end)), Report)

    @pytest.mark.parametrize(
        "lines",
        [
            [END, END],
            [{"claim": "a", "ino": 1, "mtime": 2, "size": 0, "age": 0}] * 2 + [END],
            [{"claim": "../a", "ino": 1, "mtime": 2, "size": 0, "age": 0}, END],
            [{"claim": "a", "ino": 1, "mtime": 2, "size": 5, "age": 0, "data": "YQ=="}, END],
            [{"foreign": "a", "runner": "x/y", "ino": 1, "mtime": 2, "size": 0, "age": 0}, END],
            [{"cancel": "../a"}, END],
            [{"cancel": "a", "claim": "a", "ino": 1, "mtime": 2, "size": 0, "age": 0}, END],
            [{**END, "status": "done"}],
            [{**END, "holder": "a b"}],
            [{**END, "error": "\x1b[2J"}],
        ],
    )
    def test_refused(self, lines: list[object]) -> None:
        """Two ends, one claim twice, a path for a name, a wrong size: worthless."""
        with pytest.raises(Faulty):
            read_report(output(*lines))
