"""lamina diff: numpy's and transformers' numbers for a model and its quantised form, any two containers, its pages, rejected input."""
import json
import math
import os
import shutil

import pytest
from conftest import BARE, SOURCE, run

IMATRIX = SOURCE / "tests/golden/imatrix"
RESULTS = json.loads((SOURCE / "tests/golden/diff/results.json").read_text())
TEXT = ["-f", IMATRIX / "text.txt", "-c", "64", "-ctk", "f32", "-ctv", "f32"]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def made(lamina, tmp_path_factory):
    """The same weights as a folder, as a GGUF file, which stores rows of queries and keys in another order, and quantised."""
    folder = tmp_path_factory.mktemp("models")
    for args in (("synth", IMATRIX / "dense.json", folder / "dense.gguf", "--type", "f32"),
                 ("synth", IMATRIX / "dense.json", folder / "dense", "--type", "f32"),
                 ("quantize", folder / "dense.gguf", folder / "q.gguf", "q4_0")):
        assert lamina(*args, "-q").returncode == 0
    return folder


def reply(lamina, *args):
    done = lamina("diff", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(x, y, rel):
    assert x is None and y is None or math.isclose(x, y, rel_tol=rel), (x, y)


# ---- numbers of numpy and transformers ----

@pytest.fixture(scope="module")
def folder_and_file(lamina, made):
    return reply(lamina, made / "dense", made / "q.gguf", *TEXT)


def test_tensors_are_numpys(folder_and_file):
    got = {t["name"]: t for t in folder_and_file["tensors"]}
    assert got.keys() == RESULTS["tensors"].keys() and not folder_and_file["only_a"] and not folder_and_file["only_b"]
    for name, want in RESULTS["tensors"].items():
        t = got[name]
        close(t["cosine"], want["cosine"], 1e-12)
        close(t["snr_db"], want["snr_db"], 1e-9)
        assert t["max_abs"] == want["max_abs"] and t["at"] == want["at"] and t["histogram"]["equal"] == want["equal"]
        counts = {str(t["histogram"]["from"] + i): n for i, n in enumerate(t["histogram"]["counts"]) if n}
        assert counts == want["counts"] and sum(counts.values()) + want["equal"] == t["elements"]


def test_layers_equal_transformers(folder_and_file):
    assert [x["layer"] for x in folder_and_file["layers"]] == [-1, 0, 1]
    for x, want in zip(folder_and_file["layers"], RESULTS["layers"]):
        close(x["rel_err"], want, 1e-5)
    close(folder_and_file["mean_kl"], RESULTS["mean_kl"], 1e-4)
    close(folder_and_file["max_kl"], RESULTS["max_kl"], 1e-4)
    assert folder_and_file["same_top"] == RESULTS["same_top"] and folder_and_file["first_flip"] == RESULTS["first_flip"]


def test_advice_equals_transformers_with_those_tensors(folder_and_file):
    assert len(folder_and_file["advice"]) == len(RESULTS["advice"]) == 3
    before = 1
    for got, want in zip(folder_and_file["advice"], RESULTS["advice"]):
        assert got["tensors"] == want["tensors"] and got["to"] == "q8_0"
        close(got["kl"], want["kl"], 2e-4)
        close(got["kl_before"], want["kl_before"], 2e-4)
        assert got["kl"] < before
        before = got["kl"]


def test_advised_bytes_are_the_files(lamina, made, folder_and_file, tmp_path):
    advice = folder_and_file["advice"][1]
    keep = [x for t in advice["tensors"] for x in ("--keep", f"^{t}$={advice['to']}")]
    sizes = [json.loads(lamina("quantize", made / "dense.gguf", "q4_0", "--dry-run", "--json", *k).stdout)["bytes"] for k in ([], keep)]
    assert sizes[1] - sizes[0] == advice["bytes"]


# ---- any two containers ----

def test_a_model_is_the_same_in_a_folder_and_a_file(lamina, made):
    for a, b in (("dense", "dense.gguf"), ("dense.gguf", "dense")):
        got = reply(lamina, made / a, made / b)
        assert all(t["max_abs"] == 0 and t["cosine"] == 1 and t["snr_db"] is None and t["at"] is None for t in got["tensors"])
        assert got["layers"] == [] and got["mean_kl"] is None and got["first_flip"] is None


def test_the_order_of_rows_changes_no_figure(lamina, made, folder_and_file):
    for a, b in (("dense.gguf", "q.gguf"), ("dense", "q.gguf")):
        got = reply(lamina, made / a, made / b, *TEXT)
        assert [t["histogram"] for t in got["tensors"]] == [t["histogram"] for t in folder_and_file["tensors"]]
        assert [x["tensors"] for x in got["advice"]] == [x["tensors"] for x in folder_and_file["advice"]]
    turned = {t["name"]: t for t in reply(lamina, made / "q.gguf", made / "dense")["tensors"]}
    assert all(turned[t["name"]]["histogram"] == t["histogram"] for t in folder_and_file["tensors"])


@pytest.mark.parametrize("family", ["gemma", "gpt2", "gpt_neox", "bloom", "falcon", "phi3", "mixtral", "qwen3_moe", "deepseek_v2", "gpt_oss", "granitemoe",
                                    "cohere", "granite"])
def test_every_familys_folder_is_its_file(lamina, family, tmp_path):
    folders = sorted(p.parent for p in (SOURCE / "tests/golden" / family).glob("*/config.json"))
    folder = next(f for f in folders if lamina("convert", f, tmp_path / "m.gguf", "-q").returncode == 0)
    got = reply(lamina, folder, tmp_path / "m.gguf")
    assert got["tensors"] and max(t["max_abs"] for t in got["tensors"]) <= 1.2e-7, [t["name"] for t in got["tensors"] if t["max_abs"]]
    assert not got["only_a"] and not got["only_b"]


def test_results_do_not_depend_on_threads(lamina, made, folder_and_file):
    got = reply(lamina, made / "dense", made / "q.gguf", *TEXT, "-t", "3")
    for document in (got, folder_and_file):
        document.pop("seconds", None)
    assert got == folder_and_file


# ---- pages ----

def test_pages(lamina, made, tmp_path, folder_and_file):
    done = lamina("diff", made / "dense", made / "q.gguf", *TEXT, "--md", tmp_path / "d.md")
    assert done.returncode == 0 and "tensors that lost most" in done.stdout and "raise these 3 tensors to q8_0: +" in done.stdout
    card = (tmp_path / "d.md").read_text()
    for t in folder_and_file["tensors"]:
        assert f"| `{t['name']}` | f32 | {t['b']} |" in card
    assert f"mean KL {folder_and_file['mean_kl']:.6f} nats" in card
    alone = lamina("diff", made / "dense", made / "q.gguf", "--all")
    assert alone.returncode == 0 and "mean KL" not in alone.stdout and alone.stdout.count("blk.1.") == 9


def test_raise_none_tries_nothing(lamina, made):
    got = reply(lamina, made / "dense", made / "q.gguf", *TEXT, "--raise", "none")
    assert got["advice"] == [] and got["advice_note"] == "not requested" and got["mean_kl"] > 0
    same = reply(lamina, made / "dense", made / "dense.gguf", *TEXT)
    assert same["advice"] == [] and same["advice_note"] == "no tensor is stored more coarsely" and same["mean_kl"] < 1e-7


# ---- rejected input ----

@pytest.mark.parametrize("more, code, words", [
    (["-f", IMATRIX / "text.txt", "-c", "64", "--raise", "q9_k"], 2, "unknown type"),
    (["-f", IMATRIX / "text.txt", "-c", "256", "--raise", "f32"], 2, "cannot make"),
    (["-f", "/nowhere/text"], 1, "/nowhere/text"),
    (["--markdown", ""], 2, "--markdown"),
], ids=["type", "float", "text", "empty name"])
def test_rejected(lamina, made, more, code, words):
    done = lamina("diff", made / "dense", made / "q.gguf", *more)
    assert done.returncode == code and words in done.stderr and done.stdout == ""


def test_other_models_are_rejected(lamina, made, tmp_path):
    other = json.loads((IMATRIX / "dense.json").read_text()) | {"model_type": "qwen2"}
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert lamina("synth", tmp_path / "other.json", tmp_path / "other.gguf", "--type", "f32", "-q").returncode == 0
    done = lamina("diff", made / "dense", tmp_path / "other.gguf")
    assert done.returncode == 2 and "family" in done.stderr
    shutil.copy(made / "q.gguf", tmp_path / "cut.gguf")
    with open(tmp_path / "cut.gguf", "r+b") as f:
        f.truncate(60000)
    done = lamina("diff", made / "dense", tmp_path / "cut.gguf")
    assert done.returncode == 3 and "cut.gguf" in done.stderr
    short = tmp_path / "short.txt"
    short.write_text("a b")
    done = lamina("diff", made / "dense", made / "q.gguf", "-f", short)
    assert done.returncode == 2 and "a chunk of 256 at least" in done.stderr


def test_other_shapes_are_listed(lamina, made, tmp_path):
    other = json.loads((IMATRIX / "dense.json").read_text()) | {"intermediate_size": 128}
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert lamina("synth", tmp_path / "other.json", tmp_path / "other.gguf", "--type", "f32", "-q").returncode == 0
    got = reply(lamina, made / "dense.gguf", tmp_path / "other.gguf")
    assert len(got["only_a"]) == len(got["only_b"]) == 6 and all("ffn_" in name for name in got["only_a"])
