"""lamina explain --code: every listing is a program, and its weights are those of the checkpoint. What PyTorch and NumPy compute with them
is in tests/golden/listings.tsv (`make listings`)."""
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
    """Patterns of the names that a listing reads: 'layers' numbers and experts' stand open."""
    prefix = re.search(r'weights_of\(f"(.*?)\{i\}\."\)', code)[1]
    own = re.findall(r'\bw\[f?"(.*?)"\]', code)
    return [re.escape(prefix) + r"\d+\." + re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(name)) for name in own] + \
           [re.escape(name) for name in re.findall(r'\bW\["(.*?)"\]', code)]


@pytest.mark.parametrize("model", some(MODELS, 4))
def test_every_weight_is_in_the_checkpoint(listing, model):
    """Both languages are programs, read the same weights, and no weight is called what the checkpoint does not call it."""
    code, numpy = listing(f"tests/golden/{model}", "pytorch"), listing(f"tests/golden/{model}", "numpy")
    for text in code, numpy:
        ast.parse(text)
    assert "torch" not in numpy and "np." not in code and "$" not in code + numpy
    assert max(map(len, (code + numpy).split("\n"))) <= 140
    wanted, there = weights_of(code), tensors_of(GOLDEN / model)
    there |= {name.removesuffix("_blocks") for name in there}        # four bits: two tensors that are one
    first = code.split("W.setdefault(\"")[1].split("\"")[0] if "W.setdefault" in code else ""
    there |= {first + name for name in there}
    assert len(wanted) > 5 and wanted == weights_of(numpy)
    for pattern in wanted:
        assert any(re.fullmatch(pattern, name) for name in there), pattern


def test_listings_agree_with_transformers():
    """What `make listings` has found: every golden model in both languages, none further off than 1e-4."""
    rows = [line.split("\t") for line in (GOLDEN / "listings.tsv").read_text().splitlines()[1:]]
    assert [row[0] for row in rows[::2]] == [f"{f.parent.name}/{f.name}" for f in FOLDERS]
    assert {row[1] for row in rows} == {"pytorch", "numpy"} and len(rows) == 2 * len(FOLDERS)
    assert all(float(row[2]) <= 1e-4 for row in rows)


def test_equal_layers_are_a_loop(listing):
    """126 layers make one function; windows that take turns make two, in their order."""
    code = listing("llama-3.1-405b", "pytorch")
    assert code.count("\ndef layer") == 1 and "for i in range(126):\n        x = layer(x, i)" in code and len(code.splitlines()) < 200
    code = listing("gemma-2-2b", "pytorch")
    assert code.count("\ndef layer") == 2 and "kinds = [layer_1, layer_2]" in code and "window=4096" in code


def test_what_is_no_listing(build):
    """Flags that do not go together, and a file whose rotary factors no checkpoint has."""
    lamina = lambda *args: run(build / "src/cli/lamina", "explain", *args, cwd=SOURCE)
    assert lamina("kv", "gpt2", "--in", "numpy").returncode == 2
    assert lamina("--code", "gpt2", "--in", "c").returncode == 2
    assert lamina("--code", "gpt2", "--md").returncode == 2
    done = lamina("--code", "tests/golden/llama/rope-llama3/model.gguf")
    assert done.returncode == 3 and "rotary factors are tensors of the file" in done.stderr
