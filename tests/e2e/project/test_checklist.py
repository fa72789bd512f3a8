"""docs/dev/checklist.md: no item is missing, every command runs and prints what it is listed for, every named test exists."""
import json
import re
import shlex
import subprocess

import pytest
from conftest import BUILD, MODEL, SOURCE, run
from command_outputs import OUTPUTS, is_output_of

ROW = re.compile(r"^\| ([A-K]\d+) \| (.+?) \| (.+) \| (.+) \|$")
ROWS = [m.groups() for m in map(ROW.match, (SOURCE / "docs/dev/checklist.md").read_text().splitlines()) if m]
COMMANDS = sorted({(command, int(status or 0)) for row in ROWS for command, status in re.findall(r"`lamina ([^`]+)`(?: \(exit (\d)\))?", row[2])})
ITEMS = {"A": 4, "B": 11, "C": 9, "D": 7, "E": 8, "F": 4, "G": 7, "H": 3, "I": 3, "J": 4, "K": 3}


def test_every_item_is_found():
    assert [row[0] for row in ROWS] == [f"{letter}{i + 1}" for letter, n in ITEMS.items() for i in range(n)]
    assert all("`lamina " in row[2] and "`" in row[3] for row in ROWS)


@pytest.mark.parametrize("command,status", COMMANDS)
def test_command(build, limits, command, status):
    words = [str(MODEL) if word == "MODEL" else word for word in shlex.split(command)]
    done = run(build / "src/cli/lamina", *words, cwd=SOURCE)
    assert done.returncode == status, done.stderr
    assert is_output_of(command, done.stdout), done.stdout[:2000]


def test_no_other_command_is_described():
    shown = re.findall(r"`lamina ([^`]+)`", "".join((SOURCE / f"docs/{name}.md").read_text() for name in ("study/report", "dev/checklist")))
    assert set(OUTPUTS) <= set(shown), set(OUTPUTS) - set(shown)


def test_tests_exist():
    known = {t["name"] for t in json.loads(subprocess.check_output(["meson", "introspect", "--tests", BUILD]))}
    known |= {"e2e_" + path.stem.removeprefix("test_") for path in (SOURCE / "tests/e2e").rglob("test_*.py")}
    named = {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])}
    assert named <= known, named - known


@pytest.mark.parametrize("model", ["llama-3.2-3b", "deepseek-v2"])
def test_anchors_lead_somewhere(build, model):
    """K2: every link inside a report has a target, and there are at least five."""
    page = run(build / "src/cli/lamina", "report", model, "--format", "html", "-o", "-", cwd=SOURCE).stdout
    places, links = set(re.findall(r' id="([^"]+)"', page)), set(re.findall(r'href="#([^"]+)"', page))
    assert len(links) >= 5 and links <= places, links - places
