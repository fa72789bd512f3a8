"""Guarantees of lamina serve under load and under attack. `make test` runs short forms; `make soak` (LAMINA_SOAK) runs long ones, whose
results are in docs/dev/reliability.md. No assertion depends on the speed of the machine."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import BARE, MODEL, PATIENCE, SANITIZED, SOURCE, plain_only
from servers import Server

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
SOAK = os.environ.get("LAMINA_SOAK")
SEED = int(os.environ.get("LAMINA_SEED", "22"))


def many(short, long):
    return long if SOAK else max(1, short // 4) if SANITIZED else short


def tell(promise, **figures):
    """Append a line to the results of `make soak`."""
    if SOAK:
        with open(SOAK, "a") as f:
            f.write(json.dumps({"promise": promise, **figures}) + "\n")


def memory(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def until(condition, seconds=PATIENCE):
    began = time.time()
    while not condition():
        if time.time() - began > seconds:
            return None
        time.sleep(0.01)
    return time.time() - began


def idle(server):
    return not any(s["is_processing"] for s in server.get("/slots")[1])


def waiting(server):
    return float(re.search(r"vllm:num_requests_waiting\{.*\} (\S+)", server.get("/metrics")[1].decode())[1])


def share(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


@pytest.fixture(scope="module")
def server(build, model, tmp_path_factory):
    s = Server(build, "--metrics", "--embeddings", "-c", 2048, "--slot-save-path", tmp_path_factory.mktemp("slots"), "--temp", 0).ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


# ---- 7: every request is answered, errors in the form of the dialect ----

class Requests:
    """Requests generated from the server's description of its routes."""
    BASE = {"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "input": "Hi", "content": "Hi", "tokens": [1], "max_tokens": 1,
            "max_completion_tokens": 1, "n_predict": 1, "options": {"num_predict": 1}, "stream": False}
    WRONG = {"integer": ["x", "1", 1.5, True, [], {}, 2 ** 63, -2 ** 63, 1e300, "NaN"], "number": ["x", True, [], {}, "1e400"],
             "boolean": ["true", 1, [], {}], "string": [1, True, [], {}, 1.5], "array": ["x", 1, {}, True], "object": ["x", 1, [], True]}
    ANY = ["x", 1, -1, 1.5, True, [], {}, [[]], [{}], {"x": 1}, [None], "\u0000", "\ufffd" * 9, 2 ** 31, -2 ** 31, [2 ** 31], ["x"] * 300, {"type": "x"},
           {"type": {}}, {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}, [[0, 1e300]], {"0": "x"}]
    TEXTS = [b"", b"\0", b"{", b"{}}", b"[]", b"null", b"NaN", b'{"a":NaN}', b'{"a":Infinity}', b'{"prompt":"\xff\xfe"}', b'{"prompt":"\xed\xa0\x80"}',
             b'{"a":1e999}', b'{"prompt":"x","prompt":"x"}', b"{" * 500, b"[" * 100000, b'{"a":' * 60000, b'"' + b"x" * 70000 + b'"', b'{"messages":[{"role":"user","content":"\\ud800"}]}',
             b'{"prompt":"x"' + b" " * 70000, bytes(range(256)) * 8]

    def __init__(self, server, random):
        described = server.get("/openapi.json")[1]["paths"]
        self.random = random
        self.routes = [(path, method.upper(), o.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema"))
                       for path, methods in described.items() for method, o in methods.items()]
        self.posts = [(p, s) for p, m, s in self.routes if s and "properties" in s]

    def base(self, schema):
        names = schema["properties"]
        return {k: v for k, v in self.BASE.items() if k in names and (k in schema.get("required", []) or k not in ("input", "tokens", "content"))}

    def one(self):
        """Return (method, path, body, the field that must be rejected or None)."""
        r = self.random
        path, schema = r.choice(self.posts)
        path = path.replace("{id}", r.choice(["0", "99", "x", "-1", "2147483648"])) + r.choice(["", "", "", "?action=erase", "?action=save", "?model=x"])
        kind = r.random()
        if kind < 0.15:
            return "POST", path, r.choice(self.TEXTS), None
        if kind < 0.25:
            return r.choice(["PUT", "DELETE", "PATCH", "GET", "POST", "HEAD"]), r.choice([path, "/", "/v1", path + "/", path + "x", "/%00", "/" + "a" * 5000]), None, None
        body = self.base(schema)
        name = r.choice(list(schema["properties"]))
        field = schema["properties"][name]
        if "minimum" in field and r.random() < 0.5:
            wide = max(1, abs(field["minimum"]), abs(field["maximum"])) * 1e-3 if field["type"] == "number" else 1
            body[name] = r.choice([field["minimum"] - wide, field["maximum"] + wide, 2 ** 31 if field["maximum"] < 2 ** 31 else 2 ** 63, -2 ** 31 if field["minimum"] > -2 ** 31 else -2 ** 65])
            if field["type"] == "integer":
                body[name] = int(body[name])
            return "POST", path, body, name
        if field.get("type") in self.WRONG and not field.get("deprecated") and field["description"] != "accepted and has no effect":
            body[name] = r.choice(self.WRONG[field["type"]])
            return "POST", path, body, name
        body[name] = r.choice(self.ANY)
        if r.random() < 0.3:
            body[r.choice(["x", "", "\u0000", "model", "stop", "logit_bias", "response_format"])] = r.choice(self.ANY)
        return "POST", path, body, None


def has_form(path, answer):
    if path.startswith("/v1/messages"):
        return answer["type"] == "error" and answer["error"]["type"] and answer["error"]["message"]
    if path.startswith("/api/"):
        return answer["error"] and isinstance(answer["error"], str)
    return answer["error"]["message"] and answer["error"]["type"] and "param" in answer["error"] and "code" in answer["error"]


def fill_cache(server):
    """Prompts as long as the context occupy all pages of the cache, so that later requests touch no new ones."""
    for i in range(2 * server.get("/props")[1]["total_slots"]):
        assert server.post("/completion", {"prompt": [100 + i] * 2000, "n_predict": 1})[0] == 200


def test_every_request_gets_a_valid_answer(server):
    n = many(400, 10000)
    requests, seen, before = Requests(server, random.Random(SEED)), {}, 0
    for i in range(n):
        if SOAK and i == n // 10:
            fill_cache(server)
            before = memory(server)
        method, path, body, refused = requests.one()
        got, answer, headers = server.ask(method, path, body)
        seen[got] = seen.get(got, 0) + 1
        reply = (SEED, i, method, path, body if not isinstance(body, bytes) else body[:80], got, answer)
        assert got < 500 or (got == 501 and path.startswith("/infill") and not refused), reply        # the model has no tokens for it
        if got >= 400 and method != "HEAD":
            assert headers["Content-Type"].startswith("application/json") and has_form(path, answer), reply
        if refused:
            assert 400 <= got < 500, reply
            if got == 400 and not path.startswith(("/api/", "/v1/messages", "/slots")):
                assert answer["error"]["param"] is not None or str(2 ** 63) in json.dumps(body), reply      # too large for any JSON integer
    assert server.get("/health")[0] == 200 and until(lambda: idle(server)) is not None
    tell("7: request fuzz", requests=n, seed=SEED, statuses=seen, rss_before=before, rss_after=memory(server))
    if SOAK:
        assert memory(server) < before * 1.05


def test_bytes_that_are_not_http(server):
    r = random.Random(SEED)
    heads = [b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n"]
    statuses = {}
    for i in range(many(60, 2000)):
        text = bytearray(r.choice(heads) + r.choice([b"\r\n", b"X: y\r\n\r\n", b"X" * r.randrange(40000) + b": y\r\n\r\n", b"X:" + bytes([r.randrange(256)]) * 9 + b"\r\n\r\n"]) + bytes(40))
        for _ in range(r.randrange(4)):
            text[r.randrange(len(text))] = r.randrange(256)
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            answer = b""
            s.settimeout(1)
            with contextlib.suppress(OSError):       # closed, or the server waits for the rest
                s.sendall(text)
                answer = s.recv(65536)
        status = answer[9:12].decode(errors="replace")
        statuses[status] = statuses.get(status, 0) + 1
        assert not answer or (answer.startswith(b"HTTP/1.") and not status.startswith("5")) or answer.startswith(b"HTTP/1.1 505"), (i, bytes(text[:200]), answer[:200])
    assert server.get("/health")[0] == 200
    tell("7: bytes that are no HTTP", statuses=statuses)


# ---- 9, 16: every request gives what it gives alone ----

def stream_text(server, path, body, headers=None):
    """Return all events of a stream in order; assert that it is well-formed."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    c.request("POST", path, json.dumps(body | {"stream": True}), headers or {})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    assert r.status == 200 and text.endswith("data: [DONE]\n\n"), (r.status, text[-300:])
    return [json.loads(e[6:]) for e in text.split("\n\n") if e.startswith("data: {")]


def asks(n):
    r = random.Random(SEED)
    words = "lamps moths harbour glass winter river stone paper salt engine".split()
    for i in range(n):
        prompt = " ".join(r.choice(words) for _ in range(r.choice([3, 9, 40, 90]))) if i % 3 else "You keep a lighthouse. " * 30 + f"Day {i}:"
        yield {"prompt": prompt, "max_tokens": r.randrange(2, many(14, 40)), "temperature": r.choice([0, 0.7, 1.1]), "seed": i,
               "logprobs": r.choice([None, 2]), "cache_prompt": r.random() < 0.8, "ignore_eos": True}


def choice_of(server, ask, streamed):
    if not streamed:
        got, answer, _ = server.post("/v1/completions", ask)
        assert got == 200, answer
        c = answer["choices"][0]
        return c["text"], c["logprobs"] and c["logprobs"]["token_logprobs"]
    choices = [c for e in stream_text(server, "/v1/completions", ask) for c in e["choices"]]
    return "".join(c["text"] for c in choices), [p for c in choices if c["logprobs"] for p in c["logprobs"]["token_logprobs"]] or None


def test_every_stream_under_load_equals_itself_alone(server):
    n = many(32, 256)
    all_of_them = list(asks(n))
    alone = [choice_of(server, a | {"cache_prompt": False}, False) for a in all_of_them]
    order = list(range(n)) * 2
    random.Random(SEED).shuffle(order)
    stop = threading.Event()

    def disturb():                           # rejected, embedding and abandoned requests next to them
        while not stop.is_set():
            server.post("/v1/completions", {"prompt": "x", "temperature": "hot"})
            server.post("/v1/embeddings", {"input": "y"})
            server.stream({"prompt": "gone", "max_tokens": 50}).close()

    other = threading.Thread(target=disturb)
    other.start()
    began = time.time()
    try:
        with concurrent.futures.ThreadPoolExecutor(many(32, 256)) as crowd:
            together = list(crowd.map(lambda k: choice_of(server, all_of_them[k[1]], k[0] % 4 != 3), enumerate(order)))
    finally:
        stop.set()
        other.join()
    wrong = [i for i, k in enumerate(order) if together[i] != alone[k]]
    assert not wrong, [(all_of_them[order[i]], together[i], alone[order[i]]) for i in wrong[:2]]
    tell("9, 16: streams beside each other, text and log-probabilities equal to the same request alone", streams=2 * n, at_once=n, differ=len(wrong), seconds=round(time.time() - began, 1))


def test_a_restart_with_other_threads_changes_nothing(build, server, model):
    some = list(asks(many(4, 16)))
    here = [choice_of(server, a, False) for a in some]
    for flags in (["-t", 1], ["-t", 2, "--parallel", 2, "--no-cache-prompt"], ["-ub", 32, "-b", 32, "--itl-target", 0.01]):
        other = Server(build, "-c", 2048, "--temp", 0, *flags).ready()
        assert [choice_of(other, a, True) for a in some] == here, flags
        assert other.close() == 0
    tell("16: restarts with other threads, slots, chunks", requests=len(some), restarts=3, differ=0)


# ---- 10: clients that disconnect ----

def test_a_storm_of_clients_that_leave(server):
    r = random.Random(SEED)
    rounds, clients, free = many(1, 20), many(80, 500), []
    before = until(lambda: idle(server)) is not None and server.descriptors()
    for _ in range(rounds):
        there = []
        for i in range(clients):
            there.append(server.stream({"prompt": f"tale {i}", "max_tokens": 400, "ignore_eos": True}))
            if there and r.random() < 0.5:
                there.pop(r.randrange(len(there))).close()
            if r.random() < 0.05:
                time.sleep(0.05)
        assert until(lambda: not idle(server)) is not None
        for s in there:
            s.close()
        took = until(lambda: idle(server) and waiting(server) == 0 and server.descriptors() <= before + 2)
        assert took is not None, (idle(server), waiting(server), server.descriptors(), before)
        free.append(took)
    tell("10: clients that leave, until every slot, place in the queue and descriptor is free", rounds=rounds, clients=clients, seconds_median=round(share(free, 0.5), 3), seconds_most=round(max(free), 3),
         descriptors_before=before, descriptors_after=server.descriptors())


# ---- 11: slow readers ----

def test_stalled_readers_delay_no_client(server):
    slow = []
    for _ in range(many(8, 50)):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", server.port))
        body = json.dumps({"prompt": "On and on", "max_tokens": 1500, "ignore_eos": True, "logprobs": 5, "stream": True})
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        slow.append(s)
    before = memory(server)
    some = list(asks(many(8, 64)))
    with concurrent.futures.ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(lambda a: choice_of(server, a, True), some))
    most = memory(server)
    took = until(lambda: idle(server), 600) if SOAK else None
    for s in slow:
        s.close()
    assert until(lambda: idle(server)) is not None
    assert answers == [choice_of(server, a, False) for a in some]
    tell("11: readers that read nothing, and as many that do", slow=len(slow), normal=len(some), wrong=0, rss_growth=most - before,
         seconds_until_slots_were_free=took and round(took, 1))


# ---- 12: a byte at a time ----

def test_a_byte_at_a_time_is_cut_and_delays_no_client(server):
    n, healths, closed = many(12, 200), [], 0
    drips = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(n)]
    text = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"y" * 4000
    began, at = time.time(), 0
    for s in drips:
        s.setblocking(False)
    while drips and time.time() - began < PATIENCE:
        for s in list(drips):
            try:
                s.send(text[at:at + 1])
                if s.recv(100) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                s.close()
                drips.remove(s)
                closed += 1
        requested = time.time()
        assert server.get("/health")[0] == 200
        healths.append(time.time() - requested)
        at += 1
        time.sleep(0.5)
    assert not drips and closed == n
    tell("12: a byte each half second", connections=n, seconds_until_all_were_closed=round(time.time() - began, 1),
         health_seconds_p99=round(share(healths, 0.99), 4))


# ---- 13: shutdown ----

def test_sigterm_under_load(build, model):
    s = Server(build, "-c", 512, "--parallel", 4, "--drain-timeout", 300).ready()
    n, busy = many(12, 40), 1 if SANITIZED else 4          # so slow that they may run one after the other
    bodies = [{"prompt": f"Day {i}:", "max_tokens": 60, "ignore_eos": True, "seed": i} for i in range(n)]
    with concurrent.futures.ThreadPoolExecutor(n) as crowd:
        running = [crowd.submit(stream_or_status, s, b) for b in bodies]
        assert until(lambda: sum(x["is_processing"] for x in s.get("/slots")[1]) >= busy) is not None
        s.process.send_signal(signal.SIGTERM)
        ends = [r.result() for r in running]
    assert s.process.wait(PATIENCE) == 0
    s.reader.join(PATIENCE)
    assert set(ends) <= {"whole", "error event", 503, "never connected"} and ends.count("whole") >= busy, ends
    tell("13: SIGTERM under load", requests=n, ends={str(e): ends.count(e) for e in set(ends)})


def stream_or_status(server, body):
    try:
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        c.request("POST", "/v1/completions", json.dumps(body | {"stream": True}))
        r = c.getresponse()
        text = r.read().decode()
    except OSError:
        return "never connected"
    if r.status != 200:
        assert r.getheader("Retry-After") and json.loads(text)["error"]
        return r.status
    if text.endswith("data: [DONE]\n\n"):
        return "whole"
    assert '"error"' in text.strip().split("\n\n")[-1], text[-300:]
    return "error event"


def test_kill_9_leaves_prefixes_that_load_or_are_passed_over(build, model, tmp_path):
    r = random.Random(SEED)
    store = tmp_path / "prefixes"
    ask = {"prompt": "You keep a lighthouse. " * 40 + "Tonight", "max_tokens": 12, "temperature": 0}
    s = Server(build, "-c", 1024, "--prefix-store", store, "--temp", 0).ready()
    right = choice_of(s, ask, False)
    assert s.close() == 0 and list(store.iterdir())
    kills = many(3, 50)
    for i in range(kills):
        for f in store.iterdir():
            if r.random() < 0.2:                 # as a disk that lost the end of a file
                with open(f, "r+b") as cut:
                    cut.truncate(r.randrange(max(1, f.stat().st_size)))
        s = Server(build, "-c", 1024, "--prefix-store", store, "--temp", 0).ready()
        assert choice_of(s, ask, False) == right
        with concurrent.futures.ThreadPoolExecutor(4) as crowd:
            for k in range(4):
                crowd.submit(stream_or_nothing, s, ask | {"prompt": f"Keeper {i} {k}. " * 60, "max_tokens": 30})
            time.sleep(r.random() * 0.5)
            s.process.kill()
        s.process.wait()
    s = Server(build, "-c", 1024, "--prefix-store", store, "--temp", 0).ready()
    assert choice_of(s, ask, False) == right and s.close() == 0
    assert not [f for f in store.iterdir() if f.name.startswith(".lamina-")]
    tell("13: kill -9 while prefixes are written, files cut short", kills=kills, wrong_answers=0)


def stream_or_nothing(server, body):
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.post("/v1/completions", body)


# ---- 15: memory ----

def test_out_of_pages_no_request_fails_and_nothing_changes(build, server, model):
    """Eight sequences start together, each needs three pages, and the cache has eight: they cannot all be in it at once."""
    n = many(1, 16)
    some = [{"prompt": f"The {i} keepers of the light wrote:", "n": 8, "max_tokens": 140, "temperature": 0.8, "seed": i, "ignore_eos": True} for i in range(n)]
    wide = [[c["text"] for c in server.post("/v1/completions", a)[1]["choices"]] for a in some]
    tight = Server(build, "-c", 512, "--cache-tokens", 512, "--parallel", 8, "--temp", 0, "--metrics").ready()
    with concurrent.futures.ThreadPoolExecutor(n) as crowd:
        assert list(crowd.map(lambda a: [c["text"] for c in tight.post("/v1/completions", a)[1]["choices"]], some)) == wide
    figures = tight.get("/metrics")[1].decode()
    preempted = float(re.search(r"lamina_preemptions_total\{.*\} (\S+)", figures)[1])
    assert tight.close() == 0 and preempted > 0
    tell("15: eight texts on a cache of one context", texts=8 * n, failed=0, differ=0, preemptions=int(preempted))


@plain_only          # a sanitizer maps more than any limit
def test_insufficient_memory_is_rejected_at_the_start(build, model):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    done = subprocess.run([build / "src/cli/lamina", "serve", MODEL, "--port", "0", "--parallel", "64", "-c", "8192"], capture_output=True, text=True,
                          preexec_fn=limited, env={**os.environ, **BARE}, timeout=PATIENCE)
    assert done.returncode == 4 and re.search(r"\d", done.stderr.splitlines()[-1]) and done.stderr.splitlines()[-1].startswith("error: "), done.stderr
    tell("15: ulimit -v 400 MiB", status=done.returncode, reply=done.stderr.splitlines()[-1])


# ---- 20: secrets ----

def test_no_text_and_no_key_is_logged(build, tmp_path):
    shutil.copy(TINY, tmp_path / "one.gguf")
    s = Server(build, "-c", 128, "--api-key", "sk-lighthouse-4711", "--verbose", "--metrics", "--prefix-store", tmp_path / "p", model=tmp_path / "one.gguf")
    auth = {"Authorization": "Bearer sk-lighthouse-4711"}
    assert until(lambda: s.get("/health")[0] == 200) is not None
    for body in ({"prompt": "zanzibar", "max_tokens": 4}, {"prompt": "zanzibar" * 200}, {"prompt": "zanzibar", "grammar": "zanzibar"}, b'{"zanzibar'):
        s.post("/v1/completions", body, headers=auth)
        s.post("/v1/completions", body, headers={"Authorization": "Bearer wrong-zanzibar"})
    figures = s.get("/metrics", headers=auth)[1].decode()
    s.get("/zanzibar?zanzibar=1", headers=auth)
    assert s.close() == 0
    for text in ("".join(s.log), figures):
        assert "zanzibar" not in text and "4711" not in text
    tell("20: logs, figures", found=0)


# ---- 17: long conversations ----

def results(n):
    calls = [{"id": f"call{i:05}", "name": "f"} for i in range(n)]
    return {
        "/v1/chat/completions": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [
            {"id": c["id"], "type": "function", "function": {"name": "f", "arguments": "{}"}} for c in calls[:1000]]},
            *({"role": "tool", "tool_call_id": c["id"], "content": f"w{i}"} for i, c in enumerate(calls))],
        "/v1/messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "input": {}, **c} for c in calls[:1000]]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": c["id"], "content": "w"} for c in calls[:1000]]},
                         *([{"role": "user", "content": [{"type": "text", "text": "w"}]}, {"role": "assistant", "content": "v"}] * (n // 2))],
        "/v1/responses": [{"role": "user", "content": "a"}, *(item for c in calls for item in (
            {"type": "function_call", "call_id": c["id"], "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": c["id"], "output": "w"}))],
        "/api/chat": [{"role": "user", "content": "a"}, *(m for _ in calls for m in (
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "tool_name": "f", "content": "w"}))],
    }


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
def test_a_conversation_of_thousands_of_results_is_read_whole(server, path):
    """It is rejected for its tokens, counted after all of it has been read. `make soak` prints the time of eight times as many."""
    def ask(n):
        field = "input" if path == "/v1/responses" else "messages"
        began = time.time()
        status, answer, _ = server.post(path, {field: results(n)[path], "max_tokens": 1, "max_output_tokens": 1, "options": {"num_predict": 1}, "stream": False})
        assert status == 400 and ("context" in json.dumps(answer) or "too long" in json.dumps(answer)), answer
        return round(time.time() - began, 3)

    n = 2000 if path in ("/v1/chat/completions", "/v1/messages") else 1000           # in the others each result has two items
    few = ask(n)
    tell("17: results of tools in one conversation", path=path, results=n, seconds=few, seconds_of_eight_times=ask(8 * n) if SOAK else None)
