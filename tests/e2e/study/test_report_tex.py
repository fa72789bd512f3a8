"""lamina report as LaTeX and for pandoc: balanced groups and environments, known commands, no letter that pdfTeX lacks; and, if LaTeX and
pandoc are installed (scripts/setup tex), that they accept it. `make tex` compiles more reports."""
import re
import shutil

import pytest
from conftest import run, some

PRESETS = ["llama-3.2-1b", "gpt2", "deepseek-v2-lite", "mixtral-8x7b", "gemma-2-2b", "bloom-560m", "gpt-oss-20b"]
# LaTeX's own commands and those of the packages in the preamble.
KNOWN = set("""documentclass usepackage usetikzlibrary ifPDFTeX else fi RequireXeTeX IfFontExistsTF def reportfont setmainfont setsansfont setmonofont
errmessage XeTeXlinebreaklocale XeTeXlinebreakskip definecolor DeclareUnicodeCharacter fbox tiny setcounter allowdisplaybreaks setlength parindent
parskip emergencystretch tabcolsep LTleft LTpre LTpost AtBeginDocument abovedisplayskip belowdisplayskip abovedisplayshortskip belowdisplayshortskip
makeatletter renewcommand l dottedtocline makeatother title author date begin end maketitle small contentsname tableofcontents clearpage section
subsection subsubsection paragraph subparagraph hypertarget hyperlink textbf textit itshape bfseries nopagebreak par medskip hfill footnotesize scriptsize
toprule midrule bottomrule endhead endlastfoot addlinespace raggedright arraybackslash texttt allowbreak hspace item itemsep scalebox useasboundingbox
path node ttfamily sffamily fontsize selectfont mbox ensuremath rule phantomsection
text mathrm mathbf mathbb operatorname frac tfrac sqrt left right sum top min max cdot times odot oplus otimes quad qquad leftarrow rightarrow uparrow downarrow
in le ge ne leq geq neq approx equiv pm iff infty ell theta sigma varepsilon epsilon mu pi alpha beta gamma lambda omega tau varphi phi sin cos tanh ln log exp arg hat
langle rangle lfloor rfloor lceil rceil ldots cdots mid cap cup boxed checkmark dag ddag bullet circ surd Sigma Delta varPhi Theta textstyle Leftrightarrow Rightarrow
triangleright triangleleft triangledown vartriangle cfrac prod lVert rVert vert Vert not
textbackslash textasciicircum textasciitilde textless textgreater textbar textquotedbl textasciigrave""".split())


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


def check(tex, ascii_only):
    body = re.sub(r"\\\\|\\[{}$&#%_ ,;:!]", " ", tex)           # escaped characters are not groups
    depth = 0
    for c in body:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    stack = []
    for what, name in re.findall(r"\\(begin|end)\{([a-z*]+)\}", body):
        if what == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    commands = set(re.findall(r"\\([a-zA-Z]+)", body))
    assert commands <= KNOWN, commands - KNOWN
    assert not re.search(r"(?<!\\)\$\$", body) and tex.count("\\begin{longtable}") > 20 and tex.count("\\begin{tikzpicture}") > 8
    declared = set(re.findall(r"DeclareUnicodeCharacter\{([0-9A-F]+)\}", tex))
    letters = {c for c in tex.split("\\begin{document}")[1] if ord(c) > 126}
    assert "RequireXeTeX" in tex or all(f"{ord(c):04X}" in declared for c in letters if not 0xC0 <= ord(c) < 0x180)
    if ascii_only:
        assert not letters, letters


@pytest.mark.parametrize("preset", some(PRESETS))
def test_the_document_is_sound(lamina, preset):
    done = lamina("report", preset, "--format", "tex")
    assert done.returncode == 0, done.stderr
    check(done.stdout, ascii_only=True)


@pytest.mark.parametrize("language", ["zh-Hant", "zh-Hans", "my"])
def test_other_languages_need_their_engine(lamina, language):
    tex = lamina("--lang", language, "report", "llama-3.2-1b", "--format", "tex").stdout
    check(tex, ascii_only=False)
    assert "\\RequireXeTeX" in tex and ("Padauk" in tex) == (language == "my")


def test_a_hostile_name_stays_text(lamina, tmp_path):
    (tmp_path / "config.json").write_text(lamina("estimate", "gpt2", "--config").stdout)
    name = "\\input{/etc/passwd} $x^2 % {a} & #1 _~ 日本 \u202e"
    tex = lamina("report", tmp_path / "config.json", "--name", name, "--format", "tex").stdout
    check(tex, ascii_only=False)
    assert "\\input" not in tex and "\\textbackslash{}input\\{/etc/passwd\\} \\$x\\textasciicircum{}2 \\% \\{a\\} \\& \\#1 \\_" in tex


def test_the_extension_is_enough(lamina, tmp_path):
    done = lamina("report", "gpt2", "-o", tmp_path / "a.tex")
    assert done.returncode == 0 and (tmp_path / "a.tex").read_text().startswith("\\documentclass")


@pytest.mark.parametrize("preset", ["deepseek-v2-lite", "mixtral-8x7b"])
def test_pdflatex_takes_it(lamina, preset, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("no LaTeX here: scripts/setup tex")
    lamina("report", preset, "-o", tmp_path / "a.tex")
    done = run("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "a.pdf").stat().st_size > 100000


def test_markdown_for_pandoc(lamina, tmp_path):
    text = lamina("report", "deepseek-v2-lite", "--format", "pandoc").stdout
    assert "```math" not in text and "```mermaid" not in text and "<details" not in text and text.count("\n$$\n") > 200
    assert not set(re.findall(r"\]\(#([^)]+)\)", text)) - set(re.findall(r"\{#([^}]+)\}", text))
    if not shutil.which("pandoc"):
        return
    (tmp_path / "a.md").write_text(text)
    done = run("pandoc", "a.md", "--mathml", "-t", "html", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count('display="block"') == text.count("\n$$\n") // 2
