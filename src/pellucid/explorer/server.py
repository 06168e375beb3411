"""The explorer's local server: one page and its questions (answers.py), for the person at this machine alone.

It listens on 127.0.0.1 only. Being local is no access control (any web page may send requests there), so every
request, whatever its method, needs the token, must name this server as its host, and must not come from another
origin. Whoever has the token can have the answer to a quiz run as a program: it is as good as a terminal.

Whatever is sent is answered, in the end by an error that says why, and within a time: a request must arrive whole in a
few seconds, however it drips, and of too many connections the one that has been sending longest makes room.
"""

import hmac
import io
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
SECONDS = 10.0  # for a client to send its request, all of it
MOST = 64  # connections at a time
LINGER = 1.0  # seconds in which what still comes is read, and thrown away
LONGEST_LINE = 65_536
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
        programs: Sequence[Program | None] = (), quiz: Quiz | None = None, seconds: float = SECONDS, most: int = MOST,
    ) -> None:  # fmt: skip
        self.token = secrets.token_urlsafe(24)
        self.http = _Http(("127.0.0.1", port), _Handler)
        self.http.daemon_threads = True
        self.http.hosts = frozenset(f"{name}:{self.http.server_port}" for name in ("127.0.0.1", "localhost"))
        self.http.token, self.http.seconds, self.http.most = self.token, seconds, most
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
    """Threads for a few connections at a time, and what the handler needs to know of its server."""

    request_queue_size = 128
    token: str
    hosts: frozenset[str]
    html: bytes
    answers: Answers
    seconds: float
    most: int

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()
        self.waiting: dict[Any, bool] = {}  # connections, oldest first, and whether it is the client who is waited for

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread; if there are too many, it takes the place of the slowest client."""
        with self.lock:
            if len(self.waiting) >= self.most:
                slowest = next((each for each, is_waited_for in self.waiting.items() if is_waited_for), None)
                if slowest is not None:
                    del self.waiting[slowest]
                    with suppress(OSError):
                        slowest.shutdown(socket.SHUT_RDWR)  # its thread finds the end of the request
            full = len(self.waiting) >= self.most
            self.waiting[request] = True
        if full:
            with suppress(OSError):
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            return self.shutdown_request(request)
        return super().process_request(request, client_address)

    def wait_for(self, request: Any, is_client: bool) -> None:
        """Note who is waited for; a connection that had to make room stays gone."""
        with self.lock:
            if request in self.waiting:
                self.waiting[request] = is_client

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self.waiting.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that is gone is nobody's error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Until(io.RawIOBase):
    """Reads from a connection until a moment, whenever the bytes come: a limit for each of them would be none."""

    def __init__(self, connection: Any, end: float) -> None:
        self.connection, self.end = connection, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)  # type: ignore[no-any-return]


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; everything is refused that is not asked for in the right way."""

    server: _Http
    server_version, sys_version = "pellucid", ""
    command, requestline, request_version = "", "", "HTTP/1.1"  # until the request is known
    answered = False

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Until(self.connection, time.monotonic() + self.server.seconds))

    def handle_one_request(self) -> None:
        """One request: checked before any method of ours is chosen, so that none can be forgotten."""
        self.close_connection = True
        with suppress(OSError):  # the client is gone
            try:
                self._one_request()
            except TimeoutError:
                self._trouble(
                    HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive in {self.server.seconds:g} seconds"
                )
            except OSError:
                raise
            except Exception as error:
                text = f"this could not be answered: {type(error).__name__}: {error}"
                self._trouble(HTTPStatus.INTERNAL_SERVER_ERROR, text)
            self._linger()

    def _one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
        if len(self.raw_requestline) > LONGEST_LINE:
            return self._answer(HTTPStatus.REQUEST_URI_TOO_LONG, b"", "text/plain")
        if not self.raw_requestline:
            return None
        if not self.parse_request():
            return self._trouble(HTTPStatus.BAD_REQUEST, "this is no request")
        self.close_connection = True
        try:
            refused = self._refusal()
        except ValueError:  # no address
            refused = HTTPStatus.BAD_REQUEST
        if refused is not None:
            return self._answer(refused, b"", "text/plain")
        return self._serve()

    def _linger(self) -> None:
        """To close with unread bytes would reset the connection, and lose the answer."""
        self.server.wait_for(self.connection, is_client=True)
        self.connection.shutdown(socket.SHUT_WR)
        unread = _Until(self.connection, time.monotonic() + LINGER)
        with suppress(TimeoutError):
            while unread.readinto(bytearray(LONGEST_LINE)):
                pass

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
            return self._trouble(
                HTTPStatus.LENGTH_REQUIRED, "the Content-Length must be said, once; no chunks are read"
            )
        if length > BODY_LIMIT:
            return self._trouble(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {BODY_LIMIT:,} bytes are read")
        body = self.rfile.read(length)
        if len(body) < length:
            return self._trouble(HTTPStatus.BAD_REQUEST, f"the body ends after {len(body)} of {length} bytes")
        self.server.wait_for(self.connection, is_client=False)
        try:
            told = json.dumps(self.server.answers(what, json.loads(body)), allow_nan=False)
        except (ValueError, TypeError) as error:
            return self._trouble(HTTPStatus.BAD_REQUEST, str(error))
        except RecursionError:
            return self._trouble(HTTPStatus.BAD_REQUEST, "this is nested too deeply")
        return self._answer(HTTPStatus.OK, told.encode(), "application/json")

    def _length(self) -> int | None:
        """How long the body is said to be; a number too long to be read is as good as the largest."""
        said = self.headers.get_all("Content-Length", [])
        if len(set(said)) != 1 or "Transfer-Encoding" in self.headers:
            return None
        text = said[0]
        if not text.isascii() or not text.isdigit():
            return None
        return int(text) if len(text) <= 9 else 10**9

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class cannot read is refused as everything else is."""
        self._trouble(HTTPStatus(code), message or "this is no request")

    def _trouble(self, status: HTTPStatus, why: str) -> None:
        if not self.answered:
            self._answer(status, json.dumps({"error": why}).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.answered = True
        self.request_version = "HTTP/1.0"  # whatever was asked in: an answer of 0.9 would have no status
        self.connection.settimeout(self.server.seconds)  # to take the answer, all of it
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token."""
