"""The check on files of any content: findings, or one clear error; never a traceback, no secret."""

from __future__ import annotations

import contextlib
import json
import tempfile
from datetime import date
from pathlib import Path
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from relayconf.check import baseline, github, report, sarif, suppression, text
from relayconf.check.assigned import assigned
from relayconf.check.examine import examine
from relayconf.check.excerpt import Excerpts
from relayconf.check.finding import Finding
from relayconf.check.inspection import gather
from relayconf.compose import ComposeError
from relayconf.errors import RelayconfError

TODAY = date(2026, 11, 30)
SERVICE = "services:\n  app:\n    image: img\n    env_file: a.env\n    environment:\n"

NAMES = ["A", "RELAY_POLL_MS", "RELAY_POL_MS", "RELAY_DAEMON_TOKEN", "DB_PASSWORD", "APP-X", "é"]
VALUES = [
    "",
    "1",
    "x y",
    "$A",
    "${B:-c}",
    "'q'",
    '"d$e"',
    "#c",
    " # c",
    "\\n",
    "0755",
    "1.50",
    "\t#",
]
MARKS = ["# relayconf: ignore[shadowed] why", "# relayconf: ignore", "export", "", "\r", "\ufeff"]

LINES = st.one_of(
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(NAMES), st.sampled_from(["=", ":", "", " = "]), st.sampled_from(VALUES)
        ),
    ),
    st.sampled_from(MARKS),
)
ENV_FILES = st.lists(LINES, max_size=8).map("\n".join)
ENTRIES = st.lists(
    st.builds(
        "      {}: {}".format,
        st.sampled_from(NAMES),
        st.sampled_from(["", "0755", "$A", '"x"', "'#'"]),
    ),
    max_size=5,
    unique_by=lambda line: line.partition(":")[0],
).map("\n".join)


class Judged(NamedTuple):
    """The findings, and everything that is printed of them."""

    findings: list[Finding]
    printed: str


def judged(contents: dict[str, bytes], environ: dict[str, str]) -> Judged:
    """Check a project in every form; a refusal of what was named is no finding."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in contents.items():
            (Path(folder) / name).write_bytes(data)
        try:
            gathered = gather(folder, files=[], env_files=[], profiles=[], environ=environ)
        except ComposeError as error:
            return Judged([], str(error))
        contracts = {}
        if gathered.project is not None and "app" in gathered.project.services:
            contracts = assigned(gathered.project, options=["app=relay"], target=None, service=None)
        inspection = gathered.inspection(contracts, environ, TODAY)
        findings = examine(inspection)
        counting, suppressed = suppression.apply(findings, inspection.texts)
        starts = {f.path: {e.line for e in f.entries} for f in inspection.env_files}
        excerpts = Excerpts(inspection.texts, inspection.hiding, starts)
        lines = list(text.lines(counting, excerpts, aside=[], colour=False))
        lines += github.lines(counting, folder="")
        lines.append(json.dumps(report.document(counting, suppressed, baselined=0)))
        lines.append(json.dumps(sarif.document(counting, suppressed, version="1")))
        assert all(line.isprintable() for line in lines)
        prints = baseline.fingerprints(findings)
        assert len(set(prints)) == len(prints)
    for finding in findings:
        place = finding.place
        assert finding.fix
        assert "\n" not in finding.fix + finding.message
        assert place.line is None or place.line > 0
        assert place.column is None or place.column > 0
    return Judged(findings, "\n".join(lines))


class TestAnyFile:
    @given(st.binary(max_size=200))
    def test_compose_file(self, data: bytes) -> None:
        """A compose file of any bytes gives findings, or one error."""
        judged({"compose.yaml": data}, {})

    @given(st.binary(max_size=120), st.binary(max_size=120))
    @example(b"A=1\nA", b"\xff\xfe=")
    def test_env_files(self, dotenv: bytes, own: bytes) -> None:
        """Env files of any bytes give findings."""
        files = {"compose.yaml": (SERVICE + "      A:\n").encode(), ".env": dotenv, "a.env": own}
        judged(files, {})

    @given(ENTRIES, ENV_FILES, ENV_FILES, st.sampled_from([{}, {"A": "shell"}]))
    def test_usual_shapes(
        self, entries: str, dotenv: str, own: str, environ: dict[str, str]
    ) -> None:
        """Names, values and comments of every shape, put together, give findings."""
        files = {
            "compose.yaml": f"{SERVICE}{entries}\n".encode(),
            ".env": dotenv.encode(),
            "a.env": own.encode(),
        }
        judged(files, environ)


class TestSecrets:
    @given(
        st.sampled_from(["RELAY_DAEMON_TOKEN", "DB_PASSWORD", "API_KEY"]),
        st.sampled_from(["", "'", '"']),
        st.text("$#{}:\\ab0 =", max_size=6),
        st.sampled_from(["=", ": "]),
    )
    def test_none_is_told(self, name: str, quote: str, noise: str, separator: str) -> None:
        """Whatever is around a secret's text, no message, no fix and no excerpt has it."""
        value = f"{noise}hunter2{noise}hunter2"
        entry = f"      {name}{separator}{quote}{value}{quote}\n"
        files = {
            "compose.yaml": (SERVICE + entry).encode(),
            "a.env": f"{name}={quote}{value}{quote}\n".encode(),
        }
        assert "hunter2" not in judged(files, {}).printed


class TestUnusableContracts:
    @given(st.text(max_size=20))
    def test_is_one_error(self, option: str) -> None:
        """A --contract of any text is a contract, or one error."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "compose.yaml").write_text("services: {app: {image: img}}\n")
            gathered = gather(folder, files=[], env_files=[], profiles=[], environ={})
            assert gathered.project is not None
            with contextlib.suppress(RelayconfError):
                assigned(gathered.project, options=[f"app={option}"], target=None, service=None)
