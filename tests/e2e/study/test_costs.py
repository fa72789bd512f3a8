"""What a context costs (operations, cache, windows), compared with sums made here from the published sizes in Python's integers.

Counts of long contexts exceed 2^63; they are exact below it and the nearest double from there on. Every command rejects a context
longer than the model's positions."""
import json

import fastjsonschema
import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build):
    def call(*args):
        return run(build / "src/cli/lamina", *args)
    return call


def ask(lamina, model, *paths, flags=()):
    done = lamina("inspect", model, "--json", *flags, *(x for p in paths for x in ("--query", p)))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [x["value"] for x in (found if len(paths) > 1 else [found])]


# Layers with a window, layers without one, the window, query heads, key/value heads, lanes of a head.
SIZES = {
    "mistral-7b-v0.1": (32, 0, 4096, 32, 8, 128),
    "llama-3.1-8b": (0, 32, 0, 32, 8, 128),
    "llama-3.1-405b": (0, 126, 0, 128, 8, 128),
    "llama-3.2-3b": (0, 28, 0, 24, 8, 128),
    "gpt2": (0, 12, 0, 12, 12, 64),
    "gpt-3-175b": (0, 96, 0, 96, 96, 128),
    "gpt-neo-1.3b": (12, 12, 256, 16, 16, 128),
    "gemma-2-27b": (23, 23, 4096, 32, 16, 128),
    "gpt-oss-20b": (12, 12, 128, 64, 8, 64),
}


def a_key(heads, dim):
    """Return the operations per key of one layer: q·k and p·v, a multiply-add counted as 2."""
    return 2 * heads * (dim + dim)


def test_a_prompt_computes_layers_that_share_caches_once(lamina):
    """Gemma 4 E2B: the last 20 of 35 layers read the keys of layers 13 and 14, so behind the attention of layer 14 only the last token of a
    prompt is computed; every fifth layer has no window of 512."""
    tokens = 1000
    prefill, head, *layers = ask(
        lamina, "gemma-4-e2b", "flops.prefill", "flops.head", *(f"flops.layer[{i}].{x}" for i in range(35) for x in ("matmul", "per_key")), flags=("-c", tokens))
    true = head + 2 * 1536 * 35 * 256 * tokens                           # the projection of the inputs of all layers
    for i, (matmul, per_key) in enumerate(zip(layers[::2], layers[1::2])):
        window = 0 if i % 5 == 4 else 512
        true += matmul * (tokens if i < 15 else 1) + per_key * (seen(tokens, window) if i < 15 else min(tokens, window or tokens))
    behind = 2 * 1536 * (8 * 512 + 3 * 6144 + 2 * 256)                   # of layer 14: o_proj, MLP, its inputs
    assert prefill == true - behind * (tokens - 1)


def seen(tokens, window):
    """Return the number of keys that causal tokens see in total."""
    return sum(min(i, window or i) for i in range(1, tokens + 1)) if tokens < 10000 else \
        tokens * (tokens + 1) // 2 if not window or tokens <= window else window * (window + 1) // 2 + (tokens - window) * window


@pytest.mark.parametrize("model", SIZES)
@pytest.mark.parametrize("context", [100, 1000])
def test_costs_of_one_more_key(lamina, model, context):
    some, full, window, heads, kv, dim = SIZES[model]
    matmul, key, past, at, prefill, head, size, at_4096 = ask(
        lamina, model, "flops.per_token_matmul", "flops.per_context_token", "flops.per_context_token_past_windows", "flops.at_context",
        "flops.prefill", "flops.head", "kv.bytes_at_context", "kv.at[4096].bytes", flags=("-c", context))
    each = a_key(heads, dim)
    assert key == (some + full) * each
    assert past == (full * each if some else None)
    assert at - matmul == each * (full * context + some * min(context, window))
    assert prefill == (matmul - head) * context + head + each * (full * seen(context, 0) + some * seen(context, window))
    assert size == 2 * kv * dim * 2 * (full * context + some * min(context, window))
    assert at_4096 == 2 * kv * dim * 2 * (full * 4096 + some * min(4096, window))


def test_numbers_of_the_digest(lamina):
    """Numbers published in the documents that lamina is checked against."""
    assert ask(lamina, "mistral-7b-v0.1", "flops.per_token_matmul", "flops.per_context_token", flags=("-c", 4096)) == [14220787712, 524288]
    assert ask(lamina, "gpt-3-175b", "flops.per_token_matmul", "flops.per_context_token", "kv.bytes_at_context", "kv.at[4096].bytes",
               "attention.window") == [349127467008, 4718592, 9663676416, 19327352832, None]


def test_windows_describe_the_whole_model(lamina):
    requested = "attention.window", "attention.windowed_layers", "attention.full_layers", "kv.window", "formulas.mask"
    assert ask(lamina, "gpt-neo-1.3b", *requested) == [256, 12, 12, 256, "0 <= i - j < 256 in 12 of 24 layers, else 0 <= i - j"]
    assert ask(lamina, "gemma-2-27b", *requested) == [4096, 23, 23, 4096, "0 <= i - j < 4096 in 23 of 46 layers, else 0 <= i - j"]
    assert ask(lamina, "gpt-oss-20b", *requested) == [128, 12, 12, 128, "0 <= i - j < 128 in 12 of 24 layers, else 0 <= i - j"]
    assert ask(lamina, "mistral-7b-v0.1", *requested) == [4096, 32, 0, 4096, "0 <= i - j < 4096"]
    assert ask(lamina, "llama-3.2-1b", *requested) == [None, 0, 16, None, "0 <= i - j"]
    assert ask(lamina, "gpt-neo-1.3b", "attention.layers[0].window", "attention.layers[1].window") == [None, 256]


def test_pages_name_the_context_that_fills_windows(lamina):
    page = lamina("inspect", "mistral-7b-v0.1").stdout
    assert "+ 524 kFLOP per token of context" in page and "beyond 4,096 tokens of context: no further cost" in page
    page = lamina("inspect", "gemma-2-27b").stdout
    assert "+ 754 kFLOP per token of context" in page and "beyond 4,096 tokens of context: 377 kFLOP per token" in page
    assert "window 4,096 in 23 of 46 layers" in page
    assert "beyond" not in lamina("inspect", "llama-3.1-8b", "-c", "4096").stdout.split("compute per token")[1].split("rope")[0]
    flops = lamina("inspect", "mistral-7b-v0.1", "--view", "flops").stdout
    assert "scores, per visible key" in flops and "524,288" in flops and "scores, per key beyond 4,096" in flops
    assert "0 <= i - j < 256 in 12 of 24 layers, else 0 <= i - j" in lamina("inspect", "gpt-neo-1.3b", "--view", "cards").stdout
    for model in ("mistral-7b-v0.1", "gpt-neo-1.3b", "llama-3.2-1b"):
        derived = lamina("explain", "flops", model).stdout
        assert "✗" not in derived and "as counted" in derived and "per_key" in derived


# ---- counts beyond 64 bits ----

def near(got, true):
    """Return whether a count is exact where readers of JSON can represent it, else the nearest double."""
    return got == true if true < 2 ** 63 else isinstance(got, float) and got == float(true)


@pytest.mark.parametrize("context", [6_000_000, 10_000_000, 2_147_483_647])
def test_long_prompts(lamina, context):
    _, layers, _, heads, kv, dim = SIZES["llama-3.1-8b"]
    matmul, head = 15_009_316_864, 2 * 128256 * 4096
    true = (matmul - head) * context + head + layers * a_key(heads, dim) * (context * (context + 1) // 2)
    done = lamina("inspect", "llama-3.1-8b", "-c", context, "--json")
    assert done.returncode == 0, done.stderr
    flops = json.loads(done.stdout)["flops"]
    assert near(flops["prefill"], true) and near(flops["at_context"], matmul + layers * a_key(heads, dim) * context)


def test_long_prompts_of_latent_attention(lamina):
    """DeepSeek-V3, the cache absorbed: 61 layers, 128 heads that score 576 lanes and sum 512."""
    t = 1_500_000
    matmul, head, prefill = ask(lamina, "deepseek-v3", "flops.per_token_matmul", "flops.head", "flops.prefill", flags=("-c", t))
    true = (matmul - head) * t + head + 61 * 2 * 128 * (576 + 512) * (t * (t + 1) // 2)
    assert true == 19221090498365358080 and near(prefill, true)


def test_large_caches(lamina):
    _, layers, _, heads, kv, dim = SIZES["llama-3.1-405b"]
    got, mha = ask(lamina, "llama-3.1-405b", "kv.bytes_at_context", "kv.mha.bytes_at_context",
                   flags=("-c", 2147483647, "--batch", 65536))
    true = layers * 2 * kv * dim * 2 * 2147483647 * 65536
    assert true == 72634054756408492032 and near(got, true) and near(mha, true // kv * heads)
    _, layers, _, heads, kv, dim = SIZES["llama-3.2-3b"]
    n = 2 ** 32 - 1
    at = ask(lamina, "llama-3.2-3b", f"kv.at[{n}]", flags=("--batch", 65536))[0]
    assert near(at["bytes"], layers * 2 * kv * dim * 2 * n * 65536) and near(at["mha"], layers * 2 * heads * dim * 2 * n * 65536)
    assert near(at["first_layer"], 2 * kv * dim * 2 * n * 65536) and near(at["mha_first_layer"], 2 * heads * dim * 2 * n * 65536)
    assert ask(lamina, "llama-3.2-3b", "flops.prefill_of[4294967295].total")[0] > 1e24


@pytest.mark.parametrize("path", ["kv.at[99999999999999]", "kv.at[4294967296].mha", "flops.at[99999999999999999999]", "tuning.at[5000000000]"])
def test_no_table_exceeds_the_positions(lamina, path):
    done = lamina("inspect", "llama-3.2-3b", "--query", path)
    assert done.returncode == 2 and "goes up to [4294967295]" in done.stderr and not done.stdout


def test_pages_of_long_contexts(lamina, source):
    page = lamina("inspect", "llama-3.1-405b", "-c", 2147483647, "--batch", 65536).stdout
    assert "72.6 EB" in page and "size exceeds the address space" in page
    page = lamina("inspect", "llama-3.1-8b", "-c", 2147483647).stdout
    assert "a prompt of 2,147,483,647: 1.21 YFLOP" in page
    document = json.loads(lamina("inspect", "llama-3.1-405b", "-c", 2147483647, "--batch", 65536, "--json").stdout)
    fastjsonschema.compile(json.loads((source / "docs/schema/inspect.schema.json").read_text()))(document)
    for command in (["report", "llama-3.1-8b"], ["compare", "llama-3.1-8b", "mistral-7b"], ["explain", "kv", "llama-3.1-8b"]):
        done = lamina(*command, "-c", 2147483647)
        assert done.returncode == 0 and "18446744073709551615" not in done.stdout and "✗" not in done.stdout


# ---- limited positions ----

@pytest.mark.parametrize("command", [["inspect", "gpt2", "--json"], ["inspect", "gpt2", "--query", "kv.bytes_at_context"], ["fit", "gpt2"],
                                     ["inspect", "gpt2", "--view", "flops"], ["report", "gpt2"], ["compare", "llama-3.2-1b", "gpt2"],
                                     ["explain", "kv", "gpt2"], ["inspect", "gpt2", "--plan"]])
def test_positions_that_end(lamina, command):
    done = lamina(*command, "-c", "2000")
    assert done.returncode == 2 and "2000 positions; the model has 1024" in done.stderr
    assert "--json" in command or not done.stdout
    assert lamina(*command, "-c", "1024").returncode in (0, 4)


def test_an_impossible_plan_is_a_warning(lamina, source):
    narrow = source / "tests/golden/llama/gqa"
    document = json.loads(lamina("inspect", narrow, "-ctk", "q8_0", "--json").stdout)
    why = "a q8_0 cache needs heads whose width is a multiple of 32, not 8"
    assert why in document["warnings"] and document["memory"]["not_planned"] == why
    assert all(document["memory"][k] is None for k in ("weights", "mapped", "kv", "scratch", "total"))
    fastjsonschema.compile(json.loads((source / "docs/schema/inspect.schema.json").read_text()))(document)
    assert lamina("inspect", narrow, "-ctk", "q8_0").stdout.count(why) == 1
    assert json.loads(lamina("inspect", narrow, "--json").stdout)["warnings"] == []
    document = json.loads(lamina("inspect", narrow, "-ctv", "q5_1", "--json").stdout)
    assert document["memory"]["not_planned"] == "a q5_1 cache needs heads whose width is a multiple of 32, not 8" and document["kv"]["type"] == "f16/q5_1"


@pytest.mark.parametrize("keys, values, bits", [("q8_0", "q4_0", 13), ("f16", "q5_1", 22), ("q4_0", "q4_0", 9), ("f32", "bf16", 48)])
def test_types_of_keys_and_values(lamina, source, keys, values, bits):
    """A cache of 32 layers with 8 heads of 128 lanes has the same size as counted, planned and derived."""
    document = json.loads(lamina("inspect", "llama-3.1-8b", "-ctk", keys, "-ctv", values, "-c", "4096", "--json").stdout)
    per_token = 32 * 8 * 128 * bits // 8
    assert document["kv"]["bytes_per_token"] == per_token and document["memory"]["kv"] == 4096 * per_token
    assert document["kv"]["type"] == (keys if keys == values else f"{keys}/{values}")
    fastjsonschema.compile(json.loads((source / "docs/schema/inspect.schema.json").read_text()))(document)
    text = lamina("explain", "kv", "llama-3.1-8b", "-ctk", keys, "-ctv", values, "-c", "4096").stdout
    assert f"{per_token:,}" in text


def test_a_latent_has_one_type(lamina):
    done = lamina("inspect", "deepseek-v2-lite", "--plan", "-ctk", "q8_0")
    assert done.returncode != 0 and "latent attention keeps no values: the type is that of the keys, q8_0, not f16" in done.stderr
    assert lamina("inspect", "deepseek-v2-lite", "--plan", "--kv-type", "q8_0").returncode == 0


# ---- growth diagrams ----

@pytest.mark.parametrize("name", ["kv-growth", "flops-growth", "memory-growth"])
def test_growth_of_short_contexts(lamina, name, source):
    lines = lamina("explain", "--diagram", name, "ctrl").stdout.splitlines()
    assert [int(x.split()[0]) for x in lines if x.split() and x.split()[0].isdigit()] == [1, *range(16, 257, 16)]      # even steps
    short = lamina("explain", "--diagram", name, source / "tests/golden/gpt3/turns").stdout
    assert [int(x.split()[0]) for x in short.splitlines() if x.split() and x.split()[0].isdigit()] == [1, *range(4, 49, 4)]
