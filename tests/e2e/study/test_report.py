"""lamina report: complete reports of models, byte for byte and as data. LAMINA_REWRITE=1 rewrites the golden files: read the diff.

A golden file holds the text of a report for a device of the catalogue, so that nothing in it depends on the machine."""
import json
import os
import re

import pytest
from conftest import BARE, run, some
from test_symbols import check as check_symbols

DEVICE = ["--device", "rtx-4090"]
GOLDENS = ["llama-3.2-3b", "gpt2", "mistral-7b-v0.1", "deepseek-v2", "qwen2.5-3b", "bloom-7b1"]


@pytest.fixture(scope="module")
def lamina(build, source):
    env = {**os.environ, **BARE}
    return lambda *args, **options: run(build / "src/cli/lamina", *args, cwd=source, env=env, **options)


@pytest.fixture(scope="module")
def report(lamina):
    made = {}

    def make(form, *models):
        if (form, models) not in made:
            done = lamina("report", *models, *DEVICE, "--format", form)
            assert done.returncode == 0, done.stderr
            made[form, models] = done.stdout
        return made[form, models]
    return make


def shortened(text):
    """Remove the middle layers of torchinfo's tables, and the version."""
    out, keep, last = [], True, len(re.findall(r"^  [▾▸] layer|^  [▾▸] \S*\.\d+[ :]", text, re.M)) - 1
    for line in text.split("\n"):
        row = re.match(r"    │    │    └─\w+ \((\d+)\)", line)
        if row:
            keep = int(row[1]) in (0, last)
        elif not line.startswith("    │    │    │"):
            keep = True
        if keep:
            out.append(line)
    return re.sub(r"(lamina\s)\d+(\.\d+)+", r"\1(version)", "\n".join(out))


@pytest.mark.parametrize("model", GOLDENS)
def test_text(report, source, model):
    golden = source / "tests/golden/analysis" / f"report-{model}.txt"
    text = shortened(report("txt", model))
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text(text)
    assert text == golden.read_text()


def blocks_of(block):
    yield block
    for inner in block.get("blocks", []):
        yield from blocks_of(inner)


@pytest.mark.parametrize("model", ["llama-3.2-3b", "deepseek-v2", "gpt2"])
def test_cells_are_the_facts_that_they_name(lamina, report, model):
    """Every number in a table cell that names its fact equals the answer to a query for that fact."""
    reply = {}
    for block in blocks_of(json.loads(report("json", model))):
        for cell in (c for row in block.get("rows", []) for c in row if c and "fact" in c and "value" in c):
            reply[cell["fact"]] = cell["value"]
    assert len(reply) > 150
    paths = sorted(reply)
    for i in range(0, len(paths), 100):
        some = paths[i:i + 100]
        done = lamina("inspect", model, "--cpu", "ref", "--threads", "1", *[a for p in some for a in ("--query", p)])
        if any(p.startswith("speed.") for p in some):
            some = [p for p in some if not p.startswith("speed.")]           # that of the device, not of this machine
            done = lamina("inspect", model, "--cpu", "ref", "--threads", "1", *[a for p in some for a in ("--query", p)])
        assert done.returncode == 0, done.stderr
        for path, value in zip(some, done.stdout.split("\n")):
            assert float(value) == reply[path], path


@pytest.mark.parametrize("models", [("llama-3.2-3b",), ("deepseek-v2",), ("gpt2", "mistral-7b-v0.1", "mixtral-8x7b")])
def test_anchors_resolve(report, models):
    text = report("md", *models)
    ids = re.findall(r'<(?:a|details) id="([^"]*)"', text)
    links = re.findall(r"\]\(#([^)]*)\)", text)
    assert len(ids) == len(set(ids)) and len(links) > 30
    assert set(links) <= set(ids)
    assert text.count("<details") == text.count("</details>")
    assert text.count("\n```") % 2 == 0


def test_every_output_is_found(report):
    """A report of one model has the outputs that apply to one model; a report of several models has all forty-one."""
    def found(*models):
        return set(re.findall(r"O-\d+", " ".join(b.get("output") or "" for b in blocks_of(json.loads(report("json", *models))))))
    every = {f"O-{n}" for n in range(1, 42)}
    of_two = {f"O-{n}" for n in (10, 11, 22, 23, 24, 25, 26, 27, 28)}
    assert found("mixtral-8x7b") >= every - of_two - {"O-32"}
    assert found("mixtral-8x7b", "deepseek-v2", "llama-3.2-3b") == every


@pytest.mark.parametrize("model", GOLDENS)
def test_takeaways_are_said_once(report, model):
    """No numbers of outputs in what readers see; no judgement of the takeaways is repeated or contradicted by the reading of the design."""
    pages = {form: report(form, model) for form in ("txt", "md", "html")}
    assert not any(re.search(r"\bO-\d+", page) for page in pages.values())
    items = re.findall(r"^- .*$", pages["md"], re.M)
    section = pages["md"].split('<a id="takeaways"></a>')[1].split("<a id=")[0]
    takeaways = re.findall(r"^- .*$", section, re.M)
    assert 2 <= len(takeaways) <= 5 and all(items.count(x) == 1 and re.search(r"\d", x) for x in takeaways), takeaways
    assert pages["md"].count("Key takeaways") == 2                         # in the contents, and the section
    suits = pages["md"].split('<a id="suits"></a>')[1].split("<a id=")[0]
    assert "many sequences" not in section or "many sequences" not in suits


def test_derivations_agree_with_the_count(report):
    for model in GOLDENS:
        text = report("txt", model)
        assert "✓ as counted" in text and "✗" not in text


def test_numbers_agree_across_sections(report):
    """A quantity shown in several tables has the same value in each (J3)."""
    for model in GOLDENS:
        reply = {}
        for block in blocks_of(json.loads(report("json", model))):
            for cell in (c for row in block.get("rows", []) for c in row if c and "fact" in c and "value" in c):
                assert reply.setdefault(cell["fact"], cell["value"]) == cell["value"]


# ---- several models ----

def test_several_models_come_side_by_side_first(report):
    text = report("md", "llama-3.2-3b", "llama-3.1-8b")
    assert text.startswith("# Llama 3.2 3B, Llama 3.1 8B\n")
    assert text.index("Side by side") < text.index('<a id="llama-3-2-3b"></a>') < text.index('<a id="llama-3-1-8b"></a>')
    assert "| layers | 28 | 32 | ×1.14, +14.3 % |" in text


# ---- files ----

@pytest.mark.parametrize("name", ["r.txt", "r.md", "r.json", "R.MARKDOWN", "r.html", "r.htm"])
def test_form_by_name(lamina, tmp_path, name):
    done = lamina("report", "gpt2", "-o", tmp_path / name)
    assert done.returncode == 0 and done.stdout == "" and name in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [name]
    text = (tmp_path / name).read_text()
    if name.endswith("json"):
        assert json.loads(text)["title"] == "GPT-2"
    elif "htm" in name:
        assert text.lower().startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    else:
        assert text.startswith("# GPT-2" if "m" in name.lower() else "GPT-2\n━━━━━")


def test_json_of_the_command(lamina, tmp_path):
    done = lamina("report", "gpt2", "-o", tmp_path / "r.md", "--json")
    reply = json.loads(done.stdout)
    assert reply == {"schema": "lamina.report/1", "file": str(tmp_path / "r.md"), "format": "md", "bytes": (tmp_path / "r.md").stat().st_size}
    assert json.loads(lamina("report", "gpt2", "--json").stdout)["models"] == ["GPT-2"]


def test_rejections(lamina, tmp_path):
    for args, word in [(["gpt2", "-o", tmp_path / "r.pdf"], ".pdf"), (["gpt2", "-o", tmp_path / "noname"], "--format"),
                       (["gpt2", "--format", "pdf"], "pdf"), (["gpt2", "--device", "abacus"], "abacus"),
                       (["gpt2", "--precision", "Q99"], "Q99"), (["gpt2", "--lang", "tlh"], "tlh")]:
        done = lamina("report", *args)
        assert done.returncode in (1, 2) and word in done.stderr.split("error: ")[-1], done.stderr
        assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
    done = lamina("report", "gpt2", "-o", tmp_path / "no" / "such" / "folder.md")
    assert done.returncode == 1 and done.stderr.startswith("error: ")


def test_existing_files_stay_when_writing_fails(lamina, tmp_path):
    target = tmp_path / "r.md"
    target.write_text("before")
    done = lamina("report", "tests/golden/models.json", "-o", target, "--force")
    assert done.returncode != 0 and target.read_text() == "before"
    done = lamina("report", "gpt2", "-o", target, "--force")
    assert done.returncode == 0 and target.read_text().startswith("# GPT-2")


# ---- hostile names ----

HOSTILE = "a|b <script>alert(1)<script> `x` $y$ *e* [l](m) &amp; #"


@pytest.fixture(scope="module")
def hostile(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / HOSTILE
    folder.mkdir()
    (folder / "config.json").write_text((source / "tests/golden/gpt2/plain/config.json").read_text())
    return folder


def test_hostile_names_are_text(lamina, hostile):
    md = lamina("report", hostile, *DEVICE, "--context", "48", "--format", "md")
    assert md.returncode == 0, md.stderr
    assert "<script" not in md.stdout.replace("`", "") and r"a\|b &lt;script&gt;" in md.stdout
    page = lamina("report", hostile, *DEVICE, "--context", "48", "--format", "html")
    assert page.returncode == 0 and "<script>alert" not in page.stdout and "a|b &lt;script&gt;" in page.stdout
    reply = json.loads(lamina("report", hostile, *DEVICE, "--context", "48", "--format", "json").stdout)
    assert HOSTILE in json.dumps(reply, ensure_ascii=False)
    assert HOSTILE in lamina("report", hostile, *DEVICE, "--context", "48").stdout


def test_tokens_of_a_prompt(lamina, model):
    text = lamina("report", model, *DEVICE, "--prompt", "I love AI").stdout
    assert re.search(r"2   love +\[k1 v1\] \[k2 v2\]", text)
    done = lamina("report", "gpt2", "--prompt", "I love AI")
    assert done.returncode == 2 and "tokenizer" in done.stderr


# ---- parts ----

def test_views_and_reports_show_the_same_tables(lamina, report):
    tables = {b["id"]: b for b in blocks_of(json.loads(report("json", "gpt2"))) if b.get("kind") == "table" and "id" in b}
    for view in ("info", "params", "flops", "kv"):
        reply = json.loads(lamina("inspect", "gpt2", "--view", view, "--json").stdout)
        assert reply["view"] == view
        shared = [b for b in reply["blocks"] if b.get("kind") == "table"]
        assert shared and all(tables[b["id"]] == b for b in shared)
    assert json.loads(lamina("inspect", "gpt2", "--view", "tree", "--json").stdout)["text"].startswith("GPT2LMHeadModel(")
    assert lamina("inspect", "gpt2", "--view", "all", "--json").returncode == 2


def test_every_layer_opens(report):
    for model, layers in (("deepseek-v2", 60), ("llama-3.2-3b", 28), ("gpt2", 12), ("bloom-7b1", 30), ("mixtral-8x7b", 32)):
        folds = [b for b in blocks_of(json.loads(report("json", model))) if b.get("kind") == "fold" and re.fullmatch(r"layer-\d+", b["id"])]
        assert len(folds) == layers
        assert "first layer" in folds[0]["title"] and "last layer" in folds[-1]["title"]
        for fold in folds:
            table = next(b for b in fold["blocks"] if b.get("kind") == "table")
            assert len(table["rows"]) > 12
            whole = int(re.search(r"([\d,]+) parameters", fold["title"])[1].replace(",", ""))
            assert sum(row[4]["value"] for row in table["rows"] if row[4]) == whole       # nothing is left out
            shapes = [row[3]["text"] if isinstance(row[3], dict) else row[3] for row in table["rows"]]
            assert all(re.fullmatch(r"\[T, \d+\]", s) for s in shapes) and f"→ {shapes[-1]}" in fold["title"]


def test_report_of_every_family(lamina, source):
    """Each in a report of 16 models, which costs little more than a report of one; some alone, for the symbols of their formulas."""
    models = [config.parent for config in some(sorted((source / "tests/golden").glob("*/*/config.json")))]
    for some16 in (models[i:i + 16] for i in range(0, len(models), 16)):
        done = lamina("report", *some16, *DEVICE, "--format", "md")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n## ") >= len(some16) and "✗" not in done.stdout, some16
    for model in models[::8]:
        check_symbols(lamina("report", model, *DEVICE, "--format", "md").stdout, model)
