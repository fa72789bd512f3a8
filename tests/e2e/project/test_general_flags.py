"""The flags that every command accepts, before or after its name; what they change on standard error, and only there."""
import json
import os
import pty
import subprocess

import pytest
from conftest import run

GENERAL = ["--json", "--verbose", "--quiet", "--no-color", "--lang", "--help"]


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def on_a_terminal(*command, **environment):
    """Return what a command writes to standard error when that is a terminal."""
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | environment
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=theirs, env=env) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:                 # the other end has closed
                break
            if not piece:
                break
            text += piece
    os.close(ours)
    return text.decode()


def test_the_help_of_every_command_lists_them(lamina):
    program = json.loads(run(lamina, "--json", "help").stdout)
    assert [f["name"] for f in program["general"]] == GENERAL
    for command in program["commands"]:
        text = run(lamina, command["name"], "-h").stdout
        assert all(f"{name} " in text for name in GENERAL)


def test_the_help_of_one_command_is_data_too(lamina):
    """Every way of requesting it returns the command's entry of `help --json`."""
    commands = {c["name"]: c for c in json.loads(run(lamina, "help", "--json").stdout)["commands"]}
    for requested in (["run", "--help", "--json"], ["--json", "run", "-h"], ["help", "run", "--json"], ["--help", "--json", "run"]):
        assert json.loads(run(lamina, *requested).stdout) == {"schema": "lamina.help/1", **commands["run"]}, requested
    kinds = {f["name"]: f["kind"] for f in commands["explain"]["flags"]}
    assert (kinds["--output"], kinds["--kv-type"], kinds["--batch"]) == ("output", "word", "count")
    assert run(lamina, "run", "-p", "--json", "-h").stdout == run(lamina, "help", "run").stdout           # --json is the prompt
    unknown = run(lamina, "help", "rnu", "--json")
    assert unknown.returncode == 2 and json.loads(unknown.stdout)["error"]["where"] == "rnu"


def test_before_the_command_or_after_it(lamina):
    before, after = run(lamina, "--json", "version"), run(lamina, "version", "--json")
    assert before.returncode == 0 and before.stdout == after.stdout and json.loads(before.stdout)["version"]
    assert run(lamina, "--help", "tokenize").stdout == run(lamina, "tokenize", "--help").stdout
    assert run(lamina, "-q", "-h").stdout == run(lamina).stdout == run(lamina, "help").stdout
    assert run(lamina, "--version").stdout == run(lamina, "version").stdout
    wrong = run(lamina, "--json", "--nope", "version")
    assert wrong.returncode == 2 and json.loads(wrong.stdout)["error"]["where"] == "--nope"
    assert run(lamina, "--json=1", "version").returncode == 2


def test_version_names_its_commit(lamina):
    document = json.loads(run(lamina, "version", "--json").stdout)
    assert set(document) == {"schema", "version", "build", "libraries"}
    assert set(document["build"]) == {"type", "compiler", "machine", "sanitizers"}
    assert {"jansson", "pcre2", "utf8proc", "libsodium", "libedit"} <= set(document["libraries"])
    text = run(lamina, "version").stdout
    for value in [document["version"], *document["build"].values(), *document["libraries"].values()]:
        assert value in text


def test_quiet_leaves_only_errors(lamina, model):
    ask = ["--raw", "-p", "The capital of France is", "-n", "2", "--temp", "0"]
    usual, quiet, verbose = run(lamina, "run", model, *ask), run(lamina, "run", model, *ask, "-q"), run(lamina, "-v", "run", model, *ask)
    assert usual.stdout == quiet.stdout == verbose.stdout
    assert usual.stderr != "" and quiet.stderr == ""
    assert set(usual.stderr.split()) & {"tokens"} and "engine " in verbose.stderr and "model " in verbose.stderr
    assert "engine " not in usual.stderr
    failed = run(lamina, "-q", "run", "/no/such/model", *ask)
    assert failed.returncode == 1 and failed.stderr.startswith("error: ") or "\nerror: " in failed.stderr


def test_colour_only_on_request(lamina):
    assert "\033[" in on_a_terminal(lamina, "xylophone")
    assert "\033[" not in on_a_terminal(lamina, "--no-color", "xylophone")
    assert "\033[" not in on_a_terminal(lamina, "tokenize", "--nope", "--no-colour")
    assert "\033[" not in on_a_terminal(lamina, "xylophone", NO_COLOR="1")
    assert "\033[" not in on_a_terminal(lamina, "xylophone", TERM="dumb")
    assert "\033[" not in run(lamina, "xylophone").stderr


def test_warnings_of_the_library_are_shown(lamina, source, tmp_path):
    """A folder whose index omits tensors causes a warning on standard error, without the control characters of names; -q hides it."""
    folder = tmp_path / "mo\033[31mdel"
    golden = source / "tests/golden/llama"
    sharded = next(p.parent for p in sorted(golden.rglob("model.safetensors.index.json")))
    folder.mkdir()
    for file in sharded.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = list(index["weight_map"].values())
    name = next(n for n, file in index["weight_map"].items() if files.count(file) > 1)
    del index["weight_map"][name]
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    done = run(lamina, "inspect", folder)
    assert "warning: " in done.stderr and "not in the index" in done.stderr and "\033" not in done.stderr
    assert "not in the index" not in run(lamina, "-q", "inspect", folder).stderr
