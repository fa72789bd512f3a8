"""HTML reports as readers see them: what comes first, what is folded, drawings and comparisons. tools/browser/report.mjs checks the sizes
that a browser lays out."""
import json
import math
import re
from html.parser import HTMLParser

import pytest
from conftest import run

VOID = {"meta", "link", "input", "br", "hr", "img", "path", "rect", "circle", "line", "mspace"}


class Node:
    def __init__(self, tag, attrs, parent):
        self.tag, self.attrs, self.parent, self.inner, self.text = tag, dict(attrs), parent, [], ""

    def walk(self):
        for x in self.inner:
            yield x
            yield from x.walk()

    def all(self, tag=None, **attrs):
        return [x for x in self.walk() if (tag is None or x.tag == tag) and all(x.attrs.get(k) == v for k, v in attrs.items())]

    def of_class(self, name):
        return [x for x in self.walk() if name in (x.attrs.get("class") or "").split()]

    def whole_text(self):
        return self.text + "".join(x.whole_text() for x in self.inner)

    def within(self, tag):
        return self.parent is not None and (self.parent.tag == tag or self.parent.within(tag))


class Tree(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = self.at = Node("", [], None)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        node = Node(tag, attrs, self.at)
        self.at.inner.append(node)
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag, attrs):
        self.at.inner.append(Node(tag, attrs, self.at))

    def handle_endtag(self, tag):
        if tag not in VOID:
            self.at = self.at.parent

    def handle_data(self, data):
        self.at.text += data


@pytest.fixture(scope="module")
def pages(build, source):
    made = {}

    def page(*args):
        if args not in made:
            done = run(build / "src/cli/lamina", "report", *args, "--format", "html", cwd=source)
            assert done.returncode == 0, done.stderr
            root = Tree(done.stdout).root
            made[args] = done.stdout, root, root.all("main")[0]
        return made[args]
    return page


@pytest.fixture(scope="module")
def facts(build, source):
    def of(model, *args):
        return json.loads(run(build / "src/cli/lamina", "inspect", model, "--json", *args, cwd=source).stdout)
    return of


THREE = ("llama-3.2-1b", "mistral-7b-v0.1", "deepseek-v2")


# ---- first section ----

@pytest.mark.parametrize("model, rows", [("llama-3.2-3b", 4), ("gpt2", 4), ("deepseek-v2", 5)])         # a mixture also has active parameters
def test_a_sentence_and_large_figures_come_first(pages, facts, model, rows):
    _, _, main = pages(model)
    first = main.inner[0]
    assert [x.tag for x in first.inner[:3]] == ["h2", "p", "div"], "the sentence, then the figures"
    sentence, total = first.inner[1].whole_text(), facts(model)["parameters"]["total"]
    billions = f"{total / 1e9:.3g} B" if total > 1e9 else f"{total / 1e6:.3g} M"
    assert "decoder-only" in sentence and billions in sentence
    figures = first.inner[2].all("table", id="key-figures")[0]
    assert len(figures.all("tr")) == rows and billions in figures.whole_text()
    assert [x.attrs.get("id") for x in first.all("section")][:2] == ["settings", "takeaways"]


@pytest.mark.parametrize("models", [("llama-3.2-3b",), THREE])
def test_chapters_are_closed_below_the_overview(pages, models):
    """The sliders are first, numbered and in the contents. The id of a chapter is within the part that browsers open for a link to it."""
    text, root, main = pages(*models)
    parts = [main] if len(models) == 1 else [x for x in main.inner if x.tag == "section" and x.attrs["id"] != "comparison"]
    assert len(parts) == len(models)
    contents = [a.attrs["href"][1:] for a in root.of_class("contents")[0].all("a")]
    for part in parts:
        chapters = [x for x in part.inner if x.tag in ("section", "details")]
        assert len(chapters) >= 15 and chapters[0].tag == "section" and all(x.tag == "details" and x.attrs == {"class": "chapter"} for x in chapters[1:])
        for x in chapters[1:]:
            summary, section = x.inner
            assert summary.tag == "summary" and summary.inner[0].tag in ("h2", "h3") and section.tag == "section" and section.attrs["id"] in contents
        sliders = next(x for x in chapters[0].inner if x.tag == "section")
        assert sliders.attrs["id"].endswith("settings") and sliders.of_class("panel") and re.fullmatch(r"(\d\.)?1\.1", sliders.inner[0].all("a")[0].whole_text())
    if len(models) == 1:                                                   # of several models, their chapters are the second level
        assert contents[:3] == ["overview", "settings", "takeaways"]


def test_sliders_start_at_usual_contexts(pages):
    for model, context in (("llama-3.2-3b", 8192), ("deepseek-v2", 8192), ("gpt2", 1024)):
        panel = json.loads(pages(model)[2].of_class("panel")[0].all("script")[0].whole_text())
        assert panel["contexts"][panel["now"][0]] == context


# ---- comparisons ----

def numbers(text):
    value, unit = re.match(r"([\d.,]+)\s*(\D*)", text).groups()
    return float(value.replace(",", "")) * {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}.get(unit[:1], 1)


def test_a_comparison_opens_with_its_summary(pages):
    section = pages(*THREE)[2].inner[0]
    inner = [x.attrs["id"] for x in section.inner if x.tag == "section"]
    assert inner[:3] == ["compare-summary", "compare-sizes", "compare-values"]
    values = [x for x in section.all("table") if x.all("thead") and x.attrs["id"] not in ("compare-summary-table", "events", "blocks")]
    assert [x.attrs["id"] for x in values] == ["compare-values-table"], "one table holds all values"
    groups = values[0].of_class("group")
    assert [x.attrs["id"] for x in groups] == [f"compare-{n}" for n in
                                               ("specification", "embedding", "attention", "position", "mlp", "norm", "parameters", "kv", "flops", "memory")]
    rows = [r for r in values[0].all("tr") if r not in groups and r.attrs.get("class") != "gap"]
    assert len(rows) > 60 and all(len(r.inner) == 4 for r in rows), "columns stand below each other"


def test_equal_rows_are_distinguished(pages):
    for table in ("compare-summary-table", "compare-values-table"):
        [found] = pages(*THREE)[2].all("table", id=table)
        for row in found.all("tr"):
            cells = [x.whole_text() for x in row.inner[1:]]
            if row.all("td") and len(cells) == 3 and row.attrs.get("class") != "gap":
                assert (row.attrs.get("class") == "same") == (len(set(cells)) == 1), row.whole_text()
        assert pages(*THREE)[2].all("input", **{"data-differs": table}), "and can be left out"


def test_bars_are_as_long_as_their_numbers(pages):
    [bars] = pages(*THREE)[2].all("table", id="compare-bars")
    groups, axes, label = {}, {}, None
    for row in bars.all("tr"):
        if row.attrs.get("class") == "gap":
            continue
        cells = row.inner
        label = cells[0].whole_text() or label
        [bar] = cells[3].of_class("bar")
        if cells[3].whole_text():
            axes[label] = numbers(cells[3].whole_text().removeprefix("logarithmic from "))
        groups.setdefault(label, []).append((numbers(cells[2].whole_text()), float(re.search(r"width:([\d.]+)%", bar.attrs["style"])[1]), cells[2].whole_text(), bar.attrs["class"]))
    assert {"parameters", "share of attention", "share of the MLP", "weights as Q4_K_M", "operations per token", "cache at 4,096 tokens",
            "cache at 32,768 tokens"} <= set(groups)
    logarithmic = set()
    for label, rows in groups.items():
        whole = 100 if rows[0][2].endswith("%") else max(n for n, *_ in rows)
        least = min(n for n, *_ in rows)
        assert len(rows) == 3
        if not rows[0][2].endswith("%") and whole > 20 * least:
            logarithmic.add(label)
            start = 10 ** math.floor(math.log10(least / 2))
            assert axes[label] == start and all(abs(width - 100 * math.log(n / start) / math.log(whole / start)) < 0.6 for n, width, *_ in rows), label
        else:
            assert label not in axes and all(abs(width - 100 * n / whole) < 0.6 for n, width, *_ in rows), label
    assert logarithmic == {"parameters", "weights as Q4_K_M"}, "values that differ by more than 20"
    for label, rows in groups.items():
        assert len({name for *_, name in rows}) == 3, "a colour for each model"


def test_caches_that_differ_much_have_two_logarithmic_axes(build, source):
    """GPT-3 caches 128 times as much as GPT-2: the chart says so on both axes, and linear growth is a line there as well."""
    page = Tree(run(build / "src/cli/lamina", "report", "gpt2", "gpt-3-175b", "--format", "html", cwd=source).stdout)
    [figure] = page.root.all("figure", id="figure-kv-curves")
    words = [t.whole_text() for t in figure.all("text")]
    assert "bytes of the cache, logarithmic" in words and "positions of the context, logarithmic" in words
    assert all(is_straight(curve_of(figure, k)) for k in (1, 2))


def test_no_cache_is_longer_than_a_model(pages):
    [bars] = pages("gpt2", "llama-3.2-1b")[2].all("table", id="compare-bars")
    assert re.findall(r"cache at [\d,]+ tokens", bars.whole_text()) == ["cache at 1,024 tokens"]


def curve_of(figure, number):
    [path] = [x for x in figure.all("path") if x.attrs["class"].split()[:2] == ["curve", f"c{number}"]]
    return [tuple(map(float, p.split())) for p in re.findall(r"[ML]([\d.]+ [\d.]+)", path.attrs["d"])]


def test_one_chart_shows_the_caches_of_all(pages):
    [figure] = pages(*THREE)[2].all("figure", id="figure-kv-curves")
    assert [t.whole_text() for t in figure.all("text") if t.whole_text() in ("Llama 3.2 1B", "Mistral 7B v0.1", "DeepSeek-V2")] == ["Llama 3.2 1B", "Mistral 7B v0.1", "DeepSeek-V2"]
    for number, straight in ((1, True), (2, False), (3, True)):
        assert is_straight(curve_of(figure, number)) == straight, "a window bounds it, nothing else does"


def is_straight(points):
    (x0, y0), (x1, y1) = points[0], points[-1]
    return all(abs(y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))) < 1 for x, y in points)


# ---- one model ----

def test_linear_growth_looks_linear(pages):
    _, _, main = pages("llama-3.2-3b")
    [growth] = [f for f in main.all("figure") if "bytes of the cache" in f.whole_text()]
    assert is_straight(curve_of(growth, 1)) and is_straight(curve_of(growth, 2))
    areas = [p for p in main.all("path") if (p.attrs.get("class") or "").startswith("area")]
    assert len(areas) >= 5
    for path in areas:
        points = [tuple(map(float, p.split())) for p in re.findall(r"[ML]([\d.]+ [\d.]+)", path.attrs["d"])]
        assert is_straight(points[:len(points) // 2])


def test_equal_layers_are_one_line(pages):
    for model, lines in (("llama-3.2-3b", 1), ("gpt2", 1), ("deepseek-v2", 2)):
        [layers] = pages(model)[2].all("section", id="layers")
        outer = [d for d in layers.inner if d.tag == "details"]
        assert len(outer) == lines, [d.inner[0].whole_text() for d in outer]


@pytest.mark.parametrize("model", ["llama-3.2-3b", "gpt2", "deepseek-v2"])
def test_derivations_are_closed_and_drawings_appear_once(pages, model):
    _, _, main = pages(model)
    assert main.of_class("derivation") and all(x.within("details") for x in main.of_class("derivation"))
    assert not [d for d in main.all("details") if "open" in d.attrs]

    def shape(node):
        return (node.tag, node.text.strip(), *(shape(x) for x in node.inner if x.tag != "title"))
    seen = [shape(s) for s in main.all("svg")]
    assert len(seen) > 10 and len(set(seen)) == len(seen)
    for section in main.all("section"):
        folds = [d.inner[0].whole_text() for d in section.inner if d.tag == "details"]
        assert len(set(folds)) == len(folds), f"{section.attrs['id']}: {folds}"


@pytest.mark.parametrize("model", ["llama-3.2-3b", "gpt2", "deepseek-v2", "gpt-oss-20b"])
def test_forward_pass_and_listing_are_folds(pages, build, source, model):
    """Both are what `lamina explain` prints, closed, each once, prose of the pass as paragraphs; a page of several models has neither."""
    main = pages(model)[2]
    for fold, command in (("forward-pass", ["explain", "forward", model]), ("pytorch", ["explain", "--code", model, "--in", "pytorch"])):
        [found] = main.all("details", id=fold)
        assert "open" not in found.attrs
        printed = run(build / "src/cli/lamina", *command, cwd=source).stdout
        if fold == "pytorch":
            assert [x.whole_text().strip() for x in found.all("pre")] == [printed.strip()]
        else:
            shown = " ".join(x.whole_text() for x in found.inner[1:]).split()
            assert found.all("p") and shown == [word for word in printed.split() if word != "----"]
    assert not pages(*THREE)[2].all("details", id="pytorch")


def test_caches_by_method_follow_their_formulas(pages):
    for model, methods in (("llama-3.2-3b", 3), ("gpt2", 2), ("deepseek-v2", 3), ("deepseek-v3", 3)):
        [table] = pages(model)[2].all("table", id="methods")
        rows = [[x.whole_text() for x in row.inner] for row in table.all("tbody")[0].all("tr")]
        assert len(rows) >= methods
        for name, formula, count in rows:
            assert eval(formula.replace("·", "*").replace(",", "")) == int(count.replace(",", "")), (model, name)


def test_heads_fit_their_column(pages):
    for model in ("llama-3.2-3b", "llama-3.1-8b", "falcon-7b"):
        [drawing] = [s for s in pages(model)[2].all("svg") if "query heads" in s.whole_text() and "cached" in s.whole_text()]
        assert float(drawing.attrs["width"]) <= 900


def test_tables_of_sizes_have_bars(pages):
    for model in ("llama-3.2-3b", "deepseek-v2"):
        main = pages(model)[2]
        for table in ("shares", "parameters-by-module", "precisions", "plan", "adapters"):
            [found] = main.all("table", id=table)
            assert len(found.of_class("bar")) >= 3, table
        [found] = main.all("table", id="precisions")
        ends = {"llama-3.2-3b": 16, "deepseek-v2": 1536}
        unit = 2 ** 30 * ends[model] / 100                          # bytes of one percent of the axis
        for row in found.all("tbody")[0].all("tr"):
            n = int(row.inner[1].whole_text().replace(",", ""))
            assert abs(float(re.search(r"width:([\d.]+)%", row.of_class("bar")[0].attrs["style"])[1]) - n / unit) < 0.01


def test_bars_are_crossed_by_sizes_of_memory(pages):
    """Each line stands at its size on the axis of the bars, in every row, and no two labels touch (6 % of 360 pixels for a digit or two)."""
    expected = {"llama-3.2-3b": [8, 16], "qwen2.5-7b": [8, 16, 24, 48], "deepseek-v2": [192, 640, 1536], "gpt2": [8]}
    for model, sizes in expected.items():
        [table] = pages(model)[2].all("table", id="precisions")
        [axis] = table.of_class("axis")
        labels = axis.all("i")
        values = [eval(x.whole_text().replace("×", "*")) for x in labels]
        places = [float(re.search(r"left:([\d.]+)%", x.attrs["style"])[1]) for x in labels]
        assert values == sizes, model
        assert all(abs(place - 100 * n / values[-1]) < 0.01 for n, place in zip(values, places)), (model, places)
        for (a, x), (b, y) in zip(zip(labels, places), list(zip(labels, places))[1:]):
            assert y - x >= 3 * (len(a.whole_text()) + len(b.whole_text())), (model, values)
        for row in table.all("tbody")[0].all("tr"):
            assert [x.attrs["style"] for x in row.inner[-1].all("i")] == [x.attrs["style"] for x in labels]


def test_the_model_is_marked_in_the_history(pages):
    [timeline] = pages("llama-3.2-3b")[2].all("figure", id="figure-timeline")
    assert len([c for c in timeline.all("circle") if c.attrs["class"] == "n end"]) == 1


# ---- links, fonts, titles of charts ----

def test_every_source_is_a_link(pages):
    text, _, main = pages("llama-3.2-3b")
    [sources] = main.all("section", id="sources")
    numbers_said = re.findall(r"arXiv (\d{4}\.\d{5})", sources.whole_text())
    links = [a.attrs["href"] for a in main.all("a") if a.attrs["href"].startswith("https://")]
    assert len(numbers_said) > 20 and all(f"https://arxiv.org/abs/{n}" in links for n in numbers_said)
    assert "https://huggingface.co/meta-llama/Llama-3.2-3B" in [a.attrs["href"] for a in pages("llama-3.2-3b")[1].all("a")]


def test_letters_are_large_enough(pages):
    style = pages("llama-3.2-3b")[1].all("style")[0].whole_text()
    sizes = [float(s) for s in re.findall(r"\.lm [^{]*\{[^}]*font-size:([\d.]+)px", style)]
    assert len(sizes) == 3 and min(sizes) >= 12
    assert re.search(r"math\{font-family:[^}]*Math", style), "formulas have fonts made for them"


def test_latin_letters_of_burmese_pages_are_of_a_latin_font(pages):
    text, root, _ = pages("llama-3.2-3b", "--lang", "my")
    style = root.all("style")[0].whole_text()
    family = re.search(r"html:lang\(my\)\{font-family:([^;}]*)", style)[1].split(",")
    faces = re.findall(r"@font-face\{font-family:(\"[^\"]*\");[^}]*unicode-range:U\+1000[^}]*\}", style)
    own = [f for f in family if f not in faces]
    burmese = [i for i, f in enumerate(own) if re.search("Myanmar|Padauk|Pyidaungsu", f)]
    assert own.index("Roboto") < min(burmese) and own.index("Arial") < min(burmese)
    assert ":lang(my) .lm{font-family:inherit}" in style, "drawings as the text around them"


def test_markdown_charts_name_their_curves(build, source):
    text = run(build / "src/cli/lamina", "report", "llama-3.2-3b", "--format", "md", cwd=source).stdout
    charts = re.findall(r"```mermaid\n((?:(?!```)[\s\S])*?xychart-beta[\s\S]*?)```", text)
    several = [c for c in charts if len(re.findall(r"^\s*(?:line|bar) ", c, re.M)) > 1]
    assert several
    for chart in several:
        title, curves = re.search(r'title "([^"]*)"', chart)[1], len(re.findall(r"^\s*line ", chart, re.M))
        assert re.findall(r"(\w+) = ", title) == ["blue", "orange", "green"][:curves], title


# ---- short form ----

@pytest.mark.parametrize("model", ["llama-3.2-3b", "deepseek-v3", "gpt2", "phi-2"])
def test_the_short_form_is_a_page(pages, build, source, model):
    """At most 60 lines, all of which the report has as well; no contents, no sliders, no second chapter."""
    def text(*flags):
        return run(build / "src/cli/lamina", "report", model, "--format", "txt", "--device", "rtx-4090", *flags, cwd=source).stdout
    short, whole = text("--short").splitlines(), set(text().splitlines())
    assert 30 < len(short) <= 60 and not [x for x in short if x not in whole and not re.match(r"1\.3  In one line|─+$", x)]
    assert "Key takeaways" in " ".join(short) and not any(x.startswith("2  ") for x in short)
    _, root, main = pages(model, "--short")
    assert not root.all("nav") and not root.of_class("slider") and len(root.all("h2")) == 1
    assert main.all("section", id="takeaways") and not main.all("details", id="pytorch")


def takeaways(build, source, model):
    """Return the items of the key takeaways, each in one line."""
    text = run(build / "src/cli/lamina", "report", model, "--short", "--format", "txt", cwd=source).stdout
    lines = re.search(r"Key takeaways.*?\n\n(.*?)\n\n", text, re.S)[1]
    return [" ".join(item.split()) for item in re.split(r"\n    (?=[+−·] )", "\n" + lines) if item.strip()]


def reading_of(build, source, model):
    """Return what the report says of the design, in one line."""
    text = run(build / "src/cli/lamina", "report", model, "--format", "txt", cwd=source).stdout
    return " ".join(re.search(r"\n15  .*?\n16  ", text, re.S)[0].split())


GIB = 2 ** 30


def test_takeaways_of_a_small_model(build, source, facts):
    """Llama 3.2 3B: 8 of 24 heads of 128 values in 28 layers are cached, keys and values, two bytes each. 512 MiB of a card and half of a
    phone stay free; the phone reads 51.2 GB/s, and a token reads all weights and the cache."""
    items = takeaways(build, source, "llama-3.2-3b")
    token, weights = 28 * 2 * 8 * 128 * 2, facts("llama-3.2-3b")["weights"]["as"]["Q4_K_M"]["bytes"]
    need, room = weights + token * 8192, 24 * GIB - GIB // 2
    assert f"· A card of 24 GiB holds the weights as Q4_K_M and {(room - weights) // (token * 8192)} sequences of 8,192 tokens." in items
    [rate] = [re.search(r"Suits phones: iPhone 14 Pro \(A16\) generates up to ([\d.]+) tokens", x)[1] for x in items if "phones" in x]
    assert abs(float(rate) / (51.2e9 / need) - 1) < 0.01


def test_takeaways_of_a_latent_mixture(build, source):
    """DeepSeek-V3: 61 layers, 128 heads, a latent of 512 and 64 rotated values; a head of its own would have 192 and 128."""
    items, design = " ".join(takeaways(build, source, "deepseek-v3")), reading_of(build, source, "deepseek-v3")
    assert f"for 128 heads, {100 * (1 - 576 / (128 * (192 + 128))):.1f} % less than with MHA" in design
    assert f"reading latents takes {2 * 61 * 128 * (576 + 512) / 1e6:.1f} MFLOP" in design
    assert f"of all heads would take {2 * 61 * 128 * (192 + 128) / 1e6:.2f} MFLOP" in design
    assert f"Galaxy S23 Ultra (Snapdragon 8 Gen 2) has {6 * GIB / 1e9:.2f} GB for it" in items


def test_takeaways_of_a_short_context(build, source, facts):
    items = takeaways(build, source, "gpt2")
    weights, cache = facts("gpt2")["weights"]["as"]["Q4_K_M"]["bytes"], 1024 * 12 * 2 * 768 * 2
    assert "− Does not suit long texts: its context has 1,024 positions." in items
    assert f"holds the weights as Q4_K_M and {(24 * GIB - GIB // 2 - weights) // cache} sequences of 1,024 tokens." in " ".join(items)
    assert "the position table has 1,024 entries" in reading_of(build, source, "gpt2")


# ---- formulas ----

FUNCTIONS = set("softmax sigmoid by RoPE Attn MLP SiLU GELU QuickGELU ReLU tanh min clamp mean top shared down up gate logits best of groups for each "
                "layers in else every head from the same latent experts norm squared".split())


@pytest.mark.parametrize("model", ["llama-3.2-3b", "gpt2", "deepseek-v2", "deepseek-v3", "gemma-2-9b", "gpt-oss-20b", "bloom-176b", "phi-2", "mixtral-8x7b",
                                   "falcon-40b", "olmo-2-7b", "opt-125m", "qwen3-30b-a3b", "xglm-564m", "command-r-35b", "gpt-j-6b"])
def test_every_letter_of_the_formulas_is_explained_once(build, source, model):
    """No key of a configuration file is left as a name, each letter is in the table once, and the table has no other."""
    done = run(build / "src/cli/lamina", "report", model, "--format", "txt", "--columns", "200", cwd=source)
    assert done.returncode == 0, done.stderr
    chapter = re.search(r"\n14  The forward pass as formulas.*?\n15  ", done.stdout, re.S)[0]
    box, table, formulas = re.match(r"(.*?)\n\n  W_E is [^\n]*\n\n  ▾ Every formula\n\n(.*?)\n\n(.*)", chapter.split("═\n", 1)[1], re.S).groups()
    letters = [line.split()[0] for line in table.splitlines()]
    assert len(letters) == len(set(letters)), letters
    text = box + "\n" + "\n".join(re.split(r"\s{2,}", line.strip())[-1] for line in formulas.splitlines()[:-2])
    used = set()
    for word in re.findall(r"[A-Za-zθγβεμ𝐐𝐊𝐕]\w*ᵢ?", text):
        word = re.sub(r"[₀-₉ᵀ]+$", "", word)
        if word in FUNCTIONS:
            continue
        assert not re.search(r"_(heads|dim|rank)$|^(layers|tokens|bytes)$", word), word
        base = word if word in letters else "g" if word == "g_i" else re.sub(r"(_\w+|\d)$", "", word)
        base = base.rstrip("ᵢ²") if base not in letters else base
        base = f"{base}_…" if base not in letters and f"{base}_…" in letters else base
        assert base in letters, (word, letters)
        used.add(base)
    used |= {"ℓ"} & set(letters)            # other forms number the layers, text does not
    assert used == set(letters), (set(letters) - used, used - set(letters))
