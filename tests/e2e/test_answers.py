"""Calls of tools and reasoning in the answers of a server, as OpenAI's client sees them."""
import json
import pathlib

import openai
import pytest
from test_serve import Server

TEMPLATE = pathlib.Path(__file__).with_name("tools.jinja")
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 5}},
                   "required": ["city", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
ASKED = [{"role": "user", "content": "How is the weather in Paris?"}]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "--temp", 0, "--chat-template-file", TEMPLATE).ready()
    yield s
    assert s.close() == 0, s.said
    assert not [line for line in s.said if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=300)


def check_weather(call):
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather" and call.id.startswith("call_")
    assert set(arguments) == {"city", "days"} and arguments["city"] in ("Paris", "Rome") and 1 <= arguments["days"] <= 5


def test_a_call_that_is_named_fits_its_schema(client):
    answer = client.chat.completions.create(model="any", messages=ASKED, tools=[WEATHER, CLOCK], max_tokens=60,
                                            tool_choice={"type": "function", "function": {"name": "get_weather"}})
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None and len(choice.message.tool_calls) == 1
    check_weather(choice.message.tool_calls[0])
    assert answer.usage.completion_tokens > 5


def test_required_calls_are_streamed_as_they_are_answered_whole(client):
    asked = dict(model="any", messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=60, seed=3)
    whole = client.chat.completions.create(**asked).choices[0].message.tool_calls[0]
    with client.chat.completions.stream(**{k: v for k, v in asked.items()}) as stream:
        pieces = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
        last = stream.get_final_completion().choices[0]
    assert last.finish_reason == "tool_calls" and len(pieces) > 1
    assert last.message.tool_calls[0].function.arguments == whole.function.arguments
    check_weather(last.message.tool_calls[0])


def test_earlier_calls_and_results_are_part_of_the_conversation(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    answer = client.chat.completions.create(model="any", tools=[CLOCK], max_tokens=8, tool_choice="none", messages=[
        *ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "noon"}])
    assert answer.choices[0].message.tool_calls is None and answer.choices[0].finish_reason in ("stop", "length")


def test_auto_leaves_text_as_it_is(client, server):
    asked = {"messages": ASKED, "max_tokens": 12, "tools": [CLOCK]}
    free = server.post("/v1/chat/completions", asked | {"tool_choice": "none"})[1]["choices"][0]["message"]
    auto = server.post("/v1/chat/completions", asked)[1]["choices"][0]["message"]
    assert auto.get("tool_calls") or auto["content"] == free["content"]


def test_reasoning_that_the_prompt_begins_stands_apart(server):
    asked = {"messages": ASKED, "max_tokens": 16, "reasoning_effort": "high"}
    message = server.post("/v1/chat/completions", asked)[1]["choices"][0]["message"]
    assert message["reasoning_content"] and message["content"] == ""
    assert "reasoning_content" not in server.post("/v1/chat/completions", asked | {"reasoning_effort": "none"})[1]["choices"][0]["message"]
    kept = server.post("/v1/chat/completions", asked | {"reasoning_format": "none"})[1]["choices"][0]["message"]
    assert "reasoning_content" not in kept and kept["content"].strip().startswith(message["reasoning_content"][:4])


@pytest.mark.parametrize("wrong,field", [
    ({"tools": [{"type": "function", "function": {"name": "no such name!"}}]}, "tools"),
    ({"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"), ({"tools": [CLOCK], "tool_choice": "maybe"}, "tool_choice"),
    ({"tools": [CLOCK, CLOCK]}, "tools"), ({"tools": [CLOCK], "response_format": {"type": "json_object"}}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "uniqueItems": True, "properties": {
        "a": {"type": "array", "uniqueItems": True}}}}}], "tool_choice": "required"}, "tools"),
    ({"reasoning_format": "loud"}, "reasoning_format")])
def test_what_cannot_be_done_is_refused_by_name(server, wrong, field):
    status, answer, _ = server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 2} | wrong)
    assert status == 400 and answer["error"]["param"] == field, answer


def test_a_template_that_does_not_speak_of_tools_is_an_error(build, model):
    s = Server(build, "-c", 512).ready()
    status, answer, _ = s.post("/v1/chat/completions", {"messages": ASKED, "tools": [CLOCK], "max_tokens": 2})
    assert status == 400 and "does not describe tools" in answer["error"]["message"]
    assert s.close() == 0
