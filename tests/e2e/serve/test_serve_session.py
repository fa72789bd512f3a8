"""The start shown in docs/server/quickstart.md and the errors shown in docs/server/errors.md; test_pages.py runs the rest of both."""
import http.client
import json
import re
import signal
import socket
import time

from conftest import MODEL, PATIENCE, SOURCE
from servers import Server, raw

PAGE = SOURCE / "docs/server/quickstart.md"
ERRORS = re.search(r"^```\n(the model is loading .*?)```", (SOURCE / "docs/server/errors.md").read_text(), re.S | re.M).group(1)
HERE = "http://127.0.0.1:8080"
KEY = {"Authorization": "Bearer ours"}
ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}


def test_the_start_prints_address_and_model(build, model):
    shown = re.search(r"^```\n(\$ lamina serve .*?)```", PAGE.read_text(), re.S | re.M).group(1).splitlines()
    assert shown[1:] == [f"listening on {HERE}", f"ready: {shown[0].split()[-1]}"]
    server = Server(build).ready()
    server.wait_for(f"ready: {MODEL}\n")
    assert server.close() == 0, server.log


def test_error_responses(build, model):
    shown = {line[:28].strip(): (int(line[28:31]), json.loads(line[32:])) for line in ERRORS.splitlines()}
    seen = {}
    for _ in range(20):
        s = Server(build, "-c", 512, "--cache-tokens", 128, "--api-key", "ours", "--temp", 0)
        got = s.post("/v1/chat/completions", ASK, headers=KEY)
        if got[0] == 503 or "the model is loading" in seen:              # the server may have been faster than the test
            break
        s.close()

    def see(what, status, body, headers):
        seen[what] = (status, body)
        assert status != 503 or headers["Retry-After"]

    see("the model is loading", *got)
    s.ready()
    schema = {"type": "object", "properties": {"a": {"frobnicate": 1}}}
    for what, more, key in (("the key is wrong", {}, {"Authorization": "Bearer theirs"}),
                            ("a keyword is not known", {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}, KEY),
                            ("the context is too short", {"messages": [{"role": "user", "content": "word " * 600}]}, KEY),
                            ("there are too few pages", {"messages": [{"role": "user", "content": "word " * 200}]}, KEY)):
        see(what, *s.post("/v1/chat/completions", ASK | more, headers=key))
    answer = raw(s, b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ours\r\nContent-Length: 9437184\r\n\r\n", 2)
    see("the body has 9 MiB", int(answer.split()[1]), json.loads(answer.split(b"\r\n\r\n", 1)[1]), {})
    assert s.close() == 0
    s = Server(build, "-c", 8192, "--api-key", "ours", "--drain-timeout", PATIENCE).ready()
    kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=PATIENCE)
    kept.request("GET", "/health")
    kept.getresponse().read()
    body = json.dumps({"prompt": "a", "max_tokens": 8000, "ignore_eos": True, "stream": True})
    with socket.create_connection(("127.0.0.1", s.port)) as running:
        running.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ours\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        running.recv(10)
        s.process.send_signal(signal.SIGTERM)
        s.wait_for("shutting down: waiting")
        deadline = time.monotonic() + PATIENCE               # the line is printed a moment before requests are rejected
        while True:
            kept.request("POST", "/v1/chat/completions", json.dumps(ASK), KEY)
            r = kept.getresponse()
            answer = json.loads(r.read())
            if r.status == 503 or time.monotonic() > deadline:
                break
        see("the server is draining", r.status, answer, r.headers)
    assert s.close() == 0 and seen == shown              # the client of the running request has disconnected
