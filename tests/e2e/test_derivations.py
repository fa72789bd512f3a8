"""Every figure by a second way: what `inspect --view facts` says of all presets, worked out again here from other facts.

A rule is a path (a regular expression) and arithmetic over further facts of the same model; None: it says nothing of this model.
Figures that no rule reaches have one derivation; both are counted, and the count of the first may not fall.
"""
import json
import math
import re

import pytest
from conftest import BARE, run, some

SHARE_OF_FIGURES = 0.40                     # with two derivations, of the figures of a preset that are not repeated for each layer
PARTS = ("embedding", "attention", "mlp", "norm", "head", "other")


def kv_rows(f, heads):
    return heads * (f["attention.head_dim"] + f["attention.value_dim"])


def kv_weights(f, heads):
    return kv_rows(f, heads) * f["architecture.hidden"]


def attention_weights(f, heads):
    """Q and O with all heads, K and V with these: what a layer has when nothing but these four reads or makes heads."""
    q = f["attention.heads"] * (f["attention.head_dim"] + f["attention.value_dim"]) * f["architecture.hidden"]
    return q + kv_weights(f, heads)


def estimate_layer(f):
    return 4 * f["architecture.hidden"] ** 2 + 3 * f["architecture.hidden"] * f["mlp.intermediate"]


def product(*paths):
    return lambda f, m: math.prod(f[p] for p in paths)


def total(*paths):
    return lambda f, m: sum(f[p] for p in paths)


RULES = [(re.compile(pattern), rule) for pattern, rule in (
    (r"architecture\.last_layer", lambda f, m: f["architecture.layers"] - 1),
    (r"attention\.kv_dim", product("attention.kv_heads", "attention.head_dim")),
    (r"attention\.group", lambda f, m: f["attention.heads"] // f["attention.kv_heads"]),
    (r"attention\.full_layers", lambda f, m: f["architecture.layers"] - f["attention.windowed_layers"]),
    (r"mlp\.expansion", lambda f, m: f["mlp.intermediate"] / f["architecture.hidden"]),
    (r"parameters\.total", total(*(f"parameters.{p}" for p in PARTS))),
    (r"parameters\.untied_total", total("parameters.total", "parameters.saved_by_tying")),
    (r"parameters\.trainable", total("parameters.total")),
    (r"parameters\.shares\.(\w+)", lambda f, m: 100 * f["parameters." + m[1]] / f["parameters.total"]),
    (r"weights\.as\.(f32|f16|bf16)\.bytes", lambda f, m: f["parameters.total"] * (4 if m[1] == "f32" else 2)),
    (r"weights\.as\.(\w+)\.bits_per_weight", lambda f, m: 8 * f[f"weights.as.{m[1]}.bytes"] / f["parameters.total"]),
    (r"kv\.elements_per_token", lambda f, m: sum(v for p, v in f.items() if p.startswith("kv.elements_per_layer["))),
    (r"kv\.bytes_per_token", lambda f, m: 2 * f["kv.elements_per_token"]),
    (r"kv\.elements_per_layer\[\d+\]", lambda f, m: kv_rows(f, f["attention.kv_heads"]) if alike(f) else None),
    (r"kv\.by_method\.mha", lambda f, m: kv_rows(f, f["attention.heads"]) if alike(f) else None),
    (r"kv\.by_method\.gqa", lambda f, m: kv_rows(f, f["attention.kv_heads"]) if alike(f) else None),
    (r"kv\.by_method\.mqa", lambda f, m: kv_rows(f, 1) if alike(f) else None),
    (r"kv\.bytes_at_context", lambda f, m: f["kv.bytes_per_token"] * min(f["kv.context"], f.get("kv.window") or f["kv.context"])
        if alike(f) else None),
    (r"kv\.mha\.elements_per_token", lambda f, m: f["kv.mha.elements_per_token_per_layer"] * f["architecture.layers"] if alike(f) else None),
    (r"kv\.mha\.bytes_per_token", lambda f, m: 2 * f["kv.mha.elements_per_token"]),
    (r"kv\.mha\.bytes_at_context", lambda f, m: f["kv.mha.bytes_per_token"] * f["kv.context"]),
    (r"kv\.mha\.saved", lambda f, m: 100 * (1 - f["kv.elements_per_token"] / f["kv.mha.elements_per_token"])),
    (r"flops\.layers", lambda f, m: f["flops.per_token_matmul"] - f["flops.head"]),
    (r"flops\.head", lambda f, m: 2 * f["architecture.hidden"] * f["architecture.vocabulary"] if plain_head(f) else None),
    (r"flops\.per_token_matmul", lambda f, m: sum(v for p, v in f.items() if p.startswith("flops.parts."))),
    (r"pass\.input_bytes", lambda f, m: 8 * f["pass.tokens"]),
    (r"pass\.parameter_bytes", lambda f, m: f["pass.value_bytes"] * f["parameters.total"]),
    (r"pass\.torchinfo\.total_bytes", total("pass.torchinfo.input_bytes", "pass.torchinfo.forward_backward_bytes",
                                            "pass.torchinfo.params_bytes")),
    (r"memory\.total", total("memory.weights", "memory.kv", "memory.scratch")),
    (r"memory\.scratch", total("memory.scratch_parts.activations", "memory.scratch_parts.workers", "memory.scratch_parts.bookkeeping")),
    (r"rope\.pairs", lambda f, m: f["rope.dim"] / 2),
    (r"rope\.theta\[(\d+)\]", lambda f, m: f["rope.base"] ** (-2 * int(m[1]) / f["rope.dim"]) if one_table(f) else None),
    (r"tuning\.full\.trainable", total("parameters.total")),
    (r"tuning\.full\.(weights|gradients)", lambda f, m: 2 * f["parameters.total"]),
    (r"tuning\.full\.optimizer", lambda f, m: 12 * f["parameters.total"]),
    (r"tuning\.(\w+)\.gradients", lambda f, m: 2 * f[f"tuning.{m[1]}.trainable"]),
    (r"tuning\.(\w+)\.optimizer", lambda f, m: 12 * f[f"tuning.{m[1]}.trainable"]),
    (r"tuning\.(\w+)\.vram", lambda f, m: sum(f[f"tuning.{m[1]}.{p}"] for p in ("weights", "gradients", "optimizer", "activations"))),
    (r"tuning\.(\w+)\.vram_checkpointed", lambda f, m: sum(f[f"tuning.{m[1]}.{p}"] for p in (
        "weights", "gradients", "optimizer", "activations_checkpointed"))),
    (r"tuning\.lora\.trainable_share", lambda f, m: 100 * f["tuning.lora.trainable"] / f["parameters.total"]),
    (r"what_if\.widths\.(query|key|value|output)", lambda f, m: {
        "query": f["attention.heads"] * f["attention.head_dim"], "key": f["attention.kv_heads"] * f["attention.head_dim"],
        "value": f["attention.kv_heads"] * f["attention.value_dim"], "output": f["attention.heads"] * f["attention.value_dim"]}[m[1]]),
    (r"what_if\.kv_projections", lambda f, m: kv_weights(f, f["attention.kv_heads"]) if alike(f) else None),
    (r"what_if\.kv_projections_mha", lambda f, m: kv_weights(f, f["attention.heads"]) if alike(f) else None),
    (r"what_if\.kv_projections_saved", lambda f, m: 100 * (1 - f["attention.kv_heads"] / f["attention.heads"]) if alike(f) else None),
    (r"what_if\.attention", lambda f, m: attention_weights(f, f["attention.kv_heads"]) if alike(f) else None),
    (r"what_if\.attention_mha", lambda f, m: attention_weights(f, f["attention.heads"]) if alike(f) else None),
    (r"what_if\.attention_mqa", lambda f, m: attention_weights(f, 1) if alike(f) else None),
    (r"what_if\.saved_by_grouping", lambda f, m: f["architecture.layers"] * (f["what_if.attention_mha"] - f["what_if.attention"])),
    (r"what_if\.mlp_plain", lambda f, m: 2 * f["architecture.hidden"] * f["mlp.intermediate"]),
    (r"what_if\.mlp_gated", lambda f, m: 3 * f["architecture.hidden"] * f["mlp.intermediate"]),
    (r"estimate\.attention_layer", lambda f, m: 4 * f["architecture.hidden"] ** 2),
    (r"estimate\.layer", lambda f, m: estimate_layer(f)),
    (r"estimate\.layers", lambda f, m: f["architecture.layers"] * estimate_layer(f)),
    (r"estimate\.vocabulary", lambda f, m: 2 * f["architecture.vocabulary"] * f["architecture.hidden"]),
    (r"estimate\.total", total("estimate.vocabulary", "estimate.layers")),
)]


def alike(f):
    """Layers of one kind, whose attention is made of queries, keys and values of one width each."""
    return f["architecture.kinds_of_layer"] == 1 and "attention.kv_heads" in f and "attention.latent.kv_rank" not in f


def plain_head(f):
    """The head reads the residual stream itself: a matrix V × D is its own, or is the embedding's table (OPT-350M's is narrower)."""
    return max(f["parameters.head"], f["parameters.embedding"]) >= f["architecture.hidden"] * f["architecture.vocabulary"]


def one_table(f):
    return f.get("rope.n_tables") == 1


def facts_of(lamina, preset):
    """The numbers among the facts of a preset; speeds are this machine's and none of the model's."""
    r = run(lamina, "inspect", preset, "--view", "facts", env=BARE)
    assert r.returncode == 0, r.stderr
    facts = {}
    for line in r.stdout.splitlines():
        path, tab, rest = line.partition("\t")
        value = rest.split("\t")[0]
        if tab and re.fullmatch(r"-?[0-9.]+(e[+-]?\d+)?", value) and not path.startswith(("speed.", "config.", "catalogue.")):
            facts[path] = float(value) if re.search(r"[.e]", value) else int(value)
    return facts


def second(f, path):
    """The figure by another way; None: there is none."""
    for pattern, rule in RULES:
        m = pattern.fullmatch(path)
        if m:
            try:
                return rule(f, m)
            except KeyError:                # what the rule is about, the model has not
                return None
    return None


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src" / "cli" / "lamina"


def presets(lamina):
    r = run(lamina, "presets", "--json", env=BARE)
    said = json.loads(r.stdout)
    return [p["name"] for p in (said["presets"] if isinstance(said, dict) else said)]


def test_every_figure_by_a_second_way(lamina):
    names = presets(lamina)
    assert len(names) >= 137
    wrong, two, one = [], 0, 0
    for name in some(names):
        f = facts_of(lamina, name)
        for path, value in f.items():
            if re.match(r"(parameters\.stack|modules|parameters\.per_layer)\b", path):
                continue
            again = second(f, path)
            two, one = two + (again is not None), one + (again is None)
            if again is not None and not math.isclose(value, again, rel_tol=2e-6, abs_tol=1e-12):
                wrong.append(f"{name}: {path} is {value}, by another way {again}")
    print(f"count: figures with two derivations {two}\ncount: figures with one derivation {one}")
    assert not wrong, "\n".join([f"{len(wrong)} figures"] + wrong[:60])
    assert two / (two + one) >= SHARE_OF_FIGURES


def test_fused_projections_share_heads_as_separate_ones_do(lamina):
    """One matrix makes Q, K and V: only the rows of K and V are saved. Falcon-7B: 71 query heads on one, 64 wide, 4,544 in."""
    f = facts_of(lamina, "falcon-7b")
    assert f["what_if.kv_projections"] == 2 * 64 * 4544 == 581632
    assert f["what_if.kv_projections_mha"] == 71 * 581632 == 41295872
    assert math.isclose(f["what_if.kv_projections_saved"], 100 * 70 / 71)
    assert f["what_if.attention_mha"] == 4 * 4544 * 4544 == 82591744
    f = facts_of(lamina, "gpt2")
    assert (f["what_if.kv_projections"], f["what_if.attention_mqa"]) == (2 * 768 * 768, 1277952)
    assert facts_of(lamina, "phi-4")["what_if.kv_projections_saved"] == 75


def test_a_cache_is_no_longer_than_the_model(lamina):
    for name, tokens in (("gpt2", "1,024"), ("openai-gpt", "512"), ("granite-3b-code-base", "2,048"), ("llama-3.2-3b", "4,096")):
        said = run(lamina, "report", name, "--format", "md", env=BARE).stdout
        assert f"a cache of {tokens} tokens" in said, name


def test_terms_that_apply(lamina):
    """The scale of scores, the reach of windows, and the gap of an estimate: what the model has, and nothing else."""
    def steps(topic, model):
        asked = ("estimate", model) if topic == "estimate" else ("explain", topic, model)
        return {s["name"]: s for s in json.loads(run(lamina, *asked, "--json").stdout)["derivation"]["steps"] if "name" in s}

    for model in ("deepseek-v2", "deepseek-v2-lite"):
        scale = steps("attention", model)["scale"]
        assert scale["agrees"] and abs(scale["value"] - (0.1 * 0.707 * math.log(40) + 1) ** 2 / math.sqrt(192)) < 1e-7
    assert abs(steps("attention", "llama-3.2-1b")["scale"]["value"] - 0.125) < 1e-9
    assert steps("swa", "mistral-7b-v0.1")["reach"]["value"] == 32 * 4095 + 1 and steps("swa", "mistral-7b-v0.1")["reach"]["agrees"]
    terms = {m: {n for n in steps("estimate", m) if n in ("by_tying", "by_gate", "by_groups", "quick_to_standard")}
             for m in ("mistral-7b-v0.1", "llama-3.2-3b", "gpt2", "deepseek-v2")}
    assert terms == {"mistral-7b-v0.1": {"by_groups"}, "llama-3.2-3b": {"by_tying", "by_groups"}, "gpt2": {"by_tying", "by_gate"}, "deepseek-v2": set()}
