"""Reports as HTML without a browser: well-formed, self-contained, escaped. tools/browser/ opens them in one (make browser)."""
import json
import os
import re
from html.parser import HTMLParser

import pytest
from conftest import run

VOID = {"meta", "link", "input", "br", "hr", "img", "path", "rect", "circle", "line", "mspace"}


class Page(HTMLParser):
    """Check that every element closes in order; collect ids, anchors and attributes that could fetch something."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.anchors, self.fetches, self.tags, self.scripts = [], [], [], [], {}, []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        names = [n for n, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name == "href":
                self.anchors.append(value)
            elif name in ("src", "srcset", "action", "data", "xlink:href", "poster") or name.startswith("on"):
                self.fetches.append((tag, name, value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-4:], self.getpos())
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


def report(lamina, *args):
    done = lamina("report", *args, "--format", "html")
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(text, language="en"):
    assert text.startswith(f'<!doctype html>\n<html lang="{language}">')
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    assert all(a[1:] in page.ids if a.startswith("#") else re.fullmatch(r"https://[\w./~%+-]+", a) for a in page.anchors)
    assert page.fetches == []
    styles = re.sub(r"<script[\s\S]*?</script>", "", text)
    assert not re.findall(r"url\(|@import|https?://[^\s<]*[\"')]", styles.split("</style>")[0])
    assert {"main", "nav", "h1", "h2", "table", "figure", "svg", "math", "details"} <= set(page.tags)
    return page


@pytest.mark.parametrize("model, language", [("llama-3.2-3b", "en"), ("deepseek-v2", "my"), ("gemma-3-4b", "zh-Hant"), ("gpt2", "zh-Hans"),
                                             ("granite-20b-code-base", "en")])
def test_a_page_is_whole(lamina, model, language):
    text = report(lamina, model, "--lang", language)
    page = check(text, language)
    layers = json.loads(lamina("inspect", model, "--json").stdout)["architecture"]["layers"]
    assert page.tags["details"] >= layers, "each layer can be opened"
    assert len(text) < 1_500_000


def test_an_impossible_plan_is_reported(lamina):
    """A q8_0 cache does not support heads of 80 dimensions: the page has no sliders and states the reason."""
    text = report(lamina, "phi-2", "--kv-type", "q8_0")
    page = check(text)
    assert "a q8_0 cache needs heads whose width is a multiple of 32, not 80" in text
    assert not [s for s in page.scripts if s.startswith("{")]


def test_the_purpose_of_a_temporary_folder_is_told(build, tmp_path):
    """The page shows a forward pass of a small copy of the model, which needs a folder for a moment."""
    missing = tmp_path / "missing"
    done = run(build / "src/cli/lamina", "report", "gpt2", "-o", tmp_path / "page.html", env=os.environ | {"TMPDIR": str(missing)})
    assert done.returncode == 1 and not (tmp_path / "page.html").exists()
    assert f"{missing}: cannot create a temporary folder for a small copy of the model" in done.stderr and "TMPDIR" in done.stderr


def test_several_models(lamina):
    page = check(report(lamina, "llama-3.2-3b", "mistral-7b-v0.1"))
    assert len([s for s in page.scripts if s.startswith("{")]) == 2, "sliders for each"


def test_the_sliders_show_the_plan(lamina):
    page = check(report(lamina, "llama-3.2-3b", "--context", "8192", "--kv-type", "q8_0"))
    [data] = [json.loads(s) for s in page.scripts if s.startswith("{")]
    context, batch, kv, precision = data["now"]
    assert (data["contexts"][context], data["batches"][batch], data["kv"][kv], data["precisions"][precision]) == (8192, 1, "q8_0", "f16")
    memory = json.loads(lamina("inspect", "llama-3.2-3b", "--context", "8192", "--kv-type", "q8_0", "--json").stdout)["memory"]
    assert data["cache"][kv * len(data["batches"]) + batch][context] == memory["kv"]
    assert data["weights"][precision] == memory["weights"] and data["mapped"][precision] == memory["mapped"]
    assert data["values"][precision][batch] + data["threads"][precision][kv] + data["bookkeeping"][batch][context] == memory["scratch"]


def test_a_hostile_name_is_text(lamina, tmp_path):
    path = tmp_path / "<script>alert(1)<" / "\"'><img src=x onerror=alert(1)>" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
        "vocab_size": 100, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "_name_or_path": "</title></style></script><script>alert(1)</script>"}))
    text = report(lamina, str(path))
    page = check(text)
    assert "img" not in page.tags and page.tags["script"] == 3           # colours, sliders, the page's own


def test_wraps_prose(lamina):
    """Sentences are paragraphs, never parts of a block that keeps its lines and scrolls sideways; the listing's comments are code."""
    page = report(lamina, "gpt2", "--device", "rtx-4090")
    kept = [line for block in re.findall(r"<pre>(.*?)</pre>", page.split('id="pytorch"')[0], re.S) for line in block.split("\n")]
    sentences = [line for line in kept if re.match(r"[A-Z][a-z]+( [a-z]+){3}", line)]
    assert len(kept) > 200 and sentences == [], sentences[:3]
    assert "<p>The same operations with sizes that can be shown completely" in page


def test_letters_are_beside_the_arithmetic(lamina):
    """A topic has one fold for its letters and its arithmetic: "Letters" only where nothing is derived."""
    page = report(lamina, "deepseek-v2", "--device", "rtx-4090")
    topics = {kind: set(re.findall(rf'<details id="{kind}-([\w-]+)"', page)) for kind in ("letters", "derive")}
    assert len(topics["derive"]) > 10 and not topics["letters"] & topics["derive"], topics
    assert set(re.findall(r'<table id="letters-of-([\w-]+)"', page)) <= topics["derive"] | topics["letters"]
