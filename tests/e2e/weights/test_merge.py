"""lamina merge: adapters merged into the weights give the results of unmerged adapters and of PEFT's merge_and_unload."""
import json

import pytest
from conftest import MODEL, SOURCE, run
from test_convert import tensors_of
from test_serve_adapters import write_adapter

GOLDEN = SOURCE / "tests/golden"
MERGED = sorted(p.parent for p in (GOLDEN / "adapters").glob("*/merged.safetensors"))
LLAMA = GOLDEN / "adapters/llama"
BASE = GOLDEN / "llama/gqa"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args)


def reply(r, status=0):
    assert r.returncode == status, r.stderr
    if status:
        assert r.stdout == "" and sum(line.startswith("error: ") for line in r.stderr.splitlines()) == 1, r.stderr
    return r.stderr


@pytest.mark.parametrize("adapter", MERGED, ids=lambda p: p.name)
def test_logits_equal_merge_and_unload(lamina, adapter, tmp_path):
    base = GOLDEN / (adapter / "base.txt").read_text().strip()
    reply(lamina("merge", base, adapter, tmp_path / "folder"))
    assert "agrees" in lamina("verify", tmp_path / "folder", adapter / "merged.safetensors").stdout
    assert "agrees" not in lamina("verify", base, adapter / "merged.safetensors").stdout
    if adapter.name == "deepseek_v2":                    # a GGUF file stores the latent's projection as two tensors
        assert "attn_k_b" in reply(lamina("merge", base / "model.gguf", adapter, tmp_path / "x.gguf"), 3)
        assert not (tmp_path / "x.gguf").exists()
        return
    if not (base / "model.gguf").exists():
        return
    reply(lamina("merge", base / "model.gguf", adapter, tmp_path / "file.gguf"))
    assert "agrees" in lamina("verify", tmp_path / "file.gguf", adapter / "merged.safetensors").stdout


@pytest.mark.parametrize("trained", ["", "model.gguf"])
def test_adapters_fit_files_that_order_heads_in_another_way(lamina, trained, tmp_path):
    """GGUF files of Qwen3.5 have other rows and columns than its folders; an adapter that is trained on one is merged into both alike."""
    base, ids = GOLDEN / "qwen3_5/mixed", GOLDEN / "train/qwen3_5.lora.safetensors"
    reply(lamina("train", base / trained, "--ids-file", ids, "--steps", "2", "--lr", "0.02", "-o", tmp_path / "adapter"))
    reply(lamina("merge", base, tmp_path / "adapter", tmp_path / "folder"))
    reply(lamina("merge", base / "model.gguf", tmp_path / "adapter", tmp_path / "file.gguf"))
    reply(lamina("convert", tmp_path / "file.gguf", tmp_path / "again"))
    one, other = (tensors_of(tmp_path / name) for name in ("folder", "again"))
    assert {name for name in one.keys() | other.keys() if one[name] != other[name] and not name.endswith(("A_log", "norm.weight"))} == set()
    before = tensors_of(base)
    assert all(one[f"model.layers.0.linear_attn.{x}.weight"] != before[f"model.layers.0.linear_attn.{x}.weight"]
               for x in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"))


def test_files_of_llama_cpp_and_several_with_scales(lamina, tmp_path):
    reply(lamina("merge", BASE / "model.gguf", LLAMA / "adapter.gguf", tmp_path / "a.gguf"))
    assert "agrees" in lamina("verify", tmp_path / "a.gguf", LLAMA / "merged.safetensors").stdout
    reply(lamina("merge", BASE, f"{LLAMA}:0.25", f"{LLAMA}:0.75", tmp_path / "b"))
    assert "agrees" in lamina("verify", tmp_path / "b", LLAMA / "merged.safetensors").stdout
    reply(lamina("merge", BASE, f"{LLAMA}:0.25", tmp_path / "c"))
    assert "agrees" not in lamina("verify", tmp_path / "c", LLAMA / "merged.safetensors").stdout


def test_the_folder_is_whole_and_the_same_whatever_the_threads(lamina, tmp_path):
    for t in (1, 3):
        reply(lamina("merge", BASE, LLAMA, tmp_path / str(t), "-t", t))
    assert (tmp_path / "1/model.safetensors").read_bytes() == (tmp_path / "3/model.safetensors").read_bytes()
    assert (tmp_path / "1/config.json").read_bytes() == (BASE / "config.json").read_bytes()


def test_quantised_weights_are_rejected_with_the_expected_loss(lamina, tmp_path):
    usual = write_adapter(tmp_path / "usual", 5, 8, ["self_attn.q_proj", "mlp.up_proj"], range(0, 30, 6), size=0.0005)
    out = tmp_path / "out.gguf"
    text = reply(lamina("merge", MODEL, usual, out), 2)
    assert "q4_1 keeps" in text and "--lossy" in text and "--type of f16" in text and not out.exists()
    r = lamina("merge", MODEL, usual, "--dry-run", "--json")
    measured = json.loads(r.stdout)
    assert measured["path"] is None and len(measured["tensors"]) == 10 and 0.0001 < measured["change"] < 0.01
    assert measured["kept"] < 0.2 and measured["noise"] > 0.5          # blocks of four bits hardly resolve the change
    whole = json.loads(lamina("merge", MODEL, usual, out, "--lossy", "--json").stdout)
    assert whole["kept"] == pytest.approx(measured["kept"], abs=0.1) and whole["path"] == str(out) and whole["adapters"] == [{"path": str(usual), "scale": 1}]
    assert all(t["from"] == t["to"] == "q4_1" for t in whole["tensors"])


def test_another_type_loses_nothing(lamina, tmp_path):
    strong = write_adapter(tmp_path / "strong", 6, 4, ["self_attn.v_proj", "mlp.down_proj"], range(0, 30, 2), 0.4)
    r = json.loads(lamina("merge", MODEL, strong, tmp_path / "out.gguf", "--type", "f16", "--json").stdout)
    assert r["kept"] == pytest.approx(1, abs=1e-3) and r["noise"] < 0.01 and {t["to"] for t in r["tensors"]} == {"f16"}

    def written(*args):
        return lamina("run", *args, "-p", "The old man looked at the sea and said that", "-n", 16, "--temp", 0, "--compute", "f32").stdout

    assert written(tmp_path / "out.gguf") == written(MODEL, "--lora", strong) != written(MODEL)


@pytest.mark.parametrize("words, status, word", [
    (["{base}", "{llama}"], 2, "requires"), (["{base}", "{llama}", "x.gguf"], 2, "folder"), (["{base}/model.gguf", "{llama}", "x"], 2, ".gguf"),
    (["{base}/model.gguf", "{llama}", "{base}/model.gguf"], 2, "itself"), (["{base}/model.gguf", "{llama}", "{llama}/adapter_config.json.gguf", "--type", "q8_0"], 2, "f32"),
    (["{base}/model.gguf", "none", "x.gguf"], 1, "none"), (["{base}", "{golden}/adapters/gpt2", "x"], 5, "this model"), (["{base}", "{llama}:2x", "x"], 1, "2x")])
def test_impossible_settings(lamina, words, status, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    r = lamina("merge", *[w.format(base=BASE, llama=LLAMA, golden=GOLDEN) for w in words])
    assert word in reply(r, r.returncode) and r.returncode, r.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept_and_a_shared_table_is_rejected(lamina, tmp_path):
    out = tmp_path / "x.gguf"
    out.write_bytes(b"mine")
    assert "already exists" in reply(lamina("merge", BASE / "model.gguf", LLAMA, out), 2) and out.read_bytes() == b"mine"
    reply(lamina("merge", BASE / "model.gguf", LLAMA, out, "--force"))
    assert out.read_bytes()[:4] == b"GGUF"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/notes").write_text("mine")
    assert "replaced" in reply(lamina("merge", BASE, LLAMA, tmp_path / "folder", "--force"), 2)
    assert (tmp_path / "folder/notes").read_text() == "mine"


def test_eval_with_an_adapter_is_eval_of_the_merged_model(lamina, tmp_path):
    strong = write_adapter(tmp_path / "strong", 6, 4, ["self_attn.v_proj", "mlp.down_proj"], range(0, 30, 2), 0.1)
    reply(lamina("merge", MODEL, strong, tmp_path / "out.gguf", "--type", "f32"))
    (tmp_path / "text").write_text(" ".join(f"Here is sentence number {i}, and it says little." for i in range(30)))

    def perplexity(*args):
        r = lamina("eval", *args, "perplexity", "--file", tmp_path / "text", "-c", 128, "--compute", "f32", "--json")
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)["perplexity"]

    merged, beside, plain = perplexity(tmp_path / "out.gguf"), perplexity(MODEL, "--lora", strong), perplexity(MODEL)
    assert beside == pytest.approx(merged, rel=1e-4) and abs(beside / plain - 1) > 0.01
    assert perplexity(MODEL, "--lora", f"{strong}:0") == plain
    state = ["eval", MODEL, "perplexity", "--file", tmp_path / "text", "-c", 128, "--state", tmp_path / "state"]
    reply(lamina(*state, "--lora", strong))
    assert lamina(*state).returncode != 0                # results of the adapter are not those of the model
