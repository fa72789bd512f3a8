"""Tool calls and reasoning in Anthropic's and ollama's formats, as their own clients see them."""
import datetime
import json

import anthropic
import ollama
import openai
import pytest
from test_answers import ASKED, CLOCK, TEMPLATE, WEATHER
from conftest import PATIENCE
from servers import Server

TOOLS = [{"name": t["function"]["name"], "description": t["function"].get("description", ""), "input_schema": t["function"]["parameters"]}
         for t in (WEATHER, CLOCK)]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "--temp", 0, "--embeddings", "--chat-template-file", TEMPLATE).ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=PATIENCE)


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(host=server.url, timeout=PATIENCE)


def check_weather(arguments):
    assert set(arguments) == {"city", "days"} and arguments["city"] in ("Paris", "Rome") and 1 <= arguments["days"] <= 5


def prompt_of(server, **requested):
    status, answer, _ = server.post("/apply-template", requested)
    assert status == 200, answer
    return answer["prompt"]


# ---- Anthropic ----

@pytest.mark.parametrize("choice,names", [({"type": "tool", "name": "get_weather"}, {"get_weather"}),
                                          ({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "clock"})])
def test_a_required_tool_is_used(claude, choice, names):
    m = claude.messages.create(model="any", max_tokens=80, messages=ASKED, tools=TOOLS, tool_choice=choice)
    assert m.stop_reason == "tool_use" and [b.type for b in m.content] == ["tool_use"]
    assert m.content[0].name in names and m.content[0].id.startswith("toolu_")
    if m.content[0].name == "get_weather":
        check_weather(m.content[0].input)


def test_streamed_blocks_equal_whole_answers(claude):
    requested = dict(model="any", max_tokens=80, messages=ASKED, tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"})
    whole = claude.messages.create(**requested)
    with claude.messages.stream(**requested) as stream:
        seen = list(stream)
        last = stream.get_final_message()
    pieces = [e for e in seen if e.type == "content_block_delta" and e.delta.type == "input_json_delta"]
    assert len(pieces) > 1 and json.loads("".join(e.delta.partial_json for e in pieces)) == whole.content[0].input
    assert last.content[0].input == whole.content[0].input and last.stop_reason == "tool_use"


def test_thinking_is_a_block_before_the_text(claude):
    requested = dict(model="any", max_tokens=40, messages=ASKED, thinking={"type": "enabled", "budget_tokens": 12})
    whole = claude.messages.create(**requested)
    assert [b.type for b in whole.content] == ["thinking", "text"] and whole.content[0].thinking and whole.content[1].text
    with claude.messages.stream(**requested) as stream:
        seen = list(stream)
        last = stream.get_final_message()
    assert [b.type for b in last.content] == ["thinking", "text"]
    assert last.content[0].thinking == whole.content[0].thinking and last.content[1].text == whole.content[1].text
    order = [(e.type, e.index, getattr(getattr(e, "delta", None), "type", "")) for e in seen if e.type.startswith("content_block_")]
    assert order[0] == ("content_block_start", 0, "") and ("content_block_start", 1, "") in order
    stop = order.index(("content_block_stop", 0, ""))
    assert order[stop - 1] == ("content_block_delta", 0, "signature_delta") and order[stop + 1] == ("content_block_start", 1, "")
    off = claude.messages.create(**requested | {"thinking": {"type": "disabled"}})
    assert [b.type for b in off.content] == ["text"]


def test_anthropic_history_is_read_as_openai_history(claude, server):
    blocks = [*ASKED, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome", "days": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]},
                                     {"type": "text", "text": "And now?"}]}]
    call = {"id": "toolu_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome", "days": 1}'}}
    plain = [*ASKED, {"role": "assistant", "content": "I look.", "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"}, {"role": "user", "content": "And now?"}]
    described = [{"type": "function", "function": {k: t["input_schema"] if k == "parameters" else t[k] for k in ("name", "description", "parameters")}}
                 for t in TOOLS]
    prompt = prompt_of(server, messages=plain, tools=described)
    assert '{"name": "get_weather", "arguments": {"city": "Rome", "days": 1}}' in prompt and "\nrain<" in prompt
    n = len(server.post("/tokenize", {"content": prompt})[1]["tokens"])
    assert claude.messages.count_tokens(model="any", messages=blocks, tools=TOOLS).input_tokens == n


def test_system_messages_become_one(claude, server):
    m = claude.messages.count_tokens(model="any", system="One.", messages=[*ASKED, {"role": "system", "content": "Two."}])
    prompt = prompt_of(server, messages=[{"role": "system", "content": "One.\nTwo."}, *ASKED])
    assert m.input_tokens == len(server.post("/tokenize", {"content": prompt})[1]["tokens"])


def test_a_format_is_enforced(claude, server):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    status, m, _ = server.post("/v1/messages", {"max_tokens": 40, "messages": ASKED,
                                                "output_config": {"format": {"type": "json_schema", "schema": schema}}})
    assert status == 200 and isinstance(json.loads(m["content"][0]["text"])["n"], int)


@pytest.mark.parametrize("wrong,reply", [
    ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}}, "other"), ({"tool_choice": {"type": "any"}}, "no tools"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
    ({"thinking": {"type": "loud"}}, "loud"), ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "budget_tokens"),
    ({"output_config": {"effort": "wild"}}, "wild"), ({"output_config": {"format": {"type": "xml"}}}, "json_schema"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "tool_use_id"),
    ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "document")])
def test_anthropic_requests_that_are_rejected(server, wrong, reply):
    status, answer, _ = server.post("/v1/messages", {"max_tokens": 2, "messages": ASKED} | wrong)
    assert status == 400 and answer["error"]["type"] == "invalid_request_error" and reply in answer["error"]["message"], answer


# ---- ollama ----

def test_ollama_history_is_read_as_openai_history(server, client):
    call = {"id": "call00000", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    prompt = prompt_of(server, tools=[CLOCK], messages=[*ASKED, {"role": "assistant", "content": "", "tool_calls": [call]},
                                                        {"role": "tool", "tool_call_id": "call00000", "content": "noon"}])
    history = [*ASKED, {"role": "assistant", "tool_calls": [{"function": {"name": "clock", "arguments": {}}}]},
               {"role": "tool", "tool_name": "clock", "content": "noon"}]
    requested = {"messages": history, "tools": [CLOCK], "stream": False, "options": {"num_predict": 4}}
    n = len(server.post("/tokenize", {"content": prompt})[1]["tokens"])
    assert server.post("/api/chat", requested)[1]["prompt_eval_count"] == n
    assert client.chat(model="any", tools=[CLOCK], messages=history, options={"num_predict": 4}).message.content


def test_ollama_returns_thinking_separately(client):
    requested = dict(model="any", messages=ASKED, options={"num_predict": 16})
    whole = client.chat(**requested, think=True).message
    assert whole.thinking and not whole.content
    pieces = list(client.chat(**requested, think="high", stream=True))
    assert "".join(p.message.thinking or "" for p in pieces) == whole.thinking and pieces[-1].done_reason == "length"
    off = client.chat(**requested, think=False).message
    assert off.content and not off.thinking
    reply = client.generate(model="any", prompt=ASKED[0]["content"], think=True, options={"num_predict": 16})
    assert reply.thinking == whole.thinking and not reply.response
    assert {"tools", "thinking"} <= set(client.show("any").capabilities)


def test_a_format_of_ollama_is_enforced_after_thinking(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    status, m, _ = server.post("/api/chat", {"messages": ASKED, "stream": False, "think": False, "format": schema, "options": {"num_predict": 40}})
    assert status == 200 and isinstance(json.loads(m["message"]["content"])["n"], int)


def test_ollama_rejects_thinking_without_support(build, model):
    s = Server(build, "-c", 512).ready()
    status, answer, _ = s.post("/api/chat", {"messages": ASKED, "think": True})
    assert status == 400 and "does not support thinking" in answer["error"]
    status, answer, _ = s.post("/v1/messages", {"messages": ASKED, "max_tokens": 2, "tools": TOOLS})
    assert status == 400 and "does not describe tools" in answer["error"]["message"]
    assert "no switch for reasoning" in s.post("/v1/messages", {"messages": ASKED, "max_tokens": 2, "thinking": {"type": "adaptive"}})[1]["warnings"][0]
    assert s.close() == 0


# ---- keys of responses, compared with the clients' own types ----

def keys(cls):
    """Return (required, all) keys by the names that are sent."""
    fields = {f.alias or name: f for name, f in cls.model_fields.items()}
    return {name for name, f in fields.items() if f.is_required()}, set(fields)


PARTS = [
    ("/v1/chat/completions", {"messages": ASKED, "max_tokens": 4, "logprobs": True, "top_logprobs": 1}, [
        ([], openai.types.chat.ChatCompletion), (["choices", 0], openai.types.chat.chat_completion.Choice), (["choices", 0, "message"], openai.types.chat.ChatCompletionMessage),
        (["choices", 0, "logprobs"], openai.types.chat.chat_completion.ChoiceLogprobs), (["usage"], openai.types.CompletionUsage)]),
    ("/v1/completions", {"prompt": "a", "max_tokens": 4, "logprobs": 1}, [([], openai.types.Completion), (["choices", 0], openai.types.CompletionChoice), (["usage"], openai.types.CompletionUsage),
        (["choices", 0, "logprobs"], openai.types.completion_choice.Logprobs)]),
    ("/v1/responses", {"input": "a", "max_output_tokens": 4}, [([], openai.types.responses.Response), (["usage"], openai.types.responses.ResponseUsage),
        (["output", 0], openai.types.responses.ResponseOutputMessage), (["output", 0, "content", 0], openai.types.responses.ResponseOutputText)]),
    ("/v1/embeddings", {"input": "a"}, [([], openai.types.CreateEmbeddingResponse), (["data", 0], openai.types.Embedding), (["usage"], openai.types.create_embedding_response.Usage)]),
    ("/v1/messages", {"messages": ASKED, "max_tokens": 4}, [([], anthropic.types.Message), (["usage"], anthropic.types.Usage), (["content", 0], anthropic.types.TextBlock)]),
    ("/api/chat", {"messages": ASKED, "stream": False, "options": {"num_predict": 4}}, [([], ollama.ChatResponse), (["message"], ollama.Message)]),
    ("/api/generate", {"prompt": "a", "stream": False, "options": {"num_predict": 4}}, [([], ollama.GenerateResponse)]),
    ("/api/embed", {"input": "a"}, [([], ollama.EmbedResponse)]),
]
MORE = {"warnings", "timings", "store"}      # lamina's own (docs/server/api.md); store: in the answers of OpenAI's reference, not in its type


@pytest.mark.parametrize("path,body,parts", PARTS, ids=[p[0] for p in PARTS])
def test_documents_have_the_keys_of_the_clients_types(server, path, body, parts):
    status, answer, _ = server.post(path, body)
    assert status == 200, answer
    for at, cls in parts:
        part = answer
        for step in at:
            part = part[step]
        required, known = keys(cls)
        assert required <= set(part) <= known | MORE, (at, required - set(part), set(part) - known - MORE)


def test_a_model_alone_is_loaded(server):
    for path, member in (("/api/chat", "message"), ("/api/generate", "response"), ("/api/embed", "embeddings"), ("/api/embeddings", "embedding")):
        status, answer, _ = server.post(path, {"model": "any"})
        assert status == 200 and not (answer[member]["content"] if member == "message" else answer[member]), (path, answer)


def test_a_model_is_described_as_by_ollama(server, model):
    (one,) = server.get("/api/tags")[1]["models"]
    shown = server.post("/api/show", {"model": one["name"]})[1]
    assert one["details"]["quantization_level"] == shown["details"]["quantization_level"] == "Q4_1"
    moment = datetime.datetime.fromisoformat(one["modified_at"][:19]).replace(tzinfo=datetime.UTC).timestamp()
    assert moment == int(model.stat().st_mtime) and shown["modified_at"] == one["modified_at"]
