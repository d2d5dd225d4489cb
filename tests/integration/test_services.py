"""Two services that are not ours, each known by a contract alone: real answers from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SERVICES = {"api": "api.schema.json", "ledger": "ledger.schema.yaml"}
ENV_FILES = [("api", "prod.env"), ("api", "staging.env"), ("ledger", "ledger.env")]
CLEAN = {k: v for k, v in os.environ.items() if not re.match("RELAY|API_|LEDGER_|PG|PORT", k)}


def answer(service: str, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The answer of a command in the service's folder, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "relayconf", *arguments, "--target", SERVICES[service], "--json"],
        cwd=EXAMPLES / service,
        env={**CLEAN, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def values(shown: dict[str, Any]) -> dict[str, Any]:
    return {s["name"]: s["value"] for s in shown["settings"]}


class TestFiles:
    @pytest.mark.parametrize("service", SERVICES)
    def test_are_about_nothing_but_the_service(self, service: str) -> None:
        """Nothing in them is about a relay, and nothing is in Python."""
        files = [path for path in (EXAMPLES / service).rglob("*") if path.is_file()]
        about = [str(p) for p in files if re.search(r"relay(?!conf)", p.read_text("utf-8"))]
        assert [] == about
        assert [] == [str(path) for path in files if path.suffix == ".py"]

    @pytest.mark.parametrize(("service", "env_file"), ENV_FILES)
    def test_env_files_are_right(self, service: str, env_file: str) -> None:
        """Nothing that a deployment sets is complained of."""
        assert [] == answer(service, "show", "--env-file", env_file)["problems"]

    @pytest.mark.parametrize("deployment", ["staging", "prod"])
    def test_settings_file_is_right(self, deployment: str) -> None:
        """Nothing that the settings file sets is complained of, in any deployment."""
        assert [] == answer("ledger", "show", "--deployment", deployment)["problems"]


class TestShow:
    def test_of_the_service_in_node(self) -> None:
        """Values are canonical: milliseconds, bytes, a list, a share."""
        shown = answer("api", "show", "--env-file", "prod.env", env={"API_NEW_SEARCH": "12.50%"})
        assert "api" == shown["target"]
        assert {
            "API_PORT": 8080,
            "API_UPSTREAM_URL": "http://catalogue.internal:9000/",
            "API_UPSTREAM_TOKEN": None,
            "API_REQUEST_TIMEOUT_MS": 5000,
            "API_UPSTREAM_TIMEOUT_MS": 3000,
            "API_CACHE_TTL_MS": 30_000,
            "API_CACHE_BYTES": 256 << 20,
            "API_ALLOWED_ORIGINS": ["https://shop.example.com", "https://admin.example.com"],
            "API_LOG_LEVEL": "info",
            "API_CACHE_ENABLED": True,
            "API_NEW_SEARCH": "12.5%",
        } == values(shown)

    def test_of_the_job_beside_postgres(self) -> None:
        """Every mistake of the broken file is found, and none of them hides a good value."""
        shown = answer("ledger", "show", "--env-file", "broken.env", "--deployment", "prod")
        problems = {(p["code"], p["name"], p["origin"]) for p in shown["problems"]}
        assert {
            ("invalid-value", "LEDGER_INTERVAL", "broken.env:2"),
            ("invalid-value", "LEDGER_BATCH_ROWS", "broken.env:3"),
            ("clamped-value", "LEDGER_MIN_AMOUNT", "broken.env:4"),
            ("rule-repaired", "LEDGER_LOCK_TIMEOUT", "broken.env:5"),
            ("invalid-value", "LEDGER_CURRENCIES", "broken.env:6"),
            ("near-miss", "LEDGER_POSTING", "broken.env:8"),
            ("duplicate-name", "LEDGER_INTERVAL", "broken.env:9"),
        } == problems
        found = values(shown)
        assert (60_000, 5000, 0, 29_999) == (
            found["LEDGER_INTERVAL"],
            found["LEDGER_BATCH_ROWS"],
            found["LEDGER_MIN_AMOUNT"],
            found["LEDGER_LOCK_TIMEOUT"],
        )
        assert (["EUR", "USD"], "half-up") == (
            found["LEDGER_CURRENCIES"],
            found["LEDGER_ROUNDING"],
        )

    def test_a_secret_is_masked(self) -> None:
        """A secret that the contract calls so is never shown."""
        shown = answer("ledger", "show", env={"PGPASSWORD": "canary"})
        assert "********" == values(shown)["PGPASSWORD"]
        assert "canary" not in json.dumps(shown)

    def test_names_without_the_prefix_are_its_own(self) -> None:
        """A variable without the prefix may be declared, and a foreign one stays foreign."""
        shown = answer("ledger", "show", env={"PGHOST": "db", "PGSSLMODE": "require", "PORT": "1"})
        assert ("db", []) == (values(shown)["PGHOST"], shown["problems"])


class TestExplain:
    def test_a_clamp_across_two_settings(self) -> None:
        """The stack says which text lost, and the note says what the rule did."""
        told = answer(
            "api", "explain", "API_UPSTREAM_TIMEOUT_MS", "--env-file", "prod.env",
            "--set", "API_UPSTREAM_TIMEOUT_MS=20s",
        )  # fmt: skip
        assert (4999, "repaired") == (told["value"], told["status"])
        stack = [(c["layer"], c["raw"], c["verdict"]) for c in told["stack"]]
        assert [("option", "20s", "in force"), ("default", None, "shadowed")] == stack
        assert ["rule-repaired"] == [note["code"] for note in told["notes"]]

    def test_a_legacy_name(self) -> None:
        """A legacy name leads to the setting, and to the text that was written under it."""
        told = answer("ledger", "explain", "LEDGER_SLEEP", env={"LEDGER_SLEEP": "90"})
        assert ("LEDGER_INTERVAL", 90_000) == (told["name"], told["value"])
        assert "LEDGER_SLEEP" == told["stack"][0]["name"]

    def test_a_flag(self) -> None:
        """A flag says whose it is and what a kill does."""
        told = answer("api", "explain", "API_CACHE_ENABLED")
        assert {
            "kind": "kill-switch",
            "owner": "storefront",
            "expires": None,
            "kill": False,
        } == told["flag"]
