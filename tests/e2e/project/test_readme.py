"""README.md and docs/guide/commands.md show what the program prints. `…` stands for anything: numbers of one machine, omitted lines."""
import json
import re

import pytest
from conftest import SOURCE, margins, run

PAGES = {name: (SOURCE / name).read_text() for name in ("README.md", "docs/guide/commands.md")}
BLOCKS = [(name, block) for name, text in PAGES.items() for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
          if not language]
SESSIONS = [(name, block) for name, block in BLOCKS if block.startswith("$ lamina ")]
PICTURES = [(name, *found) for name, text in PAGES.items() for found in re.findall(r"^`\$ lamina (.* --svg)`\n\n!\[.*\]\((.*)\)$", text, re.M)]


def pattern(text):
    return ".*".join(map(re.escape, text.split("…")))


@pytest.mark.parametrize("name, block", SESSIONS, ids=[b.split("\n")[0][2:] for _, b in SESSIONS])
def test_session(build, source, model, name, block):
    command, shown = block.split("\n", 1)
    done = run(build / "src/cli/lamina", *command.split()[2:], cwd=source)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("\n")
    at = 0
    for line in filter(str.strip, shown.split("\n")):
        wanted = re.compile(pattern(line) + "$")
        while at < len(printed) and not wanted.match(printed[at]):
            at += 1
        assert at < len(printed), f"{name} shows a line that is not printed there (scripts/sessions): {line}"


@pytest.mark.parametrize("name, command, picture", PICTURES)
def test_picture(build, source, name, command, picture):
    drawn = run(build / "src/cli/lamina", *command.split(), cwd=source)
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == (source / name).parent.joinpath(picture).read_text(), f"{picture} is not what is drawn now (scripts/sessions)"


def test_report(build, source):
    written = run(build / "src/cli/lamina", "report", "llama-3.2-1b", "--device", "rtx-4090", "--lang", "en", "--format", "html", cwd=source)
    assert written.returncode == 0, written.stderr
    kept = (source / "docs/pictures/llama-3.2-1b.html").read_text()
    assert written.stdout == kept, "docs/pictures/llama-3.2-1b.html is not what is written now (scripts/sessions)"
    assert len(kept) < 600_000


def test_list_of_commands(build):
    program = json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)
    [shown] = [b for _, b in BLOCKS if b.startswith("lamina run ")]
    assert sorted(re.split(r"\s{2,}", line[len("lamina "):]) for line in shown.splitlines()) == \
        sorted([c["name"], c["summary"]] for c in program["commands"])                  # the page has the order of `lamina help`


def test_speeds_are_those_of_the_performance_page(source):
    """Each ratio of README's table is in the table of its machine; a machine that did not measure a type is named so."""
    page = (source / "docs/guide/performance.md").read_text()
    parts = {part.split("\n")[0]: part for part in page.split("\n### ")}

    def ratio(machine, kind, test):
        part = next(text for title, text in parts.items() if title.startswith(machine))
        row = re.search(rf"^\| Llama-3.2-1B {kind} \| {test}\d+ \|.*", part, re.M)
        return re.search(r"\*\*([\d.]+)\*\*", row[0])[1] if row else "not measured"

    machines = "AVX2 without AVX-512", "AMD Zen 4", "Intel Xeon without AMX"
    text = (source / "README.md").read_text()
    rows = re.findall(r"^\| (Q\w+|BF16) \|(.*)\|$", text.split("## Speed")[1], re.M)
    assert len(rows) == 5
    for kind, cells in rows:
        assert [c.strip() for c in cells.split("|")] == [ratio(m, kind, t) for t in ("pp", "tg") for m in machines], kind


def test_the_demo_answers_as_shown(build, source, model, tmp_path):
    [shown] = [b for _, b in BLOCKS if "lamina run --temp" in b]
    lines = shown.splitlines()
    words = re.match(r'build/release/src/cli/lamina (.*) -p "(.*)"$', lines[0])
    assert f"PROMPT ?= {words.group(2)}" in (source / "Makefile").read_text()
    done = run(build / "src/cli/lamina", *words.group(1).split(), "-p", words.group(2), "--model", model, cwd=source)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == lines[2]
    assert re.match(pattern(lines[3]) + "$", done.stderr.splitlines()[-1])
    sure = run(build / "src/cli/lamina", *words.group(1).split(), "-p", words.group(2), "--model", model, "--logprobs", 2, "--json", cwd=source)
    assert min(margins(sure)) > 0.4     # as in test_coming_from.py: more than processors differ by


def test_first_program_is_the_example(source):
    [shown] = re.findall(r"^```c\n(.*?)^```$", PAGES["README.md"], re.S | re.M)
    assert (source / "examples/first.c").read_text().split("*/\n", 1)[1] == shown


def test_links_lead_to_files(source):
    pages = [*sorted(source.glob("*.md")), *sorted((source / "docs").rglob("*.md"))]
    broken = [f"{page.name}: {to}" for page in pages for to in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
              if not (page.parent / to).exists()]
    assert not broken


def test_index_names_every_page(source):
    index = (source / "docs/README.md").read_text()
    pages = [str(page.relative_to(source / "docs")) for page in (source / "docs").rglob("*.md")]
    missing = [page for page in pages if page not in ("README.md", "man.md") and f"({page})" not in index]
    assert not missing


def test_sessions_exist():
    drawn = re.compile(r"^!\[.*\]\(.*\.svg\)$", re.M)              # screenshots are not made by commands
    assert len(SESSIONS) >= 4 and len(PICTURES) == sum(len(drawn.findall(text)) for text in PAGES.values())
