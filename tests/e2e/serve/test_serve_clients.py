"""lamina serve with LangChain's unmodified OpenAI client, and with the requests of lm-eval's `local-completions`."""
import json
import math

import pydantic
import pytest
from conftest import SOURCE, run
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from servers import ENDS, Server

ASKED = [SystemMessage("Be brief."), HumanMessage("How is the weather in Paris?")]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 512, "-np", 4, "--embeddings", "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja").ready()
    yield s
    assert s.close() == 0, s.log


@pytest.fixture(scope="module")
def chat(server):
    return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="any", temperature=0, max_tokens=40, timeout=ENDS, max_retries=0, stream_usage=True)


@tool
def get_weather(city: str, days: int) -> str:
    """The weather of a city."""
    return f"sunny in {city} for {days} days"


class Colour(pydantic.BaseModel):
    """A colour."""
    name: str = pydantic.Field(max_length=8)
    warm: bool


def test_answers_and_streams_are_the_same(chat):
    whole = chat.invoke(ASKED)
    pieces = list(chat.stream(ASKED))
    assert whole.content and "".join(p.content for p in pieces) == whole.content
    assert whole.usage_metadata["total_tokens"] == sum(p.usage_metadata["total_tokens"] for p in pieces if p.usage_metadata)
    assert [a.content for a in chat.batch([ASKED, ASKED])] == [whole.content] * 2


def test_tools_that_are_bound_are_called_and_answered(chat):
    bound = chat.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False)
    reply = bound.invoke(ASKED)
    call = reply.tool_calls[0]
    assert call["name"] == "get_weather" and set(call["args"]) == {"city", "days"} and isinstance(call["args"]["days"], int)
    together = None
    for piece in bound.stream(ASKED):
        together = piece if together is None else together + piece
    assert together.tool_calls[0]["args"] == call["args"]
    after = chat.bind_tools([get_weather], tool_choice="none").invoke([*ASKED, reply, ToolMessage("sunny", tool_call_id=call["id"])])
    assert isinstance(after, AIMessage) and not after.tool_calls


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_is_an_object_of_its_class(chat, method):
    assert isinstance(chat.with_structured_output(Colour, method=method).invoke("Name a colour."), Colour)


def test_vectors(server):
    e = OpenAIEmbeddings(base_url=server.url + "/v1", api_key="none", model="any", check_embedding_ctx_length=False)
    a, b = e.embed_documents(["hello", "hello"])
    assert a == b == e.embed_query("hello") and abs(math.fsum(x * x for x in a) - 1) < 1e-4


def test_the_log_likelihoods_of_lm_eval_equal_score(build, model, server):
    """lm-eval sends token ids with echo, requests one token more than it needs and the most probable token per position
    (lm_eval/models/openai_completions.py, api_models.py). The sum over the continuation is the log-likelihood; the most probable tokens
    show whether greedy decoding gives the continuation."""
    pairs = [("The capital of France is", " Paris, and that of Italy is Rome"), ("Water is made of", " hydrogen and oxygen"), ("One, two, three,", " four")]
    requested = []
    for context, more in pairs:
        ids = server.post("/tokenize", {"content": context + more})[1]["tokens"]
        requested.append((ids, len(server.post("/tokenize", {"content": context})[1]["tokens"])))
    r = server.post("/v1/completions", {"model": "any", "prompt": [ids for ids, _ in requested], "max_tokens": 1, "temperature": 0, "logprobs": 1,
                                        "seed": 1234, "echo": True})[1]
    assert [c["index"] for c in r["choices"]] == [0, 1, 2]
    for (context, more), (ids, n), c in zip(pairs, requested, r["choices"]):
        lp = c["logprobs"]
        assert len(lp["token_logprobs"]) == len(ids) + 1 and lp["token_logprobs"][0] is None
        score = json.loads(run(build / "src/cli/lamina", "score", "-m", model, "--ids", ",".join(map(str, ids)), "--logprobs", "1", "--json").stdout)
        ours = [t["logprob"] for t in score["tokens"][1:]]
        assert len(ours) == len(ids) - 1
        assert abs(math.fsum(lp["token_logprobs"][n:-1]) - math.fsum(ours[n - 1:])) < 1e-5
        greedy = all(max(top.values()) == own for own, top in zip(lp["token_logprobs"][n:-1], lp["top_logprobs"][n:-1]))
        assert greedy == all(t["top"][0]["id"] == t["id"] for t in score["tokens"][n:])
        assert c["text"].startswith(context + more)
    assert server.get("/tokenizer_info")[1]["eos_token"]
