"""Values that the type of their tensor cannot hold, as F16 or as a block with an F16 scale: rejected by number and name, or limited with --clamp.
llama.cpp#13722."""
import json
import math
import shutil
import struct

import pytest
from conftest import SOURCE, run
from ggufs import keys_and_tensors

FOLDER = SOURCE / "tests/golden/llama/gqa"
NAME, WRITTEN = "model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args)


def with_values(folder, values, out):
    """Copy a folder, with these numbers at the beginning of one matrix."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("golden*", "*.gguf"))
    file = out / "model.safetensors"
    data = bytearray(file.read_bytes())
    n = struct.unpack("<Q", data[:8])[0]
    t = json.loads(data[8:8 + n])[NAME]
    at = 8 + n + t["data_offsets"][0]
    if t["dtype"] == "BF16":
        raw = b"".join(struct.pack("<f", v)[2:] for v in values)
    else:
        assert t["dtype"] == "F32"
        raw = struct.pack(f"<{len(values)}f", *values)
    data[at:at + len(raw)] = raw
    file.write_bytes(data)
    return out


def rejected(done, *words):
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 3 and len(errors) == 1 and all(w in errors[0] for w in words), done.stderr
    assert "--clamp" in done.stderr


def halves(path, tensor):
    data = path.read_bytes()
    _, tensors, start = keys_and_tensors(data)
    dims, kind, offset = tensors[tensor]
    assert kind == 1
    return struct.unpack_from(f"<{math.prod(dims)}e", data, start + offset)


def test_merging(lamina, tmp_path):
    adapter = SOURCE / "tests/golden/adapters/llama"
    folder = with_values(FOLDER, [300000.0, 1.0], tmp_path / "f")
    assert lamina("merge", folder, adapter, tmp_path / "f32").returncode == 0
    rejected(lamina("merge", folder, adapter, tmp_path / "f16", "--type", "f16"), NAME, "1 value of up to 3e+05 does not fit f16")
    assert not (tmp_path / "f16").exists()
    done = lamina("merge", folder, adapter, tmp_path / "f16", "--type", "f16", "--clamp", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["warnings"] == [f"{NAME}: 1 value of up to 3e+05 limited to 65504, which f16 holds"], done.stderr


LARGE = [300000.0, -65536.0, 1.0, 65504.0]


def test_f16_holds_what_it_can_or_says_so(lamina, tmp_path):
    folder = with_values(FOLDER, LARGE, tmp_path / "f")
    rejected(lamina("convert", folder, tmp_path / "o.gguf", "--type", "f16"), WRITTEN, "2 values of up to 3", "do not fit f16")
    assert not (tmp_path / "o.gguf").exists()
    done = lamina("convert", folder, tmp_path / "o.gguf", "--type", "f16", "--clamp")
    assert done.returncode == 0 and f"warning: {WRITTEN}: 2 values of up to 3e+05 limited to 65504" in done.stderr, done.stderr
    assert halves(tmp_path / "o.gguf", WRITTEN)[:4] == (65504.0, -65504.0, 1.0, 65504.0)
    for kind in ("bf16", "f32", "q8_0"):                                       # the scale of a block of Q8_0 is its largest value / 127
        assert lamina("convert", folder, tmp_path / f"{kind}.gguf", "--type", kind).returncode == 0
    rejected(lamina("convert", tmp_path / "f32.gguf", tmp_path / "p.gguf", "--type", "f16"), WRITTEN, "2 values")
    rejected(lamina("convert", tmp_path / "f32.gguf", tmp_path / "back", "--type", "f16"), NAME, "2 values")
    assert not (tmp_path / "back").exists() and not (tmp_path / "p.gguf").exists()
    rejected(lamina("quantize", tmp_path / "f32.gguf", tmp_path / "p.gguf", "f16"), WRITTEN, "2 values")


@pytest.mark.parametrize("kind,value", [("q4_0", 1e6), ("q4_1", 2e6), ("q5_0", 2e6), ("q5_1", 3e6), ("q8_0", 1e7), ("iq4_nl", 1e7)])
def test_scales_of_blocks(lamina, tmp_path, kind, value):
    """A block whose scale F16 cannot hold loses all its values; the same block at a quarter of the size fits."""
    folder = with_values(FOLDER, [value, 0.5 * value, -value], tmp_path / "f")
    rejected(lamina("quantize", folder, tmp_path / "o.gguf", kind, "--pure"), WRITTEN, f"do not fit {kind}, whose scales are f16")
    assert not (tmp_path / "o.gguf").exists()
    done = lamina("quantize", folder, tmp_path / "o.gguf", kind, "--pure", "--clamp")
    assert done.returncode == 0 and f"warning: {WRITTEN}" in done.stderr, done.stderr
    small = with_values(FOLDER, [60000.0, 30000.0, -60000.0], tmp_path / "small")
    done = lamina("quantize", small, tmp_path / "s.gguf", kind, "--pure")
    assert done.returncode == 0 and WRITTEN not in done.stderr, done.stderr


def test_widening_says_its_size_before_it_begins(lamina, tmp_path):
    """Quantised weights in float32 take eight times the disk and gain nothing."""
    assert lamina("quantize", FOLDER, tmp_path / "q.gguf", "q8_0").returncode == 0
    for out in (tmp_path / "w.gguf", tmp_path / "folder"):
        done = lamina("convert", tmp_path / "q.gguf", out, "--type", "f32")
        assert done.returncode == 0 and "tensors are quantised and get larger types, which adds no precision: the output has " in done.stderr, done.stderr
    assert "quantised" not in lamina("convert", tmp_path / "q.gguf", tmp_path / "same.gguf").stderr
