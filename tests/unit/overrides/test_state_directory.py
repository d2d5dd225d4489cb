"""The state directory: where it is, who is let in, and whose its files are."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from relayconf.errors import StateError
from relayconf.state.directory import find, make
from relayconf.state.location import state_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestLocation:
    def test_its_own_variable_comes_first(self) -> None:
        """RELAYCONF_STATE_DIR names it, also relative to the working directory."""
        environ = {"RELAYCONF_STATE_DIR": " state ", "XDG_STATE_HOME": "/x", "HOME": "/h"}
        assert os.path.abspath("state") == state_path(environ)

    def test_then_the_xdg_folder(self) -> None:
        """Otherwise it is relayconf/ in the user's state folder."""
        assert "/x/relayconf" == state_path({"XDG_STATE_HOME": "/x", "HOME": "/h"})
        assert "/h/.local/state/relayconf" == state_path({"HOME": "/h", "XDG_STATE_HOME": "rel"})

    def test_no_home_is_an_empty_state(self) -> None:
        """A user without a home has no state, and no error."""
        code = (
            "import os, pwd\n"
            "def nobody(uid): raise KeyError(uid)\n"
            "pwd.getpwuid = nobody\n"
            "from relayconf.state.location import state_path\n"
            "print(state_path({}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert b"None\n" == done.stdout


class TestMaking:
    def test_it_is_private(self, tmp_path: Path) -> None:
        """Only its owner can look into it, whatever the umask is."""
        before = os.umask(0)
        try:
            directory = make(str(tmp_path / "deep" / "state"))
            temp = directory.prepare("file", b"x", durable=True)
            folder = directory.folder("locks", make=True)
        finally:
            os.umask(before)
        path = tmp_path / "deep" / "state"
        assert (0o700, 0o600, 0o700) == (mode(path), mode(path / temp), mode(path / "locks"))
        assert folder is not None
        folder.close()
        directory.close()

    def test_a_group_shares_it(self, tmp_path: Path) -> None:
        """With RELAYCONF_STATE_GROUP it is 2770, its files 0660, both of that group."""
        directory = make(str(tmp_path / "state"), group=str(os.getgid()))
        temp = directory.prepare("file", b"x", durable=False)
        path = tmp_path / "state"
        assert (0o2770, 0o660) == (mode(path), mode(path / temp))
        assert os.getgid() == (path / temp).stat().st_gid
        directory.close()

    def test_a_directory_of_ones_own_is_shared_later(self, tmp_path: Path) -> None:
        """One that was there before, as a volume is, gets group and mode from its owner."""
        path = tmp_path / "state"
        path.mkdir(mode=0o755)
        make(str(path), group=str(os.getgid())).close()
        assert 0o2770 == mode(path)

    def test_what_is_in_it_is_shared_along(self, tmp_path: Path) -> None:
        """What its owner made while it was private is the group's too, at any depth; no link is."""
        path = tmp_path / "state"
        alone = make(str(path))
        alone.publish("overrides.json", b"{}")
        folder = alone.folder("locks", make=True)
        assert folder is not None
        folder.publish("overrides.lock", b"")
        folder.folder("runners", make=True).close()  # type: ignore[union-attr]  # it was made
        folder.close()
        alone.close()
        (outside := tmp_path / "outside").touch(mode=0o600)
        (path / "link").symlink_to(outside)
        make(str(path), group=str(os.getgid())).close()
        folders = ("locks", "locks/runners")
        assert {0o2770} == {mode(path / name) for name in folders}
        assert {0o660} == {mode(path / n) for n in ("overrides.json", "locks/overrides.lock")}
        assert 0o600 == mode(outside)

    def test_an_unknown_group_is_named(self, tmp_path: Path) -> None:
        """A group that does not exist is one clear message."""
        with pytest.raises(StateError, match="no-such-group"):
            make(str(tmp_path / "state"), group="no-such-group")

    @pytest.mark.parametrize("kind", ["file", "dangling"])
    def test_something_else_in_its_place(self, tmp_path: Path, kind: str) -> None:
        """A file or a dangling link is named, and left alone."""
        path = tmp_path / "state"
        if kind == "file":
            path.write_text("x")
        else:
            path.symlink_to(tmp_path / "gone")
        for use in (make, find):
            with pytest.raises(StateError, match=str(path)):
                use(str(path))


class TestTrust:
    def test_one_that_everybody_can_write_is_refused(self, tmp_path: Path) -> None:
        """Whoever could write it could switch off anything."""
        path = tmp_path / "state"
        path.mkdir()
        path.chmod(0o777)
        for use in (make, find):
            with pytest.raises(StateError, match="by everybody"):
                use(str(path))

    def test_reading_makes_nothing(self, tmp_path: Path) -> None:
        """Looking for one that is not there finds nothing and leaves nothing."""
        assert find(str(tmp_path / "state")) is None
        assert [] == list(tmp_path.iterdir())

    def test_an_older_directory_is_not_taken_for_a_new_one(self, tmp_path: Path) -> None:
        """Deleted and made again, it is another."""
        path = tmp_path / "state"
        directory = make(str(path))
        assert directory.is_there()
        path.rmdir()
        assert not directory.is_there()
        path.mkdir(mode=0o700)
        assert not directory.is_there()
        directory.close()
