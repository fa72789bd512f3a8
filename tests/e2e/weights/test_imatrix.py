"""lamina imatrix: the sums and counts of llama-imatrix, both of its file formats, merging, resumption, rejected input."""
import json
import os
import re

import pytest
from conftest import BARE, SOURCE, run
from ggufs import floats, keys_and_tensors

GOLDEN = SOURCE / "tests/golden/imatrix"
PERPLEXITY = {"dense": (353.9852, 27.8587), "experts": (400.2764, 26.0784)}      # perplexity, its error: llama-imatrix, same run
EXACT = ["-c", "64", "--compute", "f32", "-ctk", "f32", "-ctv", "f32"]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def made(lamina, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in PERPLEXITY:
        assert lamina("synth", GOLDEN / f"{name}.json", folder / f"{name}.gguf", "--type", "f32", "-q").returncode == 0
    return {name: folder / f"{name}.gguf" for name in PERPLEXITY}


def collected(lamina, model, out, *more):
    done = lamina("imatrix", model, "-f", GOLDEN / "text.txt", "-o", out, *EXACT, *more)
    assert done.returncode == 0, done.stderr
    return floats(out.read_bytes())


def close(a, b, tolerance=1e-5):
    """Assert that corresponding numbers differ by at most `tolerance` times the tensor's mean."""
    assert a.keys() == b.keys()
    for name in a:
        mean = sum(b[name]) / len(b[name])
        assert max(abs(x - y) for x, y in zip(a[name], b[name])) <= tolerance * mean, name


def halves_of(a, b):
    """Assert that a, the sum of two stored halves, equals b, the sum stored whole, up to rounding. Files store float32: adding two stored
    halves and storing the result rounds three times, by half a unit in the last place each; storing the whole sum rounds once.
    With u = 2^-24, the difference is at most (1 + u)^2 / (1 - u) - 1 < 4 u of the value. Counts are whole numbers, hence exact."""
    assert a.keys() == b.keys()
    for name in a:
        assert all(abs(x - y) <= (0 if name.endswith(".counts") else 4 * 2**-24 * y) for x, y in zip(a[name], b[name])), name


# ---- numbers compared with llama-imatrix ----

@pytest.mark.parametrize("name", PERPLEXITY)
def test_sums_and_counts_are_llama_imatrixs(lamina, made, tmp_path, name):
    got = collected(lamina, made[name], tmp_path / "o.gguf", "--process-output")
    golden = (GOLDEN / f"{name}.gguf").read_bytes()
    close(got, floats(golden))
    assert {n: v for n, v in got.items() if n.endswith(".counts")} == {n: v for n, v in floats(golden).items() if n.endswith(".counts")}
    keys, theirs = (keys_and_tensors(d)[0] for d in ((tmp_path / "o.gguf").read_bytes(), golden))
    for key in ("general.type", "imatrix.chunk_count", "imatrix.chunk_size"):
        assert keys[key] == theirs[key]
    assert keys["imatrix.datasets"] == [str(GOLDEN / "text.txt")]


def test_fused_experts_are_one_entry(lamina, tmp_path):
    """Gate and up of the experts are one tensor of the file, and one entry. llama.cpp takes GELU from a table of float16: up to 2e-3 off."""
    model = tmp_path / "fused.gguf"
    assert lamina("quantize", SOURCE / "tests/golden/gemma4/mixture/model.gguf", model, "F32").returncode == 0
    got, golden = collected(lamina, model, tmp_path / "o.gguf", "--process-output"), floats((GOLDEN / "fused.gguf").read_bytes())
    close(got, golden, 2e-3)
    assert {n: v for n, v in got.items() if n.endswith(".counts")} == {n: v for n, v in golden.items() if n.endswith(".counts")}
    assert "blk.1.ffn_gate_up_exps.weight.in_sum2" in got and len(got["blk.1.ffn_gate_up_exps.weight.counts"]) == 6


@pytest.mark.parametrize("name", PERPLEXITY)
def test_perplexity_is_llama_imatrixs(lamina, made, tmp_path, name):
    reply = json.loads(lamina("imatrix", made[name], "-f", GOLDEN / "text.txt", "-o", tmp_path / "o", *EXACT, "--json").stdout)
    assert abs(reply["perplexity"] / PERPLEXITY[name][0] - 1) < 1e-5 and abs(reply["perplexity_error"] / PERPLEXITY[name][1] - 1) < 1e-4


@pytest.mark.parametrize("compute", ["auto", "f32"])
def test_threads_and_steps_change_no_bit(lamina, made, tmp_path, compute):
    first = None
    for i, more in enumerate((["-t", "1"], ["-t", "3"], ["-ub", "7"], ["-ub", "64", "-t", "2"])):
        out = tmp_path / f"{i}.gguf"
        assert lamina("imatrix", made["experts"], "-f", GOLDEN / "text.txt", "-o", out, "-c", "64", "--compute", compute, *more).returncode == 0
        first = first or out.read_bytes()
        assert out.read_bytes() == first, more


def test_the_head_only_on_request(lamina, made, tmp_path):
    assert not any(n.startswith("output") for n in collected(lamina, made["dense"], tmp_path / "a"))
    assert any(n.startswith("output") for n in collected(lamina, made["dense"], tmp_path / "b", "--process-output"))


# ---- files ----

def test_parts_are_merged_and_resumed(lamina, made, tmp_path):
    whole = collected(lamina, made["experts"], tmp_path / "whole")
    n = keys_and_tensors((tmp_path / "whole").read_bytes())[0]["imatrix.chunk_count"]
    collected(lamina, made["experts"], tmp_path / "first", "--chunks", "2")
    collected(lamina, made["experts"], tmp_path / "second", "--chunk", "2")
    assert lamina("imatrix", "--in-file", tmp_path / "first", "--in-file", tmp_path / "second", "-o", tmp_path / "both").returncode == 0
    halves_of(floats((tmp_path / "both").read_bytes()), whole)
    halves_of(collected(lamina, made["experts"], tmp_path / "first", "--resume"), whole)
    for name in ("both", "first"):
        assert keys_and_tensors((tmp_path / name).read_bytes())[0]["imatrix.chunk_count"] == n
    done = lamina("imatrix", made["experts"], "-f", GOLDEN / "text.txt", "-o", tmp_path / "first", *EXACT, "--resume")
    assert done.returncode == 2 and f"chunk {n} of {n}" in done.stderr


def test_the_older_form_gives_the_same(lamina, made, tmp_path):
    close_to = collected(lamina, made["dense"], tmp_path / "new")
    assert lamina("imatrix", made["dense"], "-f", GOLDEN / "text.txt", "-o", tmp_path / "old", "--output-format", "dat", *EXACT).returncode == 0
    assert lamina("imatrix", "--in-file", tmp_path / "old", "-o", tmp_path / "again").returncode == 0
    again = floats((tmp_path / "again").read_bytes())
    for name in close_to:
        if name.endswith(".in_sum2"):
            rows, others = (f[name.replace(".in_sum2", ".counts")][0] for f in (close_to, again))
            assert all(abs(x / rows - y / others) <= 1e-6 * x / rows for x, y in zip(close_to[name], again[name]))
    out = [lamina("quantize", made["dense"], tmp_path / f"{form}.gguf", "q4_0", "--imatrix", tmp_path / form).returncode for form in ("new", "old")]
    assert out == [0, 0]


def test_llama_imatrixs_file_is_read(lamina, tmp_path):
    """Reading llama-imatrix's file and writing it again changes no number."""
    assert lamina("imatrix", "--in-file", GOLDEN / "experts.gguf", "-o", tmp_path / "o").returncode == 0
    assert floats((tmp_path / "o").read_bytes()) == floats((GOLDEN / "experts.gguf").read_bytes())


def test_statistics(lamina):
    done = lamina("imatrix", "--in-file", GOLDEN / "dense.gguf", "--show-statistics")
    head, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and len(rows) == 15 and head.split()[:3] == ["tensor", "inputs", "mean"]
    sums, counts = (floats((GOLDEN / "dense.gguf").read_bytes())["blk.1.ffn_up.weight." + part] for part in ("in_sum2", "counts"))
    row = next(r.split() for r in rows if r.startswith("blk.1.ffn_up.weight"))
    means = [x / counts[0] for x in sums]
    assert row[1] == "64" and float(row[2]) == pytest.approx(sum(means) / 64, rel=1e-3) and float(row[5]) == pytest.approx(max(means), rel=1e-3)
    assert 0 < float(row[-1]) <= 1 and next(r for r in rows if r.startswith("blk.0.ffn_up")).split()[-1] == "-"


def test_experts_with_few_tokens_are_reported(lamina, made, tmp_path):
    done = lamina("imatrix", made["experts"], "-f", GOLDEN / "text.txt", "-o", tmp_path / "o", "-c", "64", "--chunks", "1")
    assert re.search(r"warning: \d+ of 24 experts' matrices were read by fewer than 64 tokens", done.stderr)


# ---- rejected input ----

def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


def test_rejections(lamina, made, tmp_path):
    model, text, out = made["dense"], GOLDEN / "text.txt", tmp_path / "o"
    one_line(lamina("imatrix"), 2, "requires a model and --file, or --in-file")
    one_line(lamina("imatrix", model, "-o", out), 2, "requires --file")
    one_line(lamina("imatrix", model, "-f", text), 2, "requires --output or --show-statistics")
    one_line(lamina("imatrix", "--in-file", GOLDEN / "dense.gguf", "-f", text, "-o", out), 2, "--file: requires a model")
    one_line(lamina("imatrix", model, "-f", text, "-o", out, "-c", "200000"), 2, "200000")
    one_line(lamina("imatrix", model, "-f", text, "-o", out), 2, "text", "a chunk is 512")
    one_line(lamina("imatrix", model, "-f", tmp_path / "none", "-o", out, "-c", "64"), 1, "none")
    one_line(lamina("imatrix", model, "-f", text, "-o", out, "-c", "64", "--chunk", "99"), 2, "chunk 99 of")
    one_line(lamina("imatrix", "--in-file", text, "-o", out), 3, "text.txt")
    one_line(lamina("imatrix", "--in-file", GOLDEN / "dense.gguf", "--in-file", GOLDEN / "experts.gguf", "--in-file", model, "-o", out), 3, "dense.gguf",
             "not an importance matrix")
    assert not list(tmp_path.iterdir())
    out.write_text("mine")
    one_line(lamina("imatrix", model, "-f", text, "-o", out, *EXACT), 2, "already exists")
    one_line(lamina("imatrix", model, "-f", text, "-o", out, *EXACT, "--resume"), 3, str(out))
    assert out.read_text() == "mine"
    assert lamina("imatrix", model, "-f", text, "-o", out, *EXACT, "--force").returncode == 0
