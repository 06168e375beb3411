"""The explorer's local server: one page and its questions (answers.py), for the person at this machine alone.

It listens on 127.0.0.1 only. Being local is no access control (any web page may send requests there), so every
request, whatever its method, needs the token, must name this server as its host, and must not come from another
origin. Whoever has the token can have the answer to a quiz run as a program: it is as good as a terminal.
"""

import hmac
import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pellucid.explorer.answers import Answers
from pellucid.explorer.page import page
from pellucid.explorer.program import Program
from pellucid.explorer.quiz import Quiz

__all__ = ["Server"]

BODY_LIMIT = 10_000_000
SMALL = 65_536  # bytes of a refused request that are still read
SECONDS = 10  # for a client to send its request: a slow one holds a thread, never the server
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Server:
    """Serves a page of snapshots until it is closed.

    >>> from pellucid.explorer import snapshot
    >>> from pellucid.scalar import Value
    >>> with Server([snapshot(Value(2.0, label="x") * 3)]) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self, snapshots: Sequence[Mapping[str, Any]], title: str = "Pellucid", port: int = 0,
        programs: Sequence[Program | None] = (), quiz: Quiz | None = None,
    ) -> None:  # fmt: skip
        self.token = secrets.token_urlsafe(24)
        self.http = _Http(("127.0.0.1", port), _Handler)
        self.http.daemon_threads = True
        self.http.hosts = frozenset(f"{name}:{self.http.server_port}" for name in ("127.0.0.1", "localhost"))
        self.http.token = self.token
        self.http.answers = Answers(programs, quiz)
        told = [
            {**each, "repeats": number < len(programs) and programs[number] is not None}
            for number, each in enumerate(snapshots)
        ]
        asked = None if quiz is None else quiz.as_json()
        self.http.html = page(told, title, asks="server", quiz=asked).encode()

    @property
    def url(self) -> str:
        """Where the page is, token and all."""
        return f"http://127.0.0.1:{self.http.server_port}/?token={self.token}"

    def start(self) -> "Server":
        """Serve in the background."""
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def close(self) -> None:
        """Stop serving and give the port back."""
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    """What the handler needs to know of its server."""

    request_queue_size = 128
    token: str
    hosts: frozenset[str]
    html: bytes
    answers: Answers


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; everything is refused that is not asked for in the right way."""

    server: _Http
    timeout = SECONDS
    server_version, sys_version = "pellucid", ""
    unread = 0  # bytes of the request's body that nobody has looked at

    def handle_one_request(self) -> None:
        """One request: checked before any method of ours is chosen, so that none can be forgotten."""
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.close_connection = True
            self.unread = self._length() or 0
            refused = self._refusal()
            if refused is not None:
                self._answer(refused, b"", "text/plain")
            else:
                self._serve()
            if self.unread <= SMALL:  # to close with unread bytes would reset the connection, and lose the answer
                self.rfile.read(self.unread)
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def _refusal(self) -> HTTPStatus | None:
        """Why a request is not answered: the wrong host (DNS rebinding), another origin, no token."""
        if self.headers.get("Host", "") not in self.server.hosts:
            return HTTPStatus.FORBIDDEN
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.server.hosts}:
            return HTTPStatus.FORBIDDEN
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN
        asked = parse_qs(urlsplit(self.path).query).get("token", [""])[0]
        given = self.headers.get("X-Pellucid-Token") or asked
        right = hmac.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
        return None if right else HTTPStatus.UNAUTHORIZED

    def _serve(self) -> None:
        path = urlsplit(self.path).path
        if path != "/" and path[1:] not in self.server.answers.known:
            self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")
        elif self.command == "GET" and path == "/":
            self._answer(HTTPStatus.OK, self.server.html, "text/html; charset=utf-8")
        elif self.command == "POST" and path != "/":
            self._question(path[1:])
        else:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"", "text/plain")

    def _question(self, what: str) -> None:
        """Answer a question of the page."""
        length = self._length()
        if length is None:
            return self._answer(HTTPStatus.LENGTH_REQUIRED, b"", "text/plain")
        if length > BODY_LIMIT:
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"", "text/plain")
        self.unread = 0
        try:
            told = self.server.answers(what, json.loads(self.rfile.read(length)))
        except (ValueError, TypeError, RecursionError) as error:
            return self._json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        return self._json(HTTPStatus.OK, told)

    def _length(self) -> int | None:
        """How long the body is said to be; a number too long to be read is as good as the largest."""
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit():
            return None
        return int(text) if len(text) <= 9 else 10**9

    def _json(self, status: HTTPStatus, content: Any) -> None:
        self._answer(status, json.dumps(content, allow_nan=False).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token."""
