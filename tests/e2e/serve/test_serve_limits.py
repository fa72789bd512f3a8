"""Limits of a request: each limit of the table that the server publishes is accepted, and one more is rejected."""
import json

import pytest
from conftest import PATIENCE
from servers import Server, raw

TALK = [{"role": "user", "content": "Hi"}]


def completion(**more):
    return "/v1/completions", {"prompt": "a", "max_tokens": 1} | more


def tool(name, n=1):
    return {"type": "function", "function": {"name": f"{name}{n}", "description": "x", "parameters": {"type": "object", "properties": {}}}}


def deep(n):
    return completion(metadata=json.loads("[" * (n - 1) + "]" * (n - 1)))


def called(n):
    call = {"function": {"name": "f", "arguments": {}}}
    return "/api/chat", {"messages": [*TALK, {"role": "assistant", "content": "", "tool_calls": [call] * n}], "stream": False,
                         "options": {"num_predict": 1}}


# by (field, what is counted): returns a request with n of it
REQUESTS = {
    ("body", "nested levels of arrays and objects"): deep,
    ("messages", "tool calls in one message"): called,
    ("messages", "numbers outside strings"): lambda n: ("/apply-template", {"messages": [{**TALK[0], "x": [1] * n}]}),
    ("prompt", "prompts"): lambda n: completion(prompt=["a"] * n),
    ("n", "outputs per prompt"): lambda n: ("/v1/chat/completions", {"messages": TALK, "max_tokens": 1, "n": n}),
    ("input", "inputs"): lambda n: ("/v1/embeddings", {"input": ["a"] * n}),
    ("documents", "tokens in all prompts"): None,    # the same
    ("documents", "documents"): None,            # needs a model of another kind: test_serve_rerank.py
    ("stop", "strings"): lambda n: completion(stop=[f"x{i}" for i in range(n)]),
    ("stop", "bytes in all strings"): lambda n: completion(stop=["x" * (n // 2), "y" * (n - n // 2)]),
    ("stop_token_ids", "token ids"): lambda n: completion(stop_token_ids=[1] * n),
    ("dry_sequence_breakers", "strings"): lambda n: completion(dry_sequence_breakers=["a"] * n),
    ("logit_bias", "tokens"): lambda n: completion(logit_bias=[[i, 1] for i in range(n)]),
    ("samplers", "samplers"): lambda n: completion(samplers=["top_k"] * n),
    ("preserved_tokens", "strings"): lambda n: completion(preserved_tokens=["a"] * n),
    ("tools", "bytes in a tool name"): lambda n: ("/apply-template", {"messages": TALK, "tools": [tool("t" * (n - 1))]}),
    ("tool_choice", "allowed tools"): lambda n: ("/v1/chat/completions", {"messages": TALK, "max_tokens": 1, "tools": [tool("t")], "tool_choice": {
        "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "t1"}] * n}}),
    ("chat_template_kwargs", "variables"): lambda n: ("/apply-template", {"messages": TALK, "chat_template_kwargs": {f"v{i}": i for i in range(n)}}),
    ("grammar_triggers", "triggers"): lambda n: completion(grammar='root ::= "w" [0-9]+', grammar_lazy=True,
                                                            grammar_triggers=[{"type": 1, "value": f"w{i}"} for i in range(n)]),
    ("response_fields", "paths"): lambda n: ("/completion", {"prompt": "a", "n_predict": 1, "response_fields": ["content"] * n}),
    ("positions", "positions of a trace"): None,              # the context of the tests is too small
    ("intervene", "interventions"): None,                # needs --allow-interventions: test_trace.py
    ("messages", "messages or input items"): None,   # the context of the tests is too small
    ("tools", "tools"): lambda n: ("/apply-template", {"messages": TALK, "tools": [tool("t", i) for i in range(n)]}),
    ("previous_response_id", "earlier responses"): None,     # needs as many responses
    ("body", "bytes"): None,                             # test_a_body
    ("response_format, grammar, guided_*", "bytes of a grammar, a schema or an expression"): lambda n: completion(grammar="#" + " " * (n - 14) + '\nroot ::= "a"'),
    ("response_format, grammar, guided_*", "states of a compiled grammar"): None,        # tests/unit/grammar
    ("response_format, grammar, guided_*", "units of work to compile it"): None,
}


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "--embeddings", "--temp", 0).ready()
    yield s
    assert s.close() == 0


def test_every_bound_is_known_here(server):
    limits = server.get("/openapi.json")[1]["x-limits"]
    assert {(x["field"], x["counts"]) for x in limits} == set(REQUESTS)


@pytest.mark.parametrize("field,counts", [k for k, v in REQUESTS.items() if v])
def test_one_beyond_is_rejected_with_both_numbers(server, field, counts):
    most, status = next((x["most"], x["status"]) for x in server.get("/openapi.json")[1]["x-limits"] if (x["field"], x["counts"]) == (field, counts))
    path, body = REQUESTS[field, counts](most)
    got, answer, _ = server.post(path, body)
    assert got == 200 or "describe tools" in json.dumps(answer), answer
    path, body = REQUESTS[field, counts](most + 1)
    got, answer, _ = server.post(path, body)
    assert got == status and str(most) in json.dumps(answer), answer


@pytest.mark.parametrize("schema", [
    {"oneOf": [{"type": "string", "pattern": f"^a{{{i}}}$"} for i in range(125)]}, {"oneOf": [{"enum": [f"{c}{i}" for i in range(9000)]} for c in "ab"]},
    {"oneOf": [{"type": "object", "properties": {"t": {"const": i}}, "required": ["t"]} for i in range(600)]},
    {"allOf": [{"enum": [{"a": i} for i in range(5000)]}, {"enum": [{"a": i} for i in range(5000, 10000)]}]},
    {"enum": [{f"k{i % 7}": [i, {"x": i}]} for i in range(9000)]}], ids=["patterns", "enums", "objects", "disjoint", "values"])
def test_quadratic_work_is_counted(server, schema):
    """Pairwise comparisons count as work, too: without that, each of these schemas takes from four seconds to minutes."""
    status, answer, _ = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "guided_json": schema})
    assert (status, answer["error"]["param"]) == (400, "guided_json") and "(limit: " in answer["error"]["message"], answer


def test_a_constraint_that_fails_in_use_is_named(server):
    words = "|".join(f"w{i:06}" for i in range(8000))
    for field, value in (("guided_regex", words), ("guided_choice", words.split("|")), ("structured_outputs", {"regex": words})):
        status, answer, _ = server.post("/v1/completions", {"prompt": "a", "max_tokens": 8, field: value})
        assert (status, answer["error"]["param"]) == (400, field), answer


def test_a_prompt_that_is_too_long_is_rejected_before_its_grammar_is_read(server):
    for more in ({"guided_regex": "("}, {"grammar": "root"}, {"json_schema": {"type": "nonsense"}}):
        status, answer, _ = server.post("/v1/completions", {"prompt": "a " * 3000, "max_tokens": 1} | more)
        assert (status, answer["error"]["code"]) == (400, "context_length_exceeded"), answer


def test_a_body(server):
    most = next(x["most"] for x in server.get("/openapi.json")[1]["x-limits"] if (x["field"], x["counts"]) == ("body", "bytes"))
    text = '{"content": "%s"}'
    whole = text % ("a " * ((most - len(text) + 2) // 2))
    assert len(whole) <= most and server.post("/tokenize", whole)[0] == 200
    head = f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {most + 1}\r\n\r\n"
    assert raw(server, head.encode(), PATIENCE).startswith(b"HTTP/1.1 413 ")


def test_time_that_a_request_may_take(build, model):
    """A request that times out ends with what it has generated, and a warning; one that has generated nothing gets 503, to be retried. The
    server's timeout is the maximum."""
    s = Server(build, "-c", 4096, "--parallel", 1, "--timeout", 3600).ready()
    ask = {"prompt": "On and on", "max_tokens": 4000, "ignore_eos": True}
    for seconds in (2 ** k for k in range(10)):                            # a slow machine generates nothing in the first of them
        status, answer, _ = s.post("/v1/completions", ask | {"timeout": seconds})
        if status == 200:
            break
        assert status == 503
    assert answer["choices"][0]["finish_reason"] == "length" and 0 < answer["usage"]["completion_tokens"] < 4000
    assert f"timeout: the output ends after {seconds} s" in answer["warnings"]
    with s.stream(ask | {"timeout": 3500}):
        while not s.get("/slots")[1][0]["is_processing"]:                  # until the only slot is taken
            pass
        status, answer, headers = s.post("/v1/completions", ask | {"timeout": 0.5})
        assert status == 503 and "nothing was generated within 0.5 s" in answer["error"]["message"] and int(headers["Retry-After"]) > 0
    status, answer, _ = s.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "timeout": -1})
    assert (status, answer["error"]["param"]) == (400, "timeout")
    assert s.close() == 0
