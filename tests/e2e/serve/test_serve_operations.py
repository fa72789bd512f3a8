"""What operators of a server rely on: Prometheus metrics, orderly shutdown, an enforced context limit, conversations found in the cache."""
import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import time

import pytest
from conftest import PATIENCE
from prometheus_client.parser import text_string_to_metric_families
from test_serve import Server

TALK = [{"role": "user", "content": "Tell me about rivers, lakes and seas. " * 20}]
DURATIONS = {"lamina_queue_seconds": "vllm:request_queue_time_seconds", "lamina_prompt_seconds": "vllm:request_prefill_time_seconds",
             "lamina_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
             "lamina_inter_token_seconds": "vllm:inter_token_latency_seconds", "lamina_generation_seconds": "vllm:request_decode_time_seconds",
             "lamina_request_seconds": "vllm:e2e_request_latency_seconds"}


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 2048, "--metrics", "--temp", 0, "--alias", "demo").ready()
    yield s
    assert s.close() == 0


def histograms(server):
    """Return by name: buckets as (bound, count), sum, count."""
    found = {}
    for f in text_string_to_metric_families(server.get("/metrics")[1].decode()):
        if f.type == "histogram":
            assert all(x.labels["model_name"] == "demo" for x in f.samples)
            found[f.name] = ([(float(x.labels["le"]), x.value) for x in f.samples if x.name.endswith("_bucket")],
                             *(next(x.value for x in f.samples if x.name == f.name + end) for end in ("_sum", "_count")))
    return found


def test_durations_are_histograms(server):
    before = histograms(server)
    assert set(before) == set(DURATIONS) | set(DURATIONS.values())
    n = 3
    for i in range(n):
        assert server.post("/v1/completions", {"prompt": f"Day {i}:", "max_tokens": 10, "ignore_eos": True})[0] == 200
    after = histograms(server)
    for ours, theirs in DURATIONS.items():
        buckets, total, count = after[ours]
        assert after[theirs] == after[ours]
        assert count - before[ours][2] == (9 * n if "inter_token" in ours else n), ours
        assert buckets[-1] == (float("inf"), count) and buckets == sorted(buckets) and [x for _, x in buckets] == sorted(x for _, x in buckets)
        least = sum(low * (b - a) for (low, a), (_, b) in zip(buckets, buckets[1:]))        # each value is above the bound before its own
        assert least * 0.99 <= total and total >= 0
    parts = sum(after[x][1] - before[x][1] for x in ("lamina_queue_seconds", "lamina_prompt_seconds", "lamina_generation_seconds"))
    assert parts == pytest.approx(after["lamina_request_seconds"][1] - before["lamina_request_seconds"][1], rel=1e-3, abs=1e-4)


def test_an_answer_ends_at_the_end_of_the_context(server):
    """Prompt and output together have at most as many tokens as the context, and fill it; a prompt that leaves no token is too long."""
    status, answer, _ = server.post("/v1/completions", {"prompt": [100] * 1950, "ignore_eos": True, "max_tokens": 3000})
    assert status == 200 and answer["usage"]["total_tokens"] == 2048 and answer["choices"][0]["finish_reason"] == "length"
    for n, most in ((2047, 1), (2046, 2)):
        status, answer, _ = server.post("/v1/completions", {"prompt": [100] * n, "ignore_eos": True, "max_tokens": 8})
        assert status == 200 and answer["usage"]["completion_tokens"] == most
    status, answer, _ = server.post("/v1/completions", {"prompt": [100] * 2048, "max_tokens": 1})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded" and answer["error"]["n_ctx"] == 2048
    assert server.post("/v1/completions", {"prompt": [100] * 2048, "max_tokens": 0, "echo": True, "logprobs": 1})[0] == 200


def test_a_growing_conversation_reuses_its_whole_prefix(server):
    """The full pages of 64 tokens of everything processed and generated before are cached. `cache` shows the text where the rest begins."""
    messages, past = list(TALK), 0
    for turn in range(4):
        answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 70, "explain_cache": True})[1]
        usage, cache = answer["usage"], answer["cache"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert cached == cache["cached_tokens"] and cached >= (past - 1) // 64 * 64 and cache["prompt"]
        assert not turn or cache["before"]
        past = usage["total_tokens"]
        messages += [answer["choices"][0]["message"], {"role": "user", "content": f"Go on. What else, {turn}?"}]


def test_the_cache_reports_where_prompts_differ(server):
    ask = "The quick brown fox jumps over the lazy dog. " * 20
    assert server.post("/v1/completions", {"prompt": ask + "One more line about a whale." * 20, "max_tokens": 1})[0] == 200
    other = ask.replace("lazy dog", "lazy cat", 10).replace("lazy cat", "lazy dog", 9)
    for stream in (False, True):
        status, answer, _ = server.post("/v1/completions", {"prompt": other, "max_tokens": 1, "explain_cache": True, "stream": stream})
        assert status == 200
        if stream:
            answer = next(e for e in (json.loads(x[6:]) for x in answer.decode().split("\n\n") if x.startswith("data: {")) if "cache" in e)
        cache = answer["cache"]
        if not stream:
            assert cache["cached"].startswith(" dog") and cache["prompt"].startswith(" cat") and cache["before"].endswith(" lazy")
        assert cache["same_tokens"] >= cache["cached_tokens"]


def test_requests_during_shutdown_get_retry_after(build, model):
    """A request, also one on a new connection, gets 503 and Retry-After until the last running request has ended."""
    s = Server(build, "-c", 8192, "--drain-timeout", PATIENCE).ready()
    with s.stream({"prompt": "On and on", "max_tokens": 8000, "ignore_eos": True}) as running:
        assert running.recv(100)
        s.process.send_signal(signal.SIGTERM)
        s.wait_for("shutting down: waiting")
        until = time.monotonic() + PATIENCE                  # the line is printed a moment before requests are rejected
        while s.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] != 503 and time.monotonic() < until:
            pass
        for path, body in (("/v1/completions", {"prompt": "a"}), ("/api/generate", {"model": "m", "prompt": "a"}), ("/v1/messages", {})):
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=PATIENCE)
            c.request("POST", path, json.dumps(body))
            r = c.getresponse()
            assert r.status == 503 and int(r.getheader("Retry-After")) > 0, r.read()
            c.close()
    assert s.process.wait(PATIENCE) == 0                 # its client has disconnected: the last request has ended


def test_a_half_closed_client_gets_immediate_answers(server):
    """Whether the client still reads cannot be known: a generation ends, as when a client disconnects."""
    def answer(method, path, body=b""):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as c:
            c.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            c.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: c.recv(65536), b""))

    assert answer("GET", "/health").startswith(b"HTTP/1.1 200 ")
    assert answer("POST", "/tokenize", json.dumps({"content": "a " * 10000}).encode()).startswith(b"HTTP/1.1 200 ")
    assert answer("POST", "/v1/completions", b'{"prompt": 1.5}').startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200 " not in answer("POST", "/v1/completions", b'{"prompt": "On and on", "max_tokens": 1900, "ignore_eos": true}')
    until = time.monotonic() + PATIENCE
    while (processing := any(x["is_processing"] for x in server.get("/slots")[1])) and time.monotonic() < until:
        pass
    assert not processing                                    # once: requests that earlier tests left may be next


def test_more_sequences_than_rows_of_a_forward_pass(build, model):
    """--ubatch-size limits the rows of a forward pass, not the sequences: those without a row in one wait for the next."""
    s = Server(build, "-c", 128, "--parallel", 8, "-ub", 4, "--temp", 0).ready()
    with concurrent.futures.ThreadPoolExecutor(8) as crowd:
        running = [crowd.submit(s.post, "/v1/completions", {"prompt": f"tale {i}", "max_tokens": 12, "ignore_eos": True}) for i in range(8)]
        assert [r.result()[1]["usage"]["completion_tokens"] for r in running] == [12] * 8
    assert s.close() == 0


def test_requests_that_wait_hold_no_worker(build, model):
    """Requests that wait for the only slot, for scores, vectors or completions, hold neither of the two workers. What needs a worker is
    answered before the slot is free."""
    s = Server(build, "-c", 4096, "--parallel", 1, "--embeddings").ready()
    waiting = []
    with s.stream({"prompt": "On and on", "max_tokens": 4000, "ignore_eos": True}) as first:
        assert first.recv(4096).startswith(b"HTTP/1.1 200")                # it has the slot
        for path, body in [("/v1/completions", {"prompt": ["a b", "c d"], "echo": True, "logprobs": 1, "max_tokens": 0}), ("/v1/embeddings", {"input": ["a", "b"]}),
                           ("/v1/completions", {"prompt": "a", "max_tokens": 1})] * 2:
            text = json.dumps(body)
            waiting.append(socket.create_connection(("127.0.0.1", s.port)))
            waiting[-1].sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        assert s.post("/tokenize", {"content": "a"})[0] == 200
        first.setblocking(False)
        seen = b""
        with contextlib.suppress(BlockingIOError):                         # everything received: the stream has not ended
            while more := first.recv(1 << 20):
                seen += more
        assert b"[DONE]" not in seen
    for w in waiting:
        w.close()
    assert s.close() == 0
