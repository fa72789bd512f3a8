"""lamina serve drops the rights that it does not need, serves everything without them, and reports what the kernel does not support."""
import contextlib
import ctypes
import errno
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import BARE, SANITIZED, SOURCE, run
from servers import Server

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
ASK = {"prompt": "a", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer needs more rights at the end")
LANDLOCK = 444                           # landlock_create_ruleset


def no_landlock():
    """Make the call fail as on an older kernel, which does not have it."""
    lib = ctypes.CDLL("libseccomp.so.2")
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    lib.prctl = ctypes.CDLL(None).prctl
    filter = lib.seccomp_init(0x7FFF0000)
    assert lib.seccomp_rule_add(filter, 0x00050000 | errno.ENOSYS, LANDLOCK, 0) == 0 and lib.seccomp_load(filter) == 0


def has_landlock():
    return ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK, None, 0, 1) >= 1


def status_of(server):
    """Return the states of the threads; one may end while this reads."""
    states = []
    for thread in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.append((thread / "status").read_text())
    return states


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def test_every_route_works_in_the_sandbox(build, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copytree(SOURCE / "tests/golden/llama/gqa", folder / "two")
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(TINY, tmp_path / "elsewhere/three.gguf")
    (folder / "three.gguf").symlink_to("../elsewhere/three.gguf")
    shutil.copy(TINY, tmp_path / "one.gguf")
    (tmp_path / "slots").mkdir()
    s = Server(build, "--models-dir", folder, "-c", 128, "--metrics", "--embeddings", "--slot-save-path", tmp_path / "slots", "--prefix-store",
               tmp_path / "prefixes", "--keep-alive", 300, model=tmp_path / "one.gguf").ready()
    now = s.get("/props")[1]["sandbox"]
    assert now["calls"] and now["files"] == has_landlock() and (not now["why"] or not now["files"])
    texts = [s.post("/v1/completions", ASK | {"model": m})[1]["choices"][0]["text"] for m in ("one", "two", "three")]
    assert len(set(texts)) == 1
    assert s.post("/v1/embeddings", {"model": "one", "input": "a"})[0] == 200 and s.get("/metrics")[0] == 200
    assert s.post("/slots/0?action=save&model=one", {"filename": "a"})[1]["n_saved"] > 0
    assert s.post("/slots/0?action=restore&model=one", {"filename": "a"})[1]["n_restored"] > 0
    for text in status_of(s):
        assert re.search(r"^Seccomp:\s+2$", text, re.M) and re.search(r"^NoNewPrivs:\s+1$", text, re.M), text
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "warning" in line] or not now["files"]


def test_one_model_at_a_unix_socket(build, tmp_path):
    done = Server(build, "--host", f"unix:{tmp_path}/s", "-c", 128, model=TINY)
    assert done.close() == 0 and not (tmp_path / "s").exists()


def test_all_rights_on_request(build, lamina):
    s = Server(build, "--no-sandbox", "-c", 128, model=TINY).ready()
    assert s.get("/props")[1]["sandbox"] == {"files": False, "calls": False, "why": ""}
    assert all(re.search(r"^Seccomp:\s+0$", text, re.M) for text in status_of(s)) or os.environ.get("container")
    assert s.close() == 0
    done = run(lamina, "serve", TINY, "--sandbox", "--no-sandbox")
    assert done.returncode == 2 and "--no-sandbox" in done.stderr


def test_an_old_kernel_is_reported_and_served(build, lamina):
    class Old(Server):
        def __init__(self):
            real = subprocess.Popen
            subprocess.Popen = lambda *a, **k: real(*a, preexec_fn=no_landlock, **k)
            try:
                super().__init__(build, "-c", 128, model=TINY)
            finally:
                subprocess.Popen = real

    s = Old().ready()
    now = s.get("/props")[1]["sandbox"]
    assert not now["files"] and now["calls"] and "no Landlock" in now["why"]
    assert s.post("/v1/completions", ASK)[0] == 200 and s.close() == 0
    assert [line for line in s.log if line.startswith("warning: --sandbox: files are not restricted")], s.log


def test_only_root_can_read_its_proc_folder(build, lamina):
    """The files below /proc of a process that cannot dump core belong to root, whichever user started it."""
    as_other = {"user": 65534} if os.geteuid() == 0 else {}
    try:
        p = subprocess.Popen([lamina, "serve", TINY, "--port", "0", "-c", "128"], stderr=subprocess.PIPE, text=True, cwd="/", env={**os.environ, **BARE}, **as_other)
    except PermissionError:
        pytest.skip("another user cannot reach this folder")
    reply = p.stderr.readline()
    if "listening" not in reply:
        p.wait()
        pytest.skip("another user cannot read the model")
    assert os.stat(f"/proc/{p.pid}/environ").st_uid == 0
    p.terminate()
    p.communicate()
    assert p.returncode == 0
