"""What README.md shows is what the program prints. `…` stands for anything: figures of one machine, lines left out."""
import json
import re

import pytest
from conftest import SOURCE, run

README = (SOURCE / "README.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", README, re.S | re.M)
PICTURES = re.findall(r"^`\$ lamina (.* --svg)`\n\n!\[.*\]\((.*)\)$", README, re.M)
SESSIONS = [b for b in BLOCKS if b.startswith("$ lamina ")]


def pattern(text):
    return ".*".join(map(re.escape, text.split("…")))


@pytest.mark.parametrize("block", SESSIONS, ids=[b.split("\n")[0][2:] for b in SESSIONS])
def test_session(build, source, model, block):
    command, shown = block.split("\n", 1)
    done = run(build / "src/cli/lamina", *command.split()[2:], cwd=source)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("\n")
    at = 0
    for line in filter(str.strip, shown.split("\n")):
        wanted = re.compile(pattern(line) + "$")
        while at < len(printed) and not wanted.match(printed[at]):
            at += 1
        assert at < len(printed), f"README.md shows a line that is not printed there (scripts/readme): {line}"


@pytest.mark.parametrize("command, picture", PICTURES)
def test_picture(build, source, command, picture):
    drawn = run(build / "src/cli/lamina", *command.split(), cwd=source)
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == (source / picture).read_text(), f"{picture} is not what is drawn now (scripts/readme)"


def test_list_of_commands(build):
    program = json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)
    [shown] = [b for b in BLOCKS if b.startswith("lamina run ")]
    assert [re.split(r"\s{2,}", line[len("lamina "):]) for line in shown.splitlines()] == \
        [[c["name"], c["summary"]] for c in program["commands"]]


def test_the_demo_answers_as_shown(build, source, model, tmp_path):
    [shown] = [b for b in BLOCKS if "lamina run --chat" in b]
    lines = shown.splitlines()
    words = re.match(r'build/release/src/cli/lamina (.*) -p "(.*)"$', lines[0])
    assert f"PROMPT ?= {words.group(2)}" in (source / "Makefile").read_text()
    done = run(build / "src/cli/lamina", *words.group(1).split(), "-p", words.group(2), "--model", model, cwd=source)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == lines[2]
    assert re.match(pattern(lines[3]) + "$", done.stderr.splitlines()[-1])


def test_sessions_were_found():
    assert len(SESSIONS) >= 2 and len(PICTURES) == README.count("![")
