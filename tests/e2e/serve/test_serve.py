"""lamina serve: real clients, concurrent requests and misbehaving clients."""
import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import time

import anthropic
import ollama
import openai
import pytest
from conftest import MODEL, PATIENCE, SANITIZED, explains, run
from prometheus_client.parser import text_string_to_metric_families
from servers import ENDS, Server, raw


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "--metrics", "--embeddings", "-c", 1024, "--temp", 0, "--alias", "demo").ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


QUESTION = [{"role": "user", "content": "What is water made of?"}]


# ---- OpenAI's client ----

def test_openai_chat_equals_run(client, lamina):
    reply = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=24)
    alone = run(lamina, "run", MODEL, "--chat", "-p", QUESTION[0]["content"], "-n", 24, "--temp", 0)
    assert reply.choices[0].message.content == alone.stdout.rstrip("\n")
    assert reply.choices[0].finish_reason == "length" and reply.usage.completion_tokens == 24
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 24 and reply.system_fingerprint.startswith("b")
    assert reply.choices[0].message.role == "assistant" and reply.id.startswith("chatcmpl-")


def test_openai_streams_are_the_same_text(client):
    whole = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=24)
    events = list(client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=24, stream=True,
                                                 stream_options={"include_usage": True}))
    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices) == whole.choices[0].message.content
    assert events[0].choices[0].delta.role == "assistant" and events[-2].choices[0].finish_reason == "length"
    assert events[-1].usage.completion_tokens == 24 and not events[-1].choices
    assert all(e.choices[0].delta.content != "" for e in events[1:-2])


def test_openai_completions_score_a_prompt(client):
    text = "The capital of France is Paris, and"
    scored = client.completions.create(model="demo", prompt=text, max_tokens=0, echo=True, logprobs=1)
    p = scored.choices[0].logprobs
    assert scored.choices[0].text == text and p.token_logprobs[0] is None and p.top_logprobs[0] is None
    assert all(max(top.values()) >= at for top, at in zip(p.top_logprobs[1:], p.token_logprobs[1:]))
    assert "".join(p.tokens) == text and p.text_offset == [len("".join(p.tokens[:i])) for i in range(len(p.tokens))]


def test_openai_completions_of_many_prompts_are_in_order(client):
    prompts = ["One, two, three,", "The sun is", "Roses are red,"]
    together = client.completions.create(model="demo", prompt=prompts, max_tokens=8, n=2, temperature=0.9, seed=7)
    assert [c.index for c in together.choices] == list(range(6))
    for i, prompt in enumerate(prompts):
        alone = client.completions.create(model="demo", prompt=prompt, max_tokens=8, n=2, temperature=0.9, seed=7)
        assert [c.text for c in alone.choices] == [c.text for c in together.choices[2 * i:2 * i + 2]]


def test_openai_embeddings(client, lamina):
    both = client.embeddings.create(model="demo", input=["water", "a lamp"])
    plain = client.embeddings.create(model="demo", input="a lamp", encoding_format="float")
    assert both.data[1].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert sum(x * x for x in plain.data[0].embedding) == pytest.approx(1, abs=1e-5)


def test_openai_errors_have_their_classes(client):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "word " * 2000}])
    assert e.value.code == "context_length_exceeded" and e.value.body["n_ctx"] == 1024 and e.value.body["n_prompt_tokens"] > 1024
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")
    assert client.models.list().data[0].id == "demo"


def test_log_probabilities_arrive_with_their_text(client):
    whole = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=12, logprobs=True, top_logprobs=3)
    content = whole.choices[0].logprobs.content
    assert "".join(t.token for t in content) == whole.choices[0].message.content
    assert all(len(t.top_logprobs) == 3 and t.top_logprobs[0].logprob >= t.logprob for t in content)
    assert all(bytes(t.bytes).decode() == t.token for t in content)
    received = []
    for e in client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=12, logprobs=True, top_logprobs=3, stream=True):
        received += (e.choices[0].logprobs.content if e.choices[0].logprobs else [])
    assert [t.logprob for t in received] == [t.logprob for t in content]


# ---- concurrent requests ----

def test_the_same_request_has_the_same_answer_under_load(server):
    asks = [{"prompt": f"{i} lamps and {i * 7} moths: the story of", "max_tokens": 6 + i % 11, "temperature": (i % 3) / 2, "seed": i}
            for i in range(12 if SANITIZED else 32)]
    alone = [server.post("/v1/completions", a)[1]["choices"][0]["text"] for a in asks]
    with concurrent.futures.ThreadPoolExecutor(32) as crowd:
        together = list(crowd.map(lambda a: server.post("/v1/completions", a)[1]["choices"][0]["text"], asks * 2))
    assert together == alone * 2


def test_prefixes_are_cached_and_change_nothing(server):
    messages = [{"role": "system", "content": "You keep a lighthouse. " * 20}, {"role": "user", "content": "Who are you?"}]
    first = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8})[1]
    again = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8})[1]
    cold = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "cache_prompt": False})[1]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64 and cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert first["choices"] == again["choices"] == cold["choices"]


def test_disconnected_clients_free_their_resources(server):
    """Clients that disconnect free their descriptors and slots. Once their connections are closed, no request of theirs can arrive, so idle
    slots stay idle."""
    def wait_until(condition):
        end = time.time() + PATIENCE
        while not condition():
            assert time.time() < end
            time.sleep(0.02)
    idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)     # an older connection that stays
    idle.request("GET", "/health")
    idle.getresponse().read()
    before = server.descriptors()
    for _ in range(3):
        gone = [server.stream({"prompt": f"tale {i}", "max_tokens": 500, "ignore_eos": True}) for i in range(20 if SANITIZED else 100)]
        time.sleep(0.2)
        for s in gone:
            s.close()
        wait_until(lambda: server.descriptors() <= before + 2)
        wait_until(lambda: not any(s["is_processing"] for s in server.get("/slots")[1]))
    idle.close()


def test_a_stalled_reader_delays_no_client(server):
    slow = [server.stream({"prompt": "On and on", "max_tokens": 900, "ignore_eos": True}) for _ in range(4)]
    answer = server.post("/v1/completions", {"prompt": "Quick:", "max_tokens": 4})[1]
    assert answer["usage"]["completion_tokens"] <= 4
    for s in slow:
        s.close()


# ---- rejected requests ----

BAD = [
    ("/v1/completions", "{", 400, None), ("/v1/completions", "[]", 400, None), ("/v1/completions", "{}", 400, "prompt"),
    ("/v1/completions", '{"prompt": "x", "prompt": "y"}', 400, None), ("/v1/completions", "[" * 70 + "]" * 70, 400, None),
    ("/v1/completions", {"prompt": ""}, 400, "prompt"), ("/v1/completions", {"prompt": [99999999]}, 400, "prompt"),
    ("/v1/completions", {"prompt": [-1]}, 400, "prompt"), ("/v1/completions", {"prompt": {}}, 400, "prompt"),
    ("/v1/completions", {"prompt": "x", "n": 9}, 400, "n"), ("/v1/completions", {"prompt": "x", "n": 1e9}, 400, "n"),
    ("/v1/completions", {"prompt": "x", "n": 0}, 400, "n"), ("/v1/completions", {"prompt": "x", "n": 4, "best_of": 3}, 400, "best_of"),
    ("/v1/completions", {"prompt": "x", "temperature": "hot"}, 400, "temperature"),
    ("/v1/completions", {"prompt": "x", "temperature": -1}, 400, "temperature"),
    ("/v1/completions", '{"prompt": "x", "temperature": 1e400}', 400, "temperature"),
    ("/v1/completions", {"prompt": "x", "top_k": 2 ** 31}, 400, "top_k"), ("/v1/completions", {"prompt": "x", "top_k": 1.5}, 400, "top_k"),
    ("/v1/completions", {"prompt": "x", "max_tokens": "many"}, 400, "max_tokens"), ("/v1/completions", {"prompt": "x", "max_tokens": 0}, 400, "max_tokens"),
    ("/v1/completions", {"prompt": "x", "stop": [5]}, 400, "stop"), ("/v1/completions", {"prompt": "x", "stop": ["a"] * 257}, 400, "stop"),
    ("/v1/completions", {"prompt": "x", "logit_bias": {"x": "much"}}, 400, "logit_bias"),
    ("/v1/completions", {"prompt": "x", "logit_bias": {"99999999": 1}}, 400, "logit_bias"),
    ("/v1/completions", {"prompt": "x", "suffix": "y"}, 400, "suffix"), ("/v1/completions", {"prompt": "x", "lora": [{"id": 0}]}, 400, "lora"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages"), ("/v1/chat/completions", {"messages": ["x"]}, 400, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "king", "content": "x"}]}, 400, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": 5}]}, 400, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400, "messages"),
    ("/v1/chat/completions", {"messages": QUESTION, "top_logprobs": 3}, 400, "top_logprobs"),
    ("/v1/chat/completions", {"messages": QUESTION, "response_format": {"type": "nonsense"}}, 400, "response_format"),
    ("/v1/completions", {"prompt": "x", "guided_json": {"type": "null"}, "json_schema": {"type": "integer"}}, 400, "guided_json"),
    ("/v1/completions", {"prompt": "x", "guided_grammar": 'root ::= "a"', "grammar": 'root ::= "b"'}, 400, "guided_grammar"),
    ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 2, "max_completion_tokens": 3}, 400, "max_tokens"),
    ("/v1/embeddings", {"input": "x", "encoding_format": "roman"}, 400, "encoding_format"),
    ("/v1/embeddings", {"input": "x", "dimensions": 5000}, 400, "dimensions"), ("/v1/embeddings", {"input": []}, 400, "input"),
    ("/detokenize", {"tokens": ["x"]}, 400, "tokens"), ("/slots/99?action=erase", {}, 400, "id_slot"), ("/nowhere", {}, 404, None),
]


@pytest.mark.parametrize("path,body,status,param", BAD)
def test_bad_requests_name_the_field(server, path, body, status, param):
    got, answer, _ = server.post(path, body)
    assert (got, answer["error"]["param"]) == (status, param), answer
    assert answer["error"]["message"] and "\n" not in answer["error"]["message"]


@pytest.mark.parametrize("text,status", [
    (b"GET /health HTTP/1.1\r\n\r\n", 400), (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    (b"POST /tokenize HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\n{}", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9437184\r\n\r\n", 413),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100000 + b"\r\n\r\n", 431),
    (b"PUT /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
    (b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403),
    (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403),
    (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:9\r\n\r\n", 403),
    (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n", 403),
    (b"GET /v1/models HTTP/1.1\r\nHost: evil://localhost\r\n\r\n", 403),
    (b"POST /tokenize%00x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 404),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n{}", 501),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + b"[" * (1 << 20) + b"\r\n" * 9, 400),
    (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"[" * (1 << 20) + b"\r\n") * 9, 413),
], ids=lambda v: str(v)[:60])
def test_malformed_requests(server, text, status):
    answer = raw(server, text, 2)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert server.get("/health")[0] == 200


def test_brackets_in_strings_do_not_count_as_depth(server):
    text = '\x1b[31m"[{' * 200
    assert server.post("/tokenize", {"content": text})[0] == 200
    deep = '{"content": "\\"", "other": ' + "[" * 65 + "]" * 65 + "}"
    head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(deep)}\r\n\r\n"
    assert b"has 66 nested levels of arrays and objects; at most 64 are allowed" in raw(server, (head + deep).encode(), 2)


def test_a_byte_order_mark_before_a_body_is_no_error(server):
    assert server.post("/tokenize", b'\xef\xbb\xbf{"content": "hi"}')[1] == server.post("/tokenize", {"content": "hi"})[1]


def test_a_client_that_closes_its_end_gets_immediate_answers(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n" + b'{"content":"hi"}')
        s.shutdown(socket.SHUT_WR)
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_names_of_a_server(build):
    def status(s, host, key=None):
        return s.ask("GET", "/v1/models", headers={"Host": host} | ({"Authorization": f"Bearer {key}"} if key else {}))[0]
    s = Server(build, "-c", 512, "--allowed-host", "llm.example.com", "--allowed-host", "two.example:8443").ready()
    assert [status(s, h) for h in ("localhost", "llm.example.com", "LLM.example.com:443", "two.example:8443", "two.example", "evil.example")] == [
        200, 200, 200, 200, 403, 403]
    assert s.close() == 0
    s = Server(build, "-c", 512, "--api-key", "k").ready()
    assert [status(s, "llm.example.com", "k"), status(s, "llm.example.com")] == [200, 401]
    assert s.close() == 0


def test_unknown_fields_are_reported(server):
    answer = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "frobnicate": 1, "user": "me"})[1]
    assert any("frobnicate" in w for w in answer["warnings"]) and any("user" in w for w in answer["warnings"])


# ---- llama.cpp's and vLLM's routes ----

def test_tokens_there_and_back(server, lamina):
    text = "Grüße, 世界! <|im_start|>"
    ids = server.post("/tokenize", {"content": text})[1]["tokens"]
    assert ids == json.loads(run(lamina, "tokenize", MODEL, "-p", text, "--json").stdout)["ids"]
    assert server.post("/detokenize", {"tokens": ids})[1]["content"] == text
    assert server.post("/tokenize", {"prompt": text})[1]["count"] >= len(ids)
    pieces = server.post("/tokenize", {"content": text, "with_pieces": True})[1]["tokens"]
    assert [p["id"] for p in pieces] == ids


def test_native_completion(server):
    body = {"prompt": "Once upon a time", "n_predict": 12, "n_probs": 2}
    whole = server.post("/completion", body)[1]
    assert whole["stop"] and whole["stop_type"] == "limit" and whole["tokens_predicted"] == 12 and len(whole["completion_probabilities"]) == 12
    with server.stream({"prompt": "x", "max_tokens": 1}) as s:
        s.recv(10)
    c = http.client.HTTPConnection("127.0.0.1", server.port)
    c.request("POST", "/completion", json.dumps(body | {"stream": True}))
    lines = [json.loads(line[6:]) for line in c.getresponse().read().decode().split("\n\n") if line]
    assert "".join(line["content"] for line in lines) == whole["content"] and lines[-1]["stop"] and not lines[0]["stop"]


def test_properties_and_template(server):
    props = server.get("/props")[1]
    assert props["default_generation_settings"]["n_ctx"] == 1024 and props["total_slots"] == 16 and ".gguf" in props["model_path"]
    rendered = server.post("/apply-template", {"messages": QUESTION})[1]["prompt"]
    assert QUESTION[0]["content"] in rendered and rendered.endswith("<|im_start|>assistant\n")
    assert server.get("/tokenizer_info")[1]["eos_token"] == "<|im_end|>"


def test_metrics_parse(server):
    families = {f.name: f for f in text_string_to_metric_families(server.get("/metrics")[1].decode())}
    assert {"lamina_steps", "llamacpp:prompt_tokens", "vllm:generation_tokens", "vllm:num_requests_running"} <= set(families)
    assert families["lamina_steps"].samples[0].value > 0


def test_routes_are_described(server):
    described = server.get("/openapi.json")[1]
    assert described["servers"] == [{"url": "/"}]
    assert described["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"] == ["messages"]
    for path in described["paths"]:
        assert server.ask("PATCH", path.replace("{id}", "0"))[0] == 405, path


# ---- keys, addresses, shutdown ----

def test_keys(build, model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nsecret-one\n\nsecret-two\n")
    s = Server(build, "-c", 256, "--api-key-file", keys).ready()
    assert s.get("/v1/models")[0] == 401 and s.get("/health")[0] == 200
    assert s.get("/v1/models", headers={"Authorization": "Bearer wrong"})[0] == 401
    assert s.get("/v1/models", headers={"Authorization": "Bearer secret-two"})[0] == 200
    assert s.get("/v1/models", headers={"X-Api-Key": "secret-one"})[0] == 200
    assert s.close() == 0
    assert not [line for line in s.log if "secret" in line]


@pytest.mark.parametrize("flags,why", [
    (["--host", "0.0.0.0"], "no API key is set"), (["--host", "300.1.1.1"], "--host"), (["--ssl-key-file", "/dev/null"], "--ssl-cert-file"),
    (["--port", "70000"], "--port"), (["--slots", "--no-slots"], "--slots"),
])
def test_impossible_servers(lamina, model, flags, why):
    done = run(lamina, "serve", model, *flags)
    assert done.returncode == 2 and why in done.stderr.splitlines()[-2:][0] + done.stderr.splitlines()[-1], done.stderr


def test_a_port_that_is_taken(lamina, server, model):
    done = run(lamina, "serve", model, "--port", server.port)
    assert done.returncode == 1 and "cannot listen" in done.stderr


def test_a_unix_socket(build, model, tmp_path):
    path = tmp_path / "s"
    s = Server(build, "-c", 256, "--host", f"unix:{path}")
    until = time.time() + PATIENCE
    answer = b""
    while time.time() < until and b"200 OK" not in answer:
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(str(path))
            c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = c.recv(1000)
    assert b"200 OK" in answer
    assert s.close() == 0 and not path.exists()


def test_shutdown_waits_for_active_requests(build, model):
    s = Server(build, "-c", 1024, "--drain-timeout", 3600).ready()
    with concurrent.futures.ThreadPoolExecutor(4) as crowd:
        running = [crowd.submit(s.post, "/v1/completions", {"prompt": "A long story:", "max_tokens": 150, "ignore_eos": True, "seed": i})
                   for i in range(4)]
        until = time.time() + PATIENCE
        while time.time() < until and sum(x["is_processing"] for x in s.get("/slots")[1]) < 4:
            time.sleep(0.01)
        s.process.send_signal(signal.SIGTERM)
        assert [r.result()[1]["usage"]["completion_tokens"] for r in running] == [150] * 4
    assert s.process.wait(ENDS) == 0


def test_a_second_signal_ends_at_once(build, model):
    s = Server(build, "-c", 8192, "--drain-timeout", 3600).ready()
    requested = s.stream({"prompt": "On and on", "max_tokens": 8000, "ignore_eos": True})
    requested.recv(100)
    s.process.send_signal(signal.SIGTERM)
    s.wait_for("shutting down: waiting")
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(ENDS) == 0
    requested.close()


def test_silent_connections_are_closed(server):
    began = time.time()
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for s in idle:
        s.sendall(b"GET /health HT")
        s.settimeout(PATIENCE)
    assert server.get("/health")[0] == 200
    for s in idle:
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(10) == b""
        s.close()
    assert time.time() - began > 8


@explains
def test_the_document_equals_the_server(lamina, source):
    printed = run(source / "scripts/httpdoc", lamina, "--print")
    assert printed.returncode == 0 and printed.stdout == (source / "docs/server/api.md").read_text(), "scripts/httpdoc PROGRAM writes it again"


# ---- constraints ----

SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}, "required": ["name", "age"],
          "additionalProperties": False}


def test_answers_fit_their_schema(client, server, ollama_client):
    ask = [{"role": "user", "content": "Describe a person as JSON with name and age."}]
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMA}}
    reply = client.chat.completions.create(model="demo", messages=ask, max_completion_tokens=100, response_format=form).choices[0]
    person = json.loads(reply.message.content)
    assert reply.finish_reason == "stop" and set(person) == {"name", "age"} and isinstance(person["age"], int)
    pieces = client.chat.completions.create(model="demo", messages=ask, max_completion_tokens=100, response_format=form, stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == reply.message.content
    assert json.loads(ollama_client.chat(model="demo", messages=ask, format=SCHEMA).message.content) == person
    native = server.post("/completion", {"prompt": "A person:", "json_schema": SCHEMA, "n_predict": 100})[1]
    assert set(json.loads(native["content"])) == {"name", "age"}


def test_constraints_of_other_kinds(server):
    def text(**more):
        return server.post("/v1/completions", {"prompt": "The sky is", "max_tokens": 30} | more)[1]["choices"][0]["text"]

    assert text(guided_choice=["green", "mauve"]) in ("green", "mauve")
    assert text(guided_regex="[0-9]{3}-[0-9]{2}").replace("-", "").isdigit()
    assert text(grammar='root ::= "yes" | "no"') in ("yes", "no")


@pytest.mark.parametrize("more,names", [
    ({"json_schema": {"type": "object", "properties": {"a": {"frobnicate": 1}}}}, "frobnicate"), ({"json_schema": {"type": "nonsense"}}, "type"),
    ({"grammar": "root ::= ("}, ""), ({"guided_regex": "(a"}, ""), ({"guided_choice": [1]}, "element 0"),
    ({"grammar": 'root ::= "a"', "guided_regex": "a"}, "only one"), ({"grammar": "(" * 60000}, ""),
    ({"response_format": {"type": "json_schema"}}, "schema is required"),
])
def test_constraints_that_cannot_be_enforced_are_rejected(server, more, names):
    status, answer, _ = server.post("/v1/completions", {"prompt": "x"} | more)
    assert status == 400 and names in answer["error"]["message"], answer


# ---- ollama's and Anthropic's clients ----

@pytest.fixture(scope="module")
def ollama_client(server):
    return ollama.Client(host=server.url)


def test_ollama_answers_equal_openai(client, ollama_client):
    reply = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=20).choices[0].message.content
    whole = ollama_client.chat(model="demo", messages=QUESTION, options={"num_predict": 20})
    assert whole.message.content == reply and whole.done_reason == "length" and whole.eval_count == 20
    pieces = list(ollama_client.chat(model="demo", messages=QUESTION, options={"num_predict": 20}, stream=True))
    assert "".join(p.message.content for p in pieces) == reply and pieces[-1].done and pieces[-1].prompt_eval_count == whole.prompt_eval_count
    assert ollama_client.generate(model="demo", prompt=QUESTION[0]["content"], options={"num_predict": 20}).response == reply


def test_ollama_generates_raw(server, ollama_client):
    raw_text = ollama_client.generate(model="demo", prompt="Once upon a time", raw=True, options={"num_predict": 10}).response
    assert raw_text == server.post("/completion", {"prompt": "Once upon a time", "n_predict": 10})[1]["content"]


def test_ollama_lists_and_shows_models(ollama_client):
    assert ollama_client.list().models[0].model == "demo" and ollama_client.ps().models[0].model == "demo"
    shown = ollama_client.show("demo")
    assert shown.modelinfo["llama.context_length"] == 1024 and "completion" in shown.capabilities and "im_start" in shown.template
    assert len(ollama_client.embed(model="demo", input=["a", "b"]).embeddings) == 2
    assert ollama_client.generate(model="demo", prompt="").done_reason == "load"


def test_ollama_embeds_by_its_older_route(server, ollama_client):
    """The older route takes one text and returns the model's vector as it is; the vector of the newer route has length 1."""
    new, old = ollama_client.embed("demo", "A cat.").embeddings[0], ollama_client.embeddings("demo", "A cat.").embedding
    length = sum(x * x for x in old) ** 0.5
    assert abs(length - 1) > 0.01 and max(abs(a - b / length) for a, b in zip(new, old, strict=True)) < 1e-6
    assert ollama_client.embeddings("demo", "").embedding == []
    assert list(server.post("/api/embeddings", {"model": "demo", "prompt": "A cat."})[1]) == ["embedding"]


def test_ollama_pulls_an_existing_model(server, ollama_client):
    assert ollama_client.pull("demo").status == "success" and ollama_client.pull("Demo:latest").status == "success"
    assert [x.status for x in ollama_client.pull("demo", stream=True)] == ["success"]
    for stream in (False, True):
        with pytest.raises(ollama.ResponseError) as e:
            list(ollama_client.pull("llama9", stream=stream))
        assert e.value.status_code == 404 and "llama9" in e.value.error and "downloads none" in e.value.error
    assert server.post("/api/pull", {})[0] == 400 and server.post("/api/pull", {"name": "demo", "stream": False})[1] == {"status": "success"}


def test_llama_s_embedding(server, client):
    """llama.cpp's routes return an array with one entry per text, which lists its vectors: with pooling, one."""
    v = client.embeddings.create(model="demo", input=["A cat.", "A dog."], encoding_format="float").data
    for path, field in (("/embedding", "content"), ("/embeddings", "input")):
        status, r, _ = server.post(path, {field: ["A cat.", "A dog."]})
        assert status == 200 and [set(x) for x in r] == [{"index", "embedding"}] * 2 and [x["index"] for x in r] == [0, 1]
        assert [x["embedding"] for x in r] == [[one.embedding] for one in v]
    raw = server.post("/embedding", {"content": "A cat.", "embd_normalize": -1})[1][0]["embedding"][0]
    length = sum(x * x for x in raw) ** 0.5
    assert abs(length - 1) > 0.01 and max(abs(a - b / length) for a, b in zip(v[0].embedding, raw, strict=True)) < 1e-6
    for wrong, field in (({}, "content"), ({"content": "a", "embd_normalize": 0}, "embd_normalize")):
        status, r, _ = server.post("/embedding", wrong)
        assert status == 400 and field in r["error"]["message"] + str(r["error"]["param"])


def test_ollama_errors(ollama_client):
    with pytest.raises(ollama.ResponseError) as e:
        ollama_client.chat(model="demo", messages=QUESTION, options={"temperature": "hot"})
    assert e.value.status_code == 400 and "temperature" in e.value.error
    with pytest.raises(ollama.ResponseError, match="frobnicate"):
        ollama_client.chat(model="demo", messages=QUESTION, format={"frobnicate": 1})


@pytest.fixture(scope="module")
def anthropic_client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def test_anthropic_answers_equal_openai(client, anthropic_client):
    reply = client.chat.completions.create(model="demo", messages=QUESTION, max_completion_tokens=20).choices[0].message.content
    whole = anthropic_client.messages.create(model="demo", max_tokens=20, messages=QUESTION)
    assert whole.content[0].text == reply and whole.stop_reason == "max_tokens" and whole.usage.output_tokens == 20
    with anthropic_client.messages.stream(model="demo", max_tokens=20, messages=QUESTION) as stream:
        assert "".join(stream.text_stream) == reply
        assert stream.get_final_message().stop_reason == "max_tokens"


def test_anthropic_counts_and_caches(anthropic_client):
    system = [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, {"type": "text", "text": "You are a gardener. " * 20}]
    n = anthropic_client.messages.count_tokens(model="demo", system=system, messages=QUESTION).input_tokens
    first = anthropic_client.messages.create(model="demo", max_tokens=4, system=system, messages=QUESTION)
    system[0]["text"] = "x-anthropic-billing-header: cch=2;"
    again = anthropic_client.messages.create(model="demo", max_tokens=4, system=system, messages=QUESTION)
    assert first.usage.input_tokens + first.usage.cache_read_input_tokens == n
    assert again.usage.cache_read_input_tokens >= 64 and again.content == first.content


def test_anthropic_errors(anthropic_client):
    with pytest.raises(anthropic.BadRequestError) as e:
        anthropic_client.messages.create(model="demo", max_tokens=4, messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}])
    assert e.value.body["type"] == "error" and e.value.body["error"]["type"] == "invalid_request_error"
