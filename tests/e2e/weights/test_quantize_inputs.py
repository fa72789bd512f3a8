"""lamina quantize of Hugging Face folders and of split files gives the bytes of quantising the file that convert makes."""
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import time

import fastjsonschema
import pytest
from conftest import BARE, PATIENCE, SOURCE, plain_only, run, some
from ggufs import keys_and_tensors

GOLDEN = SOURCE / "tests/golden"
MODELS = {m["case"]: m for m in json.loads((GOLDEN / "models.json").read_text())}
FOLDERS = sorted(c for c in MODELS if MODELS[c]["gguf"] and list((GOLDEN / c).glob("model*.safetensors")))
FILES = [line.split("\t") for line in (GOLDEN / "filetypes/files.tsv").read_text().splitlines()]
WEIGHTED = [f for f in FILES if f[4] != "-"][::3]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


@pytest.mark.parametrize("case", some(FOLDERS))
def test_a_folder_is_its_file(lamina, tmp_path, case):
    """Folders of every family: transposed and joined matrices, rows in another order, norms plus one, tied heads, experts."""
    assert lamina("convert", GOLDEN / case, tmp_path / "c.gguf").returncode == 0
    for kind in ("q8_0", "q4_k_m"):
        two = lamina("quantize", tmp_path / "c.gguf", tmp_path / f"two-{kind}", kind, "--requantize", "-q")
        one = lamina("quantize", GOLDEN / case, tmp_path / f"one-{kind}", kind, "--requantize", "-q")
        assert one.returncode == two.returncode == 0, one.stderr + two.stderr
        assert (tmp_path / f"one-{kind}").read_bytes() == (tmp_path / f"two-{kind}").read_bytes()


@pytest.fixture(scope="module")
def twins(lamina, tmp_path_factory):
    """The source models of llama.cpp's golden files, each as a folder and as a file."""
    made = {}
    for model, kind, *_ in WEIGHTED:
        if model not in made:
            at = tmp_path_factory.mktemp("twins")
            made[model] = at / model, at / f"{model}.gguf"
            for out in made[model]:
                assert lamina("synth", GOLDEN / f"filetypes/{model}.json", out, "--type", kind, "-q").returncode == 0
    return made


def matrices_of(data):
    """Return {name: bytes up to the next tensor} of the tensors that are not f32: norms and routers of a folder are rounded to its type."""
    _, tensors, start = keys_and_tensors(data)
    ends = sorted(at for *_, at in tensors.values()) + [len(data) - start]
    return {name: data[start + at:start + ends[ends.index(at) + 1]] for name, (_, kind, at) in tensors.items() if kind}


@pytest.mark.parametrize("model, kind, source, type_, importance, golden", some(WEIGHTED, step=12),
                         ids=["-".join((f[0], f[3])) for f in some(WEIGHTED, step=12)])
def test_bytes_are_llama_cpps(lamina, twins, tmp_path, model, kind, source, type_, importance, golden):
    folder, file = twins[model]
    for source, out in ((folder, tmp_path / "a"), (file, tmp_path / "b")):
        done = lamina("quantize", source, out, type_, "--imatrix", GOLDEN / "filetypes" / importance)
        assert done.returncode == 0, done.stderr
    ours, theirs = (tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()
    assert hashlib.sha256(theirs[keys_and_tensors(theirs)[2]:]).hexdigest() == golden
    assert matrices_of(ours) == matrices_of(theirs)


@pytest.mark.parametrize("part", [1, 3])
def test_parts(lamina, twins, tmp_path, part):
    """Any part of a split file stands for the whole file; the keys of the split are not copied."""
    folder = twins["grouped-tied"][0]
    assert lamina("convert", folder, tmp_path / "whole.gguf").returncode == 0
    assert lamina("convert", folder, tmp_path / "cut.gguf", "--split-max-tensors", "20").returncode == 0
    parts = sorted(tmp_path.glob("cut-*"))
    assert len(parts) > 3
    for source, out in ((tmp_path / "whole.gguf", "a"), (parts[part - 1], "b")):
        assert lamina("quantize", source, tmp_path / out, "q5_k_m", "-q").returncode == 0
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes() and not any(k.startswith("split.") for k in keys_and_tensors(data)[0])
    before = parts[1].read_bytes()
    one_line(lamina("quantize", parts[0], parts[1], "q8_0", "--force"), 2, "input and output are the same file")
    assert parts[1].read_bytes() == before
    parts[1].unlink()
    one_line(lamina("quantize", parts[0], tmp_path / "c", "q8_0"), 3)
    assert not (tmp_path / "c").exists()


def test_omitted_parts_are_reported(lamina, tmp_path):
    """Layers for multi-token prediction cause the same warning as in convert."""
    folder = tmp_path / "in"
    shutil.copytree(GOLDEN / "llama/gqa", folder)
    file = next(folder.glob("model*.safetensors"))
    data = file.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    end = max(t["data_offsets"][1] for name, t in header.items() if name != "__metadata__")
    header["model.layers.99.eh_proj.weight"] = {"dtype": "F32", "shape": [1, 2], "data_offsets": [end, end + 8]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:] + bytes(8))
    done = lamina("quantize", folder, "q8_0", "--dry-run", "--json")
    document = json.loads(done.stdout)
    fastjsonschema.compile(json.loads((SOURCE / "docs/schema/quantize.schema.json").read_text()))(document)
    assert any("does not use" in w for w in document["warnings"]) and "does not use" in done.stderr


def test_rejections(lamina, tmp_path):
    folder = tmp_path / "in"
    shutil.copytree(GOLDEN / "llama/sharded", folder)
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    before = shard.read_bytes()
    one_line(lamina("quantize", folder, shard, "q8_0", "--force"), 2, "input and output are the same file")
    assert shard.read_bytes() == before
    without = next(c for c in MODELS if not MODELS[c]["gguf"] and list((GOLDEN / c).glob("model*.safetensors"))
                   and lamina("convert", GOLDEN / c, tmp_path / "c.gguf").returncode == 3)
    one_line(lamina("quantize", GOLDEN / without, tmp_path / "o.gguf", "q8_0"), 3)
    shard.write_bytes(before[:-100])
    one_line(lamina("quantize", folder, tmp_path / "o.gguf", "q8_0"), 3, shard.name)
    n = struct.unpack("<Q", before[:8])[0]
    header = json.loads(before[8:8 + n])
    name = next(k for k, t in header.items() if k.endswith("proj.weight"))
    at = 8 + n + header[name]["data_offsets"][0]
    size = {"BF16": 2, "F16": 2, "F32": 4}[header[name]["dtype"]]
    shard.write_bytes(before[:at] + b"\xff" * size + before[at + size:])
    one_line(lamina("quantize", folder, tmp_path / "o.gguf", "q8_0"), 3, "row 0", "not finite")
    assert not (tmp_path / "o.gguf").exists()
    assert not list(tmp_path.glob(".lamina-*"))


# ---- interruption and memory ----

@pytest.fixture(scope="module")
def large(lamina, tmp_path_factory):
    out = tmp_path_factory.mktemp("large") / "in"
    assert lamina("synth", "gpt2", out, "--type", "f16", "-q").returncode == 0
    return out


@pytest.mark.parametrize("sign, status", [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_stopped(lamina, build, large, tmp_path, sign, status):
    made = subprocess.Popen([build / "src/cli/lamina", "quantize", large, tmp_path / "o.gguf", "q3_k_m", "-t", "1"],
                            stderr=subprocess.PIPE, env={**os.environ, **BARE})
    end = time.monotonic() + PATIENCE
    while not any(name.startswith(".lamina-") for name in os.listdir(tmp_path)) and made.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    made.send_signal(sign)
    made.communicate(timeout=PATIENCE)
    assert made.returncode == status and not (tmp_path / "o.gguf").exists()
    done = lamina("quantize", large, tmp_path / "o.gguf", "q8_0")
    assert done.returncode == 0 and [p.name for p in tmp_path.iterdir()] == ["o.gguf"], done.stderr


@plain_only          # sanitizers take memory of their own
def test_memory_is_smaller_than_the_model(build, large, tmp_path):
    """The model has 250 MB of weights; memory of weights that have been read is released."""
    code = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]).returncode; "
            "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = run("python3", "-c", code, build / "src/cli/lamina", "quantize", large, tmp_path / "o.gguf", "q8_0", "-q", "-t", "2",
               env={**os.environ, **BARE})
    status, kilobytes = done.stdout.split()
    assert status == "0" and int(kilobytes) < 200_000, done.stdout + done.stderr
