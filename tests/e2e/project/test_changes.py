"""The changes that docs/dev/adding-*.md describe: the patches in tests/changes apply to this tree, compile, and touch the files that the
pages list, in that order. `make changes` builds them and runs the commands of the pages (scripts/changes). The files and functions that the
reading orders of architecture.md name exist."""
import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from conftest import BUILD, PATIENCE, SOURCE

sys.path.insert(0, str(SOURCE / "tests/changes"))
from patches import ORDER, apply, page_of  # noqa: E402

PATCHES = {name: (SOURCE / f"tests/changes/{name}.patch").read_text() for name in ORDER}


def touched(name):
    return re.findall(r"^\+\+\+ b/(.*)$", PATCHES[name], re.M)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A patched copy of all headers and sources, which include each other, and of the other files that the patches change."""
    here = tmp_path_factory.mktemp("tree")
    for folder in ("src", "include", "tests/unit", "tests/kernels"):
        for path in (SOURCE / folder).rglob("*"):
            if path.suffix in (".c", ".h") or path.name == "meson.build":
                (here / path.relative_to(SOURCE)).parent.mkdir(parents=True, exist_ok=True)
                (here / path.relative_to(SOURCE)).write_bytes(path.read_bytes())
    for file in {f for name in ORDER for f in touched(name) if (SOURCE / f).exists()}:
        (here / file).parent.mkdir(parents=True, exist_ok=True)
        (here / file).write_bytes((SOURCE / file).read_bytes())
    apply(here)
    return here


@pytest.mark.parametrize("name", ORDER)
def test_page_lists_the_files_of_its_patch(name):
    page = page_of(name).read_text()
    assert [f for f in re.findall(r"^\| `([^`]+)` \|", page, re.M) if "/" in f] == touched(name)
    assert f"<!-- change: {name} -->" in page


@pytest.mark.parametrize("name", ORDER)
def test_patch_compiles(name, tree):
    """Compile each changed source with its own command or, if it is new, with that of a file in the same folder."""
    known = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        known[(pathlib.Path(entry["directory"]) / entry["file"]).resolve()] = entry

    def moved(arg, folder):
        flag = re.match(r"-I|-isystem", arg)
        path = (folder / arg[len(flag[0]) if flag else 0:]).resolve()
        inside = path.is_relative_to(SOURCE.resolve()) and not path.is_relative_to(BUILD.resolve())
        moved = tree / path.relative_to(SOURCE.resolve()) if inside else path
        return (flag[0] if flag else "") + str(moved) if inside and moved.exists() else arg

    for file in [f for f in touched(name) if f.endswith(".c")]:
        place = (SOURCE / file).resolve()
        entry = known.get(place) or next(e for p, e in known.items() if p.parent == place.parent)
        folder, given = pathlib.Path(entry["directory"]), shlex.split(entry["command"])
        given = [a for i, a in enumerate(given) if a not in ("-c", "-o", "-MD", "-MQ", "-MF", "ccache") and given[i - 1] not in ("-o", "-MQ", "-MF", "-c")]
        command = [moved(a, folder) for a in given[1:]]
        done = subprocess.run([given[0], *command, "-fsyntax-only", str(tree / file)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{file}\n{done.stderr}"


@pytest.mark.parametrize("heading", ["A reading order", "From a request to an event"])
def test_reading_orders_name_existing_files(heading):
    """Every named file and function exists."""
    section = (SOURCE / "docs/dev/architecture.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    words = re.findall(r"`([^`]+)`", section)
    sources = {p.name: p for p in (SOURCE / "src").rglob("*.[ch]")}
    for word in [w for w in words if re.fullmatch(r"[\w/]+\.[ch]", w)]:
        assert (SOURCE / word).exists() if "/" in word else word in sources, word
    code = "".join(p.read_text() for p in sources.values())
    missing = {w for w in words if re.fullmatch(r"lm_\w+", w)} - set(re.findall(r"\blm_\w+", code))
    assert not missing
