"""POST /v1/responses: what OpenAI's own client makes of it, streamed and not, and what is refused."""
import json

import openai
import pytest
from test_serve import ENDS, Server

ASK = {"model": "any", "input": "Name three colours.", "max_output_tokens": 24, "temperature": 0}
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


def test_a_response_is_what_chat_says(client):
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


def test_a_text_that_is_cut_is_incomplete(server):
    status, r, _ = server.post("/v1/responses", ASK | {"max_output_tokens": 3})
    assert (status, r["status"], r["incomplete_details"]) == (200, "incomplete", {"reason": "max_output_tokens"})
    assert r["usage"]["output_tokens"] == 3 and r["output"][0]["status"] == "incomplete" and r["completed_at"] is None
    _, text, _ = server.post("/v1/responses", ASK | {"max_output_tokens": 3, "stream": True})
    assert list(events(text))[-1]["type"] == "response.incomplete"


def test_formats_hold(client):
    r = client.responses.create(**ASK | {"max_output_tokens": 64},
                                text={"format": {"type": "json_schema", "name": "c", "schema": SCHEMA, "strict": True}})
    assert set(json.loads(r.output_text)) == {"colour"}
    assert r.text.format.name == "c"
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**ASK, text={"format": {"type": "json_schema", "name": "c", "schema": {"unheardOf": 1, "$dynamicRef": "#a"}}})
    assert e.value.body["param"] == "text.format"


def test_items_come_back_as_they_were_sent(client, server):
    """A client that keeps the conversation sends the items of answers again, among messages of every role."""
    first = client.responses.create(**ASK, instructions="Be brief.")
    items = [{"role": "user", "content": ASK["input"]}, *[o.model_dump() for o in first.output],
             {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
             {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "One word."}]},
             {"role": "user", "content": [{"type": "input_text", "text": "Which one is"}, {"type": "input_text", "text": "the best?"}]}]
    asked = ASK | {"input": items, "instructions": "Be brief.", "store": False, "include": ["reasoning.encrypted_content"],
                   "tools": [{"type": "web_search"}], "tool_choice": "auto"}
    said = client.responses.create(**asked)
    messages = [{"role": "system", "content": "Be brief.\n\nOne word."}, {"role": "user", "content": ASK["input"]},
                {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "Which one is\nthe best?"}]
    chat = client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0)
    assert said.output_text == chat.choices[0].message.content
    assert [w.split(":")[0] for w in said.model_extra["warnings"]] == ["tools", "include", "input"]
    status, count, _ = server.post("/v1/responses/input_tokens", {k: asked[k] for k in ("input", "instructions")})
    assert (status, count["object"], count["input_tokens"]) == (200, "response.input_tokens", said.usage.input_tokens)


@pytest.mark.parametrize("more, field", [
    ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
    ({"tools": [1]}, "tools"),
    ({"previous_response_id": "resp_0"}, "previous_response_id"),
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
def test_what_is_not_done_is_refused_by_name(server, more, field):
    status, r, _ = server.post("/v1/responses", ASK | more)
    assert (status, r["error"]["param"]) == (400, field), r
