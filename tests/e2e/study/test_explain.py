"""lamina explain: every formula gives what the program counts. LAMINA_REWRITE=1 rewrites the pages: read the diff."""
import array
import json
import math
import os
import re

import pytest
from conftest import SANITIZED, run, some

PAGES = {
    "topics.txt": [],
    "kv-llama-3.2-3b.txt": ["kv", "llama-3.2-3b", "--context", "8192"],
    "kv-llama-3.2-3b.md": ["kv", "llama-3.2-3b", "--context", "8192", "--md"],
    "params-llama-3.2-3b.txt": ["params", "llama-3.2-3b"],
    "params-deepseek_v2.txt": ["params", "deepseek-v2"],
    "flops-llama-3.2-3b.txt": ["flops", "llama-3.2-3b", "--context", "4096"],
    "gqa-llama-3.2-3b.txt": ["gqa", "llama-3.2-3b"],
    "rope-llama-3.2-1b.txt": ["rope", "llama-3.2-1b"],
    "mla-deepseek_v2.txt": ["mla", "deepseek-v2"],
    "moe-mixtral.md": ["moe", "mixtral-8x7b", "--md"],
    "estimate-mistral-7b.txt": ["estimate", "mistral-7b-v0.1"],
    "alibi-llama-3.2-3b.txt": ["alibi", "llama-3.2-3b"],
    "mlp-gpt2.txt": ["mlp", "gpt2"],
    "gelu-gpt2.md": ["gelu", "gpt2", "--md"],
    "learned-gpt2.txt": ["learned", "gpt2"],
    "sinusoidal-xglm.txt": ["sinusoidal", "xglm-564m"],
    "norm-gpt2.txt": ["norm", "gpt2"],
    "mask-gpt-oss-20b.txt": ["mask", "gpt-oss-20b"],
    "router-deepseek_v2.txt": ["router", "deepseek-v2"],
    "yarn-deepseek_v2.txt": ["rope", "deepseek-v2"],
    "longrope-phi-3.5.txt": ["rope", "phi-3.5-mini"],
    "flow-gpt2.txt": ["--diagram", "flow", "gpt-2-124m"],
    "flow-gpt2.mmd": ["--diagram", "flow", "gpt-2-124m", "--md"],
    "layer-llama-3.2-3b.txt": ["--diagram", "layer", "llama-3.2-3b"],
    "spectrum-llama-3.2-1b.txt": ["--diagram", "spectrum", "llama-3.2-1b"],
}


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


@pytest.fixture(scope="module")
def names(lamina):
    return json.loads(lamina("explain", "--json").stdout)


@pytest.mark.parametrize("page", PAGES)
def test_page(lamina, source, page):
    golden = source / "tests/golden/explain" / page
    done = lamina("explain", *PAGES[page])
    assert done.returncode == 0, done.stderr
    text = re.sub(r"\d+ of \d+ presets[\s\S]*?(\n\n|$)|all \d+ presets", r"(presets)\1", done.stdout)      # their number grows
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text(text)
    assert text == golden.read_text()


def explain(lamina, *args):
    done = lamina("explain", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_formulas_agree_with_what_is_counted(lamina, source, names):
    """No step differs from the fact that it names, for models of every form, each with a third of the topics."""
    models = ["deepseek-v2", "mixtral-8x7b", "gpt2", "mpt-7b", "falcon-7b", "gemma-2-2b", "gpt-oss-20b",
              "granite-3.0-1b-a400m", "llama-3.1-405b", "tests/golden/opt/post-norm", "mamba-130m", "kimi-linear-48b-a3b"]
    checked = 0
    for i, model in enumerate(models):
        for topic in some(names["topics"], i) if SANITIZED else names["topics"][i % 3::3]:
            page = explain(lamina, topic["topic"], model)
            for step in (page["derivation"] or {"steps": []})["steps"]:
                assert step.get("agrees", True), (model, topic["topic"], step)
                checked += "agrees" in step
    assert checked > len(some(range(150)))


def test_numbers_move_with_the_model(lamina):
    small, large = (explain(lamina, "params", m)["derivation"]["steps"][-1] for m in ("llama-3.2-1b", "llama-3.2-3b"))
    assert small["value"] == 1_498_482_688 and large["value"] == 3_606_752_256
    half, whole = (explain(lamina, "kv", "llama-3.2-3b", "--context", n)["derivation"]["steps"][2]["value"] for n in ("4096", "8192"))
    assert whole == 2 * half == 939_524_096


def test_missing_parts_of_a_model_are_reported(lamina):
    page = explain(lamina, "mla", "llama-3.2-3b")
    assert page["used"] is False and page["derivation"] is None and page["diagram"] is None
    text = lamina("explain", "mla", "llama-3.2-3b").stdout
    assert "has no such component: attention GQA" in text


def test_examples_use_what_they_show(lamina, names):
    for topic in some(names["topics"]):
        page = explain(lamina, topic["topic"])
        assert page["used"] and page["example"], topic
        assert page["judgement"]["qualitative"] is True and page["users"]["using"] >= 1


def test_prompt(lamina, model):
    done = lamina("explain", "kv", "--prompt", "I love AI")
    assert done.returncode == 0, done.stderr
    assert re.search(r"1  I +\[k1 v1\]", done.stdout) and "[k1 v1] [k2 v2] [k3 v3]" in done.stdout
    source_ = explain(lamina, "kv", model, "--prompt", "I love AI")["diagram"]["mermaid"]
    assert source_.startswith("sequenceDiagram") and '" love" at position 1' in source_
    words = lamina("explain", "kv", "llama-3.2-3b", "--prompt", " The  cat sat ").stdout      # a preset has no tokenizer
    assert re.search(r"3  sat +\[k1 v1\] \[k2 v2\] \[k3 v3\]", words) and "split at spaces" in words
    assert lamina("explain", "kv", "llama-3.2-3b", "--prompt", "  ").returncode == 2


def table(page):
    return [dict(zip(page["table"]["columns"], row)) for row in page["table"]["rows"]]


def test_activations_have_their_values(lamina):
    """The rows of the table, and the steps at one and minus one, are those of the definitions computed here."""
    exact = lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2)))
    with_tanh = lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    for model, topic, mine in [("gpt2", "gelu", "GELU (tanh)"), ("opt-125m", "relu", "ReLU"), ("llama-3.2-1b", "silu", "SiLU")]:
        page = explain(lamina, topic, model)
        assert f"{mine} (this model)" in page["table"]["columns"]
        for row in page["table"]["rows"]:
            x, *values = (float(v.replace("−", "-")) for v in row)
            wanted = [max(x, 0), exact(x), with_tanh(x), x / (1 + math.exp(-x))]
            assert all(abs(v - w) <= 5.1e-5 for v, w in zip(values, wanted)), (x, values, wanted)
    steps = {s["name"]: s["value"] for s in explain(lamina, "gelu", "gpt2")["derivation"]["steps"]}
    assert math.isclose(steps["exact"], exact(1)) and math.isclose(steps["with_tanh"], with_tanh(1)) and math.isclose(steps["negative"], exact(-1))
    assert math.isclose({s["name"]: s["value"] for s in explain(lamina, "silu", "llama-3.2-1b")["derivation"]["steps"]}["negative"], -1 / (1 + math.e))


def test_scalings_are_derived_and_agree(lamina):
    """For every rule of a preset or golden model, each angle in use is a step and equals the program's."""
    for model, rule, least in [("llama-3.2-1b", "llama3", 3), ("deepseek-v2", "YaRN", 3), ("gpt-oss-20b", "YaRN", 3), ("phi-3.5-mini", "LongRoPE", 3)]:
        page = explain(lamina, "rope", model)
        assert [row[0] for row in page["table"]["rows"]].count(rule) == 1
        used = [s for s in page["derivation"]["steps"] if s.get("fact", "").startswith("rope.theta_scaled")]
        assert len(used) >= least and all(s["agrees"] for s in used), model
    steps = {s["name"]: s["value"] for s in page["derivation"]["steps"] if "name" in s}
    assert math.isclose(steps["both"], steps["distance"], rel_tol=1e-9)


def test_heads_have_shapes(lamina):
    rows = {row["what"]: row["in this model"] for row in table(explain(lamina, "gqa", "llama-3.2-3b"))}
    assert rows["repeat K and V per query head of a group"] == "[8, T, 128] → [8, 3, T, 128] → [24, T, 128]"
    assert rows["W_q,i   i = 1 … 24"] == "[3,072, 128]"


def test_latent_matrices_add_up(lamina):
    """The matrices listed in the table have as many weights as are counted for attention."""
    for model in ("deepseek-v2", "deepseek-v2-lite", "deepseek-v3"):
        rows = table(explain(lamina, "mla", model))
        listed = sum(int(row["in this model"].split(" = ")[1].replace(",", "")) for row in rows if " = " in row["in this model"])
        flops = next(s["value"] for s in explain(lamina, "mla", model)["derivation"]["steps"] if s["name"] == "attention_flops")
        assert 2 * listed == flops, model


def test_merges_are_the_tokenizer_s(lamina, model):
    """The last merges of a word give the tokens of lamina tokenize, in order, and each merge joins its pair."""
    text = "unbelievably tokenization"
    page = explain(lamina, "tokenizer", model, "--prompt", text)
    rows = table(page)
    assert len(rows) > 8
    for row in rows:
        left, right = row["pair"].split(" + ")
        assert left + right == row["becomes"]
    note = [int(n) for n in re.findall(r"\((\d+)\)", page["table"]["note"])]
    plain = lamina("tokenize", model, "-p", text, "--json")
    assert plain.returncode == 0, plain.stderr
    reply = json.loads(plain.stdout)["ids"]
    assert reply[-len(note):] == note, (reply, note)


def test_masks_are_drawn(lamina):
    both = lamina("explain", "--diagram", "mask", "gpt-oss-20b").stdout
    assert "sink" in both and both.count("query") == 2 and re.search(r"7  #  +\. \. \. \. \. # # #", both)
    triangle = lamina("explain", "--diagram", "mask", "gpt2").stdout
    assert "sink" not in triangle and re.findall(r"#", triangle).__len__() == 8 * 9 // 2
    svg = lamina("explain", "--diagram", "mask", "gpt-oss-20b", "--svg").stdout
    assert svg.count("mark-seen") - svg.count(".mark-seen") == 36 + (1 + 2 + 3 * 6)


def test_names_of_topics(lamina, names):
    """Aliases lead to a topic, and a topic to what the model has in its place."""
    for alias, model, topic in [("ffn", "gpt2", "mlp"), ("mlp", "llama-3.2-1b", "swiglu"), ("mlp", "mixtral-8x7b", "moe"), ("position", "gpt2", "learned"),
                                ("position", "xglm-564m", "sinusoidal"), ("position", "mpt-7b", "alibi"), ("position", "llama-3.2-1b", "rope"),
                                ("layernorm", "gpt2", "norm"), ("activation", "opt-125m", "relu"), ("load", "mixtral-8x7b", "router")]:
        page = explain(lamina, alias, model)
        assert page["topic"] == topic and page["used"], (alias, model)
    known = {t["topic"] for t in names["topics"]}
    assert all(a["topic"] in known for a in names["aliases"]) and len(names["aliases"]) > 20
    for alias in some(names["aliases"])[::4]:
        assert explain(lamina, alias["alias"])["used"], alias


def test_a_model_alone_is_an_overview(lamina, source):
    for model in "llama-3.2-1b", source / "tests/golden/llama/gqa/model.gguf":
        assert lamina("explain", model).stdout == lamina("inspect", model).stdout != ""
        assert lamina("explain", model, "--md").returncode == 2


def test_wrong_names(lamina):
    done = lamina("explain", "gka")
    assert done.returncode == 2 and "did you mean gqa?" in done.stderr
    assert lamina("explain", "--diagram", "nothing", "llama-3.2-3b").returncode == 2
    assert lamina("explain", "--diagram", "moe", "llama-3.2-3b").returncode == 1


def test_mermaid_is_whole(lamina, source, names):
    """Diagrams have no undefined nodes, open groups or quotes in labels, which Mermaid rejects first. tools/browser/mermaid.mjs runs it."""
    for model in ("llama-3.2-3b", "tests/golden/deepseek_v3/halves", "tests/golden/falcon/multi-query", "gpt-2-124m"):
        for diagram in some(names["diagrams"]):
            done = lamina("explain", "--diagram", diagram["diagram"], model, "--md")
            if done.returncode or not done.stdout.startswith("flowchart"):
                continue
            defined = set(re.findall(r"^ +(n\d+)[\[({]", done.stdout, re.M))
            edges = re.findall(r'^ +(n\d+) -\.?->(?:\|"[^"]*"\|)? (n\d+)$', done.stdout, re.M)
            assert edges and {n for e in edges for n in e} == defined
            assert len(re.findall(r"^ *subgraph ", done.stdout, re.M)) == len(re.findall(r"^ *end$", done.stdout, re.M))


def test_skip_edges_are_drawn(lamina):
    """Each residual sum of a Llama layer has two edges: the branch and the stream."""
    done = lamina("explain", "--diagram", "layer", "llama-3.2-3b", "--md").stdout
    sums = re.findall(r'(n\d+)\(\("\+ residual"\)\)', done)
    assert len(sums) == 2
    for n in sums:
        assert len(re.findall(rf" --> {n}$", done, re.M)) == 2


def test_sums_recorded_inside_a_module_are_sums_of_the_stream(lamina):
    """BLOOM adds in attention and MLP, MPT in its MLP; DeepSeek's sum of shared and routed experts is not one of the stream."""
    for preset, layers, width in (("mpt-7b", 32, 4096), ("bloom-560m", 24, 1024), ("deepseek-v2", 60, 5120), ("gemma-2-2b", 26, 2304)):
        steps = explain(lamina, "residual", preset)["derivation"]["steps"]
        values = {s["name"]: s["value"] for s in steps}
        assert (values["updates"], values["flops"]) == (2 * layers, 2 * layers * width), preset
        drawn = lamina("explain", "--diagram", "residual", preset)
        assert drawn.returncode == 0 and f"{2 * (layers - 2)} additions" in drawn.stdout, preset
        assert "a branch" not in drawn.stdout and "attention" in drawn.stdout and "MLP" in drawn.stdout, preset


def test_the_stream_follows_the_program(lamina):
    for preset, reply in (("llama-3.2-1b", "h ← h + Attention(Norm(h));   h ← h + MLP(Norm(h))"),
                         ("openai-gpt", "h ← Norm(h + Attention(h));   h ← Norm(h + MLP(h))"),
                         ("opt-350m", "h₀ = project_in(W_E[t]) + W_P[pos];   h ← Norm(h + Attention(h))"),
                         ("olmo-2-1b", "h ← h + Norm(Attention(h));   h ← h + Norm(MLP(h))"),
                         ("gemma-2-2b", "h₀ = 48 · W_E[t];   h ← h + Norm(Attention(Norm(h)))"),
                         ("phi-2", "h ← h + Attention(Norm(h)) + MLP(Norm(h))"),
                         ("granite-3.0-2b", "h ← h + 0.22 · Attention(Norm(h))")):
        page = explain(lamina, "residual", preset)["formulas"]
        assert len(page) == 1 and reply in page[0]["unicode"], (preset, page)
        assert reply in lamina("explain", "residual", preset).stdout


def test_components_of_every_preset(lamina, names):
    """No step of a preset that has a component differs from its fact or leaves its numbers out; no window is longer than the context. One
    preset of each family and structure."""
    presets = json.loads(lamina("presets", "--json").stdout)
    kinds = {(p["family"], p["tied"], p["heads"] == p["kv_heads"], p["active"] == p["parameters"]): p for p in presets}
    for p in some(kinds.values(), 8):
        parts = [word for part in ("attention", "architecture", "mlp") for word in ("--query", part)]
        facts = {found["query"]: found["value"] for found in json.loads(lamina("inspect", p["name"], *parts, "--json").stdout)}
        window, reach = facts["attention"].get("window"), facts["attention"].get("reach")
        assert window is None or window < p["context"], p["name"]
        topics = ["chunks" if facts["attention"].get("chunked") else "swa"] * (window is not None) + ["alibi"] * (facts["architecture"]["position"] == "ALiBi") + ["swiglu"] * facts["mlp"]["gated"]
        for topic in topics:
            page = explain(lamina, topic, p["name"])
            steps = {s["name"]: s for s in page["derivation"]["steps"] if "name" in s}
            assert steps and all(s.get("agrees", True) for s in steps.values()), (topic, p["name"])
            if topic == "swa" and reach:
                assert steps["within"]["value"] == min(reach, p["context"])
            if topic == "alibi":
                assert {"slope_first", "slope_last"} <= set(steps), p["name"]


@pytest.mark.parametrize("model, formula", [
    ("llama-3.2-1b", "SiLU(x) = x · σ(x)"), ("gemma-2-9b", "GELU(x) = x/2 · (1 + tanh("),
    ("gpt-oss-120b", "⊙ (up · x + 1)),   quick(x) = x · σ(1.702 · x);   gate · x at most 7")])
def test_a_gated_mlp_has_the_formula_of_its_model(lamina, model, formula):
    assert formula in lamina("explain", "swiglu", model).stdout


@pytest.mark.parametrize("model, formula", [
    ("llama-3.2-1b", "2 · L · G · K"), ("deepseek-v3", "L · (R + K_R)"), ("deepseek-v3.2", "(61 · 128 + 61 · 576)"),
    ("qwen3.5-4b", "2 · 8 · 4 · 256"), ("gemma-4-e2b", "(2 · 12 · 1 · 256 + 2 · 3 · 1 · 512)")])
def test_a_cache_has_the_formula_of_its_layers(lamina, model, formula):
    """Layers with a state, or that read the keys of others, store none; an indexer stores its own."""
    assert f"bytes = {formula} · bytes per value · tokens" in lamina("explain", "kv", model).stdout


def test_linear_biases_as_the_model_computes_them(lamina):
    """BLOOM-176B has 112 heads, so the heads from 65 on lie between the others; Falcon's slopes are bfloat16 and scaled with the product."""
    steps = {s.get("name"): s for s in explain(lamina, "alibi", "bloom-176b")["derivation"]["steps"]}
    assert math.isclose(steps["slope_last"]["value"], 2 ** (-4 * (2 * 47 + 1) / 64))
    page = lamina("explain", "alibi", "falcon-rw-1b").stdout
    assert "sᵢⱼ = (qᵢ · kⱼ + m_r · j) / √d_k" in page and "0.839844   ✓" in page and "✗" not in page


def tensors(file):
    """Return the numbers of each float32 tensor of a safetensors file."""
    data = file.read_bytes()
    n = int.from_bytes(data[:8], "little")
    places = {k: v["data_offsets"] for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__" and v["dtype"] == "F32"}
    return {k: array.array("f", data[8 + n + a:8 + n + b]) for k, (a, b) in places.items()}


@pytest.mark.parametrize("model, mixer, bias", [
    ("mamba/tied", "backbone.layers.1.mixer", "dt_proj.bias"), ("falcon_mamba/tied", "backbone.layers.1.mixer", "dt_proj.bias"),
    ("jamba/mixed", "model.layers.2.mamba", "dt_proj.bias"), ("mamba2/tied", "backbone.layers.1.mixer", "dt_bias"),
    ("qwen3_5/two", "model.layers.0.linear_attn", "dt_bias"), ("kimi_linear/mixed", "model.layers.1.self_attn", "dt_bias"),
    ("bailing_hybrid/mixed", "model.layers.1.attention", "dt_bias"), ("recurrent_gemma/griffin", "model.layers.1.temporal_block.rg_lru", "recurrent_gate_bias"),
])
def test_half_lives_are_those_of_the_weights(lamina, source, model, mixer, bias):
    """A state halves after ln 2 / (e^A softplus(b)) tokens, Ling's after ln 2 / (5 sigmoid(e^A b)), RG-LRU's after ln 2 / (8 sigmoid(b) softplus(A)):
    of a lane, a row or a head. GGUF files say the same."""
    folder = source / "tests/golden" / model
    found = tensors(folder / "model.safetensors")
    gated = model.startswith("recurrent")
    a, b = found[mixer + (".recurrent_param" if gated else ".A_log")], found[f"{mixer}.{bias}"]
    n = max(len(a), len(b))
    pairs = [(math.exp(a[i * len(a) // n]), b[i * len(b) // n]) for i in range(n)]
    rates = [8 * math.log1p(x) / (1 + math.exp(-y)) if gated else 5 / (1 + math.exp(-x * y)) if model.startswith("bailing") else x * math.log1p(math.exp(y)) for x, y in pairs]
    expected = sorted(math.log(2) / r for r in rates)
    for path in (folder, folder / "model.gguf")[:1 if gated else 2]:           # RG-LRU has no form in GGUF
        lines = dict(line.split("\t")[:2] for line in lamina("inspect", path, "--view", "facts").stdout.splitlines() if "\t" in line)
        at = next(k for k, v in lines.items() if k.startswith("states.half_life[") and k.endswith("].layer") and v == mixer.split(".")[2])
        shown = [float(lines[at.replace("layer", k)]) for k in ("shortest", "median", "longest")]
        assert shown == pytest.approx([expected[0], expected[n // 2], expected[-1]], rel=1e-4), path
    page = lamina("explain", "mamba" if "mamba" in model else "state", folder).stdout
    assert "Half-lives of the" in page and f"{expected[0]:.3g}" in page
