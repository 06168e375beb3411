"""The explorer's server answers its own page and nobody else; what is typed is read, never run. trust.md T52."""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time

import pytest

from pellucid.explorer import snapshot
from pellucid.explorer.expression import ExpressionError, value_of
from pellucid.explorer.server import BODY_LIMIT, Server
from pellucid.scalar import Value


@pytest.fixture(scope="module")
def server():
    with Server([snapshot(Value(2.0, label="x") * 3, scope={})]) as running:
        yield running


def ask(server, method="GET", path="/", token=True, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http.server_port, timeout=10)
    sent = {"Host": f"127.0.0.1:{server.http.server_port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if token:
        sent["X-Pellucid-Token"] = server.token if token is True else token
    connection.request(method, path, body=body, headers={k: v for k, v in sent.items() if v is not None})
    answer = connection.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO")


def test_the_page_is_served_with_the_token_in_its_address(server):
    status, body, headers = ask(server, path=f"/?token={server.token}", token=False)
    assert status == 200
    assert b"<!doctype html>" in body
    assert headers["X-Frame-Options"] == "DENY"
    assert not [name for name in headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("token", [False, "wrong", "x" * 5000])
def test_without_the_token_nothing_is_answered(server, method, token):
    status, body, _ = ask(server, method, token=token)
    assert status == 401
    assert body == b""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_origin_is_refused_whatever_the_method(server, method, origin):
    assert ask(server, method, Origin=origin)[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:80", ""])
def test_another_host_is_refused(server, host):
    assert ask(server, Host=host)[0] == 403


def test_a_cross_site_request_is_refused(server):
    assert ask(server, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(server, Sec_Fetch_Site="same-origin")[0] == 200


PATHS = [
    "/..", "/../etc/passwd", "/..%2f..%2fetc/passwd", "/%00", "/static/app.js", "/index.html", "/expression/",
    "/%2e%2e/", "/.git/config", "/\\..\\..", "/expression%00", "/favicon.ico", "/?token=x&path=/etc/passwd#",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_there_is_nothing_else_to_ask_for(server, path):
    status, body, _ = ask(server, path=path)
    assert (status, body) == (404, b"") or path.startswith("/?")


def test_only_the_two_methods_are_allowed(server):
    for method in METHODS[2:]:
        assert ask(server, method)[0] == 405
    assert ask(server, "GET", "/expression")[0] == 405


def test_an_expression_is_computed(server):
    body = json.dumps({"text": "(a + b) * b", "values": {"a": 2, "b": 3}})
    status, answer, _ = ask(server, "POST", "/expression", body=body)
    assert status == 200
    grads = {node["name"]: node["grad"]["numbers"] for node in json.loads(answer)["nodes"] if node.get("name")}
    assert grads["a"] == [3]
    assert grads["b"] == [8]


BAD_BODIES = [
    b"", b"{", b"[]", b"null", b'{"text": 3}', b'{"text": "a", "values": [1]}', b'{"text": "a", "values": {"a": "x"}}',
    b'{"text": "__import__(\'os\').system(\'true\')"}', b'{"text": "a.b"}', b"\xff\xfe", b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_bad_questions_are_answered_with_an_error(server, body):
    status, answer, _ = ask(server, "POST", "/expression", body=body)
    assert status == 400
    assert json.loads(answer)["error"]


def test_a_large_body_is_refused_before_it_is_read(server):
    status, _, _ = ask(server, "POST", "/expression", body=b"", Content_Length=str(BODY_LIMIT + 1))
    assert status == 413


def test_slow_clients_do_not_block(server):
    sockets = [socket.create_connection(("127.0.0.1", server.http.server_port)) for _ in range(100)]
    try:
        for each in sockets:
            each.sendall(b"GET / HT")
        began = time.monotonic()
        assert ask(server)[0] == 200
        assert time.monotonic() - began < 5
    finally:
        for each in sockets:
            each.close()


def test_it_listens_on_the_loopback_only(server):
    assert server.http.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 22  # more than 128 bits


def test_many_ask_at_once(server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server)[0])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20


# --- what is typed


def test_lines_and_functions():
    y = value_of("h = tanh(a * b)\ny = h ** 2 + exp(-a) / 2", {"a": 0.5, "b": 2.0})
    y.backward()
    assert y.label == "y"
    assert {node.label for node in y.graph()} >= {"a", "b", "h", "y"}
    assert value_of("x").data == 1.0
    assert value_of("a = 3\na * a").data == 9.0
    assert value_of("a = 3\na * a", {"a": 4}).data == 16.0


REFUSED = [
    "", "import os", "a.b", "a[0]", "f(a)", "(lambda: 1)()", "a if b else c", "'text'", "a ** b", "2 ** 1e9",
    "a; import x",
    "__import__('os')", "exec('1')", "[a for a in b]", "a := 3", "a < b", "True", "1j", "log(0)", "1 / 0", "a = b = 2",
    "a += 1", "x" * 2000, "+".join("a" * 400), "(" * 300 + "a" + ")" * 300, "tanh", "tanh(a, b)", "tanh(x=1)", "1e400",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_everything_else_is_refused_with_a_reason(text):
    with pytest.raises(ExpressionError):
        value_of(text)


def test_the_command_writes_one_file(tmp_path):
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "pellucid", "explore", "(a + b) * b", "a=2", "b=3", "--save", str(out)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert "<!doctype html>" in out.read_text()
    bad = subprocess.run(
        [*command[:4], "a.b", "--save", str(out)], capture_output=True, text=True, timeout=60, check=False
    )
    assert bad.returncode == 2
    assert "a.b" in bad.stdout


def test_the_command_shows_a_scripts_backward(tmp_path):
    script, out = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\nfor _ in range(3):\n    (x * x).sum().backward()\n"
    )
    command = [sys.executable, "-m", "pellucid", "explore", str(script), "--number", "2", "--save", str(out)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert "train.py, backward 2" in out.read_text()
