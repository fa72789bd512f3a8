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


@pytest.mark.parametrize("choice", [{"type": "web_search"}, {"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "apply_patch"}])
def test_a_missing_tool_cannot_be_required(server, choice):
    """A tool in the list that is not supported is ignored with a warning, as by llama-server, since clients can do without it. Requiring it
    by name is an error."""
    status, r, _ = server.post("/v1/responses", ASK | {"input": "Hi", "tool_choice": choice})
    assert (status, r["error"]["param"]) == (400, "tool_choice"), r
