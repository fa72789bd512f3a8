"""lamina presets and lamina synth: published shapes, and models of these shapes with random weights."""
import contextlib
import hashlib
import json
import resource
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, run

TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 600, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def lamina(build):
    def call(*args, **options):
        return run(build / "src/cli/lamina", *args, **options)
    return call


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- presets ----

def test_presets(lamina):
    table = lamina("presets")
    rows = {line.split()[0]: line for line in table.stdout.splitlines()[1:]}
    assert table.returncode == 0 and len(rows) >= 100
    assert "1,235,814,400" in rows["llama-3.2-1b"] and "235,741,434,880" in rows["deepseek-v2"] and "21,375,800,320" in rows["deepseek-v2"]
    assert len({len(line) for line in table.stdout.splitlines()}) == 1 and len(table.stdout.splitlines()[0]) <= 102
    listed = json.loads(lamina("presets", "--json").stdout)
    assert [p["name"] for p in listed] == list(rows)
    assert all(p["source"] and 0 < p["active"] <= p["parameters"] and p["layers"] and p["heads"] >= p["kv_heads"] for p in listed)
    assert [p["name"] for p in json.loads(lamina("presets", "llama", "3.2", "--json").stdout)] == ["llama-3.2-1b", "llama-3.2-3b"]
    assert lamina("presets", "nobody").returncode == 1


def test_a_preset_is_a_model_without_weights(lamina):
    j = json.loads(lamina("inspect", "Llama 3.2 3B", "--json").stdout)
    assert j["parameters"]["total"] == 3212749824
    reply = lamina("inspect", "granite 3b")
    assert reply.returncode == 0 and "granite-3b-code-base" in reply.stderr and "3,482,503,680" in reply.stdout
    assert "model.layers.27" in lamina("inspect", "llama-3.2-3b", "--program").stdout
    assert "model.layers.27" in lamina("inspect", "llama-3.2-3b", "--plan").stdout
    unclear = lamina("inspect", "llama-3.2")
    assert unclear.returncode == 2 and "llama-3.2-1b, llama-3.2-3b" in unclear.stderr
    wrong = lamina("inspect", "lama-3.2-1b")
    assert wrong.returncode == 1 and "llama-3.2-1b" in wrong.stderr
    run_it = lamina("run", "llama-3.2-1b", "-p", "x")
    assert run_it.returncode == 2 and "lamina synth llama-3.2-1b" in run_it.stderr


def test_a_folder_without_weights(lamina, config):
    assert json.loads(lamina("inspect", config.parent, "--json").stdout)["parameters"]["total"] == \
        json.loads(lamina("inspect", config, "--json").stdout)["parameters"]["total"] > 0
    assert lamina("run", config.parent, "-p", "x").returncode != 0


# ---- synth ----

@pytest.mark.parametrize("type_", ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_m", "iq4_nl"])
def test_gguf(lamina, config, tmp_path, type_):
    out = tmp_path / "m.gguf"
    done = lamina("synth", config, out, "--type", type_)
    assert done.returncode == 0 and done.stdout == "" and "3 layers" in done.stderr and "memory" in done.stderr
    j = json.loads(lamina("run", out, "-p", "hello you", "-n", "4", "--temp", "0", "--json").stdout)
    assert len(j["ids"]) <= 4 and j["prompt_ids"][0] == 1
    text = json.loads(lamina("tokenize", out, "-p", "hello Ünder 世界", "--json").stdout)
    ids = [t["id"] if isinstance(t, dict) else t for t in (text if isinstance(text, list) else text.get("ids", text.get("tokens")))]
    assert json.loads(lamina("detokenize", out, *map(str, ids), "--json").stdout) is not None


@pytest.mark.parametrize("preset,type_", [("smollm2-135m", "q4_k_m"), ("gpt2", "q6_k"), ("pythia-70m", "q8_0"), ("qwen2.5-0.5b", "iq4_xs")])
def test_presets_cut_short(lamina, tmp_path, preset, type_):
    out = tmp_path / "m.gguf"
    done = lamina("synth", preset, out, "--layers", "1", "--type", type_, "--json")
    j = json.loads(done.stdout)
    assert done.returncode == 0 and j["layers"] == 1 and j["bytes"] == out.stat().st_size and j["peak_memory"] < 1 << 27
    assert len(json.loads(lamina("run", out, "-p", "hello", "-n", "2", "--temp", "0", "--json").stdout)["ids"]) >= 1
    out.unlink()


def test_folder(lamina, config, tmp_path):
    out = tmp_path / "made"
    assert lamina("synth", config, out, "--layers", "2").returncode == 0
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    written = json.loads((out / "config.json").read_text())
    assert written == TINY | {"num_hidden_layers": 2, "torch_dtype": "bfloat16"}
    ids = json.loads(lamina("run", out, "-p", "hello", "-n", "3", "--temp", "0", "--json").stdout)["prompt_ids"]
    assert lamina("synth", config, tmp_path / "m.gguf", "--layers", "2").returncode == 0
    assert json.loads(lamina("run", tmp_path / "m.gguf", "-p", "hello", "-n", "3", "--temp", "0", "--json").stdout)["prompt_ids"] == ids
    again = lamina("synth", config, out, "--layers", "2")
    assert again.returncode == 2 and "--force" in again.stderr
    assert lamina("synth", config, out, "--force", "--type", "f32").returncode == 0
    assert json.loads((out / "config.json").read_text())["num_hidden_layers"] == 3
    (out / "notes.txt").write_text("mine")
    kept = lamina("synth", config, out, "--force")
    assert kept.returncode == 2 and "notes.txt" in kept.stderr and (out / "notes.txt").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("made")] == ["made"]


def test_force_deletes_only_what_synth_made(lamina, config, tmp_path):
    """Published models have the same file names; the metadata of the weights states which program made them."""
    out = tmp_path / "real"
    assert lamina("synth", config, out, "--shard-size", "1").returncode == 0
    made = (out / "model.safetensors").read_bytes()
    real = made.replace(b'"made_by":"lamina synth"', b'"made_by":"a laboratory"')
    for name, content in (("model.safetensors", real), ("model.safetensors", b"no header"), ("model-00001-of-00002.safetensors", real)):
        (out / name).write_bytes(content)
        (out / "generation_config.json").write_text("{}")
        before = {p.name: p.read_bytes() for p in out.iterdir()}
        refused = lamina("synth", config, out, "--force")
        assert refused.returncode == 2 and f"error: {name}: {out}: was not created by synth" in refused.stderr
        assert {p.name: p.read_bytes() for p in out.iterdir()} == before
        (out / "model.safetensors").write_bytes(made)
    (out / "model-00001-of-00002.safetensors").unlink()
    assert lamina("synth", config, out, "--force").returncode == 0
    (out / "model.safetensors").unlink()
    assert lamina("synth", config, out, "--force").returncode == 2 and (out / "config.json").exists()
    (tmp_path / "empty").mkdir()
    assert lamina("synth", config, tmp_path / "empty", "--force").returncode == 0


def test_shards(lamina, tmp_path):
    out = tmp_path / "made"
    assert lamina("synth", "smollm2-135m", out, "--layers", "1", "--shard-size", "30").returncode == 0
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(files) >= 2 and files[0] == f"model-00001-of-{len(files):05}.safetensors" and all((out / f).exists() for f in files)
    assert lamina("run", out, "-p", "hello", "-n", "1").returncode == 0


def test_the_same_bytes(lamina, config, tmp_path):
    def made(name, *flags):
        assert lamina("synth", config, tmp_path / name, "--type", "q4_k_m", *flags).returncode == 0
        return digest(tmp_path / name)
    first = made("a.gguf", "--threads", "1")
    assert made("b.gguf", "--threads", "3") == first
    assert made("c.gguf", "--seed", "1") != first
    assert made("d.gguf", "--seed", "1") == digest(tmp_path / "c.gguf")


def test_a_tokenizer_that_is_copied(lamina, model, tmp_path):
    out = tmp_path / "m.gguf"
    assert lamina("synth", "smollm2-360m", out, "--layers", "1", "--type", "q4_0", "--tokenizer", model).returncode == 0
    ask = ["-p", "The capital of France", "--json"]
    assert json.loads(lamina("tokenize", out, *ask).stdout) == json.loads(lamina("tokenize", model, *ask).stdout)
    small = lamina("synth", tmp_path / "missing.json", tmp_path / "n.gguf")
    assert small.returncode != 0 and not (tmp_path / "n.gguf").exists()
    few = tmp_path / "config.json"
    few.write_text(json.dumps(TINY))
    refused = lamina("synth", few, tmp_path / "n.gguf", "--tokenizer", model)
    assert refused.returncode == 2 and "600 rows" in refused.stderr and not (tmp_path / "n.gguf").exists()
    for wrong, into in ((few, tmp_path / "n.gguf"), (model, tmp_path / "made"), (tmp_path / "nothing", tmp_path / "n.gguf")):
        assert lamina("synth", few, into, "--tokenizer", wrong).returncode != 0 and not into.exists()
    made = tmp_path / "with-files"
    assert lamina("synth", few, made).returncode == 0
    assert lamina("synth", few, tmp_path / "again", "--tokenizer", made).returncode == 0
    assert lamina("synth", few, tmp_path / "once", "--tokenizer", made / "tokenizer.json").returncode == 0
    assert digest(tmp_path / "again" / "tokenizer.json") == digest(tmp_path / "once" / "tokenizer.json") == digest(made / "tokenizer.json")


def test_rejections(lamina, config, tmp_path):
    assert "q4_k_m" in lamina("synth", config, tmp_path / "m.gguf", "--type", "q9").stderr
    assert lamina("synth", config, tmp_path / "m.gguf", "--type", "q1_0").returncode == 2
    assert "ending in .gguf" in lamina("synth", config, tmp_path / "m", "--type", "q4_0").stderr
    assert lamina("synth", "nobodys-model", tmp_path / "m.gguf").returncode == 1
    no_form = lamina("synth", "gpt-neo-125m", tmp_path / "m.gguf", "--layers", "2")
    assert no_form.returncode == 3 and "cannot be stored in GGUF" in no_form.stderr
    config.write_text("{\"model_type\": \"llama\"")
    assert lamina("synth", config, tmp_path / "m.gguf").returncode == 3
    assert lamina("synth", "llama-3.2-1b", tmp_path / "no/such/m.gguf").returncode == 1
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("case", ["qwen3_next/mixed", "granitemoehybrid/experts", "granitemoehybrid/dense"])
def test_a_fused_matrix_becomes_the_tensors_of_gguf(lamina, source, tmp_path, case):
    """Random numbers are those of the checkpoint's matrix: a GGUF file is the folder of the same seed, converted."""
    config, made = source / "tests/golden" / case / "config.json", tmp_path / "made"
    for out in (made, tmp_path / "m.gguf"):
        assert lamina("synth", config, out, "--type", "f32").returncode == 0
    assert lamina("convert", made, tmp_path / "c.gguf", "--type", "f32").returncode == 0
    tensors = json.loads(lamina("diff", tmp_path / "c.gguf", tmp_path / "m.gguf", "--json").stdout)["tensors"]
    assert len(tensors) > 30 and all(t["max_abs"] == 0 and t["elements"] for t in tensors)


def test_a_link_stays_and_its_folder_is_replaced(lamina, config, tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    assert lamina("synth", config, real).returncode == 0
    before = digest(real / "model.safetensors")
    link.symlink_to("real")
    assert lamina("synth", config, f"{link}/", "--seed", "7", "-f").returncode == 0
    assert link.is_symlink() and real.is_dir() and not real.is_symlink()
    assert digest(real / "model.safetensors") == digest(link / "model.safetensors") != before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "link", "real"]


def test_a_broken_link_is_an_error_at_once(lamina, config, tmp_path):
    for name in ("made", "m.gguf"):
        (tmp_path / name).symlink_to("nowhere")
        done = lamina("synth", config, tmp_path / name, "-f")
        assert done.returncode == 1 and "is a link that leads nowhere" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "m.gguf", "made"]


# ---- full disk, interruption ----

def small_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("name", ["m.gguf", "made"])
def test_a_disk_that_is_full(lamina, tmp_path, name):
    done = lamina("synth", "smollm2-135m", tmp_path / name, "--layers", "1", preexec_fn=small_disk)
    assert done.returncode == 1 and "cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == []


def largest(folder):
    """Return the size of the largest file; a temporary one may get its name while this looks."""
    sizes = [0]
    for f in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            sizes.append(f.stat().st_size if f.is_file() else 0)
    return max(sizes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name", ["m.gguf", "made"])
def test_interrupted(build, tmp_path, name, number):
    with subprocess.Popen([build / "src/cli/lamina", "synth", "llama-3.1-8b", tmp_path / name], stderr=subprocess.PIPE) as p:
        end = time.time() + PATIENCE
        while largest(tmp_path) <= 1 << 20 and time.time() < end:
            time.sleep(0.02)
        p.send_signal(number)
        assert p.wait(PATIENCE) == 128 + number and p.stderr.read().decode().splitlines()[-1] == "error: interrupted"
    assert list(tmp_path.iterdir()) == []


def test_a_description_of_quantised_weights_makes_a_model_of_floats(lamina, tmp_path):
    path, out = tmp_path / "config.json", tmp_path / "model"
    path.write_text(json.dumps(TINY | {"quantization_config": {"quant_method": "fp8"}}))
    done = lamina("synth", path, out)
    assert done.returncode == 0, done.stderr
    assert "quantization_config" not in json.loads((out / "config.json").read_text())
    assert lamina("run", out, "--ids", "3,4", "-n", 1, "--temp", 0).returncode == 0
