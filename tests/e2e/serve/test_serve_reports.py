"""Problems that users of other servers reported, each generalised to its kind: the number is the public issue that states the right value.
Every dialect that has the kind is tested. Messages and tools: test_serve_messages.py; files: test_serve_files.py."""
import json
import re

import openai
import pytest
from conftest import run
from dialects import SAY, body_of, each, ok, refused, server, text_of  # noqa: F401 (server: a fixture)
from servers import ENDS
from test_answers import ASKED

MARK = re.compile(r"<[|\w-]+>")                                   # a special token, which is no text

@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=ENDS)


# ---- 1 ollama#13497, llama-cpp-python#1037, vllm#6626: bytes of partial characters ----

PARTS = ["🦙", "é🙂 and 日本語", "नमस्ते", "a\u200d👩‍👩‍👧 z", "𝄞ß"]


@pytest.mark.parametrize("text", PARTS)
def test_bytes_equal_the_vocabulary(server, client, text):
    """openai's types: "characters are represented by multiple tokens and their byte representations must be combined"."""
    grammar = {"grammar": f'root ::= "{text}"'}
    reply = client.chat.completions.create(model="demo", messages=SAY, max_tokens=60, logprobs=True, top_logprobs=4, extra_body=grammar).choices[0]
    tokens = reply.logprobs.content
    assert reply.message.content == text and b"".join(bytes(t.bytes) for t in tokens if not MARK.fullmatch(t.token)) == text.encode()
    for t in tokens:
        for one in [t, *t.top_logprobs]:
            try:
                assert bytes(one.bytes).decode() == one.token
            except UnicodeDecodeError:
                assert one.token == "bytes:" + "".join(f"\\x{b:02x}" for b in one.bytes)
    native = ok(server, "/completion", {"prompt": "x", "n_predict": 60, "n_probs": 3, **grammar})
    assert b"".join(bytes(t["bytes"]) for t in native["completion_probabilities"] if not MARK.fullmatch(t["token"])) == text.encode()


@pytest.mark.parametrize("text", PARTS)
@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_offsets_match_the_text(server, text, echo, stream):
    """`text[offset:]` begins with the token; tokens within a character begin where it does. Keys of top_logprobs are distinct and include
    the token's own."""
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
        if MARK.fullmatch(token):
            continue
        rest = whole[offset:].encode()
        assert piece in rest[:len(piece) + 3]
        assert top is None or (top[token] == own and len(top) >= 4)
        at += piece


def test_run_returns_bytes_too(build, model):
    j = json.loads(run(build / "src/cli/lamina", "run", model, "-p", "x", "-n", 40, "--temp", 0, "--grammar", 'root ::= "🦙é"', "--logprobs", 2, "--json").stdout)
    tokens = j["logprobs"]
    assert b"".join(bytes(t["bytes"]) for t in tokens if not MARK.fullmatch(t["text"])) == "🦙é".encode(), tokens
    assert all(one["bytes"] for t in tokens for one in t["top"])


@pytest.mark.parametrize("text", PARTS)
def test_pieces_of_partial_characters_are_lists_of_bytes(server, text):
    """llama.cpp's tools/server/README.md: "With input 'á' … the piece is a list of bytes"."""
    pieces = [p["piece"] for p in ok(server, "/tokenize", {"content": text, "with_pieces": True})["tokens"]]
    assert b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces) == text.encode()
    assert any(isinstance(p, list) for p in pieces) or not set(text) & set("🦙🙂𝄞")


# ---- 2 vllm#45807: which stop matched ----

@pytest.mark.parametrize("stops,which", [(["never", "llo"], "llo"), (["lo", "zzz"], "lo")])
def test_the_matched_stop_is_returned(server, stops, which):
    grammar = {"grammar": 'root ::= "Hello you"'}
    for more in ({}, {"stream": True}):
        answer = server.post("/v1/messages", {"messages": SAY, "max_tokens": 20, "stop_sequences": stops, **grammar, **more})[1]
        if more:
            answer = next(json.loads(line[6:]) for line in answer.decode().splitlines() if '"message_delta"' in line and line.startswith("data"))["delta"]
        assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", which)
    r = ok(server, "/completion", {"prompt": "x", "n_predict": 20, "stop": stops, **grammar})
    assert (r["stop_type"], r["stopping_word"], r["content"]) == ("word", which, "Hello you".split(which)[0])


# ---- 4 vllm#53975: a constraint is enforced, or rejected by name ----

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
    {"format": "json"}, {"json_mode": True},
]
USUAL = {"structured_outputs": {}, "bad_words": [], "min_tokens": 0, "use_beam_search": False, "length_penalty": 1.0, "skip_special_tokens": True,
         "include_stop_str_in_output": False, "tfs_z": 1.0, "adaptive_target": -1.0, "penalize_nl": True, "guided_decoding_backend": "auto"}


@each
@pytest.mark.parametrize("more,texts", ENFORCED, ids=lambda v: str(v)[:40])
def test_constraints_are_enforced_in_every_dialect(server, dialect, more, texts):
    assert text_of(ok(server, *body_of(dialect, **more))) in texts


@each
def test_a_complete_constraint_ends_a_text_with_ignore_eos(server, dialect):
    """End tokens are excluded where the constraint allows another token. Where it does not, the text ends: there is no other token left."""
    def ask(**more):
        path, body = body_of(dialect, 12, ignore_eos=True, **more)
        if "ollama" in dialect:
            body["options"]["ignore_eos"] = body.pop("ignore_eos")
        return text_of(ok(server, path, body))
    assert ask(guided_choice=["abc"]) == "abc" and ask(guided_regex="a{3}") == "aaa"
    assert re.fullmatch("a{12,}", ask(guided_regex="a*"))


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_a_complete_tool_call_ends_an_answer_with_ignore_eos(server, dialect):
    tool = {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
    forms = {"messages": {"tools": [{"name": "now", "input_schema": tool["parameters"]}], "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
                          "thinking": {"type": "disabled"}},
             "responses": {"tools": [{"type": "function", **tool}], "tool_choice": "required", "parallel_tool_calls": False, "reasoning_budget": 0}}
    chat = {"tools": [{"type": "function", "function": tool}], "tool_choice": "required", "parallel_tool_calls": False, "reasoning_budget": 0}
    assert '"now"' in json.dumps(ok(server, *body_of(dialect, 64, ignore_eos=True, **forms.get(dialect, chat))))


@each
def test_unsupported_options_are_rejected_by_name(server, dialect):
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
    """RFC 8259, 6: implementations set limits; an error about the limit of a field names the field."""
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


def test_different_integers_of_equal_doubles_are_rejected(server):
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
    """U+FFFD replaces what is not a character, as in WHATWG's TextDecoder and String.prototype.toWellFormed."""
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


# ---- 7 producer-pal#1074: states are counted, seconds are not, and formats and lengths do not multiply ----

LONG = [("uri", 1, 2083), ("uri", 1, 65536), ("uri", 0, 300), ("uri", 20, 2048), ("email", 1, 5000), ("date", 0, 5000), ("duration", 0, 100000), ("hostname", 1, 253), ("email", 3, 320), ("date-time", 1, 64), ("ipv6", 0, 45), ("duration", 2, 1000), ("uuid", 36, 36), ("ipv4", 0, 2000)]


@pytest.mark.parametrize("name,least,most", LONG)
def test_formats_go_with_lengths(server, name, least, most):
    """pydantic's HttpUrl is format uri with maxLength 2083; requests of one kind have the same outcome."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": name, "minLength": least, "maxLength": most}}, "required": ["x"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    ends = {server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 3, "response_format": form})[0] for _ in range(2)}
    assert ends == {200}


@each
def test_formats_go_with_lengths_in_every_dialect(server, dialect):
    for name, least, most in LONG[:2]:
        schema = {"json_schema": {"type": "string", "format": name, "minLength": least, "maxLength": most}}
        ok(server, *body_of(dialect, n=2, **({"options": schema} if "ollama" in dialect else schema)))


# ---- 11 ollama#18575: 0 is not "not given" ----

@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 0}), ("/v1/chat/completions", {"messages": SAY, "max_completion_tokens": 0}),
    ("/v1/chat/completions", {"messages": SAY, "n_predict": 0}), ("/completion", {"prompt": "x", "n_predict": 0}),
    ("/api/chat", {"messages": SAY, "stream": False, "options": {"num_predict": 0}}), ("/api/generate", {"prompt": "x", "stream": False, "options": {"num_predict": 0}}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 0}), ("/v1/responses", {"input": "x", "max_output_tokens": 0}), ("/v1/completions", {"prompt": "x", "max_tokens": 0}),
])
def test_nothing_is_written_without_a_request(server, path, body):
    status, r, _ = server.post(path, body)
    if status == 400:
        assert "max_" in json.dumps(r)
    else:
        assert status == 200 and not text_of(r), r
        assert r.get("eval_count", r.get("tokens_predicted", r.get("usage", {}).get("completion_tokens"))) == 0


# ---- 12 SillyTavern#1855: empty values request nothing ----

EMPTY = [{"grammar": ""}, {"guided_regex": ""}, {"guided_choice": []}, {"json_schema": ""}, {"structured_outputs": {}}, {"response_format": {}}, {"response_format": {"type": "text"}},
         {"response_format": {"type": "grammar", "value": ""}}, {"response_format": {"type": "regex", "pattern": ""}}, {"stop": ""},
         {"stop": []}, {"stop": [""]}, {"logit_bias": {}}, {"logit_bias": []}, {"samplers": []}, {"lora": []}, {"grammar_triggers": []}, {"preserved_tokens": []}]


@each
@pytest.mark.parametrize("beside", [{}, {"json_schema": {"enum": ["one"]}}], ids=["alone", "beside another"])
def test_empty_values_request_nothing(server, dialect, beside):
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


PAIRS = [{"grammar": 'root ::= "a"', "json_schema": {}}, {"structured_outputs": {"regex": "a", "json": {}}}, {"guided_regex": "a", "ebnf": 'root ::= "a"'}]


@each
@pytest.mark.parametrize("more", PAIRS, ids=str)
def test_two_constraints_are_named_as_sent(server, dialect, more):
    message, field = refused(server, *body_of(dialect, **({"options": more} if "ollama" in dialect else more)))
    assert field in more, message


@each
def test_names_that_are_cut_stay_text(server, dialect):
    """A name that is too long for a message is cut, even within a character; the rest is an error or a warning all the same."""
    for name in ("é" * 200, "a" + "é" * 200, "日" * 150, "ab" + "🦙" * 99):
        more = {name: 1}
        path, body = body_of(dialect, n=1, **({"options": more} if "ollama" in dialect else more))
        assert any(w.startswith(name[:50]) and w.endswith("ignored") for w in ok(server, path, body)["warnings"])
        more = {"grammar_" + name: 1}
        assert ("grammar_" + name)[:40] in refused(server, *body_of(dialect, **({"options": more} if "ollama" in dialect else more)))[0]
    for name in ("a" + "é" * 60, "日" * 50):
        r = ok(server, "/v1/chat/completions", {"messages": SAY, "max_tokens": 1, "chat_template_kwargs": {name: 1}})
        assert any(name[:10] in w for w in r["warnings"])
        r = ok(server, "/v1/responses", {"input": "x", "max_output_tokens": 1, "tools": [{"type": "web_search_" + name}]})
        assert any(name[:8] in w for w in r["warnings"])
        assert name[:10] in refused(server, "/v1/responses", {"input": "x", "tools": [{"type": name}]})[0]


NESTED = [
    ("/v1/chat/completions", {"messages": SAY, "stream_options": {"include_usage": "yes"}}, "stream_options"),
    ("/v1/chat/completions", {"messages": SAY, "tools": [{"type": "function", "function": {"name": "f", "description": ["x"]}}]}, "tools"),
    ("/v1/chat/completions", {"messages": SAY, "tools": [{"type": "custom", "custom": {"name": "f", "format": {"type": "x"}}}]}, "tools"),
    ("/v1/completions", {"prompt": "x", "structured_outputs": {"disable_any_whitespace": "yes"}}, "structured_outputs"),
    ("/v1/completions", {"prompt": "x", "structured_outputs": {"regex": "a\0b"}}, "structured_outputs"),
    ("/v1/completions", {"prompt": "x", "guided_choice": ["a\0b"]}, "guided_choice"),
    ("/v1/completions", {"prompt": "x", "logit_bias": {"5": 1e39}}, "logit_bias"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "stop": ["a"], "stop_sequences": ["b"]}, "stop"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 1.5}}, "thinking"),
    ("/api/generate", {"prompt": "x", "raw": True, "system": "y"}, "system"), ("/api/generate", {"prompt": "x", "raw": True, "think": "loud"}, "think"),
    ("/api/chat", {"messages": [{**SAY[0], "images": "QUJD"}]}, "messages"), ("/tokenize", {"content": "a", "prompt": "b"}, "prompt"),
    ("/v1/embeddings", {"input": "x", "truncate_prompt_tokens": 4}, "truncate_prompt_tokens"), ("/v1/responses", {"input": "x", "n": 2}, "n"),
    ("/v1/chat/completions", {"messages": SAY, "stop_sequences": ["a"]}, "stop_sequences"),
    ("/detokenize", {"tokens": [2 ** 31 - 1]}, "tokens"), ("/v1/trace", {"prompt": "x", "weights": [[999, 0]]}, "weights"),
]


@pytest.mark.parametrize("path,body,field", NESTED, ids=lambda v: str(v)[:60])
def test_nothing_within_a_field_is_ignored(server, path, body, field):
    assert refused(server, path, body)[1] == field


@pytest.mark.parametrize("path,body,field", [
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 1, "stream_options": {"x": 1}}, "stream_options"),
    ("/v1/responses", {"input": "x", "max_output_tokens": 1, "text": {"x": 1}}, "text"), ("/v1/responses", {"input": "x", "max_output_tokens": 1, "reasoning": {"x": 1}}, "reasoning"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "output_config": {"x": 1}}, "output_config"),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "thinking": {"type": "disabled", "x": 1}}, "thinking")])
def test_unknown_members_of_fields_are_named(server, path, body, field):
    assert f"{field}: x: unknown field, ignored" in ok(server, path, body)["warnings"]


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 1, "response_format": {"type": "json_object", "schema": None, "json_schema": None}}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 1, "stream_options": {"include_usage": None}}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 1, "service_tier": "default"}), ("/v1/responses", {"input": "x", "max_output_tokens": 1, "text": {"format": {}}}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "thinking": {"type": "disabled", "budget_tokens": None}}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 8.0}}),
    ("/v1/completions", {"prompt": "x", "max_tokens": 1, "logit_bias": {"1.5": 1, "nan": 1, "0x10": 1}})])
def test_values_that_are_valid(server, path, body):
    ok(server, path, body)


def test_null_is_not_false(server):
    assert ok(server, "/tokenize", {"prompt": "a", "add_special_tokens": None}) == ok(server, "/tokenize", {"prompt": "a"})


@each
def test_seeds_are_64_bits(server, dialect):
    """OpenAI's API: from -2^63 to 2^63 - 1; ollama and llama.cpp: -1 is random."""
    for seed in (-2 ** 63, -7, -1, 0, 2 ** 53 + 1, 2 ** 63 - 1, 5.0):
        more = {"seed": seed}
        ok(server, *body_of(dialect, n=1, **({"options": more} if "ollama" in dialect else more)))
    for seed in (2 ** 63, -2 ** 63 - 1, 2 ** 64, -2 ** 64, 1e300):
        more = {"seed": seed}
        assert "it must be from" in refused(server, *body_of(dialect, **({"options": more} if "ollama" in dialect else more)))[0]


def test_ollama_embeddings_have_the_requested_dimensions(server):
    """ollama's docs/api.md: dimensions: number of dimensions for the embedding."""
    for vector in ok(server, "/api/embed", {"input": ["a", "b"], "dimensions": 4})["embeddings"]:
        assert len(vector) == 4 and abs(sum(x * x for x in vector) - 1) < 1e-5
    assert "dimensions" in refused(server, "/api/embed", {"input": "a", "dimensions": 99999})[0]


def test_a_warning_is_returned_once(server):
    warnings = ok(server, "/api/generate", {"prompt": "", "keep_alive": 5})["warnings"]
    assert len(warnings) == len(set(warnings)) == 1, warnings


# ---- 17 jan#8646, openclaw#64180: words that agents look for ----

@pytest.mark.parametrize("path,words,sent", [
    ("/v1/chat/completions", "maximum context length is 1024 tokens", "messages"), ("/v1/completions", "maximum context length is 1024 tokens", "prompt"),
    ("/v1/responses", "maximum context length is 1024 tokens", "input"), ("/v1/embeddings", "maximum context length is 1024 tokens", "input"),
    ("/completion", "exceeds the available context size (1024 tokens)", "prompt"), ("/embedding", "exceeds the available context size (1024 tokens)", "content"),
    ("/v1/messages", "tokens > 1024 maximum", None), ("/api/chat", "exceeds the context length", None), ("/api/generate", "exceeds the context length", None),
    ("/api/embed", "exceeds the context length", None),
])
def test_an_overflow_in_the_form_of_the_dialect(server, path, words, sent):
    """The error also names the field that was sent, if the dialect's errors have a field."""
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
CHUNKS = [          # keys of all events except the last; further keys of the last
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


# ---- further cases ----

def test_ollama_returns_log_probabilities(server):
    """ollama's api/types.go: Logprob {token, logprob, bytes, top_logprobs}, next to the message, in each piece of a stream."""
    body = {"messages": SAY, "logprobs": True, "top_logprobs": 2, "options": {"num_predict": 6, "temperature": 0}}
    whole = ok(server, "/api/chat", body | {"stream": False})
    assert "".join(t["token"] for t in whole["logprobs"] if not MARK.fullmatch(t["token"])) == whole["message"]["content"]
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
