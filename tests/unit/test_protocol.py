"""The protocol's names, bodies and publication, as a hostile or foreign peer may write them."""

from __future__ import annotations

import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from relay import inotify, protocol
from relay.errors import BadRequest, BadResponse
from relay.protocol import Request, Response


class TestNames:
    @pytest.mark.parametrize("id_", ["a", "A-z_0", "x" * 200, "-", "0"])
    def test_a_request_is_known_by_its_name(self, id_: str) -> None:
        """A request's id is its name without the suffix."""
        assert id_ == protocol.request_id(f"{id_}.req.json")

    @pytest.mark.parametrize(
        "name",
        [
            "",
            ".req.json",
            "x" * 201 + ".req.json",
            "a.b.req.json",
            "a/b.req.json",
            "é.req.json",
            "٣.req.json",
            "a.req.json\n",
            "a\n.req.json",
            "a.REQ.JSON",
            "a.res.json",
            "a.req.json.tmp.0",
            "a b.req.json",
            "a.claim.r",
            "relay.json",
        ],
    )
    def test_any_other_name_is_foreign(self, name: str) -> None:
        """What is not spelled exactly like a request is left alone."""
        assert protocol.request_id(name) is None

    def test_a_claim_names_its_runner(self) -> None:
        """A claim tells which request was taken, and by whom."""
        assert ("call-1", "r_2") == protocol.parse_claim(protocol.claim_name("call-1", "r_2"))

    @pytest.mark.parametrize(
        "name", ["a.claim.", ".claim.r", "a.claim.b.c", "a.claim", "a.b.claim.r", "a.claim.é"]
    )
    def test_what_is_no_claim(self, name: str) -> None:
        """A name that only resembles a claim is foreign."""
        assert protocol.parse_claim(name) is None

    @pytest.mark.parametrize("name", ["a.req.json", "a.res.json", "relay.json", "relay-probe"])
    def test_a_temp_name_is_known(self, name: str) -> None:
        """What is being written can be told from what is there, and never twice the same."""
        temp = protocol.temp_name(name)
        assert protocol.is_temp(temp)
        assert temp != protocol.temp_name(name)

    @pytest.mark.parametrize(
        "name", ["notes.tmp.1", "a.req.json", "a.req.json.tmp.", "a.req.json.tmp.é", "a.txt.tmp.1"]
    )
    def test_foreign_temp_files_are_left_alone(self, name: str) -> None:
        """Somebody else's temporary file is not swept away as residue."""
        assert not protocol.is_temp(name)

    def test_every_name_fits(self) -> None:
        """The longest names stay under what a file system takes, 255 bytes."""
        id_ = "x" * 200
        names = [
            protocol.temp_name(id_ + protocol.RESPONSE_SUFFIX),
            protocol.claim_name(id_, "r" * 32),
        ]
        assert max(map(len, names)) <= 255


class TestIds:
    @pytest.mark.parametrize(
        ("call_id", "kept"),
        [
            ("toolu_01-x", "toolu_01-x"),
            ("a/b c.d", "a_b_c_d"),
            ("../../etc", "______etc"),
            ("é\n\0", "___"),
            ("", "call"),
            ("x" * 300, "x" * 100),
        ],
    )
    def test_the_callers_id_is_cleaned(self, call_id: str, kept: str) -> None:
        """Any text becomes a safe name that a person still recognises."""
        made = protocol.new_id(call_id, random=lambda count: b"\xab" * count)
        assert f"{kept}-abababababab" == made
        assert made == protocol.request_id(made + protocol.REQUEST_SUFFIX)


class TestRequests:
    def test_the_key_order_is_the_ecosystems(self) -> None:
        """A request reads like one of the TypeScript original."""
        request = Request("t", "c", {"b": 1, "a": [None, True, "é"]}, 60_000)
        expected = (
            '{"toolName":"t","toolCallId":"c","args":{"b":1,"a":[null,true,"é"]},"timeoutMs":60000}'
        )
        assert expected.encode() == protocol.encode_request(request)

    @pytest.mark.parametrize(
        ("data", "request_"),
        [
            (b'{"toolName":"t"}', Request("t", "", {}, None)),
            (
                b'{"toolName":"t","args":null,"toolCallId":null,"timeoutMs":null}',
                Request("t", "", {}, None),
            ),
            (b'{"toolName":"t","timeoutMs":0}', Request("t", "", {}, 0)),
            (b'{"toolName":"t","timeoutMs":5.0}', Request("t", "", {}, 5)),
            (b' {"toolName" : "t" , "more":{"a":[1]}}\n', Request("t", "", {}, None)),
            (
                b'{"toolName":"t","args":{"e":"\\ud83d\\ude00"}}',
                Request("t", "", {"e": "\N{GRINNING FACE}"}, None),
            ),
        ],
    )
    def test_what_a_foreign_writer_may_write(self, data: bytes, request_: Request) -> None:
        """Missing and unknown fields, white space and escapes are all understood."""
        assert request_ == protocol.decode_request(data)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"null",
            b"[]",
            b'"x"',
            b"{}",
            b'{"toolName":""}',
            b'{"toolName":5}',
            b'{"toolName":"t"',
            b'{"toolName":"t"}x',
            b'{"toolName":"t","args":[]}',
            b'{"toolName":"t","args":"{}"}',
            b'{"toolName":"t","toolCallId":5}',
            b'{"toolName":"t","timeoutMs":-1}',
            b'{"toolName":"t","timeoutMs":1.5}',
            b'{"toolName":"t","timeoutMs":true}',
            b'{"toolName":"t","timeoutMs":"5"}',
            b'\xef\xbb\xbf{"toolName":"t"}',
            b'{"toolName":"\xff"}',
            b'{"toolName":"\xed\xa0\x80"}',
        ],
    )
    def test_what_is_no_request(self, data: bytes) -> None:
        """Anything else is one error that says what is wrong."""
        with pytest.raises(BadRequest):
            protocol.decode_request(data)

    def test_a_request_without_a_tool_is_not_written(self) -> None:
        """A nameless tool is refused before anything is published."""
        with pytest.raises(BadRequest, match="no name"):
            protocol.encode_request(Request("", "c", {}, None))


class TestResponses:
    @pytest.mark.parametrize(
        ("response", "data"),
        [
            (Response(ok=True, text="é"), '{"ok":true,"text":"é"}'),
            (
                Response(ok=False, error="no", code="refused"),
                '{"ok":false,"error":"no","code":"refused"}',
            ),
            (Response(ok=True, paused=True), '{"ok":true,"paused":true}'),
        ],
    )
    def test_both_ways(self, response: Response, data: str) -> None:
        """A response is written as the ecosystem reads it, and read back the same."""
        assert data.encode() == protocol.encode_response(response)
        assert response == protocol.decode_response(data.encode())

    @pytest.mark.parametrize(
        "data", [b'{"ok":true,"text":"x","paused":true}', b'{"ok":false,"paused":true}']
    )
    def test_paused_comes_first(self, data: bytes) -> None:
        """A response that says paused is paused, whatever else it says."""
        assert Response(ok=True, paused=True) == protocol.decode_response(data)

    def test_an_error_without_a_code_is_the_tools(self) -> None:
        """The TypeScript original writes errors without codes."""
        expected = Response(ok=False, error="boom", code="tool_error")
        assert expected == protocol.decode_response(b'{"ok":false,"error":"boom"}')

    @pytest.mark.parametrize(
        "data", [b"{}", b"5", b'{"ok":"true"}', b'{"ok":true,"text":{}}', b'{"ok":false,"code":1}']
    )
    def test_what_is_no_response(self, data: bytes) -> None:
        """Anything else is one error that says what is wrong."""
        with pytest.raises(BadResponse):
            protocol.decode_response(data)

    def test_half_a_pair_cannot_spoil_a_response(self) -> None:
        """A tool's text that is cut inside an emoji is published all the same."""
        data = protocol.encode_response(Response(ok=True, text="a\ud83d"))
        assert "a\N{REPLACEMENT CHARACTER}" == protocol.decode_response(data).text


class TestPublication:
    @pytest.fixture
    def dirfd(self, tmp_path: Path) -> object:
        """Hold the directory open."""
        fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        yield fd
        os.close(fd)

    def test_a_name_appears_complete_and_alone(self, tmp_path: Path, dirfd: int) -> None:
        """A published file is there with all its bytes, one link, and nothing beside it."""
        data = os.urandom(3_000_000)
        protocol.publish(dirfd, "a.req.json", data)
        found = (tmp_path / "a.req.json").stat()
        assert data == (tmp_path / "a.req.json").read_bytes()
        assert (1, 0o600) == (found.st_nlink, stat.S_IMODE(found.st_mode))
        assert ["a.req.json"] == os.listdir(tmp_path)

    def test_an_older_file_is_replaced(self, tmp_path: Path, dirfd: int) -> None:
        """Publishing again puts a new file under the name; a reader of the old one keeps it."""
        protocol.publish(dirfd, "relay.json", b"old")
        with (tmp_path / "relay.json").open("rb") as reader:
            protocol.publish(dirfd, "relay.json", b"new")
            assert b"old" == reader.read()
        assert b"new" == (tmp_path / "relay.json").read_bytes()

    def test_a_directory_in_the_way_leaves_nothing_behind(self, tmp_path: Path, dirfd: int) -> None:
        """A failed publication is an error, and removes what it had begun."""
        (tmp_path / "a.res.json").mkdir()
        with pytest.raises(IsADirectoryError):
            protocol.publish(dirfd, "a.res.json", b"x")
        assert ["a.res.json"] == os.listdir(tmp_path)

    def test_a_write_that_fails_leaves_nothing_behind(self, tmp_path: Path, dirfd: int) -> None:
        """A file that cannot be written whole never gets its name."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError, match="too large") as caught:
                protocol.publish(dirfd, "a.res.json", b"x" * 5000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert errno.EFBIG == caught.value.errno
        assert [] == os.listdir(tmp_path)

    @pytest.mark.parametrize(
        ("signal", "events"),
        [
            (False, ["closed TEMP", "renamed a.res.json"]),
            (True, ["renamed a.res.json", "signalled a.res.json", "closed a.res.json"]),
        ],
    )
    def test_what_others_see_of_it(
        self, tmp_path: Path, dirfd: int, *, signal: bool, events: list[str]
    ) -> None:
        """A file is closed before it has its name; one that is signalled has its name first."""
        kinds = {
            inotify.IN_MOVED_TO: "renamed",
            inotify.IN_ATTRIB: "signalled",
            inotify.IN_CLOSE_WRITE: "closed",
        }
        fd = inotify.init()
        inotify.add_watch(fd, str(tmp_path), sum(kinds))
        protocol.publish(dirfd, "a.res.json", b"x", signal=signal)
        seen = [
            f"{kinds[mask]} {'TEMP' if b'.tmp.' in name else name.decode()}"
            for _, mask, name in inotify.read_events(fd)
        ]
        os.close(fd)
        assert events == seen

    def test_the_mode_follows_the_directory(self, tmp_path: Path, dirfd: int) -> None:
        """Files are the group's in a setgid directory and nowhere else."""
        assert 0o600 == protocol.file_mode(dirfd)
        tmp_path.chmod(0o2770)
        assert 0o660 == protocol.file_mode(dirfd)
