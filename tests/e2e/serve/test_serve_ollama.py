"""What ollama's API says of long prompts and of a model's file."""
import contextlib

import pytest
from conftest import MODEL
from ggufs import keys_and_tensors
from servers import Server

CONTEXT = 128
LONG = "one two three four five six seven eight nine ten " * 20


@pytest.fixture(scope="module")
def server(build, model):
    with contextlib.closing(Server(build, "-c", CONTEXT, "--embeddings").ready()) as s:
        yield s


def said(i, role="user", words=30):
    return {"role": role, "content": f"{i} " + "word " * words}


def chat(server, messages, predict=4, **more):
    return server.post("/api/chat", {"messages": messages, "stream": False, "options": {"num_predict": predict, "temperature": 0}} | more)[:2]


SYSTEM = {"role": "system", "content": "Be brief."}
CONVERSATION = [SYSTEM, *[m for i in range(10) for m in (said(i), said(i, "assistant", 5))], {"role": "user", "content": "What is 2+2?"}]


@pytest.mark.parametrize("truncate", [{}, {"truncate": False}])
@pytest.mark.parametrize("path, body", [("/api/chat", {"messages": CONVERSATION}), ("/api/generate", {"prompt": LONG}), ("/api/generate", {"prompt": LONG, "raw": True}),
                                        ("/api/embed", {"input": [LONG, "a"]})])
def test_long_prompts_are_errors_unless_the_request_says_otherwise(server, path, body, truncate):
    status, got, _ = server.post(path, body | truncate)
    assert status == 400 and "exceeds the context length" in got["error"], got


def test_the_oldest_messages_of_a_conversation_are_left_out(server):
    """The answer is that to the conversation without them, which the client could have sent."""
    status, got = chat(server, CONVERSATION, truncate=True)
    assert status == 200 and got["warnings"][-1].startswith("truncate: ")
    kept = [start for start in range(1, len(CONVERSATION), 2)
            if chat(server, [SYSTEM, *CONVERSATION[start:]])[1].get("prompt_eval_count", CONTEXT) <= CONTEXT - 4]
    expected = chat(server, [SYSTEM, *CONVERSATION[kept[0]:]])[1]
    assert got["message"] == expected["message"] and got["prompt_eval_count"] == expected["prompt_eval_count"]
    assert len(kept) < 10 and expected["prompt_eval_count"] > CONTEXT // 2


def test_what_fits_is_not_changed(server):
    short = CONVERSATION[-3:]
    plain, truncated = chat(server, short)[1], chat(server, short, truncate=True)[1]
    assert plain["message"] == truncated["message"] and "warnings" not in truncated


@pytest.mark.parametrize("predict, room", [(10, 10), (-1, CONTEXT // 2), (1000, CONTEXT // 2)])
def test_one_long_message_is_cut_behind_the_first_tokens(server, predict, room):
    status, got = chat(server, [SYSTEM, said(0, words=500)], predict, truncate=True)
    assert status == 200 and got["prompt_eval_count"] == CONTEXT - room and got["done"]
    status, got, _ = server.post("/api/generate", {"prompt": LONG, "raw": True, "truncate": True, "stream": False, "options": {"num_predict": predict}})
    assert status == 200 and got["prompt_eval_count"] == CONTEXT - room


def test_num_keep_counts_the_first_tokens(server):
    def generate(prompt, **options):
        return server.post("/api/generate", {"prompt": prompt, "raw": True, "truncate": True, "stream": False,
                                             "options": {"num_predict": 8, "temperature": 0} | options})[1]

    def text(ids):
        return server.post("/detokenize", {"tokens": ids})[1]["content"]
    ids = server.post("/tokenize", {"content": LONG})[1]["tokens"]
    for keep in (0, 4, 50):
        expected = text(ids[:keep] + ids[len(ids) - (CONTEXT - 8 - keep):])
        assert generate(LONG, num_keep=keep)["response"] == generate(expected)["response"]


def test_long_inputs_of_embeddings_are_cut(server):
    """Also with a pooling that sees every token."""
    def embed(inputs, **more):
        return server.post("/api/embed", {"input": inputs} | more)
    ids = server.post("/tokenize", {"content": LONG})[1]["tokens"][:CONTEXT]
    cut = server.post("/detokenize", {"tokens": ids})[1]["content"]
    status, got, _ = embed([LONG, "a"], truncate=True)
    assert status == 200 and got["embeddings"] == embed([cut, "a"])[1]["embeddings"]
    assert got["prompt_eval_count"] == CONTEXT + 1


@pytest.mark.parametrize("loaded", [True, False])
def test_a_model_is_described_by_the_keys_of_its_file(build, model, tmp_path, loaded):
    """As ollama: all keys, long arrays empty unless verbose; the name and the template are elsewhere. The context is the server's."""
    if loaded:
        s = Server(build, "-c", CONTEXT).ready()
    else:
        (tmp_path / "one.gguf").symlink_to(MODEL)
        (tmp_path / "two.gguf").symlink_to(MODEL)
        s = Server(build, "-c", CONTEXT, "--models-dir", tmp_path, model=None).ready()
    shown, whole = (s.post("/api/show", {"model": "two"} | more)[1] for more in ({"verbose": False}, {"verbose": True}))
    assert s.close() == 0
    info, (expected, tensors, _) = shown["model_info"], keys_and_tensors(MODEL.read_bytes())
    types = {0: "F32", 3: "Q4_1", 8: "Q8_0"}
    assert whole["tensors"] == [{"name": name, "type": types[kind], "shape": dims} for name, (dims, kind, _) in tensors.items()]
    assert "tensors" not in shown and "warnings" not in whole
    for k in ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"):
        assert whole["model_info"][k] == expected[k]
    assert {k: v for k, v in whole["model_info"].items() if info[k] != []} == {k: v for k, v in info.items() if v != []}
    for k, v in expected.items():
        if k in ("general.name", "tokenizer.chat_template"):
            assert k not in info
        elif isinstance(v, list) and len(v) > 5:
            assert info[k] == []
        elif isinstance(v, float):
            assert info[k] == pytest.approx(v, rel=1e-6)
        else:
            assert info[k] == (CONTEXT if k.endswith(".context_length") else v), k
    assert set(info) - set(expected) == {"general.parameter_count"}
