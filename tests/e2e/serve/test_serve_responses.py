"""POST /v1/responses with OpenAI's own client, streamed and not, and requests that are rejected."""
import contextlib
import json
import random
import sqlite3
import time

import openai
import pytest
from conftest import PATIENCE, SOURCE, run
from servers import ENDS, Server

ASK = {"model": "any", "input": "Name three colours.", "max_output_tokens": 24, "temperature": 0}
TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
SCHEMA = {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 8}}, "required": ["colour"], "additionalProperties": False}


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", "1024", "-np", "4").ready()
    yield s
    assert s.close() == 0


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=ENDS, max_retries=0)


def events(text):
    for block in text.decode().strip().split("\n\n"):
        if not block.startswith(":"):
            name, data = block.split("\n")
            o = json.loads(data.removeprefix("data: "))
            assert name == "event: " + o["type"]
            yield o


def test_a_response_equals_chat(client):
    r = client.responses.create(**ASK)
    c = client.chat.completions.create(model="any", messages=[{"role": "user", "content": ASK["input"]}], max_tokens=24, temperature=0)
    assert r.output_text == c.choices[0].message.content
    assert r.usage.input_tokens == c.usage.prompt_tokens and r.usage.total_tokens == c.usage.total_tokens
    assert r.object == "response" and r.id.startswith("resp_") and r.output[0].id.startswith("msg_")
    assert r.status == ("incomplete" if c.choices[0].finish_reason == "length" else "completed")


def test_the_helper_for_streams_accepts_every_event(client):
    whole = client.responses.create(**ASK)
    with client.responses.stream(**ASK) as stream:
        pieces = [e.delta for e in stream if e.type == "response.output_text.delta"]
    assert "".join(pieces) == whole.output_text


def test_events_come_in_order_and_numbered(server):
    status, text, _ = server.post("/v1/responses", ASK | {"stream": True, "stop": ["zzzz"]})
    all_events = list(events(text))
    names = [e["type"].removeprefix("response.") for e in all_events]
    n = names.count("output_text.delta")
    assert status == 200 and n > 1
    assert [e["sequence_number"] for e in all_events] == list(range(len(all_events)))
    assert names == ["created", "in_progress", "output_item.added", "content_part.added", *["output_text.delta"] * n, "output_text.done",
                     "content_part.done", "output_item.done", names[-1]]
    first, last = all_events[0]["response"], all_events[-1]["response"]
    assert first["output"] == [] and first["usage"] is None and first["id"] == last["id"]
    assert last["output"] == [all_events[-2]["item"]] and all_events[-2]["item"]["id"] == all_events[2]["item"]["id"]
    assert last["output"][0]["content"][0]["text"] == "".join(e["delta"] for e in all_events if e["type"].endswith("text.delta"))
    assert all(e["output_index"] == 0 and e["content_index"] == 0 for e in all_events if "text" in e["type"] or "part" in e["type"])


def test_a_cut_response_is_incomplete(server):
    status, r, _ = server.post("/v1/responses", ASK | {"max_output_tokens": 3})
    assert (status, r["status"], r["incomplete_details"]) == (200, "incomplete", {"reason": "max_output_tokens"})
    assert r["usage"]["output_tokens"] == 3 and r["output"][0]["status"] == "incomplete" and r["completed_at"] is None
    _, text, _ = server.post("/v1/responses", ASK | {"max_output_tokens": 3, "stream": True})
    assert list(events(text))[-1]["type"] == "response.incomplete"


def test_formats_are_enforced(client):
    r = client.responses.create(**ASK | {"max_output_tokens": 64},
                                text={"format": {"type": "json_schema", "name": "c", "schema": SCHEMA, "strict": True}})
    assert set(json.loads(r.output_text)) == {"colour"}
    assert r.text.format.name == "c"
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**ASK, text={"format": {"type": "json_schema", "name": "c", "schema": {"unheardOf": 1, "$dynamicRef": "#a"}}})
    assert e.value.body["param"] == "text.format"


def test_items_are_returned_unchanged(client, server):
    """A client that stores the conversation itself sends the output items of responses again, among messages of every role."""
    first = client.responses.create(**ASK, instructions="Be brief.")
    items = [{"role": "user", "content": ASK["input"]}, *[o.model_dump() for o in first.output],
             {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
             {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "One word."}]},
             {"role": "user", "content": [{"type": "input_text", "text": "Which one is"}, {"type": "input_text", "text": "the best?"}]}]
    requested = ASK | {"input": items, "instructions": "Be brief.", "store": False, "include": ["reasoning.encrypted_content"],
                   "tools": [{"type": "web_search"}], "tool_choice": "auto"}
    reply = client.responses.create(**requested)
    messages = [{"role": "system", "content": "Be brief.\n\nOne word."}, {"role": "user", "content": ASK["input"]},
                {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "Which one is\nthe best?"}]
    chat = client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0)
    assert reply.output_text == chat.choices[0].message.content
    assert sorted(w.split(":")[0] for w in reply.model_extra["warnings"]) == ["include", "input", "tools"]
    status, count, _ = server.post("/v1/responses/input_tokens", {k: requested[k] for k in ("input", "instructions")})
    assert (status, count["object"], count["input_tokens"]) == (200, "response.input_tokens", reply.usage.input_tokens)


@pytest.mark.parametrize("more, field", [
    ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "tools"),  # the demo model's template does not support tools
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "required", "tools": [{"type": "web_search"}]}, "tool_choice"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}]}}, "tool_choice"),
    ({"reasoning": {"effort": "endless"}}, "reasoning"),
    ({"reasoning": {"effort": 3}}, "reasoning"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]}, "input"),
    ({"tools": [1]}, "tools"),
    ({"conversation": "conv_0"}, "conversation"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"include": ["message.output_text.logprobs"]}, "include"),
    ({"text": {"format": {"type": "xml"}}}, "text.format"),
    ({"text": {"format": {"type": "json_schema", "name": "c"}}}, "text.format"),
    ({"text": {"format": {"type": "json_object"}}, "response_format": {"type": "json_object"}}, "text.format"),
    ({"input": []}, "input"),
    ({"input": 5}, "input"),
    ({"input": [7]}, "input"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input"),
    ({"input": [{"role": "user"}]}, "input"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input"),
    ({"input": [{"type": "item_reference", "id": "msg_0"}]}, "input"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
])
def test_unsupported_fields_are_rejected_by_name(server, more, field):
    status, r, _ = server.post("/v1/responses", ASK | more)
    assert (status, r["error"]["param"]) == (400, field), r


# ---- functions and reasoning ----

WEATHER = {"type": "function", "name": "get_weather", "description": "the weather of a city", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
                          "additionalProperties": False}}
CLOCK = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
CALLS = ASK | {"input": "How is the weather in Paris?", "max_output_tokens": 60, "tools": [WEATHER, CLOCK, {"type": "web_search"}]}


@pytest.fixture(scope="module")
def speaking(build, model):
    """A server whose chat template supports tools and reasoning."""
    s = Server(build, "-c", "1024", "-np", "4", "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja").ready()
    yield s
    assert s.close() == 0
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def caller(speaking):
    return openai.OpenAI(base_url=speaking.url + "/v1", api_key="none", timeout=ENDS, max_retries=0)


@pytest.mark.parametrize("choice", [{"type": "function", "name": "get_weather"},
                                    {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}])
def test_a_function_that_is_named_is_called(caller, choice):
    r = caller.responses.create(**CALLS, tool_choice=choice, parallel_tool_calls=False)
    call = r.output[-1]
    assert r.status == "completed" and [o.type for o in r.output] == ["function_call"]
    assert call.name == "get_weather" and json.loads(call.arguments)["city"] in ("Paris", "Rome")
    assert call.id.startswith("fc_") and call.call_id.startswith("call_") and call.status == "completed"
    assert r.tools[0].name == "get_weather" and len(r.tools) == 3 and any("web_search" in w for w in r.model_extra["warnings"])


def test_streamed_calls_equal_whole_answers(caller, speaking):
    requested = CALLS | {"tool_choice": "required", "parallel_tool_calls": False, "seed": 5}
    _, whole, _ = speaking.post("/v1/responses", requested)
    _, text, _ = speaking.post("/v1/responses", requested | {"stream": True})
    received = list(events(text))
    names = [e["type"].removeprefix("response.") for e in received]
    n = names.count("function_call_arguments.delta")
    assert names == ["created", "in_progress", "output_item.added", *["function_call_arguments.delta"] * n, "function_call_arguments.done",
                     "output_item.done", "completed"]
    assert "".join(e["delta"] for e in received if e["type"].endswith("arguments.delta")) == received[-3]["arguments"]
    assert received[2]["item"]["arguments"] == "" and received[-1]["response"]["output"] == [received[-2]["item"]]
    assert {k: v for k, v in received[-2]["item"].items() if k in ("name", "arguments")} == \
        {k: whole["output"][0][k] for k in ("name", "arguments")}
    with caller.responses.stream(**CALLS, tool_choice="required", parallel_tool_calls=False) as stream:      # OpenAI's accumulator
        last = [e for e in stream][-1].response
    assert last.output[0].type == "function_call" and last.output[0].parsed_arguments is not None


def test_a_call_and_its_output_continue_a_conversation(caller, speaking):
    first = caller.responses.create(**CALLS, tool_choice={"type": "function", "name": "get_weather"})
    call = first.output[0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": [{"type": "input_text", "text": "sunny"}]}
    sent = caller.responses.create(**CALLS | {"input": [{"role": "user", "content": CALLS["input"]}, call.model_dump(), result]})
    linked = caller.responses.create(**CALLS | {"input": [result]}, previous_response_id=first.id)
    assert sent.output_text == linked.output_text and sent.usage.input_tokens == linked.usage.input_tokens
    tools = [{"type": "function", "function": {k: v for k, v in t.items() if k not in ("type", "strict")}} for t in (WEATHER, CLOCK)]
    messages = [{"role": "user", "content": CALLS["input"]},
                {"role": "assistant", "tool_calls": [{"id": call.call_id, "type": "function",
                                                      "function": {"name": call.name, "arguments": call.arguments}}]},
                {"role": "tool", "tool_call_id": call.call_id, "content": "sunny"}]
    chat = caller.chat.completions.create(model="any", messages=messages, tools=tools, max_tokens=60, temperature=0)
    assert chat.usage.prompt_tokens == sent.usage.input_tokens and (chat.choices[0].message.content or "") == sent.output_text
    status, r, _ = speaking.post("/v1/responses", ASK | {"input": [result]})
    assert (status, r["error"]["param"]) == (400, "input")


def test_reasoning_is_a_separate_item(caller, speaking):
    requested = ASK | {"reasoning": {"effort": "high", "summary": "auto"}}
    _, r, _ = speaking.post("/v1/responses", requested)
    assert r["output"][0]["type"] == "reasoning" and r["output"][0]["content"][0]["type"] == "reasoning_text"
    assert r["usage"]["output_tokens_details"]["reasoning_tokens"] > 0 and r["reasoning"]["effort"] == "high"
    _, text, _ = speaking.post("/v1/responses", requested | {"stream": True})
    received = list(events(text))
    assert "".join(e["delta"] for e in received if e["type"] == "response.reasoning_text.delta") == r["output"][0]["content"][0]["text"]
    assert [o["type"] for o in received[-1]["response"]["output"]] == [o["type"] for o in r["output"]]
    with caller.responses.stream(**requested) as stream:
        assert [e for e in stream][-1].type == "response." + r["status"]
    _, off, _ = speaking.post("/v1/responses", ASK | {"reasoning": {"effort": "none"}})
    assert [o["type"] for o in off["output"]] == ["message"]
    _, again, _ = speaking.post("/v1/responses", ASK | {"input": [{"role": "user", "content": "Hello"}, r["output"][0],
                                                                  {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Go on."}]})
    assert again["status"] in ("completed", "incomplete"), again


# ---- stored responses ----

def test_a_response_is_found_again_and_forgotten(client):
    reply = client.responses.create(**ASK, metadata={"a": "b"})
    again = client.responses.retrieve(reply.id)
    assert again.model_dump() == reply.model_dump() and again.metadata == {"a": "b"}
    items = client.responses.input_items.list(reply.id)
    assert [(i.role, i.content[0].text) for i in items] == [("user", ASK["input"])]
    client.responses.delete(reply.id)
    for ask in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            ask(reply.id)


def test_streams_are_stored_and_store_false_is_not(client, server):
    _, text, _ = server.post("/v1/responses", ASK | {"stream": True})
    last = list(events(text))[-1]["response"]
    assert server.get("/v1/responses/" + last["id"])[1] == last
    reply = client.responses.create(**ASK, store=False)
    assert reply.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)


def test_a_conversation_continues_from_a_stored_response(client):
    """A response continues from the input and output of all responses before it, but not from their instructions."""
    first = client.responses.create(**ASK, instructions="Be brief.")
    second = client.responses.create(**ASK | {"input": "Which is best?"}, previous_response_id=first.id)
    third = client.responses.create(**ASK | {"input": [{"role": "user", "content": "Why?"}]}, previous_response_id=second.id)
    by_hand = client.responses.create(**ASK | {"input": [
        {"role": "user", "content": ASK["input"]}, {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "Which is best?"},
        {"role": "assistant", "content": second.output_text}, {"role": "user", "content": "Why?"}]})
    assert third.output_text == by_hand.output_text and third.usage.input_tokens == by_hand.usage.input_tokens
    assert third.previous_response_id == second.id and [i.content[0].text for i in client.responses.input_items.list(third.id)] == ["Why?"]
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError) as e:
        client.responses.create(**ASK, previous_response_id=third.id)
    assert e.value.body["code"] == "previous_response_not_found" and e.value.body["param"] == "previous_response_id"


def test_input_items_are_listed_in_both_orders_and_by_pages(client, server):
    reply = client.responses.create(**ASK | {"input": [{"role": "user", "content": c} for c in "abc"]})
    path = f"/v1/responses/{reply.id}/input_items"
    texts = lambda query: [i["content"][0]["text"] for i in server.get(path + query)[1]["data"]]
    assert texts("") == ["c", "b", "a"] and texts("?order=asc") == ["a", "b", "c"]
    page = server.get(path + "?order=asc&limit=2")[1]
    assert page["has_more"] and texts("?order=asc&after=" + page["last_id"]) == ["c"]
    for query, field in (("limit=0", "limit"), ("limit=1.5", "limit"), ("limit=2x", "limit"), ("order=up", "order"),
                         ("after=msg_none", "after"), ("before=msg_none", "before")):
        status, answer, _ = server.get(f"{path}?{query}")
        assert (status, answer["error"]["param"]) == (400, field), answer


def test_each_key_has_its_own_responses(build, model, tmp_path):
    """After a restart, a response is found only by the key that stored it, each key has its own usage, and no key is in the file."""
    at, flags = tmp_path / "store.db", ["--api-key", "first-secret", "--api-key", "second-secret", "-c", "256"]
    one, two = ({"Authorization": f"Bearer {k}-secret"} for k in ("first", "second"))
    s = Server(build, "--store", at, *flags).ready()
    requested = ASK | {"max_output_tokens": 4}
    reply = s.post("/v1/responses", requested, headers=one)[1]
    s.post("/v1/responses", requested, headers=one)
    s.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, headers=two)
    assert s.close() == 0
    assert b"-secret" not in at.read_bytes()
    s = Server(build, "--store", at, *flags).ready()
    assert s.get("/v1/responses/" + reply["id"], headers=one)[1] == reply
    assert s.get("/v1/responses/" + reply["id"], headers=two)[0] == 404
    assert s.post("/v1/responses", requested | {"previous_response_id": reply["id"]}, headers=two)[0] == 404
    (day,) = s.get("/v1/usage", headers=one)[1]["data"]
    assert (day["requests"], day["input_tokens"], day["output_tokens"]) == (2, 2 * reply["usage"]["input_tokens"], 8)
    assert [d["output_tokens"] for d in s.get("/v1/usage", headers=two)[1]["data"]] == [2]
    assert s.close() == 0


def test_killed_at_any_moment_it_opens_again_whole(build, model, tmp_path):
    """After each kill, the file is intact and still contains what was in it."""
    at, found, chance = tmp_path / "store.db", {}, random.Random(22)
    for _ in range(4):
        s = Server(build, "--store", at, "-c", "128").ready()
        for id_, r in found.items():
            assert s.get("/v1/responses/" + id_)[1] == r
        reply = s.post("/v1/responses", ASK | {"max_output_tokens": 1})[1]
        assert s.get("/v1/responses/" + reply["id"])[1] == reply
        with contextlib.closing(sqlite3.connect(at)) as db:              # a response is found before it is written
            until = time.monotonic() + PATIENCE
            while not db.execute("SELECT 1 FROM responses WHERE id = ?", (reply["id"],)).fetchall() and time.monotonic() < until:
                time.sleep(0.005)
        found[reply["id"]] = reply
        s.post("/v1/responses", ASK | {"max_output_tokens": 1})
        time.sleep(chance.random() * 0.003)
        s.process.kill()
        s.process.wait()
        with sqlite3.connect(at) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("content, why", [(b"no database at all" * 100, "not a database"), (None, "another program")])
def test_foreign_files_are_rejected(build, model, tmp_path, content, why):
    at = tmp_path / "store.db"
    if content:
        at.write_bytes(content)
    else:
        with sqlite3.connect(at) as db:
            db.execute("CREATE TABLE t (x)")
    before = at.read_bytes()
    r = run(build / "src/cli/lamina", "serve", TINY, "--port", "0", "--no-sandbox", "--store", at)
    assert r.returncode == 1 and why in r.stderr and str(at) in r.stderr and len(r.stderr.strip().splitlines()) == 1
    assert at.read_bytes() == before


def test_a_failing_store_is_reported_and_the_server_continues(build, model, tmp_path):
    """A table is dropped while the server runs: requests for stored responses fail, requests that need no store are answered."""
    at = tmp_path / "store.db"
    s = Server(build, "--store", at, "-c", "128").ready()
    with sqlite3.connect(at) as db:
        db.execute("DROP TABLE responses")
    status, reply, _ = s.post("/v1/responses", ASK | {"max_output_tokens": 1})
    assert status == 200
    until = time.time() + PATIENCE
    while (got := s.get("/v1/responses/" + reply["id"]))[0] == 200:       # found while it waits to be written
        assert time.time() < until
        time.sleep(0.01)
    status, r, _ = got
    assert (status, r["error"]["code"]) == (500, "store_failed") and "\n" not in r["error"]["message"]
    assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
    assert s.close() == 0


def test_readers_do_not_wait_for_the_writer(build, model, tmp_path):
    """While another process locks the file, stored responses are found, deleted and counted; afterwards the file contains the rest."""
    at = tmp_path / "store.db"
    s = Server(build, "--store", at, "-c", "128").ready()
    ask = {"input": "Hi", "max_output_tokens": 2, "temperature": 0}
    with contextlib.closing(sqlite3.connect(at, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        ids = [s.post("/v1/responses", ask)[1]["id"] for _ in range(3)]
        assert [s.get(f"/v1/responses/{i}")[0] for i in ids] == [200, 200, 200]
        assert s.ask("DELETE", f"/v1/responses/{ids[1]}")[0] == 200
        assert [s.get(f"/v1/responses/{i}")[0] for i in ids] == [200, 404, 200]
        db.execute("ROLLBACK")
    assert [s.get(f"/v1/responses/{i}")[0] for i in ids] == [200, 404, 200]
    assert s.close() == 0
    with contextlib.closing(sqlite3.connect(at)) as db:
        assert {r[0] for r in db.execute("SELECT id FROM responses")} == {ids[0], ids[2]}
        assert db.execute("SELECT SUM(requests) FROM tokens").fetchone() == (3,)


def test_two_servers_share_a_store(build, model, tmp_path):
    """As while one version replaces another. What one server has stored, the other can delete without losing count of what is left."""
    at, ask = tmp_path / "store.db", {"input": "Hi", "max_output_tokens": 2}
    first, second = (Server(build, "--store", at, "-c", "128").ready() for _ in range(2))

    def written(ids):
        until = time.monotonic() + PATIENCE
        with contextlib.closing(sqlite3.connect(at)) as db:
            while {r[0] for r in db.execute("SELECT id FROM responses")} != set(ids):
                assert time.monotonic() < until
                time.sleep(0.005)
    ids = [second.post("/v1/responses", ask)[1]["id"] for _ in range(6)]
    written(ids)
    for i in ids[:3]:
        assert first.ask("DELETE", f"/v1/responses/{i}")[0] == 200
    written(ids[3:])
    ids.append(first.post("/v1/responses", ask)[1]["id"])
    written(ids[3:])
    assert [s.get(f"/v1/responses/{i}")[0] for s in (first, second) for i in ids[3:]] == [200] * 8
    assert first.close() == second.close() == 0
