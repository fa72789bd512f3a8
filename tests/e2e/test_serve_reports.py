"""What users of other servers reported, each as a kind: the number is the public issue that names the right value. Every dialect that has the
kind is asked."""
import json
import re
import shutil

import openai
import pytest
from conftest import SOURCE, run
from test_answers import ASKED
from test_serve import ENDS, Server

SAY = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "-np", 4, "--temp", 0, "--embeddings", "--alias", "demo", "--chat-template-file", SOURCE / "tests/e2e/tools.jinja").ready()
    yield s
    assert s.close() == 0, s.said
    assert not [line for line in s.said if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=ENDS)


def ok(server, path, body):
    status, answer, _ = server.post(path, body)
    assert status == 200, (path, body, answer)
    return answer


def refused(server, path, body):
    """The error's text and the field that it names."""
    status, answer, _ = server.post(path, body)
    assert status == 400, (path, body, answer)
    error = answer["error"]
    message = error if isinstance(error, str) else error["message"]
    return message, (not isinstance(error, str) and error.get("param")) or (message.split("'")[1] if message.startswith("'") else message.split(":")[0])


def text_of(answer):
    """Of an answer in any dialect."""
    if "choices" in answer:
        c = answer["choices"][0]
        return c["text"] if "text" in c else c["message"]["content"]
    if "output" in answer:
        return "".join(p["text"] for item in answer["output"] if item["type"] == "message" for p in item["content"])
    content = answer.get("message", {}).get("content", answer.get("response", answer.get("content")))
    return "".join(p.get("text", "") for p in content) if isinstance(content, list) else content


# Each dialect: where it is asked, what it asks with, and what its name of the most tokens is.
DIALECTS = {
    "chat": ("/v1/chat/completions", {"messages": SAY}, "max_tokens"), "completions": ("/v1/completions", {"prompt": "Hello"}, "max_tokens"),
    "responses": ("/v1/responses", {"input": "Say hello."}, "max_output_tokens"), "messages": ("/v1/messages", {"messages": SAY}, "max_tokens"),
    "native": ("/completion", {"prompt": "Hello"}, "n_predict"), "ollama chat": ("/api/chat", {"messages": SAY, "stream": False}, None),
    "ollama generate": ("/api/generate", {"prompt": "Hello", "stream": False}, None),
}


def body_of(dialect, n=24, **more):
    path, body, most = DIALECTS[dialect]
    body = {**body, "model": "demo", **more}
    if most:
        return path, {**body, most: n}
    return path, {**body, "options": {"num_predict": n, "temperature": 0, **body.get("options", {})}}


each = pytest.mark.parametrize("dialect", DIALECTS)


# ---- 1 ollama#13497, llama-cpp-python#1037, vllm#6626: bytes of partial characters ----

PARTS = ["🦙", "é🙂 and 日本語", "नमस्ते", "a\u200d👩‍👩‍👧 z", "𝄞ß"]


@pytest.mark.parametrize("text", PARTS)
def test_bytes_are_those_of_the_vocabulary(server, client, text):
    """openai's types: "characters are represented by multiple tokens and their byte representations must be combined"."""
    grammar = {"grammar": f'root ::= "{text}"'}
    said = client.chat.completions.create(model="demo", messages=SAY, max_tokens=60, logprobs=True, top_logprobs=4, extra_body=grammar).choices[0]
    tokens = said.logprobs.content
    assert said.message.content == text and b"".join(bytes(t.bytes) for t in tokens if not t.token.startswith("<|")) == text.encode()
    for t in tokens:
        for one in [t, *t.top_logprobs]:
            try:
                assert bytes(one.bytes).decode() == one.token
            except UnicodeDecodeError:
                assert one.token == "bytes:" + "".join(f"\\x{b:02x}" for b in one.bytes)
    native = ok(server, "/completion", {"prompt": "x", "n_predict": 60, "n_probs": 3, **grammar})
    assert b"".join(bytes(t["bytes"]) for t in native["completion_probabilities"] if not t["token"].startswith("<|")) == text.encode()


@pytest.mark.parametrize("text", PARTS)
@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_offsets_are_those_of_the_text(server, text, echo, stream):
    """`text[offset:]` begins with the token; tokens within a character begin where it does. Keys of top_logprobs are distinct, and the token's own is one."""
    body = {"prompt": f"é🙂{text}", "max_tokens": 60, "logprobs": 4, "echo": echo, "grammar": f'root ::= "{text}"'}
    if stream:
        lines = server.post("/v1/completions", body | {"stream": True})[1].decode().splitlines()
        events = [json.loads(line[6:])["choices"][0] for line in lines if line.startswith("data: {")]
        whole = "".join(e["text"] for e in events)
        p = {k: sum((e["logprobs"][k] for e in events if e["logprobs"]), []) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}
    else:
        choice = ok(server, "/v1/completions", body)["choices"][0]
        whole, p = choice["text"], choice["logprobs"]
    assert whole == (f"é🙂{text}" if echo else "") + text
    raw = [bytes(int(b, 16) for b in t[6:].replace("\\x", " ").split()) if t.startswith("bytes:") else t.encode() for t in p["tokens"]]
    at = b""
    for token, piece, offset, own, top in zip(p["tokens"], raw, p["text_offset"], p["token_logprobs"], p["top_logprobs"]):
        assert offset == len(at.decode(errors="ignore"))
        if token.startswith("<|"):
            continue
        rest = whole[offset:].encode()
        assert piece in rest[:len(piece) + 3]
        assert top is None or (top[token] == own and len(top) >= 4)
        at += piece


def test_run_tells_bytes_too(build, model):
    j = json.loads(run(build / "src/cli/lamina", "run", model, "-p", "x", "-n", 40, "--temp", 0, "--grammar", 'root ::= "🦙é"', "--logprobs", 2, "--json").stdout)
    tokens = j["logprobs"]
    assert b"".join(bytes(t["bytes"]) for t in tokens if not t["text"].startswith("<|")) == "🦙é".encode(), tokens
    assert all(one["bytes"] for t in tokens for one in t["top"])


@pytest.mark.parametrize("text", PARTS)
def test_pieces_of_partial_characters_are_lists_of_bytes(server, text):
    """llama.cpp's tools/server/README.md: "With input 'á' … the piece is a list of bytes"."""
    pieces = [p["piece"] for p in ok(server, "/tokenize", {"content": text, "with_pieces": True})["tokens"]]
    assert b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces) == text.encode()
    assert any(isinstance(p, list) for p in pieces) or not set(text) & set("🦙🙂𝄞")


# ---- 2 vllm#45807: which stop matched ----

@pytest.mark.parametrize("stops,which", [(["never", "llo"], "llo"), (["lo", "zzz"], "lo")])
def test_the_stop_that_matched_is_told(server, stops, which):
    grammar = {"grammar": 'root ::= "Hello you"'}
    for more in ({}, {"stream": True}):
        answer = server.post("/v1/messages", {"messages": SAY, "max_tokens": 20, "stop_sequences": stops, **grammar, **more})[1]
        if more:
            answer = next(json.loads(line[6:]) for line in answer.decode().splitlines() if '"message_delta"' in line and line.startswith("data"))["delta"]
        assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", which)
    r = ok(server, "/completion", {"prompt": "x", "n_predict": 20, "stop": stops, **grammar})
    assert (r["stop_type"], r["stopping_word"], r["content"]) == ("word", which, "Hello you".split(which)[0])


# ---- 3 llama.cpp#11755, #14353, ollama#5775: an answer that was begun is gone on with ----

BEGUN = [*SAY, {"role": "assistant", "content": "Good mor"}]


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": BEGUN, "max_tokens": 4}), ("/v1/messages", {"messages": BEGUN, "max_tokens": 4}),
    ("/v1/responses", {"input": BEGUN, "max_output_tokens": 16}),
    ("/api/chat", {"messages": BEGUN, "stream": False, "options": {"num_predict": 4}}),
    ("/v1/messages", {"messages": [SAY[0], {"role": "assistant", "content": [{"type": "text", "text": "Good mor"}]}], "max_tokens": 4}),
])
def test_a_prefill_is_continued_in_every_dialect(server, path, body):
    """With the end of the turn barred the next token continues the word: the prompt ends with the text that was begun."""
    plain = ok(server, "/apply-template", {"messages": SAY})["prompt"]
    assert ok(server, "/apply-template", {"messages": BEGUN})["prompt"] == plain + "Good mor"
    n = len(ok(server, "/tokenize", {"content": plain + "Good mor"})["tokens"])
    answer = ok(server, path, body)
    usage = answer.get("usage") or {"prompt_tokens": answer["prompt_eval_count"]}
    assert usage.get("prompt_tokens", usage.get("input_tokens", 0) + usage.get("cache_read_input_tokens", 0)) == n, usage


def test_what_is_said_of_the_last_message_is_obeyed(server):
    """Hugging Face's apply_chat_template: continue_final_message and add_generation_prompt exclude each other."""
    def prompt(**more):
        return ok(server, "/apply-template", {"messages": BEGUN, **more})["prompt"]
    closed = prompt(continue_final_message=False, add_generation_prompt=False)
    assert closed.rstrip().endswith("Good mor<|im_end|>")
    assert prompt(add_generation_prompt=True) == prompt(continue_final_message=False) and prompt(add_generation_prompt=True).startswith(closed)
    assert prompt(continue_final_message=True, add_generation_prompt=False) == prompt() and prompt().endswith("Good mor")
    r = ok(server, "/v1/chat/completions", {"messages": BEGUN, "continue_final_message": False, "max_tokens": 1, "verbose": True})
    assert r["__verbose"]["prompt"] == prompt(continue_final_message=False)


# ---- 4 vllm#53975: what constrains an answer is done, or refused by name ----

DIGITS = {"type": "integer", "minimum": 10, "maximum": 19}
ENFORCED = [
    ({"structured_outputs": {"choice": ["rose", "tulip"]}}, ("rose", "tulip")), ({"structured_outputs": {"json": DIGITS}}, [str(n) for n in range(10, 20)]),
    ({"structured_outputs": {"json": json.dumps(DIGITS)}}, [str(n) for n in range(10, 20)]), ({"structured_outputs": {"regex": "ab?c"}}, ("abc", "ac")),
    ({"structured_outputs": {"grammar": 'root ::= "yes" | "no"', "disable_fallback": True}}, ("yes", "no")), ({"guided_choice": ["rose", "tulip"]}, ("rose", "tulip")),
    ({"guided_regex": "[xy]z"}, ("xz", "yz")), ({"regex": "[xy]z"}, ("xz", "yz")), ({"ebnf": 'root ::= "yes" | "no"'}, ("yes", "no")),
    ({"guided_json": DIGITS}, [str(n) for n in range(10, 20)]), ({"json_schema": DIGITS}, [str(n) for n in range(10, 20)]),
    ({"response_format": {"type": "regex", "value": "[xy]z"}}, ("xz", "yz")), ({"response_format": {"type": "json", "value": DIGITS}}, [str(n) for n in range(10, 20)]),
    ({"response_format": {"type": "grammar", "grammar": 'root ::= "yes" | "no"'}}, ("yes", "no")), ({"grammar": 'root ::= "yes" | "no"'}, ("yes", "no")),
]
REFUSED = [
    {"structured_outputs": {"structural_tag": {"type": "x"}}}, {"structured_outputs": {"whitespace_pattern": "x", "json": DIGITS}}, {"structural_tag": {"format": {}}},
    {"guided_whitespace_pattern": "x"}, {"guided_something_new": "x"}, {"response_format": {"type": "structural_tag"}}, {"bad_words": ["x"]},
    {"allowed_token_ids": [1]}, {"min_tokens": 3}, {"use_beam_search": True}, {"length_penalty": 2.0}, {"logits_processors": ["x"]},
    {"skip_special_tokens": False}, {"include_stop_str_in_output": True}, {"tfs_z": 0.5}, {"top_a": 0.1}, {"truncate_prompt_tokens": 5},
    {"mirostat": 1}, {"penalize_nl": False}, {"adaptive_target": 0.5}, {"prompt_logprobs": 1}, {"t_max_prompt_ms": 100}, {"repetition_detection": {"x": 1}},
]
USUAL = {"structured_outputs": {}, "bad_words": [], "min_tokens": 0, "use_beam_search": False, "length_penalty": 1.0, "skip_special_tokens": True,
         "include_stop_str_in_output": False, "tfs_z": 1.0, "adaptive_target": -1.0, "penalize_nl": True, "guided_decoding_backend": "auto"}


@each
@pytest.mark.parametrize("more,texts", ENFORCED, ids=lambda v: str(v)[:40])
def test_constraints_hold_in_every_dialect(server, dialect, more, texts):
    assert text_of(ok(server, *body_of(dialect, **more))) in texts


@each
def test_what_cannot_be_done_is_refused_by_name(server, dialect):
    for more in REFUSED:
        path, body = body_of(dialect, **({"options": more} if "ollama" in dialect else more))
        message, field = refused(server, path, body)
        assert next(iter(more)) in (field, message.split(":")[0]), (more, message, field)
    path, body = body_of(dialect, n=1, **({"options": USUAL} if "ollama" in dialect else USUAL))
    ok(server, path, body)


def test_other_names_and_lists_of_vllm_and_llama_cpp(server):
    body = {"prompt": "x", "n_predict": 30, "grammar": 'root ::= "Hello you and you"'}
    ids = ok(server, "/completion", body | {"return_tokens": True})["tokens"]
    r = ok(server, "/completion", body | {"stop_token_ids": [ids[2]]})
    before = ids[:ids.index(ids[2])]
    assert r["stop_type"] == "word" and r["content"] == ok(server, "/detokenize", {"tokens": before})["content"], r
    assert refused(server, "/completion", {"prompt": "x", "stop_token_ids": [-1]})[1] == "stop_token_ids"
    r = ok(server, "/completion", {"prompt": "x", "n_predict": 1, "repetition_penalty": 1.3, "dry_sequence_breakers": ["!", "?"]})["generation_settings"]
    assert (round(r["repeat_penalty"], 3), r["repeat_last_n"], r["dry_sequence_breakers"]) == (1.3, -1, ["!", "?"])


# ---- 5 RevenueCat ai-toolkit#26: limits of the parser are not the client's mistakes ----

def raw(server, path, text, **headers):
    return server.ask("POST", path, text, headers={"Content-Type": "application/json", **headers})


@pytest.mark.parametrize("number", ["18446744073709551615", "9223372036854775807", "-9223372036854775809", "1" + "0" * 400, "1e400", "-1e999"])
def test_json_has_no_largest_number(server, number):
    """RFC 8259, 6: implementations set limits; a limit of the field is said of the field."""
    status, r, _ = raw(server, "/v1/completions", f'{{"prompt": "x", "max_tokens": 1, "temperature": {number}}}')
    assert status == 400 and r["error"]["param"] == "temperature", r
    bound = "minimum" if number.startswith("-") else "maximum"
    schema = f'{{"type": "integer", "{bound}": {number}}}'
    tool = f'{{"type": "function", "function": {{"name": "f", "parameters": {{"type": "object", "properties": {{"x": {schema}}}, "required": ["x"]}}}}}}'
    for more in (f'"response_format": {{"type": "json_schema", "json_schema": {{"name": "n", "schema": {schema}}}}}', f'"tools": [{tool}], "tool_choice": "required"',
                 f'"tools": [{tool}]', '"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", '
                 f'"type": "function", "function": {{"name": "f", "arguments": "{{\\"x\\": {number}}}"}}}}]}}, {{"role": "tool", "tool_call_id": "call00001", "content": "y"}}]'):
        messages = "" if '"messages"' in more else '"messages": [{"role": "user", "content": "A number."}], '
        status, r, _ = raw(server, "/v1/chat/completions", f'{{{messages}"max_tokens": 8, {more}}}')
        assert status == 200, (more, r)
        assert not any("left out" in w for w in r.get("warnings", [])), r["warnings"]


def test_different_integers_of_equal_doubles_are_refused(server):
    """One of them would reach the template as the other."""
    call = '{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"x": [18446744073709551615, 18446744073709551614]}}}'
    status, r, _ = raw(server, "/v1/chat/completions", f'{{"messages": [{{"role": "user", "content": "x"}}, {{"role": "assistant", "tool_calls": [{call}]}}]}}')
    assert status == 400 and "two integers beyond 64 bits are equal when rounded to a double" in r["error"]["message"], r


@each
def test_numbers_of_any_size_are_numbers_in_every_dialect(server, dialect):
    for number in ("18446744073709551615", "1e400"):
        more = {"options": {"temperature": "?"}} if "ollama" in dialect else {"temperature": "?"}
        path, body = body_of(dialect, **more)
        status, r, _ = raw(server, path, json.dumps(body).replace('"?"', number))
        assert status == 400 and "temperature" in json.dumps(r) and "JSON" not in json.dumps(r), r


@pytest.mark.parametrize("text,read", [(rb"a\ud83d", "a\ufffd"), (rb"\ude00b", "\ufffdb"), (rb"\ud83d\ud83d\ude00", "\ufffd😀"), (b"c\xf0\x9f\x99", "c\ufffd"),
                                       (b"\xff-", "\ufffd-"), (rb"\\ud83d", "\\ud83d"), (rb"\ud83d\\u", "\ufffd\\u")])
def test_halves_of_characters_do_not_block_a_conversation(server, text, read):
    """WHATWG's TextDecoder, and String.prototype.toWellFormed: U+FFFD stands for what is none."""
    _, r, _ = raw(server, "/tokenize", b'{"content": "' + text + b'"}')
    assert ok(server, "/detokenize", {"tokens": r["tokens"]})["content"] == read
    for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
        status, r, _ = raw(server, path, b'{"messages": [{"role": "user", "content": "' + text + b'"}], "max_tokens": 1, "stream": false, "options": {"num_predict": 1}}')
        assert status == 200 and any("U+FFFD" in w for w in r.get("warnings", [])) == ("\ufffd" in read), r


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/completion", "/tokenize"])
def test_a_coding_that_is_not_read_is_named(server, path):
    """RFC 9110, 15.5.16: 415 also for Content-Encoding."""
    for coding in ("gzip", "br", "deflate", "zstd"):
        status, r, _ = raw(server, path, b"\x1f\x8b\x08\x00", **{"Content-Encoding": coding})
        assert status == 415 and coding in json.dumps(r), r
    assert raw(server, "/tokenize", b'{"content": "x"}', **{"Content-Encoding": "identity"})[0] == 200


# ---- 6 email-mcp#58, hermes-agent#18530: a tool is not refused because of its description ----

ODD = {"lookahead": {"type": "string", "pattern": "^(?!x).*$"}, "unique": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
       "contains": {"type": "array", "contains": {"const": 1}}, "word boundary": {"type": "string", "pattern": "\\bx\\b"},
       "keyword": {"type": "string", "frobnicate": 3}, "dynamic": {"$dynamicRef": "#x"}, "far": {"$ref": "https://example.com/s.json"}}
FREE = {"format": {"type": "string", "format": "phone-number"}, "int64": {"type": "integer", "minimum": -2 ** 63, "maximum": 2 ** 63 - 1},
        "uint64": {"type": "integer", "minimum": 0, "maximum": 2 ** 64 - 1}}


def tools(inner, **more):
    plain = {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
    odd = {"name": "odd", "description": "It is odd.", "parameters": {"type": "object", "properties": {"x": inner}, "required": ["x"]}, **more}
    return [{"type": "function", "function": f} for f in (plain, odd)]


@pytest.mark.parametrize("inner", ODD.values(), ids=ODD)
def test_what_a_grammar_cannot_hold_of_a_tool_is_left_free(server, inner):
    asked = {"messages": ASKED, "max_tokens": 8}
    r = ok(server, "/v1/chat/completions", asked | {"tools": tools(inner)})
    said = [w for w in r["warnings"] if w.startswith("tools: odd: ")]
    assert len(said) == 1 and f"#/properties/x/{list(inner)[-1]}: " in said[0] and said[0].count("enforced by a grammar") <= 1, r["warnings"]
    anthropic = [{"name": t["function"]["name"], "description": "x", "input_schema": t["function"]["parameters"]} for t in tools(inner)]
    assert any("odd" in w for w in ok(server, "/v1/messages", asked | {"tools": anthropic})["warnings"])
    assert any("odd" in w for w in ok(server, "/api/chat", {"messages": ASKED, "stream": False, "options": {"num_predict": 4}, "tools": tools(inner)})["warnings"])
    flat = [{"type": "function", **t["function"]} for t in tools(inner)]
    assert any("odd" in w for w in ok(server, "/v1/responses", {"input": "x", "max_output_tokens": 4, "tools": flat})["warnings"])
    assert refused(server, "/v1/responses", {"input": "x", "tools": flat, "tool_choice": "required"})[0].startswith("tools: odd: #/")
    assert refused(server, "/v1/messages", asked | {"tools": anthropic, "tool_choice": {"type": "any"}})[0].startswith("tools: odd: #/")
    for more in ({"tools": tools(inner), "tool_choice": "required"}, {"tools": tools(inner, strict=True)},
                 {"tools": tools(inner), "tool_choice": {"type": "function", "function": {"name": "odd"}}}):
        message, field = refused(server, "/v1/chat/completions", asked | more)
        assert field == "tools" and message.startswith("tools: odd: #/") and message.count("enforced by a grammar") <= 1, message


@pytest.mark.parametrize("inner", FREE.values(), ids=FREE)
def test_annotations_and_bounds_of_machine_words_are_no_obstacle(server, inner):
    """JSON Schema 2020-12, 7.2.1: format is an annotation by default."""
    for choice in ("auto", "required"):
        r = ok(server, "/v1/chat/completions", {"messages": ASKED, "max_tokens": 4, "tools": tools(inner), "tool_choice": choice})
        assert not any(w.startswith("tools:") for w in r.get("warnings", []))
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": inner}}
    r = ok(server, "/v1/chat/completions", {"messages": ASKED, "max_tokens": 60, "response_format": form})
    if r["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(r["choices"][0]["message"]["content"]), (str, int))


# ---- 7 producer-pal#1074: states are counted, seconds are not, and formats and lengths do not multiply ----

LONG = [("uri", 1, 2083), ("uri", 1, 65536), ("uri", 0, 300), ("uri", 20, 2048), ("email", 1, 5000), ("date", 0, 5000), ("duration", 0, 100000), ("hostname", 1, 253), ("email", 3, 320), ("date-time", 1, 64), ("ipv6", 0, 45), ("duration", 2, 1000), ("uuid", 36, 36), ("ipv4", 0, 2000)]


@pytest.mark.parametrize("name,least,most", LONG)
def test_formats_go_with_lengths(server, name, least, most):
    """pydantic's HttpUrl is format uri with maxLength 2083; all requests of one kind end alike."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": name, "minLength": least, "maxLength": most}}, "required": ["x"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    ends = {server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 3, "response_format": form})[0] for _ in range(2)}
    assert ends == {200}


@each
def test_formats_go_with_lengths_in_every_dialect(server, dialect):
    for name, least, most in LONG[:2]:
        schema = {"json_schema": {"type": "string", "format": name, "minLength": least, "maxLength": most}}
        ok(server, *body_of(dialect, n=2, **({"options": schema} if "ollama" in dialect else schema)))


# ---- 9 vllm#19419, Qwen3#1894: arguments of earlier calls ----

def called(arguments):
    call = {"id": "call00001", "type": "function", "function": {"name": "clock", **arguments}}
    return [*ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call00001", "content": "noon"}]


@pytest.mark.parametrize("arguments", [{"arguments": ""}, {"arguments": "  "}, {"arguments": None}, {}, {"arguments": "{}"}, {"arguments": {}}])
def test_arguments_are_a_mapping(server, arguments):
    prompts = [ok(server, "/apply-template", {"messages": called(a), "tools": tools(DIGITS)}) for a in (arguments, {"arguments": "{}"})]
    assert prompts[0] == prompts[1]
    ok(server, "/v1/chat/completions", {"messages": called(arguments), "max_tokens": 1})
    ok(server, "/api/chat", {"messages": called(arguments), "stream": False, "options": {"num_predict": 1}})
    if isinstance(arguments.get("arguments"), str):
        call = {"type": "function_call", "call_id": "call00001", "name": "clock", **arguments}
        ok(server, "/v1/responses", {"input": [*ASKED, call, {"type": "function_call_output", "call_id": "call00001", "output": "noon"}], "max_output_tokens": 1})


@pytest.mark.parametrize("arguments", ["[1]", "{\"city\": \"Par", "3", "null and more"])
def test_arguments_that_are_none_are_said(server, arguments):
    call = {"type": "function_call", "call_id": "call00001", "name": "clock", "arguments": arguments}
    for path, body in (("/v1/chat/completions", {"messages": called({"arguments": arguments}), "max_tokens": 1}),
                       ("/api/chat", {"messages": called({"arguments": arguments}), "stream": False, "options": {"num_predict": 1}}),
                       ("/v1/responses", {"input": [*ASKED, call, {"type": "function_call_output", "call_id": "call00001", "output": "noon"}], "max_output_tokens": 1})):
        assert any("clock" in w and "arguments" in w for w in ok(server, path, body)["warnings"]), path


@pytest.mark.parametrize("given", [{"input": ""}, {"input": None}, {"input": {}}, {"input": "{}"}, {}])
def test_input_of_an_earlier_tool_use_is_a_mapping(server, given):
    """Anthropic's dialect: all of them are the same prompt."""
    def count(given):
        messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "call00001", "name": "clock", **given}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": "noon"}]}]
        return ok(server, "/v1/messages", {"messages": messages, "max_tokens": 1})["usage"]["input_tokens"]
    assert count(given) == count({"input": {}})


@pytest.mark.parametrize("number", [2 ** 63 - 1, -2 ** 63, 2 ** 64 - 1, 10 ** 30])
def test_integers_reach_the_prompt_as_they_are_written(server, number):
    """In a tool and in the arguments of a call, as an object and as text: as Python's json.dumps has them in transformers."""
    tool = tools({"type": "integer", "maximum": number})
    for arguments in ({"n": number}, json.dumps({"n": number})):
        prompt = ok(server, "/apply-template", {"messages": called({"arguments": arguments}), "tools": tool})["prompt"]
        assert f'"maximum": {number}}}' in prompt and f'"arguments": {{"n": {number}}}' in prompt


# ---- 10 sglang#40082: no role vanishes ----

@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool", "function"])
def test_every_role_is_in_the_prompt(server, role):
    m = {"role": role, "content": "Marigold", **({"name": "clock"} if role == "function" else {"tool_call_id": "call00001"} if role == "tool" else {})}
    before = called({"arguments": "{}"})[:2] if role in ("tool", "function") else []
    messages = [m, *SAY] if role in ("system", "developer") else [*before, m]
    status, r, _ = server.post("/apply-template", {"messages": messages})
    assert status == 200 and "Marigold" in r["prompt"], r


@pytest.mark.parametrize("path,field,roles", [
    ("/v1/chat/completions", "messages", "system developer user assistant tool function"), ("/api/chat", "messages", "system developer user assistant tool function"),
    ("/v1/messages", "messages", "system user assistant"), ("/v1/responses", "input", "system developer user assistant")])
def test_no_role_vanishes_in_any_dialect(server, path, field, roles):
    """Thirty words are in the prompt, whoever says them; a role that a dialect does not have is refused."""
    for role in "system developer user assistant tool function".split():
        more = {"tool_call_id": "call00001"} if role == "tool" else {"name": "clock"} if role == "function" else {}
        body = {field: [*SAY, {"role": role, "content": "Marigold " * 30, **more}], "stream": False}
        body |= {"options": {"num_predict": 1}} if path.startswith("/api") else {"max_output_tokens": 1} if field == "input" else {"max_tokens": 1}
        if role not in roles.split():
            assert role in refused(server, path, body)[0]
            continue
        usage = ok(server, path, body)
        usage = usage.get("usage", usage)
        read = usage.get("prompt_tokens", usage.get("prompt_eval_count", usage.get("input_tokens", 0)))
        assert read + usage.get("cache_read_input_tokens", 0) > 90, (role, usage)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses"])
def test_an_unknown_role_is_refused(server, path):
    odd = [{"role": "narrator", "content": "x"}, *SAY]
    assert "narrator" in refused(server, path, {"messages": odd, "input": odd, "max_tokens": 1})[0]


# ---- 11 ollama#18575: 0 is not "not given" ----

@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 0}), ("/v1/chat/completions", {"messages": SAY, "max_completion_tokens": 0}),
    ("/v1/chat/completions", {"messages": SAY, "n_predict": 0}), ("/completion", {"prompt": "x", "n_predict": 0}),
    ("/api/chat", {"messages": SAY, "stream": False, "options": {"num_predict": 0}}), ("/api/generate", {"prompt": "x", "stream": False, "options": {"num_predict": 0}}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 0}), ("/v1/responses", {"input": "x", "max_output_tokens": 0}), ("/v1/completions", {"prompt": "x", "max_tokens": 0}),
])
def test_nothing_is_written_where_nothing_is_asked_for(server, path, body):
    status, r, _ = server.post(path, body)
    if status == 400:
        assert "max_" in json.dumps(r)
    else:
        assert status == 200 and not text_of(r), r
        assert r.get("eval_count", r.get("tokens_predicted", r.get("usage", {}).get("completion_tokens"))) == 0


# ---- 12 SillyTavern#1855: empty values ask for nothing ----

EMPTY = [{"grammar": ""}, {"guided_regex": ""}, {"guided_choice": []}, {"json_schema": ""}, {"structured_outputs": {}}, {"response_format": {}}, {"response_format": {"type": "text"}},
         {"response_format": {"type": "grammar", "value": ""}}, {"response_format": {"type": "regex", "pattern": ""}}, {"stop": ""},
         {"stop": []}, {"stop": [""]}, {"logit_bias": {}}, {"logit_bias": []}, {"samplers": []}, {"lora": []}, {"grammar_triggers": []}, {"preserved_tokens": []}]


@each
@pytest.mark.parametrize("beside", [{}, {"json_schema": {"enum": ["one"]}}], ids=["alone", "beside another"])
def test_empty_values_ask_for_nothing(server, dialect, beside):
    for more in EMPTY:
        ollama = "ollama" in dialect
        if set(more) & set(beside):
            continue
        both = {"options": {**more, **beside}} if ollama else {**more, **beside}
        text = text_of(ok(server, *body_of(dialect, n=6 if beside else 1, **both)))
        assert not beside or text == '"one"', (more, text)


@pytest.mark.parametrize("path,body", [
    ("/completion", {"prompt": "x", "json_schema": {}}), ("/v1/completions", {"prompt": "x", "guided_json": {}}),
    ("/v1/chat/completions", {"messages": SAY, "structured_outputs": {"json": {}}}),
    ("/v1/chat/completions", {"messages": SAY, "response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
    ("/api/chat", {"messages": SAY, "format": {}, "stream": False})])
def test_an_empty_schema_is_a_schema(server, path, body):
    """JSON Schema, 4.3.1: any instance is valid against {}; llama.cpp's README: "`{}` for any JSON"."""
    r = ok(server, path, {**body, "max_tokens": 2, "n_predict": 2, "options": {"num_predict": 2}})
    text = r.get("content") or r.get("message", {}).get("content") or r["choices"][0].get("text") or r["choices"][0]["message"]["content"]
    assert re.match(r'[{\["0-9-]|t|f|n', text), text


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": SAY, "tools": [], "tool_choice": "", "reasoning_effort": "", "modalities": ["text"], "user": "", "stream_options": {}}),
    ("/v1/messages", {"messages": SAY, "system": "", "tools": [], "stop_sequences": [], "thinking": {}, "output_config": {}, "mcp_servers": []}),
    ("/v1/responses", {"input": "x", "instructions": "", "previous_response_id": "", "text": {}, "reasoning": {}, "include": [], "tools": []}),
    ("/api/generate", {"prompt": "x", "system": "", "suffix": "", "template": "", "context": [], "images": [], "format": "", "think": "", "keep_alive": "", "stream": False}),
    ("/v1/completions", {"prompt": "x", "suffix": "", "user": ""}), ("/completion", {"prompt": "x", "response_fields": []}),
])
def test_empty_fields_of_each_dialect(server, path, body):
    ok(server, path, body | {"max_tokens": 2, "max_output_tokens": 2} if path.startswith("/v1") else body | {"options": {"num_predict": 2}, "n_predict": 2})


# ---- 13 errors name the field that was sent ----

@pytest.mark.parametrize("path,body,field", [
    ("/v1/embeddings", {"input": ""}, "input"), ("/v1/embeddings", {"input": []}, "input"), ("/v1/embeddings", {"input": [[]]}, "input"),
    ("/v1/embeddings", {"input": 5}, "input"), ("/api/embed", {"input": ""}, "input"), ("/embedding", {"content": ""}, "content"), ("/v1/completions", {"prompt": ""}, "prompt"),
    ("/v1/completions", {"prompt": "x", "guided_json": {"type": "nonsense"}}, "guided_json"), ("/v1/completions", {"prompt": "x", "guided_regex": "("}, "guided_regex"),
    ("/v1/completions", {"prompt": "x", "guided_grammar": "root"}, "guided_grammar"), ("/v1/completions", {"prompt": "x", "ebnf": "root"}, "ebnf"),
    ("/v1/completions", {"prompt": "x", "structured_outputs": {"regex": "("}}, "structured_outputs"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "stop_sequences": [5]}, "stop_sequences"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "output_config": {"format": {"type": "json_schema", "schema": {"type": "nonsense"}}}}, "output_config"),
    ("/v1/responses", {"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "nonsense"}}}}, "text.format"),
    ("/v1/responses", {"input": [{"role": "king", "content": "x"}]}, "input"),
    ("/api/chat", {"messages": SAY, "format": {"type": "nonsense"}}, "format"),
])
def test_errors_name_what_was_sent(server, path, body, field):
    assert refused(server, path, body)[1] == field


# ---- 17 jan#8646, openclaw#64180: words that agents look for ----

@pytest.mark.parametrize("path,words,sent", [
    ("/v1/chat/completions", "maximum context length is 1024 tokens", "messages"), ("/v1/completions", "maximum context length is 1024 tokens", "prompt"),
    ("/v1/responses", "maximum context length is 1024 tokens", "input"), ("/v1/embeddings", "maximum context length is 1024 tokens", "input"),
    ("/completion", "exceeds the available context size (1024 tokens)", "prompt"), ("/embedding", "exceeds the available context size (1024 tokens)", "content"),
    ("/v1/messages", "tokens > 1024 maximum", None), ("/api/chat", "exceeds the context length", None), ("/api/generate", "exceeds the context length", None),
    ("/api/embed", "exceeds the context length", None),
])
def test_an_overflow_in_the_words_of_the_dialect(server, path, words, sent):
    """And by the name of the field that was sent, if the dialect's errors have one."""
    text = "word " * 1500
    body = {"messages": [{"role": "user", "content": text}], "input": text, "prompt": text, "content": text, "max_tokens": 5}
    message, field = refused(server, path, body if path not in ("/v1/responses", "/embedding") else {sent: text})
    assert words in message and (not sent or field == sent), (message, field)
    if path == "/v1/messages":
        assert message.startswith("prompt is too long: ")


# ---- 8 llama.cpp#7197: shapes of a dialect ----

TOKEN = {"id", "token", "bytes", "logprob", "top_logprobs"}
SHAPES = [
    ("/completion", {"prompt": "x", "n_predict": 2, "n_probs": 2}, ["completion_probabilities", 0], TOKEN),
    ("/completion", {"prompt": "x", "n_predict": 2, "n_probs": 2}, ["completion_probabilities", 0, "top_logprobs", 0], TOKEN - {"top_logprobs"}),
    ("/completion", {"prompt": "x", "n_predict": 2, "n_probs": 2, "post_sampling_probs": True}, ["completion_probabilities", 0], {"id", "token", "bytes", "prob", "top_probs"}),
    ("/completion", {"prompt": "x", "n_predict": 2, "n_probs": 2, "post_sampling_probs": True}, ["completion_probabilities", 0, "top_probs", 0], {"id", "token", "bytes", "prob"}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 2, "logprobs": True, "top_logprobs": 2}, ["choices", 0, "logprobs", "content", 0], TOKEN),
    ("/v1/completions", {"prompt": "x", "max_tokens": 2, "logprobs": 2}, ["choices", 0, "logprobs"], {"tokens", "token_logprobs", "top_logprobs", "text_offset"}),
    ("/completion", {"prompt": "x", "n_predict": 2}, ["timings"],
     {"cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 2}, [], {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 2}, ["usage"], {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}),
    ("/api/chat", {"messages": SAY, "stream": False, "options": {"num_predict": 2}}, [],
     {"model", "created_at", "message", "done", "done_reason", "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}),
    ("/tokenize", {"content": "x", "with_pieces": True}, ["tokens", 0], {"id", "piece"}), ("/tokenize", {"prompt": "x"}, [], {"count", "max_model_len", "tokens"}),
]


@pytest.mark.parametrize("path,body,at,keys", SHAPES, ids=lambda v: str(v)[:50])
def test_answers_have_the_documented_keys(server, path, body, at, keys):
    answer = ok(server, path, body)
    for step in at:
        answer = answer[step]
    assert set(answer) == keys, set(answer) ^ keys


CHUNK = {"id", "object", "created", "model", "system_fingerprint", "choices", "usage"}
CHUNKS = [          # all but the last event; what the last one has besides
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 2, "stream_options": {"include_usage": True}}, CHUNK, {"timings"}),
    ("/v1/completions", {"prompt": "x", "max_tokens": 2, "n": 2, "stream_options": {"include_usage": True}}, CHUNK, {"timings"}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 2}, CHUNK - {"usage"}, set()),
    ("/v1/completions", {"prompt": "x", "max_tokens": 2, "n": 2}, CHUNK - {"usage"}, set()),
    ("/completion", {"prompt": "x", "n_predict": 2}, {"index", "content", "tokens", "stop", "tokens_predicted", "tokens_evaluated"},
     {"id_slot", "model", "truncated", "stop_type", "stopping_word", "has_new_line", "tokens_cached", "timings", "generation_settings"}),
    ("/api/chat", {"messages": SAY, "options": {"num_predict": 2}}, {"model", "created_at", "message", "done"},
     {"done_reason", "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}),
    ("/api/generate", {"prompt": "x", "options": {"num_predict": 2}}, {"model", "created_at", "response", "done"},
     {"done_reason", "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}),
]


@pytest.mark.parametrize("path,body,keys,more", CHUNKS, ids=lambda v: str(v)[:50])
def test_events_have_the_documented_keys(server, path, body, keys, more):
    """OpenAI on include_usage: "All other chunks will also include a usage field, but with a null value." """
    lines = server.post(path, body | {"stream": True})[1].decode().splitlines()
    *events, last = [json.loads(line.removeprefix("data: ")) for line in lines if line.removeprefix("data: ").startswith("{")]
    assert len(events) >= 2 and all(set(e) == keys and not e.get("usage") for e in events), [set(e) ^ keys for e in events]
    assert set(last) - {"prompt"} == keys | more and ("usage" not in keys or last["usage"]["completion_tokens"])


# ---- what else was missed ----

def test_ollama_tells_log_probabilities(server):
    """ollama's api/types.go: Logprob {token, logprob, bytes, top_logprobs}, beside the message, with each piece of a stream."""
    body = {"messages": SAY, "logprobs": True, "top_logprobs": 2, "options": {"num_predict": 6, "temperature": 0}}
    whole = ok(server, "/api/chat", body | {"stream": False})
    assert "".join(t["token"] for t in whole["logprobs"] if not t["token"].startswith("<|")) == whole["message"]["content"]
    assert all(len(t["top_logprobs"]) == 2 and t["top_logprobs"][0]["logprob"] >= t["logprob"] for t in whole["logprobs"])
    lines = [json.loads(line) for line in server.post("/api/chat", body)[1].decode().splitlines()]
    assert sum((line.get("logprobs", []) for line in lines), []) == whole["logprobs"]
    assert ok(server, "/api/generate", {"prompt": "x", "logprobs": True, "stream": False, "options": {"num_predict": 2}})["logprobs"][0]["top_logprobs"] == []
    assert refused(server, "/api/chat", {"messages": SAY, "top_logprobs": 2})[1] == "top_logprobs"


def test_many_stop_strings(server):
    stops = [f"never {i}" for i in range(200)] + ["llo"]
    r = ok(server, "/completion", {"prompt": "x", "n_predict": 20, "stop": stops, "grammar": 'root ::= "Hello you"'})
    assert (r["content"], r["stopping_word"]) == ("He", "llo")
    assert "257" in refused(server, "/completion", {"prompt": "x", "stop": [str(i) for i in range(257)]})[0]
    assert "16384" in refused(server, "/completion", {"prompt": "x", "stop": ["a" * 9000, "b" * 9000]})[0]


def test_tools_with_long_names(server):
    """Anthropic's API: ^[a-zA-Z0-9_-]{1,128}$."""
    def tool(n):
        return [{"name": "n" * n, "description": "x", "input_schema": {"type": "object", "properties": {}}}]
    r = ok(server, "/v1/messages", {"messages": ASKED, "max_tokens": 200, "tools": tool(128), "tool_choice": {"type": "any"}})
    assert [b["name"] for b in r["content"] if b["type"] == "tool_use"][0] == "n" * 128
    assert "128" in refused(server, "/v1/messages", {"messages": ASKED, "max_tokens": 2, "tools": tool(129)})[0]


def test_a_further_call_that_is_cut_leaves_no_marks(server):
    """Whatever the limit: what is told is whole calls, and no part of a mark."""
    asked = {"messages": ASKED, "tools": tools(DIGITS), "tool_choice": "required", "logit_bias": [["<|im_end|>", -100], ["<|endoftext|>", -100]], "seed": 3}
    for n in range(24, 60, 5):
        message = ok(server, "/v1/chat/completions", asked | {"max_tokens": n})["choices"][0]["message"]
        if len(message.get("tool_calls") or []) >= 1:
            assert "<tool_call" not in (message["content"] or ""), (n, message)


# ---- 14 to 18: files ----

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
MARK = b"\xef\xbb\xbf"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


def test_a_byte_order_mark_is_no_part_of_a_text(build, tmp_path):
    """ollama#4503, and RFC 8259, 8.1: parsers may ignore it."""
    folder = tmp_path / "model"
    shutil.copytree(TINY.parent, folder, ignore=shutil.ignore_patterns("*.gguf", "golden*"))
    for f in folder.glob("*.json"):
        f.write_bytes(MARK + f.read_bytes())
    for name, text in {"keys": "first-key\nsecond-key\n", "p.txt": "abc", "g.gbnf": 'root ::= "ab"', "s.json": '{"enum": [1]}', "t.jinja": "{{ messages[0].content }}",
                       "x.jsonl": '{"text": "abc"}\n'}.items():
        (tmp_path / name).write_bytes(MARK + text.encode())
    lamina = build / "src/cli/lamina"
    plain = run(lamina, "run", TINY, "-p", "abc", "-n", 4, "--temp", 0)
    assert plain.returncode == 0 and run(lamina, "run", TINY, "-f", tmp_path / "p.txt", "-n", 4, "--temp", 0).stdout == plain.stdout
    assert run(lamina, "run", TINY, "-p", "abc", "-n", 8, "--temp", 0, "--grammar-file", tmp_path / "g.gbnf").stdout.strip().endswith("ab")
    assert run(lamina, "inspect", folder).returncode == 0
    s = Server(build, "-c", 128, "--api-key-file", tmp_path / "keys", "--chat-template-file", tmp_path / "t.jinja", model=TINY).ready()
    try:
        for key in ("first-key", "second-key"):
            status, r, _ = s.post("/apply-template", {"messages": [{"role": "user", "content": "abc"}]}, headers={"Authorization": f"Bearer {key}"})
            assert status == 200 and r["prompt"] == "abc", (key, r)
    finally:
        assert s.close() == 0


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "model.safetensors.index.json", "m.gguf", "m-00002-of-00002.gguf"])
def test_a_pointer_is_called_one(build, tmp_path, name):
    """DeepSeek-V3#557: every file of a folder may be one, where Git LFS was not installed."""
    lamina = build / "src/cli/lamina"
    if name.endswith("gguf"):
        at = tmp_path / name.replace("00002-of", "00001-of")
        if "-of-" in name:
            assert run(lamina, "convert", TINY, tmp_path / "m.gguf", "--split-max-tensors", 10).returncode == 0
            parts = sorted(tmp_path.glob("m-*-of-*.gguf"))
            at, broken = parts[0], parts[1]
        else:
            broken = at
    else:
        at = tmp_path / "model"
        shutil.copytree(TINY.parent, at, ignore=shutil.ignore_patterns("*.gguf", "golden*"))
        broken = at / name
        if "index" in name:
            (at / "model.safetensors").unlink()
    broken.write_bytes(POINTER)
    done = run(lamina, "run", at, "-p", "a", "-n", 1)
    assert done.returncode and "Git LFS pointer" in done.stderr and "git lfs pull" in done.stderr and broken.name in done.stderr, done.stderr


def test_what_a_file_says_of_itself_counts_before_its_name(build, tmp_path):
    """mesh-llm#311: a whole file that was renamed; and folders list such files, and those in folders of theirs, once."""
    lamina = build / "src/cli/lamina"
    for name in ("x-00001-of-00013.gguf", "y-00002-of-00003.gguf", "z.gguf", "deeper/w.gguf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TINY, tmp_path / name)
        assert run(lamina, "run", tmp_path / name, "-p", "a", "-n", 1).returncode == 0
    assert run(lamina, "convert", TINY, tmp_path / "parts.gguf", "--split-max-tensors", 10).returncode == 0
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "empty").mkdir()
    s = Server(build, "--models-dir", tmp_path, "-c", 64, model=TINY).ready()
    try:
        names = [m["id"] for m in s.get("/v1/models")[1]["data"]]
        assert len(names) == len(set(names)) == 6 and sum("parts" in n for n in names) == 1, names
        told = [line for line in s.said if line.startswith("passed over")]
        assert len(told) == 1 and "notes.txt" in told[0] and "empty" in told[0] and ".gguf" not in told[0], s.said
    finally:
        assert s.close() == 0


@pytest.mark.parametrize("path", ["golden/llama/gqa/model.gguf", "golden/gemma2/windows/model.gguf"])
def test_nothing_is_said_twice(build, path):
    s = Server(build, "-c", 1000000, model=SOURCE / "tests" / path).ready()
    assert s.close() == 0
    lines = [line for line in s.said if line.strip()]
    assert len(lines) == len(set(lines)), s.said
