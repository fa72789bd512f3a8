#!/usr/bin/env python3
"""Make tests/golden/tensor/searches.txt: the bytes that llama.cpp's quantisers make, with and without importance.

A line: type, distribution, columns, whether there is importance, FNV-1a-64 of the floats (followed by the importance), FNV-1a-64 of the
packed rows. Needs numpy and llama-cpp-python 0.3.36, whose library for this contains no fused multiply-adds (checked with objdump)."""
import ctypes
import pathlib

import llama_cpp
import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tensor" / "searches.txt"
TYPES = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34),
         "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210),
         "iq4_nl": (20, 32, 18), "iq4_xs": (23, 256, 136)}
LABELS = ["normal", "heavy", "shifted", "uniform", "spiky", "sparse", "tiny"]
SHAPES = [(2, 2304), (5, 256)]       # an odd number of super-blocks; fewer than one search takes at once

ggml = ctypes.CDLL(str(next((pathlib.Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so*"))))
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                     ctypes.c_int64, ctypes.c_void_p]


class Numbers:
    """Random numbers by exact arithmetic: tests/unit/kernels/quantize.c computes the same floats."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 40) / 16777216.0

    def bell(self):
        return np.float32(sum(self.uniform() for _ in range(12)) - 6.0)


def values(label, rows, cols):
    r = Numbers(LABELS.index(label) + 100 * cols)
    f = np.float32
    out = np.zeros(rows * cols, f)
    for i in range(rows * cols):
        b = r.bell()
        out[i] = {"normal": lambda: b, "heavy": lambda: b * b * b * f(0.125), "shifted": lambda: b * f(0.0625) + f(0.25),
                  "uniform": lambda: f(r.uniform() - 0.5), "spiky": lambda: b * f(1 if i % 97 else 16),
                  "sparse": lambda: f(0) if i % 512 < 300 or i % 3 else b,
                  "tiny": lambda: b * f(2.0 ** -(i // 64 % 80))}[label]()
    return out


def importance(cols):
    r = Numbers(cols)
    squares = np.array([r.bell() for _ in range(cols)], np.float32) ** 2
    squares[::17] = 0
    return squares


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return h


def main():
    with open(OUT, "w", encoding="utf-8") as out:
        print("# made by tools/oracle/searches.py with llama-cpp-python", llama_cpp.__version__, file=out)
        for rows, cols in SHAPES:
            weights = importance(cols)
            for label in LABELS:
                x = values(label, rows, cols)
                for name, (number, block, size) in TYPES.items():
                    for given in (False, True):
                        packed = np.zeros(rows * cols // block * size, np.uint8)
                        ggml.ggml_quantize_chunk(number, x.ctypes.data, packed.ctypes.data, 0, rows, cols,
                                                 weights.ctypes.data if given else None)
                        print(name, label, cols, int(given), f"{fnv(x.tobytes() + (weights.tobytes() if given else b'')):016x}",
                              f"{fnv(packed.tobytes()):016x}", file=out)


if __name__ == "__main__":
    main()
