"""The explorer's server answers its own page and nobody else; what is typed is read, never run. trust.md T52."""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time

import pytest

import pellucid as torch
from pellucid.explorer import snapshot
from pellucid.explorer.expression import ExpressionError, value_of
from pellucid.explorer.quiz import Quiz
from pellucid.explorer.server import BODY_LIMIT, Server
from pellucid.explorer.snapshot import look
from pellucid.scalar import Value


class Verdict:
    right, remarks, printed = False, ("off",), ""


class Question:
    """What a question of the lab looks like from here."""

    id, topic, kind, question, explain = "q-01-01", "scalar", "numeric", {"en": "?", "es": "¿?"}, {"en": "e", "es": "e"}
    predict = starter = None
    choices, parts, tolerance = (), (), 1e-3

    def answer(self, language):
        return "42"


def grade(question, answer, language):
    if answer == "unreadable":
        raise ValueError("this cannot be read as an answer")
    return Verdict()


KEPT = []


@pytest.fixture(scope="module")
def server():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    array = look((x * x).sum(), scope={"x": x})
    number = look(Value(2.0, label="x") * 3, scope={})
    quiz = Quiz([Question()], grade, lambda question, language: KEPT.append((question.id, language)))
    programs = [number.program, array.program]
    with Server([number.data, array.data], programs=programs, quiz=quiz) as running:
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


@pytest.mark.parametrize("path", ["/", "/expression", "/change", "/answer", "/card", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_no_path_is_open(server, method, path):
    assert ask(server, method, path, token=False)[0] == 401
    assert ask(server, method, path, Origin="http://evil.example")[0] == 403
    assert ask(server, method, path, Host="evil.example")[0] == 403
    almost = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
    assert ask(server, method, path, token=almost)[0] == 401


def test_a_websocket_is_not_opened(server):
    upgrade = {"Upgrade": "websocket", "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec_WebSocket_Version": "13"}
    assert ask(server, token=False, **upgrade)[0] == 401
    assert ask(server, Origin="http://evil.example", **upgrade)[0] == 403
    assert ask(server, **upgrade)[0] == 200  # a plain page, no 101


def test_no_answer_allows_another_origin(server):
    for method, path in [("GET", "/"), ("OPTIONS", "/"), ("POST", "/expression"), ("GET", "/nothing")]:
        _, _, headers = ask(server, method, path, body=b"{}")
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"


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
    for method in METHODS[1:]:
        assert ask(server, method)[0] == 405
    for path in ("/expression", "/change", "/answer", "/card"):
        assert ask(server, "GET", path)[0] == 405


def test_an_expression_is_computed(server):
    body = json.dumps({"text": "(a + b) * b", "values": {"a": 2, "b": 3}})
    status, answer, _ = ask(server, "POST", "/expression", body=body)
    assert status == 200
    grads = {node["name"]: node["grad"]["numbers"] for node in json.loads(answer)["nodes"] if node.get("name")}
    assert grads["a"] == [3]
    assert grads["b"] == [8]


def test_changed_numbers_are_computed(server):
    body = json.dumps({"graph": 1, "values": {"0": [3.0, 4.0]}})
    status, answer, _ = ask(server, "POST", "/change", body=body)
    assert status == 200
    told = json.loads(answer)
    assert told["nodes"][0]["grad"]["numbers"] == [6, 8]
    assert told["nodes"][-1]["value"]["numbers"] == [25]
    scaled = ask(server, "POST", "/change", body=json.dumps({"graph": 1, "values": {"0": {"times": -2}}}))
    assert json.loads(scaled[1])["nodes"][0]["value"]["numbers"] == [-2, -4]


BAD_CHANGES = [
    {}, {"graph": 1}, {"graph": "1", "values": {}}, {"graph": 2, "values": {}}, {"graph": -1, "values": {}},
    {"graph": True, "values": {}}, {"graph": 0, "values": {}}, {"graph": 1, "values": []},
    {"graph": 1, "values": {"0": [1]}}, {"graph": 1, "values": {"0": [1, 2, 3]}}, {"graph": 1, "values": {"0": "12"}},
    {"graph": 1, "values": {"0": [1, None]}}, {"graph": 1, "values": {"0": [1, True]}},
    {"graph": 1, "values": {"0": [1, 1e301]}}, {"graph": 1, "values": {"0": {"times": None}}},
    {"graph": 1, "values": {"0": {}}}, {"graph": 1, "values": {"1": [1, 2]}}, {"graph": 1, "values": {"99": [1, 2]}},
    {"graph": 1, "values": {"__class__": [1, 2]}}, {"graph": 1, "values": {"²": [1, 2]}},
]  # fmt: skip


@pytest.mark.parametrize("content", BAD_CHANGES, ids=range(len(BAD_CHANGES)))
def test_bad_changes_are_answered_with_an_error(server, content):
    status, answer, _ = ask(server, "POST", "/change", body=json.dumps(content))
    assert status == 400
    assert json.loads(answer)["error"]


def test_an_answer_is_judged_by_whom_the_quiz_names(server):
    body = {"id": "q-01-01", "answer": "41", "language": "es"}
    status, answer, _ = ask(server, "POST", "/answer", body=json.dumps(body))
    assert status == 200
    assert json.loads(answer) == {"right": False, "remarks": ["off"], "printed": "", "answer": "42", "explain": "e"}
    again = ask(server, "POST", "/answer", body=json.dumps({**body, "answer": "unreadable"}))
    assert json.loads(again[1]) == {"again": "this cannot be read as an answer"}
    assert ask(server, "POST", "/card", body=json.dumps(body))[0] == 200
    assert KEPT == [("q-01-01", "es")]


@pytest.mark.parametrize("path", ["/answer", "/card"])
@pytest.mark.parametrize(
    "content", [{}, [], {"id": "q-99-01"}, {"id": ["q-01-01"]}, {"id": "q-01-01", "language": "xx", "answer": "1"}]
)
def test_bad_answers_are_answered_with_an_error(server, path, content):
    status, answer, _ = ask(server, "POST", path, body=json.dumps(content))
    assert status == 400
    assert json.loads(answer)["error"]


def test_without_a_quiz_there_is_nothing_to_answer():
    with Server([snapshot(Value(2.0, label="x") * 3, scope={})]) as plain:
        assert ask(plain, "POST", "/answer", body=b"{}")[0] == 404
        assert ask(plain, "POST", "/card", body=b"{}")[0] == 404


@pytest.mark.parametrize("length", ["", "x", "-1", "1e3", "٣", "9" * 30, str(BODY_LIMIT + 1)])
def test_a_length_that_is_none(server, length):
    """By hand: http.client would not send these."""
    lines = [
        "POST /expression HTTP/1.1", f"Host: 127.0.0.1:{server.http.server_port}",
        f"X-Pellucid-Token: {server.token}", f"Content-Length: {length}", "", "",
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", server.http.server_port), timeout=5) as each:
        each.sendall("\r\n".join(lines).encode())
        assert each.recv(100).split()[1] in (b"411", b"413")


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


def test_a_number_that_is_typed_is_no_box():
    for text, formulas in {
        "3 * (a - 2)": ["a - 2", "(a - 2) * 3"], "(1 - a) / (2 * b)": ["1 - a", "b * 2", "(1 - a) / (b * 2)"],
        "-a + 2": ["-a", "(-a) + 2"],
    }.items():  # fmt: skip
        nodes = look(value_of(text), scope={}).data["nodes"]
        assert [node["formula"] for node in nodes if "formula" in node] == formulas
        assert {node["called"] for node in nodes if "formula" not in node} <= {"a", "b"}


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
    assert "a.b" in bad.stderr
    for typed in ("a\x1b[31m", "\x1b]0;title\x07.py"):
        hostile = subprocess.run([*command[:4], typed], capture_output=True, text=True, timeout=60, check=False)
        assert hostile.returncode == 2 and hostile.stdout.strip().replace("\n", "").isprintable()


def test_the_command_shows_a_scripts_backward(tmp_path):
    script, out = tmp_path / "train.py", tmp_path / "page.html"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\nfor _ in range(3):\n    (x * x).sum().backward()\n"
    )
    command = [sys.executable, "-m", "pellucid", "explore", str(script), "--number", "2", "--save", str(out)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert "train.py, backward 2" in out.read_text()
