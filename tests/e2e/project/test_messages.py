"""The catalogues of po/ are complete, valid and match the messages of the sources."""
import json
import re
import shutil
import subprocess

import pytest
from conftest import run

LANGUAGES = ["zh_Hant", "zh_Hans", "my"]
# A directive of printf, including those of <inttypes.h> as gettext writes them, without its position (%2$s).
DIRECTIVE = re.compile(r"%(?:\d+\$)?([-+ #0]*[\d.*]*(?:<PRI\w+>|(?:ll|l|z|h|j|t)?[a-zA-Z%]))")


def entries(path):
    """Yield the messages in the order of the file: (context, id, plural, text, flags)."""
    entry, field = {}, None
    for line in path.read_text(encoding="utf-8").split("\n") + [""]:
        if not line:
            if "msgid" in entry:
                yield (entry.get("msgctxt"), entry["msgid"], entry.get("msgid_plural"), entry.get("msgstr", ""), entry.get("flags", ""))
            entry, field = {}, None
        elif line.startswith("#"):
            entry["flags"] = entry.get("flags", "") + line
        else:
            m = re.fullmatch(r'(?:(msgctxt|msgid_plural|msgid|msgstr)(?:\[\d\])? )?(".*")', line)
            assert m, f"{path.name}: {line}"
            field = m.group(1) or field
            entry[field] = entry.get(field, "") + json.loads(m.group(2))


@pytest.fixture(params=LANGUAGES)
def catalogue(request, source):
    return source / "po" / f"{request.param}.po"


def test_gettext_accepts_the_catalogue(catalogue):
    assert shutil.which("msgfmt"), "gettext is not there: scripts/setup test"
    done = run("msgfmt", "--check-format", "--check-domain", "-o", "/dev/null", catalogue)
    assert done.returncode == 0 and "error" not in done.stderr, done.stderr


def test_every_message_is_translated(catalogue):
    obsolete = [line for line in catalogue.read_text(encoding="utf-8").split("\n") if line.startswith("#~")]
    assert not obsolete, f"no longer in the sources: {obsolete[:3]}"
    for context, text, _, translation, flags in entries(catalogue):
        if text:
            assert translation.strip(), f"untranslated: {text!r}"
            assert "fuzzy" not in flags, f"fuzzy: {text!r}"


def test_directives_of_printf_are_the_same(catalogue):
    """A translation has the same directives; their order may differ only if every one of them states its position."""
    for _, text, plural, translation, _ in entries(catalogue):
        if not text:
            continue
        assert sorted(DIRECTIVE.findall(text)) == sorted(DIRECTIVE.findall(translation)), f"{text!r} → {translation!r}"
        if plural:
            assert DIRECTIVE.findall(text) == DIRECTIVE.findall(plural), text
        places = re.findall(r"%(\d+)\$", translation)
        if places:
            kinds = [k for k in DIRECTIVE.findall(text) if k != "%"]
            reply = {int(p): k for p, k in re.findall(r"%(\d+)\$([-+ #0]*[\d.*]*(?:<PRI\w+>|(?:ll|l|z|h|j|t)?[a-zA-Z]))", translation)}
            assert reply == {i + 1: k for i, k in enumerate(kinds)}, f"{text!r} → {translation!r}"
        else:
            assert DIRECTIVE.findall(text) == DIRECTIVE.findall(translation), f"out of order without %1$s: {text!r} → {translation!r}"


def test_lines_and_spaces_at_the_ends_are_kept(catalogue):
    for _, text, _, translation, _ in entries(catalogue):
        if text:
            assert text.endswith("\n") == translation.endswith("\n"), text
            assert text.startswith("\n") == translation.startswith("\n"), text
            assert text.count("\n") == translation.count("\n"), text


def test_burmese_is_unicode_not_zawgyi(source):
    """Zawgyi writes E before its consonant and has its own code points for medials (U+105A, U+1060 to U+1097)."""
    text = (source / "po/my.po").read_text(encoding="utf-8")
    assert not re.search(r"[\u105A\u1060-\u1097]", text)
    wrong = re.search(r"(?:^|[\s\"(])\u1031[\u1000-\u102A]", text)
    assert not wrong, text[max(0, wrong.start() - 20):wrong.end() + 20] if wrong else ""


def test_the_template_equals_the_sources(source):
    done = run(source / "scripts/messages", "--check")
    assert done.returncode == 0, done.stderr


def test_catalogues_hold_the_template_and_nothing_else(source):
    wanted = {(context, text) for context, text, *_ in entries(source / "po/lamina.pot") if text}
    assert len(wanted) > 500
    for name in LANGUAGES:
        assert {(context, text) for context, text, *_ in entries(source / f"po/{name}.po") if text} == wanted, name


def test_the_extractor_notices_a_new_text(source, tmp_path):
    """The check above can fail: in a copy of the tree with one more message, the template no longer matches the sources."""
    subprocess.run(["cp", "-r", source / "src", source / "po", source / "scripts", tmp_path], check=True)
    page = tmp_path / "src/study/views/views.c"
    page.write_text(page.read_text() + '\nconst char *lm_new(void) { return _("nobody has translated this"); }\n')
    assert run(tmp_path / "scripts/messages", "--check").returncode == 1


def test_the_program_prints_the_catalogue(build, source):
    for language, name in [("zh-Hant", "zh_Hant"), ("zh-Hans", "zh_Hans"), ("my", "my")]:
        texts = {(context, text): translation for context, text, _, translation, _ in entries(source / f"po/{name}.po")}
        page = run(build / "src/cli/lamina", "--lang", language, "inspect", "llama-3.2-3b").stdout
        for word in ["compute per token", "embedding = head", "if head untied", "to run"]:
            assert texts[None, word] in page, (language, word)
