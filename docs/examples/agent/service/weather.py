"""A service that wants a token: the weather in a town, made up."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def token() -> str:
    """Return the token that callers need."""
    file = os.environ.get("WEATHER_TOKEN_FILE")
    return Path(file).read_text(encoding="utf-8").strip() if file else os.environ["WEATHER_TOKEN"]


class Handler(BaseHTTPRequestHandler):
    """Answers ``GET /now?town=NAME``."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer one request."""
        parts = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {token()}":
            self.reply(401, {"error": "who are you?"})
        elif parts.path != "/now":
            self.reply(404, {"error": "there is only /now"})
        else:
            town = parse_qs(parts.query).get("town", ["nowhere"])[0]
            self.reply(200, {"town": town, "sky": "clear", "celsius": 7})

    def reply(self, status: int, body: dict[str, object]) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    server = ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
