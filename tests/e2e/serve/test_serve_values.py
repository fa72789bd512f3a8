"""Tables of values that a field may have at its edges: limits of 0, null and -1, empty stop strings, numbers beyond 64 bits, schemas of tools,
and what a folder of models may hold."""
import contextlib
import json
import os
import shutil
import struct

import pytest
from conftest import MODEL, SOURCE
from servers import Server

TALK = [{"role": "user", "content": "Count to a hundred."}]
CONTEXT, DEFAULT = 256, 6


@pytest.fixture(scope="module")
def server(build, model):
    flags = ["-c", CONTEXT, "-n", DEFAULT, "--temp", 0, "--embeddings", "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja"]
    with contextlib.closing(Server(build, *flags).ready()) as s:
        yield s


# The path, the body, the member, where the number of tokens is, and its members as each API documents them: OpenAI and Anthropic from 1 on
# (llama-server takes 0 and -1 on OpenAI's routes), llama.cpp 0: none, -1: no limit, ollama also -2. `None`: 400.
CHAT, TEXT = {"messages": TALK, "ignore_eos": True}, {"prompt": "One two three", "ignore_eos": True}
FULL = "the rest of the context"
TOKENS = [
    ("/v1/chat/completions", CHAT, "max_tokens", ("usage", "completion_tokens"), {0: 0, None: DEFAULT, -1: FULL, -2: None}),
    ("/v1/chat/completions", CHAT, "max_completion_tokens", ("usage", "completion_tokens"), {0: 0, None: DEFAULT, -1: FULL, -2: None}),
    ("/v1/completions", TEXT, "max_tokens", ("usage", "completion_tokens"), {None: 16, -1: FULL, -2: None}),
    ("/completion", TEXT, "n_predict", ("tokens_predicted",), {0: 0, None: DEFAULT, -1: FULL, -2: None}),
    ("/v1/responses", {"input": "Count.", "ignore_eos": True}, "max_output_tokens", ("usage", "output_tokens"), {0: None, None: DEFAULT, -1: None}),
    ("/v1/messages", CHAT, "max_tokens", ("usage", "output_tokens"), {0: None, None: None, -1: None}),
    ("/api/chat", {"messages": TALK, "stream": False}, "num_predict", ("eval_count",), {0: 0, None: DEFAULT, -1: FULL, -2: FULL, -3: None}),
    ("/api/generate", {"prompt": "Count.", "stream": False}, "num_predict", ("eval_count",), {0: 0, None: DEFAULT, -1: FULL, -2: FULL, -3: None}),
]


def with_member(path, body, member, value):
    if path.startswith("/api/"):
        return body | {"options": {member: value, "ignore_eos": True}}
    return body | {member: value}


@pytest.mark.parametrize("path, body, member, at, rows", TOKENS, ids=[f"{t[0]} {t[2]}" for t in TOKENS])
def test_limits_of_generated_tokens(server, path, body, member, at, rows):
    for value, expected in rows.items():
        status, answer, _ = server.post(path, with_member(path, body, member, value))
        if expected is None:
            assert status == 400 and f"'{member}'" in json.dumps(answer), (value, answer)
            continue
        n = answer
        for step in at:
            n = n[step]
        assert status == 200 and (CONTEXT - 60 < n < CONTEXT if expected == FULL else n == expected), (value, n)


STOPS = [("/v1/chat/completions", CHAT, "stop"), ("/v1/completions", TEXT, "stop"), ("/completion", TEXT, "stop"), ("/v1/messages", CHAT, "stop_sequences"),
         ("/api/chat", {"messages": TALK, "stream": False}, "stop"), ("/api/generate", {"prompt": "Count.", "stream": False}, "stop")]


@pytest.mark.parametrize("path, body, member", STOPS, ids=[f"{s[0]}" for s in STOPS])
def test_stop_strings_that_stop_nothing(server, path, body, member):
    """null, an empty list and an empty string are as if the field were missing; a list may have no other type than strings."""
    def answer(value):
        limit = {"max_tokens": 5, "n_predict": 5} if not path.startswith("/api/") else {}
        return server.post(path, with_member(path, body | limit, member, value))

    def texts(got):
        for name in ("id", "created", "created_at", "timings", "generation_settings", "warnings"):
            got.pop(name, None)
        return {k: v for k, v in got.items() if not k.endswith("_duration")}
    plain = server.post(path, with_member(path, body | ({"max_tokens": 5, "n_predict": 5} if not path.startswith("/api/") else {}), "seed", 1))
    empty = [None, [], [""]] + ([""] if member == "stop" else [])
    for value in empty:
        got = answer(value)
        assert got[0] == 200 == plain[0] and texts(dict(got[1])).get("choices") == texts(dict(plain[1])).get("choices"), (value, got)
        assert texts(dict(got[1])).get("content") == texts(dict(plain[1])).get("content")
    for value in ([None], [1], 7, {}, ["a", None]):
        got = answer(value)
        assert got[0] == 400 and f"'{member}'" in json.dumps(got[1]), (value, got)


BEYOND = ["18446744073709551617", "9223372036854775808", "-9223372036854775809", "1e400", "-1e400"]


def test_numbers_beyond_64_bits_are_named_in_every_numeric_member(server):
    described, given = server.get("/openapi.json")[1]["paths"], {"messages": TALK, "prompt": "a", "input": "a", "content": "a", "tokens": [1], "query": "a",
                                                                 "documents": ["a"], "max_tokens": 1}
    count = 0
    for path, methods in described.items():
        schema = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        members = schema.get("properties", {})
        base = {k: given[k] for k in schema.get("required", []) if k in given}
        base |= {k: given[k] for k in ("messages", "prompt", "input", "content") if k in members and not base.keys() & {"messages", "prompt", "input", "content"}}
        for name in [m for m, x in members.items() if x.get("type") in ("integer", "number")]:
            rest = json.dumps({k: v for k, v in base.items() if k != name})[1:]
            for number in BEYOND:
                status, got, _ = server.ask("POST", path.replace("{id}", "0"), f'{{"{name}": {number}' + (", " if rest != "}" else "") + rest)
                assert status == 400 and name in json.dumps(got), (path, name, number, got)
                count += 1
    assert count > 1000


@pytest.mark.parametrize("path, member, name", [
    ("/api/chat", '"options": {{"temperature": {}}}', "temperature"), ("/api/chat", '"options": {{"num_predict": {}}}', "num_predict"),
    ("/api/chat", '"options": {{"num_keep": {}}}', "num_keep"), ("/v1/messages", '"thinking": {{"type": "enabled", "budget_tokens": {}}}', "budget_tokens"),
    ("/v1/chat/completions", '"logit_bias": {{"5": {}}}', "logit_bias"), ("/v1/chat/completions", '"stop_token_ids": [{}]', "stop_token_ids"),
    ("/v1/chat/completions", '"lora": [{{"id": {}, "scale": 1}}]', "lora")])
def test_numbers_beyond_64_bits_within_members(server, path, member, name):
    for number in BEYOND:
        status, got, _ = server.ask("POST", path, f'{{"messages": {json.dumps(TALK)}, "max_tokens": 1, "stream": false, {member.format(number)}}}')
        assert status == 400 and name in json.dumps(got), (number, got)


def test_an_idle_time_beyond_any_calendar(build, model, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.gguf").symlink_to(MODEL)
    s = Server(build, "-c", 64, "--models-dir", tmp_path, model=None).ready()
    for number in BEYOND:
        status, got, _ = s.ask("POST", "/api/generate", f'{{"model": "one", "prompt": "a", "stream": false, "keep_alive": {number}, "options": {{"num_predict": 1}}}}')
        assert status in (200, 400) and s.get("/api/ps")[0] == 200, got
    assert s.close() == 0


FINE = {"type": "function", "function": {"name": "fine", "parameters": {"type": "object", "properties": {}}}}
WRONG = [({"parameters": "x"}, "parameters must be"), ({"parameters": [1]}, "parameters must be"), ({"description": 3}, "description must be"),
         ({"name": "fine"}, "another tool has the same name"), ({"parameters": {"type": "objekt"}, "strict": True}, "parameters: #/type"),
         ({"parameters": {"type": "object", "properties": {"x": {"type": 7}}}, "strict": True}, "parameters: #/properties/x/type"),
         ({"parameters": {"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}, "strict": True}, "parameters: #/properties/x/pattern"),
         ({"parameters": {"type": "object", "properties": {"x": {"$ref": "#/none"}}}, "strict": True}, "parameters: #/properties/x/$ref")]


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "ollama"])
@pytest.mark.parametrize("wrong, why", WRONG, ids=[w[1] + str(i) for i, w in enumerate(WRONG)])
def test_errors_in_tools_name_the_tool(server, dialect, wrong, why):
    tools = [FINE, FINE | {"function": FINE["function"] | {"name": "other"}}, {"type": "function", "function": {"name": "get_weather"} | wrong}]
    name = wrong.get("name", "get_weather")
    if dialect == "responses":
        tools = [{"type": "function", **t["function"]} for t in tools]
    if dialect == "messages":
        tools = [{**{k: v for k, v in t["function"].items() if k != "parameters"}, "input_schema": t["function"].get("parameters", {"type": "object"})} for t in tools]
    path = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages", "ollama": "/api/chat"}[dialect]
    body = {"input": "Hi"} if dialect == "responses" else {"messages": TALK}
    status, got, _ = server.post(path, body | {"tools": tools, "max_tokens": 8, "stream": False})
    text = got["error"] if dialect == "ollama" else got["error"]["message"]
    assert status == 400 and text.startswith(f'tools[2] "{name}": {why}'), got


def gguf(path, **keys):
    """Write a GGUF file without tensors, with these keys."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    values = b"".join(text(k) + (struct.pack("<I", 8) + text(v) if isinstance(v, str) else struct.pack("<IH", 2, v)) for k, v in keys.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + values)


def test_odd_entries_of_a_folder_of_models_are_named(build, model, tmp_path):
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    for name in ("good", "sub/inner"):
        (folder / f"{name}.gguf").symlink_to(MODEL)
    shutil.copytree(SOURCE / "tests/golden/rerank", folder / "weights")
    odd = {"broken.gguf": "No such file", "loop.gguf": "symbolic links", "pipe.gguf": "not a regular file", "zero.gguf": "0 bytes are too few",
           "junk.gguf": "GGUF", "cut.gguf": "left", "adapter.gguf": "an adapter, not a model", "lora": "adapter: serve its base model with --lora", "config": "model_type: missing",
           "part-00001-of-00002.gguf": "part-00002-of-00002.gguf", "sub/link.gguf": "No such file"}
    (folder / "broken.gguf").symlink_to("/nonexistent")
    (folder / "sub/link.gguf").symlink_to("/nonexistent")
    (folder / "loop.gguf").symlink_to("loop.gguf")
    os.mkfifo(folder / "pipe.gguf")
    (folder / "zero.gguf").write_bytes(b"")
    (folder / "junk.gguf").write_text("junk")
    (folder / "cut.gguf").write_bytes(MODEL.read_bytes()[:100000])
    gguf(folder / "adapter.gguf", **{"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"})
    gguf(folder / "part-00001-of-00002.gguf", **{"general.architecture": "llama", "split.no": 0, "split.count": 2})
    for name in ("lora", "config"):
        (folder / name).mkdir()
    (folder / "lora/adapter_config.json").write_text("{}")
    (folder / "config/config.json").write_text("{}")
    (folder / "readme.txt").write_text("")
    (folder / "empty").mkdir()
    s = Server(build, "-c", 64, "--models-dir", folder, model=None).ready()
    for name, why in odd.items():
        lines = [line for line in s.log if f"{folder}/{name} is passed over: " in line]
        assert len(lines) == 1 and why in lines[0], (name, lines, s.log)
    assert any("passed over, no model" in line and f"{folder}/empty" in line and f"{folder}/readme.txt" in line for line in s.log)
    assert {m["id"] for m in s.get("/v1/models")[1]["data"]} == {"good", "inner", "weights"}
    for name in ("good", "inner"):
        assert s.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1})[0] == 200
    assert s.close() == 0
