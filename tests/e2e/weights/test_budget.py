"""lamina quantize --budget: types by each tensor's cost on a text: within the size, better than a fixed mixture, the same when resumed."""
import json
import os

import pytest
from conftest import BARE, SOURCE, run

IMATRIX = SOURCE / "tests/golden/imatrix"
TEXT = ["--text", IMATRIX / "text.txt", "--chunk", "64", "--chunks", "4"]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def model(lamina, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "dense.gguf"
    assert lamina("synth", IMATRIX / "dense.json", path, "--type", "f32", "-q").returncode == 0
    return path


def made(lamina, *args):
    done = lamina("quantize", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def divergence(lamina, model, base):
    done = lamina("eval", model, "kl", "--base", base, "-f", IMATRIX / "text.txt", "-c", "64", "--compute", "f32", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["mean_kl"]


def test_better_than_a_mixture_of_the_same_size(lamina, model, tmp_path):
    fixed = made(lamina, model, tmp_path / "q4_0.gguf", "q4_0")
    size = (tmp_path / "q4_0.gguf").stat().st_size
    chosen = made(lamina, model, tmp_path / "chosen.gguf", "--size", f"{size / 1000:.3f}kB", *TEXT, "--curve", tmp_path / "c.json")
    assert chosen["bytes"] <= fixed["bytes"] and (tmp_path / "chosen.gguf").stat().st_size <= size
    assert divergence(lamina, tmp_path / "chosen.gguf", model) < divergence(lamina, tmp_path / "q4_0.gguf", model)
    curve = json.loads((tmp_path / "c.json").read_text())
    steps = curve["steps"]
    assert curve["bytes"] == chosen["bytes"] and curve["tried"] == 16 and curve["untried"] == 0 and steps[0]["tensor"] is None
    assert all(a["bytes"] < b["bytes"] and a["estimate"] > b["estimate"] for a, b in zip(steps, steps[1:]))
    assert steps[0]["kl"] > steps[-1]["kl"] > 0
    types = {t["name"]: t["to"] for t in chosen["tensors"]}
    last = {s["tensor"]: s["to"] for s in steps[1:]}
    assert all(types[name] == to for name, to in last.items())


def test_estimates_are_the_sum_of_single_tensors(lamina, model, tmp_path):
    """Small divergences add up: that of all changes together is near the sum of the single ones."""
    made(lamina, model, tmp_path / "b.gguf", "--budget", "7.5", *TEXT, "--curve", tmp_path / "c.json")
    last = json.loads((tmp_path / "c.json").read_text())["steps"][-1]
    assert 0.3 < last["kl"] / last["estimate"] < 3 and last["bpw"] <= 7.5


@pytest.fixture(scope="module")
def wide(lamina, tmp_path_factory):
    """A model whose rows are whole blocks of 256, and its importance matrix."""
    golden = SOURCE / "tests/golden/filetypes"
    config = json.loads((golden / "grouped-tied.json").read_text()) | {"num_hidden_layers": 3}
    folder = tmp_path_factory.mktemp("wide")
    (folder / "c.json").write_text(json.dumps(config))
    assert lamina("synth", folder / "c.json", folder / "w.gguf", "--type", "f32", "-q").returncode == 0
    return folder / "w.gguf", golden / "grouped-tied.imatrix.dat"


def test_types_of_few_bits(lamina, wide, tmp_path):
    """Budgets that K types do not reach get IQ types, with an importance matrix; the file has a lower divergence than a fixed mixture."""
    model, imatrix = wide
    text = ["--text", IMATRIX / "text.txt", "--chunk", "64", "--chunks", "6"]
    fixed = made(lamina, model, tmp_path / "iq2_xs.gguf", "iq2_xs", "--imatrix", imatrix)
    chosen = made(lamina, model, tmp_path / "low.gguf", "--budget", f"{fixed['bpw']:.3f}", "--imatrix", imatrix, *text, "--curve", tmp_path / "c.json")
    types = {t["to"] for t in chosen["tensors"]}
    assert chosen["bytes"] <= fixed["bytes"] and types & {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs"}
    assert json.loads((tmp_path / "c.json").read_text())["tried"] == 22
    assert divergence(lamina, tmp_path / "low.gguf", model) < divergence(lamina, tmp_path / "iq2_xs.gguf", model)
    plain = made(lamina, model, tmp_path / "plain.gguf", "--budget", "4", *text)
    assert not {t["to"] for t in plain["tensors"] if t["name"] != "token_embd.weight"} & {"iq2_s", "iq3_xxs"}
    for budget, hint in ("1.2", False), ("2.5", True):
        done = lamina("quantize", model, tmp_path / "no.gguf", "--budget", budget, *([] if hint else ["--imatrix", imatrix]), *text)
        assert done.returncode == 2 and ("--imatrix" in done.stderr) == hint and "in its smallest types" in done.stderr, done.stderr


LATENT = {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 320,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "q_lora_rank": 32, "kv_lora_rank": 32,
          "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "first_k_dense_replace": 1, "moe_intermediate_size": 32,
          "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "topk_method": "greedy", "scoring_func": "softmax",
          "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": False}


@pytest.mark.parametrize("name", ["m.gguf", "m"])
def test_latent_attention(lamina, tmp_path, name):
    """The matrices of each head (attn_k_b, attn_v_b) are tried like all others, from a file and from a folder that stores them together."""
    (tmp_path / "c.json").write_text(json.dumps(LATENT))
    assert lamina("synth", tmp_path / "c.json", tmp_path / name, "--type", "f32", "-q").returncode == 0
    fixed = made(lamina, tmp_path / name, tmp_path / "q5_0.gguf", "q5_0")
    size = (tmp_path / "q5_0.gguf").stat().st_size
    limit = ["--size", f"{size / 1000:.3f}kB"] if "." in name else ["--budget", f"{fixed['bpw']:.3f}"]
    chosen = made(lamina, tmp_path / name, tmp_path / "chosen.gguf", *limit, *TEXT, "--curve", tmp_path / "c.json")
    curve = json.loads((tmp_path / "c.json").read_text())
    assert chosen["bytes"] == curve["bytes"] <= fixed["bytes"] and curve["tried"] == 23 and curve["untried"] == 0
    moved = {s["tensor"] for s in curve["steps"] if s["tensor"]}
    assert any("attn_k_b" in t for t in moved) and any("attn_v_b" in t for t in moved)
    assert divergence(lamina, tmp_path / "chosen.gguf", tmp_path / name) < divergence(lamina, tmp_path / "q5_0.gguf", tmp_path / name)


def test_latent_attention_of_older_files(lamina, tmp_path):
    """Where both are rows of one tensor, that tensor gets q8_0."""
    old = SOURCE / "tests/golden/deepseek_v2/older-gguf/model.gguf"
    assert lamina("convert", old, tmp_path / "f32.gguf", "--type", "f32").returncode == 0
    args = ["--budget", "16", "--text", IMATRIX / "text.txt", "--chunk", "24", "--chunks", "2"]
    types = {t["name"]: t["to"] for t in made(lamina, tmp_path / "f32.gguf", tmp_path / "q.gguf", "q4_0", *args)["tensors"]}
    assert {types[f"blk.{i}.attn_kv_b.weight"] for i in range(3)} == {"q8_0"}


def test_continued_and_bounded(lamina, model, tmp_path):
    args = ["--budget", "6", *TEXT, "--state", tmp_path / "state"]
    first = made(lamina, model, tmp_path / "a.gguf", *args)
    size = (tmp_path / "state").stat().st_size
    again = made(lamina, model, tmp_path / "b.gguf", *args, "-t", "2")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes() and (tmp_path / "state").stat().st_size == size
    assert first["bpw"] == again["bpw"] <= 6
    made(lamina, model, tmp_path / "c.gguf", "--budget", "6", *TEXT, "--minutes", "0.001", "--curve", tmp_path / "c.json")
    curve = json.loads((tmp_path / "c.json").read_text())
    assert curve["tried"] + curve["untried"] == 16
    other = lamina("quantize", model, tmp_path / "d.gguf", "--budget", "6", "--text", SOURCE / "README.md", "--chunk", "64", "--state", tmp_path / "state")
    assert other.returncode == 2 and not (tmp_path / "d.gguf").exists()


@pytest.mark.parametrize("args, words", [
    (["--budget", "3", *TEXT], "in its smallest types"), (["--budget", "5"], "--text"), (["--budget", "5", "--size", "1M", *TEXT], "cannot be combined with --budget"),
    (["--size", "0.1kB", *TEXT], "less than the metadata"), (["q4_0", "--text", IMATRIX / "text.txt"], "require --budget"),
    (["--budget", "5", "--text", "/nowhere/text"], "/nowhere/text"),
], ids=["small", "text", "both", "tiny", "alone", "nowhere"])
def test_rejected(lamina, model, tmp_path, args, words):
    done = lamina("quantize", model, tmp_path / "out.gguf", *args)
    assert done.returncode in (1, 2) and words in done.stderr and not list(tmp_path.iterdir())
