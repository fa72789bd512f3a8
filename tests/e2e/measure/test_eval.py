"""lamina eval: llama-perplexity's and lm-eval's numbers, the same bits however it is run, resuming after a stop, rejected input."""
import csv
import json
import math
import os
import re
import signal
import subprocess
import time

import pytest
from conftest import BARE, MODEL, SOURCE, run, some

GOLDEN, IMATRIX = SOURCE / "tests/golden/eval", SOURCE / "tests/golden/imatrix"
RESULTS = json.loads((GOLDEN / "results.json").read_text())
EXACT = ["--compute", "f32", "-ctk", "f32", "-ctv", "f32"]
TEXT = ["-f", IMATRIX / "text.txt", "-c", "64"]


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


@pytest.fixture(scope="module")
def made(lamina, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for args in (("synth", IMATRIX / "dense.json", folder / "dense.gguf", "--type", "f32"),
                 ("quantize", folder / "dense.gguf", folder / "q4.gguf", "q4_0")):
        assert lamina(*args, "-q").returncode == 0
    return {name: folder / f"{name}.gguf" for name in ("dense", "q4")}


def reply(lamina, *args):
    done = lamina("eval", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- perplexity and divergence ----

def test_perplexity_is_llama_perplexitys(lamina, made):
    got = reply(lamina, made["dense"], "perplexity", *TEXT, *EXACT)
    ppl, error = RESULTS["perplexity"]
    assert f"{got['perplexity']:.4f}" == f"{ppl:.4f}" and f"{got['stderr']:.4f}" == f"{error:.4f}"
    assert got["rule"] == "halves" and got["tokens"] == 6 * 31 and got["chunks"] == 6 and got["context"] == 64
    assert math.isclose(math.exp(got["nll"]), got["perplexity"], rel_tol=1e-12) and len(got["text"]["sha256"]) == 64


@pytest.mark.parametrize("case", RESULTS["sliding"], ids=lambda c: str(c["stride"]))
def test_a_sliding_window_equals_transformers(lamina, made, case):
    got = reply(lamina, made["dense"], "perplexity", "-f", IMATRIX / "text.txt", "-c", case["context"], "--rule", "sliding", "--stride",
               case["stride"], *EXACT)
    assert got["tokens"] == case["tokens"] and math.isclose(got["perplexity"], case["perplexity"], rel_tol=2e-6)


def test_divergence_is_llama_perplexitys(lamina, made, tmp_path):
    """The base file has llama-perplexity's format; logits come from the q4_0 weights in float32, as in its own run."""
    assert lamina("eval", made["dense"], "perplexity", *TEXT, *EXACT, "--save-logits", tmp_path / "base").returncode == 0
    got, kl = reply(lamina, made["q4"], "kl", "--base", tmp_path / "base", *EXACT), RESULTS["kl"]
    for key, label, unit in (("mean_kl", "Mean    KLD", 1), ("max_kl", "Maximum KLD", 1), ("p999_kl", "99.9%   KLD", 1), ("p99_kl", "99.0%   KLD", 1),
                             ("p90_kl", "90.0%   KLD", 1), ("median_kl", "Median  KLD", 1), ("p10_kl", "10.0%   KLD", 1), ("min_kl", "Minimum KLD", 1)):
        assert abs(got[key] * unit - kl[label][0]) < 2.1e-6 + 2e-5 * kl[label][0], label
    for key, label in (("rms_dp", "RMS Δp"), ("mean_dp", "Mean    Δp"), ("p99_dp", "99.0%   Δp"), ("p75_dp", "75.0%   Δp"), ("max_dp", "Maximum Δp")):
        assert abs(100 * got[key] - kl[label][0]) < 1.1e-3, label
    assert abs(100 * got["rms_dp_stderr"] - kl["RMS Δp"][1]) < 1.1e-3 and abs(got["kl_stderr"] - kl["Mean    KLD"][1]) < 1.1e-6
    assert abs(100 * got["same_top"] - kl["Same top p"][0]) < 1e-3 and abs(100 * got["same_top_stderr"] - kl["Same top p"][1]) < 1e-3
    assert abs(got["ln_ratio"] - kl["Mean ln(PPL(Q)/PPL(base))"][0]) < 2e-6 and abs(got["ln_ratio_stderr"] - kl["Mean ln(PPL(Q)/PPL(base))"][1]) < 2e-6
    assert abs(100 * got["correlation"] - kl["Cor(ln(PPL(Q)), ln(PPL(base)))"][0]) < 6e-3
    live = reply(lamina, made["q4"], "kl", "--base", made["dense"], *TEXT, *EXACT)
    assert abs(live["mean_kl"] / got["mean_kl"] - 1) < 1e-3 and live["tokens"] == got["tokens"]


def test_a_model_does_not_differ_from_itself(lamina, made):
    got = reply(lamina, made["q4"], "kl", "--base", made["q4"], *TEXT)
    assert got["mean_kl"] == got["max_kl"] == got["rms_dp"] == 0 and got["same_top"] == 1


@pytest.mark.parametrize("compute", ["auto", "f32"])
def test_threads_and_steps_change_no_bit(lamina, made, compute):
    first = {}
    for more in (["-t", "1"], ["-t", "3"], ["-ub", "7"], ["-ub", "512", "-t", "2"]):
        for kind, args in (("perplexity", []), ("kl", ["--base", made["dense"]])):
            got = reply(lamina, made["q4"], kind, *TEXT, "--compute", compute, *args, *more)
            assert got == first.setdefault(kind, got), more


# ---- questions ----

def ours(lamina, made, name, *more):
    form, _, shots = name.partition("-")
    extra = ["--shots", shots, "--shots-file", GOLDEN / f"{form}-dev.jsonl"] if shots else []
    return reply(lamina, made["dense"], "choices", "-f", GOLDEN / f"{form}.jsonl", *extra, *EXACT, "--details", *more)


@pytest.mark.parametrize("name", RESULTS["questions"])
def test_choices_are_lm_evals(lamina, made, name):
    want, got = RESULTS["questions"][name], ours(lamina, made, name)
    lines = [json.loads(s) for s in (GOLDEN / f"{name.partition('-')[0]}.jsonl").read_text().splitlines()]
    order = sorted(range(len(lines)), key=lambda i: lines[i].get("subject", ""))         # lm-eval runs each subject separately
    assert got["n"] == len(lines) == len(want["items"]) and got["task"] == name.partition("-")[0]
    for i, item in zip(order, want["items"]):
        mine = got["items"][i]
        assert all(math.isclose(a["logprob"], b, rel_tol=2e-6, abs_tol=2e-4) for a, b in zip(mine["choices"], item["logprobs"], strict=True)), i
        assert [c["greedy"] for c in mine["choices"]] == item["greedy"]
        assert (mine["best"] == mine["answer"]) == item["acc"]
        if item["acc_norm"] is not None:
            assert (mine["best_norm"] == mine["answer"]) == item["acc_norm"]
    assert math.isclose(got["accuracy"], want["acc"], rel_tol=1e-8) and math.isclose(got["stderr"], want["stderr"], rel_tol=1e-8, abs_tol=1e-12)
    assert want["acc_norm"] is None or math.isclose(got["accuracy_norm"], want["acc_norm"], rel_tol=1e-8)
    low, high = got["accuracy_interval"]
    assert low <= got["accuracy"] <= high


@pytest.mark.parametrize("name", some(["mmlu-2", "hellaswag"], step=2))
def test_questions_in_parallel_change_no_bit(lamina, made, name):
    first = ours(lamina, made, name, "-t", "1")
    for more in (["-ub", "5"], ["-t", "3", "-ub", "64"]):
        assert ours(lamina, made, name, *more) == first


def test_questions_of_our_own_form(lamina, made):
    got = reply(lamina, made["dense"], "choices", "-f", GOLDEN / "plain.jsonl", "--details")
    assert got["n"] == 4 and got["task"] == "plain" and [len(i["choices"]) for i in got["items"]] == [3, 2, 2, 4]
    assert reply(lamina, made["dense"], "choices", "-f", GOLDEN / "plain.jsonl", "--limit", "2")["n"] == 2


@pytest.mark.parametrize("line, why", [
    ("{", "not JSON"), ("[]", "is not a JSON object"), ('{"context": "a"}', "choices"), ('{"context": "a", "choices": ["b", "c"], "answer": 2}', "answer"),
    ('{"context": "a", "choices": ["b", 3], "answer": 0}', "choices"), ('{"sentence": "no gap", "option1": "a", "option2": "b", "answer": "1"}', "gap"),
    ('{"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "C"}', "answerKey"),
])
def test_an_invalid_question_is_rejected_with_its_line(lamina, made, tmp_path, line, why):
    (tmp_path / "q").write_text((GOLDEN / "plain.jsonl").read_text().splitlines()[0] + "\n" + line + "\n")
    done = lamina("eval", made["dense"], "choices", "-f", tmp_path / "q")
    assert done.returncode == 2 and why in done.stderr and "line 2" in done.stderr and done.stderr.count("\n") <= 2


# ---- result files ----

def test_tables(lamina, made, tmp_path):
    for kind, args in (("perplexity", TEXT), ("kl", [*TEXT, "--base", made["dense"]]), ("choices", ["-f", GOLDEN / "arc.jsonl"]),
                       ("speed", [*TEXT, "-n", "4"])):
        files = [tmp_path / f"{kind}.{end}" for end in ("csv", "md")]
        got = reply(lamina, made["q4"], kind, *args, "--csv", files[0], "--markdown", files[1])
        rows = list(csv.DictReader(files[0].open()))
        assert re.search(r"^\|---\|", files[1].read_text(), re.M) and rows
        if kind in ("perplexity", "kl"):
            assert len(rows) == got["tokens"] and math.isclose(-sum(float(r["logprob"]) for r in rows) / len(rows), got["nll"] if "nll" in got
                                                                 else math.log(got["perplexity"]), rel_tol=1e-6)
        if kind == "choices":
            assert sum(r["right"] == "1" and r["best"] == "1" for r in rows) / 6 == got["accuracy"]


def test_a_killed_run_continues(lamina, made, tmp_path, build):
    """However often it is killed, the result is that of an uninterrupted run."""
    text, state = tmp_path / "text", tmp_path / "state"
    text.write_text((IMATRIX / "text.txt").read_text() * 12)
    command = [made["q4"], "kl", "--base", made["dense"], "-f", text, "-c", "64"]
    want, sizes = reply(lamina, *command), []
    for wait in some((0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2), step=3):
        p = subprocess.Popen([build / "src/cli/lamina", "eval", *map(str, command), "--state", state], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(wait)
        p.send_signal(signal.SIGKILL)
        p.wait()
        sizes.append(state.stat().st_size if state.exists() else 0)
    assert sizes == sorted(sizes)
    assert reply(lamina, *command, "--state", state) == want
    whole = state.read_bytes()
    state.write_bytes(whole[:len(whole) // 2 + 3])                                  # an incomplete record is computed again
    assert reply(lamina, *command, "--state", state) == want
    assert state.stat().st_size == len(whole)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    state.write_bytes(damaged)
    assert reply(lamina, *command, "--state", state) == want


def test_results_of_another_run_are_not_mixed_in(lamina, made, tmp_path):
    state = tmp_path / "state"
    reply(lamina, made["dense"], "perplexity", *TEXT, "--state", state)
    before = state.read_bytes()
    for args in ([made["q4"], "perplexity", *TEXT], [made["dense"], "perplexity", "-f", IMATRIX / "text.txt", "-c", "60"],
                 [made["dense"], "perplexity", *TEXT, "--compute", "f32"], [made["dense"], "choices", "-f", GOLDEN / "arc.jsonl"]):
        done = lamina("eval", *args, "--state", state)
        assert done.returncode == 2 and "another model, text or setting" in done.stderr
    (tmp_path / "mine").write_text("not a file of results, but something that matters")
    assert lamina("eval", made["dense"], "perplexity", *TEXT, "--state", tmp_path / "mine").returncode == 2
    assert state.read_bytes() == before and "matters" in (tmp_path / "mine").read_text()


def test_damaged_files_of_logits_are_rejected(lamina, made, tmp_path):
    base = tmp_path / "base"
    assert lamina("eval", made["dense"], "perplexity", *TEXT, "--save-logits", base).returncode == 0
    data = base.read_bytes()
    for n, broken in enumerate((data[:12], data[:30], data[:-1], data[:8] + b"\xff" * 12 + data[20:], data[:20] + b"\xff" * 4 + data[24:])):
        (tmp_path / "broken").write_bytes(broken)
        done = lamina("eval", made["dense"], "kl", "--base", tmp_path / "broken")
        assert done.returncode == 3 and done.stderr.startswith("error: ") and str(tmp_path / "broken") in done.stderr, n
    other = data[:12] + (319).to_bytes(4, "little") + data[16:]
    (tmp_path / "other").write_bytes(other)
    assert lamina("eval", made["dense"], "kl", "--base", tmp_path / "other").returncode in (2, 3)


# ---- needle and speed ----

def test_a_model_that_copies_finds_the_needle(lamina, tmp_path):
    args = [MODEL, "needle", "--lengths", "160", "--depths", "0,100", "--samples", "1", "-n", "10"]
    got = reply(lamina, *args, "--csv", tmp_path / "grid.csv")
    assert got["found"] == 1 and len(got["cells"]) == 2
    assert reply(lamina, *args, "-t", "1", "-ub", "50") == got
    assert [r["found"] for r in csv.DictReader((tmp_path / "grid.csv").open())] == ["1", "1"]


def test_speed_is_reported(lamina, made):
    got = reply(lamina, made["q4"], "speed", *TEXT, "-n", "8", "--chunks", "2")
    assert got["chunks"] == 2 and got["read_per_second"] > 0 and got["generated_per_second"] > 0


# ---- rejected input ----

@pytest.mark.parametrize("args, why", [
    (["perplexity"], "requires --file"), (["kl", *TEXT], "requires --base"), (["perplexty", *TEXT], "perplexity"), (["perplexity", *TEXT, "--base", "x"], "applies only to kl"),
    (["perplexity", "-f", IMATRIX / "text.txt", "-c", "250"], "two chunks"), (["perplexity", *TEXT, "--rule", "sliding", "--stride", "64"], "stride"),
    (["needle", "--lengths", "40"], "tokens"), (["needle", "--depths", "101"], "--depths"), (["speed", *TEXT, "-n", "64"], "--predict"),
    (["choices", "-f", GOLDEN / "mmlu.jsonl", "--shots", "2"], "--shots-file"), (["choices", "-f", GOLDEN / "mmlu.jsonl", "--shots", "9", "--shots-file", GOLDEN / "mmlu-dev.jsonl"], "only 3"),
])
def test_impossible_settings_are_rejected(lamina, made, args, why):
    done = lamina("eval", made["dense"], *args)
    assert done.returncode == 2 and why in done.stderr and done.stdout == "", done.stderr
