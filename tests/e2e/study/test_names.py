"""Hostile model names: their control characters and invalid bytes reach neither the terminal nor a script."""
import json
import os
import pathlib
import pty
import subprocess
import threading

import pytest
from conftest import MODEL, PATIENCE, run

TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 600, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}
NAMES = {"escape": b"\x1b[31mred\x1b]0;title\x07\x7f\xc2\x9b1m\r\nsecond line", "not-utf8": b"m\xff\xfe\xc3", "wide": "語".encode() * 31,
         "four-bytes": "😀".encode() * 31}
BENCH = ["bench", "M", "-p", "4", "-n", "2", "-r", "1", "--limits", "stored"]
COMMANDS = {
    "inspect": ["inspect", "M"],
    "view": ["inspect", "M", "--view", "info"],
    "tensors": ["inspect", "M", "--tensors"],
    "metadata": ["inspect", "M", "--metadata"],
    "program": ["inspect", "M", "--program"],
    "plan": ["inspect", "M", "--plan"],
    "query": ["inspect", "M", "--query", "model"],
    "explain": ["explain", "kv", "M"],
    "estimate": ["estimate", "M"],
    "compare": ["compare", "M", "M"],
    "report": ["report", "M", "--format", "json"],
    "fit": ["fit", "M"],
    "fit-device": ["fit", "M", "--device", "h100"],
    "fit-devices": ["fit", "M", "--device", "all"],
    "fleet": ["fit", "--fleet", "M", "M"],
    "run": ["run", "M", "-p", "a", "-n", "2", "--temp", "0", "--verbose-prompt"],
    "tokenize": ["tokenize", "M", "-p", "a\x1b\n"],
}
PAGES = {"report-text": ["report", "M"], "report-md": ["report", "M", "--format", "md"], "report-html": ["report", "M", "--format", "html"],
         "bench": BENCH, "every-view": ["inspect", "M", "--view", "all"], "explain-md": ["explain", "kv", "M", "--md"]}


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def made(lamina, folder, name, *flags):
    """Make a model named `name`: synth names it NNN…, of the same length, which `name` then replaces."""
    source = folder / ("N" * len(name))
    source.mkdir()
    (source / "config.json").write_text(json.dumps(TINY))
    out = folder / "model.gguf"                          # a name that says nothing: the one in the keys is shown
    assert run(lamina, "synth", source, out, *flags).returncode == 0
    data = out.read_bytes()
    assert data.count(b"N" * len(name)) == 1
    out.write_bytes(data.replace(b"N" * len(name), name))
    return out


@pytest.fixture(scope="module", params=NAMES)
def hostile(lamina, tmp_path_factory, request):
    """A GGUF whose general.name is one of NAMES."""
    return made(lamina, tmp_path_factory.mktemp(request.param), NAMES[request.param])


@pytest.fixture(scope="module")
def folder(lamina, tmp_path_factory):
    """A Hugging Face folder whose path is not UTF-8."""
    at = tmp_path_factory.mktemp("folder")
    (at / "config.json").write_text(json.dumps(TINY))
    out = pathlib.Path(os.fsdecode(os.fsencode(at) + b"/m\xff\x1b[31m"))
    done = subprocess.run([lamina, "synth", at / "config.json", out, "--json"], capture_output=True)
    assert done.returncode == 0 and json.loads(done.stdout)["path"].endswith("m�\x1b[31m")
    return out


def output(lamina, command, model):
    """Run a command that must succeed; return its output, which must be valid UTF-8 without terminal controls."""
    done = subprocess.run([lamina, *(model if a == "M" else a for a in command)], capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    text, reply = done.stdout.decode(), done.stderr.decode()
    assert not {"\x1b", "\r"} & {*text, *reply} and ("--json" in command or not {"\x7f", "\x9b"} & {*text})
    return text


@pytest.mark.parametrize("command", COMMANDS)
def test_name(lamina, hostile, command):
    assert output(lamina, COMMANDS[command], hostile)
    assert json.loads(output(lamina, [*COMMANDS[command], "--json"], hostile))


@pytest.mark.parametrize("page", PAGES)
def test_page(lamina, hostile, page):
    assert output(lamina, PAGES[page], hostile)


@pytest.mark.parametrize("command", [*COMMANDS, "bench"])
def test_path(lamina, folder, command):
    j = json.loads(output(lamina, [*(COMMANDS | PAGES)[command], "--json"], folder))
    if command == "tensors":
        assert len(j) == 20 and "20 tensors" in output(lamina, COMMANDS[command], folder)


def on_terminal(command):
    """Return the exit status of a command and what a terminal receives from both of its streams."""
    ours, theirs = pty.openpty()
    got = []

    def read():
        try:
            while data := os.read(ours, 1 << 16):
                got.append(data)
        except OSError:
            pass
    reader = threading.Thread(target=read)
    reader.start()
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env, timeout=PATIENCE).returncode
    os.close(theirs)
    reader.join()
    os.close(ours)
    return status, b"".join(got)


@pytest.mark.parametrize("command", ["inspect", "fit", "compare", "metadata", "run"])
def test_terminal(lamina, tmp_path, command):
    model = made(lamina, tmp_path, NAMES["escape"])
    status, text = on_terminal([lamina, *(model if a == "M" else a for a in COMMANDS[command])])
    assert status == 0 and b"\x1b[31m" not in text and b"\x07" not in text and b"\xc2\x9b" not in text


def test_generated_text(lamina, tmp_path):
    """A pipe receives the text byte for byte; a terminal receives a visible symbol in place of the escape."""
    model = made(lamina, tmp_path, b"NAME")
    ids = json.loads(run(lamina, "tokenize", model, "-p", "\x1b[31mé", "--json").stdout)["ids"]
    command = [lamina, "detokenize", model, *map(str, ids)]
    assert subprocess.run(command, capture_output=True).stdout == "\x1b[31mé\n".encode()
    status, text = on_terminal(command)
    assert status == 0 and "␛[31mé".encode() in text and b"\x1b" not in text


def test_large_numbers(lamina, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"large": 2**64 - 1, "largest": 2**63 - 1, "list": [2**64 - 1, 2]}))
    j = json.loads(output(lamina, ["inspect", "M", "--metadata", "--json"], tmp_path))
    assert (j["large"], j["largest"], j["list"]) == (str(2**64 - 1), 2**63 - 1, [str(2**64 - 1), 2])
    assert str(2**64 - 1) in output(lamina, ["inspect", "M", "--metadata"], tmp_path)
    assert json.loads(output(lamina, ["inspect", "M", "--json"], tmp_path))["config"]["large"] == str(2**64 - 1)
    assert output(lamina, ["inspect", "M", "--query", "config.large"], tmp_path) == f"{2**64 - 1}\n"


def test_the_name_is_that_of_the_file(lamina, tmp_path):
    """One rule for run, chat, reports and the library: the file's name; where it says nothing, basename and size, then general.name."""
    def shown(path):
        done = run(lamina, "inspect", path, "--query", "model.name")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    made(lamina, tmp_path, b"abc")
    plain = (tmp_path / "model.gguf").read_bytes()
    for name, expected in (("Tiny-1B-Q4_0.gguf", "Tiny-1B-Q4_0"), ("Tiny-00001-of-00001.gguf", "Tiny"), ("ggml-model-f16.gguf", "abc"), ("model.gguf", "abc")):
        (tmp_path / name).write_bytes(plain)
        assert shown(tmp_path / name) == expected
    assert shown(MODEL) == MODEL.stem
    (tmp_path / "model.gguf").unlink()
    (tmp_path / "model.gguf").symlink_to(MODEL)
    assert shown(tmp_path / "model.gguf") == "smollm2-135M", "general.basename and general.size_label"
    snapshot = tmp_path / "hub/models--org--tiny-1b/snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(TINY))
    assert shown(snapshot) == "tiny-1b"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/config.json").write_text(json.dumps(TINY))
    assert shown(f"{tmp_path}/folder/") == "folder"
