"""Commands that ``relayconf run`` starts: by what the server says then, and never unnoticed."""

from __future__ import annotations

import sys
from typing import Any

#: Prints what its environment says of the flag.
PRINT = "import os; print(os.environ.get('APP_FAST'))"

#: Stays, for those who look for it.
STAY = "import sys; print('{}', flush=True); sys.stdin.read()"


def words(code: str) -> tuple[str, ...]:
    """Return the words that run a Python program with the service's settings."""
    return ("run", "--target", "service:AppSettings", "--", sys.executable, "-c", code)


class TestRun:
    def test_it_asks_the_server(self, fleet: Any) -> None:
        """On a host where nobody follows a kill of another host counts from the start."""
        a, b = fleet.host("a"), fleet.host("b")
        a.kill()
        done = b.run(*words(PRINT))
        assert (0, "false\n") == (done.code, done.out)

    def test_with_the_server_away(self, fleet: Any) -> None:
        """The command starts by what the host knew, and a line says that nobody was asked."""
        a = fleet.host("a")
        follower = a.start()
        fleet.until_fresh(a)
        assert 0 == a.kill("--wait", "20s").code
        follower.kill()
        fleet.server.kill()
        done = a.run(*words(PRINT))
        assert (0, "false\n", True) == (done.code, done.out, "fleet-unavailable" in done.err)

    def test_it_keeps_the_answer_at_3(self, fleet: Any) -> None:
        """It took its settings at its start, and is named until it is started anew."""
        a = fleet.host("a")
        program = a.start("-m", "relayconf", *words(STAY))
        done = a.kill("--wait", "10s")
        assert (3, True) == (done.code, "restart it" in done.out)
        assert f"pid {program.process.pid} on" in done.out
