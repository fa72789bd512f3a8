"""lamina audit: statements about models in documents, judged by the program."""
import collections
import csv
import json
import re

import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


@pytest.fixture(scope="module")
def judged(lamina, source):
    """Return each of the 716 statements with the verdict given by hand and lamina's."""
    path = source / "tests/golden/facts/facts.tsv"
    with path.open(newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    done = lamina("audit", path, "--json")
    assert done.returncode == 5 and "statements are wrong" in done.stderr
    found = json.loads(done.stdout)
    assert sum(found[w] for w in ("confirmed", "rounded", "wrong", "not_checkable")) == len(rows) == len(found["statements"])
    return list(zip(rows, found["statements"]))


def test_nothing_true_is_called_wrong(judged):
    about = [(r, s) for r, s in judged if r["model"] not in ("generic", "transformer-2017", "llama-2", "granite-3.0", "gpt-4")]
    for r, s in about:
        if r["verdict"] in ("exact", "rounded-ok"):
            assert s["verdict"] != "wrong", (r["id"], s)
    confirmed = sum(r["verdict"] == "exact" and s["verdict"] == "confirmed" for r, s in about)
    rounded = sum(r["verdict"] == "rounded-ok" and s["verdict"] == "rounded" for r, s in about)
    assert confirmed > 330 and rounded > 55


def test_errors_are_found_and_named(judged):
    wrong = [(r, s) for r, s in judged if r["verdict"] == "wrong"]
    assert not [r["id"] for r, s in wrong if s["verdict"] == "confirmed"]
    caught = [(r, s) for r, s in wrong if s["verdict"] == "wrong"]
    assert len(caught) >= 65
    why = {r["id"]: s["kind"] for r, s in caught}
    assert why["S000-075"] == why["S001-068"] == "a tied head counted twice" and why["S001-075"] == "a tied head counted twice"
    assert why["S004-019"].startswith("a binary prefix") and why["S004-101"].startswith("a binary prefix")
    assert why["S002-104"].startswith("a thousand times too large")
    reasons = collections.Counter(s["kind"] for _, s in caught)
    assert reasons["a tied head counted twice"] >= 5


def test_lines_of_other_systems_and_lines_cut_short(lamina, tmp_path):
    table = tmp_path / "table.tsv"
    table.write_bytes(b"model\tquantity\tclaim\r\n\r\ngpt2\tnum_hidden_layers\t12\r\ngpt2\tvocab_size\t50257\r\n")
    done = lamina("audit", table)
    assert done.returncode == 0 and "2 confirmed, 0 rounded, 0 wrong, 0 not" in done.stdout
    table.write_text("model\tquantity\tclaim\ngpt2\tnum_hidden_layers\t12\ngpt2\tvocab_size\n")
    done = lamina("audit", table)
    assert done.returncode == 2 and f"error: line 3: {table}: fewer columns than the header line" in done.stderr


def test_a_document(lamina, tmp_path):
    page = tmp_path / "model.md"
    page.write_text("| Parameter | Value |\n|---|---|\n| hidden_size | 3072 |\n| num_key_value_heads | 8 (GQA) |\n"
                    "| **num_hidden_layers** | 26 |\n| params.total | 3.6B |\n| colour | blue |\n")
    done = lamina("audit", page, "-m", "llama-3.2-3b")
    assert done.returncode == 5
    lines = done.stdout.splitlines()
    assert "confirmed" in lines[0] and "confirmed" in lines[1] and "it is 28" in lines[2] and "tied head" in lines[3]
    assert lines[4].endswith("not understood: | colour | blue |") and "2 confirmed, 0 rounded, 2 wrong" in lines[5]
    assert lines[6:] == ["1 row or line not understood"]
    assert json.loads(lamina("audit", page, "-m", "llama-3.2-3b", "--json").stdout)["rows_not_understood"] == [{"line": 7, "text": "| colour | blue |"}]
    assert lamina("audit", page, "--strict").returncode == 2 and lamina("audit", tmp_path / "none.md", "-m", "llama-3.2-3b").returncode == 1
    good = tmp_path / "good.tsv"
    good.write_text("model\tquantity\tclaim\nllama-3.2-3b\tkv.at[8192].bytes\t896 MB\nllama-3.2-3b\tlayers[0].mlp.up_proj.shape\t3072->8192\n"
                    "llama-3.2-3b\tmax_position_embeddings\t131K\nno-such-model\tparams.total\t1B\n")
    done = lamina("audit", good, "--json")
    assert done.returncode == 0
    assert [s["verdict"] for s in json.loads(done.stdout)["statements"]] == ["confirmed", "confirmed", "rounded", "not_checkable"]


def test_many_models_and_unreadable_ones(lamina, tmp_path):
    presets = [p["name"] for p in json.loads(lamina("presets", "--json").stdout)][:70]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("{")
    page = tmp_path / "page.tsv"
    page.write_text("model\tquantity\tclaim\n" + "".join(f"{p}\tnum_hidden_layers\t9999\n" for p in presets) + f"{tmp_path / 'broken'}\tvocab_size\t1\n"
                    "nobody\tvocab_size\t1\n")
    *found, broken, nobody = json.loads(lamina("audit", page, "--json").stdout)["statements"]
    assert len(found) == 70 and {s["verdict"] for s in found} == {"wrong"}
    assert broken["verdict"] == nobody["verdict"] == "not_checkable" and nobody["kind"] == "no such model"
    assert broken["kind"].startswith(str(tmp_path / "broken/config.json") + ": JSON: ") and broken["kind"] in lamina("audit", page).stdout
    table = tmp_path / "page.md"
    table.write_text("| vocab_size | 1 |\n")
    reply = lamina("audit", table, "-m", tmp_path / "broken")
    assert reply.returncode == 3 and reply.stderr.splitlines()[-1] == "error: " + broken["kind"]


@pytest.mark.parametrize("text", ["| model | layers |\n|---|---|\n| GPT-2 | 13 |\n", "model\tquantity\tclaim\ngpt2\tnum_hidden_layers\t13\n"])
def test_standard_input(build, text):
    """A document or a list of statements is read from a pipe as from a file."""
    done = run(build / "src/cli/lamina", "audit", "-", input=text)
    assert done.returncode == 5 and "; it is 12" in done.stdout
    assert done.stderr.splitlines()[-1] == "error: standard input: 1 of 1 statement is wrong"
    empty = run(build / "src/cli/lamina", "audit", "-", input="")
    assert empty.returncode == 2 and "-m" in empty.stderr, empty.stderr


def test_a_nul_is_rejected(lamina, tmp_path):
    for name, more in (("a.tsv", []), ("a.md", ["-m", "gpt2"])):
        (tmp_path / name).write_bytes(b"model\tquantity\tclaim\ngpt2\tvocab\0_size\t1\ngpt2\tvocab_size\t1\n")
        done = lamina("audit", tmp_path / name, *more)
        assert done.returncode == 2 and done.stdout == "" and "error: line 2: " in done.stderr and "(offset 31)" in done.stderr


def test_other_wordings(lamina, source):
    """Statements about other models in everyday wording (right, rounded, wrong, not checkable) get the verdicts given by hand."""
    path = source / "tests/golden/audit/statements.tsv"
    with path.open(newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = json.loads(lamina("audit", path, "--json").stdout)["statements"]
    assert len(found) == len(rows) >= 59
    for row, statement in zip(rows, found):
        assert row["verdict"].replace(" ", "_") == statement["verdict"], (row, statement)


def test_names_that_people_use(lamina, source):
    path = source / "tests/golden/audit/qwen2.5-7b.md"
    done = lamina("audit", path, "-m", "qwen2.5-7b", "--json")
    assert done.returncode == 5
    found = [(s["line"], s["verdict"]) for s in json.loads(done.stdout)["statements"]]
    assert {v for line, v in found if line < 26} == {"confirmed", "rounded"}
    assert {v for line, v in found if 26 < line < 40} == {"wrong"}
    assert {v for line, v in found if line > 43} == {"not_checkable"}
    assert len(found) == 26


DESCRIBED = """gpt2 activation_function gelu_new confirmed
gpt2 activation gelu_new confirmed
gpt2 activation gelu rounded
gpt2 activation relu wrong
gemma-2-2b activation gelu_pytorch_tanh confirmed
gemma-2-2b hidden_activation gelu_pytorch_tanh confirmed
mpt-7b activation gelu_new wrong
deepseek-v2 num_key_value_heads 128 confirmed
deepseek-v2 num_key_value_heads 64 wrong
llama-3.2-1b hidden_act silu confirmed
gpt2 n_embd 768 confirmed
gpt2 n_layer 13 wrong
gpt2 n_head 12 confirmed
gpt2 n_positions 1024 confirmed
gpt2 bos_token_id 50256 confirmed
gpt2 bos_token_id 50255 wrong
deepseek-v2 attention_bias false confirmed
granite-3b-code-base attention_bias true confirmed
llama-3.2-1b mlp_bias false confirmed
deepseek-v2 kv_lora_rank 512 confirmed
deepseek-v2 num_experts_per_tok 6 confirmed
deepseek-v2 n_routed_experts 160 confirmed
deepseek-v2 moe_intermediate_size 1536 confirmed
deepseek-v2 topk_method group_limited_greedy confirmed
mixtral-8x7b num_local_experts 8 confirmed
opt-125m ffn_dim 3072 confirmed
llama-3.2-1b gate_proj.shape 2048->8192 confirmed
llama-3.2-1b gate_proj.shape 8192->2048 wrong
llama-3.2-1b k_proj.shape 2048x512 confirmed
llama-3.2-1b k_proj.shape [512,2048] confirmed
llama-3.2-1b k_proj.shape 2048×513 wrong
llama-3.2-1b self_attn.q_proj.weight.shape [2048,2048] confirmed
llama-3.2-1b q_proj.colour red not-checkable
"""


def test_a_description_is_recognised_by_its_keys(lamina, tmp_path):
    """Statements may use the keys and spellings of config.json and the module names of a layer."""
    rows = [line.split(" ") for line in DESCRIBED.splitlines()]
    table = tmp_path / "described.tsv"
    table.write_text("model\tquantity\tclaim\n" + "".join("\t".join(row[:3]) + "\n" for row in rows))
    found = json.loads(lamina("audit", table, "--json").stdout)["statements"]
    for row, statement in zip(rows, found, strict=True):
        assert row[3].replace("-", "_") == statement["verdict"], statement


def test_every_key_of_a_preset_is_correct(lamina, tmp_path):
    for preset in ("gpt2", "gemma-2-2b", "deepseek-v2", "granite-3.0-2b", "gpt-oss-20b", "falcon-40b", "mpt-7b", "opt-350m", "qwen3-30b-a3b"):
        config = json.loads(lamina("inspect", preset, "--query", "config").stdout)
        keys = {k: v for k, v in config.items() if isinstance(v, (str, int, float)) and v != ""}
        table = tmp_path / "keys.tsv"
        table.write_text("model\tquantity\tclaim\n" + "".join(f"{preset}\t{k}\t{json.dumps(v).strip(chr(34))}\n" for k, v in keys.items()))
        for statement in json.loads(lamina("audit", table, "--json").stdout)["statements"]:
            assert statement["verdict"] == "confirmed", statement


def test_a_document_that_ends_in_an_error_has_it(lamina, tmp_path):
    table = tmp_path / "one.tsv"
    for layers, status in (("13", 5), ("12", 0)):
        table.write_text(f"model\tquantity\tclaim\ngpt2\tn_layer\t{layers}\n")
        done = lamina("audit", table, "--json")
        document = json.loads(done.stdout)
        assert done.returncode == status and len(document["statements"]) == 1 and ("error" in document) == (status != 0)
        if status:
            assert (document["error"]["code"], document["error"]["message"]) == ("differs", "1 of 1 statement is wrong")
            assert document["error"]["file"] == str(table) and done.stderr.splitlines()[-1] == f"error: {table}: 1 of 1 statement is wrong"


def test_control_bytes_of_a_file_stay_there(lamina, tmp_path):
    path = tmp_path / "claims.tsv"
    path.write_bytes(b"model\tquantity\tclaim\nllama-3.2-1b\tlayers\t17\x1b[31mred\x7f\n")
    done = lamina("audit", path)
    assert "\x1b" not in done.stdout and "17\\x1b[31mred\\x7f" in done.stdout


def test_a_bold_number_is_not_a_power(lamina, tmp_path):
    path = tmp_path / "claims.md"
    path.write_text("| quantity | value |\n| --- | --- |\n| num_hidden_layers | **16** layers |\n")
    done = lamina("audit", path, "-m", "llama-3.2-1b")
    assert done.returncode == 0, done.stdout


def test_a_misspelt_quantity_is_rejected(lamina, tmp_path):
    table = tmp_path / "typo.tsv"
    table.write_text("model\tquantity\tclaim\nllama-3.2-1b\tnum_hidden_layers\t16\nllama-3.2-1b\tnum_hiden_layers\t16\nllama-3.2-1b\thidden_sizes\t2048\n")
    done = lamina("audit", table)
    assert done.returncode == 2
    assert "num_hiden_layers: 16 (unknown quantity; did you mean num_hidden_layers?)" in done.stdout and "did you mean hidden_size?" in done.stdout
    assert done.stderr.splitlines()[-2:] == ["hint: did you mean num_hidden_layers?", f'error: line 3: {table}: unknown quantity "num_hiden_layers"']
    found = json.loads(lamina("audit", table, "--json").stdout)
    assert [s["nearest"] for s in found["statements"]] == [None, "num_hidden_layers", "hidden_size"] and found["error"]["code"] == "usage"
    assert "hiden" in lamina("audit", table, "--wrong-only").stdout
    page = tmp_path / "typo.md"
    page.write_text("| quantity | value |\n|---|---|\n| num_hiden_layers | 16 |\n| Head | of the table |\n")
    done = lamina("audit", page, "-m", "llama-3.2-1b")
    assert done.returncode == 0 and "2 rows and lines not understood" in done.stdout          # a document may have rows about anything


def test_a_quantity_of_other_models_is_not_a_typing_error(lamina, tmp_path):
    table = tmp_path / "dense.tsv"
    table.write_text("model\tquantity\tclaim\nllama-3.2-1b\tnum_experts\t8\nllama-3.2-1b\tcolour\tblue\n")
    done = lamina("audit", table)
    assert done.returncode == 0 and "num_experts: 8 (this model does not have this quantity)" in done.stdout and "colour: blue (unknown quantity)" in done.stdout


def test_strict_requires_all_statements_checked(lamina, tmp_path):
    table, page = tmp_path / "one.tsv", tmp_path / "one.md"
    table.write_text("model\tquantity\tclaim\ngpt2\tn_layer\t12\ngpt2\tcolour\tblue\n")
    assert lamina("audit", table).returncode == 0
    done = lamina("audit", table, "--strict")
    assert done.returncode == 5 and done.stderr.splitlines()[-1] == f"error: {table}: 1 of 2 statements could not be checked (--strict)"
    table.write_text("model\tquantity\tclaim\ngpt2\tn_layer\t12\n")
    assert lamina("audit", table, "--strict").returncode == 0
    table.write_text("model\tquantity\tclaim\n")
    assert lamina("audit", table).returncode == 0 and lamina("audit", table, "--strict").returncode == 5
    page.write_text("| n_layer | 12 |\n| colour | blue |\n")
    assert lamina("audit", page, "-m", "gpt2").returncode == 0 and lamina("audit", page, "-m", "gpt2", "--strict").returncode == 5
    page.write_text("| model | n_layer | n_hed |\n|---|---|---|\n| gpt2 | 12 | 12 |\n")
    done = lamina("audit", page, "--strict")
    assert done.returncode == 5 and "3  not understood: n_hed\n" in done.stdout, "a column with an unknown name"
    table.write_text("model\tquantity\tclaim\nno-such-model\tn_layer\t12\n")
    assert lamina("audit", table, "--strict").returncode == 5


# ---- documents in everyday wording ----

ABOUT = {
    "llama-3.2-3b-page.txt": (["llama-3.2-3b"], 0, 11),
    "llama-3.2-3b-report.txt": (["llama-3.2-3b"], 61, 274),
    "llama-3.2-3b-and-3.1-8b.txt": (["llama-3.2-3b", "llama-3.1-8b"], 8, 25),
    "llama-3.2-1b-and-others.txt": (["llama-3.2-1b", "gpt2", "gpt-3-175b", "mistral-7b-v0.1", "deepseek-v2", "granite-3b-code-base", "llama-3.1-8b"], 9, 157),
    "counting.txt": (["mistral-7b-v0.1", "qwen2.5-3b"], 0, 4),
}


def table(path):
    with path.open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("name", ABOUT)
def test_documents_in_any_wording(lamina, source, name):
    """Five long documents: what is called wrong is in a line with an error that was found by hand."""
    folder = source / "tests/golden/audit/documents"
    models, wrong, right = ABOUT[name]
    found = json.loads(lamina("audit", folder / name, "--json", *[x for m in models for x in ("-m", m)]).stdout)
    spans = [[int(n) for n in (span.split("-") * 2)[:2]] for r in table(folder / "expected.tsv") if r["document"] == name and r["verdict"] == "wrong"
             for span in r["lines"].split()]
    for s in found["statements"]:
        assert s["verdict"] != "wrong" or any(a <= s["line"] <= b for a, b in spans), s
    assert found["wrong"] == wrong and found["confirmed"] + found["rounded"] >= right


@pytest.mark.parametrize(("name", "least"), [("unseen", 28), ("fresh", 20), ("drawn", 10)])
def test_cards_and_blogs_with_planted_errors(lamina, source, name, least):
    """Errors planted by hand in model cards and blog posts, about the models that they name. Those in sentences, formulas and drawings are
    not read; no right statement is called wrong."""
    folder = source / "tests/golden/audit" / name
    planted = {(r["file"], int(r["line"]), r["claim"]) for r in table(folder / "errors.tsv")}
    found = set()
    for file in sorted({file for file, *_ in planted}):
        done = lamina("audit", folder / file, "--json")
        assert done.returncode == 5, done.stderr
        found |= {(file, s["line"], s["said"]) for s in json.loads(done.stdout)["statements"] if s["verdict"] == "wrong"}
    found = {(f, line, "yes" if reply == "✅" else reply) for f, line, reply in found}
    hit = {p for p in planted if any(f[:2] == p[:2] and (p[2] in f[2] or f[2] in p[2]) for f in found)}
    alarms = [f for f in found if not any(f[:2] == p[:2] and (p[2] in f[2] or f[2] in p[2]) for p in planted)]
    print(f"\n{len(hit)} of {len(planted)} planted errors found, {len(alarms)} called wrong that are right")
    assert len(planted) >= 37 and len(hit) >= least and not alarms, (planted - hit, alarms)


def about_the_same(row, statement):
    """Return whether lamina's statement is the one listed by hand: the line, the model and the value, or a word for it."""
    hand, found = re.sub("^(roughly|about) |[~<]", "", row["said"]), re.sub("^(roughly|about) |[~<]", "", statement["said"]).strip()
    same = hand == found or found in hand.split(" / ") or (len(found) > 1 and found in hand) or (found == "yes" and not hand[:1].isdigit())
    return statement["line"] == int(row["line"]) and statement["model"] in row["model"].split(", ") and same


def found_of(lamina, folder):
    """Return {(wrong, found): count} of the statements judged by hand in a folder (truth.tsv); no right statement may be called wrong."""
    sums, listed = collections.Counter(), table(folder / "truth.tsv")
    for file in sorted({r["file"] for r in listed}):
        statements = json.loads(lamina("audit", folder / file, "--json").stdout)["statements"]
        rows = [r for r in listed if r["file"] == file]
        for row in rows:
            if row["verdict"] != "not_checkable":
                verdicts = {s["verdict"] for s in statements if about_the_same(row, s)}
                sums[row["verdict"] == "wrong", bool(verdicts & ({"wrong"} if row["verdict"] == "wrong" else {"confirmed", "rounded"}))] += 1
        for s in statements:
            if s["verdict"] == "wrong":
                assert any(r["verdict"] == "wrong" and about_the_same(r, s) for r in rows), s
    print(f"\nwrong found {sums[True, True]} of {sums[True, True] + sums[True, False]}, right confirmed {sums[False, True]} of "
          f"{sums[False, True] + sums[False, False]}, false alarms 0")
    return sums


@pytest.mark.parametrize(("folder", "wrong", "right"), [("pair", 9, 35), ("styles", 10, 61)])
def test_texts_with_their_truth(lamina, source, folder, wrong, right):
    """Audit a model card for two models and a forum thread about four, and a wiki page, questions with answers and slides."""
    sums = found_of(lamina, source / "tests/golden/audit" / folder)
    assert sums[True, True] >= wrong and sums[False, True] >= right, sums


@pytest.mark.parametrize(("file", "least"), [("gemma-notes.md", 10), ("llama-practice.md", 10), ("mixtral-guide.md", 10), ("nemo-thread.txt", 6), ("three-cards.md", 30), ("llama-workbook.md", 27), ("qwen-field-report.md", 11), ("deepseek-card.md", 13), ("olmo-tables.md", 8), ("qwen-card.md", 2)])
def test_right_statements_are_never_called_wrong(lamina, source, file, least):
    """Texts without errors contain what could be mistaken for one: other models, parts of a model, settings, hypotheticals."""
    done = lamina("audit", source / "tests/golden/audit/right" / file, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, [s for s in found["statements"] if s["verdict"] == "wrong"]
    assert found["confirmed"] + found["rounded"] >= least


WRONG = {                                # texts with one error
    "gpt2": ["GPT-2 has 13 layers.", "- Layers: 13", "| n_layer | 13 |", "| Layers | Heads |\n|---|---|\n| 16 | 12 |", "```json\n\"n_layer\": 13,\n```",
             "```json\n{\"n_layer\": 13}\n```", "{\"n_layer\": 13}", "n_layer: 13", "Layers  13", "```yaml\nmodel:\n  n_layer: 13\n```", "- 13 layers, 12 heads",
             "GPT-2 has a vocabulary of 50,000 tokens.", "- Context length: 2,048", "- Activation: SiLU", "Weights in FP32: 249 MB", "- 117M params",
             "Property\tGPT-2\nLayers\t13\n", "Property    GPT-2\n--------    -----\nLayers      13\n"],
    "llama-3.2-1b": ["KV cache at 8,192 tokens: 536 MB", "KV cache (8K context, FP16): 512 MiB", "- 32 KV heads", "- Tied embeddings: no",
                     "| Component | Params | Share |\n|---|---|---|\n| MLP | 805M | 55.1% |", "- Query / KV heads: 32 / 32",
                     "| Precision | Size |\n|---|---|\n| BF16 | 4.94 GB |", "| Size in BF16 (GB) | 4.94 |", "rope theta: 10,000",
                     "Parameters: 1.5 × 10^9", "Hidden size = 2^12", "- Matmul FLOPs per token: 2.47 TFLOPs",
                     "| Context | KV cache (FP16) |\n|---|---|\n| 8,192 | 512 MiB |", "| Projection | Shape |\n|---|---|\n| k_proj | 2,048 × 1,024 |"],
}


@pytest.mark.parametrize(("model", "text"), [(m, t) for m, texts in WRONG.items() for t in texts])
def test_an_error_in_any_usual_form_is_found(lamina, tmp_path, model, text):
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)
    assert found["wrong"] == 1, found


SILENT = {                               # texts in which nothing is certain
    "gpt2": ["GPT-2 has 13 layers if the embedding is one.", "The draft model:\n\n- Layers: 13", "## Training\n\n| Setting | Value |\n|---|---|\n| Context length | 512 |",
             "## GPT-9\n\n- Layers: 13", "| Setting | GPT-2 | Ours |\n|---|---|---|\n| Layers | 12 | 13 |", "| Model | Layers |\n|---|---|\n| GPT-9 | 13 |",
             "| Layers | 13* |\n|---|---|\n", "```yaml\nvision_config:\n  n_layer: 13\n```", "{\"vision_config\": {\"n_layer\": 13}, \"n_layer\": 12}",
             "```python\nconfig = GPT2Config(\n    n_layer = 13,\n)\n```", "- Layers: 12-24", "- Layers: 13 (with the embedding)", "Layers frozen: 4",
             "Compared with its successor:\n\n| Layers | 13 |", "- Layers on the GPU: 4", "- Vocabulary: 50,200 entries seen in training", "GPT-2 costs 12 GMACs a token.",
             "Layers: 12, of which 4 are frozen; heads: 13.", "{\"model\": \"foo/Bar-9B\", \"n_layer\": 13}", "layers: 13, they write, is wrong.",
             "SWA layers: 13", "- Layers with SWA: 4", "Layer 3: norm", "- 85M parameters", "| Layers | Heads |\n|---|---|\n| 13 | 12 |\n| 24 | 16 |"],
    "llama-3.1-8b": ["| File | Size |\n|---|---|\n| Q4_0 | 4.66 GB |", "- Parameters: 8B", "- Context: 8K", "| Batch | KV cache (8K, FP16) |\n|---|---|\n| 4 | 4 GiB |",
                     "Memory: 20 GB", "Speculative decoding:\n\n- Layers: 4"],
}


@pytest.mark.parametrize(("model", "text"), [(m, t) for m, texts in SILENT.items() for t in texts])
def test_what_may_mean_something_else_is_not_called_wrong(lamina, tmp_path, model, text):
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)
    assert found["wrong"] == 0, found


def test_each_statement_is_judged_by_the_model_that_it_names(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Two models\n\n| | Llama 3.2 1B | Mistral 7B |\n|---|---|---|\n| Layers | 16 | 32 |\n\nMistral 7B uses 8 KV heads. Llama 3.1 8B uses 99 KV heads.\n")
    done = lamina("audit", page, "-m", "llama-3.2-1b", "-m", "mistral-7b-v0.1", "--json")
    found = [(s["model"], s["verdict"], s["kind"]) for s in json.loads(done.stdout)["statements"]]
    assert found == [("llama-3.2-1b", "confirmed", ""), ("mistral-7b-v0.1", "confirmed", ""), ("mistral-7b-v0.1", "confirmed", "")]
    done = lamina("audit", page)                         # the models that the text names
    assert done.returncode == 5 and "llama-3.1-8b  attention.kv_heads: 99; it is 8" in done.stdout
    assert done.stdout.splitlines()[-1] == "4 statements: 3 confirmed, 0 rounded, 1 wrong, 0 not checkable"


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 33, "rope_scaling": {"factor": 16.0},
          "tie_word_embeddings": True, "bos_token_id": 128001, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-05}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_configuration(lamina, tmp_path, indent):
    """Every key of a config.json is known, in the same words as the model's own; what is nested is of something else."""
    page = tmp_path / "config.json"
    page.write_text(json.dumps(CONFIG, indent=indent))
    found = json.loads(lamina("audit", page, "-m", "llama-3.1-8b", "--json").stdout)["statements"]
    assert [(s["fact"], s["said"], s["true"]) for s in found if s["verdict"] == "wrong"] == [
        ("architecture.layers", "33", "32"), ("architecture.tied", "true", "false"), ("config.bos_token_id", "128001", "128000")]
    assert {s["fact"] for s in found if s["verdict"] == "confirmed"} == {"model.family", "architecture.hidden", "architecture.norm_eps"}


def test_models_that_json_and_yaml_name(lamina, tmp_path):
    page = tmp_path / "models.json"
    page.write_text(json.dumps({"models": [{"model": "gpt2", "layers": 13, "vision": {"layers": 7}}, {"name": "meta-llama/Llama-3.1-8B", "layers": 33},
                                           {"model": "foo/Bar-9B", "layers": 7}], "mistral-7b-v0.1": {"layers": 31}}))
    assert [(s["model"], s["said"]) for s in json.loads(lamina("audit", page, "--json").stdout)["statements"] if s["verdict"] == "wrong"] == [
        ("gpt2", "13"), ("llama-3.1-8b", "33"), ("mistral-7b-v0.1", "31")]
    page = tmp_path / "models.yaml"
    page.write_text("model:\n  name: Qwen/Qwen2.5-3B\n  num_key_value_heads: 4\n  rope_scaling:\n    factor: 2\n  hidden_size: 2049\n"
                    "training:\n  num_hidden_layers: 2\nvision_config:\n  rope:\n    base: 1\n  hidden_size: 7\n")
    assert [(s["line"], s["said"]) for s in json.loads(lamina("audit", page, "--json").stdout)["statements"] if s["verdict"] == "wrong"] == [(3, "4"), (6, "2049")]


def test_units_and_rounding(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Llama 3.1 8B\n\n| Type | Size |\n|---|---|\n| BF16 | 16.1 GB |\n| BF16 | 15.0 GiB |\n| BF16 | 16.1 GiB |\n| FP32 | 32.1 GB |\n\n"
                    "| | Parameters (B) | Parameters |\n|---|---|---|\n| Llama 3.1 8B | 8.03 | 8,030M |\n| Llama 3.1 8B | 8.3 | 8,300,000k |\n")
    found = json.loads(lamina("audit", page, "--json").stdout)["statements"]
    assert [s["verdict"] for s in found] == ["rounded", "rounded", "wrong", "rounded", "rounded", "rounded", "wrong", "wrong"]


# As published: OpenAI (arXiv 2508.10925, table 1), DeepSeek (2405.04434, 2412.19437), Qwen (2505.09388; model cards), Mistral (2401.04088).
ACTIVE = {"gpt-oss-20b": "3.61B", "gpt-oss-120b": "5.13B", "deepseek-v2-lite": "2.4B", "deepseek-v2": "21B", "deepseek-v3": "37B",
          "qwen3-30b-a3b": "3.3B", "qwen3-235b-a22b": "22B", "qwen1.5-moe-a2.7b": "2.7B", "mixtral-8x7b": "13B"}
WITHOUT_EMBEDDING = {"gpt-oss-20b", "gpt-oss-120b", "deepseek-v2-lite"}


@pytest.mark.parametrize("model", ACTIVE)
def test_active_parameters_are_counted_with_and_without_the_embedding(lamina, tmp_path, model):
    page, listed = tmp_path / "page.md", tmp_path / "list.tsv"
    page.write_text(f"- Active parameters: {ACTIVE[model]}\n")
    listed.write_text(f"model\tquantity\tclaim\n{model}\tactive parameters\t{ACTIVE[model]}\n{model}\tactive parameters\t0.4B\n")
    [said] = json.loads(lamina("audit", page, "-m", model, "--json").stdout)["statements"]
    right, wrong = json.loads(lamina("audit", listed, "--json").stdout)["statements"]
    path = "parameters.active" + "_without_embedding" * (model in WITHOUT_EMBEDDING)
    assert said["verdict"] == right["verdict"] == "rounded" and wrong["verdict"] == "wrong"
    assert said["fact"] == path and said["true"] == right["true"] == lamina("inspect", model, "--query", path).stdout.strip()


def test_each_number_has_its_model_its_fact_and_its_derivation(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# GPT-2\n\n- Layers: 13\n- Context length: 1,024\n")
    assert lamina("audit", page).stdout.splitlines()[:2] == [
        "    3  wrong          gpt2  architecture.layers: 13; it is 12 (program: decoder layers in the module tree)",
        "    4  confirmed      gpt2  architecture.context: 1,024 (config: advertised positions)"]
    for s in json.loads(lamina("audit", page, "--json").stdout)["statements"]:
        assert s["model"] and s["fact"] and s["true"] and s["derivation"]


def test_only_lines_with_figures_are_listed(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# GPT-2\n\n1. Memory\n2. Speed of 17 things\n\n<summary>Layer 3</summary>\n\n12 layers\n")
    found = json.loads(lamina("audit", page, "-m", "gpt2", "--json").stdout)
    assert [r["line"] for r in found["rows_not_understood"]] == [4, 6] and len(found["statements"]) == 1


def test_documents_that_are_hostile(lamina, tmp_path):
    page = tmp_path / "page.md"
    for text in (b"", b"|", b"|||||\n|-|-|\n", b"\xef\xbf\xbe| layers |\xc2\x80", b"# GPT-2\n" + b"(" * 100000, b"# GPT-2\n= 1" + b"*(1" * 50000, b"GPT-2 " * 20000,
                 b"# GPT-2\n" + b"| a " * 3000 + b"|\n|-|\n", b"# GPT-2\n\xce\xb8\xe2\x82\x81", b"# GPT-2\n= 1/0 = 5\n", b"# GPT-2\n" + b"\\frac{" * 40000, b"# GPT-2\n" + b"\\sqrt{a" * 9000 + b"}" * 9000 + b"\n",
                 b"# GPT-2\n" + b"1 = 2, " * 4000 + b"\n", b"# GPT-2\n" + b"_{l" * 5000, b"# GPT-2\n" + b"layer 0 ... " * 5000, b"eps" * 9000, b"# GPT-2\n9" + b"9" * 5000 + b" layers\n"):
        page.write_bytes(text)
        assert lamina("audit", page, "-m", "gpt2").returncode in (0, 5), text[:40]


PRINTED = """```
(self_attn): LlamaAttention(
  (q_proj): Linear(in_features=2048, out_features=2048, bias=False)
  (k_proj): Linear(in_features=2048, out_features=1024, bias=True)
)
(norm): LlamaRMSNorm((2048,), eps=1e-06)
Total params: 1,498,482,688
Trainable params: 1,498,482,688
```
"""


def test_modules_as_they_are_printed(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Llama 3.2 1B\n\n" + PRINTED)
    found = [(s["line"], s["said"]) for s in json.loads(lamina("audit", page, "--json").stdout)["statements"] if s["verdict"] == "wrong"]
    assert found == [(6, "2048->1024"), (6, "True"), (8, "1e-06"), (9, "1,498,482,688")]
    page.write_text("# Llama 3.2 1B\n\nA smaller student would print\n\n" + PRINTED)
    assert json.loads(lamina("audit", page, "--json").stdout)["wrong"] == 0


@pytest.mark.parametrize("model", ["gpt2", "gemma-2-2b", "deepseek-v2", "mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_nothing_is_wrong_in_a_report(lamina, tmp_path, model):
    """A report has thousands of numbers in tables, formulas and drawings. Only what torchinfo prints is wrong."""
    page = tmp_path / "report.md"
    page.write_text(lamina("report", model, "--format", "md").stdout)
    found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)
    printed = re.compile(r"[│├]|^(Total|Trainable|Params|Estimated|Forward|Input)")
    assert not [s for s in found["statements"] if s["verdict"] == "wrong" and not printed.match(s["text"])]
    assert found["confirmed"] > 30


TORCHINFO = """# Llama 3.2 1B

```
Layer (type (var_name))                       Output Shape         Param #         Mult-Adds
LlamaForCausalLM (LlamaForCausalLM)           --                   --              --
├─LlamaModel (model)                          --                   --              --
│    └─Embedding (embed_tokens)               [1, 4, 2048]         262,668,289     262,668,288
│    └─ModuleList (layers)                    --                   --              --
│    │    └─LlamaDecoderLayer (0)             [1, 4, 2048]         --              --
│    │    │    └─LlamaAttention (self_attn)   [1, 4, 2049]         10,485,760      10,485,760
├─Linear (lm_head)                            [1, 4, 128256]       262,668,288     262,668,288
Non-trainable params: 0
Total mult-adds (Units.GIGABYTES): 1.50
```
"""


def wrong_of(lamina, page, text, *more):
    page.write_text(text, encoding="utf-8")
    return [(s["line"], s["said"]) for s in json.loads(lamina("audit", page, *more, "--json").stdout)["statements"] if s["verdict"] == "wrong"]


def test_tables_of_torchinfo(lamina, tmp_path):
    """Multiplications are compared for the four tokens of the pass; torchinfo counts those of one."""
    found = wrong_of(lamina, tmp_path / "page.md", TORCHINFO)
    assert found == [(7, "262,668,289"), (7, "262,668,288"), (10, "2049"), (10, "10,485,760"), (11, "262,668,288"), (13, "1.50 G")]
