"""Symbols of reports: every symbol that a formula uses is in the table of its derivation, once, or is derived before; a symbol has one
value per report. Every letter of a topic's formulas is in one of its tables, once, and a letter has one meaning in all tables."""
import collections
import json
import re

import pytest
from conftest import BARE, run, some

BLOCK = re.compile(r'<details id="derive-[\w-]+">.*?</details>', re.S)
ROW = re.compile(r"^\| \$(.+?)\$ \| (.+?) \| .+? \|$", re.M)
MATH = re.compile(r"```math\n(.*?)```", re.S)
LETTERS = re.compile(r'<details id="(?:letters|derive)-[\w-]+">.*?</details>', re.S)      # the letters of formulas are in either
LETTER = re.compile(r"^\| \$([^|]+)\$ \| ([^|]+) \|$", re.M)
LISTED = re.compile(r"^\| \$(.+?)\$ \| *([\d,.]*) *\| (.+?) \|$", re.M)
WORDS = {"begin", "end", "frac", "cdot", "left", "right", "sqrt", "ln", "min", "quad", "infty", "exp", "sin", "cos", "tanh", "erf", "max",
         "lfloor", "rfloor", "lceil", "rceil", "top", "odot", "times", "in", "le", "ge", "iff", "approx", "leftarrow", "rightarrow", "langle", "rangle",
         "arg", "ldots", "boxed", "infty", "pmatrix", "sum", "text"}       # of LaTeX, not quantities


def symbols(latex):
    """Return the symbols of a formula: letters with their indices, names in upright type, Greek letters."""
    latex = re.sub(r"\\text\{[^}]*\}|\\,|\\ |\\\\|aligned", " ", latex)
    found = set()
    for m in re.finditer(r"\\mathrm\{([^}]*)\}(_\{?[\w,]+\}?)?|\\([A-Za-z]+)|(?<![\\A-Za-z_])([A-Za-z](?:_(?:\{(?:[^{}]|\{[^}]*\})*\}|\w))?)", latex):
        if m[1] in WORDS:
            continue
        if m[1]:
            found.add(f"\\mathrm{{{m[1]}}}" + (m[2] or ""))
        elif m[3]:
            found |= {"\\" + m[3]} - {"\\" + w for w in WORDS}
        else:
            found.add(m[4])
    return found


def parts(symbol):
    """Return the ways in which a symbol can be in a table: itself, its letter with an index that names it, its letter and its index."""
    base, _, index = symbol.partition("_") if "\\_" not in symbol else (symbol, "", "")
    index = index.strip("{}")
    inner = symbols(index.replace("\\ell,", "\\ell ")) if index and not re.fullmatch(r"[A-Za-z]{2,}|\d|[fL]", index) else set()
    return [{symbol}, {base + "_{\\ldots}"}, {base} | inner]


def unlisted(latex, known):
    latex = re.sub(r"\\mathbb\{R\}|\\(?:begin|end)\{\w+\}", " ", latex).replace("\\mathbf", "\\mathrm")
    latex = re.sub(r"_\{(\w)\}", r"_\1", latex)
    known = {k.replace("\\mathbf", "\\mathrm") for k in known}
    return {s for s in symbols(latex) - FUNCTIONS if not any(all(x in known or not x for x in way) for way in parts(s))}


FUNCTIONS = {f"\\mathrm{{{x}}}" for x in "softmax GELU QuickGELU SiLU ReLU xIELU Attn MLP RoPE SparseMixer Repeat Blend Merge softplus round logits down gate up mean clamp sigmoid".split()}


# Of a derivation, names of its quantities in other words than the list of letters has.
SAME = {"F", "N", "V", "W", "B_W", "C", "A", "b_v", "x", "d_k", "K_R", "\\mathrm{base}", "\\mathrm{group}", "K", "E", "\\mathrm{scale}", "p"}


def check_topics(page, name):
    """Check the letters of every section with formulas; return their number."""
    meanings, n = collections.defaultdict(set), 0
    for section in re.split(r"^(?=#{2,3} )", page, flags=re.M):
        derived = [s for block in BLOCK.findall(section) for s, _ in ROW.findall(block)]
        listed = [m for block in LETTERS.findall(section) for m in LETTER.findall(block)]
        steps = {left.replace("\\begin{aligned}", "").strip() for block in BLOCK.findall(section) for f in MATH.findall(block) if "&=" in f for left in [f.split("&=")[0]]}
        own = [(s, m) for s, _, m in LISTED.findall(BLOCK.sub("", section))] if "formula-list" in section else []
        table = derived + [s for s, _ in listed + own]
        assert len(table) == len(set(table)), (name, section[:50], [s for s in table if table.count(s) > 1])
        for s, m in listed + own:
            meanings[s].add(m)
        formulas = MATH.findall(BLOCK.sub("", section)) + (re.findall(r"^\| [^|]+ \| \$(.+?)\$ \|$", section, re.M) if own else [])
        for formula in formulas:
            missing = unlisted(formula, set(table) | steps)
            assert not missing, (name, section[:50], missing, formula)
            n += 1
    several = {s: m for s, m in meanings.items() if len(m) > 1 and s not in SAME}
    assert not several, (name, several)
    return n


def check(page, name):
    values, steps = collections.defaultdict(set), 0
    for block in BLOCK.findall(page):
        rows = ROW.findall(block)
        table = [symbol for symbol, _ in rows]
        assert len(table) == len(set(table)), (name, [s for s in table if table.count(s) > 1])
        known = set(table)
        for symbol, value in rows:
            values[symbol].add(value)
        for formula in MATH.findall(block):
            if "&=" not in formula:
                continue
            left, right = formula.split("&=", 1)
            right = right.split("\n &=")[0].split("\\end")[0]      # what follows has numbers in place of symbols
            unknown = {s for s in symbols(right) - known if not any(k.startswith(s + "_") for k in known)}       # Greek letters with an index
            assert not unknown, (name, block[:60], unknown, right)
            known |= symbols(left.replace("\\begin{aligned}", ""))
            steps += 1
    several = {s: v for s, v in values.items() if len(v) > 1}
    assert not several, (name, several)
    return steps


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src" / "cli" / "lamina"


def test_symbols_of_presets(lamina):
    presets = json.loads(run(lamina, "presets", "--json", env=BARE).stdout)
    kinds = {(p["family"], p["tied"], p["heads"] == p["kv_heads"], p["active"] == p["parameters"]): p["name"] for p in presets}     # one of each
    names = list(kinds.values())
    steps = formulas = 0
    for name in some(names):
        page = run(lamina, "report", name, "--format", "md", env=BARE).stdout
        steps += check(page, name)
        formulas += check_topics(page, name)
    print(f"count: formulas of reports whose symbols are in their tables {steps + formulas}")
    assert formulas > 20 * len(some(names))
    assert steps > 20 * len(some(names))
