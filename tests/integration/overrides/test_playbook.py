"""The incident playbook, followed to the letter against a process that lives."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any


class TestPlaybook:
    def test_every_command_does_what_it_says(self, place: Any, root: Path) -> None:
        """Copied from the page, in its order, each proves itself by exit 0."""
        page = (root / "docs/incident-playbook.md").read_text()
        commands = re.findall(r"^\$ relayconf (.*)$", page, re.MULTILINE)
        shutil.copy(root / "docs/examples/api/api.schema.json", place.folder)
        (place.folder / "relayed.py").write_text(
            "import sys\n"
            "from relay.settings import RelaySettings\n"
            "from relayconf import load\n"
            "live = load(RelaySettings)\n"
            "live.follow()\n"
            "print('{}', flush=True)\n"
            "sys.stdin.read()\n"
        )
        place.start("relayed.py")
        place.settle()
        assert len(commands) >= 10
        for command in commands:
            done = place.run(*shlex.split(command))
            # The other service is not there to obey; its kill is written, and 4 says so.
            assert (4 if "api.schema.json" in command else 0) == done.code, (command, done)

    def test_every_exit_code_is_explained(self, root: Path) -> None:
        """Each code that a command may end with has its row."""
        page = (root / "docs/incident-playbook.md").read_text()
        assert ["0", "1", "2", "3", "4"] == re.findall(r"^\| (\d) \|", page, re.MULTILINE)

    def test_the_program_of_the_guide_runs(self, place: Any, root: Path) -> None:
        """What the page on overrides shows of a program is a program."""
        page = (root / "docs/overrides.md").read_text()
        (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        code = (
            "from service import AppSettings\n"
            "pool = type('Pool', (), {'resize': print})()\n"
            f"{example}\n"
            "print('{}', flush=True)\n"
            "live.close()\n"
        )
        program = place.start("-c", code)
        assert (0, sys.executable) == (program.process.wait(), program.process.args[0])
