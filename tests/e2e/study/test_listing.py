"""lamina explain --code: every listing is a valid program that reads the weights of the checkpoint. tests/golden/listings.tsv has the
results that PyTorch and NumPy compute with it (`make listings`)."""
import ast
import json
import re
import struct
import subprocess

import pytest
from conftest import SOURCE, run, some

GOLDEN = SOURCE / "tests/golden"
FOLDERS = sorted(f.parent for f in GOLDEN.glob("*/*/golden.safetensors")
                 if (f.parent / "config.json").exists() and list(f.parent.glob("model*.safetensors")))
FAMILIES = {folder.parent.name: folder for folder in FOLDERS}
HARD = ["llama/rope-llama3", "llama/rope-yarn", "llama/rope-dynamic", "llama/rope-longrope", "gpt_oss/mxfp4", "opt/post-norm", "gpt2/by-layer"]
MODELS = sorted({f"{f.parent.name}/{f.name}" for f in FAMILIES.values()} | set(HARD))


@pytest.fixture(scope="module")
def listing(build):
    def write(model, language):
        done = run(build / "src/cli/lamina", "explain", "--code", model, "--in", language, cwd=SOURCE)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return write


def tensors_of(folder):
    names = set()
    for file in folder.glob("model*.safetensors"):
        with open(file, "rb") as f:
            names |= set(json.loads(f.read(struct.unpack("<Q", f.read(8))[0])))
    return names


def weights_of(code):
    """Return patterns for the tensor names that a listing reads; the numbers of layers and experts are left open."""
    prefix = re.search(r'weights_of\(f"(.*?)\{i\}\."\)', code)[1]
    own = re.findall(r'\bw\[f?"(.*?)"\]', code)
    return [re.escape(prefix) + r"\d+\." + re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(name)) for name in own] + \
           [re.escape(name) for name in re.findall(r'\bW\["(.*?)"\]', code)]


@pytest.mark.parametrize("model", some(MODELS, 4))
def test_every_weight_is_in_the_checkpoint(listing, model):
    """The listings of both languages are valid Python and read the same weights, and every weight is in the checkpoint under its name."""
    code, numpy = listing(f"tests/golden/{model}", "pytorch"), listing(f"tests/golden/{model}", "numpy")
    for text in code, numpy:
        ast.parse(text)
    assert "torch" not in numpy and "np." not in code and "$" not in code + numpy
    assert max(map(len, (code + numpy).split("\n"))) <= 140
    wanted, there = weights_of(code), tensors_of(GOLDEN / model)
    there |= {name.removesuffix("_blocks") for name in there}        # four bits: two tensors hold one weight
    first = code.split("W.setdefault(\"")[1].split("\"")[0] if "W.setdefault" in code else ""
    there |= {first + name for name in there}
    assert len(wanted) > 5 and wanted == weights_of(numpy)
    for pattern in wanted:
        assert any(re.fullmatch(pattern, name) for name in there), pattern


def test_listings_agree_with_transformers():
    """The results of `make listings` cover every golden model in both languages, with errors of at most 1e-4."""
    rows = [line.split("\t") for line in (GOLDEN / "listings.tsv").read_text().splitlines()[1:]]
    assert [row[0] for row in rows[::2]] == [f"{f.parent.name}/{f.name}" for f in FOLDERS]
    assert {row[1] for row in rows} == {"pytorch", "numpy"} and len(rows) == 2 * len(FOLDERS)
    assert all(float(row[2]) <= 1e-4 for row in rows)


def test_equal_layers_are_a_loop(listing):
    """126 equal layers make one function; windows that alternate make two, in their order."""
    code = listing("llama-3.1-405b", "pytorch")
    assert code.count("\ndef layer") == 1 and "for i in range(126):\n        x = layer(x, i)" in code and len(code.splitlines()) < 200
    code = listing("gemma-2-2b", "pytorch")
    assert code.count("\ndef layer") == 2 and "kinds = [layer_1, layer_2]" in code and "window=4096" in code


def test_unsupported_listings(build):
    """Conflicting flags are rejected, and so is a file with rotary factors that no checkpoint contains."""
    lamina = lambda *args: run(build / "src/cli/lamina", "explain", *args, cwd=SOURCE)
    assert lamina("kv", "gpt2", "--in", "numpy").returncode == 2
    assert lamina("--code", "gpt2", "--in", "rust").returncode == 2
    assert lamina("--code", "gpt2", "--md").returncode == 2
    done = lamina("--code", "tests/golden/llama/rope-llama3/model.gguf")
    assert done.returncode == 3 and "rotary factors are tensors of the file" in done.stderr


# ---- in C ----

HARNESS = """
#define main listing_main
#include "listing.c"
#undef main

int main(int argc, char **argv)
{
    static int ids[4096];

    load(argv[1]);
    for (T = 0; T + 2 < argc; T++)
        ids[T] = atoi(argv[T + 2]);
    fwrite(forward(ids), sizeof(float), (size_t)T * VOCABULARY, stdout);
    return 0;
}
"""


def read_golden(folder, name):
    """Return a float32, int64 or int32 tensor of the golden file, and its shape."""
    data = (folder / "golden.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])[name]
    raw = data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
    return list(struct.unpack(f"<{len(raw) // 4}f", raw) if entry["dtype"] == "F32" else
                struct.unpack(f"<{len(raw) // 8}q", raw) if entry["dtype"] == "I64" else
                struct.unpack(f"<{len(raw) // 4}i", raw)), entry["shape"]


def compiled(text, folder, *options):
    (folder / "listing.c").write_text(text)
    done = run("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", *options, "-lm", cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("model", MODELS)
def test_listings_in_c_agree_with_transformers(listing, tmp_path, model):
    """Listings in C compile without warnings, and their logits are those of the golden file to 1e-4."""
    folder = GOLDEN / model
    text = listing(f"tests/golden/{model}", "c")
    assert max(map(len, text.split("\n"))) <= 170 and "torch" not in text and "np." not in text
    (tmp_path / "harness.c").write_text(HARNESS)
    ids, shape = read_golden(folder, "input_ids")
    logits, (_, length, vocabulary) = read_golden(folder, "logits")
    compiled(text, tmp_path, f"-DVOCABULARY={vocabulary}", "harness.c", "-o", "program")
    for row in range(shape[0]):
        done = subprocess.run([tmp_path / "program", folder, *map(str, ids[row * length:(row + 1) * length])], capture_output=True, check=True)
        got = struct.unpack(f"<{length * vocabulary}f", done.stdout)
        for t in range(length):
            wanted = logits[(row * length + t) * vocabulary:(row * length + t + 1) * vocabulary]
            error = max(abs(a - b) for a, b in zip(got[t * vocabulary:], wanted)) / max(map(abs, wanted))
            assert error <= 1e-4, (row, t, error)


# ---- topics ----

ROWS = [line.split("\t") for line in (GOLDEN / "topics.tsv").read_text().splitlines()[1:]]
TOPICS = ["gqa", "attention", "swa", "alibi", "mla", "mlp", "gelu", "silu", "relu", "swiglu", "moe", "router", "norm", "rope", "mask", "residual",
          "embedding", "learned", "sinusoidal", "tying"]

PART = """
#define main listing_main
#include "listing.c"
#undef main

int main(int argc, char **argv)
{
    T = atoi(argv[2]);
    load(argv[1]);
#if IN
    float *x = make(IN);
    if (fread(x, sizeof *x, (size_t)T * IN, stdin) != (size_t)T * IN)
        return 1;
    fwrite(FUNCTION, sizeof *x, (size_t)T * OUT, stdout);
#else
    int ids[4096];
    if (fread(ids, sizeof *ids, T, stdin) != (size_t)T)
        return 1;
    fwrite(FUNCTION, sizeof(float), (size_t)T * OUT, stdout);
#endif
    return argc != 3;
}
"""


def part(build, topic, model, language):
    done = run(build / "src/cli/lamina", "explain", "--code", topic, *([model] if model else []), "--in", language, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_part_of_a_topic_equals_transformers(build, tmp_path, row):
    """In C, the listing computes one golden value from another, to 1e-4; in Python, `make listings` found errors of at most 1e-4."""
    topic, model, before, after, *errors = row
    assert all(float(error) <= 1e-4 for error in errors)
    folder = GOLDEN / model
    text = part(build, topic, f"tests/golden/{model}", "c")
    function = [name for name in re.findall(r"^static float \*(\w+)\((?:float \*x|const int \*ids)(?:, int i)?\)$", text, re.M)][-1]
    layered = f"{function}(float *x, int i)" in text
    ids, shape = read_golden(folder, "input_ids")
    given = ids if before == "ids" else read_golden(folder, "tap." + before)[0]
    wanted, (_, length, out) = read_golden(folder, after if after == "logits" else "tap." + after)
    width = 0 if before == "ids" else len(given) // (shape[0] * length)
    call = f"{function}({'ids' if before == 'ids' else 'x'}{', 0' if layered else ''})"
    (tmp_path / "part.c").write_text(PART)
    compiled(text, tmp_path, f"-DIN={width}", f"-DOUT={out}", f"-DFUNCTION={call}", "part.c", "-o", "part")
    for k in range(shape[0]):
        piece = given[k * length * (width or 1):(k + 1) * length * (width or 1)]
        done = subprocess.run([tmp_path / "part", folder, str(length)], input=struct.pack(f"<{len(piece)}{'f' if width else 'i'}", *piece),
                              capture_output=True, check=True)
        got, here = struct.unpack(f"<{length * out}f", done.stdout), wanted[k * length * out:(k + 1) * length * out]
        assert max(abs(a - b) for a, b in zip(got, here)) <= 1e-4 * max(map(abs, here))


def test_every_topic_that_is_an_operation_has_a_listing(build, tmp_path):
    """Each Python listing, for the topic's default model, is valid; C listings compile, and run where that model is small."""
    for topic in TOPICS:
        code, numpy = part(build, topic, None, "pytorch"), part(build, topic, None, "numpy")
        for text in code, numpy:
            ast.parse(text)
        assert "torch" not in numpy and "np." not in code and "$" not in code + numpy
        assert max(map(len, (code + numpy).split("\n"))) <= 140
    for topic in "relu", "sinusoidal", "learned", "norm", "rope":
        text = part(build, topic, None, "c")
        compiled(text, tmp_path, "listing.c", "-o", "alone")
        done = run(tmp_path / "alone", cwd=tmp_path)
        assert done.returncode == 0 and len(done.stdout.splitlines()) in (1, 5) and "nan" not in done.stdout, topic
    text = part(build, "router", "tests/golden/mixtral/experts", "c")
    compiled(text, tmp_path, "listing.c", "-o", "alone")
    done = run(tmp_path / "alone", GOLDEN / "mixtral/experts", cwd=tmp_path)
    assert re.match(r"token 0: expert \d+ counts 0\.\d{4}\n", done.stdout)


def test_topics_without_a_listing(build):
    """A topic that is arithmetic, that the model lacks or that is unknown is rejected by name."""
    lamina = lambda *args: run(build / "src/cli/lamina", "explain", "--code", *args, cwd=SOURCE)
    assert "flops: is not an operation of a model; there are listings of attention gqa" in lamina("flops").stderr
    done = lamina("mla", "gpt2")
    assert done.returncode == 3 and "does not have this" in done.stderr
    assert lamina("nosuch", "gpt2").returncode == 2
    done = lamina("mask", "--in", "c")
    assert done.returncode == 3 and "attention" in done.stderr
    rope = lamina("rope", "llama-3.2-1b").stdout
    assert "llama3's rule" in rope and "of Llama 3.2 1B: layer 0 of 16" in rope
