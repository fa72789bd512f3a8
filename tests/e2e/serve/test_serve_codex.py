"""A session of Codex on POST /v1/responses: nothing is stored, and every turn sends the whole history again, extended by the model's calls
and the shell's output. The prefix of each prompt is in the cache. codex_session.json: instructions, tools, items of each turn."""
import json
import re

import openai
import pytest
from conftest import SOURCE
from servers import ENDS, Server

SESSION = json.loads((SOURCE / "tests/e2e/serve/codex_session.json").read_text())
ASK = {"model": "any", "instructions": SESSION["instructions"], "tools": SESSION["tools"], "tool_choice": "auto", "parallel_tool_calls": False,
       "reasoning": {"effort": "none", "summary": "auto"}, "store": False, "include": ["reasoning.encrypted_content"],
       "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53", "text": {"verbosity": "medium"}, "temperature": 0}
HISTORIES = [sum(SESSION["turns"][:i + 1], []) for i in range(len(SESSION["turns"]))]
SHARE = 0.95
BEGUN = 8                                                    # tokens that begin the response, which may be missing in the next prompt


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", "6144", "-np", "2", "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja").ready()
    yield s
    assert s.close() == 0, s.log


@pytest.fixture(scope="module")
def codex(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=ENDS, max_retries=0)


def completed(client, **requested):
    """Return the response from the events of its stream."""
    with client.responses.stream(**ASK | requested) as stream:
        last = [event for event in stream][-1]
    assert last.type in ("response.completed", "response.incomplete")
    return last.response


def test_a_recorded_session_is_replayed_from_the_cache(codex):
    before = 0
    for history in HISTORIES:
        r = completed(codex, input=history, max_output_tokens=4)
        usage = r.usage
        assert before < usage.input_tokens and usage.input_tokens_details.cached_tokens >= SHARE * (before - BEGUN), (before, usage)
        before = usage.input_tokens
    assert usage.input_tokens_details.cached_tokens > 1000
    whole = codex.responses.create(**ASK, input=history, max_output_tokens=4)
    assert whole.output_text == r.output_text and whole.usage.input_tokens == usage.input_tokens
    assert {w.split(":")[0] for w in whole.model_extra["warnings"]} >= {"tools"} and len(whole.tools) == len(SESSION["tools"])


def test_a_session_continues_with_tool_results(codex):
    """The model's calls are sent back as items, with the shell's output; two sessions alternate."""
    sessions, before = [list(SESSION["turns"][0]), [*SESSION["turns"][0][:-1], {"role": "user", "content": "What does wordcount do?"}]], [0, 0]
    for turn in range(3):
        for i, history in enumerate(sessions):
            r = completed(codex, input=history, tool_choice={"type": "function", "name": "shell"}, max_output_tokens=160)
            assert r.usage.input_tokens_details.cached_tokens >= SHARE * (before[i] - BEGUN), (turn, i, r.usage)
            (call,) = [o for o in r.output if o.type == "function_call"]
            if r.status == "completed":
                assert isinstance(json.loads(call.arguments)["command"], list)
            assert not re.search(r"\s", re.sub(r'"(\\.|[^"\\])*"?', '""', call.arguments)), call.arguments
            history += [{"type": "function_call", "name": "shell", "call_id": call.call_id,
                         "arguments": call.arguments if r.status == "completed" else '{"command":["ls"]}'},
                        {"type": "function_call_output", "call_id": call.call_id, "output": "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nsrc\ntests\n"}]
            before[i] = r.usage.input_tokens


def test_a_stored_session_sends_only_new_items(codex):
    """With previous_response_id, a request that sends only the new items gives the same prompt as one that sends the recorded items and the
    model's output."""
    first = codex.responses.create(**ASK | {"store": True}, input=HISTORIES[1], max_output_tokens=4)
    received = [o.model_dump(exclude_none=True) for o in first.output]
    linked = codex.responses.create(**ASK, input=SESSION["turns"][2], previous_response_id=first.id, max_output_tokens=4)
    sent = codex.responses.create(**ASK, input=[*HISTORIES[1], *received, *SESSION["turns"][2]], max_output_tokens=4)
    assert linked.usage.input_tokens == sent.usage.input_tokens and linked.output_text == sent.output_text
    assert linked.usage.input_tokens_details.cached_tokens >= SHARE * (first.usage.input_tokens - BEGUN)


@pytest.mark.parametrize("choice", [{"type": "web_search"}, {"type": "custom", "name": "apply"}, {"type": "function", "name": "apply_patch"},
                                    {"type": "function", "name": "shell", "namespace": "mcp__fs"}])
def test_a_missing_tool_cannot_be_required(server, choice):
    status, r, _ = server.post("/v1/responses", ASK | {"input": "Hi", "tool_choice": choice})
    assert (status, r["error"]["param"]) == (400, "tool_choice"), r


# ---- tools that are no functions ----

PATCH = r"""
start: begin_patch hunk~1..2 end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

// what a patch does to a file
hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line~1..2
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /[a-z]{1,8}/ ("." "a".."z")
add_line: "+" /[^\n]{0,10}/ LF -> line
change_move: "*** Move to: " filename LF
change: (change_context | change_line)~1..2
    | eof_line
change_context: ("@@" | "@@ " /[^\n]{1,5}/) LF
change_line: ("+" | "-" | " ") /[^\n]{0,10}/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
LINE = r"[^\n]{0,10}\n"
FILE = r"[a-z]{1,8}\.[a-z]\n"
CHANGE = rf"(@@( [^\n]{{1,5}})?\n|[-+ ]{LINE}){{1,2}}|\*\*\* End of File\n"
WHOLE = (rf"\*\*\* Begin Patch\n(\*\*\* Add File: {FILE}(\+{LINE}){{1,2}}|\*\*\* Delete File: {FILE}|"
         rf"\*\*\* Update File: {FILE}(\*\*\* Move to: {FILE})?({CHANGE})?){{1,2}}\*\*\* End Patch\n?")
READ = {"type": "function", "name": "read", "description": "Reads a file.", "strict": False,
        "parameters": {"type": "object", "properties": {"path": {"enum": ["a", "b"]}}, "required": ["path"], "additionalProperties": False}}
SPACE = {"type": "namespace", "name": "mcp__fs", "description": "Tools in the mcp__fs namespace.", "tools": [READ]}
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "grammar", "syntax": "lark", "definition": PATCH}}
FREE = {"type": "custom", "name": "note", "description": "Takes a note."}


def both(server, **requested):
    """Return the only call, after comparing the stream with the whole response; and the types of the events in between. The small model
    thinks until the limit with some seeds, which differ by instruction set: the first other one counts."""
    for seed in range(4, 20):
        body = ASK | {"input": "Go.", "max_output_tokens": 400, "seed": seed, "temperature": 0.5} | requested
        status, whole, _ = server.post("/v1/responses", body)
        assert status == 200, whole
        if whole["output"][0]["type"] != "reasoning":
            break
    _, text, _ = server.post("/v1/responses", body | {"stream": True})
    seen = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]
    added, done = (e["item"] for e in seen if e["type"].startswith("response.output_item."))
    assert seen[-1]["response"]["output"] == [done]
    (call,) = whole["output"]
    ids = ("id", "call_id")
    assert {k: v for k, v in call.items() if k not in ids} == {k: v for k, v in done.items() if k not in ids} and added["type"] == done["type"]
    return call, [e for e in seen if e["type"].startswith(("response.custom", "response.function"))]


def test_calls_of_a_namespace_carry_it(server):
    for choice in ("required", {"type": "function", "name": "read", "namespace": "mcp__fs"}):
        call, _ = both(server, tools=[SPACE], tool_choice=choice)
        assert (call["type"], call["name"], call["namespace"]) == ("function_call", "read", "mcp__fs") and json.loads(call["arguments"])["path"] in "ab"
    prompt = [{"role": "user", "content": "Go."}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "text"}]
    flat = [{k: v for k, v in call.items() if k != "namespace"} | {"name": "mcp__fs__read"} if item is call else item for item in prompt]
    tool = READ | {"name": "mcp__fs__read", "description": "Tools in the mcp__fs namespace.\nReads a file."}
    counts = [server.post("/v1/responses/input_tokens", {"input": items, "tools": tools})[1]["input_tokens"] for items, tools in ((prompt, [SPACE]), (flat, [tool]))]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("tool", [CUSTOM, SPACE | {"tools": [CUSTOM]}, CUSTOM | {"format": {"type": "grammar", "syntax": "regex", "definition": WHOLE}}])
def test_the_input_of_a_custom_tool_matches_its_grammar(server, tool):
    space = {"namespace": "mcp__fs"} if tool["type"] == "namespace" else {}
    call, seen = both(server, tools=[tool, READ], tool_choice={"type": "custom", "name": "apply_patch"} | space)
    assert (call["type"], call["name"], call["status"]) == ("custom_tool_call", "apply_patch", "completed") and call["id"].startswith("ctc_")
    assert re.fullmatch(WHOLE, call["input"]), call
    assert call.get("namespace") == space.get("namespace")
    assert [e["type"] for e in seen] == ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"]
    assert seen[0]["delta"] == seen[1]["input"] == call["input"]


def test_a_custom_tool_takes_any_text(server):
    call, _ = both(server, tools=[FREE], tool_choice="required")
    assert (call["type"], call["name"]) == ("custom_tool_call", "note") and call["input"]


# ---- the same of Chat Completions: {"type": "custom", "custom": {…, "format": {"type": "grammar", "grammar": {…}}}}

def nested(tool):
    format = tool.get("format")
    if format and format["type"] == "grammar":
        format = {"type": "grammar", "grammar": {k: v for k, v in format.items() if k != "type"}}
    return {"type": "custom", "custom": {k: v for k, v in tool.items() if k not in ("type", "format")} | ({"format": format} if format else {})}


def chat(server, **requested):
    """Return the only call of an answer, after comparing the stream with it."""
    body = {"messages": [{"role": "user", "content": "Go."}], "temperature": 0.5, "max_tokens": 400, "reasoning_effort": "none", "parallel_tool_calls": False} | requested
    for seed in range(4, 20):
        status, whole, _ = server.post("/v1/chat/completions", body | {"seed": seed})
        assert status == 200, whole
        if whole["choices"][0]["finish_reason"] == "tool_calls":
            break
    (call,) = whole["choices"][0]["message"]["tool_calls"]
    _, text, _ = server.post("/v1/chat/completions", body | {"seed": seed, "stream": True})
    deltas = [e["choices"][0]["delta"] for e in (json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")) if e["choices"]]
    parts = [part for d in deltas for part in d.get("tool_calls", [])]
    kind = call["type"]
    member = "input" if kind == "custom" else "arguments"
    assert {p["index"] for p in parts} == {0} and (parts[0]["type"], parts[0][kind]["name"]) == (kind, call[kind]["name"])
    assert "".join(p[kind].get(member, "") for p in parts) == call[kind][member] and whole["choices"][0]["finish_reason"] == "tool_calls"
    return call


CHAT_READ = {"type": "function", "function": {k: v for k, v in READ.items() if k != "type"}}


@pytest.mark.parametrize("tool", [CUSTOM, CUSTOM | {"format": {"type": "grammar", "syntax": "regex", "definition": WHOLE}}])
@pytest.mark.parametrize("choice", [{"type": "custom", "custom": {"name": "apply_patch"}},
                                    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "apply_patch"}}]}}])
def test_a_nested_custom_tool_matches_its_grammar(server, tool, choice):
    call = chat(server, tools=[nested(tool), CHAT_READ], tool_choice=choice)
    assert set(call) == {"id", "type", "custom"} and call["custom"]["name"] == "apply_patch" and re.fullmatch(WHOLE, call["custom"]["input"]), call


def test_custom_tools_beside_functions(server):
    assert chat(server, tools=[nested(FREE)], tool_choice="required")["custom"]["input"]
    call = chat(server, tools=[nested(FREE), CHAT_READ], tool_choice={"type": "function", "function": {"name": "read"}})
    assert call["type"] == "function" and json.loads(call["function"]["arguments"])["path"] in "ab"


def test_calls_of_custom_tools_continue_a_conversation(server):
    """The model sees a function with one string: the prompt is that of the same call in this form."""
    def count(call, tools):
        messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", **call}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "noted"}]
        status, got, _ = server.post("/v1/chat/completions/input_tokens", {"messages": messages, "tools": tools})
        assert status == 200, got
        status, rendered, _ = server.post("/apply-template", {"messages": messages, "tools": tools})
        assert status == 200, rendered
        return got["input_tokens"], rendered["prompt"]
    function = {"type": "function", "function": {"name": "note", "description": FREE["description"], "parameters": {
        "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False}}}
    text = "one\n\"two\""
    assert count({"type": "custom", "custom": {"name": "note", "input": text}}, [nested(FREE)]) == count(
        {"type": "function", "function": {"name": "note", "arguments": json.dumps({"input": text})}}, [function])


@pytest.mark.parametrize("format, why", [({"type": "grammar"}, "definition"), ({"type": "grammar", "grammar": {"syntax": "ebnf", "definition": "x"}}, "ebnf"),
                                         ({"type": "other"}, "text"), ({"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: ("}}, "")])
def test_formats_of_custom_tools_that_are_wrong(server, format, why):
    for path, tool in (("/v1/chat/completions", {"type": "custom", "custom": {"name": "note", "format": format}}),
                       ("/v1/responses", {"type": "custom", "name": "note", "format": {"type": format["type"], **format.get("grammar", {})}})):
        body = {"messages": [{"role": "user", "content": "Go."}]} if "chat" in path else {"input": "Go."}
        status, got, _ = server.post(path, body | {"tools": [CHAT_READ if "chat" in path else READ, tool]})
        assert status == 400 and got["error"]["message"].startswith('tools[1] "note": ') and why in got["error"]["message"], got


def test_a_local_shell_is_a_tool(server):
    call, seen = both(server, tools=[{"type": "local_shell"}], tool_choice={"type": "local_shell"})
    assert call["type"] == "local_shell_call" and call["action"]["type"] == "exec" and isinstance(call["action"].get("command", []), list) and not seen


def test_a_history_of_all_calls_is_read(server):
    shell = {"type": "exec", "command": ["ls"], "timeout_ms": 1000, "working_directory": None, "env": {}, "user": None}
    history = [{"role": "user", "content": "Go."},
               {"type": "custom_tool_call", "call_id": "c1", "name": "note", "input": "one\n\"two\""}, {"type": "custom_tool_call_output", "call_id": "c1", "output": "noted"},
               {"type": "local_shell_call", "call_id": "c2", "status": "completed", "action": shell}, {"type": "function_call_output", "call_id": "c2", "output": "src"},
               {"type": "local_shell_call", "id": "c3", "status": "completed", "action": shell}, {"type": "local_shell_call_output", "id": "c3", "output": "src"},
               {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}}, {"role": "user", "content": "Go on."}]
    functions = [{"type": "function_call", "call_id": "c1", "name": "note", "arguments": '{"input":"one\\n\\"two\\""}'}, history[2] | {"type": "function_call_output"}]
    counts = []
    for items in (history[:3], [history[0], *functions]):
        status, r, _ = server.post("/v1/responses/input_tokens", {"input": items, "tools": [FREE]})
        assert status == 200, r
        counts.append(r["input_tokens"])
    assert counts[0] == counts[1]
    status, r, _ = server.post("/v1/responses", ASK | {"input": history, "max_output_tokens": 2})
    assert status == 200 and any("web_search_call" in w for w in r["warnings"]), r
    for item in ({"type": "custom_tool_call", "call_id": "c", "name": "note"}, {"type": "local_shell_call", "call_id": "c"},
                 {"type": "custom_tool_call_output", "call_id": "none", "output": ""}, {"type": "compaction", "encrypted_content": "x"}):
        status, r, _ = server.post("/v1/responses", ASK | {"input": [item]})
        assert (status, r["error"]["param"]) == (400, "input") and (item["type"] in r["error"]["message"] or "none" in r["error"]["message"])


def grammar(definition, syntax="lark"):
    return CUSTOM | {"format": {"type": "grammar", "syntax": syntax, "definition": definition}}


@pytest.mark.parametrize("tool, word", [
    ({"type": "tool_search", "execution": "client", "description": "", "parameters": {}}, "tool_search"), ({"type": "file_search"}, "file_search"), ({"type": "mcp"}, "mcp"),
    ({"type": "namespace", "name": "x"}, "namespace"), (SPACE | {"tools": [SPACE]}, "namespace"), (CUSTOM | {"format": {"type": "x"}}, "apply_patch"),
    (grammar("a: b", "abnf"), "abnf"), (grammar("start: a\na: \"x\" a?"), "uses itself"), (grammar("start: a"), '"a"'), (grammar("start: \"x\"\n%ignore WS"), "%ignore"),
    (grammar("start: /x/i"), "flags"), (grammar("start: (\"x\""), "group without an end"), (grammar("begin: \"x\""), "start"), (grammar(r"(a)\1", "regex"), "backreference"),
])
def test_what_cannot_be_done_is_named(server, tool, word):
    status, r, _ = server.post("/v1/responses", ASK | {"input": "Hi", "tools": [READ, tool], "tool_choice": "required"})
    assert (status, r["error"]["param"]) == (400, "tools") and word in r["error"]["message"], r
