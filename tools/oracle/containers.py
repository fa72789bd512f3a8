#!/usr/bin/env python3
"""Make tests/golden/formats/: small files written by the gguf and safetensors packages, and what is in them.

FILE.txt lists the content of FILE as the package itself reads it back, one line for each key and tensor:
    key NAME KIND VALUE          KIND: bool uint int float string; strings in hex; `array N` before the elements' own;
                                 names of other letters than [a-zA-Z0-9._] in hex behind an x
    tensor NAME TYPE [SHAPE] SHA-256-OF-ITS-BYTES        shape outermost first

Needs gguf 0.19.0, safetensors 0.8.0, torch 2.13.0, numpy."""
import hashlib
import pathlib
import re
import struct

import gguf
import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file as save_torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "formats"
RNG = np.random.default_rng(20240607)
T = gguf.GGUFValueType


# ---- writing down what is there ----
def value(v):
    if isinstance(v, (bool, np.bool_)):
        return f"bool {int(v)}"
    if isinstance(v, (int, np.integer)):
        return f"uint {v}" if v >= 0 else f"int {v}"
    if isinstance(v, (float, np.floating)):
        return f"float {float(v):.17g}"
    if isinstance(v, str):
        return "string " + (v.encode().hex() or "-")
    return " ".join([f"array {len(v)}"] + [value(x) for x in v])


def plain(name):
    return name if re.fullmatch("[a-zA-Z0-9._]+", name) else "x" + name.encode().hex()


def tensor(name, kind, shape, data):
    dims = ",".join(str(n) for n in shape)
    return f"tensor {plain(name)} {kind} [{dims}] {hashlib.sha256(data).hexdigest()}"


def field_value(field):
    """A field of GGUFReader as Python values, with the sign and kind that the file gives it."""
    kinds = {T.BOOL: bool, T.STRING: lambda p: bytes(p).decode(), T.FLOAT32: float, T.FLOAT64: float}
    if field.types[0] == T.ARRAY:
        read = kinds.get(field.types[-1], int)
        return [read(field.parts[i] if field.types[-1] == T.STRING else field.parts[i][0]) for i in field.data]
    read = kinds.get(field.types[0], int)
    part = field.parts[field.data[0]]
    return read(part if field.types[0] == T.STRING else part[0])


def describe_gguf(path):
    reader = gguf.GGUFReader(path)
    lines = [f"key {plain(name)} {value(field_value(f))}" for name, f in reader.fields.items() if not name.startswith("GGUF.")]
    for t in reader.tensors:
        lines.append(tensor(t.name, t.tensor_type.name.lower(), [int(n) for n in reversed(t.shape)], t.data.tobytes()))
    return lines


def describe_safetensors(path):
    lines, names = [], {}
    with safe_open(path, "pt") as f:
        for key, v in (f.metadata() or {}).items():
            lines.append(f"key {plain(key)} {value(v)}")
        for name in f.keys():
            t = f.get_tensor(name)
            raw = t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
            kind = {"torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
                    "torch.bool": "bool"}.get(str(t.dtype))
            kind = kind or str(t.dtype).replace("torch.", "").replace("uint", "u").replace("int", "i")
            names[name] = tensor(name, kind, t.shape, raw)
    return lines + [names[n] for n in sorted(names)]


# ---- the files ----
def add_everything(w):
    """Every type of value, alone and in arrays, at its limits."""
    w.add_uint8("t.u8", 255)
    w.add_int8("t.i8", -128)
    w.add_uint16("t.u16", 65535)
    w.add_int16("t.i16", -32768)
    w.add_uint32("t.u32", 2**32 - 1)
    w.add_int32("t.i32", -2**31)
    w.add_float32("t.f32", 1e-45)
    w.add_bool("t.true", True)
    w.add_bool("t.false", False)
    w.add_string("t.string", "naïve 🦙\n\ttext")
    w.add_key_value("t.empty", "", T.STRING)
    w.add_uint64("t.u64", 2**64 - 1)
    w.add_int64("t.i64", -2**63)
    w.add_int64("t.i64.positive", 2**53 + 1)
    w.add_float64("t.f64", -1.7976931348623157e308)
    for kind, low, high in ((T.UINT8, 0, 255), (T.INT8, -128, 127), (T.UINT16, 0, 65535), (T.INT16, -32768, 32767),
                            (T.UINT32, 0, 2**32 - 1), (T.INT32, -2**31, 2**31 - 1), (T.UINT64, 0, 2**64 - 1),
                            (T.INT64, -2**63, 2**63 - 1)):
        w.add_key_value(f"a.{kind.name.lower()}", [low, high, 1, low + 1], T.ARRAY, sub_type=kind)
    w.add_key_value("a.float32", [0.5, -1.5, 3.4028234663852886e38], T.ARRAY, sub_type=T.FLOAT32)
    w.add_key_value("a.float64", [0.1, 1e308], T.ARRAY, sub_type=T.FLOAT64)
    w.add_key_value("a.bool", [True, False, True], T.ARRAY, sub_type=T.BOOL)
    # past two strides of the reader's index of strings, with empty ones
    w.add_array("a.strings", [("word %d " % i) * (i % 4) for i in range(50)])


def tensors():
    """Every shape of directory entry; quantised ones as raw blocks."""
    yield "f32.one", RNG.standard_normal(7).astype(np.float32), None
    yield "f32.two", RNG.standard_normal((3, 5)).astype(np.float32), None
    yield "f32.three", RNG.standard_normal((2, 3, 4)).astype(np.float32), None
    yield "f32.four", RNG.standard_normal((2, 1, 3, 2)).astype(np.float32), None
    yield "f16", RNG.standard_normal((4, 6)).astype(np.float16), None
    yield "f64", RNG.standard_normal((2, 3)), None
    for n in (8, 16, 32, 64):
        yield f"i{n}", RNG.integers(-100, 100, (3, 3)).astype(f"int{n}"), None
    for name, kind in (("q4_0", "Q4_0"), ("q8_0", "Q8_0"), ("q6_k", "Q6_K"), ("bf16", "BF16")):
        q = getattr(gguf.GGMLQuantizationType, kind)
        block, size = gguf.GGML_QUANT_SIZES[q]
        yield name, RNG.integers(0, 256, (2, 256 // block * size)).astype(np.uint8), q


def write_gguf(path, **options):
    w = gguf.GGUFWriter(path, "llama", **options)
    w.add_name("everything that GGUF has")
    add_everything(w)
    for name, data, kind in tensors():
        w.add_tensor(name, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def put(name, lines):
    (OUT / f"{name}.txt").write_text("\n".join(lines) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()

    write_gguf(OUT / "everything.gguf")
    put("everything.gguf", describe_gguf(OUT / "everything.gguf"))

    # version 2 differs in its number only
    data = bytearray((OUT / "everything.gguf").read_bytes())
    data[4:8] = struct.pack("<I", 2)
    (OUT / "version-2.gguf").write_bytes(data)
    put("version-2.gguf", describe_gguf(OUT / "version-2.gguf"))

    w = gguf.GGUFWriter(OUT / "alignment.gguf", "llama")
    w.add_custom_alignment(256)
    w.add_tensor("a", np.arange(3, dtype=np.float32))
    w.add_tensor("b", np.arange(5, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    put("alignment.gguf", describe_gguf(OUT / "alignment.gguf"))

    w = gguf.GGUFWriter(OUT / "split.gguf", "llama", split_max_tensors=2)
    w.add_name("in three parts")
    for i in range(5):
        w.add_tensor(f"t{i}", np.arange(i + 1, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    parts = sorted(OUT.glob("split-*.gguf"))
    lines = [describe_gguf(p) for p in parts]
    put("split.gguf", [x for x in lines[0] if x.startswith("key")] + [x for p in lines for x in p if x.startswith("tensor")])

    save_numpy({
        "f64": RNG.standard_normal((2, 2)), "f32": RNG.standard_normal((2, 3)).astype(np.float32),
        "f16": RNG.standard_normal(3).astype(np.float16), "i64": np.array([2**63 - 1, -2**63]),
        "i32": np.array([[1], [-1]], dtype=np.int32), "i16": np.array([1, 2, -3], dtype=np.int16),
        "i8": np.array([-128, 127, 0], dtype=np.int8), "u8": np.array([255], dtype=np.uint8),
        "bool": np.array([True, False, True]), "scalar": np.array(1.5, dtype=np.float32),
        "nothing": np.zeros((3, 0, 2), dtype=np.float32), "eight": np.ones((1, 2, 1, 1, 2, 1, 1, 1), dtype=np.float32),
        'naïve "🦙"\\x': np.array([1], dtype=np.int8),
    }, OUT / "everything.safetensors", metadata={"né\n\"x\"": "ü🦙"})
    put("everything.safetensors", describe_safetensors(OUT / "everything.safetensors"))

    save_torch({"bf16": torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16),
                "u16": torch.tensor([65535], dtype=torch.uint16), "u32": torch.tensor([2**32 - 1], dtype=torch.uint32),
                "u64": torch.tensor([2**63], dtype=torch.uint64)}, OUT / "torch.safetensors")
    put("torch.safetensors", describe_safetensors(OUT / "torch.safetensors"))

    for path in OUT.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    main()
