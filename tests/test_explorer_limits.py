"""What a stranger may type, send or drip costs little, and is answered: by a result, or by an error that says why."""

import http.client
import json
import socket
import threading
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pellucid as torch
from pellucid.explorer import explore, snapshot
from pellucid.explorer.answers import Answers
from pellucid.explorer.expression import FUNCTIONS, LONGEST, ExpressionError, value_of
from pellucid.explorer.notebook import _answered
from pellucid.explorer.server import Server
from pellucid.explorer.snapshot import look
from pellucid.scalar import Value

# --- what is typed

NUMBERS = st.one_of(
    st.integers(0, 12).map(str),
    st.sampled_from(["1e300", "1e301", "1e999", "1e-320", "0.5", "1j", "True", "1_0", "0", "'a'", "None"]),
    st.sampled_from(["9" * 300, "9" * 301, "0x" + "f" * 200]),
    st.floats(0, 1e308).map(repr),
)
LEAVES = st.one_of(NUMBERS, st.sampled_from(["a", "b", "x", "tanh", "ñ"]))
OPERATORS = st.sampled_from(["+", "-", "*", "/", "**", "//", "%", "<<", ">>", "@", "<", "and", "|"])


def larger(inner):
    return st.one_of(
        st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(st.sampled_from([*FUNCTIONS, "factorial", "pow", "str"]), inner).map(lambda f: f"{f[0]}({f[1]})"),
        st.tuples(st.sampled_from(["-", "+", "~", "not "]), inner).map("".join),
        st.tuples(inner, st.integers(-101, 101)).map(lambda parts: f"({parts[0]})**{parts[1]}"),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=12)
LINES = st.lists(st.one_of(EXPRESSIONS, EXPRESSIONS.map(lambda each: f"x = {each}")), min_size=1, max_size=6)


def answer(text, values=None):
    """What the page is sent, or the error that it is told; anything else is a failure."""
    content = {"text": text} if values is None else {"text": text, "values": values}
    try:
        return json.dumps(Answers()("expression", content), allow_nan=False)
    except ValueError as error:
        return str(error) or pytest.fail("refused without a word")


@settings(deadline=2000)
@given(LINES.map("\n".join))
def test_any_lines_are_computed_or_refused(text):
    answer(text)


@settings(deadline=2000)
@given(st.text(alphabet=st.characters(codec=None), max_size=60) | st.text(alphabet="ab1.*()-+=/ \n\te", max_size=200))
def test_any_text_is_computed_or_refused(text):
    answer(text)


TOWERS = [
    "(((9**100)**100)**100)**100", "((((((9**100)*(9**100))**100)*9)**100)**100)", "9**100" + "**100" * 5,
    "x = 9**100\n" + "x = x*x\n" * 60 + "x", "x = 9\n" + "x = x**100\n" * 30 + "x",
    "x = 3\n" + "x = x + x\n" * 90, "10**400", "9" * 999, "-" * 990 + "a", "-" * 400 + "a", "(" * 400 + "a" + ")" * 400,
    "(" * 150 + "a" + ")" * 150, "tanh(" * 160 + "a" + ")" * 160, "+".join("a" * 220), "*".join(["9" * 290] * 3),
    "a" + "+a" * 499, "a-" * 200 + "a", "/".join("a" * 200), "a" + "**2" * 300, "1e308 * 10 - 1e308 * 10", "a = b = 1",
    "[" * 500, "a" * 1000, "'a' * 9999999999", "[0] * 9999999999", "1 << 99999999999", "0x" + "f" * 900,
    "lambda: " * 100 + "a", "{" * 300, "f'" + "{" * 90, "\\\n" * 400, "\ud800", "\x00", "#" * 900, "not " * 240 + "a",
    "1" + "if 1else 1" * 90, "a if a else " * 80 + "a", "a.b" + ".b" * 400, "a[" * 150 + "0" + "]" * 150,
]  # fmt: skip


@pytest.mark.parametrize("text", TOWERS, ids=range(len(TOWERS)))
def test_nothing_of_a_thousand_characters_takes_long(text):
    assert len(text) <= LONGEST or "**" not in text
    tracemalloc.start()
    began = time.process_time()
    answer(text)
    took, memory = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 5 and memory < 50e6


def test_what_is_nested_too_deeply_is_told_so():
    assert value_of("-" * 100 + "a", {"a": 2}).data == 2
    with pytest.raises(ExpressionError, match="nested more than 250 deep"):
        value_of("-" * 300 + "a")


def test_integers_are_floats_and_stay_ordinary():
    assert type(value_of("9 ** 99").data) is float and type(value_of("3 * 4").data) is float
    assert value_of("x = 9007199254740993\nx + 0").data == 9007199254740992
    with pytest.raises(ExpressionError, match=r"\(9\*\*100\)\*\*100: this is too large: numbers end at 1.8e308"):
        value_of("((9**100)**100)**100")


@pytest.mark.parametrize("power", ["~2", "+2", "(not 2)", "-x", "(2*1)", "--2", "-True", "1j"])
def test_a_power_is_a_number_and_nothing_else(power):
    with pytest.raises(ExpressionError, match=r"number"):
        value_of(f"a ** {power}")


def test_long_sums_are_computed_deep_down_in_a_program():
    def deep(levels):
        return deep(levels - 1) if levels else value_of("+".join("a" * 220), {"a": 2})

    assert deep(300).data == 440


ODD_NUMBERS = ["1" + "0" * 400, "1e400", "-1e999", "NaN", "Infinity", "-Infinity", "1" * 5000, '"1"', "true", "null",
               "[1]", "{}", "1e301"]  # fmt: skip


@pytest.mark.parametrize("number", ODD_NUMBERS, ids=range(len(ODD_NUMBERS)))
def test_a_value_that_is_no_ordinary_number_is_told_so(server, number):
    """Of a slider of the playground, of a leaf's numbers, of a factor: an error of the client's, in words."""
    for path, body in (
        ("/expression", '{"text": "a * 2", "values": {"a": %s}}'),
        ("/change", '{"graph": 0, "values": {"0": [%s, 1]}}'),
        ("/change", '{"graph": 0, "values": {"0": {"times": %s}}}'),
        ("/change", '{"graph": %s, "values": {}}'),
    ):
        status, told = asked(server, path, (body % number).encode())
        assert status == 400 and len(told["error"]) > 10, path


def test_large_numbers_give_infinities_that_json_can_carry(server):
    for values in ([1e300, -1e300], [3e38, 1e39], [0, 1e-300]):
        status, told = asked(server, "/change", json.dumps({"graph": 0, "values": {"0": values}}).encode())
        assert status == 200 and told["nodes"]
    status, _ = asked(server, "/change", b'{"graph": 0, "values": {"0": {"times": 1e300}}}')
    assert status == 200
    status, told = asked(server, "/expression", b'{"text": "exp(a) - exp(a)", "values": {"a": 1e300}}')
    assert status == 200 and "NaN" in json.dumps(told)


def test_arguments_that_are_not_finite_can_be_shown():
    """-inf in a mask or a limit is everyday's."""
    x = torch.ones(3, requires_grad=True)
    inf = float("inf")
    for f in (
        lambda x: x.masked_fill(torch.tensor([True, False, False]), -inf).softmax(0).sum(),
        lambda x: torch.nn.functional.pad(x, (1, 1), value=-inf).sum(),
        lambda x: x.clamp(min=-inf).sum(),
        lambda x: (x**inf).sum(),
    ):
        assert "doctype" in explore(f, x).html()


def test_values_that_are_larger_than_floats_are_shown_as_infinite():
    seen = snapshot(Value(10) ** 400 * 3 - 10**400, scope={})
    assert json.dumps(seen, allow_nan=False) and seen["nodes"][1]["value"]["numbers"] == ["Infinity"]


def test_a_notebook_is_answered_alike():
    for content in (
        {"text": "a", "values": {"a": 10**400}},
        {"text": "-" * 999 + "a"},
        {"text": "9" * 999},
        None,
        [],
        3,
    ):
        assert _answered(Answers(), {"id": 1, "what": "expression", "content": content})["error"]
    x = torch.ones(2, requires_grad=True)
    answers = Answers([look((x * x).sum(), scope={}).program])
    told = _answered(answers, {"id": 1, "what": "change", "content": {"graph": 0, "values": {"0": [10**400, 1]}}})
    assert "ordinary numbers" in told["error"]


# --- what is sent


@pytest.fixture
def server():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    seen = look((x * x).sum(), scope={"x": x})
    with Server([seen.data], programs=[seen.program], seconds=1.0, most=8) as running:
        yield running


@pytest.fixture(autouse=True)
def no_traceback(capfd):
    yield
    assert "Traceback" not in capfd.readouterr().err


def asked(server, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", server.http.server_port, timeout=10)
    connection.request("POST", path, body=body, headers={"X-Pellucid-Token": server.token})
    answered = connection.getresponse()
    return answered.status, json.loads(answered.read())


def connected(server):
    return socket.create_connection(("127.0.0.1", server.http.server_port), timeout=10)


def raw(server, *lines, body=b""):
    """The status and the body that some bytes are answered with."""
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    with connected(server) as client:
        client.sendall(head + body)
        return read(client)


def read(client):
    got = b""
    while block := client.recv(65536):
        got += block
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def question(server, *more, path="/expression"):
    host = f"Host: 127.0.0.1:{server.http.server_port}"
    return [f"POST {path} HTTP/1.1", host, f"X-Pellucid-Token: {server.token}", *more]


TEXT = b'{"text": "a * 2"}'


def test_lengths_that_do_not_fit(server):
    n = len(TEXT)
    assert raw(server, *question(server, f"Content-Length: {n}"), body=TEXT)[0] == 200
    assert (
        raw(server, *question(server, f"Content-Length: {n}"), body=TEXT + b"x" * 100_000)[0] == 200
    )  # read no further
    assert raw(server, *question(server, "Content-Length: 5"), body=TEXT)[0] == 400
    status, body = raw(server, *question(server, f"Content-Length: {n + 10}"), body=TEXT)
    assert status == 408 and "did not arrive in 1 seconds" in json.loads(body)["error"]
    with connected(server) as client:  # who has nothing more to say need not be waited for
        client.sendall("\r\n".join([*question(server, f"Content-Length: {n + 10}"), "", ""]).encode() + TEXT)
        client.shutdown(socket.SHUT_WR)
        status, body = read(client)
    assert status == 400 and f"ends after {n} of {n + 10} bytes" in json.loads(body)["error"]


@pytest.mark.parametrize(
    "lines", [["Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", "Content-Length: 22"], [],
              ["Content-Length: 17", "Content-Length: 18"]],
)  # fmt: skip
def test_chunks_and_lengths_that_contradict_each_other_are_refused(server, lines):
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(TEXT), TEXT)
    status, told = raw(server, *question(server, *lines), body=body)
    assert status == 411 and "Content-Length" in json.loads(told)["error"]


@pytest.mark.parametrize(
    "body", [b"\xff\xfe\x00", b'{"text": "\xff"}', b"\x00" * 50, b"[" * 200_000, b'{"a":' * 50_000, b"1" * 5000, b'"""',
             TEXT.decode().encode("utf-16"), b'{"text": "\\ud800 + 1"}', b"-", b"nul", b"{}" * 2],
)  # fmt: skip
def test_bodies_that_are_no_question_are_told_so(server, body):
    status, told = asked(server, "/expression", body)
    assert status == 200 if body[:2] == b"\xff\xfe" and len(body) > 10 else status == 400 and told["error"]


ADDRESSES = [
    "//[",
    "http://[::1",
    "/%",
    "/?token=%ff",
    "?" * 5000,
    "/" + "a" * 60_000,
    "*",
    "//",
    "/\xff",
    "/?" + "a&" * 9000,
]


@pytest.mark.parametrize("address", ADDRESSES, ids=range(len(ADDRESSES)))
def test_addresses_that_are_none(server, address):
    host = f"Host: 127.0.0.1:{server.http.server_port}"
    status, _ = raw(server, f"GET {address} HTTP/1.1", host, f"X-Pellucid-Token: {server.token}")
    assert status in (200, 400, 404)


def test_lines_without_end(server):
    for head in (
        b"GET /" + b"a" * 70_000,
        b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200,
    ):
        with connected(server) as client:
            client.sendall(head)
            status, _ = read(client)
        assert status in (414, 431)


@pytest.mark.parametrize(
    "line", [b"", b" ", b"\x00", b"\xff\xfe", b"GET", b"GET /", b"POST /", b"GET / HTTP", b"GET / HTTP/9.9",
             b"GET / HTTP/1.-1", b"GET / HTTP/0.9", b"PRI * HTTP/2.0", b"a b c d"],
)  # fmt: skip
def test_a_line_that_is_no_request_is_told_so_with_a_status_and_our_headers(server, line):
    with connected(server) as client:
        client.sendall(line + b"\r\n\r\n")
        got = client.makefile("rb").read()
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 ") and int(head.split()[1]) in (400, 403, 505)
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in head
    assert not body or json.loads(body)["error"]


def test_a_connection_that_made_room_does_not_come_back(server):
    """It would be counted again while others are: who looks for the slowest of them would be told they changed."""
    with connected(server) as client:
        client.sendall("\r\n".join([*question(server, "Content-Length: 1000"), "", ""]).encode())
        while not server.http.waiting:
            time.sleep(0.01)
        server.http.waiting.clear()
        assert read(client)[0] == 408
        assert not server.http.waiting


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_answered_or_closed(running, data, as_body):
    lines = question(running, f"Content-Length: {len(data)}") if as_body else []
    with connected(running) as client:
        client.sendall(("\r\n".join([*lines, "", ""]).encode() if lines else b"") + data)
        client.shutdown(socket.SHUT_WR)
        got = b""
        while block := client.recv(65536):
            got += block
    assert got.startswith(b"HTTP/1.0 ") if as_body else got.startswith((b"HTTP/1.0 ", b"")[: 1 + (not data)])
    assert b"Traceback" not in got


@pytest.fixture(scope="module")
def running():
    with Server([snapshot(Value(2.0, label="x") * 3, scope={})], seconds=5.0) as one:
        yield one


def test_what_fails_in_an_unforeseen_way_is_told_too(server):
    def broken(content):
        raise KeyError("unforeseen")

    server.http.answers.known["expression"] = broken
    status, told = asked(server, "/expression", TEXT)
    assert status == 500 and "KeyError" in told["error"]


# --- what drips


@pytest.mark.parametrize("part", ["line", "headers", "body"])
def test_a_client_that_drips_has_a_limit_for_the_whole_request(server, part):
    start = {"line": b"", "headers": b"GET / HTTP/1.1\r\nX: ", "body": None}[part]
    if start is None:
        start = "\r\n".join([*question(server, "Content-Length: 1000"), "", ""]).encode()
    began = time.monotonic()
    with connected(server) as client:
        client.sendall(start)
        client.settimeout(0.1)
        answered = b""
        while not answered and time.monotonic() - began < 8:
            try:
                client.sendall(b"a")
                answered = client.recv(100)
            except TimeoutError:
                continue
            except ConnectionError:
                break
    assert answered.split()[1] == b"408"
    assert 0.9 < time.monotonic() - began < 5


def test_a_client_that_does_not_read_its_answer_has_a_limit_too(server):
    server.http.html = b"x" * 50_000_000
    with connected(server) as client:
        client.sendall("\r\n".join(["GET / HTTP/1.1", *question(server)[1:], "", ""]).encode())
        time.sleep(0.2)
        began = time.monotonic()
        while server.http.waiting and time.monotonic() - began < 10:
            time.sleep(0.05)
    assert time.monotonic() - began < 6 and not server.http.waiting


def test_slow_clients_hold_few_threads_and_keep_nobody_out(server):
    before = threading.active_count()
    clients = [connected(server) for _ in range(60)]
    try:
        for client in clients:
            client.sendall(b"GET / HT")
        for _ in range(5):
            began = time.monotonic()
            assert asked(server, "/expression", TEXT)[0] == 200
            assert time.monotonic() - began < 0.9  # sooner than the slow ones run out of time
            assert threading.active_count() - before <= server.http.most + 2
    finally:
        for client in clients:
            client.close()


def test_where_all_are_at_work_the_next_one_is_told(server):
    """Nobody who is being answered makes room."""
    go_on = threading.Event()
    server.http.answers.known["expression"] = lambda content: go_on.wait(10) and {}
    found = []
    threads = [threading.Thread(target=lambda: found.append(asked(server, "/expression", TEXT)[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    while sum(not each for each in server.http.waiting.values()) < 8:
        time.sleep(0.01)
    with connected(server) as client:
        assert read(client)[0] == 503
    go_on.set()
    for thread in threads:
        thread.join()
    assert found == [200] * 8
