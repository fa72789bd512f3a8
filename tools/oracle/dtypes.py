#!/usr/bin/env python3
"""Make tests/golden/tensor/{unpack,pack}.txt: blocks unpacked and floats packed by the gguf package and llama.cpp.

unpack.txt: one block per line: type, the block in hex, FNV-1a-64 of its float32 values (little-endian bytes, every NaN as
7fc00000). Blocks are random, with plausible scales, with raw random bytes, and with zero, denormal, infinite and NaN
scales. The reference is gguf.quants; for types that it cannot read it is llama.cpp, through ctypes (Q1_0 Q2_0), or the
formula d * q (Q8_1 Q8_K).

pack.txt: type, distribution, hash of the input (so that the C test can check that it made the same floats), and the root mean
square error of llama.cpp's quantiser on it, relative to the root mean square of the input. For the types whose packing is
fixed by the format, also FNV-1a-64 of the packed bytes.

Needs gguf 0.19.0, numpy, llama-cpp-python 0.3.36."""
import ctypes
import pathlib
import sys

import llama_cpp
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tensor"

# type -> (id, elements, bytes, offsets of its f16 scales)
TYPES = {
    "f16": (1, 1, 2, []), "bf16": (30, 1, 2, []),
    "q4_0": (2, 32, 18, [0]), "q4_1": (3, 32, 20, [0, 2]), "q5_0": (6, 32, 22, [0]), "q5_1": (7, 32, 24, [0, 2]),
    "q8_0": (8, 32, 34, [0]), "q8_1": (9, 32, 36, [0, 2]),
    "q2_k": (10, 256, 84, [80, 82]), "q3_k": (11, 256, 110, [108]), "q4_k": (12, 256, 144, [0, 2]),
    "q5_k": (13, 256, 176, [0, 2]), "q6_k": (14, 256, 210, [208]), "q8_k": (15, 256, 292, []),
    "iq2_xxs": (16, 256, 66, [0]), "iq2_xs": (17, 256, 74, [0]), "iq3_xxs": (18, 256, 98, [0]),
    "iq1_s": (19, 256, 50, [0]), "iq4_nl": (20, 32, 18, [0]), "iq3_s": (21, 256, 110, [0]),
    "iq2_s": (22, 256, 82, [0]), "iq4_xs": (23, 256, 136, [0]), "iq1_m": (29, 256, 56, []),
    "tq1_0": (34, 256, 54, [52]), "tq2_0": (35, 256, 66, [64]), "mxfp4": (39, 32, 17, []), "nvfp4": (40, 64, 36, []),
    "q1_0": (41, 128, 18, [0]), "q2_0": (42, 64, 18, [0]),
}
SPECIAL = [0x0000, 0x8000, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7E00]     # zeros, denormals, infinities, NaN

lib = pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"
ggml = ctypes.CDLL(str(lib))


class TypeTraits(ctypes.Structure):
    _fields_ = [("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64), ("blck_size_interleave", ctypes.c_int64),
                ("type_size", ctypes.c_size_t), ("is_quantized", ctypes.c_bool), ("to_float", ctypes.c_void_p),
                ("from_float_ref", ctypes.c_void_p)]


ggml.ggml_get_type_traits.restype = ctypes.POINTER(TypeTraits)
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                     ctypes.c_int64, ctypes.c_void_p]
CONVERT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def traits(name):
    t = ggml.ggml_get_type_traits(TYPES[name][0]).contents
    assert (t.blck_size, t.type_size) == TYPES[name][1:3], (name, t.type_name, t.blck_size, t.type_size)
    return t


def ggml_unpack(name, raw):
    out = np.zeros(len(raw) // TYPES[name][2] * TYPES[name][1], np.float32)
    address = traits(name).to_float
    if not address:
        return None
    CONVERT(address)(raw.ctypes.data, out.ctypes.data, len(out))
    return out


def fixed_unpack(name, raw):
    """Unpack Q8_1 and Q8_K, which neither package reads: d * q."""
    if name == "q8_1":
        with np.errstate(invalid="ignore"):
            return (raw[:2].view(np.float16).astype(np.float32) * raw[4:].view(np.int8).astype(np.float32))
    assert name == "q8_k"
    with np.errstate(all="ignore"):
        return raw[:4].view(np.float32) * raw[4:260].view(np.int8).astype(np.float32)


def unpack(name, raw):
    with np.errstate(all="ignore"):
        try:
            return np.ascontiguousarray(quants.dequantize(raw, GGMLQuantizationType(TYPES[name][0])), np.float32)
        except (NotImplementedError, ValueError):
            out = ggml_unpack(name, raw)
            return fixed_unpack(name, raw) if out is None else out


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def float_hash(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).copy()
    bits[np.isnan(values)] = 0x7FC00000
    return fnv(bits.tobytes())


def set_scale(name, raw, bits, which):
    if name == "iq1_m":                       # the scale is in the top nibbles of four words
        words = raw[48:].view(np.uint16)
        for k in range(4):
            words[k] = (words[k] & 0x0FFF) | ((bits >> (4 * k)) & 15) << 12
    elif name == "q8_k":
        raw[:4] = np.array([bits], np.uint16).view(np.float16).astype(np.float32).view(np.uint8)
    elif name == "mxfp4":
        raw[0] = bits & 255
    elif name == "nvfp4":
        raw[which % 4] = bits & 255
    elif TYPES[name][3]:
        at = TYPES[name][3][which % len(TYPES[name][3])]
        raw[at:at + 2] = np.array([bits], np.uint16).view(np.uint8)


def blocks(name, rng):
    """Yield six blocks with plausible scales, two of raw bytes, and one per special scale in each scale field."""
    size = TYPES[name][2]
    if TYPES[name][1] == 1:
        for _ in range(16):
            yield rng.integers(0, 256, size, np.uint8)
        return
    places = max(len(TYPES[name][3]), 1)
    for i in range(8 + len(SPECIAL) * places):
        raw = rng.integers(0, 256, size, np.uint8)
        if i < 6 or i >= 8:
            for which in range(places):
                set_scale(name, raw, int(rng.integers(0x1000, 0x3800)) | int(rng.integers(0, 2)) << 15, which)
        if i >= 8:
            set_scale(name, raw, SPECIAL[(i - 8) % len(SPECIAL)], (i - 8) // len(SPECIAL))
        yield raw


def write_unpack():
    rng = np.random.default_rng(7)
    with open(OUT / "unpack.txt", "w") as f:
        f.write("# written by tools/oracle/dtypes.py: type, block, FNV-1a-64 of its values\n")
        for name in TYPES:
            for raw in blocks(name, rng):
                f.write(f"{name} {raw.tobytes().hex()} {float_hash(unpack(name, raw)):016x}\n")


# ---- packing ---------------------------------------------------------------------------------------------------------

PACKED = ["f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl",
          "iq4_xs", "mxfp4", "iq1_m", "iq2_s", "iq3_xxs", "iq3_s", "tq2_0", "tq1_0"]
EXACT = {"f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "tq2_0", "tq1_0"}      # the format leaves no choice
N = 64 * 256


def uniform(n, seed):
    """Return the same numbers as the C test: a 64-bit LCG (Knuth's MMIX), top 24 bits, in [0, 1)."""
    out = np.empty(n, np.float64)
    state = seed
    for i in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        out[i] = (state >> 40) / 2.0**24
    return out


def inputs():
    """Use only sums and products of dyadic numbers, so that C computes the same floats on every machine."""
    def bell(n, seed):                        # approximately normal: the sum of twelve uniforms
        return (uniform(12 * n, seed).reshape(n, 12).sum(axis=1) - 6.0).astype(np.float32)

    normal = bell(N, 1)
    yield "normal", normal
    heavy = bell(N, 2)
    yield "heavy", heavy * heavy * heavy * np.float32(0.125)
    yield "shifted", bell(N, 3) * np.float32(0.0625) + np.float32(0.25)
    yield "uniform", (uniform(N, 4) - 0.5).astype(np.float32)
    spiky = bell(N, 5)
    spiky[::97] *= np.float32(16)
    yield "spiky", spiky


def quantize(name, x):
    kind, elements, size, _ = TYPES[name]
    out = np.zeros(len(x) // elements * size, np.uint8)
    if name == "f16":
        return x.astype(np.float16).view(np.uint8)
    if name == "bf16":
        return quants.quantize(x, GGMLQuantizationType.BF16).view(np.uint8)
    if name in EXACT:
        return quants.quantize(x, GGMLQuantizationType(kind)).reshape(-1)
    ggml.ggml_quantize_chunk(kind, x.ctypes.data, out.ctypes.data, 0, len(x) // 256, 256, None)
    return out


def write_pack():
    with open(OUT / "pack.txt", "w") as f:
        f.write("# written by tools/oracle/dtypes.py: type, input, its FNV-1a-64, error of llama.cpp, packed FNV-1a-64 or -\n")
        for label, x in inputs():
            x = np.ascontiguousarray(x, np.float32)
            for name in PACKED:
                raw = quantize(name, x)
                y = unpack(name, raw)
                error = np.sqrt(np.mean((y.astype(np.float64) - x) ** 2) / np.mean(x.astype(np.float64) ** 2))
                packed = f"{fnv(raw.tobytes()):016x}" if name in EXACT else "-"
                f.write(f"{name} {label} {fnv(x.tobytes()):016x} {error:.8e} {packed}\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name in TYPES:
        if (kind := TYPES[name][0]) in GGMLQuantizationType._value2member_map_ and name != "q8_1":
            assert GGML_QUANT_SIZES[GGMLQuantizationType(kind)] == TYPES[name][1:3], name
    write_unpack()
    write_pack()


if __name__ == "__main__":
    sys.exit(main())
