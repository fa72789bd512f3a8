"""lamina bench: the requested lines, in every form. No test here judges speed."""
import csv
import io
import json
import os
import pathlib
import re
import shutil

import pytest
from conftest import MODEL, SANITIZED, run


@pytest.fixture(scope="module")
def lamina(build, limits):
    return build / "src/cli/lamina"


@pytest.fixture(scope="module")
def model(source):
    return min((source / "tests/golden/llama").glob("*/model.gguf"))


def bench(lamina, model, *flags, limits="stored"):
    done = run(lamina, "bench", model, "-r", "2", "--limits", limits, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_combination_prints_a_line(lamina, model):
    depths = (4,) if SANITIZED else (0, 4)
    flags = ["-p", "8,16", "-n", "0,2", "-d", ",".join(map(str, depths)), "-t", "1,2", "-npl", "1,3"]
    lines = json.loads(bench(lamina, model, *flags, "--json"))
    tests = [(r["n_threads"], r["n_sequences"], r["n_depth"], r["n_prompt"], r["n_gen"]) for r in lines]
    assert tests == [(t, s, d, p, n) for t in (1, 2) for s in (1, 3) for d in depths for p, n in ((8, 0), (16, 0), (0, 2))]
    for r in lines:
        assert 0 < r["median_ts"] <= r["best_ts"] and r["limit_ts"] > 0 and r["peak"] > 0 and r["limited_by"] in ("int8", "bf16", "f32", "memory")
        assert r["predicted_ts"] > 0 and r["predicted"]["products"] > 0
        parts = sum(r["predicted"][part] for part in ("products", "attention", "rows", "waiting"))
        assert parts == pytest.approx(r["predicted"]["seconds"], rel=1e-6)
        assert r["load_seconds"] > 0 and r["scratch_bytes"] > 0 and r["peak_rss"] > 0
        assert r["planned_bytes"] == r["weight_bytes"] + r["kv_bytes"] + r["scratch_bytes"]


def test_limits_are_measured_before_each_test_or_stored(lamina, model, tmp_path):
    """Stored limits are those of the file, to the last digit; measured limits are new: the stored ones are a thousandth of what the machine reaches."""
    def found(of, cache=tmp_path):
        done = run(lamina, "bench", model, "-r", "1", "-p", "4,4", "-n", "0", "-t", "1", "--json", "--limits", of, env={**os.environ, "LAMINA_CACHE": str(cache)})
        return [r["limit_ts"] for r in json.loads(done.stdout)]

    stored = found("stored", os.environ["LAMINA_CACHE"])                   # of one thread: measured, if no test before has done so
    for path in pathlib.Path(os.environ["LAMINA_CACHE"]).glob("limits-*.json"):
        known = json.loads(path.read_text())
        for kind in ("int8", "bf16", "f32", "memory"):
            known[kind] |= {key: known[kind][key] / 1000 for key in ("one", "all", "best")}
        (tmp_path / path.name).write_text(json.dumps(known | {"busy": 0.0}))
    low, again, measured = found("stored"), found("stored"), found("measured")
    assert len(set(stored)) == len(set(low + again)) == 1 and low[0] < stored[0] / 100
    assert min(measured) > 10 * low[0]


def test_forms(lamina, model):
    flags = ["-p", "4", "-n", "1", "-t", "1"]
    table = bench(lamina, model, *flags).splitlines()
    assert len(table) == 4 and len({line.count("|") for line in table}) == 1 and "pp4" in table[2] and "tg1" in table[3]
    rows = list(csv.DictReader(io.StringIO(bench(lamina, model, *flags, "-o", "csv"))))
    assert [(r["n_prompt"], r["n_gen"]) for r in rows] == [("4", "0"), ("0", "1")] and all(float(r["avg_ts"]) > 0 and None not in r for r in rows)
    assert [json.loads(x)["n_gen"] for x in bench(lamina, model, *flags, "-o", "jsonl").splitlines()] == [0, 1]


def test_a_bar_in_a_name_does_not_end_its_cell(lamina, model, tmp_path):
    shutil.copy(model, tmp_path / "a|b.gguf")
    line = bench(lamina, tmp_path / "a|b.gguf", "-p", "4", "-n", "0", "-t", "1").splitlines()[2]
    assert line.startswith("| a\\|b") and len(re.findall(r"(?<!\\)\|", line)) == 11


def test_ranges_and_pairs(lamina, model):
    lines = json.loads(bench(lamina, model, "-p", "2-8*2,9-13+2", "-n", "1-2", "-pg", "4,2", "-pg", "3,1", "-t", "1", "-tb", "2", "--json"))
    tests = [(r["n_prompt"], r["n_gen"]) for r in lines]
    assert tests == [(p, 0) for p in (2, 4, 8, 9, 11, 13)] + [(0, 1), (0, 2), (4, 2), (3, 1)]
    for r in lines:
        assert (r["n_threads"], r["n_threads_batch"]) == (1, 2) and len(r["samples_ns"]) == len(r["samples_ts"]) == 2
        assert max(r["samples_ts"]) == pytest.approx(r["best_ts"], rel=1e-6)


def test_the_smaller_batch_is_a_step(lamina, model):
    lines = json.loads(bench(lamina, model, "-p", "8", "-n", "0", "-t", "1", "-b", "2048,4", "-ub", "8", "--json"))
    assert [(r["n_batch"], r["n_ubatch"]) for r in lines] == [(2048, 8), (4, 4)]


@pytest.mark.parametrize("flags, types", [(["-ctk", "f32", "-ctv", "f32"], ("f32", "f32")), (["-ctk", "q8_0", "-ctv", "q4_0"], ("q8_0", "q4_0")),
                                          (["-ctk", "q5_1"], ("q5_1", "f16")), (["--kv-type", "bf16"], ("bf16", "bf16")), ([], ("f16", "f16"))])
def test_keys_and_values_have_types_of_their_own(lamina, flags, types):
    lines = json.loads(bench(lamina, MODEL, "-p", "4", "-n", "0", "-t", "1", *flags, "--json"))
    assert [(r["type_k"], r["type_v"]) for r in lines] == [types]


def test_a_type_given_twice(lamina, model):
    done = run(lamina, "bench", model, "--kv-type", "f32", "-ctv", "f16")
    assert done.returncode == 2 and "--cache-type-v: f16 cannot be combined with --kv-type f32" in done.stderr


def test_help_has_one_column_of_texts(lamina):
    lines = run(lamina, "help", "bench").stdout.splitlines()
    texts = [m.end() for m in (re.match(r"  -\S.*?\s{2,}(?=\S)", line) for line in lines) if m]
    assert len(texts) > 20 and set(texts) == {30}


def test_without_repacking(lamina, model):
    packed, stored = (json.loads(bench(lamina, model, "-p", "4", "-n", "0", *f, "--json"))[0] for f in ([], ["--no-repack"]))
    assert packed["repack"] and not stored["repack"] and stored["weight_bytes"] <= packed["weight_bytes"]


def test_profile(lamina, model):
    flags = ["-p", "32", "-n", "4", "-t", "1,2", "--profile"]
    for r in json.loads(bench(lamina, model, *flags, "--json")):
        p = r["profile"]
        kinds = {x["kind"]: x for x in p["parts"]}
        assert len(kinds) == len(p["parts"]) and {"attention", "norms", "activations", "waiting for workers", "between steps"} <= set(kinds)
        assert sum(x["share"] for x in p["parts"]) == pytest.approx(1) and [x["share"] for x in p["parts"]] == sorted((x["share"] for x in p["parts"]), reverse=True)
        assert sum(x["seconds"] for x in p["parts"]) == pytest.approx(p["worker_seconds"])
        assert p["worker_seconds"] == pytest.approx(p["seconds"] * r["n_threads"], rel=0.02)
        assert p["steps"] == (4 if r["n_gen"] else 1) and (p["joins"] > 0) == (r["n_threads"] > 1)
        products = [x for k, x in kinds.items() if k.startswith(("products ", "head "))]
        assert products and all(x["ops"] > 0 and x["bytes"] > 0 for x in products) and not any("ops" in kinds[k] for k in ("attention", "norms"))
    page = bench(lamina, model, *flags).split("\n\n")
    assert page[0].count("\n") == 5 and [x.split(":")[0] for x in page[1::2]] == ["pp32", "tg4"] * 2
    for table in page[2::2]:
        shares = [float(line.split("%")[0].split()[-1]) for line in table.splitlines()[1:]]
        assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares) + 0.01) and "█" in table
    assert "profile" not in json.loads(bench(lamina, model, "-p", "4", "-n", "0", "--json"))[0]


@pytest.mark.parametrize("flags", [["--profile", "-o", "csv"], ["-p", "4-2"], ["-p", "0-8*2"], ["-pg", "3"], ["-p", "1-999"], ["-p", "x"], ["-p", "1,"], ["-p", "-1"], ["-npl", "0"], ["-npl", "1-3+18446744073709551615"], ["-npl", "1-3*18446744073709551615"], ["-p", "18446744073709551617"], ["-p", "18014398509481985k"], ["-p", "1-4+18014398509481985k"], ["-p", "0", "-n", "0"], ["-t", "5000"]])
def test_nonsense_is_rejected(lamina, model, flags):
    done = run(lamina, "bench", model, *flags)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and not done.stdout
