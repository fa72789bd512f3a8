"""Where a request ends: what two servers could read differently is rejected, with one response, and what follows it is not read as a request.
The statuses are those of RFC 9112 (the section stands beside each case); where it leaves a choice, the stricter one."""
import contextlib
import json
import socket
import time

import pytest
from conftest import PATIENCE
from servers import Server, raw

HOST = b"Host: localhost\r\n"
NEXT = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
POST = b"POST /tokenize HTTP/1.1\r\n" + HOST
BODY = b'{"content": "hi"}'


@pytest.fixture(scope="module")
def server(build, model):
    with contextlib.closing(Server(build, "-c", 64).ready()) as s:
        yield s


def responses(received):
    """Split what was received into responses, each of whose length is known."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        n = int(fields.get(b"Content-Length", 0))
        found.append((int(head.split()[1]), rest[:n]))
        received = rest[n:]
    return found


REJECTED = {
    # 5.2: a folded line
    "folded Content-Length": (POST + b"Content-Le:\r\n ngth: 17\r\n\r\n" + BODY, 400),
    "folded value of Content-Length": (POST + b"Content-Length:\r\n 17\r\n\r\n" + BODY, 400),
    "folded Transfer-Encoding": (POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + NEXT, 400),
    "folded with a tab": (POST + b"X: a\r\n\tb\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    "blank before the first header": (b"POST /tokenize HTTP/1.1\r\n Content-Length: 17\r\n" + HOST + b"\r\n" + BODY, 400),
    # 2.2: blank lines and line ends
    "line of blanks before the request": (b"  \r\n" + NEXT, 400),
    "LF before the request": (b"\n" + NEXT, 400),
    "CR before the request": (b"\r" + NEXT, 400),
    "lines that end in LF": (NEXT.replace(b"\r\n", b"\n"), 400),
    "one line that ends in LF": (POST + b"X: y\nContent-Length: 17\r\n\r\n" + BODY, 400),
    "CR in a value": (POST + b"X: a\rContent-Length: 17\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    "CR at the end of a value": (POST + b"X: a\r\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    # RFC 9110, 5.5: control characters
    "NUL in a name": (POST + b"Content\0-Length: 17\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    "NUL in a value": (POST + b"Content-Length: 17\0\r\n\r\n" + BODY, 400),
    "NUL in the target": (b"GET /health\0/x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "DEL in a value": (POST + b"X: \x7f\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    # 5.1: names
    "blank before the colon": (POST + b"Content-Length : 17\r\n\r\n" + BODY, 400),
    "no colon": (POST + b"Content-Length\r\n\r\n" + BODY, 400),
    "no name": (POST + b": 17\r\n\r\n" + BODY, 400),
    # 3: the first line
    "no version": (b"GET /health\r\n" + HOST + b"\r\n", 400),
    "two blanks": (b"GET  /health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "blank in the target": (b"GET /hea lth HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "tab for a blank": (b"GET\t/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "version 2": (b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "lower case": (b"GET /health http/1.1\r\n" + HOST + b"\r\n", 400),
    "long target": (b"GET /" + b"a" * 40000, 414),
    "many headers": (POST + b"X: y\r\n" * 200 + b"\r\n", 431),
    # 6.2, 6.3: the length
    **{f"Content-Length {text}": (POST + f"Content-Length: {text}\r\n\r\n".encode() + BODY, status) for text, status in (
        ("-17", 400), ("+17", 400), ("0x11", 400), ("17, 17", 400), ("17 17", 400), ("1.7", 400), ("", 400), ("17a", 400), ("9" * 15, 413), ("9" * 40, 413))},
    "two equal lengths": (POST + b"Content-Length: 17\r\nContent-Length: 17\r\n\r\n" + BODY, 400),
    "length and chunks": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT, 400),
    "two codings": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "unknown coding": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + NEXT, 501),
    # 7.1: chunks
    **{f"chunk size {text!r}": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + text + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400)
       for text in (b"", b"0x11", b"+11", b"-1", b" 11", b"11 ", b"g", b"11\n", b"1" * 16, b"11;\0", b";x")},
    "chunk longer than its size": (POST + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "chunk that ends in LF": (POST + b"Transfer-Encoding: chunked\r\n\r\n11\r\n" + BODY + b"\n0\r\n\r\n", 400),
    "long extension": (POST + b"Transfer-Encoding: chunked\r\n\r\n11;" + b"x" * 9000, 400),
    "long trailer": (POST + b"Transfer-Encoding: chunked\r\n\r\n11\r\n" + BODY + b"\r\n0\r\n" + b"X: y\r\n" * 2000, 400),
}


@pytest.mark.parametrize("text, status", REJECTED.values(), ids=REJECTED)
def test_what_could_be_read_in_two_ways_is_rejected_once(server, text, status):
    found = responses(raw(server, text + NEXT, PATIENCE))
    assert [s for s, _ in found] == [status], found
    assert json.loads(found[0][1])["error"]["message"]


ACCEPTED = {
    "empty line before the request": b"\r\n" + NEXT,
    "blanks around a value": b"GET /health HTTP/1.1\r\nHost:\t localhost \t\r\nConnection: close\r\n\r\n",
    "bytes beyond ASCII in a value": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: \xe9\xff\r\nConnection: close\r\n\r\n",
    "empty value": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX:\r\nConnection: close\r\n\r\n",
    "names in any case": b"GET /health HTTP/1.1\r\nhOST: localhost\r\ncONNECTION: CLOSE\r\n\r\n",
    "a later minor version": b"GET /health HTTP/1.2\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "HTTP/1.0 without a host": b"GET /health HTTP/1.0\r\n\r\n",
    "HTTP/1.0 that stays": b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + NEXT,
    "length with zeros": POST + b"Connection: close\r\nContent-Length: 00000000000000000000000000017\r\n\r\n" + BODY,
    "chunks with extensions and trailers": POST + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\n" + BODY[:5] + b"\r\n0C\r\n" + BODY[5:] + b"\r\n0;c\r\nX: y\r\n\r\n" + NEXT,
    "three requests at once": POST + b"Content-Length: 17\r\n\r\n" + BODY + POST + b"Transfer-Encoding: chunked\r\n\r\n11\r\n" + BODY + b"\r\n0\r\n\r\n" + NEXT,
}
COUNTS = {"HTTP/1.0 that stays": 2, "chunks with extensions and trailers": 2, "three requests at once": 3}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("pieces", [False, True], ids=["whole", "bytes"])
def test_valid_requests_are_answered_however_they_arrive(server, name, pieces):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in ([ACCEPTED[name][i:i + 1] for i in range(len(ACCEPTED[name]))] if pieces else [ACCEPTED[name]]):
                s.sendall(piece)
        received = b"".join(iter(lambda: s.recv(65536), b""))
    assert [status for status, _ in responses(received)] == [200] * COUNTS.get(name, 1), received


def test_a_body_is_sent_after_the_server_has_agreed(server):
    """RFC 9110, 10.1.1: the client waits for 100; a body that is too large is rejected before it is sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
        s.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 17\r\nConnection: close\r\n\r\n")
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(BODY)
        assert b"".join(iter(lambda: s.recv(65536), b"")).startswith(b"HTTP/1.1 200 OK\r\n")
    assert raw(server, POST + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", PATIENCE).startswith(b"HTTP/1.1 413 ")


def test_a_head_request_has_the_head_alone(server):
    got, head = raw(server, NEXT, PATIENCE), raw(server, NEXT.replace(b"GET", b"HEAD"), PATIENCE)

    def fields(text):
        return [line for line in text.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.startswith((b"Date", b"x-request-id"))]
    assert fields(got) == fields(head) and head.endswith(b"\r\n\r\n") and got.split(b"\r\n\r\n")[1]


def test_a_stream_to_an_old_client_ends_with_the_connection(server):
    body = b'{"prompt": "a", "max_tokens": 2, "stream": true}'
    got = raw(server, b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body, PATIENCE)
    head, _, text = got.partition(b"\r\n\r\n")
    assert b"Connection: close" in head and b"Transfer-Encoding" not in head and text.startswith(b"data: {") and text.endswith(b"data: [DONE]\n\n")


def test_an_answer_survives_a_body_that_nobody_reads(server):
    """The client sends 40 MB and then reads: a connection that was reset would have lost the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
        s.sendall(POST + b"Content-Length: 40000000\r\n\r\n")
        sent, until = 0, time.time() + 1
        with contextlib.suppress(OSError):
            while sent < 40000000 and time.time() < until:
                sent += s.send(b"x" * 65536)
        assert s.recv(65536).startswith(b"HTTP/1.1 413 ")
