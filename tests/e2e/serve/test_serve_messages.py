"""Problems with messages and tools that users of other servers reported, each generalised to its kind: the number is the public issue that
states the right value."""
import json

import pytest
from dialects import SAY, ok, refused, server  # noqa: F401 (a fixture)
from test_answers import ASKED

DIGITS = {"type": "integer", "minimum": 10, "maximum": 19}


# ---- 3 llama.cpp#11755, #14353, ollama#5775: an answer that was begun is continued ----

BEGUN = [*SAY, {"role": "assistant", "content": "Good mor"}]


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", {"messages": BEGUN, "max_tokens": 4}), ("/v1/messages", {"messages": BEGUN, "max_tokens": 4}),
    ("/v1/responses", {"input": BEGUN, "max_output_tokens": 16}),
    ("/api/chat", {"messages": BEGUN, "stream": False, "options": {"num_predict": 4}}),
    ("/v1/messages", {"messages": [SAY[0], {"role": "assistant", "content": [{"type": "text", "text": "Good mor"}]}], "max_tokens": 4}),
])
def test_a_prefill_is_continued_in_every_dialect(server, path, body):
    """The prompt ends with the text that was begun, without an end of the turn, so that the next token continues the word."""
    plain = ok(server, "/apply-template", {"messages": SAY})["prompt"]
    assert ok(server, "/apply-template", {"messages": BEGUN})["prompt"] == plain + "Good mor"
    n = len(ok(server, "/tokenize", {"content": plain + "Good mor"})["tokens"])
    answer = ok(server, path, body)
    usage = answer.get("usage") or {"prompt_tokens": answer["prompt_eval_count"]}
    assert usage.get("prompt_tokens", usage.get("input_tokens", 0) + usage.get("cache_read_input_tokens", 0)) == n, usage


def test_continuing_and_the_generation_prompt_exclude_each_other(server):
    """Hugging Face's apply_chat_template: continue_final_message and add_generation_prompt exclude each other."""
    def prompt(**more):
        return ok(server, "/apply-template", {"messages": BEGUN, **more})["prompt"]
    closed = prompt(continue_final_message=False, add_generation_prompt=False)
    assert closed.rstrip().endswith("Good mor<|im_end|>")
    assert prompt(add_generation_prompt=True) == prompt(continue_final_message=False) and prompt(add_generation_prompt=True).startswith(closed)
    assert prompt(continue_final_message=True, add_generation_prompt=False) == prompt() and prompt().endswith("Good mor")
    r = ok(server, "/v1/chat/completions", {"messages": BEGUN, "continue_final_message": False, "max_tokens": 1, "verbose": True})
    assert r["__verbose"]["prompt"] == prompt(continue_final_message=False)


# ---- 6 email-mcp#58, hermes-agent#18530: a tool is not rejected because of its description ----

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
def test_schema_parts_beyond_grammars_are_left_free(server, inner):
    requested = {"messages": ASKED, "max_tokens": 8}
    r = ok(server, "/v1/chat/completions", requested | {"tools": tools(inner)})
    reply = [w for w in r["warnings"] if w.startswith("tools: odd: ")]
    assert len(reply) == 1 and f"#/properties/x/{list(inner)[-1]}: " in reply[0] and reply[0].count("enforced by a grammar") <= 1, r["warnings"]
    anthropic = [{"name": t["function"]["name"], "description": "x", "input_schema": t["function"]["parameters"]} for t in tools(inner)]
    assert any("odd" in w for w in ok(server, "/v1/messages", requested | {"tools": anthropic})["warnings"])
    assert any("odd" in w for w in ok(server, "/api/chat", {"messages": ASKED, "stream": False, "options": {"num_predict": 4}, "tools": tools(inner)})["warnings"])
    flat = [{"type": "function", **t["function"]} for t in tools(inner)]
    assert any("odd" in w for w in ok(server, "/v1/responses", {"input": "x", "max_output_tokens": 4, "tools": flat})["warnings"])
    assert refused(server, "/v1/responses", {"input": "x", "tools": flat, "tool_choice": "required"})[0].startswith('tools[1] "odd": parameters: #/')
    assert refused(server, "/v1/messages", requested | {"tools": anthropic, "tool_choice": {"type": "any"}})[0].startswith('tools[1] "odd": parameters: #/')
    for more in ({"tools": tools(inner), "tool_choice": "required"}, {"tools": tools(inner, strict=True)},
                 {"tools": tools(inner), "tool_choice": {"type": "function", "function": {"name": "odd"}}}):
        message, field = refused(server, "/v1/chat/completions", requested | more)
        assert field == "tools" and message.startswith('tools[1] "odd": parameters: #/') and message.count("enforced by a grammar") <= 1, message


@pytest.mark.parametrize("inner", FREE.values(), ids=FREE)
def test_annotations_and_bounds_of_machine_words_are_accepted(server, inner):
    """JSON Schema 2020-12, 7.2.1: format is an annotation by default."""
    for choice in ("auto", "required"):
        r = ok(server, "/v1/chat/completions", {"messages": ASKED, "max_tokens": 4, "tools": tools(inner), "tool_choice": choice})
        assert not any(w.startswith("tools:") for w in r.get("warnings", []))
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": inner}}
    r = ok(server, "/v1/chat/completions", {"messages": ASKED, "max_tokens": 60, "response_format": form})
    if r["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(r["choices"][0]["message"]["content"]), (str, int))


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
def test_invalid_arguments_are_reported(server, arguments):
    call = {"type": "function_call", "call_id": "call00001", "name": "clock", "arguments": arguments}
    for path, body in (("/v1/chat/completions", {"messages": called({"arguments": arguments}), "max_tokens": 1}),
                       ("/api/chat", {"messages": called({"arguments": arguments}), "stream": False, "options": {"num_predict": 1}}),
                       ("/v1/responses", {"input": [*ASKED, call, {"type": "function_call_output", "call_id": "call00001", "output": "noon"}], "max_output_tokens": 1})):
        assert any("clock" in w and "arguments" in w for w in ok(server, path, body)["warnings"]), path


@pytest.mark.parametrize("given", [{"input": ""}, {"input": None}, {"input": {}}, {"input": "{}"}, {}])
def test_input_of_an_earlier_tool_use_is_a_mapping(server, given):
    """In Anthropic's dialect, all of them give the same prompt."""
    def count(given):
        messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "call00001", "name": "clock", **given}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": "noon"}]}]
        return ok(server, "/v1/messages", {"messages": messages, "max_tokens": 1})["usage"]["input_tokens"]
    assert count(given) == count({"input": {}})


def test_an_earlier_tool_use_keeps_its_input_as_text(server):
    """Text that is a JSON object is that object; anything else is left out with a warning."""
    def answer(given):
        messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "call00001", "name": "clock", "input": given}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": "noon"}]}]
        r = ok(server, "/v1/messages", {"messages": messages, "max_tokens": 1})
        return r["usage"]["input_tokens"] + r["usage"]["cache_read_input_tokens"], r.get("warnings", [])
    assert answer('{"zone": "UTC"}') == answer({"zone": "UTC"}) > answer({})
    for odd in ("oops", [1], 5):
        n, warnings = answer(odd)
        assert n == answer({})[0] and any("clock" in w for w in warnings), warnings


def test_a_result_that_is_an_error_is_warned_about(server):
    """No chat template has a place for is_error."""
    def warnings(given):
        messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "call00001", "name": "clock", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": "no such zone", **given}]}]
        return ok(server, "/v1/messages", {"messages": messages, "max_tokens": 1}).get("warnings", [])
    assert warnings({}) == warnings({"is_error": False}) == [] and "is_error" in warnings({"is_error": True})[0]


@pytest.mark.parametrize("content", [5, True, {"type": "text", "text": "noon"}, [5], [{"type": "text"}]])
def test_no_tool_result_vanishes(server, content):
    messages = [*ASKED, {"role": "assistant", "content": [{"type": "tool_use", "id": "call00001", "name": "clock", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": content}]}]
    assert refused(server, "/v1/messages", {"messages": messages, "max_tokens": 1})[0].startswith("messages: message 2: ")


@pytest.mark.parametrize("calls", ["clock", 5, {"function": {"name": "clock"}}, [5], [None], [{"type": "function"}], [{"function": {"arguments": "{}"}}],
                                   [{"id": "a", "type": "custom", "custom": {"name": "clock"}}]])
def test_malformed_calls_are_rejected(server, calls):
    messages = [*ASKED, {"role": "assistant", "content": "", "tool_calls": calls}, *ASKED]
    for path in ("/v1/chat/completions", "/apply-template", "/api/chat"):
        message, field = refused(server, path, {"messages": messages})
        assert field == "messages" and f"message {len(ASKED)}" in message and "call" in message, message


def test_an_older_call_is_a_tool_call(server):
    """OpenAI's function_call of an assistant message, with the function message that answers it."""
    older = [*ASKED, {"role": "assistant", "content": None, "function_call": {"name": "clock", "arguments": "{\"zone\": \"UTC\"}"}},
             {"role": "function", "name": "clock", "content": "noon"}]
    newer = called({"arguments": {"zone": "UTC"}})
    assert ok(server, "/apply-template", {"messages": older}) == ok(server, "/apply-template", {"messages": newer})
    for odd in ("auto", [1]):
        assert "function_call" in refused(server, "/v1/chat/completions", {"messages": [*ASKED, {"role": "assistant", "content": "", "function_call": odd}]})[0]


@pytest.mark.parametrize("number", [2 ** 63 - 1, -2 ** 63, 2 ** 64 - 1, 10 ** 30])
def test_integers_reach_the_prompt_unchanged(server, number):
    """Integers in a tool and in the arguments of a call, as an object or as text, are written as by json.dumps in transformers."""
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
    """The prompt contains the thirty words of any role; a role that a dialect does not have is rejected."""
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


@pytest.mark.parametrize("message", [{"content": None, "refusal": "Marigold"}, {"content": [{"type": "refusal", "refusal": "Marigold"}]},
                                     {"content": "x", "reasoning": "Marigold", "reasoning_content": None}])
def test_no_text_of_an_answer_vanishes(server, message):
    assert "Marigold" in ok(server, "/v1/chat/completions", {"messages": [*SAY, {"role": "assistant", **message}], "max_tokens": 1, "verbose": True,
                                                              "reasoning_effort": "high"})["__verbose"]["prompt"]


def test_members_that_are_null_are_missing(server):
    """OpenAI's clients send all members of an earlier answer."""
    null = dict.fromkeys(("refusal", "audio", "function_call", "tool_calls", "reasoning_content"))
    begun = [*SAY, {"role": "assistant", "content": "Good mor", **null}]
    assert ok(server, "/apply-template", {"messages": begun})["prompt"] == ok(server, "/apply-template", {"messages": BEGUN})["prompt"]
    ok(server, "/v1/chat/completions", {"messages": begun, "continue_final_message": True, "max_tokens": 1})


@pytest.mark.parametrize("part", ["x", 5, {"type": "text"}, {"type": "text", "text": None}, {"type": 5, "text": "x"}])
def test_malformed_parts_are_not_called_unsupported(server, part):
    for path in ("/v1/chat/completions", "/v1/messages"):
        message = refused(server, path, {"messages": [{"role": "user", "content": [part]}], "max_tokens": 1})[0]
        assert message.startswith("messages: message 0: content") and "only text is supported" not in message, message


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses"])
def test_an_unknown_role_is_rejected(server, path):
    odd = [{"role": "narrator", "content": "x"}, *SAY]
    assert "narrator" in refused(server, path, {"messages": odd, "input": odd, "max_tokens": 1})[0]


# ---- further cases ----

def test_tools_with_long_names(server):
    """Anthropic's API: ^[a-zA-Z0-9_-]{1,128}$."""
    def tool(n):
        return [{"name": "n" * n, "description": "x", "input_schema": {"type": "object", "properties": {}}}]
    r = ok(server, "/v1/messages", {"messages": ASKED, "max_tokens": 200, "tools": tool(128), "tool_choice": {"type": "any"}})
    assert [b["name"] for b in r["content"] if b["type"] == "tool_use"][0] == "n" * 128
    assert "128" in refused(server, "/v1/messages", {"messages": ASKED, "max_tokens": 2, "tools": tool(129)})[0]


def test_a_further_call_that_is_cut_leaves_no_marks(server):
    """Whatever the limit, a response contains whole calls and no part of a call's marker."""
    requested = {"messages": ASKED, "tools": tools(DIGITS), "tool_choice": "required", "logit_bias": [["<|im_end|>", -100], ["<|endoftext|>", -100]], "seed": 3}
    for n in range(24, 60, 5):
        message = ok(server, "/v1/chat/completions", requested | {"max_tokens": n})["choices"][0]["message"]
        if len(message.get("tool_calls") or []) >= 1:
            assert "<tool_call" not in (message["content"] or ""), (n, message)
