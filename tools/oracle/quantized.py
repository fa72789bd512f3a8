#!/usr/bin/env python3
"""quantized.py: hashes of whole files by llama.cpp's quantiser.

    tools/oracle/quantized.py LAMINA >tests/golden/filetypes/files.tsv

llama.cpp quantises the models of tests/golden/filetypes/*.json, made by `lamina synth`: without importance, and some with the importance
that this script writes next to the goldens, in llama-imatrix's GGUF format or its older one. A line: model, type of the source, its
SHA-256, file type, importance ("-" or a file), SHA-256 of the file (with importance, of its tensors' data: llama-quantize, not the
library, writes the keys about it).
"""
import ctypes
import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/filetypes"
NAMES = ["F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K_L",
         "Q3_K_M", "Q3_K_S", "Q2_K", "TQ2_0", "TQ1_0"]
SOURCES = {"grouped-tied": "bf16", "odd-widths": "f32", "four-experts": "f16", "fused": "f32", "parallel": "bf16"}
WEIGHTED = {"grouped-tied": "grouped-tied.imatrix.dat", "four-experts": "four-experts.imatrix.gguf"}
CHUNKS = 7


def importance(source):
    """Return {name: invented mean squares of the tensor's inputs [matrices, inputs], as float32}."""
    out = {}
    for k, tensor in enumerate(gguf.GGUFReader(source).tensors):
        if len(tensor.shape) > 1 and tensor.name not in ("token_embd.weight", "position_embd.weight") and "gate_inp" not in tensor.name:
            cols, matrices = int(tensor.shape[0]), int(tensor.shape[2]) if len(tensor.shape) > 2 else 1
            i = np.arange(matrices * cols).reshape(matrices, cols)
            out[tensor.name] = (((i * 7919 + k * 31) % 97) ** 2 / 64).astype(np.float32)
    return out


def write_older(values, path):
    data = struct.pack("<i", len(values))
    for name, v in values.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", CHUNKS, v.size) + (v * np.float32(CHUNKS)).tobytes()
    text = b"even.txt"
    path.write_bytes(data + struct.pack("<ii", CHUNKS, len(text)) + text)


def write_gguf(values, path):
    out = gguf.GGUFWriter(path, arch="imatrix")
    del out.kv_data[0]["general.architecture"]
    out.add_type("imatrix")
    out.add_array("imatrix.datasets", ["even.txt"])
    out.add_uint32("imatrix.chunk_count", CHUNKS)
    out.add_uint32("imatrix.chunk_size", 512)
    for name, v in values.items():
        out.add_tensor(name + ".in_sum2", v * np.float32(CHUNKS * 512))
        out.add_tensor(name + ".counts", np.full((v.shape[0], 1), CHUNKS * 512, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def quantise(source, target, name, values):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    params.nthread = 2
    if values:
        rows = [llama_cpp.llama_model_imatrix_data(n.encode(), v.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), v.size)
                for n, v in values.items()]
        params.imatrix = (llama_cpp.llama_model_imatrix_data * (len(rows) + 1))(*rows)
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        sys.exit(f"error: quantized: {source.name} as {name}")
    return target.read_bytes()[gguf.GGUFReader(target).data_offset if values else 0:]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def main():
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    with tempfile.TemporaryDirectory() as folder:
        for model, kind in SOURCES.items():
            source, target = pathlib.Path(folder, model + ".gguf"), pathlib.Path(folder, "out.gguf")
            subprocess.run([sys.argv[1], "synth", str(GOLDEN / f"{model}.json"), str(source), "--type", kind, "-q"], check=True)
            for name in NAMES:
                print(model, kind, digest(source.read_bytes()), name.lower(), "-", digest(quantise(source, target, name, None)), sep="\t")
            if model not in WEIGHTED:
                continue
            values, path = importance(source), GOLDEN / WEIGHTED[model]
            (write_older if path.suffix == ".dat" else write_gguf)(values, path)
            for name in NAMES[2:]:
                print(model, kind, digest(source.read_bytes()), name.lower(), path.name, digest(quantise(source, target, name, values)), sep="\t")


main()
