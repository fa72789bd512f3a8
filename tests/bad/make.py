#!/usr/bin/env python3
"""Writes the malformed files of this folder. Deterministic, standard library only.

    gguf/ safetensors/ folder/ split/     broken as containers
    model/                                well-formed containers of impossible models (good.gguf: of a possible one)

Each is a well-formed small file with one thing wrong. What the reader must say about it is in expected.tsv, each line of
it read against the defect by a person (`bad_files --print` shows what is said now); the test wants one row for each file
and one file for each row.
"""
import json
import pathlib
import shutil
import struct

HERE = pathlib.Path(__file__).resolve().parent
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q4_0, T_Q8_1, T_Q4_K, T_Q8_K = 0, 1, 2, 9, 12, 15
MAX = 2**64 - 1


# ---------------------------------------------------------------- GGUF
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
        "count-absent": {1: part(0, None, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)},
        "number-absent": {1: part(None, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)},
        "tensor-in-both": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["a"], 2, first=False)},
        "total-wrong": {1: part(0, 2, ["a"], 7), 2: part(1, 2, ["b"], 7, first=False)},
        "total-negative": {1: part(0, 2, ["a"], -1), 2: part(1, 2, ["b"], -1, first=False)},
        "mixed": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, arch="qwen2")},
        "part-broken": {1: part(0, 2, ["a"], 2), 2: part(1, 2, ["b"], 2, first=False)[:60]},
        "part-0": {0: part(0, 2, ["a"], 1)},
        "part-3-of-2": {3: part(2, 2, ["a"], 1)},
    }


# ---------------------------------------------------------------- safetensors
def st(header, data=b"\0" * 8, n=None):
    header = header.encode() if isinstance(header, str) else header
    return u64(len(header) if n is None else n) + header + data


def entry(name='"a"', dtype='"F32"', shape="[2]", offsets="[0,8]"):
    return f'{name}:{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'


def one(**k):
    return st("{" + entry(**k) + "}")


def two(second, size=16):
    return st("{" + entry() + "," + second + "}", b"\0" * size)


def safetensors_files():
    good = one()
    b = entry('"b"', offsets="[8,16]")
    f = {}
    # the header and its length
    f["length-empty-file"] = b""
    f["length-cut"] = good[:7]
    f["length-0"] = u64(0) + good[8:]
    f["length-1"] = u64(1) + good[8:]
    f["length-past-end"] = u64(4096) + good[8:]
    f["length-max"] = u64(MAX) + good[8:]
    f["length-2-63"] = u64(2**63) + good[8:]
    f["length-wraps"] = u64(MAX - 7) + good[8:]
    f["header-space-first"] = st(" {" + entry() + "}")
    f["header-array"] = st("[]", b"")
    f["header-cut"] = good[:8 + 30].replace(good[:8], u64(30))
    f["header-text-behind"] = st("{" + entry() + "} x")
    f["header-second-document"] = st("{" + entry() + "}{}")
    f["header-nul-behind"] = st("{" + entry() + "}\0")
    f["header-byte-order-mark"] = st("\ufeff{" + entry() + "}")
    f["header-not-utf8"] = st(b'{"\xff\xfe":1}')
    f["header-overlong-utf8"] = st(b'{"\xc0\x80":1}')
    f["header-surrogate-utf8"] = st(b'{"\xed\xa0\x80":1}')
    f["header-single-quotes"] = st("{'a':1}")
    f["header-trailing-comma"] = st("{" + entry() + ",}")
    f["header-comment"] = st("{/* */" + entry() + "}")
    f["header-nan"] = one(shape="[NaN]")
    f["header-nested"] = st('{"a":' + "[" * 1000 + "]" * 1000 + "}")
    f["header-nested-shape"] = one(shape="[[[[2]]]]")
    f["header-control-character"] = st('{"a\nb":1}')
    # names
    f["name-twice"] = two(entry(offsets="[8,16]"))
    f["name-twice-escaped"] = two(entry('"\\u0061"', offsets="[8,16]"))
    f["name-empty"] = one(name='""')
    f["name-newline"] = one(name='"a\\nb"')
    f["name-nul"] = one(name='"a\\u0000b"')
    f["name-1025-bytes"] = one(name='"' + "a" * 1025 + '"')
    f["name-lone-surrogate"] = one(name='"\\ud800"')
    f["name-low-surrogate-first"] = one(name='"\\udc00\\ud800"')
    f["name-bad-escape"] = one(name='"\\x41"')
    f["name-cut-escape"] = one(name='"\\u00')
    f["name-number"] = one(name="1")
    # members of a tensor
    f["tensor-not-object"] = st('{"a":3}')
    f["tensor-null"] = st('{"a":null}')
    f["tensor-empty"] = st('{"a":{}}')
    f["dtype-absent"] = st('{"a":{"shape":[2],"data_offsets":[0,8]}}')
    f["shape-absent"] = st('{"a":{"dtype":"F32","data_offsets":[0,8]}}')
    f["offsets-absent"] = st('{"a":{"dtype":"F32","shape":[2]}}')
    f["member-unknown"] = st('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"stride":[1]}}')
    f["member-twice"] = st('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}')
    f["dtype-f8"] = one(dtype='"F8_E4M3"', shape="[8]")
    f["dtype-unknown"] = one(dtype='"F33"')
    f["dtype-lower-case"] = one(dtype='"f32"')
    f["dtype-nul"] = one(dtype='"F32\\u0000"')
    f["dtype-number"] = one(dtype="32")
    # shapes
    f["shape-not-array"] = one(shape="2")
    f["shape-string"] = one(shape='["2"]')
    f["shape-negative"] = one(shape="[-2]")
    f["shape-fraction"] = one(shape="[2.5]")
    f["shape-whole-float"] = one(shape="[2.0]")
    f["shape-exponent"] = one(shape="[2e0]")
    f["shape-leading-zero"] = one(shape="[02]")
    f["shape-1e300"] = one(shape="[1e300]")
    f["shape-2-64"] = one(shape="[18446744073709551616]")
    f["shape-2-53-and-one"] = one(shape="[9007199254740993]")
    f["shape-9-dims"] = one(shape="[1,1,1,1,1,1,1,1,2]")
    f["shape-product-wraps"] = one(shape="[1099511627776,1099511627776,2]")
    f["shape-zero-hides-overflow"] = one(shape="[1099511627776,1099511627776,0]", offsets="[0,0]")
    f["shape-2-49"] = one(shape="[33554432,16777216]")
    # places
    f["offsets-one"] = one(offsets="[0]")
    f["offsets-three"] = one(offsets="[0,8,8]")
    f["offsets-none"] = one(offsets="[]")
    f["offsets-negative-zero"] = one(offsets="[-0,8]")
    f["offsets-float"] = one(offsets="[0,8.0]")
    f["offsets-huge"] = one(offsets="[0,1e300]")
    f["offsets-reversed"] = one(offsets="[8,0]")
    f["offsets-wrong-size"] = one(shape="[3]")
    f["offsets-past-end"] = one(shape="[4]", offsets="[0,16]")
    f["offsets-wrap"] = one(offsets="[18446744073709551612,4]")
    f["offsets-hole-first"] = st("{" + entry(offsets="[8,16]") + "}", b"\0" * 16)
    f["offsets-hole-between"] = two(entry('"b"', offsets="[12,20]"), 20)
    f["offsets-overlap"] = two(entry('"b"', offsets="[4,12]"), 12)
    f["offsets-same"] = two(entry('"b"'), 8)
    f["data-behind"] = st("{" + entry() + "}", b"\0" * 9)
    f["data-short"] = two(b, 15)
    f["data-without-tensors"] = st("{}", b"\0" * 8)
    # __metadata__
    f["metadata-number"] = st('{"__metadata__":{"a":1},' + entry() + "}")
    f["metadata-null"] = st('{"__metadata__":{"a":null},' + entry() + "}")
    f["metadata-nested"] = st('{"__metadata__":{"a":{"b":"c"}},' + entry() + "}")
    f["metadata-array"] = st('{"__metadata__":[],' + entry() + "}")
    f["metadata-twice"] = st('{"__metadata__":{},"__metadata__":{},' + entry() + "}")
    f["metadata-key-twice"] = st('{"__metadata__":{"a":"1","a":"2"},' + entry() + "}")
    # other things under this name
    f["lfs-pointer"] = (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n")
    f["zip"] = b"PK\3\4" + b"\0" * 60
    f["pickle"] = b"\x80\2ccollections\nOrderedDict\n" + b"\0" * 60
    f["web-page"] = b"<!DOCTYPE html><html><body>404</body></html>\n"
    return f


# ---------------------------------------------------------------- folders
CONFIG = json.dumps({"model_type": "llama", "hidden_size": 2})


def index(mapping, **more):
    return json.dumps({"metadata": {"total_size": 16}, "weight_map": mapping, **more})


def folder_files():
    """Name of the folder -> {file: bytes or text}."""
    a, b = one(), one(name='"b"')
    s1, s2 = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    f = {}

    def config(text):
        return {"config.json": text, "model.safetensors": a}

    def indexed(text, files=None):
        return {"config.json": CONFIG, "model.safetensors.index.json": text, **({s1: a, s2: b} if files is None else files)}

    f["config-absent"] = {"model.safetensors": a}
    f["config-empty"] = config("")
    f["config-array"] = config("[]")
    f["config-number"] = config("7")
    f["config-twice"] = config('{"hidden_size": 2, "hidden_size": 4}')
    f["config-twice-escaped"] = config('{"hidden_size": 2, "hidden\\u005fsize": 4}')
    f["config-twice-among-many"] = config("{" + ",".join(f'"k{i}":{i}' for i in range(40)) + ',"k7":0}')
    f["config-nested-objects"] = config('{"a":' * 100 + "1" + "}" * 100)
    f["config-nested-arrays"] = config("[" * 3000)
    f["config-text-behind"] = config(CONFIG + " {}")
    f["config-not-utf8"] = config(b'{"a": "\xe9"}')
    f["config-cut"] = config(CONFIG[:-1])
    f["config-cut-in-string"] = config('{"a": "b')
    f["config-leading-zero"] = config('{"hidden_size": 02}')
    f["config-plus"] = config('{"hidden_size": +2}')
    f["config-bare-point"] = config('{"hidden_size": 2.}')
    f["config-exponent"] = config('{"hidden_size": 2e}')
    f["config-too-large"] = config('{"rope_theta": 1e999}')
    f["config-infinity"] = config('{"rope_theta": Infinity}')
    f["config-lone-surrogate"] = config('{"a": "\\ud83d"}')
    f["config-long-number"] = config('{"a": ' + "1" * 200 + "}")
    f["config-word"] = config('{"a": nul}')
    f["config-no-colon"] = config('{"a" 1}')
    f["weights-absent"] = {"config.json": CONFIG}
    f["weights-only-pickle"] = {"config.json": CONFIG, "pytorch_model.bin": b"\x80\2."}
    f["weights-broken"] = {"config.json": CONFIG, "model.safetensors": a[:20]}
    f["index-empty"] = indexed("")
    f["index-array"] = indexed("[]")
    f["index-without-map"] = indexed('{"metadata":{}}')
    f["index-map-empty"] = indexed(index({}))
    f["index-map-array"] = indexed(index([]))
    f["index-map-twice"] = indexed('{"weight_map":{"a":"%s"},"weight_map":{"b":"%s"}}' % (s1, s2))
    f["index-tensor-twice"] = indexed('{"weight_map":{"a":"%s","a":"%s"}}' % (s1, s1))
    f["index-value-number"] = indexed(index({"a": 1}))
    f["index-parent"] = indexed(index({"a": "../weights.safetensors"}))
    f["index-absolute"] = indexed(index({"a": "/etc/weights.safetensors"}))
    f["index-subfolder"] = indexed(index({"a": "x/weights.safetensors"}))
    f["index-backslash"] = indexed(index({"a": "..\\weights.safetensors"}))
    f["index-drive"] = indexed(index({"a": "C:weights.safetensors"}))
    f["index-hidden"] = indexed(index({"a": ".weights.safetensors"}))
    f["index-nul"] = indexed(index({"a": "x\0.safetensors"}))
    f["index-pickle"] = indexed(index({"a": "pytorch_model-00001-of-00002.bin"}))
    f["index-file-absent"] = indexed(index({"a": s1, "b": s2}), {s1: a})
    f["index-file-broken"] = indexed(index({"a": s1, "b": s2}), {s1: a, s2: b[:-1]})
    f["index-tensor-absent"] = indexed(index({"a": s1, "b": s2, "c": s2}))
    f["index-tensor-elsewhere"] = indexed(index({"a": s2, "b": s2}), {s1: a, s2: b})
    f["index-tensor-swapped"] = indexed(index({"a": s2, "b": s1}))
    f["index-tensor-in-both"] = indexed(index({"a": s1, "b": s2}), {s1: a, s2: two(entry('"b"', offsets="[8,16]"))})
    f["index-nested"] = indexed('{"metadata":' + "[" * 500 + "]" * 500 + ',"weight_map":{"a":"%s"}}' % s1)
    return f


# ---------------------------------------------------------------- models: well-formed files that describe nonsense
ABSENT = object()


def model(keys=None, tensors=None, extra=()):
    """A whole small Llama (2 heads of 2, 1 layer, 6 tokens) with some keys or tensors replaced, removed or added."""
    k = {
        "general.architecture": (STR, string("llama")),
        "llama.block_count": (U32, u32(1)),
        "llama.context_length": (U32, u32(16)),
        "llama.embedding_length": (U32, u32(4)),
        "llama.feed_forward_length": (U32, u32(4)),
        "llama.attention.head_count": (U32, u32(2)),
        "llama.attention.head_count_kv": (U32, u32(1)),
        "llama.attention.layer_norm_rms_epsilon": (F32, struct.pack("<f", 1e-5)),
        "llama.rope.dimension_count": (U32, u32(2)),
        "llama.rope.freq_base": (F32, struct.pack("<f", 1e4)),
        "tokenizer.ggml.model": (STR, string("llama")),
        "tokenizer.ggml.tokens": (ARR, strings(TOKENS)),
        "tokenizer.ggml.scores": (ARR, array(F32, 6, struct.pack("<6f", *range(6)))),
        "tokenizer.ggml.token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, 1))),
        "tokenizer.ggml.bos_token_id": (U32, u32(1)),
        "tokenizer.ggml.eos_token_id": (U32, u32(2)),
    }
    t = {
        "token_embd.weight": (4, 6), "output_norm.weight": (4,), "output.weight": (4, 6), "blk.0.attn_norm.weight": (4,),
        "blk.0.attn_q.weight": (4, 4), "blk.0.attn_k.weight": (4, 2), "blk.0.attn_v.weight": (4, 2),
        "blk.0.attn_output.weight": (4, 4), "blk.0.ffn_norm.weight": (4,), "blk.0.ffn_gate.weight": (4, 4),
        "blk.0.ffn_up.weight": (4, 4), "blk.0.ffn_down.weight": (4, 4),
    }
    k.update(keys or {})
    t.update(tensors or {})
    t.update(extra)
    entries, at = [], 0
    for name, shape in t.items():
        if shape is ABSENT:
            continue
        kind = T_F32
        if isinstance(shape, tuple) and shape and isinstance(shape[0], tuple):
            shape, kind = shape
        entries.append(tensor(name, shape, kind, at))
        n = {T_F32: 4, 26: 4}[kind]
        for d in shape:
            n *= d
        at += n + -n % 32
    return gguf([kv(key, *v) for key, v in k.items() if v is not ABSENT], entries, b"\0" * at)


TOKENS = ["<unk>", "<s>", "</s>", "<0x41>", "\u2581a", "b"]


def strings(words):
    return array(STR, len(words), b"".join(string(w) for w in words))


def f32(v):
    return F32, struct.pack("<f", v)


def model_files():
    f = {}

    def number(key, *values, kind=U32, pack="<I"):
        for v in values:
            f[f"{key.split('.', 1)[1].replace('.', '-')}-{v}".replace("_", "-")] = model({key: (kind, struct.pack(pack, v))})

    def odd(name, keys):
        f[name] = model(keys)

    # sizes: each is a divisor or a count somewhere
    number("llama.block_count", 0, 2, 100000, 2**32 - 1)                                    # CVE-2025-0312, #25821
    number("llama.embedding_length", 0, 3, 5, 2**32 - 1)
    number("llama.feed_forward_length", 0, 5, 2**32 - 1)
    number("llama.attention.head_count", 0, 3, 2**32 - 1)                                   # CVE-2025-0317
    number("llama.attention.head_count_kv", 0, 3, 4)
    number("llama.context_length", 0)
    number("llama.rope.dimension_count", 1, 4, 2**32 - 1)
    number("llama.attention.key_length", 0, 3, 2**31)
    for key in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                "attention.layer_norm_rms_epsilon"):
        odd(f"{key.replace('.', '-').replace('_', '-')}-absent", {f"llama.{key}": ABSENT})
    odd("block-count-string", {"llama.block_count": (STR, string("1"))})
    odd("block-count-negative", {"llama.block_count": (I32, struct.pack("<i", -1))})
    odd("block-count-float", {"llama.block_count": f32(1)})
    odd("head-count-array-short", {"llama.block_count": (U32, u32(2)), "llama.attention.head_count": (ARR, array(U32, 1, u32(2)))})
    odd("head-count-array-of-strings", {"llama.attention.head_count": (ARR, strings(["2"]))})
    odd("head-count-array-zero", {"llama.attention.head_count": (ARR, array(U32, 1, u32(0)))})
    # numbers
    for name, v in (("nan", float("nan")), ("infinite", float("inf")), ("negative", -1e-5), ("zero", 0.0), ("large", 2.0)):
        odd(f"epsilon-{name}", {"llama.attention.layer_norm_rms_epsilon": f32(v)})
    for name, v in (("nan", float("nan")), ("infinite", float("inf")), ("negative", -1e4), ("zero", 0.0)):
        odd(f"freq-base-{name}", {"llama.rope.freq_base": f32(v)})
    odd("scaling-unknown", {"llama.rope.scaling.type": (STR, string("dynamo")), "llama.rope.scaling.factor": f32(2)})
    odd("scaling-not-string", {"llama.rope.scaling.type": (U32, u32(1))})
    for name, v in (("nan", float("nan")), ("large", 1e9), ("negative", -2.0)):
        odd(f"scaling-factor-{name}", {"llama.rope.scaling.type": (STR, string("linear")), "llama.rope.scaling.factor": f32(v)})
    # the architecture
    odd("architecture-absent", {"general.architecture": ABSENT})
    odd("architecture-unknown", {"general.architecture": (STR, string("lama"))})
    odd("architecture-number", {"general.architecture": (U32, u32(1))})
    odd("architecture-empty", {"general.architecture": (STR, string(""))})
    odd("architecture-huge", {"general.architecture": (STR, string("l" * 1000))})
    # tensors
    f["tensor-absent"] = model(tensors={"blk.0.attn_q.weight": ABSENT})
    f["tensor-absent-embedding"] = model(tensors={"token_embd.weight": ABSENT})
    f["tensor-unused"] = model(extra={"blk.0.attn_q_extra.weight": (4,)})
    f["tensor-of-a-second-layer"] = model(extra={"blk.1.attn_norm.weight": (4,)})
    f["tensor-shape"] = model(tensors={"blk.0.attn_k.weight": (4, 4)})
    f["tensor-transposed"] = model(tensors={"blk.0.attn_k.weight": (2, 4)})
    f["tensor-rank"] = model(tensors={"output_norm.weight": (2, 2)})
    f["tensor-bias-shape"] = model(extra={"blk.0.attn_q.bias": (3,)})
    f["tensor-rope-freqs-shape"] = model(extra={"rope_freqs.weight": (3,)})
    # the vocabulary
    key = "tokenizer.ggml."
    odd("tokens-fewer", {key + "tokens": (ARR, strings(TOKENS[:5]))})                       # llama.cpp read past the scores
    odd("tokens-none", {key + "tokens": (ARR, array(STR, 0, b""))})
    odd("tokens-absent", {key + "tokens": ABSENT})
    odd("tokens-numbers", {key + "tokens": (ARR, array(U32, 6, b"\0" * 24))})
    odd("tokens-string", {key + "tokens": (STR, string("a"))})
    odd("tokens-twice", {key + "tokens": (ARR, strings(TOKENS[:5] + ["\u2581a"]))})         # llama.cpp aborted
    odd("tokens-byte-negative", {key + "tokens": (ARR, strings(TOKENS[:3] + ["<0x-1>"] + TOKENS[4:]))})   # #25969
    odd("tokens-byte-long", {key + "tokens": (ARR, strings(TOKENS[:3] + ["<0x100>"] + TOKENS[4:]))})
    odd("scores-fewer", {key + "scores": (ARR, array(F32, 5, b"\0" * 20))})
    odd("scores-strings", {key + "scores": (ARR, strings(TOKENS))})
    odd("scores-nan", {key + "scores": (ARR, array(F32, 6, struct.pack("<6f", *[float("nan")] * 6)))})
    odd("types-fewer", {key + "token_type": (ARR, array(I32, 5, struct.pack("<5i", 2, 3, 3, 6, 1)))})
    odd("types-unknown", {key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, 77)))})
    odd("types-negative", {key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, -1)))})
    odd("tokenizer-model-unknown", {key + "model": (STR, string("gpt3"))})
    odd("tokenizer-model-number", {key + "model": (U32, u32(1))})
    odd("bos-past-end", {key + "bos_token_id": (U32, u32(6))})
    odd("eos-past-end", {key + "eos_token_id": (U32, u32(6))})
    odd("eos-negative", {key + "eos_token_id": (I32, struct.pack("<i", -2))})
    odd("eos-string", {key + "eos_token_id": (STR, string("</s>"))})
    odd("unknown-past-end", {key + "unknown_token_id": (U32, u32(1000))})
    bpe = {key + "model": (STR, string("gpt2")), key + "pre": (STR, string("gpt-2")), key + "scores": ABSENT,
           key + "tokens": (ARR, strings(["<|end|>", "a", "b", "ab", "c", "d"])),
           key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 3, 1, 1, 1, 1, 1)))}
    odd("merges-without-space", {**bpe, key + "merges": (ARR, strings(["ab"]))})
    odd("merges-leading-space", {**bpe, key + "merges": (ARR, strings([" ab"]))})
    odd("merges-unknown-half", {**bpe, key + "merges": (ARR, strings(["a x"]))})
    odd("merges-unknown-whole", {**bpe, key + "merges": (ARR, strings(["a c"]))})
    odd("merges-numbers", {**bpe, key + "merges": (ARR, array(U32, 1, u32(1)))})
    odd("pre-unknown", {**bpe, key + "pre": (STR, string("gpt-5")), key + "merges": (ARR, strings(["a b"]))})
    return f


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 6, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 16, "hidden_act": "silu", "tie_word_embeddings": True,
}


def model_folders():
    """Name -> config.json; the weights are right."""
    f, names = {}, {"model.embed_tokens.weight": [6, 4], "model.norm.weight": [4]}
    for name, shape in (("input_layernorm", [4]), ("post_attention_layernorm", [4]), ("self_attn.q_proj", [4, 4]),
                        ("self_attn.k_proj", [2, 4]), ("self_attn.v_proj", [2, 4]), ("self_attn.o_proj", [4, 4]),
                        ("mlp.gate_proj", [4, 4]), ("mlp.up_proj", [4, 4]), ("mlp.down_proj", [4, 4])):
        names[f"model.layers.0.{name}.weight"] = shape

    def weights(more=None, less=()):
        header, at = {}, 0
        for name, shape in {**names, **(more or {})}.items():
            if name in less:
                continue
            n = 2
            for d in shape:
                n *= d
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
            at += n
        return st(json.dumps(header, separators=(",", ":")), b"\0" * at)

    def odd(name, **change):
        config = {k: v for k, v in {**LLAMA, **change}.items() if v is not ABSENT}
        f[name] = {"config.json": json.dumps(config), "model.safetensors": weights()}

    for key, values in {
        "hidden_size": (0, -4, "4", 4.0, 2**32, 8, ABSENT, None), "num_hidden_layers": (0, 2, 10**9, [1]),
        "num_attention_heads": (0, 3, 2**31), "num_key_value_heads": (0, 3, 2), "intermediate_size": (0, 8, True),
        "vocab_size": (0, 7, 2**40), "head_dim": (0, 3, 4, -2), "rms_norm_eps": (0, -1, "x", 2), "rope_theta": (0, -1, "x"),
        "max_position_embeddings": (0, -1), "hidden_act": ("gelo", 3), "model_type": ("lama", 3, ABSENT),
        "rope_scaling": ({"type": "dynamo", "factor": 2}, {"type": "linear"}, {"type": "linear", "factor": 0},
                         {"type": "linear", "factor": "2"}, {"rope_type": "llama3", "factor": 8},
                         {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1,
                          "original_max_position_embeddings": 8},
                         {"rope_type": "longrope", "short_factor": [1], "long_factor": [1, 2]}, "linear", [1]),
        "tie_word_embeddings": ("yes",), "quantization_config": ({"quant_method": "gptq"},),
    }.items():
        for i, v in enumerate(values):
            odd(f"{key.replace('_', '-')}-{i}", **{key: v})
    odd("untied-without-head", tie_word_embeddings=False)
    f["tensor-absent"] = {"config.json": json.dumps(LLAMA),
                          "model.safetensors": weights(less=("model.layers.0.mlp.up_proj.weight",))}
    f["tensor-unused"] = {"config.json": json.dumps(LLAMA), "model.safetensors": weights({"model.layers.1.mlp.up_proj.weight": [4, 4]})}
    f["tensor-shape"] = {"config.json": json.dumps(LLAMA), "model.safetensors": weights({"model.norm.weight": [2, 2]})}
    good = {"config.json": json.dumps(LLAMA), "model.safetensors": weights()}
    f["tokenizer-broken"] = {**good, "tokenizer.json": "{"}
    f["tokenizer-array"] = {**good, "tokenizer.json": "[]"}
    f["tokenizer-nested"] = {**good, "tokenizer.json": "[" * 3000}
    f["tokenizer-without-model"] = {**good, "tokenizer.json": "{}"}
    f["tokenizer-wordpiece"] = {**good, "tokenizer.json": '{"model":{"type":"WordPiece","vocab":{}}}'}
    f["tokenizer-id-negative"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}'}
    f["tokenizer-id-huge"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":4294967296},"merges":[]}}'}
    f["tokenizer-id-twice"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}'}
    f["tokenizer-merge-unknown"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}'}
    f["generation-config-broken"] = {**good, "generation_config.json": "{,}"}
    return f


# ---------------------------------------------------------------- writing
def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def main():
    for sub in ("gguf", "safetensors", "folder", "split", "model"):
        shutil.rmtree(HERE / sub, ignore_errors=True)
    for name, data in gguf_files().items():
        write(HERE / "gguf" / f"{name}.gguf", data)
    for name, data in safetensors_files().items():
        write(HERE / "safetensors" / f"{name}.safetensors", data)
    for name, files in folder_files().items():
        for file, data in files.items():
            write(HERE / "folder" / name / file, data)
    write(HERE / "model" / "good.gguf", model())
    for name, data in model_files().items():
        write(HERE / "model" / f"{name}.gguf", data)
    for name, files in model_folders().items():
        for file, data in files.items():
            write(HERE / "model" / name / file, data)
    for name, parts in split_files().items():
        count = 2
        for no, data in parts.items():
            write(HERE / "split" / name / f"m-{no:05}-of-{count:05}.gguf", data)
    print(f"{len(model_files())} + {len(model_folders())} models, {len(gguf_files())} GGUF, {len(split_files())} split, {len(safetensors_files())} safetensors, "
          f"{len(folder_files())} folders")


if __name__ == "__main__":
    main()
