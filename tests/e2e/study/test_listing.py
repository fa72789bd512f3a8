"""lamina explain --code: every listing is a valid program that reads the weights of the checkpoint. tests/golden/listings.tsv has the
results that PyTorch and NumPy compute with it (`make listings`)."""
import ast
import json
import re
import struct

import pytest
from conftest import SOURCE, run, some

GOLDEN = SOURCE / "tests/golden"
FOLDERS = sorted(f.parent for f in GOLDEN.glob("*/*/golden.safetensors")
                 if (f.parent / "config.json").exists() and list(f.parent.glob("model*.safetensors")))
FAMILIES = {folder.parent.name: folder for folder in FOLDERS}
HARD = ["llama/rope-llama3", "llama/rope-yarn", "llama/rope-dynamic", "llama/rope-longrope", "gpt_oss/mxfp4", "opt/post-norm", "gpt2/by-layer"]
UNLISTED = {"glm_moe_dsa/shared"}         # a layer hands on a choice of keys, too: such models have no listing, and the error says so
MODELS = sorted({f"{f.parent.name}/{f.name}" for f in FAMILIES.values()} - UNLISTED | set(HARD))


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
    for theirs, ours in re.findall(r'\(r"(.*?)",\s+r"(.*?)"\)', code):         # the names in published files
        there |= {re.sub(r"\\(\d)", lambda n: found[int(n[1]) + 1], ours) for name in there if (found := re.fullmatch(theirs, name))}
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
    code = listing("gemma-4-e2b", "pytorch")                             # keys of layers 13 and 14, which the last 20 read, and lanes of one value
    assert code.count("\ndef layer") == 6 and code.count('kept["k13"], kept["v13"]') == 2 and 'kept["per_layer_input"][:, i * 256:(i + 1) * 256]' in code
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


# ---- topics ----

ROWS = [line.split("\t") for line in (GOLDEN / "topics.tsv").read_text().splitlines()[1:]]
TOPICS = ["gqa", "attention", "swa", "alibi", "mla", "mlp", "gelu", "silu", "relu", "swiglu", "moe", "router", "norm", "rope", "mask", "residual",
          "embedding", "learned", "sinusoidal", "tying"]

def part(build, topic, model, language):
    done = run(build / "src/cli/lamina", "explain", "--code", topic, *([model] if model else []), "--in", language, cwd=SOURCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_parts_of_topics_equal_transformers():
    """`make listings` computed golden values with the listings of topics, with errors of at most 1e-4."""
    assert all(float(error) <= 1e-4 for _topic, _model, _before, _after, *errors in ROWS for error in errors) and len(ROWS) == 20


def test_every_topic_that_is_an_operation_has_a_listing(build):
    """Each listing, for the topic's default model, is valid."""
    for topic in TOPICS:
        code, numpy = part(build, topic, None, "pytorch"), part(build, topic, None, "numpy")
        for text in code, numpy:
            ast.parse(text)
        assert "torch" not in numpy and "np." not in code and "$" not in code + numpy
        assert max(map(len, (code + numpy).split("\n"))) <= 140


def test_topics_without_a_listing(build):
    """A topic that is arithmetic, that the model lacks or that is unknown is rejected by name."""
    lamina = lambda *args: run(build / "src/cli/lamina", "explain", "--code", *args, cwd=SOURCE)
    assert "flops: is not an operation of a model; there are listings of attention gqa" in lamina("flops").stderr
    done = lamina("mla", "gpt2")
    assert done.returncode == 3 and "does not have this" in done.stderr
    assert lamina("nosuch", "gpt2").returncode == 2
    assert lamina("mask", "--in", "c").returncode == 2
    rope = lamina("rope", "llama-3.2-1b").stdout
    assert "llama3's rule" in rope and "of Llama 3.2 1B: layer 0 of 16" in rope
