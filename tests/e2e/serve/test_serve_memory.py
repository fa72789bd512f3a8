"""The memory of all requests together is limited: counted in bytes, for every kind of request, and released."""
import json
import socket
import time

import pytest
from conftest import PATIENCE
from prometheus_client.parser import text_string_to_metric_families
from test_serve import Server, raw

LIMIT = 24_000_000


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "--metrics", "--max-request-memory", "24M", "--temp", 0).ready()
    yield s
    assert s.close() == 0


def memory(server, name="lamina_request_memory_bytes"):
    families = text_string_to_metric_families(server.get("/metrics")[1].decode())
    return next(s.value for f in families for s in f.samples if s.name == name)


def all_given_back(server):
    """Wait until only the request for the metrics holds memory; return whether that is reached."""
    until = time.time() + PATIENCE
    while memory(server) > 65536 and time.time() < until:
        time.sleep(0.01)
    return memory(server) <= 65536


def test_a_request_that_exceeds_the_limit_by_itself(server):
    """A body that needs many times its size: a JSON value takes some forty bytes. A text of megabytes is accepted."""
    junk = '{"prompt": "a", "max_tokens": 1, "metadata": {"x": [%s]}}' % ",".join("1" * 2_000_000)
    status, answer, _ = server.post("/v1/completions", junk)
    assert status == 413 and answer["error"]["code"] == "request_too_large" and str(LIMIT) in answer["error"]["message"]
    held = int(answer["error"]["message"].split("would hold ")[1].split()[0])
    assert held > LIMIT
    assert server.post("/tokenize", {"content": "a " * 1_000_000})[0] == 200
    assert all_given_back(server) and memory(server, "lamina_request_memory_limit_bytes") == LIMIT
    assert memory(server, "lamina_requests_refused_for_memory_total") == 1
    assert 4_000_000 < memory(server, "lamina_request_memory_peak_bytes") <= LIMIT


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/completion", "/v1/responses", "/v1/embeddings"])
def test_every_dialect_reports_it_in_its_form(server, path):
    status, answer, _ = server.post(path, '{"model": "demo", "x": [%s]}' % ",".join("1" * 2_000_000))
    assert status == 413 and str(LIMIT) in json.dumps(answer)
    assert all_given_back(server)


def test_slow_bodies_are_counted(server):
    """Two slow bodies use up the memory: a third gets 503, to be retried, and is answered once they have disconnected."""
    size = 7_000_000
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
    for s in slow:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size + b"x" * (size - 1))
    while memory(server) < 2 * (size - 1):
        time.sleep(0.01)
    body = '{"content": "a"%s}' % (" " * size)
    status, answer, headers = server.post("/tokenize", body)
    assert status == 503 and int(headers["Retry-After"]) > 0 and str(LIMIT) in answer["error"]["message"], answer
    assert server.post("/tokenize", {"content": "a"})[0] == 200
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    chunked = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 8 + b"0\r\n\r\n"
    assert raw(server, chunked, PATIENCE).startswith(b"HTTP/1.1 503 ")
    for s in slow:
        s.close()
    assert all_given_back(server)
    assert server.post("/tokenize", body)[0] == 200


def test_a_stream_frees_its_body(server):
    """A stream holds what it needs of its request, not the request: a body of a megabyte is released when the first token arrives."""
    prompt = {"prompt": "On and on", "max_tokens": 900, "ignore_eos": True, "metadata": {"note": "x" * 1_000_000}}
    with server.stream(prompt) as s:
        assert s.recv(4096)
        assert memory(server) < 300_000
    assert all_given_back(server)
