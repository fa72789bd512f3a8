"""POST /v1/rerank: scores are those of another implementation (tools/oracle/rerank.py), in the format of Jina's API and llama-server; what
cannot be ranked is rejected by name."""
import json
import struct

import pytest
from conftest import SOURCE, run
from ggufs import keys_and_tensors
from servers import Server

FOLDER = SOURCE / "tests/golden/rerank"
CASES = json.loads((FOLDER / "scores.json").read_text())
EXACT = ["--compute", "f32", "--kv-type", "f32"]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 256, "-np", 2, *EXACT, model=FOLDER).ready()
    yield s
    assert s.close() == 0, s.log


def requested(case):
    return {k: case[k] for k in ("query", "instruction", "documents") if k in case}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["query"])
def test_scores_equal_the_oracle(server, case):
    status, r, _ = server.post("/v1/rerank", requested(case))
    assert status == 200 and set(r) == {"object", "model", "results", "usage"} and r["object"] == "list", r
    found = {x["index"]: x["relevance_score"] for x in r["results"]}
    for truth in ("scores", "transformers"):         # numpy in float64, and transformers with the code of the model card
        assert all(abs(found[i] - score) <= 1e-4 for i, score in enumerate(case[truth])) and len(found) == len(case[truth])
    assert [x["index"] for x in r["results"]] == sorted(found, key=lambda i: -case["scores"][i])
    assert r["usage"]["prompt_tokens"] == r["usage"]["total_tokens"] == sum(case["tokens"])


def with_tensor(data, name, dims, numbers):
    """Return a GGUF file with one more tensor, the last one."""
    _, tensors, start = keys_and_tensors(data)
    last, (n_dims, *_) = list(tensors.items())[-1]
    at = data.index(struct.pack("<Q", len(last)) + last.encode()) + 8 + len(last) + 4 + 8 * len(n_dims) + 12
    rest = data[start:] + bytes(-len(data[start:]) % 32)
    head = data[:8] + struct.pack("<Q", len(tensors) + 1) + data[16:at] + struct.pack("<Q", len(name)) + name.encode() + \
        struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(rest))
    return head + bytes(-len(head) % 32) + rest + struct.pack(f"<{len(numbers)}f", *numbers)


def test_a_gguf_of_llama_s_converter(build, tmp_path):
    """The converter writes the head's rows of yes and no once more, as cls.output.weight. That tensor is ignored: the file has the head
    itself, and the scores are the same."""
    path = tmp_path / "model.gguf"
    assert run(build / "src/cli/lamina", "convert", FOLDER, path, "--name", "Some Reranker").returncode == 0
    path.write_bytes(with_tensor(path.read_bytes(), "cls.output.weight", (32, 2), [0.5] * 64))
    s = Server(build, "-c", 256, *EXACT, model=path).ready()
    found = {x["index"]: x["relevance_score"] for x in s.post("/v1/rerank", requested(CASES[0]))[1]["results"]}
    assert all(abs(found[i] - score) <= 1e-4 for i, score in enumerate(CASES[0]["scores"]))
    assert s.close() == 0


def test_the_shared_prefix_is_processed_once(server):
    documents = [f"Document number {i} of many." for i in range(12)]
    usage = server.post("/v1/rerank", {"query": "many", "documents": documents})[1]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 64 * (len(documents) - 2)  # pages of 64 positions; two slots begin uncached


def test_a_document_that_fills_the_context(server):
    one = server.post("/v1/rerank", {"query": "a", "documents": [""]})[1]["usage"]["prompt_tokens"]
    text = "7" * (256 - one)                                                               # a digit is a token
    status, r, _ = server.post("/v1/rerank", {"query": "a", "documents": [text]})
    assert status == 200 and r["usage"]["prompt_tokens"] == 256 and 0 < r["results"][0]["relevance_score"] < 1
    status, r, _ = server.post("/v1/rerank", {"query": "a", "documents": ["short", text + "7"]})
    assert status == 400 and "257" in r["error"]["message"] and "256" in r["error"]["message"]


def test_the_best_documents_and_their_texts(server):
    case = CASES[0]
    best = max(range(len(case["scores"])), key=lambda i: case["scores"][i])
    for path in ("/v1/rerank", "/rerank", "/reranking", "/v1/reranking", "/v2/rerank"):
        r = server.post(path, {"query": case["query"], "documents": [{"text": d} for d in case["documents"]], "top_n": 1, "return_documents": True})[1]
        (only,) = r["results"]
        assert only["index"] == best and only["document"] == {"text": case["documents"][best]}
    assert len(server.post("/rerank", requested(case) | {"top_n": 99})[1]["results"]) == len(case["documents"])


@pytest.mark.parametrize("wrong, param", [
    ({"documents": []}, "documents"), ({"documents": None}, "documents"), ({"documents": [7]}, "documents"), ({"documents": [{"title": "a"}]}, "documents"),
    ({"documents": ["a"] * 2049}, "documents"), ({"query": None}, "query"), ({"query": 7}, "query"), ({"top_n": 0}, "top_n"), ({"max_tokens_per_doc": 9}, "max_tokens_per_doc"),
    ({"documents": ["a\0b"]}, "documents")])
def test_models_that_cannot_rank_are_rejected_by_name(server, wrong, param):
    status, r, _ = server.post("/v1/rerank", {"query": "a", "documents": ["a"]} | wrong)
    assert (status, r["error"]["param"]) == (400, param), r


def test_other_models_are_reported(build, model, tmp_path):
    demo = Server(build, "-c", 128).ready()
    status, r, _ = demo.post("/v1/rerank", {"query": "a", "documents": ["a"]})
    assert (status, r["error"]["param"]) == (501, "model") and "does not rank documents" in r["error"]["message"]
    assert demo.close() == 0
    (tmp_path / "some").symlink_to(FOLDER)
    plain = Server(build, "-c", 256, model=tmp_path / "some").ready()
    status, r, _ = plain.post("/v1/rerank", {"query": "a", "documents": ["a"]})
    assert status == 501 and "--alias" in r["error"]["message"]
    assert plain.close() == 0
    named = Server(build, "-c", 256, "--alias", "our-reranker", model=tmp_path / "some").ready()
    assert named.post("/v1/rerank", {"query": "a", "documents": ["a"]})[0] == 200
    assert named.close() == 0


def test_as_many_documents_as_the_limit_are_ranked(server):
    status, r, _ = server.post("/v1/rerank", {"query": "a", "documents": [str(i) for i in range(2048)]})
    assert status == 200 and sorted(x["index"] for x in r["results"]) == list(range(2048))


def test_a_query_that_each_prompt_repeats_is_counted(build, model):
    s = Server(build, "-c", 4096, *EXACT, model=FOLDER).ready()
    query = "word " * 600
    n = s.post("/v1/rerank", {"query": query, "documents": ["a"]})[1]["usage"]["prompt_tokens"]
    most = next(x["most"] for x in s.get("/openapi.json")[1]["x-limits"] if (x["field"], x["counts"]) == ("documents", "tokens in all prompts"))
    assert n * 2048 > most
    status, r, _ = s.post("/v1/rerank", {"query": query, "documents": ["a"] * 2048})
    assert (status, r["error"]["param"]) == (400, "documents") and str(most) in r["error"]["message"] and "tokens" in r["error"]["message"], r
    assert s.close() == 0
