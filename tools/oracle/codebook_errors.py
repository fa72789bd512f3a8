#!/usr/bin/env python3
"""Make tests/golden/tensor/codebooks.txt: the errors that llama.cpp's quantisers of the codebook types leave, with and without importance.

A line: type, distribution, whether there is importance, FNV-1a-64 of the floats (followed by the importance), and the sum of
importance × error² relative to that of importance × value² (without: importance 1). llama.cpp demands importance for IQ1_S, IQ2_XXS and
IQ2_XS, so without importance they get ones. Numbers are those of searches.py. Needs numpy and llama-cpp-python 0.3.36."""
import pathlib

import numpy as np
import searches
from gguf import quants
from gguf.constants import GGMLQuantizationType

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tensor" / "codebooks.txt"
TYPES = {"iq1_s": (19, 50), "iq1_m": (29, 56), "iq2_xxs": (16, 66), "iq2_xs": (17, 74), "iq2_s": (22, 82), "iq3_xxs": (18, 98), "iq3_s": (21, 110)}
DEMANDED = {"iq1_s", "iq2_xxs", "iq2_xs"}
ROWS, COLS = 16, 1024


def main():
    weights = searches.importance(COLS)
    with open(OUT, "w", encoding="utf-8") as out:
        print("# made by tools/oracle/codebook_errors.py with llama-cpp-python 0.3.36", file=out)
        for label in searches.LABELS:
            x = searches.values(label, ROWS, COLS)
            for name, (number, size) in TYPES.items():
                for given in (False, True):
                    used = weights if given else np.ones(COLS, np.float32)
                    packed = np.zeros(ROWS * COLS // 256 * size, np.uint8)
                    searches.ggml.ggml_quantize_chunk(number, x.ctypes.data, packed.ctypes.data, 0, ROWS, COLS,
                                                      used.ctypes.data if given or name in DEMANDED else None)
                    y = quants.dequantize(packed, GGMLQuantizationType(number)).astype(np.float64)
                    w = np.tile(used.astype(np.float64), ROWS)
                    error = (w * (y - x) ** 2).sum() / (w * x.astype(np.float64) ** 2).sum()
                    print(name, label, int(given), f"{searches.fnv(x.tobytes() + (weights.tobytes() if given else b'')):016x}", f"{error:.6e}",
                          file=out)


main()
