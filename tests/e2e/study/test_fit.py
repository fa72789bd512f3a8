"""lamina devices and lamina fit. LAMINA_REWRITE=1 rewrites the pages: read the diff."""
import json
import os
import re

import pytest
from conftest import run

PAGES = {
    "devices": ["devices"],
    "device-rtx-4090": ["devices", "4090"],
    "llama-3.2-3b-rtx-4090": ["fit", "llama-3.2-3b", "--device", "rtx-4090"],
    "deepseek-v2-lite-16g": ["fit", "deepseek-v2-lite", "--vram", "16G", "--context", "32k"],
    "llama-3.1-8b-all": ["fit", "llama-3.1-8b", "--device", "all"],
    "llama-3.1-8b-throughput": ["fit", "llama-3.1-8b", "--device", "h100", "--context", "4k", "--price", "2.5"],
    "presets-raspberry-pi-5": ["presets", "--fits", "llama", "--device", "raspberry-pi-5", "-c", "16k"],
    "fleet-rtx-4090": ["fit", "--fleet", "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "--device", "rtx-4090"],
}


@pytest.fixture(scope="module")
def lamina(build, limits, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


@pytest.mark.parametrize("page", PAGES)
def test_page(lamina, source, page):
    golden = source / "tests/golden/fit" / (page + ".txt")
    done = lamina(*PAGES[page])
    assert done.returncode == 0, done.stderr
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text(done.stdout)
    assert done.stdout == golden.read_text()


def fit(lamina, *args):
    return json.loads(lamina("fit", *args, "--json").stdout)


def test_catalogue(lamina):
    devices = json.loads(lamina("devices", "--json").stdout)
    assert len(devices) >= 60 and len({d["name"] for d in devices}) == len(devices)
    assert {d["kind"] for d in devices} == {"gpu", "accelerator", "apple", "phone", "board", "cpu"}
    for d in devices:
        assert d["source"] and d["memory"] > 0 and d["bytes_per_second"] > 1e9
        peaks = d["operations_per_second"]
        assert not (peaks["f16"] and peaks["f32"]) or peaks["f16"] >= peaks["f32"]
        assert json.loads(lamina("devices", d["name"], "--json").stdout) == d
    assert [d["name"] for d in json.loads(lamina("devices", "--kind", "phone", "--json").stdout)] == \
        [d["name"] for d in devices if d["kind"] == "phone"]


def test_names_of_devices(lamina):
    assert json.loads(lamina("devices", "GeForce RTX 4090", "--json").stdout)["name"] == "rtx-4090"
    several = lamina("fit", "gpt2", "--device", "rtx")
    assert several.returncode == 2 and "rtx-4090" in several.stderr + several.stdout or "others" in several.stderr
    wrong = lamina("fit", "llama-3.2-1b", "--device", "rtx-4091")
    assert wrong.returncode == 1 and "did you mean rtx-4090" in wrong.stderr


def test_presets_that_fit(lamina):
    """`presets --fits` gives each preset the figures of `fit`."""
    rows = json.loads(lamina("presets", "--fits", "--device", "raspberry-pi-5", "--json").stdout)
    assert [r["name"] for r in rows] == [p["name"] for p in json.loads(lamina("presets", "--json").stdout)]
    assert {r["fit"]["fits"] for r in rows} == {True, False}
    for r in (r for r in rows if r["name"] in ("gpt2", "gemma-4-e2b", "qwen3.5-9b", "lfm2-8b-a1b", "deepseek-v3")):
        alone = fit(lamina, r["name"], "--device", "raspberry-pi-5", "--precision", "Q4_K_M")
        row = alone["precisions"][0]
        assert (r["fit"]["context"], r["fit"]["memory"]) == (alone["context"], alone["machine"]["memory"]), r["name"]
        assert {k: r["fit"][k] for k in ("total", "fits", "tight", "generating", "reading")} == \
            {k: row[k] for k in ("total", "fits", "tight", "generating", "reading")}, r["name"]
    contexts = {r["name"]: r["fit"]["context"] for r in json.loads(lamina("presets", "--fits", "-c", "64k", "llama-3", "--json").stdout)}
    assert (contexts["llama-3-8b"], contexts["llama-3.1-8b"]) == (8192, 65536)
    none = lamina("presets", "--fits", "--device", "raspberry-pi-5", "deepseek-v3")
    assert none.returncode == 4 and "none of these models fits in Q4_K_M" in none.stderr
    alone = lamina("presets", "--device", "raspberry-pi-5")
    assert alone.returncode == 2 and "requires --fits" in alone.stderr


def test_sizes_equal_the_plan(lamina):
    """The bytes of a row are those that inspect reads from the plan of the same precision."""
    j = fit(lamina, "llama-3.2-1b", "--device", "h200", "--context", "4096", "--batch", "3", "--kv-type", "q8_0")
    assert [r["precision"] for r in j["precisions"]] == ["f32", "f16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_XS"]
    for r in j["precisions"]:
        facts = json.loads(lamina("inspect", "llama-3.2-1b", "--query", "memory", "--cpu", "ref", "--threads", "1", "--context", "4096",
                                  "--batch", "3", "--kv-type", "q8_0", "--precision", r["precision"]).stdout)
        assert r["weights"] == facts["weights"] + facts["mapped"]
        assert (r["kv"], r["scratch"]) == (facts["kv"], facts["scratch"])
        assert r["total"] == r["weights"] + r["kv"] + r["scratch"] and r["left"] == j["machine"]["memory"] - r["total"]


def test_the_largest_that_fits(lamina):
    """One more position or sequence no longer fits."""
    common = ("llama-3.2-3b", "--vram", "6G", "--precision", "Q4_K_M")
    row = fit(lamina, *common, "--context", "8192")["precisions"][0]
    longest, most = row["longest_context"], row["most_sequences"]
    assert 8192 < longest < 131072 and 1 < most < 100
    assert fit(lamina, *common, "--context", longest)["fits"]
    over = lamina("fit", *common, "--context", longest + 1, "--json")
    assert over.returncode == 4 and not json.loads(over.stdout)["fits"]
    assert fit(lamina, *common, "--context", "8192", "--batch", most)["fits"]
    assert lamina("fit", *common, "--context", "8192", "--batch", most + 1).returncode == 4


def test_models_that_do_not_fit(lamina):
    done = lamina("fit", "llama-3.1-405b", "--device", "h200")
    assert done.returncode == 4 and "does not fit" in done.stdout and "IQ4_XS" in done.stderr.splitlines()[-1]
    assert lamina("fit", "--fleet", "llama-3.1-405b", "llama-3.2-1b", "--device", "h200").returncode == 4


def test_best_precision(lamina):
    best = {vram: fit(lamina, "llama-3.1-8b", "--vram", vram)["best"] for vram in ("40GiB", "17.5GB", "11G", "6.5G")}
    assert best == {"40GiB": "f16", "17.5GB": "f16", "11G": "Q8_0", "6.5G": "Q4_K_M"}


def test_speeds(lamina):
    """Speeds are bounded by the bandwidth and the peak of the device; unknown speeds are null."""
    j = fit(lamina, "llama-3.1-8b", "--device", "rtx-4090", "--context", "1024")
    for r in j["precisions"]:
        if r["generating"]:
            assert r["generating"]["limited_by"] == "memory"
            assert r["generating"]["tokens_per_second"] < 1008e9 / (0.9 * r["weights"])
    q8 = next(r for r in j["precisions"] if r["precision"] == "Q8_0")
    assert q8["reading"]["limited_by"] == "int8" and q8["reading"]["tokens_per_second"] < 660.6e12 / (2 * 6.9e9)
    unknown = fit(lamina, "llama-3.2-1b", "--vram", "24G")["precisions"][0]
    assert unknown["generating"] is None and unknown["reading"] is None
    spark = fit(lamina, "llama-3.2-1b", "--device", "dgx-spark")["precisions"][1]
    assert spark["generating"]["limited_by"] == "memory" and spark["reading"] is None


def test_here(lamina, model):
    j = fit(lamina, model, "--context", "1024")
    assert j["machine"]["kind"] == "this machine" and j["best"] == "as stored" and j["precisions"][0]["precision"] == "as stored"
    assert j["precisions"][0]["generating"]["tokens_per_second"] > 1
    assert fit(lamina, model, "--ram", "1G")["machine"]["memory"] == 10 ** 9
    assert lamina("fit", model, "--ram", "64M", "--context", "1024").returncode == 4


def test_every_device(lamina):
    """A row of the table has the values of the device's own page."""
    j = fit(lamina, "llama-3.1-8b", "--device", "all")
    assert len(j["devices"]) == len(json.loads(lamina("devices", "--json").stdout))
    for name in ("rtx-4060", "raspberry-pi-4", "tpu-v5e", "epyc-9654", "dgx-spark"):
        row = next(r for r in j["devices"] if r["device"] == name)
        own = fit(lamina, "llama-3.1-8b", "--device", name)
        best = next((r for r in own["precisions"] if r["precision"] == own["best"]), None)
        assert row["precision"] == own["best"] and row["fits"] == own["fits"]
        assert best is None or [row[k] for k in ("total", "generating", "reading")] == [best[k] for k in ("total", "generating", "reading")]


def test_reserve(lamina):
    """What others need of a device is not the model's: Llama 3.2 3B in float32 would fill an iPhone 14 Pro, whose apps get about half."""
    gib = 2 ** 30
    kept = {"rtx-4090": gib // 2, "tpu-v5e": gib // 2, "apple-m4-max": 32 * gib, "iphone-14-pro": 3 * gib, "raspberry-pi-4": gib,
            "epyc-9654": gib}
    for name, reserve in kept.items():
        device = json.loads(lamina("devices", name, "--json").stdout)
        machine = fit(lamina, "gpt2", "--device", name)["machine"]
        assert device["reserve"] == machine["reserve"] == reserve and device["reserve_source"]
        assert machine["memory"] == device["memory"] - reserve
    assert fit(lamina, "gpt2", "--device", "rtx-4090", "--ram", "8G")["machine"]["reserve"] == 0
    full = fit(lamina, "llama-3.2-3b", "--device", "iphone-14-pro", "--precision", "Q8_0")["precisions"][0]
    assert 3 * gib < full["total"] < 6 * gib and not full["fits"]


def test_tight(lamina):
    """A row is tight from the first byte that does not fit in 95 % of the memory; the page says what that means."""
    total = fit(lamina, "llama-3.2-1b", "--vram", "8GiB", "--precision", "Q8_0")["precisions"][0]["total"]
    for memory, marks in ((total - 1, (False, False)), (total, (True, True)), (total * 100 // 96, (True, True)),
                          (total * 100 // 94, (True, False))):
        done = lamina("fit", "llama-3.2-1b", "--vram", memory, "--precision", "Q8_0", "--json")
        row = json.loads(done.stdout)["precisions"][0]
        assert (row["fits"], row["tight"]) == marks, memory
    page = lamina("fit", "llama-3.2-1b", "--vram", total, "--precision", "Q8_0").stdout
    assert "  tight  " in page and "less than a twentieth of the memory is left" in page


def test_throughput(lamina):
    j = fit(lamina, "llama-3.1-8b", "--device", "h100", "--context", "4k", "--price", "2.5")
    sequences = [b["batch"] for b in j["batches"]]
    own = fit(lamina, "llama-3.1-8b", "--device", "h100", "--context", "4k", "--precision", j["precision"])["precisions"][0]
    assert sequences[0] == 1 and sequences[-1] == own["most_sequences"] and sequences == sorted(set(sequences))
    rates = [b["generating"]["tokens_per_second"] for b in j["batches"]]
    assert rates == sorted(rates)                # more sequences share each read of the weights
    for b, rate in zip(j["batches"], rates):
        assert b["price_per_million"] == pytest.approx(2.5 / 3600 / rate * 1e6) and b["each"] == pytest.approx(rate / b["batch"])


def test_fleet(lamina):
    j = json.loads(lamina("fit", "--fleet", "llama-3.2-1b", "llama-3.2-1b", "llama-3.2-3b", "--vram", "9G", "--json").stdout)
    assert j["total"] == sum(m["total"] for m in j["models"]) <= 9 * 10 ** 9
    assert j["left"] == 9 * 10 ** 9 - j["total"] and j["copies_of_all"] == 9 * 10 ** 9 // j["total"]
    for m in j["models"]:
        assert m["more_copies"] == j["left"] // m["total"]
        assert m["more_sharing_weights"] == j["left"] // (m["kv"] + m["scratch"])


def test_each_model_of_a_fleet_has_its_own_context(lamina):
    page = lamina("fit", "--fleet", "gpt2", "llama-3.2-1b", "--vram", "9G").stdout
    assert re.search(r"GPT-2 +f16 +1,024 ", page) and re.search(r"Llama 3.2 1B +f16 +8,192 ", page) and "positions" not in page


@pytest.mark.parametrize("arguments", [["--ram", "lots"], ["--vram", "0"], ["--device", "h200", "--vram", "1G"], ["--precision", "int4"],
                                       ["--fleet"], ["--kv-type", "q2"],
                                       ["--vram", "1G", "--throughput"], ["--device", "all", "--ram", "4G"]])
def test_usage(lamina, arguments):
    model = [] if arguments == ["--fleet"] else ["llama-3.2-1b"]
    assert lamina("fit", *model, *arguments).returncode == 2


def test_a_document_reports_what_does_not_fit(lamina):
    for arguments in (["gpt2", "--ram", "1K"], ["--fleet", "gpt2", "gpt2-xl", "--ram", "1K"],
                      ["llama-3.1-405b", "--device", "all", "--precision", "f32", "--batch", "65536"]):
        done = lamina("fit", *arguments, "--json")
        error = json.loads(done.stdout)["error"]
        assert done.returncode == 4 and error["code"] == "no_fit" and error["where"] == "memory"
        assert done.stderr.splitlines()[-1] == f"error: memory: {error['message']}"
    assert "error" not in fit(lamina, "gpt2", "--ram", "16G")


@pytest.mark.parametrize("arguments", [["llama-3.2-1b", "gpt2", "--fleet"], ["llama-3.2-1b", "--device", "all"], ["llama-3.2-1b", "--vram", "24G"]])
def test_a_price_needs_throughput(lamina, arguments):
    done = lamina("fit", *arguments, "--price", "3")
    assert done.returncode == 2 and "cannot be combined" in done.stderr


def test_rows_that_are_not_whole_blocks_stay_in_two_bytes(lamina):
    """A tiny gpt-oss whose experts have rows of 20: MXFP4 has blocks of 32."""
    done = lamina("fit", "tests/golden/gpt_oss/plain", "--ram", "16G", "--json")
    assert done.returncode == 0, done.stderr
    sizes = {p["precision"]: p["weights"] for p in json.loads(done.stdout)["precisions"]}
    assert 0 < sizes["Q8_0"] < sizes["MXFP4"] < sizes["f16"]


def test_experts_that_are_published_in_four_bits_keep_them(lamina):
    """Sizes of published files of gpt-oss, in GB: the checkpoint 13.8 and 65.4, Q8_0 12.1 and 63.4, Q6_K 12.04, Q4_K_M 62.8."""
    for model, sizes in (("gpt-oss-20b", {"f16": 41.8, "MXFP4": 13.8, "Q8_0": 12.1, "Q6_K": 12.04}),
                         ("gpt-oss-120b", {"MXFP4": 65.4, "Q8_0": 63.4, "Q4_K_M": 62.8})):
        reply = fit(lamina, model, "--vram", "80GiB")
        weights = {r["precision"]: r["weights"] / 1e9 for r in reply["precisions"]}
        assert all(abs(weights[p] - x) < 0.005 * x for p, x in sizes.items()), weights
        assert reply["best"] == "MXFP4"
        page = lamina("inspect", model).stdout
        assert re.search(r"MXFP4 +Q8_0 +Q4_K_M", page) and "(MXFP4)" in page
    for model in ("granite-3.0-1b-a400m", "mixtral-8x7b", "llama-3.2-1b"):
        assert "MXFP4" not in [r["precision"] for r in fit(lamina, model, "--vram", "80GiB")["precisions"]]
