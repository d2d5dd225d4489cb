"""Canaries: secrets that a runner hands to its tools turn up in no place that others see."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.engine.metrics import runner_metrics
from relay.errors import CallError

#: What a command, a service and a server are given, each by its own way.
CANARIES = {
    "COMMAND_TOKEN": "canary-command-1",
    "HEADER_TOKEN": "canary-header-2",
    "URL_KEY": "canary-url-3",
    "SERVER_TOKEN": "canary-server-4",
    "PASSED_PASSWORD": "canary-passed-5",
    "MCP_TOKEN": "canary-mcp-6",
}

#: Prints everything that it was given, where its argument says to.
TELLTALE = """
import json, os, sys
where = json.load(sys.stdin)["where"]
said = json.dumps(dict(os.environ))
stream = sys.stderr if where == "stderr" else sys.stdout
stream.write(said)
sys.exit(where == "failure")
"""

SERVER = """
import json, os, sys
from mcp.server import MCPServer
app = MCPServer("telltale")
said = json.dumps(dict(os.environ))

@app.tool(description="Tells " + said)
def tell(fails: bool) -> str:
    sys.stderr.write(said + "\\n")
    if fails:
        raise ValueError(said)
    return said

@app.tool(name=os.environ["SERVER_TOKEN"])
def named() -> str:
    return said

app.run("stdio")
"""


def tools(folder: Path, port: int) -> str:
    """Return a tools file whose every tool tells what it knows."""
    (folder / "server.py").write_text(SERVER)
    (folder / "policy.toml").write_text('default = "allow"\naudit = "decisions.jsonl"\n')
    base = f"http://127.0.0.1:{port}"
    command, server = (
        [sys.executable, "-c", TELLTALE],
        [sys.executable, str(folder / "server.py")],
    )
    return f"""
policy = "policy.toml"
[http]
allow_private = ["127.0.0.1/32"]
[tools.command]
command = {json.dumps(command)}
pass_env = ["COMMAND_TOKEN"]
[tools.service.http]
url = "{base}/${{URL_KEY}}"
headers = {{ X-Key = "${{HEADER_TOKEN}}" }}
[mcp.server]
command = {json.dumps(server)}
env = {{ SERVER_TOKEN = "${{SERVER_TOKEN}}" }}
pass_env = ["PASSED_PASSWORD"]
[mcp.web]
url = "{base}/mcp/${{URL_KEY}}"
headers = {{ X-Key = "${{MCP_TOKEN}}" }}
"""


async def tell(request: Any, writer: Any) -> None:
    """Answer with everything that was sent, now as a success, now as an error."""
    said = json.dumps([request.target, request.headers, request.body.decode()]).encode()
    status = 500 if b"fail" in request.body else 200
    head = f"HTTP/1.1 {status} {request.headers.get('x-key', '')}\r\nx-said: {request.target}\r\n"
    writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(said) + said)


def test_nothing_comes_out(
    offer: Any,
    service: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
) -> None:
    """Not in an answer, an error, a file of the session, the record, a metric, or the log."""
    for name, text in CANARIES.items():
        monkeypatch.setenv(name, text)
    told = []

    async def run() -> None:
        async with service(tell) as served, offer(tools(tmp_path, served.port)) as session:
            assert {"command", "service", "server_tell"} <= set(session.tools())
            calls: list[tuple[str, dict[str, Any]]] = [
                *(("command", {"where": where}) for where in ("answer", "failure", "stderr")),
                *(("service", {"text": text}) for text in ("fine", "fail")),
                *(("server_tell", {"fails": fails}) for fails in (False, True)),
            ]
            for tool, args in calls:
                try:
                    told.append(await session.call(tool, **args))
                except CallError as error:
                    told.append(str(error))
            told.append(session.everything())
            told.append("".join(str(each) for each in runner_metrics(session.runner)))

    asyncio.run(run())
    told.append((tmp_path / "decisions.jsonl").read_text())
    assert told[0].count("********") == 1
    seen = [(n, where) for n, where in enumerate([*told, log.text]) if "canary-" in where]
    assert [] == seen
