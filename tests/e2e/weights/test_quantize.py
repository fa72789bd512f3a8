"""lamina quantize: the bytes of llama.cpp's quantiser; importance matrices, requested types, rejected input."""
import hashlib
import itertools
import json
import os
import re
import signal
import struct
import subprocess
import time

import pytest
from conftest import BARE, PATIENCE, SOURCE, run, some
from ggufs import keys_and_tensors

GOLDEN = SOURCE / "tests/golden/filetypes"
FILES = [line.split("\t") for line in (GOLDEN / "files.tsv").read_text().splitlines()]
KINDS = {model: kind for model, kind, *_ in FILES}


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def made(lamina, tmp_path_factory):
    """The source models of the golden files, by name."""
    folder = tmp_path_factory.mktemp("sources")
    for model, kind in KINDS.items():
        assert lamina("synth", GOLDEN / f"{model}.json", folder / f"{model}.gguf", "--type", kind, "-q").returncode == 0
    return {model: folder / f"{model}.gguf" for model in KINDS}


def digest(data):
    return hashlib.sha256(data).hexdigest()


# ---- bytes of llama.cpp ----

@pytest.mark.parametrize("model, kind, source, type_, importance, golden", some(FILES, step=12),
                         ids=["-".join((f[0], f[3]) + (("weighted",) if f[4] != "-" else ())) for f in some(FILES, step=12)])
def test_bytes_are_llama_cpps(lamina, made, tmp_path, model, kind, source, type_, importance, golden):
    assert digest(made[model].read_bytes()) == source, "the source changed: tools/oracle/quantized.py makes the goldens again"
    more = () if importance == "-" else ("--imatrix", GOLDEN / importance)
    done = lamina("quantize", made[model], tmp_path / "out.gguf", type_, *more)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    data = (tmp_path / "out.gguf").read_bytes()
    if importance != "-":
        keys, _, start = keys_and_tensors(data)
        assert keys["quantize.imatrix.file"] == str(GOLDEN / importance)[:127] and keys["quantize.imatrix.dataset"] == "even.txt"
        assert keys["quantize.imatrix.chunks_count"] == 7 and keys["quantize.imatrix.entries_count"] > 10
        data = data[start:]
    assert digest(data) == golden


def test_threads_and_levels_change_no_byte(lamina, made, tmp_path):
    seen = set()
    for i, more in enumerate((["-t", "1"], ["-t", "5"], ["-t", "3", "--cpu", "ref"], ["--cpu", "avx2"])):
        done = lamina("quantize", made["four-experts"], tmp_path / str(i), "q3_k_m", *more)
        if "--cpu" in more and done.returncode == 2:
            continue                                     # this machine lacks the instruction set
        assert done.returncode == 0, done.stderr
        seen.add(digest((tmp_path / str(i)).read_bytes()))
    assert len(seen) == 1


# ---- types that require importance ----

CHOSEN = [line.split("\t") for line in (GOLDEN / "weighted.tsv").read_text().splitlines()]


def write_importance(path, names):
    """Write importance of ones in the older format: {name: number of inputs}."""
    data = struct.pack("<i", len(names))
    for name, n in names.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 1, n) + struct.pack("<f", 1.0) * n
    path.write_bytes(data + struct.pack("<ii", 1, 4) + b"ones")


@pytest.fixture(scope="module", params=sorted({model for model, *_ in CHOSEN}))
def weighted(lamina, tmp_path_factory, request):
    """A model, and importance of ones for all of its matrices."""
    folder = tmp_path_factory.mktemp(request.param)
    source, importance = folder / "f16.gguf", folder / "ones.dat"
    assert lamina("synth", GOLDEN / f"{request.param}.json", source, "--type", "f16", "-q").returncode == 0
    _, tensors, _ = keys_and_tensors(source.read_bytes())
    write_importance(importance, {name: dims[0] * (dims[2] if len(dims) > 2 else 1) for name, (dims, *_) in tensors.items()
                                  if len(dims) > 1 and name not in ("token_embd.weight", "position_embd.weight")})
    return request.param, source, importance


@pytest.fixture(scope="module")
def short(lamina, tmp_path_factory):
    """Two layers of a golden model: types of few bits are searched for, which takes seconds for all 17 of them."""
    out = tmp_path_factory.mktemp("short") / "f32.gguf"
    assert lamina("synth", GOLDEN / "grouped-tied.json", out, "--type", KINDS["grouped-tied"], "--layers", "2", "-q").returncode == 0
    return out


def test_types_with_importance_are_llama_cpps(lamina, weighted):
    model, source, importance = weighted
    for name, type_, golden in CHOSEN:
        if name == model:
            done = lamina("quantize", source, type_, "--imatrix", importance, "--dry-run", "--json")
            assert done.returncode == 0, done.stderr
            tensors = sorted(json.loads(done.stdout)["tensors"], key=lambda t: t["name"])
            runs = [(kind, len(list(group))) for kind, group in itertools.groupby(t["to"] for t in tensors)]
            assert " ".join(f"{n}*{kind}" if n > 1 else kind for kind, n in runs) == golden, type_


@pytest.mark.parametrize("type_", ["iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "q2_k_s"])
def test_low_types_require_importance(lamina, short, tmp_path, type_):
    source, out = short, tmp_path / "out.gguf"
    done = lamina("quantize", source, out, type_)
    one_line(done, 2, "requires an importance matrix")
    assert "hint: measure the importance" in done.stderr and "--imatrix" in done.stderr and not out.exists()
    assert lamina("quantize", source, type_, "--dry-run").returncode == 0
    assert lamina("quantize", source, out, type_, "--imatrix", GOLDEN / "grouped-tied.imatrix.dat").returncode == 0
    done = lamina("run", out, "--ids", "1 2 3", "-n", "2", "--temp", "0", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ids"], done.stderr


def test_a_low_type_rejects_a_tensor_without_importance(lamina, short, tmp_path):
    one, out = tmp_path / "one.dat", tmp_path / "out.gguf"
    _, tensors, _ = keys_and_tensors(short.read_bytes())
    write_importance(one, {"blk.0.ffn_up.weight": tensors["blk.0.ffn_up.weight"][0][0]})
    one_line(lamina("quantize", short, out, "iq2_xs", "--imatrix", one), 2, "does not contain this tensor")
    for type_ in ("iq3_s", "iq3_m"):                     # these do without
        assert lamina("quantize", short, out, type_, "--force").returncode == 0


# ---- requested types ----

def types(lamina, *args):
    done = lamina("quantize", *args, "--json")
    assert done.returncode == 0, done.stderr
    return {t["name"]: t["to"] for t in json.loads(done.stdout)["tensors"]}


def test_requested_types(lamina, made, tmp_path):
    source, out = made["grouped-tied"], tmp_path / "out.gguf"
    got = types(lamina, source, out, "q4_k_m", "--keep", r"blk\.3\..*=q8_0", "--keep", "ffn_up=f16", "--embedding-type", "q5_k")
    assert got["token_embd.weight"] == "q5_k" and got["blk.3.ffn_up.weight"] == "q8_0" and got["blk.4.ffn_up.weight"] == "f16"
    assert got["blk.3.attn_norm.weight"] == "f32" and got["blk.5.attn_q.weight"] == "q4_k"
    _, tensors, _ = keys_and_tensors(out.read_bytes())
    assert tensors["blk.3.ffn_up.weight"][1] == 8 and tensors["token_embd.weight"][1] == 13
    pure = types(lamina, source, tmp_path / "pure.gguf", "q4_k_m", "--pure")
    assert {t for name, t in pure.items() if "norm" not in name} == {"q4_k"}
    assert types(lamina, made["four-experts"], tmp_path / "head.gguf", "q4_0", "--output-type", "f16")["output.weight"] == "f16"


def test_a_dry_run_writes_nothing_and_returns_the_size(lamina, made, tmp_path):
    dry = json.loads(lamina("quantize", made["fused"], "q5_k_m", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert dry["path"] is None and not list(tmp_path.iterdir())
    wet = json.loads(lamina("quantize", made["fused"], tmp_path / "o", "q5_k_m", "--json").stdout)
    assert dry["bytes"] == wet["bytes"] and dry["bpw"] == wet["bpw"] and dry["bytes"] < dry["bytes_before"] / 4
    _, tensors, start = keys_and_tensors((tmp_path / "o").read_bytes())
    assert 0 <= (tmp_path / "o").stat().st_size - start - wet["bytes"] < 32 * len(tensors)
    table = lamina("quantize", made["fused"], "q5_k_m", "--dry-run").stdout.splitlines()
    assert table[0].split() == ["from", "to", "tensors", "bytes"] and len({len(row) for row in table}) == 1
    assert all(t["rmse"] > 0 for t in wet["tensors"] if t["to"] != t["from"])


def test_rows_that_do_not_fit_are_reported(lamina, made, tmp_path):
    done = lamina("quantize", made["odd-widths"], tmp_path / "o", "q4_k_m")
    assert done.returncode == 0 and re.search(r"warning: \d+ of \d+ tensors have rows that do not fit the blocks of q4_k_m", done.stderr)
    assert "warning" not in lamina("quantize", made["grouped-tied"], tmp_path / "p", "q4_k_m").stderr


@pytest.mark.parametrize("source", ["", "model.gguf"])
def test_experts_published_in_mxfp4_keep_it(lamina, tmp_path, source):
    model = SOURCE / "tests/golden/gpt_oss/mxfp4" / source
    for flags, expected in ([], "mxfp4"), (["--requantize"], "q8_0"):
        done = lamina("quantize", model, tmp_path / "q.gguf", "q8_0", "--force", *flags)
        assert done.returncode == 0 and ("warning: 6 tensors keep mxfp4" in done.stderr) == (not flags), done.stderr
        tensors = json.loads(lamina("inspect", tmp_path / "q.gguf", "--tensors", "--json").stdout)
        assert {t["type"] for t in tensors if t["name"].endswith("_exps.weight")} == {expected}
        assert "q8_0" in {t["type"] for t in tensors if "attn_q" in t["name"]}


def test_kept_experts_do_not_count_as_replaced(lamina, tmp_path):
    """The rows of 32 of this model fit no block of 256: nine matrices are replaced, six experts keep their type."""
    done = lamina("quantize", SOURCE / "tests/golden/gpt_oss/mxfp4/model.gguf", tmp_path / "q.gguf", "q4_k_m")
    assert "warning: 9 of 41 tensors have rows that do not fit" in done.stderr and "mxfp4" in done.stderr, done.stderr


def test_the_file_runs(lamina, tmp_path):
    """A quantised file of a model with random weights runs."""
    config = SOURCE / "tests/golden/filetypes/grouped-tied.json"
    assert lamina("synth", config, tmp_path / "f32.gguf", "--type", "f32", "-q").returncode == 0
    assert lamina("quantize", tmp_path / "f32.gguf", tmp_path / "q.gguf", "q6_k", "-q").returncode == 0
    done = lamina("run", tmp_path / "q.gguf", "--ids", "1 2 3", "-n", "4", "--temp", "0", "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)["ids"]) <= 4, done.stderr


# ---- parts ----

def test_parts(lamina, made, tmp_path):
    """Parts have convert's names and keys; joined again they are the file that is not split."""
    source, importance = made["grouped-tied"], GOLDEN / "grouped-tied.imatrix.dat"
    args = [source, tmp_path / "p.gguf", "q4_k_m", "--imatrix", importance, "--split-max-size", "1M"]
    assert lamina("quantize", source, tmp_path / "whole.gguf", "q4_k_m", "--imatrix", importance).returncode == 0
    dry = lamina("quantize", *args, "--dry-run")
    assert dry.returncode == 0 and re.search(r" MB in \d+ files from ", dry.stderr) and not list(tmp_path.glob("p*")), dry.stderr
    done = lamina("quantize", *args, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    n = document["files"]
    parts = [tmp_path / f"p-{i + 1:05}-of-{n:05}.gguf" for i in range(n)]
    assert n > 2 and document["path"] == str(parts[0]) and sorted(tmp_path.glob("p*")) == parts
    for i, path in enumerate(parts):
        keys, tensors, _ = keys_and_tensors(path.read_bytes())
        assert (keys["split.no"], keys["split.count"], keys["split.tensors.count"]) == (i, n, len(document["tensors"]))
        assert ("general.file_type" in keys) == ("quantize.imatrix.file" in keys) == (i == 0)
        assert sum(t["bytes"] for t in document["tensors"] if t["part"] == i) <= 1000000
        assert {t["name"] for t in document["tensors"] if t["part"] == i} == set(tensors)
    assert lamina("convert", parts[1], tmp_path / "joined.gguf").returncode == 0
    assert (tmp_path / "joined.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    one_line(lamina("quantize", *args), 2, "p-00001-of-", "already exists")
    parts[0].unlink()                                    # later parts alone are left over from an interrupted run
    assert lamina("quantize", *args).returncode == 0 and parts[0].exists()
    assert lamina("quantize", parts[2], tmp_path / "again.gguf", "q2_k", "--requantize", "--split-max-tensors", "40").returncode == 0
    assert len(list(tmp_path.glob("again-0000?-of-00004.gguf"))) == 4
    one_line(lamina("quantize", parts[0], tmp_path / "p.gguf", "q4_k_m", "--requantize", "--split-max-size", "1M", "--force"),
             2, "input and output are the same file")
    assert lamina("quantize", source, tmp_path / "one.gguf", "q8_0", "--split-max-size", "1G", "--json").returncode == 0
    assert (tmp_path / "one.gguf").exists()              # one part needs no number


# ---- rejected input ----

def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


def test_rejections(lamina, made, tmp_path):
    source, out = made["fused"], tmp_path / "out.gguf"
    one_line(lamina("quantize", source, out, "q9_k"), 2, '"q9_k" is not one of')
    one_line(lamina("quantize", source, out), 2, "requires IN, OUT and TYPE")
    one_line(lamina("quantize", source, source, "q8_0", "--force"), 2, "input and output are the same file")
    (tmp_path / "link.gguf").symlink_to(source)
    one_line(lamina("quantize", source, tmp_path / "link.gguf", "q8_0", "--force"), 2, "the same file")
    one_line(lamina("quantize", source, out, "q8_0", "--keep", "q8_0"), 2, "is not REGEX=TYPE")
    one_line(lamina("quantize", source, out, "q8_0", "--keep", "(=q8_0"), 2, "keep")
    one_line(lamina("quantize", source, out, "q8_0", "--keep", "attn=q9"), 2, '"q9"')
    for rule, near in (("ffn_upp=f16", 'did you mean "ffn_up"?'), ("q_proj=f16", "attn_qkv, "), ("norm=f32", "ffn_down")):
        nothing = lamina("quantize", source, out, "q8_0", "--tensor-type", "attn_qkv=q8_0", "--tensor-type", rule)
        one_line(nothing, 2, f'"{rule}" matches no matrix of this model')
        assert near in nothing.stderr and not out.exists()
    one_line(lamina("quantize", made["odd-widths"], out, "q8_0", "--keep", "ffn_down=q4_k"), 2, "ffn_down", "not a whole number of q4_k blocks")
    one_line(lamina("quantize", source, tmp_path / "no/out.gguf", "q8_0"), 1, "no")
    assert lamina("quantize", source, out, "q8_0", "-q").returncode == 0
    there = lamina("quantize", source, out, "q4_0")
    one_line(there, 2, "out.gguf: already exists")
    assert there.stderr.startswith("hint: use --force to replace it\n")
    again = lamina("quantize", out, tmp_path / "again.gguf", "q4_0")
    one_line(again, 2, "is quantised already (q8_0)")
    assert "hint: " in again.stderr and "--requantize" in again.stderr
    (tmp_path / "again.gguf").touch()                    # empty, as mktemp leaves it
    assert lamina("quantize", out, tmp_path / "again.gguf", "q4_0", "--requantize").returncode == 0
    one_line(lamina("quantize", source, out, "q8_0", "--force", "--imatrix", tmp_path / "none"), 1, "none")
    one_line(lamina("quantize", source, out, "q8_0", "--force", "--imatrix", source), 3, "not an importance matrix")
    one_line(lamina("quantize", source, out, "q8_0", "--force", "--imatrix", GOLDEN / "files.tsv"), 3, "files.tsv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.gguf", "link.gguf", "out.gguf"]


def test_importance_of_another_model(lamina, made, tmp_path):
    """Tensors that the matrix lacks cause a warning; a shape other than the tensor's, or no tensor in common, is an error."""
    done = lamina("quantize", made["four-experts"], tmp_path / "o", "q4_k_m", "--imatrix", GOLDEN / "grouped-tied.imatrix.dat")
    assert done.returncode == 0 and "warning: 24 of " in done.stderr and "quantised tensors are not in the importance matrix" in done.stderr
    (tmp_path / "wrong").write_bytes(older({"blk.0.attn_q.weight": [1.0] * 128}))
    one_line(lamina("quantize", made["four-experts"], tmp_path / "p", "q4_k_m", "--imatrix", tmp_path / "wrong"), 3, "blk.0.attn_q.weight",
             "importance of 128 inputs; the tensor has 256")
    (tmp_path / "none").write_bytes(older({"blk.0.nothing": [1.0] * 128}))
    one_line(lamina("quantize", made["four-experts"], tmp_path / "p", "q4_k_m", "--imatrix", tmp_path / "none"), 3, "none of its 1 entries")
    assert not (tmp_path / "p").exists()


def older(values, chunks=1):
    data = struct.pack("<i", len(values))
    for name, row in values.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 1, len(row)) + struct.pack(f"<{len(row)}f", *row)
    return data + struct.pack("<ii", chunks, 1) + b"x"


@pytest.mark.parametrize("data", [b"", b"\x01", struct.pack("<i", 0), struct.pack("<i", -1), struct.pack("<ii", 1, 1 << 30), older({"a": [1.0]})[:14],
                                  older({"a": [float("nan")] * 32}), older({"a": [-1.0] * 32}), b"GGUF" + b"\0" * 40])
def test_broken_importance(lamina, made, tmp_path, data):
    (tmp_path / "im").write_bytes(data)
    one_line(lamina("quantize", made["fused"], tmp_path / "o", "q4_0", "--imatrix", tmp_path / "im"), 3, "im")
    assert [p.name for p in tmp_path.iterdir()] == ["im"]


def test_weights_that_are_not_finite(lamina, made, tmp_path):
    data = bytearray(made["fused"].read_bytes())
    _, tensors, start = keys_and_tensors(bytes(data))
    (cols, _), _, offset = tensors["blk.2.ffn_up.weight"]
    struct.pack_into("<f", data, start + offset + 4 * (5 * cols + 7), float("nan"))
    (tmp_path / "bad.gguf").write_bytes(data)
    one_line(lamina("quantize", tmp_path / "bad.gguf", tmp_path / "o", "q4_k_m"), 3, "blk.2.ffn_up.weight", "row 5", "not finite")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.gguf"]


# ---- interruption ----

@pytest.fixture(scope="module")
def large(lamina, tmp_path_factory):
    """A file that takes some seconds to quantise."""
    out = tmp_path_factory.mktemp("large") / "in.gguf"
    assert lamina("synth", "gpt2", out, "--type", "f16", "-q").returncode == 0
    return out


def begun(build, folder, *args):
    """Start the command; return its process once it has begun to write."""
    made = subprocess.Popen([build / "src/cli/lamina", "quantize", *args], stderr=subprocess.PIPE, env={**os.environ, **BARE})
    end = time.monotonic() + PATIENCE
    while not any(name.startswith(".lamina-") for name in os.listdir(folder)) and made.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    return made


@pytest.mark.parametrize("sign, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_stopped(lamina, build, large, tmp_path, sign, status):
    """A stopped run leaves nothing under the final name; the next run removes leftovers and completes."""
    made = begun(build, tmp_path, large, tmp_path / "o.gguf", "q3_k_m", "-t", "1")
    time.sleep(0.05)
    made.send_signal(sign)
    made.communicate(timeout=PATIENCE)
    assert made.returncode in (status, 0)
    if made.returncode:
        assert not (tmp_path / "o.gguf").exists()
        assert sign == signal.SIGKILL or not list(tmp_path.iterdir())
    assert lamina("quantize", large, tmp_path / "o.gguf", "q8_0", "--force").returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["o.gguf"]


def test_a_full_disk(build, large, tmp_path):
    """The limit of file size is reached midway: an error, and the existing file is unchanged."""
    (tmp_path / "o.gguf").write_bytes(b"mine")
    done = subprocess.run(["sh", "-c", 'ulimit -f 40000; exec "$0" "$@"', build / "src/cli/lamina", "quantize", large,
                           tmp_path / "o.gguf", "q4_0", "--force"], capture_output=True, text=True, env={**os.environ, **BARE})
    one_line(done, 1, "o.gguf")
    assert (tmp_path / "o.gguf").read_bytes() == b"mine" and [p.name for p in tmp_path.iterdir()] == ["o.gguf"]
