"""Tool calls and reasoning in responses of the server, as OpenAI's client sees them."""
import json
import pathlib

import openai
import pytest
from conftest import PATIENCE
from servers import Server

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
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)


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


def test_streamed_required_calls_equal_whole_answers(client):
    requested = dict(model="any", messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=60, seed=3)
    whole = client.chat.completions.create(**requested).choices[0].message.tool_calls[0]
    with client.chat.completions.stream(**{k: v for k, v in requested.items()}) as stream:
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
    requested = {"messages": ASKED, "max_tokens": 12, "tools": [CLOCK]}
    free = server.post("/v1/chat/completions", requested | {"tool_choice": "none"})[1]["choices"][0]["message"]
    auto = server.post("/v1/chat/completions", requested)[1]["choices"][0]["message"]
    assert auto.get("tool_calls") or auto["content"] == free["content"]


def test_reasoning_that_the_prompt_begins_is_separate(server):
    requested = {"messages": ASKED, "max_tokens": 16, "reasoning_effort": "high"}
    message = server.post("/v1/chat/completions", requested)[1]["choices"][0]["message"]
    assert message["reasoning_content"] and message["content"] == ""
    assert "reasoning_content" not in server.post("/v1/chat/completions", requested | {"reasoning_effort": "none"})[1]["choices"][0]["message"]
    kept = server.post("/v1/chat/completions", requested | {"reasoning_format": "none"})[1]["choices"][0]["message"]
    assert "reasoning_content" not in kept and kept["content"].strip().startswith(message["reasoning_content"][:4])


@pytest.mark.parametrize("wrong,field", [
    ({"tools": [{"type": "function", "function": {"name": "no such name!"}}]}, "tools"),
    ({"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"), ({"tools": [CLOCK], "tool_choice": "maybe"}, "tool_choice"),
    ({"tools": [CLOCK, CLOCK]}, "tools"), ({"tools": [CLOCK], "response_format": {"type": "json_object"}}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "uniqueItems": True, "properties": {
        "a": {"type": "array", "uniqueItems": True}}}}}], "tool_choice": "required"}, "tools"),
    ({"reasoning_format": "loud"}, "reasoning_format")])
def test_unsupported_options_are_rejected_by_name(server, wrong, field):
    status, answer, _ = server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 2} | wrong)
    assert status == 400 and answer["error"]["param"] == field, answer


def test_properties_name_the_format_of_calls(server):
    props = server.get("/props")[1]
    assert props["tool_call_format"] == "hermes" and props["tool_calls_unread"] is None


def test_calls_of_an_unknown_form_stay_text_and_are_logged(build, model, tmp_path):
    template = TEMPLATE.read_text()
    begin, end = template.index("{%- for call in"), template.index("{%- endfor %}<|im_end|>\n{% endfor %}")
    strange = template[:begin] + "{%- for call in message.tool_calls or [] %}\nuse {{ call.function.name }} with {{ call.function.arguments.items() | list }}" + template[end:]
    (tmp_path / "strange.jinja").write_text(strange)
    s = Server(build, "-c", 512, "--temp", 0, "--chat-template-file", tmp_path / "strange.jinja").ready()
    props = s.get("/props")[1]
    assert props["tool_call_format"] is None and "form that is not known" in props["tool_calls_unread"]
    assert any("are not parsed: its chat template" in line for line in s.log), s.log
    answer = s.post("/v1/chat/completions", {"messages": ASKED, "tools": [CLOCK], "max_tokens": 4})[1]
    assert "not known" in answer["warnings"][0] and "tool_calls" not in answer["choices"][0]["message"]
    status, answer, _ = s.post("/v1/chat/completions", {"messages": ASKED, "tools": [CLOCK], "max_tokens": 4, "tool_choice": "required"})
    assert status == 400 and "not known" in answer["error"]["message"]
    assert s.close() == 0


@pytest.mark.parametrize("begin,end", [("[[CALL", "CALL]]"), ("<jupyter_start>tool", "<jupyter_output>end")])       # the latter: control tokens
def test_marks_that_only_the_template_shows_are_learned(build, model, tmp_path, begin, end):
    learned = TEMPLATE.read_text().replace("<tool_call>", begin).replace("</tool_call>", end).replace('{"name":', '{"tool":').replace('"arguments":', '"args":')
    (tmp_path / "learned.jinja").write_text(learned)
    s = Server(build, "-c", 512, "--temp", 0, "--chat-template-file", tmp_path / "learned.jinja").ready()
    assert s.get("/props")[1]["tool_call_format"] == "general"
    requested = {"messages": ASKED, "tools": [WEATHER, CLOCK], "max_tokens": 100, "parallel_tool_calls": False, "reasoning_effort": "high", "reasoning_budget": 4, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    answer = s.post("/v1/chat/completions", requested)[1]["choices"][0]
    assert answer["finish_reason"] == "tool_calls" and json.loads(answer["message"]["tool_calls"][0]["function"]["arguments"])["city"] in ("Paris", "Rome")
    client = openai.OpenAI(base_url=s.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)
    with client.chat.completions.stream(model="any", **{k: v for k, v in requested.items() if k != "reasoning_budget"}, extra_body={"reasoning_budget": 4}) as stream:
        pieces = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
        last = stream.get_final_completion().choices[0]
    assert len(pieces) > 1 and last.message.tool_calls[0].function.arguments == answer["message"]["tool_calls"][0]["function"]["arguments"]
    assert s.close() == 0


def test_a_template_without_tools_is_an_error(build, model):
    s = Server(build, "-c", 512).ready()
    status, answer, _ = s.post("/v1/chat/completions", {"messages": ASKED, "tools": [CLOCK], "max_tokens": 2})
    assert status == 400 and "does not describe tools" in answer["error"]["message"]
    for name in ("assistant", ASKED[0]["content"].split()[0]):      # words that the prompt contains anyway
        named = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        status, answer, _ = s.post("/v1/chat/completions", {"messages": ASKED, "tools": [named], "max_tokens": 2})
        assert status == 400 and "does not describe tools" in answer["error"]["message"], name
    assert s.close() == 0


# ---- reasoning budgets, allowed tools, template variables ----

def test_reasoning_ends_with_its_budget(server):
    requested = {"messages": ASKED, "max_tokens": 40, "reasoning_effort": "high"}
    free = server.post("/v1/chat/completions", requested)[1]
    assert free["usage"]["completion_tokens_details"]["reasoning_tokens"] == free["usage"]["completion_tokens"] == 40
    for field in ("reasoning_budget", "thinking_budget_tokens"):
        answer = server.post("/v1/chat/completions", requested | {field: 8})[1]
        message = answer["choices"][0]["message"]
        assert free["choices"][0]["message"]["reasoning_content"].startswith(message["reasoning_content"]) and message["content"]
        assert 8 <= answer["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 8 + 4
    none = server.post("/v1/chat/completions", requested | {"reasoning_budget": 0})[1]["choices"][0]["message"]
    assert "reasoning_content" not in none and none["content"]


def test_a_format_is_enforced_after_ended_reasoning(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    answer = server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 60, "reasoning_effort": "high", "reasoning_budget": 6,
                                                  "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}})[1]
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"] and isinstance(json.loads(message["content"])["n"], int)
    answer = server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 60, "reasoning_effort": "high", "reasoning_budget": 6,
                                                  "tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False})[1]
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"] and json.loads(message["tool_calls"][0]["function"]["arguments"])["city"]


def test_only_allowed_tools_are_called(client):
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "clock"}}]}}
    for seed in range(3):
        answer = client.chat.completions.create(model="any", messages=ASKED, tools=[WEATHER, CLOCK], max_tokens=60, seed=seed, temperature=1.5,
                                                parallel_tool_calls=False, tool_choice=allowed)
        assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["clock"]


def test_a_call_that_the_limit_cuts_is_no_text(server):
    plain = {"name": "get_weather", **{k: WEATHER["function"][k] for k in ("description", "parameters")}}
    for limit in (1, 3, 5, 8, 11, 14, 18):
        chat = {"messages": ASKED, "tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": limit}
        choice = server.post("/v1/chat/completions", chat)[1]["choices"][0]
        assert choice["finish_reason"] == "length" and not choice["message"]["content"], choice
        calls = choice["message"].get("tool_calls", [])
        assert all(c["function"]["name"] == "get_weather" for c in calls)

        answer = server.post("/v1/responses", {"input": "weather?", "tools": [{"type": "function", **plain}], "tool_choice": "required",
                                               "parallel_tool_calls": False, "max_output_tokens": limit})[1]
        assert answer["status"] == "incomplete" and answer["incomplete_details"] == {"reason": "max_output_tokens"}
        assert all(o["status"] == "incomplete" for o in answer["output"]), answer["output"]
        assert not any(part["text"] for o in answer["output"] if o["type"] == "message" for part in o["content"])

        tool = {"name": "get_weather", "input_schema": plain["parameters"]}
        answer = server.post("/v1/messages", {"messages": ASKED, "tools": [tool], "tool_choice": {"type": "tool", "name": "get_weather"},
                                              "max_tokens": limit})[1]
        assert answer["stop_reason"] == "max_tokens" and not [b for b in answer["content"] if b["type"] == "text" and b["text"]]
        blocks = [b for b in answer["content"] if b["type"] == "tool_use"]
        assert len(blocks) == len(calls) and all(set(b["input"]) <= {"city", "days"} for b in blocks)

        answer = server.post("/api/chat", {"messages": ASKED, "tools": [WEATHER], "stream": False, "options": {"num_predict": limit}})[1]
        assert answer["done_reason"] == "length" and "<tool_" not in answer["message"]["content"]
    assert calls                                                    # the last limit is within the arguments


def test_calls_are_text_without_tools(server):
    requested = {"messages": ASKED, "max_tokens": 60, "tools": [CLOCK], "tool_choice": "required", "parallel_tool_calls": False}
    message = server.post("/v1/chat/completions", requested | {"parse_tool_calls": False})[1]["choices"][0]["message"]
    assert "tool_calls" not in message and message["content"].startswith("<tool_call>")


def test_variables_that_the_template_does_not_use_are_named(server):
    requested = {"messages": ASKED, "max_tokens": 2}
    assert "warnings" not in server.post("/v1/chat/completions", requested | {"chat_template_kwargs": {"enable_thinking": True}})[1]
    warnings = server.post("/v1/chat/completions", requested | {"chat_template_kwargs": {"enable_thought": True}})[1]["warnings"]
    assert warnings == ["chat_template_kwargs: the chat template of this model does not use 'enable_thought'; ignored"]


@pytest.mark.parametrize("wrong,field", [
    ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs"), ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
    ({"reasoning_effort": "wild"}, "reasoning_effort"), ({"reasoning_budget": -2}, "reasoning_budget"),
    ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "tool_choice"),
    ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "other"}]}}, "tool_choice")])
def test_wrong_values_are_named(server, wrong, field):
    status, answer, _ = server.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 2} | wrong)
    assert status == 400 and answer["error"]["param"] == field, answer


def test_a_template_without_system_messages_is_an_error(build, model, tmp_path):
    only_users = tmp_path / "users.jinja"
    only_users.write_text("{% for m in messages if m.role == 'user' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endfor %}")
    s = Server(build, "-c", 512, "--chat-template-file", only_users).ready()
    status, answer, _ = s.post("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be brief."}, *ASKED], "max_tokens": 2})
    assert status == 400 and "leaves out messages of role system" in answer["error"]["message"]
    assert s.post("/v1/chat/completions", {"messages": ASKED, "max_tokens": 2})[0] == 200
    assert s.close() == 0
