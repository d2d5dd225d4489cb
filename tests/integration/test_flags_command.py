"""``relayconf flags``: state, kind, owner, end and share of every flag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relayconf.cli import main


def flag(kind: str, expires: str | None, **more: Any) -> dict[str, Any]:
    why = None if expires else "permanent"
    return {"kind": kind, "kill": False, "owner": "team-a", "expires": expires, "why": why, **more}


CONTRACT: dict[str, Any] = {
    "x-relayconf": {"version": 1, "target": "api", "prefix": "API_"},
    "type": "object",
    "properties": {
        "API_PLAIN": {"default": True, "x-relayconf": {"type": "boolean"}},
        "API_KILL": {
            "default": True,
            "x-relayconf": {"type": "boolean", "flag": flag("kill-switch", None)},
        },
        "API_AHEAD": {
            "default": False,
            "x-relayconf": {"type": "boolean", "flag": flag("release", "2027-06-01")},
        },
        "API_DUE": {
            "default": False,
            "x-relayconf": {"type": "boolean", "flag": flag("release", "2026-12-10")},
        },
        "API_LATE": {
            "default": "25%",
            "x-relayconf": {"type": "rollout", "flag": flag("experiment", "2026-11-29")},
        },
        "API_LATER": {
            "enum": ["old", "new"],
            "default": "old",
            "x-relayconf": {"flag": flag("release", "2026-06-01", owner="team-b", kill="old")},
        },
    },
}
TODAY = ("--today", "2026-11-30")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELAYCONF_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "api.json").write_text(json.dumps(CONTRACT))
    return tmp_path


def flags(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert 0 == main(["flags", "./api.json", "--json", *TODAY, *words])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


class TestDocument:
    def test_fields(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A flag is one record: what it is set to, whose it is, and when it ends."""
        answer = flags(capsys)
        assert ["target", "deployment", "today", "key", "flags", "problems"] == list(answer)
        late = next(f for f in answer["flags"] if f["name"] == "API_LATE")
        assert late == {
            "name": "API_LATE",
            "type": "rollout",
            "value": "25%",
            "share": 25.0,
            "on": None,
            "status": "default",
            "source": {"layer": "default", "origin": None},
            "kind": "experiment",
            "owner": "team-a",
            "kill": False,
            "expires": "2026-11-29",
            "why": None,
            "expiry": "expired",
            "days": -1,
            "live": False,
            "description": "",
        }

    def test_order_and_expiry(self, capsys: pytest.CaptureFixture[str]) -> None:
        """What should be gone comes first, the longest overdue before all; the rest as declared."""
        found = [(f["name"], f["expiry"], f["days"]) for f in flags(capsys)["flags"]]
        assert found == [
            ("API_LATER", "overdue", -182),
            ("API_LATE", "expired", -1),
            ("API_KILL", "permanent", None),
            ("API_AHEAD", "ahead", 183),
            ("API_DUE", "due", 10),
        ]

    def test_share_and_state(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A rollout has a share in percent, whichever way it is written; no other flag has one."""
        for text, share in (("true", 100.0), ("off", 0.0), ("12.5%", 12.5)):
            found = {
                f["name"]: f["share"] for f in flags(capsys, "--set", f"API_LATE={text}")["flags"]
            }
            assert {share} == {found.pop("API_LATE")}
            assert {None} == set(found.values())

    def test_key(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With a key each flag is decided for it, and the same way every time."""
        answers = [flags(capsys, "--key", f"session-{n}")["flags"] for n in range(40)]
        on = [next(f["on"] for f in answer if f["name"] == "API_LATE") for answer in answers]
        assert {True, False} == set(on)
        assert answers[0] == flags(capsys, "--key", "session-0")["flags"]
        others = {f["name"]: f["on"] for f in answers[0] if f["name"] != "API_LATE"}
        assert others == {"API_LATER": None, "API_KILL": True, "API_AHEAD": False, "API_DUE": False}

    def test_invalid_is_the_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A flag whose text is invalid has its default, and says that it is not what was meant."""
        answer = flags(capsys, "--set", "API_KILL=maybe")
        found = next(f for f in answer["flags"] if f["name"] == "API_KILL")
        assert (True, "invalid") == (found["value"], found["status"])
        assert ["invalid-value"] == [p["code"] for p in answer["problems"]]


class TestText:
    def test_what_is_over_stands_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The first lines and the last ones are about the flags that should be gone."""
        assert 0 == main(["flags", "./api.json", *TODAY])
        lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert lines == [
            "FLAG       STATE  SOURCE   KIND         OWNER   EXPIRES",
            "API_LATER  old    default  release      team-b  overdue by 182 days (2026-06-01)",
            "API_LATE   25%    default  experiment   team-a  expired 1 day ago (2026-11-29)",
            "API_KILL   true   default  kill-switch  team-a  never: permanent",
            "API_AHEAD  false  default  release      team-a  in 183 days (2027-06-01)",
            "API_DUE    false  default  release      team-a  due in 10 days (2026-12-10)",
            "",
            "Past the date by which they were to be gone:",
            "  API_LATER: ask team-b",
            "  API_LATE: ask team-a",
        ]

    def test_without_flags(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A target that declares none says so."""
        plain = {**CONTRACT, "properties": {"API_X": {"type": "string"}}}
        (folder / "plain.json").write_text(json.dumps(plain))
        assert 0 == main(["flags", "./plain.json"])
        assert "api declares no flags\n" == capsys.readouterr().out

    def test_today_is_today(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without --today it is the day of the calendar."""
        assert 0 == main(["flags", "./api.json", "--json"])
        assert 10 == len(json.loads(capsys.readouterr().out)["today"])

    def test_bad_date(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A date that is none is a usage error."""
        with pytest.raises(SystemExit) as caught:
            main(["flags", "./api.json", "--today", "tomorrow"])
        assert 2 == caught.value.code
        assert "is not a date like 2027-03-01" in capsys.readouterr().err
