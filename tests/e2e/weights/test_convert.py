"""lamina convert: every golden model to GGUF and back, compared with files of llama.cpp's converter; tokenizers; parts; rejected input."""
import fnmatch
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import BARE, PATIENCE, SOURCE, run, some
from ggufs import keys_and_tensors

GOLDEN = SOURCE / "tests/golden"
MODELS = {m["case"]: m for m in json.loads((GOLDEN / "models.json").read_text())}
CASES = sorted(c for c in MODELS if list((GOLDEN / c).glob("model*.safetensors")) and (GOLDEN / c / "golden.safetensors").exists())
TWINS = [c for c in CASES if (GOLDEN / c / "model.gguf").exists()]
# GGUF files of these families store the lanes of queries and keys in pairs: the same sums in another order.
PAIRED = {"arcee", "olmo", "llama", "internlm3", "iquestcoder", "ministral", "ministral3", "mistral", "mixtral", "granite", "granite_swa", "granitemoe", "granitemoe_swa", "smollm3", "granitemoehybrid", "nemotron_h"}
# GGUF stores exponentials of some numbers, which are rounded, and may order the heads of values in another way.
ROUNDED = {"qwen3_next", "qwen3_5", "qwen3_5_moe", "kimi_linear", "bailing_hybrid"}
# Those of these families have the multipliers of config.json in their weights: other roundings, and other weights on the way back.
FOLDED = {"falcon_h1"}
# GGUF stores their float32 norms plus one: the sums are rounded.
PLUS_ONE = {"gemma3/rotations", "minimax_m3_vl_text/blocks"}
# GGUF cannot express these; models.json records the same for llama.cpp's converter.
NO_FORM = {c for c in CASES if not MODELS[c]["gguf"]}
DIFFERENCES = [line.split("\t") for line in (GOLDEN / "convert/differences.tsv").read_text().splitlines() if line and line[0] != "#"]
BLOCKS = {0: (1, 4), 26: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 39: (32, 17)}


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


def tensors_of(path):
    """Return {name: (type, shape, bytes)} of a folder or of one safetensors file."""
    found = {}
    for file in sorted(path.glob("model*.safetensors")) if path.is_dir() else [path]:
        data = file.read_bytes()
        n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + n]).items():
            if name != "__metadata__":
                at, end = t["data_offsets"]
                found[name] = t["dtype"], t["shape"], data[8 + n + at:8 + n + end]
    return found


def gguf_tensors(path):
    data = path.read_bytes()
    keys, tensors, start = keys_and_tensors(data)
    found = {}
    for name, (dims, kind, offset) in tensors.items():
        n = 1
        for d in dims:
            n *= d
        block, size = BLOCKS[kind]
        found[name] = kind, dims, data[start + offset:start + offset + n // block * size]
    return keys, found


# ---- every golden model ----

def dump(lamina, model, golden, out):
    done = lamina("verify", model, golden, "--dump", out)
    assert done.returncode == 0, (model, done.stdout[-500:], done.stderr)
    return {name: t for name, t in tensors_of(out).items()}


def near(a, b):
    """Whether logits differ by at most 1e-4 of the largest, and everything else not at all."""
    x, y = (struct.unpack(f"<{len(t['logits'][2]) // 4}f", t["logits"][2]) for t in (a, b))
    worst = max(abs(p - q) for p, q in zip(x, y)) / max(map(abs, x))
    return worst < 1e-4 and all(a[name] == b[name] for name in a.keys() | b.keys() if name != "logits")


@pytest.mark.parametrize("case", some(CASES))
def test_logits_and_the_way_back(lamina, tmp_path, case):
    """A model that GGUF can express reads back as the same model, to the bit, and its new folder has the tensors of the first one."""
    folder, out, again = GOLDEN / case, tmp_path / "model.gguf", tmp_path / "again"
    done = lamina("convert", folder, out)
    if done.returncode:
        assert case in NO_FORM, done.stderr
        one_line(done, 3)
        assert not list(tmp_path.iterdir())
        return
    golden = folder / "golden.safetensors"
    a, b = dump(lamina, folder, golden, tmp_path / "a"), dump(lamina, out, golden, tmp_path / "b")
    rounded = case.split("/")[0] in ROUNDED
    assert case.split("/")[0] in PAIRED | FOLDED or (near(a, b) if rounded else a == b)
    back = lamina("convert", out, again)
    assert back.returncode == 0, back.stderr
    if case.split("/")[0] in FOLDED or case == "granitemoehybrid/rotated":    # this one is a file of granite's, with its names
        assert dump(lamina, again, golden, tmp_path / "c")["logits"] == (b if case.split("/")[0] in FOLDED else a)["logits"]
        return
    was, now = tensors_of(folder), tensors_of(again)
    unneeded = ("rotary_emb.inv_freq", ".attn.bias", "masked_bias")
    layers = json.loads((folder / "config.json").read_text()).get("num_hidden_layers", 1000)
    further = {name for name in was if any(word.isdigit() and int(word) >= layers for word in name.split(".")[1:3]) and "layers" in name}
    further |= {name for name in was if name.startswith(("mtp.", "model.mtp."))}
    assert (f"warning: {len(further)} tensors that this model does not use" in done.stderr) == bool(further)
    was = {name: t for name, t in was.items() if not name.endswith(unneeded) and name not in further}
    if "embed_tokens.weight" in was:          # the checkpoint of a bare decoder
        now = {name.split(".", 1)[1] if name.split(".")[0] in ("model", "transformer") else name: t for name, t in now.items()}
    if "lm_head.weight" not in now:                                            # a tied head that is stored again
        was.pop("lm_head.weight", None)
    if case == "qwen3_5_moe/apart":                                            # folders have the published layout: all experts in two tensors
        was, now = ({name: t for name, t in tensors.items() if ".experts." not in name} for tensors in (was, now))
    assert was.keys() == now.keys()
    differ = [name for name in was if was[name] != now[name]]
    if case in PLUS_ONE:
        assert all(name.endswith("norm.weight") for name in differ)
        differ = []
    if rounded:
        assert all(name.endswith(("A_log", "norm.weight")) for name in differ)
        differ = []
    assert not differ
    c = dump(lamina, again, golden, tmp_path / "c")
    assert case in PLUS_ONE or (near(a, c) if rounded else a == c)


def test_a_temperature_that_a_file_does_not_have(lamina, tmp_path):
    """llama.cpp's converter leaves it out: the published one is taken. Its steps are then the trained positions of the rotation."""
    case, model = GOLDEN / "mistral4/small", tmp_path / "model.gguf"
    data = (case / "model.gguf").read_bytes()
    model.write_bytes(data.replace(b"mistral4.attention.temperature_length", b"mistral0.attention.temperature_length"))
    done = lamina("verify", model, case / "golden.safetensors")
    assert done.returncode == 0 and "temperature" not in done.stderr, done.stderr
    model.write_bytes(data.replace(b"mistral4.attention.temperature_scale", b"mistral0.attention.temperature_scale"))
    done = lamina("verify", model, case / "golden.safetensors")
    assert done.returncode == 5 and "warning: attention.temperature_scale is missing: 0.1 is taken" in done.stderr, done.stderr
    assert "0.1 · ln(" in lamina("explain", "rope", model).stdout


@pytest.mark.parametrize("case", ["glm4_moe/air", "glm4_moe_lite/flash"])
def test_layers_that_predict_further_tokens_are_reported(lamina, tmp_path, case):
    """Also those that a file counts and does not contain: llama.cpp's converter counts them with --no-mtp too."""
    golden, renamed = GOLDEN / case / "golden.safetensors", tmp_path / "model.gguf"
    for model in GOLDEN / case, GOLDEN / case / "model.gguf":
        done = lamina("verify", model, golden)
        assert done.returncode == 0 and "warning: layers from 2 on predict further tokens: they are not run" in done.stderr, done.stderr
    renamed.write_bytes((GOLDEN / case / "model.gguf").read_bytes().replace(b"blk.2.", b"blk.3."))
    done = lamina("verify", renamed, golden)
    assert done.returncode == 0 and "warning: nextn_predict_layers is 1, but the file contains no such layers" in done.stderr, done.stderr


def explained(what, case, side):
    return any(fnmatch.fnmatchcase(what, d[0]) and fnmatch.fnmatchcase(case, d[1]) and d[2] == side for d in DIFFERENCES)


def compare(what, case, ours, theirs):
    side = "values" if ours is not None and theirs is not None else "ours" if theirs is None else "theirs"
    if ours != theirs and not explained(what, case, side):
        return [f"{case}: {what}: {ours if not isinstance(ours, tuple) else ours[:2]} and {theirs if not isinstance(theirs, tuple) else theirs[:2]}"]
    return []


@pytest.mark.parametrize("case", some(TWINS))
def test_keys_and_tensors_are_llama_cpps(lamina, tmp_path, case):
    theirs, tensors = gguf_tensors(GOLDEN / case / "model.gguf")
    kind = {0: "f32", 1: "f16", 32: "bf16"}.get(theirs.get("general.file_type"), "auto")
    done = lamina("convert", GOLDEN / case, tmp_path / "o.gguf", "--type", kind)
    assert done.returncode == 0, done.stderr
    ours, mine = gguf_tensors(tmp_path / "o.gguf")
    found = []
    arch = theirs["general.architecture"] + "."
    for key in sorted(ours.keys() | theirs.keys()):
        if not key.startswith("tokenizer."):                                   # these folders have none; the GGUF files' is invented
            found += compare(key.removeprefix(arch), case, ours.get(key), theirs.get(key))
    for name in sorted(mine.keys() | tensors.keys()):
        found += compare(name, case, mine.get(name), tensors.get(name))
    assert not found, "\n".join(found)


def test_every_difference_is_still_one(lamina, tmp_path):
    """Every row of differences.tsv still explains a difference."""
    unused = {tuple(d[:3]) for d in DIFFERENCES}
    for case in TWINS:
        theirs, tensors = gguf_tensors(GOLDEN / case / "model.gguf")
        kind = {0: "f32", 1: "f16", 32: "bf16"}.get(theirs.get("general.file_type"), "auto")
        assert lamina("convert", GOLDEN / case, tmp_path / "o.gguf", "--type", kind, "--force").returncode == 0
        ours, mine = gguf_tensors(tmp_path / "o.gguf")
        arch = theirs["general.architecture"] + "."
        pairs = [(k.removeprefix(arch), ours.get(k), theirs.get(k)) for k in ours.keys() | theirs.keys()]
        pairs += [(n, mine.get(n), tensors.get(n)) for n in mine.keys() | tensors.keys()]
        for what, a, b in pairs:
            side = "values" if a is not None and b is not None else "ours" if b is None else "theirs"
            if a != b:
                unused -= {d for d in unused if fnmatch.fnmatchcase(what, d[0]) and fnmatch.fnmatchcase(case, d[1]) and d[2] == side}
    assert not unused


# GGUF files that do not contain all that their folders do.
UNSAID = {"glm/half": "sizes",                           # the converter writes another context length
          "phi/joined-gguf": "tensors"}                  # joined projections, for which config.json has no key


@pytest.mark.parametrize("case", some(TWINS, step=8))
def test_llama_cpps_files_become_folders(lamina, tmp_path, case):
    """A file written by llama.cpp's converter becomes a folder with the reference's logits."""
    done = lamina("convert", GOLDEN / case / "model.gguf", tmp_path / "f")
    if case in UNSAID and done.returncode:
        one_line(done, 3, f"config.json cannot express its {UNSAID[case]}")
        return
    assert done.returncode == 0, done.stderr
    verified = lamina("verify", tmp_path / "f", GOLDEN / case / "golden.safetensors")
    assert verified.returncode == 0, verified.stdout[-400:] + verified.stderr
    assert json.loads((tmp_path / "f/config.json").read_text())["architectures"]


# ---- types ----

def bf16(x):
    n = struct.unpack("<I", struct.pack("<f", x))[0]
    return (n + 0x7fff + (n >> 16 & 1)) >> 16


def test_types(lamina, tmp_path):
    source = tensors_of(GOLDEN / "llama/gqa")
    for kind, number, rest in (("f32", 0, 0), ("f16", 1, 1), ("bf16", 32, 30), ("q8_0", 7, 8), ("auto", 0, 0)):
        assert lamina("convert", GOLDEN / "llama/gqa", tmp_path / kind, "--type", kind).returncode == 2       # a folder from a folder
        done = lamina("convert", GOLDEN / "llama/gqa", tmp_path / f"{kind}.gguf", "--type", kind, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["family"] == "llama" and document["bytes"] == sum(t["bytes"] for t in document["tensors"])
        assert document["warnings"] == []
        keys, tensors = gguf_tensors(tmp_path / f"{kind}.gguf")
        assert keys["general.file_type"] == number
        for name, (stored, dims, data) in tensors.items():
            want = 0 if "norm" in name else rest if dims[0] % 32 == 0 or kind != "q8_0" else 1
            assert stored == want, (kind, name)
    data = source["model.embed_tokens.weight"][2]
    values = struct.unpack(f"<{len(data) // 4}f", data)
    _, tensors = gguf_tensors(tmp_path / "bf16.gguf")
    assert struct.unpack(f"<{len(values)}H", tensors["token_embd.weight"][2]) == tuple(bf16(x) for x in values)
    name = next(n for n, t in gguf_tensors(tmp_path / "q8_0.gguf")[1].items() if t[0] == 8)
    q8, f32 = (gguf_tensors(tmp_path / f"{k}.gguf")[1][name] for k in ("q8_0", "f32"))
    block = struct.unpack("<32f", f32[2][:128])
    top = max(abs(x) for x in block) / 127
    assert list(struct.unpack("<32b", q8[2][2:34])) == [round_half_up(x / top) for x in block]


def round_half_up(x):
    return int(abs(x) + 0.5) * (1 if x >= 0 else -1)


def test_a_file_in_another_type(lamina, tmp_path):
    assert lamina("convert", GOLDEN / "llama/gqa/model.gguf", tmp_path / "q.gguf", "--type", "q8_0").returncode == 0
    assert lamina("quantize", GOLDEN / "llama/gqa/model.gguf", tmp_path / "p.gguf", "q8_0", "--pure").returncode == 0
    a, b = gguf_tensors(tmp_path / "q.gguf"), gguf_tensors(tmp_path / "p.gguf")
    assert a[0]["general.file_type"] == 7 and a[1] == b[1]
    assert lamina("convert", tmp_path / "q.gguf", tmp_path / "f").returncode == 0
    assert {t[0] for t in tensors_of(tmp_path / "f").values()} <= {"F32", "F16"}  # F16: rows that are not whole blocks
    assert lamina("convert", tmp_path / "q.gguf", tmp_path / "h", "--type", "bf16").returncode == 0
    assert {t[0] for t in tensors_of(tmp_path / "h").values()} == {"BF16"}
    assert json.loads((tmp_path / "h/config.json").read_text())["torch_dtype"] == "bfloat16"


# ---- parts ----

def test_parts(lamina, tmp_path):
    whole = tmp_path / "whole.gguf"
    assert lamina("convert", GOLDEN / "llama/gqa", whole).returncode == 0
    keys, tensors = gguf_tensors(whole)
    done = lamina("convert", whole, tmp_path / "p.gguf", "--split-max-tensors", "5", "--json")
    document = json.loads(done.stdout)
    n = (len(tensors) + 4) // 5
    assert document["files"] == n and document["path"] == str(tmp_path / f"p-00001-of-{n:05}.gguf")
    seen = {}
    for i in range(n):
        part, some_tensors = gguf_tensors(tmp_path / f"p-{i + 1:05}-of-{n:05}.gguf")
        assert (part["split.no"], part["split.count"], part["split.tensors.count"]) == (i, n, len(tensors))
        assert ("general.architecture" in part) == (i == 0) and len(some_tensors) <= 5
        seen.update(some_tensors)
    assert seen == tensors
    assert lamina("verify", tmp_path / f"p-00002-of-{n:05}.gguf", GOLDEN / "llama/gqa/golden.safetensors").returncode == 0
    assert lamina("convert", tmp_path / f"p-00001-of-{n:05}.gguf", tmp_path / "joined.gguf").returncode == 0
    assert (tmp_path / "joined.gguf").read_bytes() == whole.read_bytes()
    again = lamina("convert", tmp_path / f"p-00003-of-{n:05}.gguf", tmp_path / "r.gguf", "--split-max-size", "40k", "--json")
    parts = json.loads(again.stdout)
    sizes = [sum(t["bytes"] for t in parts["tensors"] if t["part"] == i) for i in range(parts["files"])]
    assert parts["files"] > 1 and all(s <= 40000 or sum(t["part"] == i for t in parts["tensors"]) == 1 for i, s in enumerate(sizes))
    one_line(lamina("convert", whole, tmp_path / "p.gguf", "--split-max-tensors", "5"), 2, "p-00001-of-", "already exists")
    shards = lamina("convert", whole, tmp_path / "f", "--split-max-size", "40k")
    assert shards.returncode == 0 and (tmp_path / "f/model.safetensors.index.json").exists()
    assert lamina("verify", tmp_path / "f", GOLDEN / "llama/gqa/golden.safetensors").returncode == 0


# ---- tokenizers, templates, cards ----

TOKENIZERS = SOURCE / "build/assets/tokenizers"
REAL = {"deepseek_v3": (129280, "deepseek-v3"), "gpt2": (50257, "gpt-2"), "llama3_1": (128256, "llama-bpe"), "mistral": (32000, "default"),
        "qwen3": (151936, "qwen2")}
TEXTS = ["Hello  World \u00fcn\u00efcode \u4f60\u597d 12345", "<|im_start|>user\n hi<|im_end|> </s> [INST]", "\n\n\tx = [1,2,3]  # \U0001f999"]


@pytest.mark.parametrize("name", some(REAL, step=5))
def test_real_tokenizers(lamina, tmp_path, name):
    rows, pre = REAL[name]
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": rows, "hidden_size": 4, "intermediate_size": 4,
              "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 8, "rms_norm_eps": 1e-5}
    (tmp_path / "c.json").write_text(json.dumps(config))
    folder = tmp_path / "folder"
    assert lamina("synth", tmp_path / "c.json", folder, "-q").returncode == 0
    for file in folder.glob("tokenizer*"):
        file.unlink()
    for file in (TOKENIZERS / name).iterdir():
        shutil.copy(file, folder)
    done = lamina("convert", folder, tmp_path / "o.gguf")
    assert done.returncode == 0, done.stderr
    keys, _ = gguf_tensors(tmp_path / "o.gguf")
    assert keys["tokenizer.ggml.pre"] == pre and len(keys["tokenizer.ggml.tokens"]) == rows
    lines = "".join(json.dumps(t) + "\n" for t in TEXTS)
    (tmp_path / "t").write_text(lines)
    ids = [lamina("tokenize", m, "--jsonl", tmp_path / "t", "--add-special").stdout for m in (folder, tmp_path / "o.gguf")]
    assert ids[0] == ids[1] and ids[0].count("\n") == len(TEXTS)
    template = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template") if (folder / "tokenizer_config.json").exists() else None
    if isinstance(template, str):
        assert keys["tokenizer.chat_template"] == template
    back = lamina("convert", tmp_path / "o.gguf", tmp_path / "again")
    assert back.returncode == 0, back.stderr
    assert lamina("tokenize", tmp_path / "again", "--jsonl", tmp_path / "t", "--add-special").stdout == ids[0]


def sentencepiece(pieces, add_prefix=True):
    """Return a tokenizer.model: pieces, trainer and normalizer, encoded as its protocol buffer."""
    def field(number, kind, body):
        return varint(number << 3 | kind) + (varint(len(body)) + body if kind == 2 else body)

    def varint(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    out = b""
    for text, score, kind in pieces:
        out += field(1, 2, field(1, 2, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, varint(kind)))
    return out + field(2, 2, field(3, 0, varint(2))) + field(3, 2, field(3, 0, varint(int(add_prefix))))


def test_sentencepiece_alone(lamina, tmp_path):
    """tokenizer.model without tokenizer.json: pieces, scores and types are copied; added tokens and rows without a piece get entries."""
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)] + [(f"<0x{i:02X}>", 0, 6) for i in range(256)]
    pieces += [("\u2581a", -1, 1), ("bc", -2, 1), ("\u2581", -3, 1), ("a", -4, 1), ("b", -5, 1), ("c", -6, 1)]
    folder = tmp_path / "f"
    shutil.copytree(GOLDEN / "llama/mha-tied", folder, ignore=shutil.ignore_patterns("golden*", "*.gguf"))
    config = json.loads((folder / "config.json").read_text())
    rows = len(pieces) + 3
    config["vocab_size"] = rows
    (tmp_path / "c.json").write_text(json.dumps(config))
    shutil.rmtree(folder)
    assert lamina("synth", tmp_path / "c.json", folder, "-q").returncode == 0
    for file in folder.glob("tokenizer*"):
        file.unlink()
    (folder / "tokenizer.model").write_bytes(sentencepiece(pieces))
    (folder / "added_tokens.json").write_text(json.dumps({"<|user|>": rows - 3, "word": rows - 2}))
    done = lamina("convert", folder, tmp_path / "o.gguf")
    assert done.returncode == 0, done.stderr
    keys, _ = gguf_tensors(tmp_path / "o.gguf")
    assert keys["tokenizer.ggml.model"] == "llama" and keys["tokenizer.ggml.tokens"][:len(pieces)] == [p[0] for p in pieces]
    assert keys["tokenizer.ggml.tokens"][-3:] == ["<|user|>", "word", f"[PAD{rows - 1}]"]
    assert keys["tokenizer.ggml.token_type"] == [p[2] for p in pieces] + [3, 4, 5]
    assert keys["tokenizer.ggml.scores"] == [p[1] for p in pieces] + [-1000, -1000, -10000]
    assert keys["tokenizer.ggml.bos_token_id"] == 1 and keys["tokenizer.ggml.unknown_token_id"] == 0
    ids = json.loads(lamina("tokenize", tmp_path / "o.gguf", "-p", "abc word", "--json").stdout)
    assert "259" in json.dumps(ids)                                            # "▁a"
    for broken in (b"", b"\x0a\xff", b"\x0a\x05abc", sentencepiece(pieces)[:-40] + b"\xff" * 8):
        (folder / "tokenizer.model").write_bytes(broken)
        bad = lamina("convert", folder, tmp_path / "b.gguf")
        assert bad.returncode in (0, 3) and (bad.returncode == 3 or broken == b""), bad.stderr
        (tmp_path / "b.gguf").unlink(missing_ok=True)


CARD = """---
license: apache-2.0
license_link: "https://example.org/licence"
language:
- en
- my
tags: [chat, small]
pipeline_tag: text-generation
base_model: some-org/Base-1B   # the parent
datasets:
  - a/b
---
# Text
license: other
"""


def test_cards_and_sampling(lamina, tmp_path):
    folder = tmp_path / "My-model-0.5B"
    shutil.copytree(GOLDEN / "llama/gqa", folder)
    (folder / "README.md").write_text(CARD)
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 0.6, "top_k": 20, "top_p": 0.9}))
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert lamina("convert", folder, tmp_path / "o.gguf").returncode == 0
    keys, _ = gguf_tensors(tmp_path / "o.gguf")
    assert keys["general.license"] == "apache-2.0" and keys["general.license.link"] == "https://example.org/licence"
    assert keys["general.languages"] == ["en", "my"] and keys["general.tags"] == ["chat", "small", "text-generation"]
    assert keys["general.base_model.count"] == 1 and keys["general.base_model.0.name"] == "Base 1B"
    assert keys["general.base_model.0.repo_url"] == "https://huggingface.co/some-org/Base-1B"
    assert keys["general.dataset.0.repo_url"] == "https://huggingface.co/a/b"
    assert keys["general.name"] == "My Model 0.5B" and keys["general.sampling.top_k"] == 20
    assert abs(keys["general.sampling.temp"] - 0.6) < 1e-6 and keys["tokenizer.chat_template"] == "{{ messages[0].content }}"
    named = lamina("convert", folder, tmp_path / "n.gguf", "--name", "Another")
    assert named.returncode == 0 and gguf_tensors(tmp_path / "n.gguf")[0]["general.name"] == "Another"
    assert lamina("convert", tmp_path / "o.gguf", tmp_path / "back").returncode == 0
    assert json.loads((tmp_path / "back/generation_config.json").read_text())["top_k"] == 20
    assert json.loads((tmp_path / "back/tokenizer_config.json").read_text())["chat_template"] == "{{ messages[0].content }}"
    card = (tmp_path / "back/README.md").read_text()
    assert "license: apache-2.0" in card and "- some-org/Base-1B" in card and "- my" in card
    assert lamina("convert", tmp_path / "back", tmp_path / "o2.gguf").returncode == 0
    again, _ = gguf_tensors(tmp_path / "o2.gguf")
    same = {k for k in keys if k.startswith(("general.", "tokenizer.")) and k != "general.name"}
    assert {k: again.get(k) for k in same} == {k: keys[k] for k in same}


# ---- rejected input ----

def test_rejections(lamina, tmp_path):
    folder, out = GOLDEN / "llama/gqa", tmp_path / "o.gguf"
    one_line(lamina("convert", folder, tmp_path / "none"), 2, "end the name in .gguf")
    one_line(lamina("convert", folder, out, "--type", "q4_k_m"), 2, '"q4_k_m" is not one of')
    one_line(lamina("convert", tmp_path / "nothing", out), 1, "nothing")
    assert lamina("convert", folder, out).returncode == 0
    there = lamina("convert", folder, out)
    one_line(there, 2, "o.gguf: already exists")
    assert "hint: use --force to replace it\n" in there.stderr
    assert lamina("convert", folder, out, "--force").returncode == 0
    one_line(lamina("convert", out, out, "--force"), 2, "the same file")
    (tmp_path / "link.gguf").symlink_to(out)
    one_line(lamina("convert", out, tmp_path / "link.gguf", "--force"), 2, "the same file")
    os.link(out, tmp_path / "hard.gguf")
    one_line(lamina("convert", out, tmp_path / "hard.gguf", "--force"), 2, "the same file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    one_line(lamina("convert", out, tmp_path / "mine", "--force"), 2, "thesis.txt", "not created by convert")
    shutil.copytree(folder, tmp_path / "theirs")
    one_line(lamina("convert", out, tmp_path / "theirs", "--force"), 2, "not created by convert")
    assert lamina("convert", out, tmp_path / "f").returncode == 0
    one_line(lamina("convert", out, tmp_path / "f"), 2, "already exists")
    assert lamina("convert", out, tmp_path / "f", "--force").returncode == 0
    one_line(lamina("convert", folder, tmp_path / "no/o.gguf"), 1, "no")
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".lamina-")]


def test_a_dry_run_writes_nothing(lamina, tmp_path):
    dry = json.loads(lamina("convert", GOLDEN / "llama/gqa", "o.gguf", "--dry-run", "--json", cwd=tmp_path).stdout)
    back = json.loads(lamina("convert", GOLDEN / "llama/gqa/model.gguf", "folder", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert dry["path"] is None and back["path"] is None and not list(tmp_path.iterdir()) and back["bytes"] == dry["bytes"]


def test_weights_that_do_not_fit(lamina, tmp_path):
    """Missing and misshapen tensors are named; an unused one is reported and left out."""
    folder = tmp_path / "f"
    shutil.copytree(GOLDEN / "llama/mqa", folder, ignore=shutil.ignore_patterns("golden*", "*.gguf"))
    file = folder / "model.safetensors"
    data = file.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + n]), data[8 + n:]

    def write(h):
        text = json.dumps(h).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + body)
    renamed = {("x.extra.weight" if k == "model.norm.weight" else k): v for k, v in header.items()}
    write(renamed)
    one_line(lamina("convert", folder, tmp_path / "o.gguf"), 3, "model.norm.weight", "missing")
    name = "model.layers.0.mlp.up_proj.weight"
    write({**header, name: {**header[name], "shape": header[name]["shape"][::-1]}})
    one_line(lamina("convert", folder, tmp_path / "o.gguf"), 3, name)
    write({**header, "x.extra.weight": {"dtype": "F32", "shape": [0], "data_offsets": [len(body), len(body)]}})
    extra = lamina("convert", folder, tmp_path / "o.gguf")
    assert extra.returncode == 3 or "1 tensor that this model does not use, the first is x.extra.weight: not carried" in extra.stderr
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


# ---- interruption ----

@pytest.fixture(scope="module")
def large(lamina, tmp_path_factory):
    out = tmp_path_factory.mktemp("large") / "in"
    assert lamina("synth", "gpt2", out, "--type", "f32", "-q").returncode == 0
    return out


def begun(build, folder, *args):
    made = subprocess.Popen([build / "src/cli/lamina", "convert", *args], stderr=subprocess.PIPE, env={**os.environ, **BARE})
    end = time.monotonic() + PATIENCE
    while not any(name.startswith(".lamina-") for name in os.listdir(folder)) and made.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    return made


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("back", [False, True])
def test_stopped(lamina, build, large, tmp_path, sign, back):
    source, out = large, tmp_path / ("f" if back else "o.gguf")
    if back:
        source = large.parent / "in.gguf"
        if not source.exists():
            assert lamina("convert", large, source, "--type", "bf16").returncode == 0
    made = begun(build, tmp_path, source, out, "-t", "1")
    time.sleep(0.03)
    made.send_signal(sign)
    made.communicate(timeout=PATIENCE)
    if made.returncode:
        assert not out.exists()
        assert sign == signal.SIGKILL or not list(tmp_path.iterdir())
    assert lamina("convert", source, out, "--force").returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_a_full_disk(build, large, tmp_path):
    (tmp_path / "o.gguf").write_bytes(b"mine")
    done = subprocess.run(["sh", "-c", 'ulimit -f 40000; exec "$0" "$@"', build / "src/cli/lamina", "convert", large, tmp_path / "o.gguf", "--force"],
                          capture_output=True, text=True, env={**os.environ, **BARE})
    one_line(done, 1, "o.gguf")
    assert (tmp_path / "o.gguf").read_bytes() == b"mine" and [p.name for p in tmp_path.iterdir()] == ["o.gguf"]


def test_memory_does_not_grow_with_the_model(build, lamina, large, tmp_path):
    """Converting 497 MB of weights takes less than 200 MB in addition to the largest tensor (154 MB, mapped)."""
    if os.environ.get("LAMINA_SANITIZE", "none") != "none":
        pytest.skip("sanitizers take memory of their own")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@"', build / "src/cli/lamina", "convert", large, tmp_path / "o.gguf", "--type", "bf16"],
                          capture_output=True, text=True, env={**os.environ, **BARE})
    assert done.returncode == 0, done.stderr
    assert max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) <= max(before, 354 * 1024)
