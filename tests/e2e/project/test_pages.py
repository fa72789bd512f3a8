"""Every command block of the pages is run, in the order of its page, in one folder per page.

A block is fenced. ```sh is a script: each command succeeds. A block without a language that begins with `$ ` is a session: it also prints the lines
shown, in that order; `…` stands for anything. ```python is run, and prints the block that follows it. A comment before the fence changes this:
<!-- not run: REASON --> counts as not run, <!-- file: NAME --> makes the block a file of the folder, <!-- server: WHAT --> starts each
command of the block, which serves and reports that it listens; the blocks after it send their requests to the last one.
`make changes` runs <!-- change: NAME -->."""
import contextlib
import functools
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from types import SimpleNamespace

import pytest
from conftest import MODEL, PATIENCE, SANITIZED, SOURCE, some
from hubs import Hub
from servers import Server

OWN_TEST = ("docs/guide/coming-from.md",)                        # test_coming_from.py runs it on a terminal
GENERATED = ("docs/library/c-interface.md",)
PAGES = [str(p.relative_to(SOURCE)) for p in [*sorted(SOURCE.glob("*.md")), *sorted((SOURCE / "docs").rglob("*.md"))]
         if str(p.relative_to(SOURCE)) not in GENERATED]
FOR_USERS = [p for p in PAGES if p == "README.md" or p.split("/")[1:2] in (["guide"], ["server"], ["library"], ["study"])]
FENCED = re.compile(r"(?:^<!-- (not run|file|lists|shows|server|change): ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^(?:\$ )?(?:sudo )?(?:lamina|make|curl|mpirun|srun|cc|git|meson|scripts/\S+|examples/\S+|build/\S+|ollama|codex|claude|aider|pip) ", re.M)
INDENTED = re.compile(r"\n\n((?:    .*\n)+)")
RUN = ("sh", "python", "session", "server")
HERE = "http://127.0.0.1:8080"
GOLDEN = SOURCE / "tests/golden/llama/gqa"


def blocks(page):
    text = (SOURCE / page).read_text()
    if page == "docs/man.md":                                # scripts/manpage supports only indented blocks
        text = re.sub(r"\n\n((?:    .*\n)+)", lambda m: "\n\n```sh\n" + re.sub("^    ", "", m[1], flags=re.M) + "```\n", text)
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
    """The environment of a new user's shell, with `lamina`, its library and a compiler. The hub has the files that the pages fetch."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "lamina").symlink_to((build / "src/cli/lamina").resolve())
    (folder / "cache/models").mkdir(parents=True)
    (folder / "cache/models/SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(MODEL)
    (folder / "cc").write_text(f"#!/bin/sh\nexec {shutil.which('cc')} {'-fsanitize=address,undefined' if SANITIZED else ''} \"$@\"\n")
    (folder / "cc").chmod(0o755)
    (folder / "include").symlink_to(SOURCE / "include")      # $(pkg-config …) cannot hold a path with a space
    (folder / "lib").symlink_to(build / "src")
    (folder / "lamina.pc").write_text(f"Name: lamina\nDescription: built\nVersion: 0\nLibs: -L{folder}/lib -llamina\nCflags: -I{folder}/include\n")
    q4, shards = MODEL.read_bytes(), {f.name: f.read_bytes() for f in GOLDEN.glob("*.*") if f.suffix in (".json", ".safetensors") and f.name != "golden.safetensors"}
    hub = Hub({"name-Q4_K_M.gguf": q4, "path/file.gguf": q4, **shards}, ["name-Q4_K_M.gguf", "path/file.gguf", *shards],
              {"Qwen/Qwen2.5-0.5B-Instruct-GGUF": {"name-Q4_K_M.gguf": q4, "name-q8_0.gguf": q4}, "HuggingFaceTB/SmolLM2-135M-Instruct": shards})
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
    yield {**env, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "LAMINA_CACHE": str(folder / "cache"), "HF_ENDPOINT": hub.url,
           "PKG_CONFIG_PATH": str(folder), "LD_LIBRARY_PATH": str(build / "src")}
    hub.server.shutdown()


@pytest.fixture(scope="module")
def server(build, model, tmp_path_factory):
    """A function that starts the server when a page first needs it."""
    with contextlib.ExitStack() as stack:
        @functools.cache
        def start():
            store = tmp_path_factory.mktemp("store") / "store.db"
            made = Server(build, "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja", "--alias", "demo", "--metrics", "--embeddings", "--store", store,
                          "--temp", 0).ready()
            stack.callback(made.close)
            made.store = store
            return made
        yield start


@pytest.fixture
def folder(tmp_path):
    """The folder with what the pages' commands name: a model of each kind, a text, an adapter."""
    for name, to in (("model.gguf", MODEL), ("small.gguf", MODEL), ("large.gguf", MODEL), ("golden.safetensors", GOLDEN / "golden.safetensors"), ("build", SOURCE / "build"), ("tests", SOURCE / "tests"), ("docs", SOURCE / "docs"), ("examples", SOURCE / "examples")):
        (tmp_path / name).symlink_to(to)
    shutil.copytree(GOLDEN, tmp_path / "folder")
    for adapter in ("adapter", "poet", "chef"):
        shutil.copytree(SOURCE / "tests/golden/adapters/llama", tmp_path / adapter)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/tiny.gguf").symlink_to(MODEL)
    (tmp_path / "text.txt").write_text("The sky is blue, and water is made of hydrogen and oxygen. A river carries water from the hills to the sea.\n" * 45)
    return tmp_path


def started(block, build, folder, where):
    """Start a server per command of the block; assert that it prints the lines shown."""
    commands = re.findall(r"^(?:\$ )?lamina serve (.*)$", block.body, re.M)
    shown = "\n".join(line for line in block.body.splitlines() if not re.match(r"(?:\$ )?lamina serve ", line))
    assert commands, where
    for command in commands:
        server = Server(build, *shlex.split(command, comments=True), model=None, cwd=folder).ready()
        yield server
        for line in shown.splitlines():                      # it can answer before it has printed that it is ready
            if HERE not in line:
                server.wait_for(max(line.split("…"), key=len))
        prints(shown, "\n".join([f"listening on {HERE}", *map(str.rstrip, server.log)]), where)


@pytest.mark.parametrize("page", some(p for p in PAGES if p not in OWN_TEST and any(kind(b) in RUN for b in blocks(p))))
def test_page(page, build, program, server, folder, model):
    own = []                                                 # servers that the page has started

    def url():
        return own[-1].url if own else server().url

    def shell(script):
        env = program | {"HF_HOME": str(folder / "hub")}
        if HERE in script:
            script = script.replace(HERE, url())
        if "store.db" in script and not own and not (folder / "store.db").exists():
            (folder / "store.db").symlink_to(server().store)
        return subprocess.run(["bash", "-c", "set -e -o pipefail\n" + script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)

    def python(code):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.chdir(folder) if hasattr(contextlib, "chdir") else contextlib.nullcontext():
            exec(code.replace(HERE, url()), {})
        return out.getvalue()

    def session(text, where):
        for piece in re.split(r"^\$ ", text, flags=re.M)[1:]:
            lines = piece.split("\n")
            n = 1
            while lines[n - 1].endswith("\\"):
                n += 1
            done = shell("\n".join(lines[:n]))
            assert done.returncode == 0 or "error: " in piece, f"{where}: {lines[0]}\n{done.stdout}"
            prints("\n".join(lines[n:]), done.stdout, where)

    all_blocks = blocks(page)
    with contextlib.ExitStack() as stack:
        for block, after in zip(all_blocks, [*all_blocks[1:], None]):
            where = f"{page}:{block.line}"
            if kind(block) == "file":
                (folder / block.what).write_text(block.body)
            elif kind(block) == "server":
                while own:
                    own.pop().close(signal.SIGTERM)
                for one in started(block, build, folder, where):
                    own.append(one)
                    stack.callback(one.process.kill)
            elif kind(block) == "sh":
                done = shell(block.body)
                assert done.returncode == 0, f"{where}\n{done.stdout}"
            elif kind(block) == "python":
                printed = python(block.body)
                if after is not None and not after.language and kind(after) == "data":
                    prints(after.body, printed, where)
            elif kind(block) == "session":
                session(block.body, where)
        while own:
            assert own.pop().close() == 0


@pytest.mark.parametrize("page", PAGES)
def test_no_command_is_left_out(page):
    """No block contains a command without being run or marked, and no command is indented instead of fenced."""
    loose = [f"{page}:{b.line}" for b in blocks(page) if kind(b) == "data" and b.language in ("", "sh", "console", "bash") and COMMAND.search(b.body)]
    bare = page != "docs/man.md" and [b.group(1) for b in INDENTED.finditer(FENCED.sub("", (SOURCE / page).read_text())) if COMMAND.search(re.sub("^    ", "", b.group(1), flags=re.M))]
    assert not loose and not bare, (loose, bare)


def test_unit_of_systemd(build, model, tmp_path):
    """The command of the unit serves with the page's key file, and exits with 0 on the signal that systemd sends."""
    unit, keys = ([b.body for b in blocks("docs/server/operations.md") if b.what == what] for what in ("lamina.service", "keys"))
    (tmp_path / "keys").write_text(keys[0].replace("…", "0"))
    command = re.search(r"^ExecStart=/usr/local/bin/lamina serve (.*)$", unit[0], re.M)[1]
    (tmp_path / "model.gguf").symlink_to(model)
    for there, here in (("/srv/models", tmp_path), ("/etc/lamina", tmp_path), ("/var/lib/lamina", tmp_path)):
        command = command.replace(there, str(here))
    server = Server(build, *shlex.split(command), model=None).ready()
    assert server.get("/metrics")[0] == 401 and server.get("/metrics", headers={"Authorization": "Bearer team-a-0"})[0] == 200
    assert (tmp_path / "store.db").exists() and server.close(signal.SIGTERM) == 0


def test_models_are_listed(build):
    """The table of models has what the presets and their plans say."""
    made = subprocess.run([SOURCE / "scripts/models", build / "src/cli/lamina", "--print"], capture_output=True, text=True, check=True).stdout
    assert made == (SOURCE / "docs/guide/supported-models.md").read_text(), "scripts/models writes another page"


def test_metrics_are_listed(server):
    served = re.findall(r"^# TYPE (\S+) ", server().get("/metrics")[1].decode(), re.M)
    listed = re.findall(r"`((?:lamina_|llamacpp:|vllm:)\w+)`", (SOURCE / "docs/server/operations.md").read_text())
    assert set(served) == set(listed)


def test_user_pages_name_no_tests():
    named = [f"{page}: {m}" for page in FOR_USERS for m in re.findall(r"`(?:tests?/|tools/oracle|test_|e2e_)[^`]*`", re.sub(r"```.*?```", "", (SOURCE / page).read_text(), flags=re.S))]
    assert not named


def test_most_blocks_are_run(capsys):
    kinds = [kind(b) for page in PAGES for b in blocks(page)]
    ran, left = sum(k in RUN for k in kinds), kinds.count("not run")
    with capsys.disabled():
        print(json.dumps({"run": ran, "run by make changes": kinds.count("change"), "not run": left}))
    assert ran >= 85 and left <= ran / 2
