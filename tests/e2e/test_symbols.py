"""Symbols of reports: every symbol that a formula uses is in the table of its derivation, once, or is derived before; a symbol has one
value per report."""
import collections
import json
import re

import pytest
from conftest import BARE, run, some

BLOCK = re.compile(r'<details id="derive-[\w-]+">.*?</details>', re.S)
ROW = re.compile(r"^\| \$(.+?)\$ \| (.+?) \| .+? \|$", re.M)
MATH = re.compile(r"```math\n(.*?)```", re.S)
WORDS = {"begin", "end", "frac", "cdot", "left", "right", "sqrt", "ln", "min", "quad", "infty", "exp", "sin", "cos", "tanh", "erf", "max",
         "lfloor", "rfloor", "lceil", "rceil"}       # of LaTeX, not quantities


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
    steps = 0
    for name in some(names):
        steps += check(run(lamina, "report", name, "--format", "md", env=BARE).stdout, name)
    print(f"count: formulas of reports whose symbols are in their tables {steps}")
    assert steps > 20 * len(some(names))
