"""Pages in every language: language selection, complete translation, the same numbers, aligned columns."""
import collections
import ctypes
import functools
import locale
import os
import re

import pytest
from conftest import BARE, run

LANGUAGES = ["zh-Hant", "zh-Hans", "my"]
PAGES = [
    "inspect llama-3.2-3b", "inspect mistral-7b-v0.1 --view layers", "inspect llama-3.2-1b --view params", "inspect gpt2 --view flops",
    "inspect mixtral-8x7b --view kv", "inspect deepseek-v2-lite --view cards", "inspect gemma-2-2b --view diagram",
    "inspect llama-3.2-1b --view rope", "inspect bloom-560m --view memory --cpu ref",
    "explain", "explain params", "explain kv mistral-7b-v0.1", "explain gqa", "explain mla", "explain moe", "explain rope", "explain norm gpt2",
    "explain estimate gpt2", "explain alibi", "explain swa gpt2", "explain flops --md", "explain attention --md",
    "explain --diagram flow deepseek-v2-lite", "explain --diagram moe mixtral-8x7b --md", "explain --diagram window mistral-7b-v0.1",
    "compare llama-3.2-3b llama-3.1-8b", "compare gpt2 mixtral-8x7b deepseek-v2-lite", "compare --history",
    "compare gpt2 bloom-560m --md --view all",
    "fit llama-3.2-3b --device rtx-4090", "fit llama-3.2-3b --ram 64G", "fit --fleet llama-3.2-3b gpt2 --ram 64G",
    "explain forward gpt2", "explain forward deepseek-v2-lite", "explain forward mixtral-8x7b --md",
    "fit llama-3.2-3b --device all", "devices", "devices h100", "presets llama", "estimate mistral-7b-v0.1",
]
# Function words of English sentences; none is in a name, a formula, a field or the name of a family.
ENGLISH = set("""a an the of for and or each with without that which this these those is are was were be been has have had do does in
    on by to at as from into it its not no nothing what who how why when where while than then there their they one only all every
    other more most less few some any same so but if can cannot may must would should will""".split())
# Lower-case words that stay untranslated: technical terms, symbols of derivations, names in files, commands.
TERMS = set("""attention query key keys value values head heads cache embedding residual norm norms expert experts router context batch
    prompt bias latent softmax logits logit activation gate hidden decoder tokenizer sink sinks soft cap causal projection checkpoint
    gradient dense sampling greedy decode entropy quantize kernel engine thread tensor core block input output bandwidth state epsilon
    multi root mean square llama lamina gpt mistral mixtral deepseek gemma bloom yarn rope layers hidden vocab ffn eps base sqrt gamma
    beta var floor sum mlp attn scores default kv flops memory info tree torchinfo params doctor view rtx fit sigmoid tanh silu gelu
    route min max log
    forward backward pass token tokens layer layers weight weights matrix window gate score scores dimension dimensions vector parameter
    parameters memory scaling byte bytes bit bits model models vocabulary position positions sequence frequency variable function
    """.split())        # Burmese keeps technical terms in Latin letters: docs/dev/translating.md


@pytest.fixture(scope="module")
def lamina(build, limits):
    return build / "src/cli/lamina"


@functools.cache
def speak(lamina, command, language=None, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("LAMINA_LANG", "LC_ALL", "LC_MESSAGES", "LANG")} | environment
    done = run(lamina, *command.split(), *(["--lang", language] if language else []), env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- language selection ----

def test_the_flag_wins_then_lamina_lang_then_the_locale(lamina):
    english, burmese, chinese = (speak(lamina, "explain kv", language) for language in ["en", "my", "zh-Hant"])
    assert len({english, burmese, chinese}) == 3
    assert speak(lamina, "explain kv") == english
    assert speak(lamina, "explain kv", LANG="my_MM.UTF-8") == burmese
    assert speak(lamina, "explain kv", LANG="my_MM.UTF-8", LC_MESSAGES="zh_TW") == chinese
    assert speak(lamina, "explain kv", LANG="my_MM.UTF-8", LC_ALL="C") == english
    assert speak(lamina, "explain kv", LAMINA_LANG="my", LC_ALL="zh_TW.UTF-8") == burmese
    assert speak(lamina, "explain kv", "zh-Hant", LAMINA_LANG="my") == chinese
    assert run(lamina, "--lang", "zh-Hant", "explain", "kv", env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}).stdout == chinese
    assert speak(lamina, "explain kv", LANG="zh_SG") == speak(lamina, "explain kv", "zh-Hans")


@pytest.mark.parametrize("value", ["", "de_DE.UTF-8", "../../../etc", "\x1b[31m", "%s%s%n", "z" * 5000, "zh_", "_", "ÿþ"])
def test_any_locale_is_survived(lamina, value):
    page = speak(lamina, "explain tying", LANG=value, LAMINA_LANG=value)
    assert page == speak(lamina, "explain tying", "zh-Hans" if value == "zh_" else "en")


def test_an_unknown_language_is_rejected(lamina):
    for command in [["--lang", "de", "devices"], ["devices", "--lang", "de"]]:
        done = run(lamina, *command)
        assert done.returncode == 2 and "en, zh-Hant, zh-Hans or my" in done.stderr
    assert run(lamina, "--lang").returncode == 2


def test_documents_and_errors_stay_english(lamina):
    for command in ["inspect gpt2 --json", "explain kv --json", "compare gpt2 opt-125m --json", "fit gpt2 --ram 16G --json", "devices h100 --json"]:
        assert speak(lamina, command, "my") == speak(lamina, command, "en"), command
    assert speak(lamina, "inspect gpt2 --query attention.type --query architecture.position", "my") == speak(
        lamina, "inspect gpt2 --query attention.type --query architecture.position", "en")
    wrong = [run(lamina, "inspect", "gpt2", "--view", "nonsense", "--lang", language) for language in ["en", "my"]]
    assert wrong[0].stderr == wrong[1].stderr and wrong[0].returncode == wrong[1].returncode == 2


# ---- translated content ----

def numbers(text):
    return collections.Counter(re.findall(r"\d[\d,.]*\d|\d", text))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("command", PAGES)
def test_numbers_are_the_same(lamina, command, language):
    english, other = numbers(speak(lamina, command, "en")), numbers(speak(lamina, command, language))
    assert english == other, (english - other, other - english)


def prose(page):
    """Yield the lines of a page without formulas, code, addresses, flags and titles of publications."""
    page = re.sub(r"```math.*?```", "", page, flags=re.S)
    for line in page.split("\n"):
        if "arXiv" in line or "et al." in line or re.search(r"(?i)datasheet|specification|whitepaper|documentation", line):
            continue
        if re.match(r"\| \d{4}-\d\d \|", line):
            line = line.rsplit("|", 2)[0]           # the last cell is a source
        line = line.replace("in × out", "").replace("in · out", "").replace("Mixture of Experts", "")
        if re.match(r"(  \S+ +parameters kv-memory| {17}[a-z\d-]+( [a-z\d-]+)+$)", line):
            continue                                # other names of topics, as the user types them
        line = re.sub(r"`[^`]*`|\$[^$]*\$|https?://\S+|--\w\S*(?: [\w|]+)?|#\w+;|<br/?>", " ", line)
        yield re.sub(r"\w*[_.]\w[\w.]*", " ", line)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("command", PAGES)
def test_no_english_is_left(lamina, command, language):
    page = speak(lamina, command, language)
    for line in prose(page):
        words = re.findall(r"(?<![\w·\\-])[a-z]+(?![\w(·])", line)
        if line.lstrip().startswith(("· ", "Architecture,", "PagedAttention")):
            continue                            # titles of papers span lines
        left = [w for w in words if w in ENGLISH and w not in ("a", "i")]
        if re.match(r"\s*(subgraph|Note over|participant|classDef|end|flowchart|graph|title|timeline|direction)", line):
            left = [w for w in left if w not in ("over", "as", "end")]
        assert not left, f"{left} in {line!r}"
        for pair in re.findall(r"(?<![\w·=+-] )\b([a-z]{3,}) ([a-z]{3,})\b", line):
            assert any(w in TERMS for w in pair) or re.match(r"\s*(\S+ += |classDef|lamina |[│|●⊕o]|more|subgraph)", line), f"{pair} in {line!r}"


# ---- reports ----

REPORTED = ["llama-3.2-3b", "gpt2", "mistral-7b-v0.1", "deepseek-v2", "qwen2.5-3b", "bloom-7b1"]


@functools.cache
def report(lamina, model, language, form="txt"):
    """Return a report for a device of the catalogue, so that nothing depends on this machine."""
    env = {**os.environ, **BARE}
    done = run(lamina, "report", model, "--device", "rtx-4090", "--format", form, "--lang", language, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", REPORTED)
def test_numbers_of_reports_are_the_same(lamina, model, language):
    english, other = numbers(report(lamina, model, "en")), numbers(report(lamina, model, language))
    assert english == other, (english - other, other - english)


@pytest.mark.parametrize("language", LANGUAGES)
def test_messages_of_reports(lamina, source, language):
    """The golden file has each line of six reports once, without numbers, which the test above compares. LAMINA_REWRITE=1 rewrites it."""
    golden, reply = source / f"tests/golden/analysis/texts-{language}.txt", {}
    for model in REPORTED:
        for line in report(lamina, model, language).split("\n"):
            text = re.sub(r"[ ─━]{2,}", "  ", re.sub(r"\d[\d,.]*", "0", line)).strip()
            if re.search(r"[^\W\d_a-zA-Z\u0370-\u03FF\u1D00-\u1DBF\u2070-\u209F]", text):      # letters of the language's script
                reply.setdefault(text)
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text("\n".join(reply) + "\n", encoding="utf-8")
    assert "\n".join(reply) + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", ["llama-3.2-3b", "deepseek-v2"])
def test_no_english_is_left_in_reports(lamina, model, language):
    for line in prose(re.sub(r"<a id=\S*|\(#[\w-]*\)", "", report(lamina, model, language, "md"))):
        if re.match(r"\s*(subgraph|Note over|participant|classDef|end|flowchart|graph|title|timeline|direction)", line):
            continue
        left = [w for w in re.findall(r"(?<![\w·\\-])[a-z]+(?![\w(·])", line) if w in ENGLISH - {"a"}]
        assert not left, f"{left} in {line!r}"


def test_the_heuristic_sees_english(lamina):
    """The test above would fail for a page that is not translated."""
    english = speak(lamina, "explain kv", "en")
    assert sum(w in ENGLISH for line in prose(english) for w in re.findall(r"[a-z]+", line)) > 20


# ---- columns ----

libc = ctypes.CDLL(None)


def columns(text):
    width = 0
    for c in text:
        n = libc.wcwidth(ord(c))
        width += n if n > 0 else 0
    return width


@pytest.fixture(scope="module")
def wide_characters():
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    yield
    locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.parametrize("language", ["en"] + LANGUAGES)
@pytest.mark.parametrize("command", ["compare gpt2 llama-3.2-3b mistral-7b-v0.1 --view summary", "compare gpt2 bloom-560m --view parameters"])
def test_numbers_end_in_one_column(lamina, wide_characters, command, language):
    """Every row of a comparison ends in the column where the names of the models end, whatever the script of its label."""
    lines = [line for line in speak(lamina, command, language).split("\n") if line.startswith("  ") and not line.startswith("    ")]
    body = [re.sub(r"  ×\S+ +\S+ %$", "", line) for line in lines]
    assert len(body) > 6
    assert len({columns(line) for line in body if not line.lstrip().startswith("*")}) == 1, body


@pytest.mark.parametrize("language", ["en"] + LANGUAGES)
def test_sizes_are_aligned(lamina, wide_characters, language):
    page = speak(lamina, "inspect llama-3.2-3b --view params", language).split("\n")
    ends = {columns(line) for line in page if line.endswith(" %")}
    assert len(ends) == 1, ends


@pytest.mark.parametrize("language", LANGUAGES)
def test_prose_stays_within_the_terminal(lamina, wide_characters, language):
    page = speak(lamina, "explain attention llama-3.2-1b", language)
    long = [line for line in page.split("\n") if columns(line) > 80 and "·" not in line and "─" not in line]
    assert not long, long
