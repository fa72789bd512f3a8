"""GGUF written byte by byte, with one thing wrong: single files and split ones."""
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q4_0, T_Q8_1, T_Q4_K, T_Q8_K = 0, 1, 2, 9, 12, 15
MAX = 2**64 - 1


# ---------------------------------------------------------------- parts of a file
def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def string(s, n=None):
    s = s.encode() if isinstance(s, str) else s
    return u64(len(s) if n is None else n) + s


def kv(key, kind, value):
    return string(key) + u32(kind) + value


def array(kind, n, body):
    return u32(kind) + u64(n) + body


def tensor(name, ne=(8,), kind=T_F32, offset=0, dims=None):
    return string(name) + u32(len(ne) if dims is None else dims) + b"".join(u64(n) for n in ne) + u32(kind) + u64(offset)


ARCH = kv("general.architecture", STR, string("llama"))
BLOCKS = kv("llama.block_count", U32, u32(1))


def gguf(keys=(ARCH, BLOCKS), tensors=(tensor("a"),), data=b"\0" * 32, magic=b"GGUF", version=3, n_tensors=None,
         n_keys=None, align=32, pad=True):
    out = magic + u32(version) + u64(len(tensors) if n_tensors is None else n_tensors)
    out += u64(len(keys) if n_keys is None else n_keys) + b"".join(keys) + b"".join(tensors)
    if pad:
        out += b"\0" * (-len(out) % align)
    return out + data


def cut_after(data, part, extra):
    """The file up to `extra` bytes into the place where `part` ends."""
    return data[:data.index(part) + len(part) + extra]


def gguf_files():
    good = gguf()
    keys_only = gguf(tensors=[], data=b"", pad=False)
    one_key = gguf([ARCH], [], b"", pad=False)
    f = {}
    # the header
    f["header-empty"] = b""
    f["header-magic-only"] = b"GGUF"
    f["header-short"] = good[:23]
    f["header-magic"] = gguf(magic=b"GGUG")
    f["header-version-0"] = gguf(version=0)
    f["header-version-1"] = gguf(version=1)
    f["header-version-4"] = gguf(version=4)
    f["header-big-endian"] = gguf(version=3 << 24)
    f["header-tensors-max"] = gguf(n_tensors=MAX)
    f["header-tensors-wrap"] = gguf(n_tensors=2**64 // 8)              # CVE-2024-23605: count * size wraps
    f["header-tensors-too-many"] = gguf(n_tensors=50)
    f["header-keys-max"] = gguf(n_keys=MAX)
    f["header-keys-wrap"] = gguf(n_keys=2**64 // 16)                   # CVE-2024-23496
    f["header-keys-too-many"] = gguf(n_keys=50)
    f["header-one-key-more"] = gguf(n_keys=3)
    f["header-one-tensor-more"] = gguf(n_tensors=2)
    f["header-only"] = b"GGUF" + u32(3) + u64(1) + u64(0)
    # keys
    f["key-length-max"] = gguf([ARCH, string("k", MAX) + u32(U32) + u32(1)])
    f["key-length-past-end"] = gguf([ARCH, string("k", 60000) + u32(U32) + u32(1)])
    f["key-length-65536"] = gguf([ARCH, string("k", 65536) + u32(U32) + u32(1)])
    f["key-empty"] = gguf([ARCH, kv("", U32, u32(1))])
    f["key-nul"] = gguf([ARCH, kv("general\0name", U32, u32(1))])
    f["key-newline"] = gguf([ARCH, kv("general\nname", U32, u32(1))])
    f["key-not-ascii"] = gguf([ARCH, kv("général", U32, u32(1))])
    f["key-twice"] = gguf([ARCH, BLOCKS, BLOCKS])
    f["key-twice-other-type"] = gguf([ARCH, BLOCKS, kv("llama.block_count", STR, string("1"))])
    f["key-cut-in-name"] = cut_after(one_key, string("general.arch", 20), 0)
    f["key-cut-in-type"] = cut_after(one_key, string("general.architecture"), 2)
    # values
    f["value-type-13"] = gguf([ARCH, kv("x", 13, u32(1))])
    f["value-type-max"] = gguf([ARCH, kv("x", 2**32 - 1, u32(1))])
    f["value-cut"] = cut_after(keys_only, string("llama.block_count") + u32(U32), 3)
    f["value-string-max"] = gguf([kv("general.architecture", STR, string("llama", MAX))])   # CVE-2024-21825
    f["value-string-wrap"] = gguf([kv("general.architecture", STR, string("llama", MAX - 7))])
    f["value-string-past-end"] = gguf([kv("general.architecture", STR, string("llama", 4096))])
    f["value-string-huge"] = gguf([kv("general.architecture", STR, string("llama", 2**31))])
    f["value-string-cut-length"] = cut_after(one_key, kv("general.architecture", STR, b""), 5)
    # arrays
    f["array-of-arrays"] = gguf([ARCH, kv("x", ARR, array(ARR, 1, array(U8, 1, b"\1")))])
    f["array-type-13"] = gguf([ARCH, kv("x", ARR, array(13, 1, u32(1)))])
    f["array-count-wrap"] = gguf([ARCH, kv("x", ARR, array(U64, 2**61, u64(1)))])           # CVE-2024-21836
    f["array-count-max"] = gguf([ARCH, kv("x", ARR, array(U8, MAX, u64(1)))])
    f["array-count-past-end"] = gguf([ARCH, kv("x", ARR, array(F32, 1000, u32(1)))])
    f["array-strings-too-many"] = gguf([ARCH, kv("x", ARR, array(STR, 1000, string("a")))])
    f["array-strings-wrap"] = gguf([ARCH, kv("x", ARR, array(STR, 2**61 + 1, string("a")))])  # CVE-2024-21802
    f["array-string-past-end"] = gguf([ARCH, kv("x", ARR, array(STR, 2, string("a") + string("b", 5000)))])
    f["array-string-max"] = gguf([ARCH, kv("x", ARR, array(STR, 2, string("a") + string("b", MAX)))])
    f["array-cut-count"] = cut_after(gguf([ARCH, kv("x", ARR, array(U8, 1, b"\1"))]), u32(ARR) + u32(U8), 3)
    # general.alignment
    f["alignment-0"] = gguf([ARCH, kv("general.alignment", U32, u32(0))])
    f["alignment-3"] = gguf([ARCH, kv("general.alignment", U32, u32(3))])
    f["alignment-24"] = gguf([ARCH, kv("general.alignment", U32, u32(24))])
    f["alignment-2-21"] = gguf([ARCH, kv("general.alignment", U32, u32(2**21))])
    f["alignment-2-31"] = gguf([ARCH, kv("general.alignment", U32, u32(2**31))])            # ggml asserted
    f["alignment-i32"] = gguf([ARCH, kv("general.alignment", I32, u32(32))])                # ggml asserted
    f["alignment-string"] = gguf([ARCH, kv("general.alignment", STR, string("32"))])
    f["alignment-array"] = gguf([ARCH, kv("general.alignment", ARR, array(U32, 1, u32(32)))])
    # names of tensors
    f["name-65-bytes"] = gguf(tensors=[tensor("a" * 65)])
    f["name-length-max"] = gguf(tensors=[string("a", MAX) + u32(1) + u64(8) + u32(0) + u64(0)])
    f["name-empty"] = gguf(tensors=[tensor("")])
    f["name-nul"] = gguf(tensors=[tensor("a\0b")])
    f["name-newline"] = gguf(tensors=[tensor("a\nb")])
    f["name-escape"] = gguf(tensors=[tensor("a\x1b[2Jb")])
    f["name-not-utf8"] = gguf(tensors=[tensor(b"a\xc3(")])
    f["name-twice"] = gguf(tensors=[tensor("a"), tensor("a", offset=32)], data=b"\0" * 64)
    # shapes
    f["dims-0"] = gguf(tensors=[tensor("a", ())])
    f["dims-5"] = gguf(tensors=[tensor("a", (1, 1, 1, 1, 8))])
    f["dims-max"] = gguf(tensors=[tensor("a", (8,), dims=2**32 - 1)])
    f["ne-0"] = gguf(tensors=[tensor("a", (8, 0))])                                         # CVE-2025-0317: divides
    f["ne-negative"] = gguf(tensors=[tensor("a", (2**63,))])
    f["ne-2-41"] = gguf(tensors=[tensor("a", (2**41,))])
    f["ne-2-42-and-one"] = gguf(tensors=[tensor("a", (8, 2**42 + 1))])                      # its stride wraps to 0
    f["ne-product-zero"] = gguf(tensors=[tensor("a", (2**32, 2**32))])                      # wraps to exactly 0
    f["ne-product-wraps"] = gguf(tensors=[tensor("a", (2**33, 2**31 + 1, 8))])              # wraps to a small number
    f["ne-product-negative"] = gguf(tensors=[tensor("a", (2**32, 2**31))])                  # < 0 as int64
    f["ne-product-four"] = gguf(tensors=[tensor("a", (2**40, 2**40, 2**40, 2**40))])
    f["ne-product-2-49"] = gguf(tensors=[tensor("a", (2**25, 2**24))])
    # types
    for t in (4, 5, 31, 33, 36, 38):
        f[f"type-removed-{t}"] = gguf(tensors=[tensor("a", (32,), t)])
    f["type-ik-137"] = gguf(tensors=[tensor("a", (256,), 137)])
    f["type-43"] = gguf(tensors=[tensor("a", (32,), 43)])
    f["type-200"] = gguf(tensors=[tensor("a", (32,), 200)])                                 # an id of our own
    f["type-max"] = gguf(tensors=[tensor("a", (32,), 2**32 - 1)])
    f["type-q8_1"] = gguf(tensors=[tensor("a", (32,), T_Q8_1)], data=b"\0" * 64)
    f["type-q8_k"] = gguf(tensors=[tensor("a", (256,), T_Q8_K)], data=b"\0" * 320)
    f["type-half-block"] = gguf(tensors=[tensor("a", (33,), T_Q4_0)], data=b"\0" * 64)
    f["type-k-row-of-32"] = gguf(tensors=[tensor("a", (32, 8), T_Q4_K)], data=b"\0" * 160)
    # places
    f["offset-not-aligned"] = gguf(tensors=[tensor("a", offset=8)], data=b"\0" * 64)
    f["offset-past-end"] = gguf(tensors=[tensor("a", offset=4096)])
    f["offset-wraps"] = gguf(tensors=[tensor("a", offset=2**64 - 32)])
    f["size-one-more"] = gguf(data=b"\0" * 31)
    f["size-past-end"] = gguf(tensors=[tensor("a", (1024, 1024))])                          # CVE-2026-7482
    f["no-data"] = gguf(data=b"", pad=False)
    f["overlap-same"] = gguf(tensors=[tensor("a"), tensor("b")])
    f["overlap-partly"] = gguf(tensors=[tensor("a", (16,)), tensor("b", offset=32)], data=b"\0" * 96)
    f["overlap-reordered"] = gguf(tensors=[tensor("b", offset=32), tensor("a", (12,))], data=b"\0" * 64)
    f["tensor-cut-in-dims"] = cut_after(good, string("a") + u32(1), 4)
    f["tensor-cut-in-type"] = cut_after(good, string("a") + u32(1) + u64(8), 2)
    f["tensor-cut-in-offset"] = cut_after(good, string("a") + u32(1) + u64(8) + u32(0), 7)
    # splits
    f["split-without-name"] = gguf([ARCH, kv("split.count", U16, struct.pack("<H", 3))])
    f["split-count-string"] = gguf([ARCH, kv("split.count", STR, string("3"))])
    return f


def part(no, count, tensors, total=None, arch="llama", first=True):
    keys = [kv("general.architecture", STR, string(arch))] if first or arch != "llama" else []
    if no is not None:
        keys.append(kv("split.no", U16, struct.pack("<H", no)))
    if count is not None:
        keys.append(kv("split.count", U16, struct.pack("<H", count)))
    if total is not None:
        keys.append(kv("split.tensors.count", I32, struct.pack("<i", total)))
    return gguf(keys, [tensor(n, offset=32 * i) for i, n in enumerate(tensors)], b"\0" * 32 * len(tensors))


def split_files():
    """Name of the model -> {part: bytes}; the test opens the first part that is there."""
    return {
        "part-missing": {1: part(0, 2, ["a"], 2)},
        "first-missing": {2: part(1, 2, ["b"], 2, first=False)},
        "number-wrong": {1: part(0, 2, ["a"], 2), 2: part(0, 2, ["b"], 2, first=False)},
        "count-wrong": {1: part(0, 3, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)},
        "number-absent": {1: part(None, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)},
        "tensor-in-both": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["a"], 2, first=False)},
        "total-wrong": {1: part(0, 2, ["a"], 7), 2: part(1, 2, ["b"], 7, first=False)},
        "total-negative": {1: part(0, 2, ["a"], -1), 2: part(1, 2, ["b"], -1, first=False)},
        "mixed": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, arch="qwen2")},
        "part-broken": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)[:60]},
        "part-0": {0: part(0, 2, ["a"], 1)},
        "part-3-of-2": {3: part(2, 2, ["a"], 1)},
    }
