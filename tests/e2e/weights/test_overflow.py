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


def stored(path, tensor):
    """The type of a tensor of a GGUF file, and its first values if they are bf16 or f32."""
    data = path.read_bytes()
    _, tensors, start = keys_and_tensors(data)
    dims, kind, offset = tensors[tensor]
    at = start + offset
    if kind == 30:
        return "bf16", [struct.unpack("<f", b"\0\0" + data[at + 2 * i:at + 2 * i + 2])[0] for i in range(4)]
    return {0: "f32"}.get(kind, kind), struct.unpack_from("<4f", data, at)


@pytest.mark.parametrize("kind, value, wider", [("q4_0", 1e6, "bf16"), ("q4_k_m", 1e9, "bf16"), ("q8_0", 1e7, "bf16"), ("iq4_nl", 1e7, "bf16"),
                                                ("q4_0", 3.4e38, "f32")])
def test_a_mixture_gives_a_tensor_another_type(lamina, tmp_path, kind, value, wider):
    """The types of a mixture are lamina's choice: a tensor whose values do not fit becomes bf16, or f32 beyond that."""
    folder = with_values(FOLDER, [value, 0.5 * value, -value, 1.0], tmp_path / "f")
    done = lamina("quantize", folder, tmp_path / "o.gguf", kind)
    notes = [line for line in done.stderr.splitlines() if WRITTEN in line]
    assert done.returncode == 0 and len(notes) == 1 and notes[0].endswith(f": stored as {wider}"), done.stderr
    got, values = stored(tmp_path / "o.gguf", WRITTEN)
    assert got == wider and values == pytest.approx([value, 0.5 * value, -value, 1.0], rel=2 ** -8)
    others = keys_and_tensors((tmp_path / "o.gguf").read_bytes())[1]
    assert others["blk.0.ffn_gate.weight"][1] not in (0, 1, 30), "only this tensor changes"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "o.gguf"]
    rejected(lamina("quantize", folder, tmp_path / "n.gguf", kind, "--keep", f"{WRITTEN}=f16"), WRITTEN)
    parts = lamina("quantize", folder, tmp_path / "p.gguf", kind, "--split-max-tensors", "8")
    assert parts.returncode == 0, parts.stderr
    shown = lamina("inspect", tmp_path / "p-00001-of-00003.gguf", "--tensors").stdout
    assert [line for line in shown.splitlines() if WRITTEN in line and wider in line], shown


def test_a_fallback_to_f16_is_not_named_either(lamina, tmp_path):
    """Rows that are no whole number of blocks get f16 by themselves."""
    config = json.loads((FOLDER / "config.json").read_text())
    config |= {"hidden_size": 40, "intermediate_size": 64, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 8}
    (tmp_path / "c").mkdir()
    (tmp_path / "c/config.json").write_text(json.dumps(config))
    assert lamina("synth", tmp_path / "c", tmp_path / "s", "--type", "f32").returncode == 0
    folder = with_values(tmp_path / "s", LARGE, tmp_path / "f")
    for command in (("convert", "--type", "q8_0"), ("quantize", "q4_k_m")):
        out = tmp_path / f"{command[0]}.gguf"
        done = lamina(command[0], folder, out, *command[1:])
        notes = [line for line in done.stderr.splitlines() if WRITTEN in line and "stored as bf16" in line]
        assert done.returncode == 0 and len(notes) == 1, done.stderr
        assert stored(out, WRITTEN) == ("bf16", [299008.0, -65536.0, 1.0, 65536.0])      # 300000 and 65504 to 8 bits
    done = lamina("convert", folder, tmp_path / "16.gguf", "--type", "f16")
    rejected(done, WRITTEN, "2 values")


def test_merging_into_the_stored_type(lamina, tmp_path):
    """Without --type, a tensor that is stored in f16 and whose sum exceeds it becomes bf16."""
    adapter = SOURCE / "tests/golden/adapters/llama"
    assert lamina("convert", FOLDER, tmp_path / "a.gguf", "--type", "f16").returncode == 0
    assert lamina("convert", tmp_path / "a.gguf", tmp_path / "f16").returncode == 0
    done = lamina("merge", tmp_path / "f16", f"{adapter}:1e6", tmp_path / "m")
    assert done.returncode == 0 and "stored as bf16" in done.stderr, done.stderr
    again = lamina("merge", tmp_path / "f16", f"{adapter}:1e6", tmp_path / "n", "--type", "f16")
    rejected(again, "not fit f16")
    assert not (tmp_path / "n").exists()
    data = (tmp_path / "m/model.safetensors").read_bytes()
    types = {k: v["dtype"] for k, v in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]).items() if k != "__metadata__"}
    assert set(types.values()) == {"F16", "BF16", "F32"}
    gguf = lamina("merge", tmp_path / "a.gguf", f"{adapter}:1e6", tmp_path / "m.gguf")
    assert gguf.returncode == 0 and gguf.stderr.count("stored as bf16") == list(types.values()).count("BF16"), gguf.stderr


def test_widening_says_its_size_before_it_begins(lamina, tmp_path):
    """Quantised weights in float32 take eight times the disk and gain nothing."""
    assert lamina("quantize", FOLDER, tmp_path / "q.gguf", "q8_0").returncode == 0
    for out in (tmp_path / "w.gguf", tmp_path / "folder"):
        done = lamina("convert", tmp_path / "q.gguf", out, "--type", "f32")
        assert done.returncode == 0 and "tensors are quantised and get larger types, which adds no precision: the output has " in done.stderr, done.stderr
    assert "quantised" not in lamina("convert", tmp_path / "q.gguf", tmp_path / "same.gguf").stderr
