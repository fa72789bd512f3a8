"""lamina explain forward: its numbers are those of transformers' own modules, in the goldens of every family."""
import json
import math
import struct

import pytest
from conftest import SOURCE, run, some

GOLDEN = SOURCE / "tests/golden"
FAMILIES = {g.parent.parent.name: g.parent for g in sorted(GOLDEN.glob("*/*/golden.safetensors"))
            if b"tap." in g.read_bytes()[:65536] and (g.parent / "config.json").exists() and list(g.parent.glob("model*.safetensors"))}


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", "explain", "forward", *args, cwd=SOURCE)


def golden_of(folder):
    """Return {name: (shape, a function of a flat index and a count that returns the numbers)}; goldens are float32, ids int64 or int32."""
    data = (folder / "golden.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    form = {"F32": ("f", 4), "I64": ("q", 8), "I32": ("i", 4)}
    out = {}
    for name, t in json.loads(data[8:start]).items():
        if name != "__metadata__" and t["dtype"] in form:
            letter, size = form[t["dtype"]]
            at = start + t["data_offsets"][0]
            out[name] = t["shape"], lambda first, n, letter=letter, size=size, at=at: struct.unpack_from(f"<{n}{letter}", data, at + first * size)
    return out


@pytest.mark.parametrize("family", some(sorted(FAMILIES), 3))
def test_values_equal_the_goldens(lamina, family):
    """Each module in both golden and page has the golden's first values at the last token; the likeliest token is the golden's."""
    golden = golden_of(FAMILIES[family])
    (_, n), ids = golden["input_ids"]
    shown = lamina(FAMILIES[family], "--ids", ",".join(map(str, ids(0, n))), "--json")
    assert shown.returncode == 0, shown.stderr
    page, compared = json.loads(shown.stdout), 0
    assert [t["id"] for t in page["tokens"]] == list(ids(0, n))
    for op in page["operations"]:
        tap = golden.get("tap." + op["path"])
        if not tap or tap[0][0] < 1 or tap[0][-1] != op["shape"][1]:
            continue
        width = tap[0][-1]
        row = tap[1]((n - 1) * width, width)
        scale = max(map(abs, row)) or 1
        for have, want in zip(op["values"], row):
            assert abs(have - want) <= 1e-4 * scale + 1e-6, op["path"]
        compared += 1
    assert compared >= 3
    shape, logits = golden["logits"]
    row = logits((n - 1) * shape[-1], shape[-1])
    best = max(range(len(row)), key=row.__getitem__)
    assert page["likeliest"][0]["id"] == best
    p = 1 / sum(math.exp(x - row[best]) for x in row)
    assert abs(page["likeliest"][0]["probability"] - p) < 1e-3


def test_a_real_text(lamina, model):
    """The page of a text prompt shows every layer, one of them in full, and tokens with decreasing probabilities."""
    page = json.loads(lamina(model, "-p", "The capital of France is", "--layer", "3", "--json").stdout)
    layers = [op["layer"] for op in page["operations"]]
    assert page["layer"] == 3 and layers.count(3) >= 12 and layers.count(2) == 1 and layers[0] is None and layers[-1] is None
    p = [t["probability"] for t in page["likeliest"]]
    assert len(p) == 5 and p == sorted(p, reverse=True) and 0 < p[0] < 1
    assert page["likeliest"][0]["text"].strip()
    text, markdown = (lamina(model, "-p", "The capital of France is", *more).stdout for more in ([], ["--md"]))
    assert "softmax(scale · Q Kᵀ + mask) V" in text and "chosen by greedy sampling" in text
    assert "| operation | formula | shape | values |" in markdown


def test_rejected_input(lamina):
    for args in (["tests/golden/llama/gqa", "--ids", "1,2", "--layer", "99"], ["tests/golden/llama/gqa", "--ids", "99999"],
                 ["tests/golden/llama/gqa", "--ids", "1", "-p", "a"], ["tests/golden/llama/gqa", "--ids", "1", "--context", "64"]):
        done = lamina(*args)
        assert done.returncode and not done.stdout and "error: " in done.stderr, args


@pytest.mark.parametrize("preset", some(["gpt2", "llama-3.2-1b", "deepseek-v2", "gpt-oss-20b", "phi-3.5-mini", "gpt-neo-125m", "xglm-564m", "mpt-7b", "smollm3-3b"], 3))
def test_a_preset_has_a_toy(lamina, preset):
    """A preset runs as a toy model: every operation shows a row per token, embeddings of equal words are equal, and the 16 logits are
    finite and the same in every run."""
    page = json.loads(lamina(preset, "-p", "to be or not to be", "--json").stdout)
    assert [t["text"] for t in page["tokens"]] == "to be or not to be".split() and page["tokens"][0]["id"] == page["tokens"][4]["id"]
    first = page["operations"][0]
    assert first["operation"] == "embed" and first["values"][0] == first["values"][4] != first["values"][1]
    assert all(len(op["values"]) == 6 and len({len(row) for row in op["values"]}) == 1 for op in page["operations"])
    assert len(page["logits"]) == 16 and all(math.isfinite(x) for x in page["logits"])
    assert page == json.loads(lamina(preset, "-p", "to be or not to be", "--json").stdout)


def test_a_toy_can_be_recomputed(lamina):
    """The text alone is enough to compute the first norm of GPT-2's toy from the rows above it."""
    text = lamina("gpt2").stdout
    row = lambda line: [float(x) for x in line.split()[-8:]]
    blocks = {b.split("  =  ")[0].strip(): b.split("\n")[1:] for b in text.split("\n\n") if "  =  " in b.split("\n")[0]}
    token, position = row(blocks["transformer.wte"][-1]), row(blocks["transformer.wpe"][-1])
    x = [a + b for a, b in zip(token, position)]
    mean = sum(x) / 8
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / 8 + 1e-5)
    lines = blocks["transformer.h.0.ln_1"]
    weight = [float(v) for line in lines[1:2] for v in line.split()]
    bias = [float(v) for line in lines[3:4] for v in line.split()]
    shown = row(lines[-1])
    assert all(abs((v - mean) / deviation * w + b - s) < 0.02 for v, w, b, s in zip(x, weight, bias, shown)), lines


def test_limits_of_toys(lamina):
    for args in (["--ids", "1"], ["--layer", "1"], ["-p", "one two three four five six seven eight nine"], ["-p", " "]):
        assert lamina("gpt2", *args).returncode == 2, args
