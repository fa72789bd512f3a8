#!/usr/bin/env python3
"""filetypes.py: the type that llama.cpp's quantiser chooses for every tensor, per name of a file type.

    tools/oracle/filetypes.py LAMINA >tests/golden/filetypes/types.tsv

llama.cpp quantises the small models of tests/golden/filetypes/*.json, made by `lamina synth --type f16` (the choice depends on names,
shapes and counts, not on weights). A line: model, file type, types in the order of the tensors' names as runs ("3*f32 q6_k").
"""
import ctypes
import itertools
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_cpp

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q3_K_L",
         "Q3_K_M", "Q3_K_S", "Q2_K"]


def runs(types):
    for name, group in itertools.groupby(types):
        n = len(list(group))
        yield f"{n}*{name}" if n > 1 else name


def quantise(source, target, name):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    params.nthread = 2
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if status:
        sys.exit(f"error: filetypes: {source.name} as {name}: {status}")
    tensors = gguf.GGUFReader(target).tensors
    return [t.tensor_type.name.lower() for t in sorted(tensors, key=lambda t: t.name)]


def main():
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    with tempfile.TemporaryDirectory() as folder:
        for config in sorted((ROOT / "tests/golden/filetypes").glob("*.json")):
            source, target = pathlib.Path(folder, config.stem + ".gguf"), pathlib.Path(folder, "out.gguf")
            subprocess.run([sys.argv[1], "synth", str(config), str(source), "--type", "f16", "-q"], check=True)
            for name in NAMES:
                print(config.stem, name.lower(), " ".join(runs(quantise(source, target, name))), sep="\t")


main()
