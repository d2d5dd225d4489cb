"""The MCP server, line by line: what it answers to each message, and to what is none."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from relay import inotify

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "relay", "version": "1"}}


def requests(session: Path) -> list[str]:
    """Return the requests that lie in a session."""
    return [name for name in os.listdir(session) if name.endswith(".req.json")]


def call(name: Any, arguments: Any, **more: Any) -> dict[str, Any]:
    """Return the params of a call."""
    return {"name": name, "arguments": arguments, **more}


def watched(process: int) -> int:
    """Return the events that a process with one watch waits for, as the kernel tells them."""
    told = ""
    for each in Path(f"/proc/{process}/fdinfo").iterdir():
        # RACE: it may be closed by now.
        with suppress(FileNotFoundError):
            told += each.read_text()
    found = re.search(r"^inotify wd:.* mask:([0-9a-f]+)", told, re.MULTILINE)
    return int(found[1], 16) if found else 0


class TestHandshake:
    @pytest.mark.parametrize(
        ("asked", "answered"),
        [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
            (None, "2025-11-25"),
        ],
    )
    def test_version(self, raw: Any, session: Path, asked: Any, answered: str) -> None:
        """A version that is known is agreed to; any other is answered with the newest."""
        client = raw(session)
        client.ask(1, "initialize", {"protocolVersion": asked, "capabilities": {}})
        assert {
            "protocolVersion": answered,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "relay", "version": "1"},
        } == client.answer()["result"]

    def test_discovery(self, raw: Any, session: Path) -> None:
        """A client of 2026 learns what is there by one question."""
        client = raw(session)
        client.ask(1, "server/discover", {"_meta": ENVELOPE})
        said = client.answer()["result"]
        assert "2026-07-28" == said["supportedVersions"][0]
        assert ("complete", 0, "private") == (said["resultType"], said["ttlMs"], said["cacheScope"])
        assert SERVER == said["_meta"]

    def test_a_version_of_the_future(self, raw: Any, session: Path) -> None:
        """A request in a version that is not spoken is told which are."""
        client = raw(session)
        meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
        client.ask(1, "server/discover", {"_meta": meta})
        error = client.answer()["error"]
        assert -32022 == error["code"]
        assert "2030-01-01" == error["data"]["requested"]
        assert {"2026-07-28", "2025-11-25"} <= set(error["data"]["supported"])

    def test_half_an_envelope(self, raw: Any, session: Path) -> None:
        """A request that carries a version alone is told what is missing."""
        client = raw(session)
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        client.ask(1, "tools/list", {"_meta": meta})
        error = client.answer()["error"]
        assert -32602 == error["code"]
        assert "clientCapabilities" in error["message"]

    @pytest.mark.parametrize(
        "method", ["resources/list", "prompts/list", "logging/setLevel", "no/such/method"]
    )
    def test_what_is_not_there(self, raw: Any, session: Path, method: str) -> None:
        """A method that this server has not is refused with the code for that."""
        client = raw(session)
        client.ask("a", method)
        said = client.answer()
        assert ("a", -32601) == (said["id"], said["error"]["code"])
        client.ask("b", "ping")
        assert {"jsonrpc": "2.0", "id": "b", "result": {}} == client.answer()


class TestBadMessages:
    @pytest.mark.parametrize(
        ("line", "id_", "code"),
        [
            (b"nonsense", None, -32700),
            (b"{", None, -32700),
            (b"\xff\xfe", None, -32700),
            (b"5", None, -32600),
            (b"[]", None, -32600),
            (b'{"id": 1}', 1, -32600),
            (b'{"jsonrpc": "2.0", "id": 1}', 1, -32600),
            (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', 1, -32600),
            (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600),
            (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
            (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', 1, -32602),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"x": NaN}}', 1, -32600),
            (b'{"method": "a", "params": {"x": 1e999}, "jsonrpc": "2.0", "id": "q"}', "q", -32600),
        ],
    )
    def test_is_answered(self, raw: Any, session: Path, line: bytes, id_: Any, code: int) -> None:
        """What is no message gets an error, with the id where one can be told; and it goes on."""
        client = raw(session)
        client.send(line)
        said = client.answer()
        assert (id_, code) == (said["id"], said["error"]["code"])
        client.ask(2, "ping")
        assert 2 == client.answer()["id"]

    def test_what_needs_no_answer(self, raw: Any, session: Path) -> None:
        """Empty lines, answers to nothing and unknown notifications pass unanswered."""
        client = raw(session)
        client.send(
            b"",
            b"  \r",
            {"jsonrpc": "2.0", "id": 9, "result": {}},
            {"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}},
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
        )
        client.ask(1, "ping")
        assert 1 == client.answer()["id"]

    def test_a_batch(self, raw: Any, session: Path) -> None:
        """Messages in an array, as one version of MCP has them, are each answered."""
        client = raw(session)
        client.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (1, 2)])
        assert [1, 2] == [client.answer()["id"] for _ in range(2)]

    @pytest.mark.parametrize("where", ["first", "last"])
    def test_a_message_that_is_too_long(
        self, raw: Any, unserved: Path, announce: Any, where: str
    ) -> None:
        """A message over the bound is refused by its id, first or last in it, and never kept."""
        announce(unserved, "echo", RELAY_MAX_REQUEST_BYTES=1024)
        client = raw(unserved)
        client.ask(1, "ping")
        assert 1 == client.answer()["id"]
        body = {"method": "tools/call", "params": call("echo", {"text": "x" * 300_000})}
        head = {"jsonrpc": "2.0", "id": "long"}
        client.send({**body, **head} if where == "last" else {**head, **body})
        said = client.answer()
        assert ("long", True) == (said["id"], said["result"]["isError"])
        (content,) = said["result"]["content"]
        assert content["text"].endswith("RELAY_MAX_REQUEST_BYTES is 1024")
        body["method"] = "resources/read"
        client.send({**body, **head} if where == "last" else {**head, **body})
        said = client.answer()
        assert ("long", -32600) == (said["id"], said["error"]["code"])
        assert "RELAY_MAX_REQUEST_BYTES is 1024" in said["error"]["message"]
        assert [] == requests(unserved)
        client.ask(2, "ping")
        assert 2 == client.answer()["id"]

    def test_an_id_that_is_still_open(self, raw: Any, unserved: Path) -> None:
        """Two requests with one id cannot be told apart, so the second is refused."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        client.ask(1, "ping")
        said = client.answer()
        assert (1, -32600) == (said["id"], said["error"]["code"])


class TestBeforePublishing:
    @pytest.mark.parametrize(
        ("params", "says"),
        [
            (call("nope", {}), "Unknown tool: nope"),
            (call(None, {}), "name is missing"),
            (call("echo", ["a"]), "arguments is not an object"),
            (call("echo", "text"), "arguments is not an object"),
            ({"arguments": {}}, "name is missing"),
        ],
    )
    def test_names_and_arguments_are_checked(
        self, raw: Any, unserved: Path, params: Any, says: str
    ) -> None:
        """A call that cannot be right is refused here, and no runner ever sees it."""
        client = raw(unserved)
        client.ask(1, "tools/call", params)
        error = client.answer()["error"]
        assert -32602 == error["code"]
        assert says in error["message"]
        assert [] == requests(unserved)

    def test_where_no_runner_ever_was(self, raw: Any, tmp_path: Path) -> None:
        """A session without a runner has no tools, and a call says why it fails."""
        (tmp_path / "session").mkdir(mode=0o700)
        client = raw(tmp_path / "session")
        client.ask(1, "tools/list")
        assert {"tools": []} == client.answer()["result"]
        client.ask(2, "tools/call", call("echo", {}))
        said = client.answer()["result"]
        assert said["isError"]
        assert "not_executed: no runner serves this session yet" == said["content"][0]["text"]
        assert [] == requests(tmp_path / "session")

    def test_a_page_that_is_not_there(self, raw: Any, session: Path) -> None:
        """All tools are on the first page."""
        client = raw(session)
        client.ask(1, "tools/list", {"cursor": "x"})
        assert -32602 == client.answer()["error"]["code"]


class TestCalls:
    @pytest.mark.parametrize(
        ("tool", "arguments", "code", "text"),
        [
            ("fail", {"why": "no such order"}, "tool_error", "no such order"),
            ("burst", {}, "tool_error", "the tool failed with ValueError"),
            ("echo", {"text": "forbidden"}, "refused", "refused: that word is not allowed"),
            ("echo", {"text": 5}, "invalid_args", "invalid_args: echo: text: 5 is not of type"),
            ("park", {}, "paused", "paused: park: paused; its answer comes on a later call"),
        ],
    )
    def test_what_goes_wrong_says_why(
        self, raw: Any, session: Path, tool: str, arguments: Any, code: str, text: str
    ) -> None:
        """Whatever is no result is an error with its reason and code, and leaks nothing."""
        client = raw(session)
        client.ask(1, "tools/call", call(tool, arguments))
        said = client.answer()["result"]
        assert (True, code) == (said["isError"], said["_meta"]["relay/code"])
        assert said["content"][0]["text"].startswith(text)
        assert "hunter2" not in json.dumps(said)

    def test_timeout(self, raw: Any, session: Path) -> None:
        """A call over its time is an error that says whether it may have run."""
        client = raw(session, "--timeout", "150ms")
        client.ask(1, "tools/call", call("wait", {"seconds": 20}))
        said = client.answer()["result"]
        assert (True, "timeout") == (said["isError"], said["_meta"]["relay/code"])
        assert said["_meta"]["relay/mayHaveRun"]

    def test_many_at_once(self, raw: Any, session: Path) -> None:
        """A slow call holds up none of those behind it."""
        client = raw(session)
        client.ask("slow", "tools/call", call("wait", {"seconds": 1}))
        for number in range(50):
            client.ask(number, "tools/call", call("echo", {"text": str(number)}))
        said = [client.answer() for _ in range(51)]
        assert "slow" == said[-1]["id"]
        texts = {each["id"]: each["result"]["content"][0]["text"] for each in said[:-1]}
        assert {number: str(number) for number in range(50)} == texts

    def test_a_runner_that_starts_later(
        self, raw: Any, unserved: Path, serve: Any, until: Any
    ) -> None:
        """Once it is told of signals, the server waits for nothing else: no claim wakes it."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {"text": "1"}))
        until(lambda: requests(unserved))
        assert inotify.IN_MOVED_TO & watched(client.process.pid)
        serve(unserved.parent)
        client.ask(2, "tools/call", call("echo", {"text": "2"}))
        assert {1, 2} == {client.answer()["id"] for _ in range(2)}
        until(lambda: not inotify.IN_MOVED_TO & watched(client.process.pid))
        assert inotify.IN_ATTRIB & watched(client.process.pid)

    def test_an_empty_text_and_a_hostile_one(self, raw: Any, session: Path) -> None:
        """Texts pass as they are: none, line ends, half of a surrogate pair mended."""
        client = raw(session)
        for number, text in enumerate(["", "a\nb\r\n\u2028", "\x00\x1b[2J", "é😀"]):
            client.ask(number, "tools/call", call("echo", {"text": text}))
            said = client.answer()["result"]
            assert (False, text) == (said["isError"], said["content"][0]["text"])
        client.send(
            b'{"jsonrpc":"2.0","id":9,"method":"tools/call",'
            b'"params":{"name":"echo","arguments":{"text":"\\ud83d"}}}'
        )
        said = client.answer()["result"]
        assert (True, "bad_request") == (said["isError"], said["_meta"]["relay/code"])

    def test_signs_of_life(self, raw: Any, unserved: Path) -> None:
        """A client that gave a token hears, while it waits, that the call goes on."""
        program = (
            "from relay.mcp.server import Server\n"
            f"Server({str(unserved)!r}, timeout=1.0, progress=0.05).run()"
        )
        client = raw(unserved, program=program)
        client.ask(1, "tools/call", call("echo", {}, _meta={"progressToken": "tok"}))
        client.ask(2, "tools/call", call("echo", {}))
        said = [client.answer() for _ in range(4)]
        signs = [each for each in said if each.get("method") == "notifications/progress"]
        assert {"tok"} == {each["params"]["progressToken"] for each in signs}
        passed = [each["params"]["progress"] for each in signs]
        assert sorted(set(passed)) == passed


class TestCancelling:
    def test_takes_the_request_back(self, raw: Any, unserved: Path, until: Any) -> None:
        """A call that is cancelled is taken back, unanswered, and the connection goes on."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        until(lambda: requests(unserved))
        params = {"requestId": 1, "reason": "enough"}
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        until(lambda: not requests(unserved))
        client.ask(2, "ping")
        assert 2 == client.answer()["id"]

    def test_of_no_id(self, raw: Any, unserved: Path, until: Any) -> None:
        """What is no id, though it equals one, takes nothing back."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        until(lambda: requests(unserved))
        params = {"requestId": True}
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        client.ask(2, "ping")
        assert 2 == client.answer()["id"]
        assert 1 == len(requests(unserved))


class TestTheEnd:
    def test_of_stdin(self, raw: Any, unserved: Path, until: Any) -> None:
        """Stdin closed, it takes back what is in flight and ends."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        until(lambda: requests(unserved))
        assert 0 == client.end()
        assert [] == requests(unserved)
        assert b"" == client.process.stderr.read()

    def test_of_a_pipe_of_questions(self, raw: Any, session: Path) -> None:
        """Questions from a pipe that then ends are answered first."""
        client = raw(session)
        client.ask(1, "tools/call", call("echo", {"text": "x"}))
        assert 0 == client.end()
        assert "x" == client.answer()["result"]["content"][0]["text"]
        assert client.answer() is None

    def test_of_stdin_with_answers_unread(self, raw: Any, session: Path) -> None:
        """A client that reads nothing and closes stdin does not keep it waiting for ever."""
        client = raw(session)
        os.set_blocking(client.process.stdin.fileno(), False)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode() + b"\n"
        refused = 0
        # Until it has not read for a second: whole lines, so that the last one is none by half.
        while refused < 100:
            refused = 0 if client.process.stdin.write(line) else refused + 1
            time.sleep(0.01 if refused else 0)
        client.process.stdin.close()
        assert 0 == client.process.wait(30)

    def test_of_whoever_reads(self, raw: Any, unserved: Path, until: Any) -> None:
        """When nobody reads any more it ends, though stdin stays open: it is never an orphan."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        until(lambda: requests(unserved))
        client.process.stdout.close()
        assert 0 == client.process.wait(30)
        assert [] == requests(unserved)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_by_a_signal(self, raw: Any, unserved: Path, until: Any, number: int) -> None:
        """A signal takes everything back before it ends."""
        client = raw(unserved)
        client.ask(1, "tools/call", call("echo", {}))
        until(lambda: requests(unserved))
        client.process.send_signal(number)
        assert 130 == client.process.wait(30)
        assert [] == requests(unserved)

    def test_subscriptions_are_told(self, raw: Any, session: Path) -> None:
        """A subscription ends with its own answer."""
        client = raw(session)
        params = {"_meta": ENVELOPE, "notifications": {"toolsListChanged": True}}
        client.ask("s", "subscriptions/listen", params)
        assert "notifications/subscriptions/acknowledged" == client.answer()["method"]
        assert 0 == client.end()
        said = client.answer()
        assert "s" == said["id"]
        assert "s" == said["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]


class TestBounds:
    def test_a_client_that_does_not_read(self, raw: Any, session: Path) -> None:
        """Answers that nobody takes stop the reading, and all come once they are taken."""
        client = raw(session)
        os.set_blocking(client.process.stdin.fileno(), False)
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode() + b"\n"
        sent = b""
        refused = 0
        while refused < 100 and len(sent) < 64 << 20:
            part = client.process.stdin.write(line * 100)
            refused = 0 if part else refused + 1
            sent += (line * 100)[: part or 0]
        assert len(sent) < 64 << 20
        os.set_blocking(client.process.stdin.fileno(), True)
        client.process.stdin.write(line[len(sent) % len(line) :])
        count = len(sent) // len(line) + 1
        for _ in range(count):
            assert 1 == client.answer()["id"]


class TestCommand:
    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--nope"], "there is no option '--nope'"),
            (["extra"], "no argument is expected"),
            (["--timeout", "never"], "is not a duration"),
        ],
    )
    def test_wrong_usage(self, raw: Any, session: Path, words: list[str], says: str) -> None:
        """A wrong command line is one message, and status 2."""
        client = raw(session, *words)
        assert 2 == client.process.wait(30)
        said = client.process.stderr.read().decode()
        assert says in said
        assert said.startswith("relay mcp: ")

    def test_help(self, raw: Callable[..., Any], session: Path) -> None:
        """It says how a client's configuration names it."""
        client = raw(session, "--help")
        assert 0 == client.process.wait(30)
        assert b'{"mcpServers": ' in client.process.stdout.read()
