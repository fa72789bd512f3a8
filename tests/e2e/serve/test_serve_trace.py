"""`trace` and `intervene` of completions: the numbers of `lamina trace` beside the text, which stays the same to the bit."""
import socket
import contextlib
import json
import os
import select
import signal
import time

import pytest
from conftest import BARE, MODEL, PATIENCE, run
from servers import Server

PARIS = "The capital of France is"
GREEDY = {"prompt": PARIS, "max_tokens": 6, "temperature": 0}
DRAWN = {"prompt": PARIS, "max_tokens": 24, "temperature": 0.9, "seed": 7, "logprobs": 3}
WANTED = {"lens": 5, "surprise": True, "attribution": True, "norms": True, "attention": [0, 23], "weights": [[23, 4]]}
MESSAGES = [{"role": "user", "content": "Say hello."}]
REMOVED = "layers.23.self_attn=0"


@pytest.fixture(scope="module")
def server(build, model):
    with contextlib.closing(Server(build, "--allow-interventions", "--parallel", 2, "--metrics").ready()) as s:
        yield s


@pytest.fixture(scope="module")
def plain(build, model):
    with contextlib.closing(Server(build, "--max-request-memory", "24M").ready()) as s:
        yield s


@pytest.fixture(scope="module")
def short(build, model):
    with contextlib.closing(Server(build, "-c", 64).ready()) as s:
        yield s


def answer(server, body, path="/v1/completions"):
    """Ask until fewer requests are traced than may be."""
    until = time.time() + PATIENCE
    while (got := server.post(path, body))[0] == 429 and time.time() < until:
        time.sleep(0.02)
    assert got[0] == 200, got[1]
    return got[1]


def events(server, body, path="/v1/completions"):
    lines = answer(server, body | {"stream": True}, path).decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def traced_alone(build, *args):
    done = run(build / "src/cli/lamina", "trace", MODEL, *args, "--json", env={**os.environ, **BARE})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_values_are_those_of_the_same_text_traced_alone(server, build):
    received = answer(server, GREEDY | {"trace": WANTED})
    alone = traced_alone(build, "-p", PARIS, "-n", 6, "--all")
    n = received["usage"]["prompt_tokens"]
    assert len(received["trace"]) == 6 and n == 5
    for i, x in enumerate(received["trace"]):
        assert x["token"] == alone["tokens"][n + i]
        row = next(r for r in alone["rows"] if r["position"] == n + i - 1)
        assert all(x["row"][k] == row[k] for k in ("position", "token", "logit", "lens", "attribution", "norms"))
        assert x["row"]["attention"] == [h for h in row["attention"] if h["layer"] in (0, 23)]
        weights = x["row"]["weights"][0]
        assert (weights["layer"], weights["head"], len(weights["weights"])) == (23, 4, n + i) and abs(sum(weights["weights"]) - 1) < 1e-4


def test_a_traced_output_is_the_untraced_one(server):
    """Drawn tokens and log-probabilities depend on every bit of the logits."""
    plain = answer(server, DRAWN)["choices"]
    assert answer(server, DRAWN | {"trace": {"lens": 2}})["choices"] == plain
    assert answer(server, DRAWN)["choices"] == plain
    assert len(plain[0]["text"]) > 20


def test_a_grammar_and_stop_strings_apply(server):
    body = {"prompt": "One, two,", "max_tokens": 20, "temperature": 0}
    for more in ({"grammar": 'root ::= [0-9]+ "."'}, {"stop": [" four"]}, {"echo": True}, {"ignore_eos": True, "logit_bias": {"28": -100}}):
        assert answer(server, body | more | {"trace": {}})["choices"] == answer(server, body | more)["choices"]


@pytest.mark.parametrize("path, body", [("/v1/completions", GREEDY), ("/completion", {"prompt": PARIS, "n_predict": 6, "temperature": 0}),
                                        ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 6, "temperature": 0})])
def test_a_stream_has_the_trace_beside_the_text(server, path, body):
    whole = answer(server, body | {"trace": {"lens": 1, "top": 2}}, path)
    received = events(server, body | {"trace": {"lens": 1, "top": 2}}, path)
    traces = [e["trace"] for e in received if "trace" in e]
    assert [{k: x[k] for k in ("token", "row")} for x in traces] == whole["trace"] and len(traces) == 6
    assert all(x["index"] == 0 and len(x["token"]["top"]) == 2 and len(x["row"]["lens"]) == 31 for x in traces)
    rest = [e for e in events(server, body, path)]
    assert not any("trace" in e for e in rest)

    def texts(some):
        return [e.get("content", "".join(c.get("text") or c.get("delta", {}).get("content") or "" for c in e.get("choices", []))) for e in some]
    assert "".join(texts(received)) == "".join(texts(rest)) != ""


def test_each_token_is_traced_before_its_text(server):
    received = events(server, GREEDY | {"trace": {}})
    kinds = ["trace" if "trace" in e else "text" for e in received if "trace" in e or e["choices"][0]["text"]]
    assert kinds == ["trace", "text"] * 6


def test_tokens_may_contain_nul(server):
    nul = 190
    received = answer(server, GREEDY | {"trace": {}, "max_tokens": 2, "logit_bias": {str(nul): 100}})
    assert [x["token"]["text"] for x in received["trace"]] == ["\0"] * 2


def test_surprise_can_be_left_out(server):
    received = answer(server, GREEDY | {"trace": {"surprise": False, "norms": True}})["trace"]
    assert all(set(x["token"]) == {"id", "text", "position"} and x["row"]["norms"] for x in received)


def test_an_intervention_changes_this_output_only(server, build):
    alone = traced_alone(build, "-p", PARIS, "-n", 6, "--set", REMOVED)
    body = GREEDY | {"intervene": [REMOVED]}
    changed, traced = answer(server, body), answer(server, body | {"trace": {"lens": 1}})
    assert changed["choices"] == traced["choices"] and "trace" not in changed
    assert [x["token"]["id"] for x in traced["trace"]] == alone["after"]["ids"] != alone["before"]["ids"]
    assert changed["choices"][0]["text"] != answer(server, GREEDY)["choices"][0]["text"]


def test_a_client_that_leaves_ends_its_trace(server):
    """Two requests are traced at a time; more than two leave in the middle, and the next one is still answered."""
    for _ in range(4):
        until = time.time() + PATIENCE
        while time.time() < until:
            s = server.stream({"prompt": PARIS, "max_tokens": 4000, "ignore_eos": True, "trace": {"lens": 2}})
            got = s.recv(4096)
            while b"trace" not in got and not refused(got):
                got += s.recv(4096)
            s.close()
            if not refused(got):
                break
    assert len(answer(server, GREEDY | {"trace": {}})["trace"]) == 6
    until = time.time() + PATIENCE
    while time.time() < until and (held := gauge(server, "lamina_request_memory_bytes")) > 65536:
        time.sleep(0.02)
    assert held <= 65536                                 # the request for the metrics


def refused(got):
    """Whether the status is 429: the digits are in figures of traces too, which differ between processors."""
    return got.startswith(b"HTTP/1.1 429")


def gauge(server, name):
    text = server.get("/metrics")[1].decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def open_traced(server):
    """A stream that is traced; asks until fewer requests are traced than may be."""
    until = time.time() + PATIENCE
    while time.time() < until:
        s = server.stream({"prompt": PARIS, "max_tokens": 4000, "ignore_eos": True, "trace": {}})
        if b" 200 " in s.recv(1000):
            return s
        s.close()
    pytest.fail("no request was accepted")


def test_more_requests_than_may_be_traced_wait(server):
    """An output that has ended leaves room for another one, so this repeats until two have not ended."""
    until, got = time.time() + PATIENCE, [None]
    while got[0] != 429 and time.time() < until:
        with contextlib.ExitStack() as both:
            for _ in range(2):
                both.enter_context(open_traced(server))
            got = server.post("/v1/completions", GREEDY | {"trace": {}})
            assert server.post("/v1/completions", GREEDY)[0] == 200
    assert got[0] == 429 and "2 requests are traced" in got[1]["error"]["message"] and got[2]["Retry-After"]


def test_its_memory_counts_as_that_of_requests(plain):
    got = plain.post("/v1/completions", GREEDY | {"max_tokens": 4000, "trace": {}})
    assert got[0] == 413 and "--max-request-memory" in got[1]["error"]["message"], got
    assert plain.post("/v1/completions", GREEDY | {"max_tokens": 4000, "stop": ["."]})[0] == 200
    got = plain.post("/v1/trace", {"prompt": PARIS, "max_tokens": 4000})
    assert got[0] == 413 and "--max-request-memory" in got[1]["error"]["message"], got


@pytest.mark.parametrize("n, more, traced", [(64, {"max_tokens": 0, "echo": True}, 0), (63, {"max_tokens": 0, "echo": True}, 0), (60, {"max_tokens": 9}, 4)])
def test_a_prompt_may_fill_the_context(short, n, more, traced):
    body = {"prompt": [504 + i for i in range(n)], "temperature": 0, "ignore_eos": True} | more
    received = answer(short, body | {"trace": {"lens": 1}})
    assert received["choices"] == answer(short, body)["choices"] and len(received["trace"]) == traced
    assert received["usage"]["prompt_tokens"] == n


@pytest.mark.parametrize("n, more", [(65, {"max_tokens": 0, "echo": True}), (65, {"max_tokens": 9}), (64, {"max_tokens": 9}), (64, {})])
def test_a_prompt_that_does_not_fit_is_rejected_as_without_a_trace(short, n, more):
    body = {"prompt": [504 + i for i in range(n)]} | more
    status, got, _ = short.post("/v1/completions", body | {"trace": {}})
    assert status == 400 and got["error"]["code"] == "context_length_exceeded"
    assert got == short.post("/v1/completions", body)[1]


def test_interventions_need_the_flag(plain):
    got = plain.post("/v1/completions", GREEDY | {"intervene": [REMOVED]})
    assert got[0] == 403 and got[1]["error"]["param"] == "intervene" and "--allow-interventions" in got[1]["error"]["message"]


LARGE = "model.layers.0.mlp=-1e38"


@pytest.mark.parametrize("more, param", [
    ({"trace": True}, "trace"), ({"trace": {"lenz": 1}}, "trace"), ({"trace": {"lens": 21}}, "lens"), ({"trace": {"surprise": 1}}, "surprise"),
    ({"trace": {"attention": [30]}}, "attention"), ({"trace": {"weights": [[0, 9]]}}, "attention"), ({"trace": {}, "n": 2}, "trace"),
    ({"trace": {}, "prompt": ["a", "b"]}, "trace"), ({"trace": {}, "id_slot": 0}, "trace"), ({"trace": {}, "echo": True, "logprobs": 1}, "logprobs"),
    ({"intervene": "x"}, "intervene"), ({"intervene": ["+/etc/passwd"]}, "intervene"), ({"intervene": [LARGE]}, LARGE), ({"intervene": [REMOVED], "n": 2}, "intervene")])
def test_unsupported_requests_are_rejected_by_name(server, more, param):
    status, got, _ = server.post("/v1/completions", GREEDY | more)
    assert status == 400 and got["error"]["param"] == param, got


OVERFLOWING = [["layers.*=1e6"], ["layers.0=1e6"] * 64, ["**=-1e6"], ["layers.0.mlp=1e39"], ["layers.0.mlp=nan"], ["layers.0.mlp=inf"], ["layers.0.mlp=1e400"],
               ["layers.0.self_attn#head4294967296=0"], ["layers.0.mlp#neuron18446744073709551616=0"]]


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", GREEDY), ("/completion", {"prompt": PARIS, "n_predict": 6}), ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 6}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 6, "stream": True}), ("/v1/trace", {"prompt": PARIS}),
    ("/v1/trace", {"prompt": PARIS, "max_tokens": 4})])
@pytest.mark.parametrize("changes", OVERFLOWING, ids=lambda c: c[0])
def test_interventions_beyond_any_number_are_the_request_s_fault(server, path, body, changes):
    until, got = time.time() + PATIENCE, [429]
    while got[0] == 429 and time.time() < until:             # as many are traced as may
        got = server.post(path, body | {"intervene": changes})
    assert got[0] == 400 and got[1]["error"]["param"] in ("intervene", changes[0]), got


@pytest.mark.parametrize("member", [
    '"positions": [1e30]', '"positions": [18446744073709551616]', '"positions": [-9223372036854775809]', '"lens": 1e30', '"lens": 18446744073709551617',
    '"attention": [1e30]', '"attention": [18446744073709551616]', '"weights": [[0, 18446744073709551616]]', '"top": 1e400', '"max_tokens": -1',
    '"max_tokens": 18446744073709551617'])
def test_numbers_beyond_their_range_are_named(server, member):
    status, got, _ = server.post("/v1/trace", f'{{"prompt": "hi", {member}}}')
    assert status == 400 and got["error"]["param"] == member.split('"')[1], got


@pytest.mark.parametrize("path, body", [
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 2}), ("/api/chat", {"messages": MESSAGES}), ("/api/generate", {"prompt": "a"}),
    ("/v1/responses", {"input": "a"})])
@pytest.mark.parametrize("field", [{"trace": {"lens": 5}}, {"intervene": [REMOVED]}])
def test_dialects_without_a_place_for_it_reject_it(server, path, body, field):
    for more in [field] + ([{"options": field}] if path.startswith("/api") else []):
        status, got, _ = server.post(path, body | more)
        assert status == 400 and next(iter(field)) in str(got["error"]), got


def test_a_server_that_shuts_down_finishes_the_trace(build, model):
    s = Server(build).ready()
    received = []
    connection = s.stream(GREEDY | {"max_tokens": 40, "ignore_eos": True, "trace": {"lens": 1}})
    received.append(connection.recv(4096))
    s.process.send_signal(signal.SIGTERM)
    while more := connection.recv(65536):
        received.append(more)
        if b"[DONE]" in b"".join(received[-2:]):
            break
    connection.close()
    assert b"".join(received).count(b'"trace"') == 40
    assert s.process.wait(PATIENCE) == 0
    s.reader.join(PATIENCE)


def test_a_trace_counts_for_the_limits_of_its_key(build, model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("few tokens_day=5\nother\n")
    s = Server(build, "--api-key-file", keys, "-c", 256).ready()
    got = [s.post("/v1/trace", {"ids": [504] * 8}, headers={"Authorization": f"Bearer {key}"})[0] for key in ("few", "few", "other")]
    assert got == [200, 429, 200]
    assert s.close() == 0


LONG = {"ids": [504] * 4000, "max_tokens": 4000, "lens": True}


def send_trace(server, body):
    """Send a trace and return the socket."""
    text = json.dumps(body)
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(f"POST /v1/trace HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    return connection


def wait_for_trace(server):
    """Wait until a trace has started: its cache counts as memory of requests."""
    until = time.time() + PATIENCE
    while gauge(server, "lamina_request_memory_bytes") < 1 << 20:
        assert time.time() < until
        time.sleep(0.02)


def test_traces_wait_for_each_other_and_stop_nothing_else(build, model):
    """One is traced, 16 wait, the others are rejected; all that leave make room."""
    s = Server(build, "-c", 8192, "--metrics").ready()
    connections = [send_trace(s, LONG) for _ in range(30)]
    rejected, until = set(), time.time() + PATIENCE
    while len(rejected) < 13 and time.time() < until:
        rejected |= set(select.select(connections, [], [], 0.1)[0])
    assert len(rejected) in (13, 14)                     # the first of them may not have been taken yet
    for c in rejected:
        got = c.recv(65536)
        assert refused(got) and b"\r\nRetry-After: " in got, got
    wait_for_trace(s)
    assert s.post("/tokenize", {"content": PARIS})[0] == 200
    assert s.post("/v1/completions", GREEDY)[0] == 200
    assert not set(select.select(connections, [], [], 0)[0]) - rejected
    for c in connections:
        c.close()
    assert answer(s, {"prompt": PARIS, "max_tokens": 2}, "/v1/trace")["usage"]["completion_tokens"] == 2
    assert s.close() == 0


def test_a_trace_that_runs_is_finished_before_the_server_ends(build, model):
    s = Server(build, "-c", 1024, "--metrics", "--drain-timeout", 10 * PATIENCE).ready()
    connection = send_trace(s, {"ids": [504] * 8, "max_tokens": 300})
    wait_for_trace(s)
    s.process.send_signal(signal.SIGTERM)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 200") and b'"object":"trace"' in received, received[:400]
    assert s.process.wait(PATIENCE) == 0
    s.reader.join(PATIENCE)


def test_a_trace_has_the_time_of_a_request(build, model):
    s = Server(build, "-c", 8192, "--timeout", 1).ready()
    status, got, headers = s.post("/v1/trace", LONG)
    assert status == 503 and got["error"]["param"] == "deadline" and headers["Retry-After"], got
    assert s.close() == 0


def test_an_output_that_is_traced_ends_with_the_time_to_drain(build, model):
    s = Server(build, "-c", 8192, "--drain-timeout", 0.2).ready()
    connection = s.stream(GREEDY | {"max_tokens": 8000, "ignore_eos": True, "trace": {"lens": 1}})
    while b'"trace"' not in connection.recv(65536):
        pass
    s.process.send_signal(signal.SIGTERM)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"shutting down" in received and received.count(b'"trace"') < 7000
    assert s.process.wait(PATIENCE) == 0
    s.reader.join(PATIENCE)


def test_a_trace_ends_when_the_server_shuts_down(build, model):
    s = Server(build, "-c", 8192, "--drain-timeout", 1, "--metrics").ready()
    connection = send_trace(s, LONG)
    wait_for_trace(s)
    s.process.send_signal(signal.SIGTERM)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 503") and b"shutting down" in received, received
    assert s.process.wait(PATIENCE) == 0
    s.reader.join(PATIENCE)
