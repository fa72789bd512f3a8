"""lamina quantize --budget: types by each tensor's cost on a text: within the size, better than a fixed mixture, the same when resumed."""
import json
import os
import xml.etree.ElementTree

import pytest
from conftest import BARE, SOURCE, run

IMATRIX = SOURCE / "tests/golden/imatrix"
TEXT = ["--text", IMATRIX / "text.txt", "--chunk", "64", "--chunks", "4"]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def model(lamina, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "dense.gguf"
    assert lamina("synth", IMATRIX / "dense.json", path, "--type", "f32", "-q").returncode == 0
    return path


def made(lamina, *args):
    done = lamina("quantize", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def divergence(lamina, model, base):
    done = lamina("eval", model, "kl", "--base", base, "-f", IMATRIX / "text.txt", "-c", "64", "--compute", "f32", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["mean_kl"]


def test_better_than_a_mixture_of_the_same_size(lamina, model, tmp_path):
    fixed = made(lamina, model, tmp_path / "q4_0.gguf", "q4_0")
    size = (tmp_path / "q4_0.gguf").stat().st_size
    chosen = made(lamina, model, tmp_path / "chosen.gguf", "--size", f"{size / 1000:.3f}kB", *TEXT, "--curve", tmp_path / "c.json", "--svg", tmp_path / "c.svg")
    assert chosen["bytes"] <= fixed["bytes"] and (tmp_path / "chosen.gguf").stat().st_size <= size
    assert divergence(lamina, tmp_path / "chosen.gguf", model) < divergence(lamina, tmp_path / "q4_0.gguf", model)
    curve = json.loads((tmp_path / "c.json").read_text())
    steps = curve["steps"]
    assert curve["bytes"] == chosen["bytes"] and curve["tried"] == 16 and curve["untried"] == 0 and steps[0]["tensor"] is None
    assert all(a["bytes"] < b["bytes"] and a["estimate"] > b["estimate"] for a, b in zip(steps, steps[1:]))
    assert steps[0]["kl"] > steps[-1]["kl"] > 0
    types = {t["name"]: t["to"] for t in chosen["tensors"]}
    last = {s["tensor"]: s["to"] for s in steps[1:]}
    assert all(types[name] == to for name, to in last.items())
    assert xml.etree.ElementTree.parse(tmp_path / "c.svg").getroot().tag.endswith("svg")


def test_estimates_are_the_sum_of_single_tensors(lamina, model, tmp_path):
    """Small divergences add up: that of all changes together is near the sum of the single ones."""
    made(lamina, model, tmp_path / "b.gguf", "--budget", "7.5", *TEXT, "--curve", tmp_path / "c.json")
    last = json.loads((tmp_path / "c.json").read_text())["steps"][-1]
    assert 0.3 < last["kl"] / last["estimate"] < 3 and last["bpw"] <= 7.5


def test_continued_and_bounded(lamina, model, tmp_path):
    args = ["--budget", "6", *TEXT, "--state", tmp_path / "state"]
    first = made(lamina, model, tmp_path / "a.gguf", *args)
    size = (tmp_path / "state").stat().st_size
    again = made(lamina, model, tmp_path / "b.gguf", *args, "-t", "2")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes() and (tmp_path / "state").stat().st_size == size
    assert first["bpw"] == again["bpw"] <= 6
    made(lamina, model, tmp_path / "c.gguf", "--budget", "6", *TEXT, "--minutes", "0.001", "--curve", tmp_path / "c.json")
    curve = json.loads((tmp_path / "c.json").read_text())
    assert curve["tried"] + curve["untried"] == 16
    other = lamina("quantize", model, tmp_path / "d.gguf", "--budget", "6", "--text", SOURCE / "README.md", "--chunk", "64", "--state", tmp_path / "state")
    assert other.returncode == 2 and not (tmp_path / "d.gguf").exists()


@pytest.mark.parametrize("args, words", [
    (["--budget", "3", *TEXT], "in its smallest types"), (["--budget", "5"], "--text"), (["--budget", "5", "--size", "1M", *TEXT], "cannot be combined with --budget"),
    (["--size", "0.1kB", *TEXT], "less than the metadata"), (["q4_0", "--text", IMATRIX / "text.txt"], "require --budget"),
    (["--budget", "5", "--text", "/nowhere/text"], "/nowhere/text"),
], ids=["small", "text", "both", "tiny", "alone", "nowhere"])
def test_rejected(lamina, model, tmp_path, args, words):
    done = lamina("quantize", model, tmp_path / "out.gguf", *args)
    assert done.returncode in (1, 2) and words in done.stderr and not list(tmp_path.iterdir())
