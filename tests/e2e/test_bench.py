"""lamina bench: the lines that are asked for, in every form. Speed itself is judged nowhere here."""
import csv
import io
import json

import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


@pytest.fixture(scope="module")
def model(source):
    return next((source / "tests/golden/llama").glob("*/model.gguf"))


def bench(lamina, model, *flags):
    done = run(lamina, "bench", model, "-r", "2", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_combination_is_a_line(lamina, model):
    flags = ["-p", "8,16", "-n", "0,2", "-d", "0,4", "-t", "1,2", "-npl", "1,3"]
    lines = json.loads(bench(lamina, model, *flags, "--json"))
    tests = [(r["n_threads"], r["n_sequences"], r["n_depth"], r["n_prompt"], r["n_gen"]) for r in lines]
    assert tests == [(t, s, d, p, n) for t in (1, 2) for s in (1, 3) for d in (0, 4) for p, n in ((8, 0), (16, 0), (0, 2))]
    for r in lines:
        assert 0 < r["median_ts"] <= r["best_ts"] and r["limit_ts"] > 0 and r["peak"] > 0 and r["limited_by"] in ("int8", "bf16", "f32", "memory")
        assert r["predicted_ts"] > 0 and r["predicted"]["products"] > 0
        assert r["load_seconds"] > 0 and r["scratch_bytes"] > 0 and r["peak_rss"] > 0


def test_forms(lamina, model):
    flags = ["-p", "4", "-n", "1", "-t", "1"]
    table = bench(lamina, model, *flags).splitlines()
    assert len(table) == 4 and len({line.count("|") for line in table}) == 1 and "pp4" in table[2] and "tg1" in table[3]
    rows = list(csv.DictReader(io.StringIO(bench(lamina, model, *flags, "-o", "csv"))))
    assert [(r["n_prompt"], r["n_gen"]) for r in rows] == [("4", "0"), ("0", "1")] and all(float(r["avg_ts"]) > 0 and None not in r for r in rows)
    assert [json.loads(x)["n_gen"] for x in bench(lamina, model, *flags, "-o", "jsonl").splitlines()] == [0, 1]


@pytest.mark.parametrize("flags", [["-p", "x"], ["-p", "1,"], ["-p", "-1"], ["-npl", "0"], ["-p", "0", "-n", "0"], ["-t", "5000"]])
def test_nonsense_is_refused(lamina, model, flags):
    done = run(lamina, "bench", model, *flags)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and not done.stdout
