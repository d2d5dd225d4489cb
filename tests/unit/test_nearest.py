"""The nearest word: a suggestion where it is likely to be right, and none elsewhere."""

from __future__ import annotations

import pytest

from relayconf.nearest import distance, nearest

NAMES = ["RELAY_DIR", "RELAY_ROOT", "RELAY_POLL_MS", "RELAY_POLL_MAX_MS", "RELAY_TIMEOUT_MS"]


class TestNearest:
    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("RELAY_POL_MS", "RELAY_POLL_MS"),
            ("RELAY__POLL_MS", "RELAY_POLL_MS"),
            ("relay_poll_ms", "RELAY_POLL_MS"),
            ("RELAY_POLL_SM", "RELAY_POLL_MS"),
            ("RELAY_TIMEOUT", "RELAY_TIMEOUT_MS"),
            ("RELAY_PLOL_MAX_MS", "RELAY_POLL_MAX_MS"),
            ("RELAY_POLMAX_MS", "RELAY_POLL_MAX_MS"),
            ("RELAY_FOO", None),
            ("RELAY_", None),
            ("OTHER", None),
            ("", None),
            ("RELAY_POLL_MS" * 1000, None),
        ],
    )
    def test_names(self, word: str, expected: str | None) -> None:
        """A slip of the pen is understood; another name is not taken for one of ours."""
        assert expected == nearest(word, NAMES)

    @pytest.mark.parametrize(
        ("word", "expected"),
        [("warn", "warning"), ("err", "error"), ("inf", "info"), ("debgu", "debug"), ("x", None)],
    )
    def test_words(self, word: str, expected: str | None) -> None:
        """An abbreviation stands for the only member that starts with it."""
        assert expected == nearest(word, ["debug", "info", "warning", "error"])

    def test_a_missing_unit(self) -> None:
        """A name without its last part means the one name that adds it, not a longer one."""
        names = ["APP_POLL_MAX_MS", "APP_POLL_MS", "APP_POLL_MIN_MS"]
        assert "APP_POLL_MS" == nearest("APP_POLL", names)

    def test_single_letters(self) -> None:
        """One letter is no slip for another one, though it is for none or two."""
        assert nearest("APP_X", ["APP_A", "APP_B"]) is None
        assert nearest("c", ["a", "b"]) is None
        assert "B" == nearest("b", ["A", "B"])
        assert "APP_AB" == nearest("APP_A", ["APP_AB", "APP_CD"])

    def test_first_of_equals(self) -> None:
        """Among equally near ones the order of the declaration decides."""
        assert "on" == nearest("onn", ["on", "onnx"])
        assert "ab" == nearest("aa", iter(["ab", "ac"]))

    def test_case_is_ascii(self) -> None:
        """A Kelvin sign is not the letter it looks like: it counts as an edit."""
        assert 1 == distance("\u212a", "k")
        assert nearest("\u212a\u212a", ["kk"]) is None


class TestDistance:
    @pytest.mark.parametrize(
        ("left", "right", "edits"),
        [("", "", 0), ("a", "", 1), ("abc", "abc", 0), ("ab", "ba", 1), ("kitten", "sitting", 3)],
    )
    def test_counts_edits(self, left: str, right: str, edits: int) -> None:
        """A wrong, missing, additional or swapped character is one edit, either way around."""
        assert edits == distance(left, right)
        assert edits == distance(right, left)
