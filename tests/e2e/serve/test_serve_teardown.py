"""Requests that end early, in every way, of every kind, at every stage. Afterwards the server answers as before, holds no slot and no
connection, and ends without a sanitizer report. tests/invariants/teardown.c tears hooks down in the middle of a step, deterministically."""
import contextlib
import itertools
import json
import os
import signal
import socket
import time

import pytest
from conftest import PATIENCE, SANITIZED, SOURCE
from servers import Server

TEMPLATE = SOURCE / "tests/e2e/serve/tools.jinja"
TALK = [{"role": "user", "content": "Tell me of the sea. " * 12}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}}, "required": ["a", "b"]}
TOOL = {"type": "function", "function": {"name": "look", "description": "x", "parameters": SCHEMA}}
LONG = {"max_tokens": 300}

# kinds of requests with their own hooks, jobs or parts
KINDS = {
    "text": ("/v1/completions", {"prompt": "On and on", "ignore_eos": True} | LONG),
    "json": ("/v1/chat/completions", {"messages": TALK, "response_format": {"type": "json_object"}} | LONG),
    "schema": ("/v1/chat/completions", {"messages": TALK, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}} | LONG),
    "grammar": ("/completion", {"prompt": "a", "grammar": 'root ::= [a-z ]+', "n_predict": 300}),
    "regex": ("/v1/completions", {"prompt": "a", "guided_regex": "[a-z ]{1,3000}"} | LONG),
    "tools": ("/v1/chat/completions", {"messages": TALK, "tools": [TOOL], "tool_choice": "required"} | LONG),
    "budget": ("/v1/chat/completions", {"messages": TALK, "reasoning_effort": "high", "reasoning_budget": 20} | LONG),
    "messages": ("/v1/messages", {"messages": TALK, "tools": [{"name": "look", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}} | LONG),
    "responses": ("/v1/responses", {"input": "Tell me of the sea.", "max_output_tokens": 300}),
    "ollama": ("/api/chat", {"messages": TALK, "format": SCHEMA, "options": {"num_predict": 300}}),
    "traced": ("/v1/completions", {"prompt": "On and on", "ignore_eos": True, "trace": {"surprise": True}} | LONG),
    "several": ("/v1/completions", {"prompt": ["On and on", "Again", "Once more"], "n": 2, "guided_regex": "[a-z ]{1,3000}"} | LONG),
    "one of several is refused": ("/v1/completions", {"prompt": ["a", "b ", "c " * 4000], "guided_regex": "[a-z ]{1,3000}"} | LONG),
    "scores": ("/v1/completions", {"prompt": ["the sea and " * 60] * 6, "echo": True, "logprobs": 3, "max_tokens": 0}),
    "vectors": ("/v1/embeddings", {"input": ["the sea and " * 60] * 12}),
    "slot": ("/slots/0?action=save", {"filename": "x"}),
}
STREAMS = [k for k in KINDS if k not in ("one of several is refused", "scores", "vectors", "slot")]
CASES = [(kind, stream) for kind in KINDS for stream in (False, True) if not stream or kind in STREAMS]
WAYS = ("left", "reset", "drained", "unloaded", "reloaded", "erased")
ROUNDS = 1 if SANITIZED else 3


def send(server, kind, stream, **more):
    path, body = KINDS[kind]
    text = json.dumps(body | ({"stream": True} if stream else {} if path != "/api/chat" else {"stream": False}) | more)
    s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\nAuthorization: Bearer k\r\n\r\n{text}".encode())
    return s


def leave(s, hard):
    if hard:                                                               # a reset instead of an end
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    s.close()


def quiet(server):
    """Wait until no slot is in use."""
    end = time.time() + PATIENCE
    while any(x["is_processing"] for x in server.get("/slots", headers={"Authorization": "Bearer k"})[1]):
        assert time.time() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teardown")
    (folder / "keys").write_text("k\n")
    return ["-c", 1024, "--parallel", 3, "--embeddings", "--slot-save-path", folder, "--chat-template-file", TEMPLATE, "--api-key-file", folder / "keys"]


def test_every_kind_at_every_stage_in_every_way(build, model, flags):
    """Different waits reach different stages: which stage is reached does not matter, and every order is correct."""
    server, n = Server(build, *flags).ready(), 0
    for way, (kind, stream) in itertools.product(("left", "reset", "reloaded", "erased"), CASES):
        for wait in (0, 0.002, 0.02, 0.1)[:2 + ROUNDS]:
            assert server.process.poll() is None, (way, kind, stream, wait, server.process.poll(), server.log)
            sockets = [send(server, kind, stream) for _ in range(4)]       # one more than there are slots: it is queued
            time.sleep(wait)
            if way == "reloaded":
                server.process.send_signal(signal.SIGHUP)
            if way == "erased":
                with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as s:
                    s.sendall(b"POST /slots/1?action=erase HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\n{}")
            for s in sockets:
                leave(s, way == "reset")
            n += len(sockets)
        quiet(server)
    answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, headers={"Authorization": "Bearer k"})
    assert answer[0] == 200
    assert server.close() == 0 and not [x for x in server.log if "Sanitizer" in x or "runtime error" in x], server.log
    print(f"\ncount: requests torn down {n}")


@pytest.mark.parametrize("drain", [0, 3600])
def test_the_server_ends_under_requests_of_every_kind(build, model, flags, drain):
    for chunk in (CASES[::2], CASES[1::2]):
        server = Server(build, *flags, "--drain-timeout", drain).ready()
        sockets = [send(server, kind, stream, **({} if drain == 0 else {})) for kind, stream in chunk]
        time.sleep(0.05)
        if drain:                                                          # clients disconnect while the server drains
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("shutting down: waiting")
            for s in sockets:
                leave(s, False)
            assert server.process.wait(PATIENCE) == 0
            server.reader.join(PATIENCE)
        else:
            assert server.close() == 0
            for s in sockets:
                s.close()
        assert not [x for x in server.log if "Sanitizer" in x or "runtime error" in x], server.log


def test_a_model_is_unloaded_under_requests(build, model, flags, tmp_path):
    """Two models and memory for one: each request for the other model unloads the first one, while clients of both disconnect."""
    plain = Server(build, *flags).ready()
    need = plain.get("/v1/models", headers={"Authorization": "Bearer k"})[1]["data"][0]["status"]["bytes"]
    assert plain.close() == 0
    twin = tmp_path / "twin.gguf"
    os.symlink(model, twin)
    server = Server(build, twin, *flags, "--alias", "one", "--alias", "two", "--mem-limit", int(need * 1.5)).ready()
    for i, (kind, stream) in enumerate(c for c in CASES if c[0] != "slot"):
        sockets = [send(server, kind, stream, model=("one", "two")[(i + k) % 2]) for k in range(3)]
        time.sleep((0, 0.03, 0.2)[i % 3])
        for s in sockets:
            leave(s, i % 2)
    for name in ("one", "two"):
        assert server.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 2}, headers={"Authorization": "Bearer k"})[0] == 200
    assert server.close() == 0 and not [x for x in server.log if "Sanitizer" in x or "runtime error" in x], server.log
