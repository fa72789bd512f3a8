#!/usr/bin/env python3
"""filetypes.py: the type that llama.cpp's quantiser chooses for every tensor, per name of a file type.

    tools/oracle/filetypes.py LAMINA >tests/golden/filetypes/types.tsv
    tools/oracle/filetypes.py LAMINA --weighted >tests/golden/filetypes/weighted.tsv

llama.cpp quantises the small models of tests/golden/filetypes/*.json, made by `lamina synth --type f16` (the choice depends on names,
shapes and counts, not on weights). A line: model, file type, types in the order of the tensors' names as runs ("3*f32 q6_k"). With
--weighted every matrix has importance, which some types require and on which some choices depend.
"""
import ctypes
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q3_K_L",
         "Q3_K_M", "Q3_K_S", "Q2_K", "IQ3_M", "IQ3_S", "TQ2_0", "TQ1_0"]
WEIGHTED = ["Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "Q4_0", "Q5_0", "IQ4_XS"]
LOG = []


def runs(types):
    for name, group in itertools.groupby(types):
        n = len(list(group))
        yield f"{n}*{name}" if n > 1 else name


def importance(source, params):
    """Give every matrix importance of ones; return what must outlive the call."""
    rows, kept = [], []
    for tensor in gguf.GGUFReader(source).tensors:
        if len(tensor.shape) > 1 and tensor.name not in ("token_embd.weight", "position_embd.weight"):
            ones = np.ones(int(tensor.shape[0]) * (int(tensor.shape[2]) if len(tensor.shape) > 2 else 1), np.float32)
            kept.append(ones)
            rows.append(llama_cpp.llama_model_imatrix_data(tensor.name.encode(), ones.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ones.size))
    params.imatrix = (llama_cpp.llama_model_imatrix_data * (len(rows) + 1))(*rows)
    return kept


def quantise(source, target, name, weighted):
    """Return the types in the order of the tensors' names, from the log of a dry run: it needs none of the tables of the codebooks."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    params.dry_run = True
    kept = importance(source, params) if weighted else None
    LOG.clear()
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if status:
        sys.exit(f"error: filetypes: {source.name} as {name}: {status}")
    del kept
    found = re.findall(r"\] (\S+) +- \[[^]]*\], type = +(\w+), size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?", "".join(LOG))
    return [(new or old).lower() for _, old, new in sorted(found)]


def main():
    keep = llama_cpp.llama_log_callback(lambda level, text, data: LOG.append(text.decode()))
    llama_cpp.llama_log_set(keep, ctypes.c_void_p(0))
    weighted = "--weighted" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        for config in sorted((ROOT / "tests/golden/filetypes").glob("*.json")):
            source, target = pathlib.Path(folder, config.stem + ".gguf"), pathlib.Path(folder, "out.gguf")
            subprocess.run([sys.argv[1], "synth", str(config), str(source), "--type", "f16", "-q"], check=True)
            for name in WEIGHTED if weighted else NAMES:
                print(config.stem, name.lower(), " ".join(runs(quantise(source, target, name, weighted))), sep="\t")


main()
