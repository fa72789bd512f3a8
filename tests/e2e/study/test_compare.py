"""lamina compare: pages are compared letter by letter (LAMINA_REWRITE=1 rewrites them: read the diff), numbers with inspect."""
import json
import math
import os
import re

import pytest
from conftest import run

FOUR = ["gpt2", "mistral-7b-v0.1", "deepseek-v2", "granite-3b-code-base"]
PAGES = {
    "llama-3.1-8b-llama-3.2-3b.txt": ["llama-3.1-8b", "llama-3.2-3b"],
    "four.txt": FOUR,
    "four-position.txt": [*FOUR, "bloom-7b1", "--view", "position"],
    "history.txt": ["--history"],
    "llama-3.1-8b-llama-3.2-3b.md": ["llama-3.1-8b", "llama-3.2-3b", "--md"],
    "four.md": [*FOUR, "--md"],
}


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


@pytest.mark.parametrize("page", PAGES)
def test_page(lamina, source, page):
    golden = source / "tests/golden/compare" / page
    done = lamina("compare", *PAGES[page])
    assert done.returncode == 0, done.stderr
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text(done.stdout)
    assert done.stdout == golden.read_text()


def rows(lamina, *models):
    j = json.loads(lamina("compare", *models, "--json").stdout)
    return j, {(s["name"], r["label"]): r for s in j["sections"] for r in s["rows"]}


def test_every_number_is_a_fact(lamina):
    """Each value with a path is what inspect returns for it."""
    models = ["gpt2", "deepseek-v2", "tests/golden/mistral/window"]
    j, _ = rows(lamina, *models)
    requested = 0
    for section in j["sections"]:
        for row in section["rows"]:
            for model, value in zip(models, row["values"]):
                if row["path"] is None or value is None or isinstance(value, str):
                    continue
                done = lamina("inspect", model, "--query", row["path"], "--cpu", "ref", "--threads", "1")
                assert json.loads(done.stdout) == value, (model, row["path"])
                requested += 1
    assert requested > 80


def test_reductions(lamina):
    """From 8B to 3B: 25 % less width, 12.5 % fewer layers, 43 % less MLP, 25 % fewer heads, the same key/value heads (facts.tsv, S002)."""
    _, r = rows(lamina, "llama-3.1-8b", "llama-3.2-3b")
    percent = {label: round(100 * (1 - r["specification", label]["ratio"]), 1) for label in ("width", "layers", "MLP width", "query heads")}
    assert percent == {"width": 25.0, "layers": 12.5, "MLP width": 42.9, "query heads": 25.0}
    assert r["specification", "key/value heads"]["same"] and r["specification", "key/value heads"]["values"] == [8, 8]
    back = rows(lamina, "llama-3.2-3b", "llama-3.1-8b")[1]
    assert back["specification", "width"]["ratio"] == pytest.approx(4 / 3)


def test_caches_of_the_seed(lamina):
    """The caches of six models at 4096 tokens in f16: 128, 512, 512, 270, 640 and 144 MiB."""
    _, r = rows(lamina, "llama-3.2-1b", "llama-3.1-8b", "mistral-7b-v0.1", "deepseek-v2", "granite-3.0-8b", "qwen2.5-3b")
    assert [v / 2 ** 20 for v in r["kv", "cache at 4,096 tokens"]["values"]] == [128, 512, 512, 270, 640, 144]


def test_cache_by_method_of_two_models(lamina):
    """Elements of a layer by method (O-16): heads · (key + value width); keys of DeepSeek-V2 are 128 + 64 wide, its latent 512 + 64."""
    _, r = rows(lamina, "llama-3.2-3b", "deepseek-v2")
    values = {method: r["kv", f"in a layer, as {method}"]["values"] for method in ("MHA", "GQA", "MQA", "MLA")}
    assert values["MHA"] == [24 * 256, 128 * (192 + 128)] and values["MQA"][0] == 256
    assert values["GQA"] == [8 * 256, None] and values["MLA"] == [None, 512 + 64]
    assert r["kv", "cache at 32,768 tokens"]["values"] == [2 * 28 * 8 * 128 * 2 * 32768, 60 * 576 * 2 * 32768]
    page = lamina("compare", "llama-3.2-3b", "gpt-neo-1.3b", "--view", "kv").stdout
    assert "940 MB" not in page and "3.76 GB (3.50 GiB)" in page and "470 MB (448 MiB)" in page
    [line] = [x for x in page.splitlines() if "cache at 32,768" in x]
    assert line.rstrip().endswith("–"), "a model of 2,048 positions has no such cache"


def test_a_changed_description_changes_the_answer(lamina, tmp_path, source):
    config = json.loads((source / "tests/golden/qwen3/bias/config.json").read_text())
    for name, change in {"a": {}, "b": {"num_hidden_layers": config["num_hidden_layers"] + 1}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **change}))
    j, r = rows(lamina, tmp_path / "a" / "config.json", tmp_path / "b" / "config.json")
    layers = r["specification", "layers"]["values"]
    assert layers[1] == layers[0] + 1 and not r["parameters", "total"]["same"] and r["specification", "width"]["same"]
    j, r = rows(lamina, tmp_path / "a" / "config.json", tmp_path / "a" / "config.json")
    assert all(x["same"] for x in r.values())
    assert {e["origin"] for e in j["timeline"]} == {"published"} and [e["model"] for e in j["timeline"]] == ["Transformer", "PaLM", "LLaMA"]


def test_readings_are_marked_and_follow_the_numbers(lamina):
    j, _ = rows(lamina, "deepseek-v2", "gpt2")
    rules = {x["rule"] for x in j["reading"]}
    assert {"latent attention", "mixture of experts", "table of positions", "tied head", "kinds of norm", "kinds of MLP"} <= rules
    assert all(x["qualitative"] for x in j["reading"])
    assert any("576" in x["text"] for x in j["reading"]) and any("9.1 %" in x["text"] for x in j["reading"])
    j, _ = rows(lamina, "llama-2-7b", "llama-2-13b")
    assert not {x["rule"] for x in j["reading"]} & {"latent attention", "mixture of experts", "tied head", "sliding window"}


def test_counts_are_integers(lamina):
    _, r = rows(lamina, "mixtral-8x7b", "mistral-7b-v0.1", "gemma-2-2b")
    for section in ("specification", "parameters"):
        active = r[section, "active per token"]
        assert active["path"] == "parameters.active" and active["values"] == [12_879_925_248, None, None]     # null where all of them are
    window = r["attention", "window"]
    assert window["path"] == "attention.window" and window["values"][:2] == [None, 4096] and "13 of 26 layers" in window["values"][2]


@pytest.mark.parametrize("view, parts", [("kv", {"sections"}), ("reading", {"reading"}), ("trends", {"trends"}), ("history", {"timeline", "trends"}),
                                         ("all", {"sections", "reading", "timeline", "trends"})])
def test_a_document_has_only_the_requested_view(lamina, view, parts):
    whole, j = (json.loads(lamina("compare", "gpt2", "mistral-7b-v0.1", "--json", *more).stdout) for more in ([], ["--view", view]))
    expected = {key: whole[key] for key in parts}
    if view == "kv":
        expected["sections"] = [s for s in whole["sections"] if s["name"] == "kv"]
    assert j == {"schema": whole["schema"], "models": whole["models"], **expected}


def test_history(lamina):
    j = json.loads(lamina("compare", "--history", "--json").stdout)
    dates = [e["date"] for e in j["timeline"]]
    assert dates == sorted(dates) and dates[0] == "2017-06" and len(dates) > 10
    assert all(re.fullmatch(r"\d{4}-\d\d", d) for d in dates) and all(e["source"] for e in j["timeline"])
    first = {name: [t["word"] for t in strand] for name, strand in j["trends"].items()}
    assert first["attention"][0] == "MHA" and "MLA" in first["attention"] and "GQA" in first["attention"]
    assert first["position"][:2] == ["Sinusoidal", "Learned"] and first["norm"][0] == "LayerNorm, Post"


def test_dates_are_of_presets_that_exist(lamina, source):
    names = {p["name"] for p in json.loads(lamina("presets", "--json").stdout)}
    for line in (source / "src/study/compare/history.tsv").read_text().splitlines():
        if line[0] not in "#@":
            assert {n.rstrip("*") for n in line.split("\t")[1].split()} <= names, line


def test_usage(lamina):
    assert lamina("compare").returncode == 2
    assert "timeline" in lamina("compare", "gpt2", "--view", "nothing").stderr
    assert lamina("compare", "gpt2", "--view", "nothing").returncode == 2
    assert lamina("compare", "gpt2", "no-such-model-at-all").returncode == 1
    assert lamina("compare", *["gpt2"] * 17).returncode == 2


def test_the_base_of_layers_without_a_window(lamina):
    """Gemma 3 uses another rotary base in layers with a window; rope_theta is that of the others."""
    rows = {r["label"]: r for section in json.loads(lamina("compare", "gemma-2-2b", "gemma-3-1b", "--view", "position", "--json").stdout)["sections"]
            for r in section["rows"]}
    assert rows["rotary base"]["values"] == [10000, 1000000]


@pytest.fixture(scope="module")
def stored(lamina, tmp_path_factory, source):
    """Files of one shape in two types, next to each other and in separate folders."""
    folder = tmp_path_factory.mktemp("stored")
    for name in ("f16", "q4_0"):
        (folder / name).mkdir()
        for path in (folder / f"{name}.gguf", folder / name / "model.gguf"):
            done = lamina("synth", source / "tests/golden/llama/gqa/config.json", path, "--type", name)
            assert done.returncode == 0, done.stderr
    return folder


def test_two_files_of_one_shape(lamina, stored):
    """Files of one shape are compared by types, by bytes per class of tensors (from the types' block sizes) and by file size."""
    block = {"f32": (1, 4), "f16": (1, 2), "q4_0": (32, 18), "q8_0": (32, 34)}
    files = [stored / "f16.gguf", stored / "q4_0.gguf"]
    j, r = rows(lamina, *files)
    assert j["models"] == ["f16", "q4_0"]
    expected = []
    for path in files:
        size = {"embedding": 0, "attention": 0, "the MLP": 0, "the norms": 0, "the head": 0}
        types = {}
        for t in json.loads(lamina("inspect", path, "--tensors", "--json").stdout):
            part = ("the norms" if "norm" in t["name"] else "attention" if "attn" in t["name"] else "the MLP" if "ffn" in t["name"] else
                    "embedding" if "token_embd" in t["name"] else "the head")
            elements, (n, each) = math.prod(t["shape"]), block[t["type"]]
            size[part] += elements // n * each
            types[t["type"]] = types.get(t["type"], 0) + elements // n * each
        size["all weights"], size["the files"] = sum(size.values()), path.stat().st_size
        expected.append((size, ", ".join(sorted(types, key=types.get, reverse=True))))
    for part in expected[0][0]:
        label = "size of the embedding" if part == "embedding" else f"size of {part}"
        assert r["stored", label]["values"] == [size[part] for size, _ in expected] and r["stored", label]["unit"] == "bytes"
    assert r["stored", "types of the weights"]["values"] == [types for _, types in expected]
    assert r["stored", "bits per weight"]["values"][1] == pytest.approx(8 * expected[1][0]["all weights"] / r["parameters", "total"]["values"][1])
    storage, = [x["text"] for x in j["reading"] if x["rule"] == "storage"]
    assert storage.startswith("q4_0 stores the same number of parameters in 6.76 bits each, f16 in 16.11")


def test_columns_are_distinguished(lamina, stored):
    page = lamina("compare", stored / "f16/model.gguf", stored / "q4_0/model.gguf").stdout
    assert page.startswith("f16/model.gguf  ·  q4_0/model.gguf\n")
    assert lamina("compare", "gpt2", "gpt2").stdout.startswith("GPT-2  ·  GPT-2 (2)\n")


def test_names_that_are_given(lamina, stored):
    assert lamina("compare", stored / "f16.gguf", stored / "q4_0.gguf", "--name", "full", "--name", "small").stdout.startswith("full  ·  small\n")
    done = lamina("compare", "gpt2", "--name", "a", "--name", "b")
    assert done.returncode == 2 and done.stderr == "error: --name: given 2 times for 1 model\n"
    for command in (["inspect"], ["inspect", "--view", "all"], ["report", "--format", "md"], ["explain", "kv"], ["estimate"], ["inspect", "--json"],
                    ["inspect", "--view", "facts"]):
        done = lamina(command[0], *(["kv"] if "kv" in command else []), stored / "f16.gguf", *[x for x in command[1:] if x != "kv"], "--name", "Mein & Modell")
        assert done.returncode == 0 and ("Mein & Modell" in done.stdout or "Mein &amp; Modell" in done.stdout), (command, done.stderr)
    assert lamina("inspect", "gpt2", "--name", "x", "--query", "config").returncode == 2 and lamina("explain", "--name", "x").returncode == 2


def test_bytes_have_their_unit_and_readings_appear_once(lamina, stored):
    page = lamina("compare", stored / "f16.gguf", stored / "q4_0.gguf").stdout
    same = page.split("the same\n")[1].split("\n\n")[0].replace("\n   ", " ·")
    figures = dict(x.strip().rsplit(": ", 1) for x in same.split(" · "))
    j, _ = rows(lamina, stored / "f16.gguf", stored / "q4_0.gguf")
    units = {r["label"]: r["unit"] for s in j["sections"] for r in s["rows"]}
    sizes = {label: value for label, value in figures.items() if units[label] == "bytes"}
    assert len(sizes) >= 8 and all(re.fullmatch(r"[\d,.]+ [kMG]?B", v) for v in sizes.values()), sizes
    readings = page.split("figures above)\n")[1]
    assert readings.count("query heads share each key/value head") == 1 and "f16, q4_0: 2 query heads share" in readings


def test_stored_types_need_weights(lamina, stored):
    done = lamina("compare", "gpt2", "llama-3.2-1b", "--view", "stored")
    assert done.returncode == 1 and done.stderr == "error: view: none of these models has weights\n"
    _, r = rows(lamina, "gpt2", stored / "f16.gguf")
    assert r["stored", "types of the weights"]["values"] == [None, "f16, f32"]
    assert not any(section == "stored" for section, _ in rows(lamina, "gpt2", "llama-3.2-1b")[1])


def test_first_with_a_feature(lamina):
    """SwiGLU and MQA are attributed to PaLM, RMSNorm to LLaMA, which have no presets; a report marks its own model."""
    text = " ".join(lamina("compare", "--history", "--view", "trends").stdout.split())
    assert "2022 MQA (PaLM)" in text and "2022 SwiGLU (PaLM)" in text and "2023 RMSNorm, Pre (LLaMA)" in text
    page = lamina("report", "llama-3.2-3b", "--format", "md").stdout
    assert page.count("▶ Llama 3.2 3B") == 2 and page.count("▶") == 2
    assert page.index('id="takeaways"') < page.index("- **+** QLoRA on 2,048 tokens with checkpoints takes about 4.26 GB: a card of 8 GiB holds it.") < page.index('id="configuration"')


def test_two_sizes_of_one_cache_are_explained(lamina):
    """Windows of 4,096 positions, 8 heads of 128, 32 layers, keys and values of two bytes are seen; pages hold more, and the view says why."""
    for more in ([], ["--md"]):
        text = " ".join(lamina("compare", "mistral-7b-v0.1", "gpt2", "--view", "memory", *more).stdout.split())
        seen = 4096 * 8 * 128 * 32 * 2 * 2
        assert text.count("is rounded up to whole pages") == 1 and "Mistral 7B v0.1: The cache of a layer with a window" in text
        assert f"the positions that are seen take {seen / 1e6:.0f} MB." in text
    assert "pages;" not in lamina("compare", "llama-3.2-1b", "gpt2", "--view", "memory").stdout


def test_a_name_without_a_version_lists_candidates(lamina):
    for name, choice in ("Granite 3", "granite-3.0-2b, granite-3.0-8b, granite-3.1-2b"), ("mistral 7b v0", "mistral-7b-v0.1, mistral-7b-v0.2"):
        done = lamina("inspect", name)
        assert done.returncode == 2 and f"matches several presets: {choice}" in done.stderr
    assert lamina("inspect", "llama 9").returncode != 0 and "could be" not in lamina("inspect", "llama 9").stderr


def reading(lamina, *models):
    return " ".join(" ".join(lamina("compare", *models, "--view", "reading").stdout.split()).split())


def test_sentences_hold_for_the_models_that_they_name(lamina):
    """A norm less only where attention and MLP share it; no dimension changes most where two change alike; no window longer than the context."""
    both = reading(lamina, "pythia-1b", "falcon-40b")
    assert "one norm less" not in both and "Pythia 1B, Falcon 40B: attention and MLP read the same input, each by a norm of its own." in both
    for name, title in (("falcon-7b", "Falcon 7B"), ("gpt-j-6b", "GPT-J 6B"), ("command-r-35b", "Command R 35B"), ("phi-2", "Phi-2")):
        assert f"{title}: attention and MLP read the same norm of the same input, so a layer needs one norm less." in reading(lamina, name)
    assert "changes most" not in reading(lamina, "pythia-1b", "falcon-40b") and "depth changes most" in reading(lamina, "llama-3.1-8b", "llama-3.1-70b")
    assert "window" not in lamina("compare", "phi-3.5-mini", "--view", "all").stdout
    assert "MHA+SWA" in lamina("compare", "phi-3-mini-4k").stdout
    assert "reach the whole context" in reading(lamina, "starcoder2-7b") and "×0.00 " not in reading(lamina, "deepseek-v2", "gemma-3-1b")
    assert "without training the context cannot be extended" in reading(lamina, "opt-125m")


def test_latent_attention_in_both_forms(lamina):
    """A key costs 2·L·H·(2·R + K_R) absorbed, 2·L·H·(K_N + K_R + V) naive; projections cost the same."""
    _, table = rows(lamina, "deepseek-v2-lite", "llama-3.2-1b")
    of = {name: table["flops", name]["values"] for name in ("more per key", "more per key, MLA naive",
          "a prompt of 512", "a prompt of 512, MLA naive")}
    assert of["more per key"][0] == 2 * 27 * 16 * (2 * 512 + 64) and of["more per key, MLA naive"][0] == 2 * 27 * 16 * (128 + 64 + 128)
    pairs = 512 * 513 // 2
    assert of["a prompt of 512"][0] - of["a prompt of 512, MLA naive"][0] == pairs * (of["more per key"][0] - of["more per key, MLA naive"][0])
    assert of["more per key, MLA naive"][1] is None


def test_the_cache_beside_the_sizes_that_make_it(lamina):
    """The table of caches has layers, heads and head width; models without shared heads save nothing and leave the cell empty."""
    _, table = rows(lamina, "opt-1.3b", "phi-4", "deepseek-v2-lite")
    kv = {label: r["values"] for (section, label), r in table.items() if section == "kv"}
    assert kv["layers"] == [24, 40, 27] and kv["key/value heads"] == [32, 10, "latent of 576"] and kv["head width"] == [64, 128, "qk 192, v 128"]
    assert kv["saved against MHA"][0] is None and kv["saved against MHA"][1] == 75
    assert "1 key/value head" not in lamina("inspect", "deepseek-v3", "--view", "cards").stdout
