"""Every command block of the pages for users is run, in the order of its page, in one folder per page.

A block is fenced. ```sh is a script: each command succeeds. A block without a language that begins with `$ ` is a session: it also prints the lines
shown, in that order; `…` stands for anything. ```python is run, and prints the block that follows it. A comment before the fence changes this:
<!-- not run: REASON --> counts as not run, <!-- file: NAME --> makes the block a file of the folder."""
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from conftest import BARE, MODEL, PATIENCE, SOURCE, some
from servers import Server

OWN_TEST = ("docs/guide/coming-from.md",)                        # test_coming_from.py runs it on a terminal
GENERATED = ("docs/library/c-interface.md",)
PAGES = [p for p in ["README.md", *sorted(str(p.relative_to(SOURCE)) for d in ("guide", "server", "library", "study") for p in (SOURCE / "docs" / d).glob("*.md"))]
         if p not in GENERATED]
FENCED = re.compile(r"(?:^<!-- (not run|file|lists|shows): ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^(?:\$ )?(?:sudo )?(?:lamina|make|curl|mpirun|srun|cc|git|meson|scripts/\S+|examples/\S+|build/\S+|ollama|codex|claude|aider|pip) ", re.M)
INDENTED = re.compile(r"\n\n((?:    .*\n)+)")
HERE = "http://127.0.0.1:8080"


def blocks(page):
    text = (SOURCE / page).read_text()
    return [SimpleNamespace(mark=mark, what=what, language=language, body=body, line=text.count("\n", 0, m.start()) + 1)
            for m in FENCED.finditer(text) for mark, what, language, body in [m.groups()]]


def kind(block):
    if block.mark:
        return block.mark
    if block.language in ("sh", "python"):
        return block.language
    return "session" if not block.language and block.body.startswith("$ ") else "data"


def pattern(text):
    return ".*".join(map(re.escape, text.rstrip().split("…"))) + r"\s*$"


def prints(shown, printed, where):
    printed, at = printed.split("\n"), 0
    for line in filter(str.strip, shown.split("\n")):
        start = at
        while at < len(printed) and not re.match(pattern(line), printed[at]):
            at += 1
        assert at < len(printed), f"{where} shows a line that is not printed there: {line}\n" + "\n".join(printed[start:][:60])
        at += 1


@pytest.fixture(scope="module")
def program(build, tmp_path_factory):
    """What a shell finds: `lamina`, and the environment of a new user."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "lamina").symlink_to((build / "src/cli/lamina").resolve())
    return {**os.environ, **BARE, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "LAMINA_MODEL": str(MODEL)}


@pytest.fixture(scope="module")
def server(build, model):
    """Started when a page is first in need of it."""
    with contextlib.ExitStack() as stack:
        def url():
            if not hasattr(url, "server"):
                url.server = Server(build, "--chat-template-file", SOURCE / "tests/e2e/tools.jinja", "--alias", "demo", "--metrics", "--embeddings",
                                    "--temp", 0).ready()
                stack.callback(url.server.close)
            return url.server.url
        yield url


@pytest.fixture
def folder(tmp_path):
    """What the pages' commands name: a model of each kind, a text, an adapter."""
    for name, to in (("model.gguf", MODEL), ("build", SOURCE / "build"), ("tests", SOURCE / "tests"), ("docs", SOURCE / "docs"), ("examples", SOURCE / "examples")):
        (tmp_path / name).symlink_to(to)
    shutil.copytree(SOURCE / "tests/golden/llama/gqa", tmp_path / "folder")
    shutil.copytree(SOURCE / "tests/golden/adapters/llama", tmp_path / "adapter")
    (tmp_path / "text.txt").write_text("The sky is blue, and water is made of hydrogen and oxygen. A river carries water from the hills to the sea.\n" * 60)
    return tmp_path


@pytest.mark.parametrize("page", some(p for p in PAGES if p not in OWN_TEST and any(kind(b) in ("sh", "python", "session") for b in blocks(p))))
def test_page(page, program, server, folder, model):
    def shell(script):
        if HERE in script:
            script = script.replace(HERE, server())
        return subprocess.run(["bash", "-c", "set -e -o pipefail\n" + script], cwd=folder, env=program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)

    all_blocks = blocks(page)
    for block, after in zip(all_blocks, [*all_blocks[1:], None]):
        where = f"{page}:{block.line}"
        if kind(block) == "file":
            (folder / block.what).write_text(block.body)
        elif kind(block) == "sh":
            done = shell(block.body)
            assert done.returncode == 0, f"{where}\n{done.stdout}"
        elif kind(block) == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.chdir(folder) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
                exec(block.body.replace(HERE, server()), {})
            if after is not None and not after.language and kind(after) == "data":
                prints(after.body, out.getvalue(), where)
        elif kind(block) == "session":
            for piece in re.split(r"^\$ ", block.body, flags=re.M)[1:]:
                lines = piece.split("\n")
                n = 1
                while lines[n - 1].endswith("\\"):
                    n += 1
                done = shell("\n".join(lines[:n]))
                assert done.returncode == 0 or "error: " in piece, f"{where}: {lines[0]}\n{done.stdout}"
                prints("\n".join(lines[n:]), done.stdout, where)


@pytest.mark.parametrize("page", PAGES)
def test_no_command_is_left_out(page):
    """A command in a block that is neither run nor marked, or that is indented and not fenced."""
    loose = [f"{page}:{b.line}" for b in blocks(page) if kind(b) == "data" and b.language in ("", "sh", "console", "bash") and COMMAND.search(b.body)]
    bare = [b.group(1) for b in INDENTED.finditer(FENCED.sub("", (SOURCE / page).read_text())) if COMMAND.search(re.sub("^    ", "", b.group(1), flags=re.M))]
    assert not loose and not bare, (loose, bare)


def test_users_read_of_no_tests():
    named = [f"{page}: {m}" for page in PAGES for m in re.findall(r"`(?:tests?/|tools/oracle|test_|e2e_)[^`]*`", re.sub(r"```.*?```", "", (SOURCE / page).read_text(), flags=re.S))]
    assert not named


def test_most_blocks_are_run(capsys):
    kinds = [kind(b) for page in PAGES for b in blocks(page)]
    ran, left = sum(k in ("sh", "python", "session") for k in kinds), kinds.count("not run")
    with capsys.disabled():
        print(json.dumps({"run": ran, "not run": left}))
    assert ran >= 60 and left <= ran / 2
