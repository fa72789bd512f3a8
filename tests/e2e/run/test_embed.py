"""lamina embed: vectors are transformers' hidden states in every form of request."""
import json
import math
import struct

import pytest
from conftest import MODEL, SOURCE, run

GOLDEN = SOURCE / "tests/golden"


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def tensor(path, name):
    """Return a safetensors tensor [rows, width], or ids [1, n], as lists."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    t = json.loads(data[8:8 + n])[name]
    begin, end = t["data_offsets"]
    kind = {"F32": "f", "I64": "q"}[t["dtype"]]
    flat = struct.unpack(f"<{(end - begin) // struct.calcsize('<' + kind)}{kind}", data[8 + n + begin:8 + n + end])
    width = t["shape"][-1]
    return [list(flat[i:i + width]) for i in range(0, len(flat), width)]


def close(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1e-4 * max(abs(y) for y in b)


def length(v):
    return math.sqrt(sum(x * x for x in v))


def unit(v):
    return [x / length(v) for x in v]


def lines(lamina, *arguments, **options):
    done = run(lamina, "embed", "-q", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("case", ["llama/gqa", "gemma2/windows", "opt/post-norm", "cohere/command-r", "openai-gpt/post-norm"])
def test_vectors_equal_transformers(lamina, tmp_path, case):
    hidden = tensor(GOLDEN / "embed/hidden.safetensors", case)
    ids = tensor(GOLDEN / case / "golden.safetensors", "input_ids")[0]
    (tmp_path / "ids.jsonl").write_text(json.dumps(ids) + "\n" + json.dumps(ids[:5]) + "\n")
    arguments = GOLDEN / case, "--jsonl", tmp_path / "ids.jsonl"
    mean = [sum(column) / len(hidden) for column in zip(*hidden)]
    whole, begun = lines(lamina, *arguments)
    assert close(whole, unit(hidden[-1])) and close(begun, unit(hidden[4])) and abs(length(whole) - 1) < 1e-5
    assert close(lines(lamina, *arguments, "--no-normalize")[0], hidden[-1])
    assert close(lines(lamina, *arguments, "--pooling", "mean")[0], unit(mean))
    assert close(lines(lamina, *arguments, "--pooling", "mean", "--no-normalize")[0], mean)
    rows = lines(lamina, *arguments, "--pooling", "none")[0]
    assert len(rows) == len(hidden) and all(close(a, b) for a, b in zip(rows, hidden))
    rows = lines(lamina, *arguments, "--pooling", "none", "--normalize", "-ub", "3")[0]
    assert all(close(a, unit(b)) for a, b in zip(rows, hidden))


def test_a_prompt_equals_its_tokens_in_every_form(lamina, tmp_path):
    text = "Die Straße, \"quoted\" and 東京"
    (tmp_path / "text").write_text(text + "\n")
    (tmp_path / "lines").write_text(json.dumps(text) + "\n")
    ids = json.loads(run(lamina, "tokenize", "--json", "--add-special", MODEL, "-p", text).stdout)["ids"]
    (tmp_path / "ids").write_text(json.dumps(ids))
    [vector] = lines(lamina, MODEL, "-p", text)
    assert vector == lines(lamina, MODEL, "-f", tmp_path / "text")[0] == lines(lamina, MODEL, "--jsonl", tmp_path / "lines")[0]
    assert vector == lines(lamina, MODEL, "--jsonl", tmp_path / "ids")[0] == lines(lamina, MODEL, input=text)[0]
    document = json.loads(run(lamina, "embed", MODEL, "-p", text, "--json").stdout)
    assert document["ids"] == ids and document["width"] == len(vector) and document["normalized"] and document["pooling"] == "last"
    assert [float(f"{x:.9g}") for x in document["embedding"]] == vector


def test_near_texts_are_near(lamina, tmp_path):
    texts = ["The cat sat on the mat.", "A cat was sitting on a mat.", "Quarterly revenue grew by nine percent."]
    (tmp_path / "texts").write_text("".join(json.dumps(t) + "\n" for t in texts))
    a, b, c = lines(lamina, MODEL, "--jsonl", tmp_path / "texts", "--pooling", "mean")
    dot = lambda x, y: sum(i * j for i, j in zip(x, y))
    assert dot(a, b) > dot(a, c) and dot(a, b) > dot(b, c)


@pytest.mark.parametrize("arguments, text, status, code, where", [
    (["-p", "x", "-f", "y"], "", 2, "usage", "embed"),
    (["-p", "x", "--normalize", "--no-normalize"], "", 2, "usage", "--normalize"),
    (["-p", "x", "--pooling", "max"], "", 2, "usage", "--pooling"),
    (["-p", ""], "", 2, "usage", "embedding"),
    (["-p", "many words " * 20, "-c", "8"], "", 1, "limit", "embedding"),
    (["--jsonl", "-"], '"fine"\n{"a": 1}\n', 2, "usage", "line 2"),
    (["--jsonl", "-"], "[1, 2, 99999999]\n", 2, "usage", None),
    (["--jsonl", "-"], "[1, -2]\n", 2, "usage", "line 1"),
    (["--jsonl", "-"], "[]\n", 2, "usage", "line 1: embedding"),
])
def test_models_without_vectors_are_one_line(lamina, arguments, text, status, code, where):
    done = run(lamina, "embed", MODEL, *arguments, "--json", input=text)
    assert done.returncode == status, done.stderr
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["code"] == code and (where is None or error["where"] == where)
    assert sum(line.startswith("error:") for line in done.stderr.splitlines()) == 1
