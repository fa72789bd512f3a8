"""lamina explain --diagram --svg: every drawing of many models is well-formed, self-contained XML."""
import json
import re
import struct
import subprocess
import zlib
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import run

SVG = "{http://www.w3.org/2000/svg}"
MODELS = ["llama-3.2-3b", "deepseek-v2", "gpt-j-6b", "gemma-3-4b", "mixtral-8x7b", "gpt2", "falcon-7b", "pythia-1b",
          "granite-20b-code-base", "mistral-7b-v0.1"]


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


def colours(png):
    """Return the colours of an RGB or RGBA picture (PNG specification, 9: each line is stored as differences of one of five kinds)."""
    at, data, width, pixel = 8, b"", 0, 0
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            width, _, depth, form = struct.unpack(">IIBB", png[at + 8:at + 18])
            assert depth == 8
            pixel = {2: 3, 6: 4}[form]
        data += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    data, line, found = zlib.decompress(data), pixel * width, set()
    above = bytearray(line)
    for start in range(0, len(data), line + 1):
        kind, row = data[start], bytearray(data[start + 1:start + 1 + line])
        for i in range(line) if kind else ():
            left, up, corner = row[i - pixel] if i >= pixel else 0, above[i], above[i - pixel] if i >= pixel else 0
            paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        found.update(row[i:i + 3].hex() for i in range(0, line, pixel))
        above = row
    return found


def test_a_renderer_without_variables(lamina, tmp_path):
    """librsvg does not support CSS variables: paper is white there too, ink is dark, and coloured parts have their colours."""
    drawn = {}
    for model in ["deepseek-v2", "llama-3.2-3b"]:
        for name in [d["diagram"] for d in json.loads(lamina("explain", "--json").stdout)["diagrams"]]:
            done = lamina("explain", "--diagram", name, model, "--svg")
            if done.returncode or name in drawn:
                continue
            png = subprocess.run(["rsvg-convert", "--zoom", "0.3"], input=done.stdout.encode(), capture_output=True, check=True).stdout
            drawn[name] = colours(png)
            assert "ffffff" in drawn[name] and len(drawn[name]) > 8, name
    assert len(drawn) >= 12 and "fff6e5" in drawn["layer"]                   # rotations have their own background


def test_x_reaches_the_experts(lamina):
    """In a mixture of experts the token goes to the router and the experts, and the router's weights to the sum, not to an expert."""
    source = lamina("explain", "--diagram", "moe", "mixtral-8x7b", "--md").stdout
    names = dict(re.findall(r'^ *(n\d+)[^"]*"(.*?)"', source.split(" --> ")[0], re.M))
    edges = re.findall(r"^ *(n\d+) -->(?:\|.*?\|)? ?(n\d+)", source, re.M)
    token, = [n for n, label in names.items() if label.startswith("token")]
    choice, = [n for n, label in names.items() if "softmax" in label]
    total, = [n for n, label in names.items() if "weighted sum" in label]
    experts = [n for n, label in names.items() if "expert" in label]
    assert len(experts) == 4 and all((token, e) in edges and (e, total) in edges and (choice, e) not in edges for e in experts)
    assert (choice, total) in edges


def test_layers_that_share_caches_and_what_branches_add(lamina):
    """Gemma 4 E2B: four kinds of layers, of which two read an earlier cache. The mixture beside the MLP is a part of what the MLP adds."""
    pattern = lamina("explain", "--diagram", "pattern", "gemma-4-e2b", "--md").stdout
    legend = re.findall(r"([A-E]) ×(\d+) .*?(reads an earlier cache)?\"?\]", pattern)
    assert [(k, n, bool(reads)) for k, n, reads in legend] == [("A", "12", False), ("B", "3", False), ("C", "16", True), ("D", "4", True)]
    assert "per_layer_projection" in lamina("explain", "--diagram", "residual", "gemma-4-e2b", "--md").stdout
    assert "a branch" not in lamina("explain", "--diagram", "residual", "gemma-4-26b-a4b", "--md").stdout


@pytest.mark.parametrize("model", MODELS)
def test_drawings(lamina, model):
    def info(model):
        return lamina("inspect", model, "--query", "model.name").stdout.strip()
    names = [d["diagram"] for d in json.loads(lamina("explain", "--json").stdout)["diagrams"]]
    drawn = 0
    for name in names:
        done = lamina("explain", "--diagram", name, model, "--svg")
        if done.returncode:
            assert done.stderr.startswith("error: "), done.stderr            # the model has no such part
            continue
        root = ElementTree.fromstring(done.stdout)
        assert root.tag == SVG + "svg" and root.get("role") == "img" and root[0].tag == SVG + "title" and root[0].text
        assert root[1].tag == SVG + "desc" and root[1].text
        title, heading, shown = root[0].text, *[t.text for t in root.findall(SVG + "text")]
        assert title == f"{heading}: {shown}" and heading == info(model)             # above the drawing: the model and what is shown of it
        inner, = root.findall(SVG + "g")
        assert inner.get("transform") == "translate(20 52)" and len(list(inner.iter())) > 3
        assert "nan" not in done.stdout and "inf" not in re.sub(r"[a-z]inf|inf[a-z]", "", done.stdout.split("</style>")[1])
        width, height = float(root.get("width")), float(root.get("height"))
        assert 60 < width < 3000 and 60 < height < 9000, (name, width, height)
        outside = re.findall(r'(?:href|src)=|url\(|@import|<script|<image|<foreignObject', done.stdout)
        assert not outside, (name, outside)
        for text in root.iter(SVG + "text"):
            x, y = float(text.get("x", 0)), float(text.get("y", 1))
            assert 0 <= x <= width and 0 < y <= height, (name, text.text)
        drawn += 1
    assert drawn >= 12


def test_one_diagram_to_a_file(lamina, tmp_path):
    out = tmp_path / "flow.svg"
    done = lamina("explain", "--diagram", "flow", "llama-3.2-3b", "--svg", "-o", str(out))
    assert done.returncode == 0 and done.stdout == ""
    assert ElementTree.parse(out).getroot().tag == SVG + "svg"


def test_a_page_to_a_file(lamina, tmp_path):
    out = tmp_path / "kv.md"
    assert lamina("explain", "kv", "llama-3.2-3b", "--md", "-o", str(out)).stdout == ""
    assert out.read_text() == lamina("explain", "kv", "llama-3.2-3b", "--md").stdout


@pytest.mark.parametrize("args", [["-o", "x.txt"], ["kv", "gpt2", "--json", "-o", "x.txt"]])
def test_a_file_is_for_pages(lamina, args):
    done = lamina("explain", *args)
    assert done.returncode == 2 and done.stderr.startswith("error: --output")


@pytest.mark.parametrize("args", [["kv", "llama-3.2-3b", "--svg"], ["--diagram", "flow", "gpt2", "--svg", "--json"], ["--diagram", "flow", "gpt2", "--svg", "--md"]])
def test_svg_is_one_diagram(lamina, args):
    done = lamina("explain", *args)
    assert done.returncode == 2 and done.stderr.startswith("error: --svg")


def test_hostile_labels(lamina, tmp_path):
    """Names in a config.json are escaped, whatever they contain."""
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
        "vocab_size": 100, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "_name_or_path": "</title><script>alert(1)</script>&"}
    path = tmp_path / "</svg><script>x" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(config))
    done = lamina("explain", "--diagram", "flow", str(path), "--svg")
    assert done.returncode == 0, done.stderr
    ElementTree.fromstring(done.stdout)
    assert "<script" not in done.stdout
