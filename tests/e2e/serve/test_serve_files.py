"""Problems with files that users of other programs reported: byte order marks, Git LFS pointers, names that contradict the contents."""
import shutil

import pytest
from conftest import SOURCE, run
from servers import Server

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
MARK = b"\xef\xbb\xbf"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


def test_a_byte_order_mark_is_removed(build, tmp_path):
    """A byte order mark at the beginning of a file is ignored: ollama#4503, and RFC 8259, 8.1, which allows parsers to ignore it."""
    folder = tmp_path / "model"
    shutil.copytree(TINY.parent, folder, ignore=shutil.ignore_patterns("*.gguf", "golden*"))
    for f in folder.glob("*.json"):
        f.write_bytes(MARK + f.read_bytes())
    for name, text in {"keys": "first-key\nsecond-key\n", "p.txt": "abc", "g.gbnf": 'root ::= "ab"', "s.json": '{"enum": [1]}', "t.jinja": "{{ messages[0].content }}",
                       "x.jsonl": '{"text": "abc"}\n'}.items():
        (tmp_path / name).write_bytes(MARK + text.encode())
    lamina = build / "src/cli/lamina"
    plain = run(lamina, "run", TINY, "-p", "abc", "-n", 4, "--temp", 0)
    assert plain.returncode == 0 and run(lamina, "run", TINY, "-f", tmp_path / "p.txt", "-n", 4, "--temp", 0).stdout == plain.stdout
    assert run(lamina, "run", TINY, "-p", "abc", "-n", 8, "--temp", 0, "--grammar-file", tmp_path / "g.gbnf").stdout.strip().endswith("ab")
    assert run(lamina, "inspect", folder, "--tensors").returncode == 0
    s = Server(build, "-c", 128, "--api-key-file", tmp_path / "keys", "--chat-template-file", tmp_path / "t.jinja", model=TINY).ready()
    try:
        for key in ("first-key", "second-key"):
            status, r, _ = s.post("/apply-template", {"messages": [{"role": "user", "content": "abc"}]}, headers={"Authorization": f"Bearer {key}"})
            assert status == 200 and r["prompt"] == "abc", (key, r)
    finally:
        assert s.close() == 0


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_called_that(build, tmp_path, order):
    """PowerShell 5 writes UTF-16 by default: a prompt, a grammar, a template or keys in it are an error, not other text."""
    lamina = build / "src/cli/lamina"
    (tmp_path / "text").write_bytes(('\ufeff' + 'root ::= "ab"\n').encode(order))
    for flag in ("-f", "--grammar-file", "--chat-template-file"):
        done = run(lamina, "run", TINY, *(() if flag == "-f" else ("-p", "a")), "-n", 1, flag, tmp_path / "text")
        assert done.returncode == 2 and "UTF-16" in done.stderr and not done.stdout, (flag, done.stderr)
    done = run(lamina, "serve", TINY, "--port", 0, "--api-key-file", tmp_path / "text")
    assert done.returncode == 2 and "UTF-16" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "model.safetensors.index.json", "m.gguf", "m-00002-of-00002.gguf"])
def test_a_pointer_is_called_one(build, tmp_path, name):
    """DeepSeek-V3#557: any file of a folder may be a pointer if Git LFS was not installed; the error names the file."""
    lamina = build / "src/cli/lamina"
    if name.endswith("gguf"):
        at = tmp_path / name.replace("00002-of", "00001-of")
        if "-of-" in name:
            assert run(lamina, "convert", TINY, tmp_path / "m.gguf", "--split-max-tensors", 10).returncode == 0
            parts = sorted(tmp_path.glob("m-*-of-*.gguf"))
            at, broken = parts[0], parts[1]
        else:
            broken = at
    else:
        at = tmp_path / "model"
        shutil.copytree(TINY.parent, at, ignore=shutil.ignore_patterns("*.gguf", "golden*"))
        broken = at / name
        if "index" in name:
            (at / "model.safetensors").unlink()
    broken.write_bytes(POINTER)
    done = run(lamina, "run", at, "-p", "a", "-n", 1)
    assert done.returncode and "Git LFS pointer" in done.stderr and "git lfs pull" in done.stderr and broken.name in done.stderr, done.stderr


def test_an_importance_matrix_that_is_a_pointer_is_called_one(build, tmp_path):
    (tmp_path / "imatrix.dat").write_bytes(POINTER)
    done = run(build / "src/cli/lamina", "quantize", TINY, tmp_path / "o.gguf", "q4_0", "--imatrix", tmp_path / "imatrix.dat")
    assert done.returncode and "Git LFS pointer" in done.stderr and "git lfs pull" in done.stderr, done.stderr


def test_the_content_of_a_file_outranks_its_name(build, tmp_path):
    """mesh-llm#311: a whole file that was renamed loads; a models folder lists such files once, also those in its subfolders."""
    lamina = build / "src/cli/lamina"
    for name in ("x-00001-of-00013.gguf", "y-00002-of-00003.gguf", "z.gguf", "deeper/w.gguf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(TINY, tmp_path / name)
        assert run(lamina, "run", tmp_path / name, "-p", "a", "-n", 1).returncode == 0
    assert run(lamina, "convert", TINY, tmp_path / "parts.gguf", "--split-max-tensors", 10).returncode == 0
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "empty").mkdir()
    s = Server(build, "--models-dir", tmp_path, "-c", 64, model=TINY).ready()
    try:
        names = [m["id"] for m in s.get("/v1/models")[1]["data"]]
        assert len(names) == len(set(names)) == 6 and sum("parts" in n for n in names) == 1, names
        received = [line for line in s.log if line.startswith("passed over")]
        assert len(received) == 1 and "notes.txt" in received[0] and "empty" in received[0] and ".gguf" not in received[0], s.log
    finally:
        assert s.close() == 0


@pytest.mark.parametrize("path", ["golden/llama/gqa/model.gguf", "golden/gemma2/windows/model.gguf"])
def test_no_message_is_repeated(build, path):
    s = Server(build, "-c", 1000000, model=SOURCE / "tests" / path).ready()
    assert s.close() == 0
    lines = [line for line in s.log if line.strip()]
    assert len(lines) == len(set(lines)), s.log
