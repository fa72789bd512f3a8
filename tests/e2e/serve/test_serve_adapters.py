"""lamina serve --lora: requests with different adapters share scheduler steps, and each has the bits that it has alone."""
import concurrent.futures
import json
import random
import re
import struct

import pytest
from conftest import MODEL, run
from servers import Server

WIDTHS = {"self_attn.q_proj": (576, 576), "self_attn.v_proj": (576, 192), "self_attn.o_proj": (576, 576), "mlp.up_proj": (576, 1536),
          "mlp.down_proj": (1536, 576)}
PROMPT = "The old man looked at the sea and said that"


def write_adapter(folder, seed, rank, modules, layers=range(0, 30, 3), size=0.15):
    """Write a PEFT folder with random weights for the demo model."""
    draw = random.Random(seed)
    tensors = {}
    for layer in layers:
        for module in modules:
            width, out = WIDTHS[module]
            name = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{name}.lora_A.weight"] = [rank, width], [draw.gauss(0, width ** -0.5) for _ in range(rank * width)]
            tensors[f"{name}.lora_B.weight"] = [out, rank], [draw.gauss(0, size) for _ in range(out * rank)]
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [m.split(".")[1] for m in modules], "bias": "none",
        "layers_to_transform": list(layers), "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct"}))
    return folder


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return [write_adapter(folder / "attention", 1, 4, ["self_attn.q_proj", "self_attn.v_proj"], size=0.4),
            write_adapter(folder / "mlp", 2, 8, ["mlp.up_proj", "mlp.down_proj"]),
            write_adapter(folder / "both", 3, 2, ["self_attn.o_proj", "mlp.up_proj"], range(30))]


@pytest.fixture(scope="module")
def server(build, model, adapters, tmp_path_factory):
    flags = [x for a, scale in zip(adapters, ("", ":0.5", ":0")) for x in ("--lora", f"{a}{scale}")]
    s = Server(build, *flags, "--metrics", "--embeddings", "-c", 512, "--temp", 0, "--slot-save-path", tmp_path_factory.mktemp("slots")).ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


def lora(*scales):
    return [{"id": i, "scale": x} for i, x in enumerate(scales) if x]


def complete(server, n=24, prompt=PROMPT, **fields):
    status, reply, _ = server.post("/v1/completions", {"prompt": prompt, "max_tokens": n, "logprobs": 2, "ignore_eos": True, **fields})
    assert status == 200, reply
    return reply


def bits(reply):
    """Return the text, the tokens and every log-probability, to the last bit."""
    c = reply["choices"][0]
    return c["text"], c["logprobs"]["tokens"], c["logprobs"]["token_logprobs"], json.dumps(c["logprobs"]["top_logprobs"])


def steps(server):
    return float(re.search(r"^lamina_steps_total\S* (\S+)", server.get("/metrics")[1].decode(), re.M)[1])


ASKED = [lora(1), lora(0, 1), lora(0, 0, 1), [], lora(0.5, 0, -0.75), lora(1, 1, 1)]


def test_different_adapters_share_steps_without_changing_bits(server):
    alone = [bits(complete(server, lora=x, cache_prompt=False)) for x in ASKED]
    assert len({a[0] for a in alone}) == len(ASKED)
    with concurrent.futures.ThreadPoolExecutor(2 * len(ASKED)) as pool:
        before = steps(server)
        crowd = list(pool.map(lambda x: bits(complete(server, lora=x, cache_prompt=False)), ASKED + ASKED))
        taken = steps(server) - before
    assert crowd == alone + alone
    assert taken < len(crowd) * 24 / 2                   # the requests did share steps


def test_each_answer_equals_run_with_the_adapter(server, adapters, build):
    for x, flags in ((lora(1), [adapters[0]]), (lora(0, 1), [adapters[1]]), (lora(0.5, 0, -0.75), [f"{adapters[0]}:0.5", f"{adapters[2]}:-0.75"])):
        reply = run(build / "src/cli/lamina", "run", MODEL, "--raw", "-p", PROMPT, "-n", 24, "--temp", 0, "--ignore-eos", "-c", 512,
                   *[y for f in flags for y in ("--lora", f)])
        assert reply.stdout.removesuffix("\n") == complete(server, lora=x)["choices"][0]["text"].removesuffix("\n"), reply.stderr


def test_every_dialect_of_llama_server_takes_them(server):
    messages = [{"role": "user", "content": "What is water made of?"}]
    asks = {"/completion": {"prompt": PROMPT, "n_predict": 12}, "/v1/completions": {"prompt": PROMPT, "max_tokens": 12},
            "/v1/chat/completions": {"messages": messages, "max_tokens": 12}, "/v1/responses": {"input": "What is water made of?", "max_output_tokens": 12}}
    for path, body in asks.items():
        texts = []
        for x in (lora(8), lora(0, 0, 8), []):              # large enough to change the text on every processor
            status, reply, _ = server.post(path, {**body, "lora": x, "temperature": 0})
            assert status == 200, reply
            texts.append(json.dumps(reply.get("content") or reply.get("output") or [c.get("text") or c["message"]["content"] for c in reply["choices"]]))
            if path == "/completion":
                assert reply["generation_settings"]["lora"] == [{"id": i, "scale": y["scale"] if (y := next((z for z in x if z["id"] == i), None)) else 0}
                                                               for i in range(3)]
        assert len(set(texts)) == 3, path
    status, reply, _ = server.post("/api/generate", {"prompt": "Hi", "stream": False, "options": {"num_predict": 8, "lora": lora(0, 0, 1)}})
    assert status == 200, reply
    vectors = [server.post("/v1/embeddings", {"input": PROMPT, "lora": x})[1]["data"][0]["embedding"] for x in ([], lora(1), [])]
    assert vectors[0] == vectors[2] != vectors[1]
    scores = [complete(server, 0, echo=True, lora=x)["choices"][0]["logprobs"]["token_logprobs"][1:] for x in ([], lora(1), [])]
    assert scores[0] == scores[2] != scores[1]


def test_the_list_and_the_scales_that_it_sets(server, adapters):
    status, list_, _ = server.get("/lora-adapters")
    assert status == 200 and [(x["id"], x["path"], x["scale"]) for x in list_] == [(0, str(adapters[0]), 1), (1, str(adapters[1]), 0.5), (2, str(adapters[2]), 0)]
    assert all(x["task_name"] == "" and x["prompt_prefix"] == "" for x in list_) and list_[1]["rank"] == 8 and list_[0]["name"] == "attention"
    before = complete(server)
    assert bits(before) == bits(complete(server, lora=lora(1, 0.5)))
    status, reply, _ = server.post("/lora-adapters", [{"id": 2, "scale": 1.0}])
    assert (status, reply) == (200, {"success": True})
    assert [x["scale"] for x in server.get("/lora-adapters")[1]] == [0, 0, 1]
    after = complete(server)
    assert bits(after) == bits(complete(server, lora=lora(0, 0, 1))) != bits(before)
    assert after["system_fingerprint"] != before["system_fingerprint"]
    assert server.get("/props")[1]["default_generation_settings"]["params"]["lora"][2] == {"id": 2, "scale": 1}
    assert server.post("/lora-adapters", [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}])[0] == 200
    assert complete(server)["system_fingerprint"] == before["system_fingerprint"]


@pytest.mark.parametrize("body, word", [([{"id": 3, "scale": 1}], "0 to 2"), ([{"id": -1, "scale": 1}], "0 to 2"), ([{"id": 0}], "element 0"), ([{"scale": 1}], "element 0"),
                                        ([{"id": 0, "scale": "1"}], "element 0"), ([1], "element 0"), ([{"id": 0, "scale": 1e9}], "scale"),
                                        ([{"id": 1, "scale": 1}, {"id": 1, "scale": 0}], "twice")])
def test_an_invalid_list_is_rejected(server, body, word):
    for path, whole in (("/v1/completions", {"prompt": "x", "lora": body}), ("/lora-adapters", body)):
        status, reply, _ = server.post(path, whole)
        assert status == 400 and word in reply["error"]["message"], reply
    assert server.post("/lora-adapters", {"id": 0, "scale": 1})[0] == 400


def test_prefixes_are_shared_only_with_the_same_adapters(server):
    prompt = " ".join(f"Number {i} is a number." for i in range(60))

    def cached(**fields):
        return complete(server, 1, prompt, **fields)["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(lora=lora(1)) == 0
    assert cached(lora=lora(0, 1)) == 0 and cached(lora=[]) == 0 and cached(lora=lora(0.5)) == 0
    assert cached(lora=lora(1)) > 128 and cached(lora=lora(0, 1)) > 128 and cached(lora=[]) > 128
    for x in (lora(1), lora(0, 1), []):
        assert bits(complete(server, 8, prompt, lora=x)) == bits(complete(server, 8, prompt, lora=x, cache_prompt=False))


def test_a_slot_is_saved_with_its_adapters(server, build, adapters, tmp_path):
    prompt = " ".join(f"Word {i} of many." for i in range(60))
    whole = bits(complete(server, 8, prompt, lora=lora(1), id_slot=3, cache_prompt=False))
    status, reply, _ = server.post("/slots/3?action=save", {"filename": "with"})
    assert status == 200, reply
    assert server.post("/slots/3?action=erase", {})[0] == 200
    assert server.post("/slots/3?action=restore", {"filename": "with"})[1]["n_restored"] == reply["n_saved"]
    again = complete(server, 8, prompt, lora=lora(1))
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 128 and bits(again) == whole
    assert complete(server, 1, prompt, lora=lora(0, 0, 0.25))["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    folder = next(p for p in tmp_path.parent.parent.rglob("with"))
    other = Server(build, "--lora", adapters[1], "-c", 512, "--slot-save-path", folder.parent, "--cache-type-k", "f16").ready()
    status, reply, _ = other.post("/slots/0?action=restore", {"filename": "with"})
    assert status == 400 and "none of those here" in reply["error"]["message"], reply
    assert other.close() == 0


def test_the_prefix_store_separates_adapters_across_restarts(build, adapters, tmp_path):
    prompt = " ".join(f"Page {i} of a book." for i in range(60))
    flags = ["--lora", adapters[0], "--lora", adapters[1], "-c", 512, "--temp", 0, "--prefix-store", tmp_path / "store"]
    first = Server(build, *flags).ready()
    reply = [bits(complete(first, 4, prompt, lora=x)) for x in (lora(1), lora(0, 1), [])]
    assert first.close() == 0
    assert len(list((tmp_path / "store").iterdir())) == 3
    second = Server(build, *flags).ready()
    for x, before in zip((lora(1), lora(0, 1), []), reply):
        again = complete(second, 4, prompt, lora=x)
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 128 and bits(again) == before
    assert complete(second, 1, prompt, lora=lora(0.5))["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second.close() == 0


def test_a_list_that_names_a_missing_adapter_is_rejected(build):
    s = Server(build, "-c", 256).ready()
    assert s.get("/lora-adapters")[1] == []
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "lora": []})[0] == 200
    status, reply, _ = s.post("/v1/completions", {"prompt": "x", "lora": [{"id": 0, "scale": 1}]})
    assert status == 400 and "--lora" in reply["error"]["message"]
    assert s.close() == 0


def test_at_the_start(build, adapters, tmp_path):
    lamina = build / "src/cli/lamina"
    r = run(lamina, "serve", MODEL, "--port", 0, "--lora", tmp_path / "none")
    assert r.returncode == 1 and len(r.stderr.splitlines()) == 1, r.stderr
    r = run(lamina, "serve", MODEL, MODEL, "--alias", "a", "--alias", "b", "--port", 0, "--lora", adapters[0])
    assert r.returncode == 2 and "one model" in r.stderr
    s = Server(build, "--lora", adapters[0], "--lora-init-without-apply", "-c", 256).ready()
    assert [x["scale"] for x in s.get("/lora-adapters")[1]] == [0]
    assert s.close() == 0
