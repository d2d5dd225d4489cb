"""What docs/fleet.md claims, tried: its settings, options, keys, codes, and its first example."""

from __future__ import annotations

import re
from typing import Any

import pytest

from relayconf.problems import SEVERITY
from relayconf.targets import find_contract
from relayconf.wording import duration


@pytest.fixture(scope="module")
def page(root: Any) -> str:
    """Return the page."""
    text: str = (root / "docs/fleet.md").read_text()
    return text


def rows(page: str, header: str) -> list[list[str]]:
    """Return the cells of the table that has a header."""
    _, found, rest = page.partition(header)
    assert found, header
    table = rest.split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


class TestPage:
    def test_every_setting_has_its_row_and_its_default(self, page: str) -> None:
        """The table names what is declared, no more and no less, with the defaults in force."""
        declared = {
            name: setting
            for name, setting in find_contract("relayconf").settings.items()
            if name.startswith("RELAYCONF_FLEET_")
        }
        found = rows(page, "| setting | means | default |")
        named = [
            name for row in found for name in re.findall(r"`(RELAYCONF_FLEET_[A-Z_]+)`", row[0])
        ]
        assert list(declared) == named
        for cells in found:
            names = re.findall(r"`(RELAYCONF_FLEET_[A-Z_]+)`", cells[0])
            setting = declared[names[0]]
            if setting.default is not None and setting.type == "duration":
                given = cells[2].replace("min", "m").replace(" ", "")
                assert duration(int(str(setting.default))) == given

    def test_the_answer_of_status(self, page: str, fleet: Any) -> None:
        """The keys of the object fleet and of an instance are those of the page."""
        a = fleet.host("a")
        program = a.start()
        fleet.until_fresh(a)
        documented = [
            key for row in rows(page, "| key | means |") for key in re.findall(r"`(\w+)`", row[0])
        ]
        assert documented == list(a.fleet())
        row = a.row(program.process.pid)
        (sentence,) = re.findall(r"Each instance has (.*?), or `null`", page, re.DOTALL)
        assert set(re.findall(r"`(\w+)`", sentence)) == {
            "deployment",
            "gone",
            "fleet",
            *row["fleet"],
        }

    def test_every_option_is_one(self, page: str, fleet: Any) -> None:
        """Each option of the table is in the help of kill, set and restore."""
        a = fleet.host("a")
        options = [re.findall(r"--[a-z-]+", row[0])[0] for row in rows(page, "| option | means |")]
        for word in ("kill", "set", "restore"):
            text = a.run(word, "--help").out
            assert [] == [option for option in options if option not in text]

    def test_every_code_is_explained(self, page: str) -> None:
        """Each exit code of a change has its row."""
        assert ["0", "1", "3", "4"] == [row[0] for row in rows(page, "| exit | it means |")]

    def test_every_sign_is_one(self, page: str) -> None:
        """Each code of a problem that the table of failures names exists."""
        table = rows(page, "| what fails | what happens | how it shows |")
        codes = {code for row in table for code in re.findall(r"`(fleet-\w+|state-\w+)`", row[2])}
        assert {"fleet-lost", "fleet-held"} <= codes <= set(SEVERITY)

    def test_the_example_of_a_flag_is_a_declaration(self, page: str) -> None:
        """What stands there can be declared."""
        from relayconf import declare  # noqa: PLC0415 - what the example imports

        (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        flag = eval(code, {"Flag": declare.Flag})  # noqa: S307 - the page is ours
        assert "safe" == flag.blind

    def test_forgetting(self, fleet: Any) -> None:
        """One that died on another host keeps kill at 3 until it is forgotten by its id."""
        a, b = fleet.host("a"), fleet.host("b")
        living, dead = a.start(), b.start()
        fleet.until_fresh(a, b)
        instance = a.row(dead.process.pid)["id"]
        dead.kill()
        assert 3 == a.kill("--wait", "500ms").code
        done = a.run("forget", instance)
        assert (0, True) == (done.code, f"pid {dead.process.pid} on" in done.out)
        assert 0 == a.kill("--wait", "20s").code
        living.until(fast=False)
        assert (2, True) == (
            a.run("forget", instance).code,
            "no instance" in a.run("forget", instance).err,
        )
