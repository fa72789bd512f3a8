"""safetensors with one thing wrong, and the folders that hold several."""
import json

from gguf_files import MAX, u64


# ---------------------------------------------------------------- one file
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
    f["config-infinity"] = config('{"rope_theta": Infinit}')
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
