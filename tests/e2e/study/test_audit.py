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
    assert why["S002-104"].startswith("a thousand times off")
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
    assert "confirmed" in lines[0] and "confirmed" in lines[1] and "GQA" in lines[2] and "it is 28" in lines[3] and "tied head" in lines[4]
    assert lines[5].endswith("not understood: | colour | blue |") and "3 confirmed, 0 rounded, 2 wrong" in lines[6]
    assert lines[7:] == ["1 row or line not understood", "checked 5 of 6 statements"]
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
    assert {v for line, v in found if line > 43} == {"not_checkable"} and (43, "rounded") in found
    assert len(found) == 29


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
    path.write_bytes(b"model\tquantity\tclaim\nllama-3.2-1b\tlayers\t17\x1b[31mred\xff\n")
    done = lamina("audit", path)
    assert "\x1b" not in done.stdout and "17\\x1b[31mred\\xff" in done.stdout


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
    assert done.returncode == 0 and "num_experts: 8 (this model has no such quantity)" in done.stdout and "colour: blue (unknown quantity)" in done.stdout


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
    "llama-3.2-3b-page.txt": ["llama-3.2-3b"],
    "llama-3.2-3b-report.txt": ["llama-3.2-3b"],
    "llama-3.2-3b-and-3.1-8b.txt": ["llama-3.2-3b", "llama-3.1-8b"],
    "llama-3.2-1b-and-others.txt": ["llama-3.2-1b", "gpt2", "gpt-3-175b", "mistral-7b-v0.1", "deepseek-v2", "granite-3b-code-base", "llama-3.1-8b"],
    "counting.txt": ["mistral-7b-v0.1", "qwen2.5-3b"],
}


def table(path):
    with path.open(newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def as_number(text):
    """Normalise a number: "~3.6B" equals "3.6B parameters", and "128,256" equals "128256"."""
    text = {"✅": "yes", "❌": "no"}.get(text, text)
    text = re.sub(r"\{,\}|[,~*$]|^about |(?<=^<) ", "", re.sub(r"(?<=\d) *[×x] *(?=\d)", "x", text.lower())).replace(" billion", "b").replace(" million", "m").strip()
    m = None if re.match(r"\d+x\d", text) else re.match(r"(\d+(?:\.\d+)?(?:e-?\d+)?)\s*([kmgt]?i?b?)(?![\w.])", text)
    return f"{float(m[1]):g}{m[2]}" if m else text


def matches(row, statement):
    """Return whether a statement found by lamina is the one listed by hand: in these lines, of this model and with this value."""
    lines = [tuple(map(int, span.split("-"))) for span in row["lines"].split()]
    if not any(a <= statement["line"] <= b for a, b in lines):
        return False
    if statement["model"] not in ("", row["model"]) and row["model"] != "generic":
        return False
    if row["unit"] in ("text", "formula") and not statement["quantity"] and statement["verdict"] == "wrong":
        return not re.fullmatch(r"[\d.,]+\w?", statement["said"])
    hand, found = as_number(row["said"]), as_number(statement["said"])
    if hand in [found, *map(as_number, re.split(" *(?:->|[×x]) *", statement["said"]))] or found in row["said"].lower().split("/"):
        return True
    if re.fullmatch(r"\d+\.\d+", hand):              # its unit is elsewhere
        return re.sub("[a-z]+$", "", found) == hand
    return not hand[:1].isdigit() and len(hand) > 2 and len(found) > 2 and (hand in found or found in hand)


def tells(row, statement, topics):
    """Return whether a statement matches a row by the fact that it is about, for values that are not numbers."""
    lines = [tuple(map(int, span.split("-"))) for span in row["lines"].split()]
    return (any(a <= statement["line"] <= b for a, b in lines) and (statement["model"] in ("", row["model"]) or row["model"] == "generic")
            and row["quantity"] in topics and statement["fact"] in topics[row["quantity"]].split("|"))


def pair(rows, statements, topics):
    """Return {row id: statement}; a sentence that is wrong as a whole counts for one row only, a formula rather for a row of one."""
    taken, pairs = set(), {}
    for row in sorted(rows, key=lambda row: row["unit"] != "formula"):
        for i, s in enumerate(statements):
            if (matches(row, s) or tells(row, s, topics)) and not (not s["quantity"] and row["unit"] in ("text", "formula") and i in taken and not tells(row, s, topics)):
                taken.add(i)
                pairs[row["id"]] = s
                break
    return pairs


@pytest.fixture(scope="module")
def measured(lamina, source):
    """Return per document: errors found, all errors, right statements confirmed, all right ones, false alarms, right numbers."""
    folder, out = source / "tests/golden/audit/documents", {}
    listed = table(folder / "expected.tsv")
    topics = {r["quantity"]: r["fact"] for r in table(folder / "topics.tsv")}
    for name, models in ABOUT.items():
        done = lamina("audit", folder / name, "--json", *[x for m in models for x in ("-m", m)])
        found = json.loads(done.stdout)
        rows = [r for r in listed if r["document"] == name]
        wrong, right = [r for r in rows if r["verdict"] == "wrong"], [r for r in rows if r["verdict"] == "right"]
        bad = [s for s in found["statements"] if s["verdict"] == "wrong"]
        good = [s for s in found["statements"] if s["verdict"] in ("confirmed", "rounded")]
        alarms = [s for s in bad if any(matches(r, s) for r in right) and not any(matches(r, s) for r in wrong)]
        numbers = [r for r in right if r["unit"] not in ("text", "formula", "shape", "graph", "range")]
        out[name] = (pair(wrong, bad, {}), wrong, pair(right, good, topics), right, alarms, numbers)
    return out


def test_five_documents(measured):
    """Print per document the wrong statements found, the right ones and numbers confirmed, and false alarms; assert the totals."""
    print(f"\n{'':32}{'wrong found':>14}{'right confirmed':>18}{'of numbers':>14}{'false alarms':>14}")
    sums = [0] * 7
    for name, (found, wrong, confirmed, right, alarms, numbers) in measured.items():
        counts = [len(found), len(wrong), len(confirmed), len(right), sum(r["id"] in confirmed for r in numbers), len(numbers), len(alarms)]
        sums = [a + b for a, b in zip(sums, counts)]
        print(f"{name:32}{counts[0]:>8} / {counts[1]:<3}{counts[2]:>11} / {counts[3]:<4}{counts[4]:>8} / {counts[5]:<4}{counts[6]:>9}")
    print(f"{'all':32}{sums[0]:>8} / {sums[1]:<3}{sums[2]:>11} / {sums[3]:<4}{sums[4]:>8} / {sums[5]:<4}{sums[6]:>9}")
    assert sums[1] == 88 and sums[3] == 578
    assert sums[0] >= 81 and sums[2] >= 521 and sums[6] == 0, [a for *_, alarms, _ in measured.values() for a in alarms]


def test_the_kind_of_error_is_named(measured):
    kinds = [s["kind"] for found, *_ in measured.values() for s in found.values()]
    assert "the arithmetic of the line" in kinds and any(k.startswith("a binary prefix") for k in kinds)


@pytest.mark.parametrize(("name", "least"), [("unseen", 39), ("fresh", 36), ("drawn", 34)])
def test_cards_and_blogs_with_planted_errors(lamina, source, name, least):
    """Errors planted by hand in two model cards and a blog post, about the models that they name. Most errors that are not found are in
    formulas and in the output of frameworks; no right statement is called wrong."""
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


@pytest.mark.parametrize(("folder", "wrong", "right"), [("pair", 19, 45), ("styles", 20, 76)])
def test_texts_with_their_truth(lamina, source, folder, wrong, right):
    """Audit a model card for two models and a forum thread about four, and a wiki page, questions with answers and slides."""
    sums = found_of(lamina, source / "tests/golden/audit" / folder)
    assert sums[True, True] >= wrong and sums[False, True] >= right, sums


@pytest.mark.parametrize(("file", "least"), [("gemma-notes.md", 18), ("llama-practice.md", 15), ("mixtral-guide.md", 18), ("nemo-thread.txt", 12), ("three-cards.md", 34), ("llama-workbook.md", 35), ("qwen-field-report.md", 36), ("symbols.md", 14)])
def test_right_statements_are_never_called_wrong(lamina, source, file, least):
    """Texts without errors contain what could be mistaken for one: other models, parts of a model, settings, hypotheticals."""
    done = lamina("audit", source / "tests/golden/audit/right" / file, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, [s for s in found["statements"] if s["verdict"] == "wrong"]
    assert found["confirmed"] + found["rounded"] >= least


WRONG = {
    "gpt2": ["GPT-2 has 13 layers.", "- Layers: 13", "| n_layer | 13 |", "| Layers | Heads |\n|---|---|\n| **GPT-2** | 16 |", "```json\n\"n_layer\": 13,\n```",
             "GPT-2 has a vocabulary of 50,000 tokens.", "The context length of GPT-2 is 2,048 tokens.", "- Activation: SiLU", "3 × 768 = 2,305",
             "Weights in FP32: 249 MB", "- 117M params"],
    "llama-3.2-1b": ["The KV cache at 8,192 tokens is 536 MB.", "KV cache (8K context, FP16): 512 MiB", "It uses 32 KV heads.", "It ties its embeddings.",
                     "| Component | Params | Share |\n|---|---|---|\n| MLP | 805M | 55.1% |", "- Query / KV heads: 32 / 32",
                     "| Precision | Size |\n|---|---|\n| BF16 | 4.94 GB |", "| Size in BF16 (GB) | 4.94 |", "rope theta of 10,000",
                     "The layers are numbered from 0 to 16.", "Parameters: 1.5 × 10^9", "2^17 tokens of context and a hidden size of 2^12",
                     "- $n_{layers} = 17$", "- $d_{\\text{model}} = 4096$", "- Layers: $L = 17$", "- Hidden size $H$: 4096",
                     "- Hidden size: \\(4{,}096\\)", "- $n_{kv\\_heads} = 9$", "| Symbol | Meaning | Value |\n|---|---|---|\n| $L$ | layers | $17$ |"],
    "mixtral-8x7b": ["Mixtral 8x7B uses 12.9B of its 49.7B parameters per token.", "Mixtral 8x7B uses 14.9B of its 46.7B parameters per token."],
}


@pytest.mark.parametrize(("model", "text"), [(m, t) for m, texts in WRONG.items() for t in texts])
def test_an_error_in_any_usual_form_is_found(lamina, tmp_path, model, text):
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)
    right = text in ("It ties its embeddings.", "| Layers | Heads |\n|---|---|\n| **GPT-2** | 16 |")
    assert found["wrong"] == (0 if text == "It ties its embeddings." else 1), found


def test_each_statement_is_judged_by_the_model_that_it_names(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Two models\n\n| | Llama 3.2 1B | Mistral 7B |\n|---|---|---|\n| Layers | 16 | 32 |\n\nMistral 7B uses 8 KV heads. Llama 3.1 8B uses 99 KV heads.\n")
    done = lamina("audit", page, "-m", "llama-3.2-1b", "-m", "mistral-7b-v0.1", "--json")
    found = [(s["model"], s["verdict"], s["kind"]) for s in json.loads(done.stdout)["statements"]]
    assert found == [("llama-3.2-1b", "confirmed", ""), ("mistral-7b-v0.1", "confirmed", ""), ("mistral-7b-v0.1", "confirmed", "")]
    done = lamina("audit", page)                         # the models that the text names
    assert done.returncode == 5 and "llama-3.1-8b  attention.kv_heads: 99; it is 8" in done.stdout
    assert done.stdout.splitlines()[-1] == "checked 4 of 4 statements"


def test_a_document_with_its_marks(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# GPT-2\n\n- Layers: 13\n- Vocab size: 50,257\n- a < b & 124M parameters\n")
    done = lamina("audit", page, "-m", "gpt2", "--format", "md")
    assert done.returncode == 5 and done.stdout == "# GPT-2\n\n- Layers: 13 ✗ → 12\n- Vocab size: 50,257 ✓\n- a < b & 124M ≈ parameters\n"
    html = lamina("audit", page, "-m", "gpt2", "--format", "html").stdout
    assert '<span class="wrong">13</span> <ins>→ 12</ins>' in html and "a &lt; b &amp; " in html and "<script" not in html


def test_only_lines_with_figures_are_listed(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# GPT-2\n\n1. Memory\n2. Speed of 17 things\n\n<summary>Layer 3</summary>\n\n12 layers\n")
    found = json.loads(lamina("audit", page, "-m", "gpt2", "--json").stdout)
    assert [r["line"] for r in found["rows_not_understood"]] == [4, 6] and len(found["statements"]) == 1


def test_documents_that_are_hostile(lamina, tmp_path):
    page = tmp_path / "page.md"
    for text in (b"", b"|", b"|||||\n|-|-|\n", b"\xff\xfe| layers |\x80", b"# GPT-2\n" + b"(" * 100000, b"# GPT-2\n= 1" + b"*(1" * 50000, b"GPT-2 " * 20000,
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
    assert found == [(6, "2048->1024"), (6, "True"), (8, "1e-06"), (9, "1,498,482,688"), (10, "1,498,482,688")]
    page.write_text("# Llama 3.2 1B\n\nA smaller student would print\n\n" + PRINTED)
    assert json.loads(lamina("audit", page, "--json").stdout)["wrong"] == 0


def test_calculations_with_powers_and_parentheses_over_lines(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```\nAttention = 4096² × (2 + 2/4)\n  = 41.9M\n  = 43M\n```\n\n- 16 × (2 × 2048^2 + 2 × 2048 × 512)\n  - = 168M\n- 8 / 32 = 25%\n"
                    "- f(2 + 3) = 7\n- H²(2 + 2/4) = 40M\n- 1 - 8/32 = 75%\n")
    found = [(s["said"], s["verdict"]) for s in json.loads(lamina("audit", page, "-m", "gpt2", "--json").stdout)["statements"]]
    assert found == [("41.9M", "rounded"), ("43M", "wrong"), ("168M", "rounded"), ("25%", "confirmed")]


def test_chinese_terms_are_read(lamina, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# GPT-2\n\n- 层数: 13\n- 词表大小: 50257\n", encoding="utf-8")
    found = [(s["quantity"], s["verdict"]) for s in json.loads(lamina("audit", page, "--json").stdout)["statements"]]
    assert found == [("architecture.layers", "wrong"), ("architecture.vocabulary", "confirmed")]


def test_words_of_scripts_without_spaces_end_at_other_scripts_and_signs(lamina, tmp_path):
    page = tmp_path / "zh.md"
    page.write_text("# 示例：Mistral 7B 参数\n\n* 层数：32\n\nMistral 7B的隐藏层大小为4096，词表大小是32000。模型Qwen2.5-3B：注意力头数=16，共有2个KV头。\n\n## Qwen2.5-3B\n\nQwen2.5-3B有40层。\n")
    found = json.loads(lamina("audit", page, "--json").stdout)["statements"]
    assert [(s["model"], s["said"], s["verdict"]) for s in found] == [
        ("mistral-7b-v0.1", "32", "confirmed"), ("mistral-7b-v0.1", "4096", "confirmed"), ("mistral-7b-v0.1", "32000", "confirmed"),
        ("qwen2.5-3b", "16", "confirmed"), ("qwen2.5-3b", "2", "confirmed"), ("qwen2.5-3b", "40", "wrong")]


@pytest.mark.parametrize("text", ["Mistral 7B 的第5层的输出", "Mistral 7B 的前2层使用全注意力", "Mistral 7B 每4层共享缓存", "Mistral 7B 最后3层被剪枝。", "Mistral 7B 如果有16个注意力头",
                                  "Mistral 7B 在第 5 层和第 6 层", "把 Mistral 7B 的 4 层去掉", "Mistral 7B 分为 8 组，每组 4 个头"])
def test_ordinals_and_conditions_in_chinese_are_not_counts(lamina, tmp_path, text):
    page = tmp_path / "zh.md"
    page.write_text(text + "\n")
    done = lamina("audit", page)
    assert "wrong   " not in done.stdout and "confirmed   " not in done.stdout, done.stdout


@pytest.mark.parametrize("model", ["gpt2", "gemma-2-2b", "deepseek-v2", "mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b"])
def test_nothing_is_wrong_in_a_report(lamina, tmp_path, model):
    """A report has thousands of figures in tables, formulas and drawings. Only what torchinfo prints is wrong."""
    page = tmp_path / "report.md"
    page.write_text(lamina("report", model, "--format", "md").stdout)
    found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)
    printed = re.compile(r"[│├]|^(Total|Trainable|Params|Estimated|Forward|Input)")
    assert not [s for s in found["statements"] if s["verdict"] == "wrong" and not printed.match(s["text"])]
    assert found["confirmed"] > 300


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
    assert found == [(7, "262,668,289"), (7, "262,668,288"), (10, "2049"), (10, "10,485,760"), (11, "262,668,288"), (13, "1.50 G"), (13, "Units.GIGABYTES")]


@pytest.mark.parametrize(("text", "wrong"), [
    ("```\n│  k_proj: 2048 → 1024 (8 heads × 64 dim)\n```\n", ["2048->1024"]),
    ("```mermaid\ngraph TD\n  A[\"v_proj<br/>2048 → 512<br/>8 heads\"]\n  subgraph X [\"GPT-9\"]\n  B[\"k_proj<br/>9 → 9\"]\n  end\n```\n", []),
    ("```mermaid\ntimeline\n  2024 : Llama 3.2 1B\n       : LayerNorm (Post)\n       : SwiGLU, GQA\n  2030 : GPT-9\n       : MHA\n```\n", ["LayerNorm", "Post"]),
    ("```mermaid\ngraph LR\n  F[\"θ₀ = 1.0\"] --> G[\"θ₁₅ ≈ 0.01\"]\n```\n", ["about 0.01"]),
    ("Llama 3.2 1B uses LayerNorm.\n", ["LayerNorm"]),
    ("Llama 3.2 1B moved from MHA to GQA.\n\nUnlike models with MHA, Llama 3.2 1B uses GQA.\n", []),
    ("| Norm | Used by |\n|---|---|\n| Post-Norm | Llama 3.2 1B, BERT |\n| Pre-Norm | Llama 3.2 1B |\n", ["Post-Norm"]),
    ("| Part | Params | Share |\n|---|---|---|\n| Embedding | 263M | 21% |\n| Attention | 168M | 14% |\n| MLP | 805M | 65% |\n| Total | 1.24B | 100% |\n", []),
    ("| Part | Share |\n|---|---|\n| Embedding | 21% |\n| Attention | 14% |\n| MLP | 75% |\n| Total | 100% |\n", ["75%", "100%"]),
    ("| Part | Params |\n|---|---|\n| Embedding | 263M |\n| Attention | 168M |\n| MLP | 805M |\n| LM head | 263M |\n| Total | 1.5B |\n", ["263M", "1.5B"]),
    ("| | Llama 3.2 1B | GPT-2 | Reduction |\n|---|---|---|---|\n| Layers | 16 | 12 | 25% |\n| Hidden size | 2,048 | 768 | 50% |\n", ["50%"]),
    ("| Method | KV heads | Cache | Savings |\n|---|---|---|---|\n| GQA | 8 | 128 MB | 75% |\n", []),
    ("- num_kv_groups = 512 / 32 = 16\n- head_dim = 2048 / 32 = 64\n", []),
    ("- KV heads = 512 / 32 = 16\n", ["16"]),
    ("* H: hidden size\n* Attention: H^2 (2 + 2/group_size)\n    * = 2048^2 * (2 + 2/2)\n", ["2"]),
    ("- 2 * 2048 * 4096 + 16 * 1048576 = 17M + 17M\n", []),
    ("- 16 × 4096² = 256M\n- 256M + 100M = 356M\n", ["256M", "356M"]),
    ("- kv_dim = num_kv_heads × head_dim\n- hidden_size = kv_dim × num_kv_heads\n", ["kv_dim × num_kv_heads"]),
    ("- Layers: 16\n- hidden_size = kv_dim × num_kv_heads\n- intermediate_size = 4 × hidden_size\n- hidden_size = num_kv_heads × head_dim\n", []),
    ("- 22 × 67 = 1.5K\n- 1.5 × 1000 = 1500\n- 1.5 × 1.024 = 1.536\n- 1.5 × 2 = 3\n", ["1.536"]),
    ("| Part | Params |\n|---|---|\n| Embedding | 263M |\n| 16 × Attention | 168M |\n| 16 × MLP | 800M |\n", ["800M"]),
    ("| Part | Params |\n|---|---|\n| Embedding | 260M |\n| Attention | 170M |\n| MLP | 800M |\n", []),
    ("| | \ufffd層參數\ufffd | 總\ufffd數\ufffd |\n|---|---|---|\n| q_proj | 4.2M | 67M |\n| k_proj | 1.0M | 18M |\n", ["18M"]),
])
def test_forms_of_statements(lamina, tmp_path, text, wrong):
    assert [said for _, said in wrong_of(lamina, tmp_path / "page.md", "# Llama 3.2 1B\n\n" + text)] == wrong


HOLDS = [
    ("- kv_dim: the width\n  - = num_kv_heads × head_dim\n", "width of the keys", 1),
    ("```\nMLP = H × intermediate_size\n    + intermediate_size × H\n    = 2 × H × intermediate_size\n```\n", "parameters of a plain MLP, or of gate and up", 2),
    ("```\n= 2*H^2 + 2*H*head_dim*num_kv_heads\n= H²(2 + 2/group_size)\n```\n", "parameters of grouped attention", 1),
    ("```\n= 2*H^2 + 2*H*head_dim*num_kv_heads\n= H²(2 + 3/group_size)\n```\n", "parameters of grouped attention", 0),
    ("| `W_q_i` | queries | `[H, head_dim]` |\n", "a head's matrix of queries", 1),
    ("| `W_q_i` | queries | `[head_dim, H]` |\n", "a head's matrix of queries", 0),
    ("```\nlogits [batch, seq, vocab]\n```\n", "a logit of each token of the vocabulary", 1),
]


@pytest.mark.parametrize(("text", "rule", "times"), HOLDS)
def test_equations_and_shapes_that_hold_of_every_model(lamina, tmp_path, text, rule, times):
    page = tmp_path / "page.md"
    page.write_text("# Counting\n\n- H: hidden_size\n\n" + text, encoding="utf-8")
    found = json.loads(lamina("audit", page, "-m", "gpt2", "-m", "llama-3.2-1b", "--json").stdout)
    assert found["wrong"] == 0 and [s["fact"] for s in found["statements"] if s["verdict"] == "confirmed"].count(rule) == times


@pytest.mark.parametrize(("text", "fact", "right"), [
    ("```\nAttention(Q, K, V) = softmax(QK^T / √d_k) V\n```\n", "formulas.attention", True),
    ("```\nAttention(Q, K, V) = softmax(QK^T × √d_k) V\n```\n", "formulas.attention", False),
    ("```\nMLP(x) = down_proj(SiLU(gate_proj(x)) * up_proj(x))\n```\n", "formulas.mlp", True),
    ("```\nMLP(x) = down_proj(gate_proj(x) * SiLU(up_proj(x)))\n```\n", "formulas.mlp", False),
    ("RoPE is applied to the queries and keys.\n", "rope.applied_to", True),
    ("RoPE is applied to Q, K and V.\n", "rope.applied_to", False),
    ("RoPE is applied after the Q and K projections, before the attention scores.\n", "rope.placement", True),
    ("RoPE is applied before the Q and K projections, after the attention scores.\n", "rope.placement", False),
    ("RoPE encodes relative positions.\n", "relative positions of RoPE", True),
    ("RoPE does not encode relative positions.\n", "relative positions of RoPE", False),
    ("Embedding → Layer 0 → … → Layer 15 → final norm → lm_head\n", "the order of the parts", True),
    ("Embedding → final norm → Layer 0 → … → Layer 15 → lm_head\n", "the order of the parts", False),
    ("Each 4 query heads share 1 KV head.\n", "attention.group", True),
    ("The decoder layer is repeated 16 times (layer 0 to 15).\n", "architecture.last_layer", True),
    ("Layer 0 to layer 14 are on the first device.\n", "architecture.last_layer", False),
    ("### Decoder stack (16 layers)\n", "architecture.layers", True),
    ("### Decoder stack (17 layers)\n", "architecture.layers", False),
])
def test_statements_without_a_quantity(lamina, tmp_path, text, fact, right):
    page = tmp_path / "page.md"
    page.write_text("# Llama 3.2 1B\n\n" + text, encoding="utf-8")
    found = json.loads(lamina("audit", page, "--json").stdout)
    assert found["wrong"] == 0 and (fact in [s["fact"] for s in found["statements"] if s["verdict"] == "confirmed"]) == right, found


def test_a_text_about_no_model_in_particular(lamina, tmp_path):
    """What is right of one of the document's models is confirmed; nothing else is shown, and nothing is called wrong."""
    page = tmp_path / "page.md"
    page.write_text("# Counting\n\n- H: hidden_size\n- H = 2048\n- H = 2049\n- 12 layers\n\n| Kind | Heads | Matrices |\n|---|---|---|\n"
                    "| MHA | 32 | Q: 2048×2048, K/V: 2048×2048 |\n| GQA | 32 | Q: 2048×2048, K/V: 2048×512 |\n| GQA | 31 | K/V: 2048×513 |\n", encoding="utf-8")
    found = json.loads(lamina("audit", page, "-m", "gpt2", "-m", "llama-3.2-1b", "--json").stdout)["statements"]
    assert [(s["line"], s["model"], s["said"]) for s in found] == [
        (4, "llama-3.2-1b", "2048"), (6, "gpt2", "12"), (10, "llama-3.2-1b", "32"), (10, "llama-3.2-1b", "2048"), (10, "llama-3.2-1b", "2048"),
        (11, "llama-3.2-1b", "32"), (11, "llama-3.2-1b", "2048"), (11, "llama-3.2-1b", "512")]


FORMULAS = {                             # a line, whether it is confirmed (True), wrong (False) or neither (None)
    r"$$\text{Attention}(A, B, C) = \text{softmax}\left(\frac{AB^T}{\sqrt{k}}\right) C$$": True,
    r"$$\mathrm{SiLU}(z) = z \cdot \sigma(z) = \frac{z}{1 + e^{-z}}$$": True,
    r"$$\mathrm{SiLU}(z) = z \cdot \sigma(z) = \frac{z}{1 - e^{-z}}$$": True,           # its first half is
    r"$$\mathrm{SiLU}(z) = \frac{z}{1 - e^{-z}}$$": None,
    r"The norm is $\frac{u}{\sqrt{\frac{1}{n}\sum_j u_j^2 + \epsilon}} \odot g$.": True,
    r"$$y = x + \text{MLP}(\text{LN}(x))$$": True,
    r"$Q \in \mathbb{R}^{T \times 32 \times 64}$ and $K \in \mathbb{R}^{T \times 8 \times 64}$": True,
    r"$K \in \mathbb{R}^{T \times 9 \times 64}$": False,
    r"| Pre-Norm | $x + \text{Attn}(\text{Norm}(x))$ |": True,
    r"| Post-Norm | $x + \text{Attn}(\text{Norm}(x))$ |": False,
    r"- $e = W_E[t]$ and $\text{logits} = W_E^T h$": False,
    r"- $\text{logits} = W_E^T h$": None,                                              # the rows or the columns may be of tokens
    r"- $x = E[t]$ and $\text{logits} = E^T \text{LN}(x)$": False,
    r"- $e = W_E[t]$ and $\text{logits} = h W_E$": False,
    r"- $e = W_E[t]$ and $\text{logits} = h W_E^T$": None,
    r"- $e = W_E[t]$ and $\text{logits} = W_E \, \text{RMSNorm}(h)$": None,
    r"$\theta_{\text{base}} = 10{,}000$": None,                                                  # a definition may name the base of the first model
    r"FFN: $\text{FFN}(x) = W_2 \cdot \text{ReLU}(W_1 x + b_1) + b_2$": False,
    r"- Learnable: $\gamma$ and $\beta$, $2d$ params": True,
    r"It costs $5 and $6, and $\frac{$": None,
}


@pytest.mark.parametrize(("text", "right"), FORMULAS.items())
def test_formulas_in_tex(lamina, tmp_path, text, right):
    page = tmp_path / "page.md"
    page.write_text("# Llama 3.2 1B\n\n" + text + "\n", encoding="utf-8")
    found = [s["verdict"] for s in json.loads(lamina("audit", page, "--json").stdout).get("statements", [])]
    assert ("wrong" in found) == (right is False) and (right is not True or set(found) & {"confirmed", "rounded"}), found


@pytest.mark.parametrize(("claim", "verdict"), [("1-32K", "wrong"), ("8-128K", "rounded"), ("8K-128K", "rounded"), ("4-512K", "not_checkable")])
def test_a_range_of_contexts_ends_at_the_highest_one(lamina, tmp_path, claim, verdict):
    page = tmp_path / "page.md"
    for model, said in (("gpt2", "1-32K"), ("qwen2.5-7b", claim)):
        page.write_text(f"| Context | {said} |\n")
        found = json.loads(lamina("audit", page, "-m", model, "--json").stdout)["statements"]
        assert found[0]["verdict"] == ("wrong" if model == "gpt2" else verdict)


METHODS = "# Two models\n\n| Method | Cache per token | Llama 3.2 1B | DeepSeek-V2 |\n|---|---|---|---|\n| MHA | all | 4,096 | 32,768 |\n| GQA | few | {} | - |\n| MLA | latent | - | {} |\n"


@pytest.mark.parametrize(("gqa", "mla", "wrong"), [("1,024", "576", []), ("2,048", "512", ["2,048", "512"])])
def test_what_kinds_of_attention_cache(lamina, tmp_path, gqa, mla, wrong):
    assert [said for _, said in wrong_of(lamina, tmp_path / "page.md", METHODS.format(gqa, mla))] == wrong


@pytest.mark.parametrize(("width", "found"), [("512", []), ("1,024", ["2,048 × 1,024"])])
def test_widths_in_a_table(lamina, tmp_path, width, found):
    table = f"# Llama 3.2 1B\n\n| Projection | Shape |\n|---|---|\n| Q proj | 2,048 × 2,048 |\n| K proj | 2,048 × {width} |\n"
    assert [said for _, said in wrong_of(lamina, tmp_path / "page.md", table)] == found


PROPERTIES = {                           # a text, whether it is right (True), wrong (False) or neither (None)
    "Self-attention is permutation invariant, so positions have to be added.": False,
    "Without positional encodings, attention is **permutation-invariant**.": False,
    "Because self-attention is invariant to permutations, Transformers need positions.": False,
    "Self-attention (without positions) is permutation invariant.": False,
    "| Operation | Property |\n|---|---|\n| Self-attention | permutation invariant |": False,
    "自注意力是置换不变的。": False,
    "Self-attention is permutation equivariant.": True,
    "Without positions, self-attention is equivariant under permutations, not invariant to permutations.": True,
    "Self-attention isn't permutation invariant.": True,
    "For a fixed query, attention is permutation invariant in the keys and values.": None,
    "Attention pooling is permutation invariant.": None,
    "Self-attention is often called permutation invariant.": None,
    "Is self-attention permutation invariant?": None,
    "Self-attention is permutation invariant in the context tokens.": None,
    "Self-attention is far from permutation invariant.": None,
    "Self-attention is permutation invariant. That is a misconception.": None,
    "RoPE extrapolates well to longer sequences.": False,
    "Rotary position encoding has excellent length extrapolation.": False,
    "RoPE encodes relative positions and extrapolates to longer contexts.": False,
    "Without scaling, RoPE generalizes to longer sequences.": False,
    "### Rotary embeddings\n\n**Advantages**:\n- No parameters\n- Length extrapolation": False,
    "> **Strengths of RoPE:**\n> 1. Good extrapolation (especially with scaling)": False,
    "| | Learned | RoPE | ALiBi |\n|---|---|---|---|\n| Extrapolation | Poor | Excellent | Good |": False,
    "| Method | Extrapolates? |\n|---|---|\n| Learned positions | ✅ |": False,
    "| Method | Pros | Cons |\n|---|---|---|\n| RoPE | relative, length extrapolation | cost |": False,
    "RoPE extrapolates to sequences longer than those seen in training.": False,
    "RoPE 具有良好的外推能力。": False,
    "RoPE does not extrapolate beyond its trained length.": True,
    "RoPE extrapolates poorly.": True,
    "RoPE doesn't extrapolate unless its frequencies are scaled.": True,
    "RoPE does not extrapolate by itself; it needs scaling.": True,
    "RoPE fails to extrapolate without scaling.": True,
    "### Rotary embeddings\n\n**Limitations**:\n- Length extrapolation": True,
    "| Method | Extrapolation |\n|---|---|\n| RoPE | ❌ Poor |": True,
    "ALiBi extrapolates to longer sequences.": True,
    "RoPE extrapolates well with scaling.": None,
    "RoPE with YaRN extrapolates to longer sequences.": None,
    "With position interpolation, RoPE extrapolates to longer sequences.": None,
    "We scale the frequencies by 8.\n\nRoPE extrapolates to longer sequences.": None,
    "RoPE extrapolates better than learned positions.": None,
    "RoPE extrapolates slightly.": None,
    "RoPE extrapolates to longer sequences, but its quality drops quickly.": None,
    "Long-context RoPE extrapolates to longer sequences.": None,
    "RoPE trained on long sequences extrapolates.": None,
    "- ❌ RoPE extrapolates well": None,
    "This RoPE extrapolates well.": None,
    "RoPE* extrapolates well.": None,
    "Given enough data, RoPE extrapolates to longer sequences.": None,
    '"RoPE extrapolates well", a page has it.': None,
    "According to a paper, RoPE extrapolates well.": None,
    "RoPE has none of this:\n\n- RoPE extrapolates well": None,
    "## RoPE\n\nWhat RoPE does not have:\n\n- good extrapolation": None,
    "| Method | Base 10k | Extrapolation |\n|---|---|---|\n| RoPE | no | Good |": None,
    "通过位置插值，RoPE 具有良好的外推能力。": None,
    "自注意力对于单个查询是置换不变的。": None,
    "Self-attention is permutation invariant, or rather equivariant.": None,
    "| Layer | Pooled | Symmetry |\n|---|---|---|\n| Self-attention | yes | permutation invariant |": None,
    "## RoPE\n\n- [ ] good extrapolation": None,
    "## RoPE\n\n1. ALiBi\n   - good extrapolation\n2. Another\n   - good extrapolation": None,
    "## RoPE\n\nALiBi is an alternative.\n\n**Advantages**:\n- Length extrapolation": None,
    "Which of these is true?\n\n- RoPE extrapolates well\n- Nothing does": None,
    "RoPE with a larger base extrapolates well.": None,
    "If RoPE extrapolates, nothing has to be trained.": None,
    "For RoPE to extrapolate, its base is raised.": None,
    "Many pages say so:\n\n> RoPE extrapolates well.": None,
    "### Common misconceptions\n\n- RoPE extrapolates well.": None,
    "| Method | Extrapolation |\n|---|---|\n| RoPE (scaled) | Good |\n| RoPE + YaRN | Excellent |\n| RoPE | Moderate |": None,
    "| Method | Scaling | Extrapolation |\n|---|---|---|\n| RoPE | NTK | Good |": None,
    "| Method | Good extrapolation |\n|---|---|\n| RoPE | ❌ |": None,
    "| Method | Extrapolation |\n|---|---|\n| RoPE | Good* |\n\n*after changes": None,
    "- ✅ Extrapolation to longer sequences": None,
    "## RoPE\n\n- Extrapolation to longer sequences": None,
    "| Kind | KV cache per token |\n|---|---|\n| MLA | $d_c$ |": False,
    "| Kind | KV cache per token |\n|---|---|\n| MLA | $d_c L$ |": False,
    "| Kind | KV cache per token |\n|---|---|\n| **MLA** | $(d_c + d_h^R) L$ |": True,
    "| Kind | KV cache per token |\n|---|---|\n| MLA | `kv_lora_rank + qk_rope_head_dim` |": True,
    "| Kind | KV cache per token | Rotated key |\n|---|---|---|\n| MLA | $d_c$ | $d_h^R$ |": None,
    "| Kind | KV cache per token |\n|---|---|\n| MLA | $d_c$* |": None,
    "| Kind | KV cache per token |\n|---|---|\n| MLA | $d_c$ |\n\nThe width $d_c$ includes the rotated key.": None,
    "| Kind | Latent width |\n|---|---|\n| MLA | $d_c$ |": None,
}


@pytest.mark.parametrize(("text", "right"), PROPERTIES.items())
def test_properties_in_words(lamina, tmp_path, text, right):
    page = tmp_path / "page.md"
    page.write_text("# Llama 3.2 1B\n\n" + text + "\n", encoding="utf-8")
    found = [s["verdict"] for s in json.loads(lamina("audit", page, "--json").stdout).get("statements", []) if not s["quantity"]]
    assert ("wrong" in found) == (right is False) and (right is None or found) and ("confirmed" not in found or right is not None), found
