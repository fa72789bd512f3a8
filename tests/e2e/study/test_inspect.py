"""lamina inspect and lamina verify: output for scripts and for people."""
import json
import shutil

import fastjsonschema
import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build):
    def call(*args):
        return run(build / "src/cli/lamina", *args)
    return call


def test_inspect_json(lamina, model):
    j = json.loads(lamina("inspect", model, "--json", "--context", "1k", "--batch", "3", "--kv-type", "q8_0").stdout)
    assert j["model"]["family"] == "llama" and j["parameters"]["total"] == 134515008
    assert j["parameters"]["untied_total"] - j["parameters"]["total"] == 49152 * 576
    assert len(j["parameters"]["per_layer"]) == 30 and sum(j["parameters"]["per_layer"]) < j["parameters"]["total"]
    assert j["kv"]["elements_per_token"] == 2 * 30 * 3 * 64
    assert j["kv"]["bytes_per_token"] == 2 * 30 * 3 * 64 * 34 // 32
    assert j["kv"]["bytes_at_context"] == j["kv"]["bytes_per_token"] * 1024 * 3
    assert j["memory"]["total"] == j["memory"]["weights"] + j["memory"]["kv"] + j["memory"]["scratch"]
    assert {"path", "class", "in", "out", "parameters", "mult_adds"} <= set(j["layers"][0])


def test_inspect_for_people(lamina, model):
    done = lamina("inspect", model)
    assert done.returncode == 0 and "134,515,008" in done.stdout and "8,192" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines() if str(model) not in line)
    tensors = lamina("inspect", model, "--tensors").stdout
    assert "token_embd.weight" in tensors and "49152 × 576" in tensors and "272 tensors" in tensors
    assert "tokenizer.ggml.model" in lamina("inspect", model, "--metadata").stdout
    program = lamina("inspect", model, "--program").stdout
    assert "model.layers.29.mlp.down_proj" in program
    assert "model.layers.29.mlp.down_proj" in lamina("inspect", model, "--plan").stdout
    assert lamina("inspect", model, "--plan", "--program").returncode == 2
    none = lamina("inspect", "llama-3.2-1b", "--tensors")
    assert none.returncode == 2 and "no tensors" in none.stderr and "--view tensors" in none.stderr


def test_a_padding_token_is_in_the_tree(lamina, source, tmp_path):
    """transformers prints padding_idx for every embedding that has one."""
    for case in ("llama/gqa", "deepseek_v2/groups", "deepseek_v3/halves"):
        config = json.loads((source / "tests/golden" / case / "config.json").read_text())
        size = f"({config['vocab_size']}, {config['hidden_size']}"
        for pad, printed in ((None, ")"), (3, ", padding_idx=3)")):
            path = tmp_path / "config.json"
            path.write_text(json.dumps(config | {"pad_token_id": pad}))
            assert f"(embed_tokens): Embedding{size}{printed}" in lamina("inspect", path, "--view", "tree").stdout, case


def test_inspect_obeys_its_schema(lamina, source, model, tmp_path):
    valid = fastjsonschema.compile(json.loads((source / "docs/schema/inspect.schema.json").read_text()))
    models = [model] + sorted(p.parent for p in (source / "tests/golden").glob("*/*/config.json"))
    assert len(models) > 20
    for m in models:
        document = json.loads(lamina("inspect", m, "--json").stdout)
        valid(document)
        p = document["parameters"]
        assert abs(sum(p["shares"].values()) - 100) < 1e-9
        assert sum(p[k] for k in ("embedding", "attention", "state", "mlp", "norm", "head", "other")) == p["total"]
        assert document["layers"][0]["parameters"] == p["total"]
    broken = json.loads(lamina("inspect", model, "--json").stdout)
    broken["parameters"]["total"] = "many"
    with pytest.raises(fastjsonschema.JsonSchemaException):
        valid(broken)


@pytest.mark.parametrize("template, line, facts", [
    (None, "tool calls are not read: it has no chat template", (None, "it has no chat template", None)),
    ("{{ messages[0].content }}", "tool calls are not read: its chat template does not write any", (None, "its chat template does not write any", None)),
    ("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}call {{ c.function.name }} now: {{ c.function.arguments }}{% endfor %}{% endfor %}",
     "tool calls are not read: its chat template writes them in a form that is not known", (None, "its chat template writes them in a form that is not known", None)),
    ("{{ oops", "tool calls are not read: its chat template cannot be rendered", (None, "its chat template cannot be rendered", None)),
    ("<think></think>{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}",
     "tool calls are read: hermes; reasoning: <think> … </think>", ("hermes", None, "<think>")),
])
def test_how_outputs_are_read_is_shown(lamina, source, tmp_path, template, line, facts):
    shutil.copytree(source / "tests/golden/llama/gqa", tmp_path / "m")
    (tmp_path / "m/model.gguf").unlink()
    if template:
        (tmp_path / "m/chat_template.jinja").write_text(template)
    assert f"  output             {line}\n" in lamina("inspect", tmp_path / "m").stdout
    model = json.loads(lamina("inspect", tmp_path / "m", "--json").stdout)["model"]
    assert tuple(model.get(k) for k in ("tool_call_format", "tool_calls_unread", "reasoning_start")) == facts
    assert "tool calls" not in lamina("inspect", "llama-3.2-1b").stdout       # no files, no template


def test_queries(lamina, model):
    def ask(path, *more):
        done = lamina("inspect", model, "--query", path, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    assert ask("parameters.total") == "134515008"
    assert ask("layers[29].self_attn.k_proj.shape") == "[192, 576]"
    assert ask("model.layers.29.self_attn.k_proj.shape") == "[192, 576]"
    assert ask("kv.at[8192].bytes") == str(2 * 30 * 3 * 64 * 2 * 8192) and ask("kv.at[2].bytes", "--batch", "5") == str(2 * 30 * 3 * 64 * 2 * 10)
    assert ask("rope.theta[0]") == "1" and 0 < float(ask("rope.theta[31]")) < 1e-4
    assert ask("architecture.attention") == "GQA" and ask("layers[0].mlp.down_proj.weight.type") in ("q4_1", "q4_0", "q8_0")
    j = json.loads(ask("flops.per_token_matmul", "--json"))
    assert j["value"] > 2 * 100e6 and j["unit"] == "FLOP" and j["origin"] == "program"
    missing = lamina("inspect", model, "--query", "parameters.totl")
    assert missing.returncode == 1 and "total" in missing.stderr and "parameters" in missing.stderr
    assert lamina("inspect", model, "--query", "layers[30]").returncode == 1
    assert lamina("inspect", model, "--query", "").returncode == 2 and lamina("inspect", model, "--query", "kv..type").returncode == 1


def test_queries_by_the_names_of_config_json(lamina, model):
    """Queries accept keys of config.json, the common name of a key that a family names differently, jq's leading dot and approximate paths;
    the error for a misspelt key suggests the nearest one."""
    def ask(of, path):
        done = lamina("inspect", of, "--query", path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    for preset in ("llama-3.2-1b", "gpt2", "deepseek-v2", "gpt-oss-20b", "mixtral-8x7b"):
        config = ask(preset, "config")
        paths = json.loads(lamina("inspect", preset, "--json").stdout)
        flags = [f for k in config if k not in paths for f in ("--query", k)]
        found = json.loads(lamina("inspect", preset, "--json", *flags).stdout)
        assert {x["query"]: x["value"] for x in found} == {k: v for k, v in config.items() if k not in paths}, preset
    assert ask("gpt2", "hidden_size") == ask("gpt2", "n_embd") == 768 and ask("gpt2", "num_hidden_layers") == 12
    assert ask(model, "hidden_size") == 576 and ask(model, "num_key_value_heads") == 3 and ask(model, "vocab_size") == 49152
    assert ask("llama-3.2-1b", ".parameters.total") == ask("llama-3.2-1b", "parameters.total") == ask("llama-3.2-1b", "total parameters")
    assert ask("llama-3.2-1b", ".rope.theta[0]") == 1 and ask("llama-3.2-1b", "rope_scaling.factor") == 32
    assert ask("llama-3.2-1b", "q_proj.shape") == [2048, 2048]
    for wrong, meant in (("hiden_size", "hidden_size, which is config.hidden_size"), ("num_hidden_layer", "num_hidden_layers, which is config.num_hidden_layers"),
                         ("parameter", "parameters"), ("HiddenSize", "hidden_size, which is config.hidden_size"),
                         ("numHiddenLayers", "num_hidden_layers, which is config.num_hidden_layers"), ("vocab", "vocab_size"),
                         ("norm", "rms_norm_eps"), ("eps", "rms_norm_eps"), ("numLayers", "num_hidden_layers"), ("theta", "rope_theta"),
                         ("heads", "num_attention_heads or num_key_value_heads"), ("Parametrs.total", "parameters.total")):
        done = lamina("inspect", "llama-3.2-1b", "--query", wrong)
        assert done.returncode == 1 and done.stderr.splitlines()[-2:] == [f"hint: did you mean {meant}?", f"error: {wrong}: no such fact"]
    texts = {lamina("inspect", "llama-3.2-1b", "--query", name).stdout for name in ("rope_theta", "rope-theta", "Rope Theta", "config.rope_theta")}
    assert texts == {"500000.0\n"}, "a key prints alike however its words are separated"
    done = lamina("inspect", "llama-3.2-1b", "--query", "num_experts")
    assert done.returncode == 1 and done.stderr == "error: num_experts: this model does not have this quantity\n"
    done = lamina("inspect", "llama-3.2-1b", "--query", "colour")
    assert done.returncode == 1 and "hint" not in done.stderr


def test_formulas_of_latent_attention(lamina, tmp_path):
    """Without a query latent there is no W_DQ; scores are divided by the root of a whole head, 64 + 32; each symbol is listed once."""
    def ask(of, path):
        return lamina("inspect", of, "--query", path).stdout.strip()
    assert ask("deepseek-v2-lite", "formulas.query") == "Q = [W_Q h ; RoPE(W_QR h)]"
    assert ask("deepseek-v2", "formulas.query") == "Q = [W_UQ c_Q ; RoPE(W_QR c_Q)], c_Q = Norm(W_DQ h)"
    config = json.loads(ask("deepseek-v2-lite", "config"))
    config.update(kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, rope_scaling=None)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert ask(path, "formulas.attention") == "softmax(Q K^T / sqrt(qk_dim)) V" and float(ask(path, "attention.scale_sqrt_of")) == 96
    page = lamina("inspect", path, "--view", "formulas").stdout.split("\n\n")[1]
    letters = [line.split() for line in page.splitlines()]
    assert len({x[0] for x in letters}) == len(letters) and ["K", "96"] in [x[:2] for x in letters] and "K_N" not in [x[0] for x in letters]
    assert "sqrt(qk_dim)" in lamina("inspect", path, "--view", "cards").stdout
    assert "bytes = L · (R + K_R) · bytes per value · tokens" in lamina("explain", "kv", path).stdout and "2 · L · G" not in lamina("explain", "kv", path).stdout
    assert "c_KV = Norm(W_DKV · x)" in lamina("explain", "mla", path).stdout
    for preset, width in (("mixtral-8x7b", "14,336"), ("deepseek-v2-lite", "1,408")):
        page = lamina("inspect", preset, "--view", "formulas").stdout
        assert "3 × D × F_E" in page and ["F_E", width] in [line.split()[:2] for line in page.splitlines()]


def test_tuning(lamina):
    """Adapters of rank 16 on all seven projections of Llama 3.2 3B have 24,313,856 parameters, as PEFT counts them."""
    t = json.loads(lamina("inspect", "llama-3.2-3b", "--query", "tuning").stdout)
    total = 3212749824
    assert t["lora"]["trainable"] == 24313856 == sum(t["lora"]["targets"].values())
    full = t["full"]
    assert full["trainable"] == total and full["optimizer"] == 12 * total
    assert full["vram"] == full["weights"] + full["gradients"] + full["optimizer"] + full["activations"] == 16 * total + full["activations"]
    assert full["activations_checkpointed"] < full["activations"]
    assert t["qlora"]["vram_checkpointed"] < t["lora"]["vram_checkpointed"] < full["vram_checkpointed"]
    at = json.loads(lamina("inspect", "llama-3.2-3b", "--query", "tuning.at[4096].full").stdout)
    assert at["activations"] == 2 * full["activations"]


def test_speed_of_a_measured_machine(lamina, limits, model, tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path))
    assert json.loads(lamina("inspect", model, "--query", "speed").stdout) == {"measured": False}
    shutil.copy(limits, tmp_path)
    speed = json.loads(lamina("inspect", model, "--query", "speed").stdout)
    assert speed["measured"] and speed["generation"]["limited_by"] and speed["prompt"]["tokens_per_second"] > speed["generation"]["tokens_per_second"]
    assert abs(speed["prompt"]["seconds"] * speed["prompt"]["tokens_per_second"] - 512) < 1e-6
    assert speed["generation"]["bytes"] > 50e6


def test_inspect_a_bare_description(lamina, source, tmp_path):
    shutil.copy(source / "tests/golden/llama/gqa/config.json", tmp_path)
    j = json.loads(lamina("inspect", tmp_path / "config.json", "--json").stdout)
    assert j["weights"]["bytes"] is None and j["parameters"]["total"] > 0
    assert "no weights loaded" in lamina("inspect", tmp_path / "config.json").stdout


def test_verify(lamina, source):
    folder = source / "tests/golden/llama/gqa"
    done = lamina("verify", folder, folder / "golden.safetensors")
    assert done.returncode == 0 and "agrees" in done.stdout
    j = json.loads(lamina("verify", folder, folder / "golden.safetensors", "--json").stdout)
    assert set(j) >= {"source", "rows", "tol", "max_rel_err", "mean_kl", "max_kl", "argmax_agreement", "greedy_common", "bitwise",
                      "first_divergence", "agrees"}
    assert j["agrees"] is True and j["bitwise"] == {"chunked": True, "stepwise": True} and j["first_divergence"] is None
    assert j["max_rel_err"] < 1e-5


@pytest.mark.parametrize("case", ["qwen3_5/mixed", "bamba/mixed"])
def test_values_stored_in_another_order_are_compared_in_one(lamina, source, case):
    """A GGUF file stores heads or lanes in another order than transformers: values of modules are put into its order first."""
    folder = source / "tests/golden" / case
    j = json.loads(lamina("verify", folder / "model.gguf", folder / "golden.safetensors", "--json").stdout)
    assert j["agrees"] is True and j["taps"] > 40 and j["first_divergence"] is None



def test_verify_differs(lamina, source):
    folder, other = source / "tests/golden/llama/gqa", source / "tests/golden/llama/mqa"
    golden = other / "golden.safetensors"
    done = lamina("verify", folder, golden)
    assert done.returncode in (3, 5) and done.stderr.splitlines()[-1].startswith("error: ")
    done = lamina("verify", folder, folder / "golden.safetensors", "--tol", "1e-9")
    assert done.returncode == 5 and "DIFFERS" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("error: ") and "relative error" in done.stderr.splitlines()[-1]
    done = lamina("verify", folder, folder / "golden.safetensors", "--tol", "1e-9", "--json")
    j = json.loads(done.stdout)
    assert done.returncode == 5 and j["agrees"] is False
    assert j["error"]["code"] == "differs" and j["error"]["file"].endswith("golden.safetensors")
    assert done.stderr.splitlines()[-1].endswith(j["error"]["message"])
    assert lamina("verify", folder, "/nowhere.safetensors").returncode == 1


def test_verify_dumps_a_golden(lamina, source, tmp_path):
    folder = source / "tests/golden/llama/gqa"
    assert lamina("verify", folder, folder / "golden.safetensors", "--dump", tmp_path / "d.safetensors").returncode == 0
    for none in (["--tol", "0"], ["--kl-max", "0"]):
        done = lamina("verify", folder, tmp_path / "d.safetensors", "--json", *none)
        j = json.loads(done.stdout)
        assert done.returncode == 0 and j["max_rel_err"] == 0 and j["source"].startswith("lamina ") and "error" not in j
        done = lamina("verify", folder, folder / "golden.safetensors", *none)
        assert done.returncode == 5 and "at most 0 is allowed" in done.stderr


def test_verify_row_by_row(lamina, source):
    folder = source / "tests/golden/llama/gqa"
    j = json.loads(lamina("verify", folder, folder / "golden.safetensors", "--json").stdout)
    rows = j["per_row"]
    assert len(rows) == j["rows"] and set(rows[0]) == {"sequence", "position", "rel_err", "kl", "argmax_equal"}
    assert [(r["sequence"], r["position"]) for r in rows] == [(s, p) for s in range(2) for p in range(12)]
    assert max(r["rel_err"] for r in rows) == rows[j["worst_row"]]["rel_err"] == j["max_rel_err"]
    assert max(r["kl"] for r in rows) == j["max_kl"] and all(r["argmax_equal"] for r in rows)
    plain, received = (lamina("verify", folder, folder / "golden.safetensors", *v) for v in ([], ["-v"]))
    assert plain.stdout == received.stdout and plain.stderr == ""
    table = received.stderr[received.stderr.index("   row "):].splitlines()
    assert len(table) == len(rows) + 1 and len({len(line) for line in table[1:]}) == 1
    assert [line.split()[:3] for line in table[1:]] == [[str(i), str(r["sequence"]), str(r["position"])] for i, r in enumerate(rows)]


def test_help(lamina):
    overview = lamina().stdout
    for command in ("run", "chat", "inspect", "verify", "help", "version"):
        assert f"lamina {command} " in overview
        page = lamina(command, "--help")
        assert page.returncode == 0 and page.stdout == lamina("help", command).stdout
        assert all(len(line) <= 132 for line in page.stdout.splitlines())
    assert lamina("rnu").returncode == 2 and "did you mean lamina run?" in lamina("rnu").stderr
    assert lamina("--version").stdout.startswith("lamina ")


@pytest.mark.parametrize("precision", ["f16", "Q4_K_M"])
def test_the_document_has_the_requested_precision(lamina, precision):
    requested = ["inspect", "llama-3.2-1b", "--precision", precision]
    j = json.loads(lamina(*requested, "--json").stdout)
    assert j["weights"]["precision"] == precision
    assert j["memory"]["total"] == int(lamina(*requested, "--query", "memory.total").stdout)


@pytest.mark.parametrize("flags, where", [
    (["--query", "kv", "--view", "kv"], "inspect"), (["--tensors", "--view", "kv"], "inspect"), (["--plan", "--view", "kv"], "inspect"),
    (["--tensors", "--metadata"], "inspect"),
    (["--metadata", "--layer", "1"], "--layer"), (["--query", "kv", "--layer", "1"], "--layer"), (["--view", "kv", "--layer", "1"], "--layer"),
    (["--depth", "1"], "--depth"), (["--view", "kv", "--depth", "1"], "--depth"), (["--json", "--depth", "1"], "--depth"),
    (["--torchinfo-compat"], "--torchinfo-compat"), (["--layer", "1", "--torchinfo-compat"], "--torchinfo-compat"),
])
def test_hidden_parts_cannot_be_requested(lamina, flags, where):
    done = lamina("inspect", "gpt2", *flags)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(f"error: {where}: "), done.stderr


@pytest.mark.parametrize("flags", [
    ["--layer", "1", "--depth", "1"], ["--view", "layers", "--depth", "1"], ["--view", "diagram", "--layer", "1"],
    ["--view", "tensors", "--layer", "1"], ["--view", "params", "--depth", "1"], ["--view", "tree", "--depth", "2"],
    ["--view", "torchinfo", "--depth", "1", "--torchinfo-compat"],
])
def test_flags_of_a_view_change_it(lamina, flags):
    whole = lamina("inspect", "gpt2", *(flags[:2] if flags[0] == "--view" else ["--view", "layers"]))
    part = lamina("inspect", "gpt2", *flags)
    assert whole.returncode == part.returncode == 0 and part.stdout != whole.stdout


@pytest.mark.parametrize("flag", ["precision", "view"])
def test_a_bad_value_is_named_with_its_flag(lamina, flag):
    done = lamina("inspect", "gpt2", f"--{flag}", "foo", "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2 and error["where"] == f"--{flag}" and '"foo"' in error["message"]


def test_a_configuration_comes_back_as_it_is(lamina, source):
    """`--query config` of every preset returns the same keys, values and types, so that transformers loads it; a float stays a float."""
    presets = [p for path in sorted((source / "src/arch/presets").glob("*.json")) for p in json.loads(path.read_text())]

    def typed(x):
        if isinstance(x, dict):
            return {k: typed(v) for k, v in x.items()}
        return [typed(v) for v in x] if isinstance(x, list) else (type(x).__name__, x)

    for preset in presets:
        if "config" in preset:
            assert typed(json.loads(lamina("inspect", preset["name"], "--query", "config").stdout)) == typed(preset["config"]), preset["name"]
    assert len(presets) > 100


# What papers and model cards state about each model, as ids of docs/study/facts.md.
WORDS = {
    "llama-3.2-3b": {"attention.sharing": "gqa", "architecture.position": "rope", "architecture.norm": "rms_norm", "architecture.norm_position": "pre",
                     "mlp.activation": "silu", "rope.scaling": "llama3", "model.container": "preset"},
    "gpt2": {"attention.sharing": "mha", "architecture.position": "learned", "architecture.norm": "layer_norm", "mlp.activation": "gelu_tanh"},
    "bloom-7b1": {"architecture.position": "alibi"},
    "deepseek-v2": {"attention.sharing": "mla", "rope.scaling": "yarn"},
    "olmo-2-7b": {"architecture.norm_position": "after_branch", "rope.scaling": "none"},
    "gemma-2-2b": {"architecture.norm_position": "pre_and_after_branch"},
}


@pytest.mark.parametrize("preset", WORDS)
def test_words_carry_ids(lamina, preset):
    """A value from a fixed list has an id next to the displayed words, the same in every language; other values have none."""
    for language in "en", "zh-Hans":
        for path, word in WORDS[preset].items():
            reply = json.loads(lamina("inspect", preset, "--query", path, "--json", "--lang", language).stdout)
            assert reply["id"] == word and reply["value"], path
    assert "id" not in json.loads(lamina("inspect", preset, "--query", "model.name", "--json").stdout)


@pytest.mark.parametrize("change, words", [
    ({"layer_types": ["conv"] * 3 + ["mamba"]}, 'layer_types: {}: layer 3 is "mamba"; "conv" or "full_attention" is expected'),
    ({"layer_types": ["conv"] * 3}, "layer_types: {}: 3 entries for 4 layers"),
    ({"layer_types": ["conv", 1, "conv", "conv"]}, 'layer_types: {}: layer 1 is ""; "conv" or "full_attention" is expected'),
    ({"layer_types": None, "full_attn_idxs": [0, 4]}, "full_attn_idxs: {}: entry 1 is not below the 4 layers"),
    ({"conv_L_cache": 0}, "conv_L_cache: {}: 0 is outside 2...64"),
])
def test_a_pattern_of_layers_that_does_not_add_up(lamina, source, tmp_path, change, words):
    config = json.loads((source / "tests/golden/lfm2/convolutions/config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    done = lamina("inspect", tmp_path / "config.json")
    assert done.returncode == 3 and done.stderr == f"error: {words.format(tmp_path / 'config.json')}\n"
