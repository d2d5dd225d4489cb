"""kill, set, restore, status, history: their answers, and their exit codes as proof."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest


class TestProof:
    def test_applied_by_all(self, place: Any) -> None:
        """Exit 0, with the directory, and every instance by its process id."""
        programs = [place.start() for _ in range(2)]
        place.settle()
        done = place.kill("--wait", "20s")
        assert (0, "") == (done.code, done.err)
        assert f"state directory: {place.state}" in done.out
        for program in programs:
            assert f"pid {program.process.pid} " in done.out
            assert not program.until(fast=False)["fast"]

    def test_nobody_is_there(self, place: Any) -> None:
        """Exit 4: a wrong user or directory never looks like success; the entry is written."""
        done = place.kill("--wait", "10ms")
        assert (4, "live instances: 0") == (done.code, done.out.splitlines()[-1])
        assert f"no live instance in {place.state}" in done.err
        assert place.status()["flags"][0]["kind"] == "kill"

    def test_without_waiting_nothing_is_proven(self, place: Any) -> None:
        """Exit 0 says that it is written; who is there is shown all the same."""
        done = place.kill()
        assert (0, "live instances: 0") == (done.code, done.out.splitlines()[-1])
        assert "right directory and user" in done.err

    def test_one_that_does_not_move_is_named(self, place: Any) -> None:
        """Exit 3 with its process id; once it goes on, 0."""
        moving, stuck = place.start(), place.start()
        place.settle()
        stuck.process.send_signal(signal.SIGSTOP)
        done = place.kill("--wait", "500ms")
        assert 3 == done.code
        assert (
            f"pid {stuck.process.pid} on" in done.out.split("not yet applied")[0].splitlines()[-1]
        )
        assert f"pid {moving.process.pid} on {os.uname().nodename}: applied" in done.out
        stuck.process.send_signal(signal.SIGCONT)
        assert 0 == place.kill("--wait", "20s").code

    def test_one_that_dies_is_waited_for_no_longer(self, place: Any) -> None:
        """Its lock goes with it, so that there is nobody any more."""
        stuck = place.start()
        place.settle()
        stuck.process.send_signal(signal.SIGSTOP)
        threading.Timer(1.0, stuck.process.kill).start()
        assert 4 == place.kill("--wait", "20s").code

    def test_a_dead_instance_is_no_instance(self, place: Any) -> None:
        """Killed without a chance to sign off, it is gone from status at once."""
        program = place.start()
        assert [program.process.pid] == [each["pid"] for each in place.status()["instances"]]
        program.kill()
        assert [] == place.status()["instances"]

    def test_one_that_signs_off(self, place: Any) -> None:
        """A process that stops following is asked for nothing."""
        program = place.start()
        program.tell("close")
        assert {} == program.read()
        assert [] == place.status()["instances"]

    def test_a_command_that_relayconf_ran(self, place: Any) -> None:
        """It took its settings at its start, and keeps the answer at 3 until it is started anew."""
        program = place.start(
            *("-m", "relayconf", "run", "--target", "service:AppSettings", "--"),
            *(sys.executable, "-c", "import sys; print('{}', flush=True); sys.stdin.read()"),
        )
        place.settle()
        done = place.kill("--wait", "100ms")
        assert (3, True) == (done.code, "restart it" in done.out)
        (instance,) = place.status()["instances"]
        assert (program.process.pid, ["APP_FAST"], True) == (
            instance["pid"],
            instance["pending_restart"],
            instance["restart_only"],
        )
        program.kill()
        assert 4 == place.kill("--wait", "100ms").code

    def test_a_directory_that_was_just_made_proves_nothing(self, place: Any) -> None:
        """For two seconds instances may be on their way back: 3, and 0 only after that."""
        place.start()
        begun = time.monotonic()
        done = place.kill("--wait", "1ms")
        assert done.code == (3 if time.monotonic() - begun < 1 else done.code)
        assert 0 == place.kill("--wait", "20s").code

    def test_what_needs_a_restart_is_not_applied(self, place: Any) -> None:
        """A setting that does not apply live keeps the answer at 3, and says what to do."""
        place.start()
        place.settle()
        done = place.command("set", "APP_PORT=81", "--reason", "a test", "--wait", "200ms")
        assert (3, True) == (done.code, "waits for a restart: APP_PORT" in done.out)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("kill", "APP_FAST"), "--reason"),
            (("kill", "APP_FAST", "--reason", " "), "--reason is blank"),
            (("kill", "APP_FATS", "--reason", "r"), "did you mean APP_FAST?"),
            (("kill", "APP_N", "--reason", "r"), "is no flag"),
            (("kill", "@slow", "--reason", "r"), "known are: @speed"),
            (("kill", "APP_FAST", "--reason", "r", "--ttl", "soon"), "--ttl 'soon'"),
            (("kill", "APP_FAST", "--reason", "r", "--ttl", "0"), "more than 0"),
            (("kill", "APP_FAST", "--reason", "r", "--wait", "5sec"), "--wait '5sec'"),
            (("kill", "APP_FAST", "--reason", "r", "--wait", "5"), "say the unit: 5s, 5m or 5ms"),
            (("kill", "APP_FAST", "--reason", "r", "--ttl", "30"), "say the unit: 30s, 30m"),
            (("set", "APP_N", "--reason", "r"), "NAME=VALUE"),
            (("set", "APP_N=junk", "--reason", "r"), "'junk' is not a valid integer"),
            (("set", "APP_N=101", "--reason", "r"), "101 is above the maximum 100"),
            (("set", "APP_N=", "--reason", "r"), "blank"),
            (("set", "APP_M=5", "--reason", "r"), "APP_M"),
            (("restore", "--reason", "r"), "--all"),
            (("restore", "APP_X", "--reason", "r"), "APP_X"),
        ],
    )
    def test_exit_2_and_nothing_written(
        self, place: Any, words: tuple[str, ...], reason: str
    ) -> None:
        """Each refusal is one line that says what to do."""
        done = place.command(*words)
        assert (2, True, "") == (done.code, reason in done.err, done.out)
        assert not place.state.exists()

    def test_a_secret_is_never_set(self, place: Any) -> None:
        """Overrides are shown to everybody who may read them, so they hold none."""
        for word in ("RELAY_DAEMON_TOKEN=hunter2", "RELAY_DAEMON_URL=https://me:hunter2@host/"):
            done = place.run("set", word, "--reason", "r", "--target", "relay")
            assert (2, False) == (done.code, "hunter2" in done.out + done.err)

    def test_a_name_of_several_targets(self, place: Any) -> None:
        """An ambiguous name is no one's until the target is named."""
        for target in ("one", "two"):
            facts = {
                "version": 1,
                "target": target,
                "prefix": "SHARED_",
            }
            flag = {"kind": "release", "kill": False, "owner": "me", "expires": "2030-01-01"}
            setting = {"type": "boolean", "live": True, "flag": flag}
            contract = {
                "x-relayconf": facts,
                "properties": {"SHARED_FLAG": {"default": True, "x-relayconf": setting}},
            }
            path = place.folder / f"{target}.json"
            path.write_text(json.dumps(contract))
            place.start(
                *("-m", "relayconf", "run", "--target", str(path), "--"),
                *(sys.executable, "-c", "import sys; print('{}', flush=True); sys.stdin.read()"),
            )
        done = place.run("kill", "SHARED_FLAG", "--reason", "r")
        assert (2, True) == (done.code, "(one, two)" in done.err)
        path = str(place.folder / "one.json")
        assert 0 == place.run("kill", "SHARED_FLAG", "--reason", "r", "--target", path).code

    def test_a_disk_that_cannot_be_written(self, place: Any) -> None:
        """Exit 1, nothing changed, and the place is named."""
        place.folder.joinpath("file").write_text("x")
        environment = {"RELAYCONF_STATE_DIR": str(place.folder / "file" / "state")}
        done = place.kill(environment=environment)
        assert (1, True) == (done.code, "nothing was changed" in done.err)


class TestChanging:
    def test_the_contract_is_what_lives(self, place: Any) -> None:
        """Without --target a live instance's contract is enough, with no Python of its own."""
        place.start()
        done = place.run("kill", "APP_FAST", "--reason", "a test", "--json")
        assert (0, "app") == (done.code, done.answer["made"][0]["target"])

    def test_a_group(self, place: Any) -> None:
        """Every flag of a group goes with one command."""
        done = place.run("kill", "@watch", "--reason", "r", "--json")
        assert (0, 3) == (done.code, len(done.answer["made"]))
        assert 3 == len(place.run("restore", "@watch", "--reason", "r", "--json").answer["removed"])

    def test_a_dry_run_shows_and_changes_nothing(self, place: Any) -> None:
        """It says what would change where, and makes not even the directory."""
        done = place.kill("--dry-run")
        assert (0, True) == (done.code, "would be killed" in done.out)
        assert not place.state.exists()
        place.start()
        done = place.kill("--dry-run", "--json")
        (instance,) = done.answer["instances"]
        assert (True, {"APP_FAST": True}) == (done.answer["dry_run"], instance["values"])
        assert not (place.state / "overrides.json").exists()

    def test_restoring_what_was_never_killed(self, place: Any) -> None:
        """It says so, exit 0."""
        done = place.restore("--wait", "5s")
        assert (0, True) == (done.code, "nothing to restore" in done.out)
        assert not place.state.exists()

    def test_a_ttl_ends_by_itself(self, place: Any) -> None:
        """The process goes back, and its end is in the history, by auto."""
        program = place.start()
        place.kill("--ttl", "700ms")
        assert program.until(fast=False)
        assert program.until(fast=True)
        place.until(lambda: len(place.command("history", "--json").answer["changes"]) == 2)
        end = place.command("history", "--json").answer["changes"][1]
        assert ("expire", "auto") == (end["action"], end["actor"])

    def test_strict_refuses_no_kill(self, place: Any) -> None:
        """Whatever else is wrong, a kill goes through."""
        environment = {"APP_N": "junk", "RELAYCONF_STRICT": "1"}
        assert 0 == place.kill("--strict", environment=environment).code

    def test_a_broken_document_is_rebuilt(self, place: Any) -> None:
        """The next command says so, and forgets no kill."""
        place.kill()
        (place.state / "overrides.json").write_text("{")
        done = place.command("set", "APP_N=7", "--reason", "r")
        assert (0, True) == (done.code, "rebuilt" in done.err)
        assert {("APP_FAST", "kill"), ("APP_N", "set")} == {
            (flag["name"], flag["kind"]) for flag in place.status()["flags"]
        }

    def test_a_restart_in_mid_incident_forgets_no_kill(self, place: Any) -> None:
        """A process that starts on a broken document goes by what can be rebuilt."""
        place.kill()
        (place.state / "overrides.json").write_bytes(b"")
        assert not place.start().last["fast"]


class TestStatus:
    def test_its_shape(self, place: Any) -> None:
        """Flags with value, layer and kind; instances with what they go by."""
        program = place.start()
        place.settle()
        place.kill("--wait", "20s")
        status = place.status()
        assert ["generation", "state_dir", "flags", "instances", "problems"] == list(status)
        assert (1, str(place.state), []) == (
            status["generation"],
            status["state_dir"],
            status["problems"],
        )
        assert [
            {
                "target": "app",
                "name": "APP_FAST",
                "value": False,
                "layer": "override",
                "kind": "kill",
            }
        ] == status["flags"]
        (instance,) = status["instances"]
        assert (program.process.pid, 1, [], "app") == (
            instance["pid"],
            instance["generation"],
            instance["pending_restart"],
            instance["target"],
        )
        assert 0 <= instance["age_ms"] < 60_000

    def test_what_is_not_overridden_is_what_instances_say(self, place: Any) -> None:
        """The command's own environment decides only where nobody lives."""
        environment = {"APP_FAST": "false"}
        assert [False] == [flag["value"] for flag in place.status(environment=environment)["flags"]]
        place.start()
        (flag,) = place.status(environment=environment)["flags"]
        assert (True, None) == (flag["value"], flag["kind"])

    def test_reading_makes_nothing(self, place: Any) -> None:
        """status, history and show leave no directory behind."""
        for word in ("status", "history", "show"):
            assert 0 == place.command(word).code
        assert not place.state.exists()

    def test_no_home_is_an_empty_state(self, place: Any) -> None:
        """Without any place to look at, there is nothing, and no error."""
        environment = {"RELAYCONF_STATE_DIR": "", "HOME": "/nonexistent", "XDG_STATE_HOME": ""}
        status = place.status(environment=environment)
        assert (0, []) == (status["generation"], status["instances"])

    def test_show_and_explain_see_it(self, place: Any) -> None:
        """The layer, the entry and the generation are where every other layer's are."""
        place.kill()
        shown = place.command("show", "--json").answer
        (setting,) = (each for each in shown["settings"] if each["name"] == "APP_FAST")
        assert (1, "killed", "override") == (
            shown["generation"],
            setting["status"],
            setting["source"]["layer"],
        )
        explained = place.command("explain", "APP_FAST", "--set", "APP_FAST=true", "--json").answer
        verdicts = [(each["layer"], each["verdict"]) for each in explained["stack"]]
        assert [
            ("override", "in force"),
            ("option", "shadowed"),
            ("default", "shadowed"),
        ] == verdicts


class TestHistory:
    def test_who_why_when_and_which_process(self, place: Any) -> None:
        """The morning after: each change with its reason, and how fast each instance applied it."""
        program = place.start()
        place.settle()
        place.kill("--incident", "INC-1", "--actor", "anna", "--wait", "20s")
        place.restore("--wait", "20s")
        killed, restored = place.command("history", "--json").answer["changes"]
        assert ("kill", "anna", "a test", "INC-1") == tuple(
            killed[key] for key in ("action", "actor", "reason", "incident")
        )
        for change in (killed, restored):
            (by,) = change["applied"]
            assert program.process.pid == by["pid"]
            assert 0 <= by["took_ms"] < 30_000
        text = place.command("history", "--incident", "INC-1").out
        assert ("anna" in text, "restore" in text) == (True, False)

    def test_verify_names_the_first_bad_line(self, place: Any) -> None:
        """A whole audit is 0; an altered, a removed and a cut-off line are 1 each."""
        for _ in range(3):
            place.kill()
        assert 0 == place.command("history", "--verify").code
        path = place.state / "audit.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        for damaged, name in (
            ([lines[0], lines[1].replace(b"a test", b"a jest"), lines[2]], "line 2"),
            ([lines[0], lines[2]], "line 2"),
            (lines[:2], "line 3"),
            ([], "line 1"),
        ):
            path.write_bytes(b"".join(damaged))
            done = place.command("history", "--verify", "--json")
            assert (1, False) == (done.code, done.answer["verified"])
            assert done.answer["faults"][0].startswith(name)
            # A broken chain never refuses a kill.
            assert 0 == place.kill("--dry-run").code
        assert 0 == place.kill().code

    def test_nothing_is_whole(self, place: Any) -> None:
        """An empty state has an empty history."""
        assert 0 == place.command("history", "--verify").code


#: Another user, where this process may act for one.
OTHERS = [pytest.param(12345, id="another-user")] if os.geteuid() == 0 else []


class TestUsers:
    @pytest.mark.parametrize("uid", OTHERS)
    def test_a_kill_under_sudo_stays_readable(self, place: Any, tmp_path: Path, uid: int) -> None:
        """Every file that root writes belongs to the directory's owner."""
        for path in (tmp_path, *tmp_path.parents):
            if path.stat().st_uid == os.geteuid() and path != Path("/tmp"):
                path.chmod(path.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
            if path.name.startswith("pytest-of"):
                break
        place.state.mkdir(mode=0o700)
        os.chown(place.state, uid, uid)
        assert 0 == place.kill().code
        owners = {path.stat().st_uid for path in place.state.rglob("*")}
        assert ({uid}, 0o600) == (
            owners,
            stat.S_IMODE((place.state / "overrides.json").stat().st_mode),
        )

    @pytest.mark.parametrize("uid", OTHERS)
    def test_a_process_obeys_no_other_user(self, place: Any, uid: int, a_kill: Any) -> None:
        """Whoever owns the directory, unless that is root, me or our group, is not believed."""
        place.write(a_kill)
        os.chown(place.state, uid, uid)
        program = place.start()
        assert program.last["fast"]

    @pytest.mark.parametrize("uid", OTHERS)
    def test_a_group_is_believed(self, place: Any, uid: int, a_kill: Any) -> None:
        """RELAYCONF_STATE_GROUP shares it between users."""
        place.write(a_kill)
        os.chown(place.state, uid, uid)
        place.state.chmod(0o2770)
        program = place.start(environment={"RELAYCONF_STATE_GROUP": str(uid)})
        assert not program.last["fast"]
        mode = stat.S_IMODE(next(place.state.glob("instances/*.json")).stat().st_mode)
        assert 0o660 == mode
