"""docs/library/c-interface.md and the manual pages: complete, and up to date with the headers."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from lamina import ROOT, Headers

PAGES = sorted((pathlib.Path(os.environ["LAMINA_BUILD"]) / "docs").glob("lamina*.3"))
DOCUMENT = (ROOT / "docs/library/c-interface.md").read_text()
MACROS = {"TH", "SH", "SS", "PP", "TP", "IP", "RS", "RE", "nf", "fi"}


def header_of(page):
    return next((ROOT / "include/lamina").rglob(page.stem.replace("lamina_", "") + ".h"))


def words(text):
    return re.findall(r"\w+", text)


def shown(page):
    """Return a page without its macros and escapes."""
    text = re.sub(r"^\.(?:[A-Z]+|nf|fi)\b(?: \\\(bu 2)?", "", page.read_text(), flags=re.M)
    return re.sub(r"\\f[BR]|\\&", "", text).replace("\\-", "-").replace("\\e", "\\")


def test_the_document_equals_the_headers():
    made = subprocess.run([sys.executable, ROOT / "scripts/apidoc", "--print"], capture_output=True, text=True, check=True).stdout
    assert made == DOCUMENT, "scripts/apidoc writes it again"


def test_the_document_has_every_name():
    headers = Headers()
    titles = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^#### .*", DOCUMENT, re.M))))
    assert titles >= set(headers.functions) | set(headers.fields)
    assert set(words(DOCUMENT)) >= set(headers.values) | {field for fields in headers.fields.values() for field, _ in fields}


def test_every_header_has_a_page():
    assert {header_of(p) for p in PAGES} == set((ROOT / "include/lamina").rglob("*.h"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_page_has_all_of_its_header(page):
    """The page has every word of declarations and comments, except what only frames the header."""
    header = re.sub(r"^#(?:ifndef|define) LAMINA_\w*H$|^#include .*|^#if __has_include.*|^#endif.*|^#ifdef __cplusplus\b.*|^extern \"C\" \{$|LM_PRINTF\(\d, \d\)",
                    "", header_of(page).read_text(), flags=re.M)
    missing = {w.lower() for w in words(header)} - {w.lower() for w in words(shown(page))}
    assert not missing - {page.stem.replace("lamina_", "")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page_is_sound(page):
    """No line is taken for a roff request, no section is missing; `man`, if installed, prints no warning and shows every function."""
    lines = page.read_text().splitlines()
    assert lines[0].startswith(".TH ") and [line for line in lines if line.startswith(".SH ")][:3] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"]
    assert {line[1:].split(" ")[0] for line in lines if line.startswith(".")} <= MACROS and not any(line.startswith("'") for line in lines)
    assert [line for line in lines if line in (".nf", ".fi")] == [".nf", ".fi"] * lines.count(".nf") and lines.count(".RS 2") == lines.count(".RE")
    if not shutil.which("man") or not shutil.which("groff"):
        return
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "MANWIDTH": "120"})
    assert (done.returncode, done.stderr) == (0, "")
    assert set(words(done.stdout)) >= {w for w in words(page.read_text()) if w.startswith("lm_")}
