"""Sources of models: configs from pipes and under any name, both caches. Units of sizes, devices by word, two models compared on a text."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import PATIENCE, run

IDS = "36,105,101,22,29,39,49,87,19,105,82,56"


@pytest.fixture(scope="module")
def lamina(build, limits):
    return build / "src/cli/lamina"


@pytest.fixture(scope="module")
def config(lamina):
    return run(lamina, "inspect", "llama-3.2-1b", "--query", "config").stdout


def fed(lamina, text, *command):
    return subprocess.run([lamina, *command], input=text, capture_output=True, text=True, timeout=PATIENCE)


# ---- configs ----
@pytest.mark.parametrize("command", [["inspect", "-"], ["fit", "-", "--ram", "16G"], ["estimate", "-"],
                                     ["report", "-", "--format", "txt"], ["compare", "-", "gpt2"]])
def test_a_config_from_standard_input(lamina, config, command):
    done = fed(lamina, config, *command)
    assert done.returncode == 0 and "standard input" in done.stdout and done.stdout.count("\n") > 5, done.stderr


def test_a_config_from_a_pipe_under_any_name_and_with_a_mark(lamina, config, tmp_path):
    total = fed(lamina, config, "inspect", "-", "--query", "parameters.total").stdout
    assert total == run(lamina, "inspect", "llama-3.2-1b", "--query", "parameters.total").stdout
    done = run("bash", "-c", '"$0" inspect <(printf "%s" "$1") --query parameters.total', lamina, config)
    assert (done.stdout, done.returncode) == (total, 0), done.stderr
    for name, text in (("config.txt", config), ("config", "\n \t" + config), ("marked.json", "\ufeff" + config), ("marked", "\ufeff" + config)):
        (tmp_path / name).write_text(text)
        done = run(lamina, "inspect", tmp_path / name, "--query", "parameters.total")
        assert (done.stdout, done.returncode) == (total, 0), (name, done.stderr)
        assert run(lamina, "fit", tmp_path / name, "--ram", "16G").returncode == 0


def test_synth_reads_them_too(lamina, config, tmp_path):
    small = json.dumps(json.loads(config) | {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64, "vocab_size": 128,
                                             "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "bos_token_id": 1, "eos_token_id": 2})
    out = tmp_path / "model.gguf"
    done = fed(lamina, "\ufeff" + small, "synth", "-", out)
    assert done.returncode == 0 and out.exists(), done.stderr
    assert run(lamina, "inspect", out, "--query", "model.name").stdout == "standard input\n"


@pytest.mark.parametrize("text, shows", [("{", "error: standard input: "), ("", "error: standard input: "), ("hello", "error: standard input: "),
                                        ('{"a": 1}', "error: "), ("\ufeff\ufeff{}", "error: standard input: ")])
def test_an_invalid_config_is_one_line(lamina, text, shows):
    done = fed(lamina, text, "inspect", "-")
    errors = [x for x in done.stderr.splitlines() if not x.startswith("hint: ")]
    assert done.returncode == 3 and done.stdout == "" and len(errors) == 1 and errors[0].startswith(shows), done.stderr


def test_endless_generation_ends(lamina):
    done = run(lamina, "inspect", "/dev/zero")
    assert done.returncode == 3 and "more than 4194304 bytes" in done.stderr


def test_a_config_cannot_be_run_whatever_its_name(lamina, config, tmp_path):
    (tmp_path / "config.txt").write_text(config)
    done = run(lamina, "run", tmp_path / "config.txt", "-p", "hi")
    assert done.returncode == 2 and "has no weights" in done.stderr.splitlines()[-1]
    done = fed(lamina, config, "run", "-", "-p", "hi")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith("is not a regular file")


# ---- caches ----
@pytest.fixture
def caches(tmp_path, source):
    """An environment with lamina's cache and a Hugging Face cache, each with golden models."""
    tiny = source / "tests/golden/llama/gqa"
    own, hub = tmp_path / "own", tmp_path / "hub"
    (own / "models").mkdir(parents=True)
    shutil.copy(tiny / "model.gguf", own / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    commit = "0" * 39 + "1"
    for repository, files in (("org--folder", ["config.json", "model.safetensors"]), ("org--many", ["a-Q8_0.gguf", "a-Q4_0.gguf"]), ("org--one", ["x.gguf"])):
        snapshot = hub / f"models--{repository}" / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (hub / f"models--{repository}" / "refs").mkdir()
        (hub / f"models--{repository}" / "refs/main").write_text(commit)
        for name in files:
            shutil.copy(tiny / (name if name in ("config.json", "model.safetensors") else "model.gguf"), snapshot / name)
    (hub / "models--org--broken/refs").mkdir(parents=True)
    return {**os.environ, "LAMINA_CACHE": str(own), "HF_HUB_CACHE": str(hub)}


def test_doctor_lists_both(lamina, limits, caches):
    shutil.copy(limits, caches["LAMINA_CACHE"])
    document = json.loads(run(lamina, "doctor", "--json", env=caches).stdout)["cache"]
    assert [m["name"] for m in document["models"]] == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert [m["name"] for m in document["huggingface"]] == ["org/folder", "org/many:Q4_0", "org/many:Q8_0", "org/one"]
    for m in document["huggingface"]:
        assert m["bytes"] > 1000 and os.path.exists(m["path"])
        assert run(lamina, "inspect", m["name"], "--query", "parameters.total", env=caches).returncode == 0
    page = run(lamina, "doctor", env=caches).stdout
    assert "4 in the Hugging Face cache" in page and "org/many:Q8_0" in page


def test_the_published_name_is_the_local_model(lamina, caches):
    for name in ("HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct:Q4_1", "huggingfacetb/smollm2-135m-instruct"):
        done = run(lamina, "inspect", name, "--query", "config.vocab_size", env=caches)
        assert done.returncode == 0 and "preset" not in done.stderr, (name, done.stderr)
        assert run(lamina, "inspect", name, "--tensors", env=caches).returncode == 0
    done = run(lamina, "inspect", "HuggingFaceTB/SmolLM2-135M", "--query", "parameters.total", env=caches)
    assert done.stdout == "134515008\n" and "the preset" in done.stderr          # another model: the base


def test_limits_in_force(lamina):
    done = run("bash", "-c", 'ulimit -n 100 -l 64 -f 1000000; "$0" doctor --json', lamina)
    document = json.loads(done.stdout)
    assert document["ulimit"] == {"address_space": None, "locked_memory": 65536, "file_size": 1024000000, "open_files": 100}
    assert any("ulimit -f" in w for w in document["warnings"])
    for place in ("cache", "temporary"):
        assert document["disk"][place]["free"] > 0 and document["disk"][place]["path"]
    page = run("bash", "-c", 'ulimit -n 100 -l 64; "$0" doctor', lamina).stdout
    assert "-n open files: 100" in page and "-l locked memory (--mlock): 65.5 kB" in page


# ---- sizes ----
@pytest.mark.parametrize("text, size", [("24G", 24 * 10**9), ("24GB", 24 * 10**9), ("24g", 24 * 10**9), ("24GiB", 24 << 30), ("24Gi", 24 << 30),
                                        ("24 GiB", 24 << 30), ("1.5T", 15 * 10**11), ("512M", 512 * 10**6), ("512MiB", 512 << 20), ("2000000k", 2 * 10**9),
                                        ("24000000000", 24 * 10**9)])
def test_sizes(lamina, text, size):
    for flag in ("--ram", "--vram"):
        document = json.loads(run(lamina, "fit", "gpt2", flag, text, "--json").stdout)
        assert document["machine"]["memory"] == size


@pytest.mark.parametrize("text, hint", [("8", "hint: add a unit: 8G (decimal) or 8GiB (binary)"), ("lots", "hint: use for example 16G"), ("1e9", "hint: use"),
                                        ("0x10G", "hint: use"), ("inf", "hint: use"), ("-1G", "hint: use"), ("", "hint: use"), ("8GiBB", "hint: use"), ("999999", "hint: add a unit")])
def test_invalid_sizes(lamina, text, hint):
    done = run(lamina, "fit", "gpt2", "--ram", text)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[0].startswith(hint) and done.stderr.splitlines()[-1].startswith("error: --ram: "), done.stderr


def test_the_unit_of_a_card_is_reported(lamina):
    assert "a card sold with 24 GB has 24 GiB: --vram 24GiB" in run(lamina, "fit", "gpt2", "--vram", "24G").stderr
    assert run(lamina, "fit", "gpt2", "--vram", "24GiB").stderr == ""
    assert "24GiB" in run(lamina, "fit", "--help").stdout
    assert "(22.4 GiB)" in run(lamina, "fit", "gpt2", "--vram", "24G").stdout


# ---- devices ----
def test_devices_by_word(lamina):
    every = json.loads(run(lamina, "devices", "--json").stdout)
    cards = json.loads(run(lamina, "devices", "rtx", "--json").stdout)
    assert 1 < len(cards) < len(every) and all("rtx" in (d["name"] + d["title"] + d["aliases"]).lower() for d in cards)
    assert all(d in cards for d in every if "rtx" in d["name"])
    page = run(lamina, "devices", "rtx").stdout
    assert f"{len(cards)} devices" in page and all(d["name"] in page for d in cards)
    assert json.loads(run(lamina, "devices", "rtx", "4090", "--json").stdout)["name"] == "rtx-4090"
    assert run(lamina, "devices", "rtx-4090").stdout == run(lamina, "devices", "rtx", "4090").stdout
    phones = json.loads(run(lamina, "devices", "--kind", "phone", "--json").stdout)
    none = run(lamina, "devices", "rtx", "--kind", "phone")
    assert phones and none.returncode == 1 and "no device name contains these words" in none.stderr
    assert "hint: did you mean rtx-4090?" in run(lamina, "devices", "rtx4909").stderr


# ---- two models ----
def two(lamina, source, *flags):
    golden = source / "tests/golden"
    return run(lamina, "verify", golden / "llama/mqa", golden / "llama/biases", "--ids", IDS, *flags)


def test_two_models_on_a_text(lamina, source):
    expected = json.loads((source / "tests/golden/diverge/llama.json").read_text())
    document = json.loads(two(lamina, source, "--json").stdout)
    for key in ("mean_kl", "median_kl", "p90_kl", "p95_kl", "p99_kl", "max_kl", "mean_dp", "rms_dp", "max_dp", "perplexity"):
        assert document[key] == pytest.approx(expected[key], rel=1e-4, abs=1e-5), key
    assert document["base_perplexity"] == pytest.approx(expected["reference_perplexity"], rel=1e-4)
    assert document["max_position"] == expected["max_position"] and document["tokens"] == 11
    assert document["same_top"] == sum(expected["same_top"]) / 11 and document["agrees"] is None
    page = two(lamina, source).stdout
    assert f"mean {expected['mean_kl']:.4g}" in page and "same top token" in page and "Δp" in page


def test_a_verdict_about_two_models(lamina, source, model):
    apart = two(lamina, source, "--kl-max", "1.6", "--json")
    document = json.loads(apart.stdout)
    assert apart.returncode == 5 and document["agrees"] is False and document["error"]["code"] == "differs"
    assert apart.stderr.splitlines()[-1].startswith("error: logits: ") and "1.67" in apart.stderr
    assert two(lamina, source, "--kl-max", "1.7").returncode == 0
    same = run(lamina, "verify", model, model, "-p", "The capital of France is Paris.", "--kl-max", "0", "-c", "4")
    assert same.returncode == 0 and "read 4 at a time" in same.stdout and "verdict          agrees" in same.stdout


def test_two_models_from_a_file(lamina, model, tmp_path):
    (tmp_path / "text").write_text("Water is made of hydrogen and oxygen.\n")
    exact = json.loads(run(lamina, "verify", model, model, "-f", tmp_path / "text", "--json").stdout)
    assert exact["mean_kl"] == 0 and exact["same_top"] == 1
    scored = json.loads(run(lamina, "score", model, "-f", tmp_path / "text", "--compute", "f32", "--kv-type", "f32", "--json").stdout)
    assert exact["tokens"] == scored["scored"] and exact["perplexity"] == pytest.approx(scored["perplexity"], rel=1e-9)


@pytest.mark.parametrize("arguments, shows, status", [
    (["tests/golden/llama/mqa", "tests/golden/llama/head-dim", "--ids", "1,2"], "error: vocabulary: one model has 131 tokens, the other 300", 2),
    (["tests/golden/llama/mqa", "--ids", "1,2"], "error: verify: requires two models", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "--ids", "1"], "error: text: 1 token; two at least", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "--ids", "1,999"], "error: text: token 999 is outside the vocabulary of 131", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "-p", "hi"], "error: verify: neither model has a tokenizer", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "-p", "hi", "-f", "x"], "error: verify: --file, --prompt and --ids cannot be combined", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "--ids", "1,2", "--dump", "x"], "error: --dump: ", 2),
    (["tests/golden/llama/mqa", "tests/golden/llama/biases", "--ids", "1,2", "--tol", "1"], "error: --tol: ", 2),
    (["tests/golden/llama/mqa", "x.safetensors", "-c", "5"], "error: --ctx-size: requires a text", 2),
])
def test_rejections_with_two_models(lamina, source, arguments, shows, status):
    done = run(lamina, "verify", *arguments, cwd=source)
    assert done.returncode == status and done.stdout == "" and done.stderr.splitlines()[-1].startswith(shows), done.stderr


def test_vocabularies_of_one_size_are_compared_token_by_token(lamina, source, tmp_path):
    shutil.copytree(source / "tests/golden/llama/gqa", tmp_path / "other")
    tokenizer = json.loads((tmp_path / "other/tokenizer.json").read_text())
    words = sorted(tokenizer["model"]["vocab"].items(), key=lambda x: x[1])
    (a, i), (b, j) = words[5], words[6]
    tokenizer["model"]["vocab"] |= {a: j, b: i}
    (tmp_path / "other/tokenizer.json").write_text(json.dumps(tokenizer))
    done = run(lamina, "verify", source / "tests/golden/llama/gqa", tmp_path / "other", "--ids", "1,2,3")
    assert done.returncode == 2 and "error: vocabulary: token 5 is " in done.stderr, done.stderr


# ---- tokens ----
def test_tokens_with_their_texts(lamina, model):
    text = "Hi 😀 there\n"
    document = json.loads(run(lamina, "tokenize", model, "-p", text, "--json").stdout)
    assert len(document["ids"]) == len(document["pieces"]) == len(document["texts"]) and "".join(document["texts"]) == text
    assert "😀" in document["texts"]
    lines = run(lamina, "tokenize", model, "-p", text, "--text").stdout.splitlines()
    assert [json.loads(line[line.index('"'):]) for line in lines] == document["texts"]
    assert [line.split()[:2] for line in lines] == [[str(i), p] for i, p in zip(document["ids"], document["pieces"], strict=True)]
    assert run(lamina, "tokenize", model, "-p", text).stdout == "".join(f"{i}  {p}\n" for i, p in zip(document["ids"], document["pieces"], strict=True))
