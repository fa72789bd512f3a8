"""lamina audit: what documents say about models, judged by the program."""
import collections
import csv
import json

import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


@pytest.fixture(scope="module")
def judged(lamina, source):
    """Each of the 716 statements with its verdict by hand and by lamina."""
    path = source / "tests/golden/facts/facts.tsv"
    with path.open(newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    done = lamina("audit", path, "--json")
    assert done.returncode == 5 and "statements are wrong" in done.stderr
    found = json.loads(done.stdout)
    assert sum(found["counts"].values()) == len(rows) == len(found["statements"])
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
    why = {r["id"]: s["why"] for r, s in caught}
    assert why["S000-075"] == why["S001-068"] == "a tied head counted twice" and why["S001-075"] == "a tied head counted twice"
    assert why["S004-019"].startswith("a binary prefix") and why["S004-101"].startswith("a binary prefix")
    assert why["S002-104"].startswith("a thousand times off")
    reasons = collections.Counter(s["why"] for _, s in caught)
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
    assert len(lines) == 6 and "confirmed" in lines[0] and "it is 28" in lines[2] and "tied head" in lines[3]
    assert "2 confirmed, 0 rounded, 2 wrong" in lines[4] and lines[5] == "1 row of its tables not understood"
    assert json.loads(lamina("audit", page, "-m", "llama-3.2-3b", "--json").stdout)["not_understood"] == 1
    assert lamina("audit", page).returncode == 2 and lamina("audit", tmp_path / "none.md", "-m", "llama-3.2-3b").returncode == 1
    good = tmp_path / "good.tsv"
    good.write_text("model\tquantity\tclaim\nllama-3.2-3b\tkv.at[8192].bytes\t896 MB\nllama-3.2-3b\tlayers[0].mlp.up_proj.shape\t3072->8192\n"
                    "llama-3.2-3b\tmax_position_embeddings\t131K\nno-such-model\tparams.total\t1B\n")
    done = lamina("audit", good, "--json")
    assert done.returncode == 0
    assert [s["verdict"] for s in json.loads(done.stdout)["statements"]] == ["confirmed", "confirmed", "rounded", "not checkable"]


def test_many_models_and_those_that_cannot_be_opened(lamina, tmp_path):
    presets = [p["name"] for p in json.loads(lamina("presets", "--json").stdout)][:70]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("{")
    page = tmp_path / "page.tsv"
    page.write_text("model\tquantity\tclaim\n" + "".join(f"{p}\tnum_hidden_layers\t9999\n" for p in presets) + f"{tmp_path / 'broken'}\tvocab_size\t1\n"
                    "nobody\tvocab_size\t1\n")
    *found, broken, nobody = json.loads(lamina("audit", page, "--json").stdout)["statements"]
    assert len(found) == 70 and {s["verdict"] for s in found} == {"wrong"}
    assert broken["verdict"] == nobody["verdict"] == "not checkable" and nobody["why"] == "no such model"
    assert broken["why"].startswith(str(tmp_path / "broken/config.json") + ": JSON: ") and broken["why"] in lamina("audit", page).stdout
    table = tmp_path / "page.md"
    table.write_text("| vocab_size | 1 |\n")
    said = lamina("audit", table, "-m", tmp_path / "broken")
    assert said.returncode == 3 and said.stderr.splitlines()[-1] == "error: " + broken["why"]


def test_a_nul_is_refused(lamina, tmp_path):
    for name, more in (("a.tsv", []), ("a.md", ["-m", "gpt2"])):
        (tmp_path / name).write_bytes(b"model\tquantity\tclaim\ngpt2\tvocab\0_size\t1\ngpt2\tvocab_size\t1\n")
        done = lamina("audit", tmp_path / name, *more)
        assert done.returncode == 2 and done.stdout == "" and "error: line 2: " in done.stderr and "(offset 31)" in done.stderr


def test_other_wordings(lamina, source):
    """Statements about other models as people write them, right, rounded, wrong and beyond judging; each verdict by hand."""
    path = source / "tests/golden/audit/statements.tsv"
    with path.open(newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = json.loads(lamina("audit", path, "--json").stdout)["statements"]
    assert len(found) == len(rows) >= 59
    for row, statement in zip(rows, found):
        assert row["verdict"] == statement["verdict"], (row, statement)


def test_names_that_people_use(lamina, source):
    path = source / "tests/golden/audit/qwen2.5-7b.md"
    done = lamina("audit", path, "-m", "qwen2.5-7b", "--json")
    assert done.returncode == 5
    found = [(s["line"], s["verdict"]) for s in json.loads(done.stdout)["statements"]]
    assert {v for line, v in found if line < 26} == {"confirmed", "rounded"}
    assert {v for line, v in found if 26 < line < 40} == {"wrong"}
    assert {v for line, v in found if line > 40} == {"not checkable"}
    assert len(found) == 30


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


def test_a_description_is_known_by_its_own_words(lamina, tmp_path):
    """Keys and spellings of config.json, and modules of a layer by their names."""
    rows = [line.split(" ") for line in DESCRIBED.splitlines()]
    table = tmp_path / "described.tsv"
    table.write_text("model\tquantity\tclaim\n" + "".join("\t".join(row[:3]) + "\n" for row in rows))
    found = json.loads(lamina("audit", table, "--json").stdout)["statements"]
    for row, statement in zip(rows, found, strict=True):
        assert row[3].replace("-", " ") == statement["verdict"], statement


def test_every_key_of_a_preset_is_true_of_it(lamina, tmp_path):
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
            assert (document["error"]["code"], document["error"]["message"]) == ("differs", "1 of 1 statements is wrong")
            assert document["error"]["file"] == str(table) and done.stderr.splitlines()[-1] == f"error: {table}: 1 of 1 statements is wrong"


def test_control_bytes_of_a_file_stay_there(lamina, tmp_path):
    path = tmp_path / "claims.tsv"
    path.write_bytes(b"model\tquantity\tclaim\nllama-3.2-1b\tlayers\t17\x1b[31mred\xff\n")
    done = lamina("audit", path)
    assert "\x1b" not in done.stdout and "17\\x1b[31mred\\xff" in done.stdout


def test_a_bold_number_is_no_power(lamina, tmp_path):
    path = tmp_path / "claims.md"
    path.write_text("| quantity | value |\n| --- | --- |\n| num_hidden_layers | **16** layers |\n")
    done = lamina("audit", path, "-m", "llama-3.2-1b")
    assert done.returncode == 0, done.stdout


def test_a_misspelt_quantity_is_refused(lamina, tmp_path):
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
    assert done.returncode == 2 and "did you mean num_hidden_layers?" in done.stdout and "1 row of its tables not understood" in done.stdout


def test_a_quantity_of_other_models_is_no_typing_error(lamina, tmp_path):
    table = tmp_path / "dense.tsv"
    table.write_text("model\tquantity\tclaim\nllama-3.2-1b\tnum_experts\t8\nllama-3.2-1b\tcolour\tblue\n")
    done = lamina("audit", table)
    assert done.returncode == 0 and "num_experts: 8 (this model has no such quantity)" in done.stdout and "colour: blue (unknown quantity)" in done.stdout


def test_strict_wants_everything_checked(lamina, tmp_path):
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
    table.write_text("model\tquantity\tclaim\nno-such-model\tn_layer\t12\n")
    assert lamina("audit", table, "--strict").returncode == 5
