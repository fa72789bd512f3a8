"""Failures of every writer: a full disk, calls that fail or are short, kill -9. OUT is complete or unchanged, the next run completes.

`make soak` runs the long form: every call, and fifty points of each command."""
import errno
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BARE, SOURCE, run
from hubs import Hub, environment, folder_files

GOLDEN = SOURCE / "tests/golden"
LONG = bool(os.environ.get("LAMINA_SOAK"))
COMMANDS = ["convert", "convert back", "convert parts", "quantize", "quantize folder", "quantize parts", "imatrix", "imatrix dat", "synth", "pull"]


@pytest.fixture(scope="module")
def hub():
    files = folder_files()
    made = Hub(files, [n for n in files if n.endswith(".safetensors")])
    yield made
    made.server.shutdown()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile tests/e2e/faults.c."""
    if os.environ.get("LAMINA_SANITIZE", "none") != "none":
        pytest.skip("sanitizers must be loaded first")
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    out = tmp_path_factory.mktemp("faults") / "faults.so"
    assert run(compiler, "-shared", "-fPIC", "-O1", "-o", out, SOURCE / "tests/e2e/faults.c", "-ldl").returncode == 0
    return out


class Writer:
    """One command: its arguments, its output and the files that it leaves."""

    def __init__(self, build, hub, made, name, folder):
        self.hub, self.name, self.folder = hub, name, folder
        self.out = {"convert back": folder / "back", "pull": folder / "hub/models--org--name"}.get(name, folder / "o.gguf")
        text = ["-f", GOLDEN / "imatrix/text.txt", "-c", "64", "--chunks", "3", "-o", self.out]
        self.command = [build / "src/cli/lamina", *{
            "convert": ["convert", GOLDEN / "llama/sharded", self.out], "convert back": ["convert", GOLDEN / "llama/gqa/model.gguf", self.out],
            "convert parts": ["convert", GOLDEN / "llama/sharded", self.out, "--split-max-tensors", "8"],
            "quantize": ["quantize", made["file"], self.out, "q8_0"], "quantize folder": ["quantize", made["folder"], self.out, "q8_0"],
            "quantize parts": ["quantize", made["file"], self.out, "q8_0", "--split-max-size", "1M"],
            "imatrix": ["imatrix", made["experts"], *text], "imatrix dat": ["imatrix", made["experts"], *text, "--output-format", "dat"],
            "synth": ["synth", GOLDEN / "filetypes/grouped-tied.json", self.out, "--type", "q8_0"], "pull": ["pull", "org/name"]}[name]]
        self.command += [] if name == "pull" else ["-t", "1"] if name != "synth" else []
        self.env = environment(hub, folder)

    def start(self, **more):
        return subprocess.Popen([str(c) for c in self.command], env=self.env | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, **more):
        return run(*self.command, env=self.env | more)

    def state(self):
        """Return {path: hash} of the files with a final name; for a pull, of such blobs and the revision."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_dir() or ".lamina" in name or "/.locks/" in name:
                continue
            if self.name == "pull" and path.is_symlink():
                continue
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def stray(self):
        return [str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if ".lamina" in p.name]

    def clear(self):
        for path in list(self.folder.iterdir()):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.fixture(scope="module")
def made(build, tmp_path_factory):
    at = tmp_path_factory.mktemp("made")
    env = {**os.environ, **BARE}
    for source, out, kind in (("filetypes/grouped-tied", "file.gguf", "f16"), ("filetypes/grouped-tied", "folder", "f16"), ("imatrix/experts", "experts.gguf", "f32")):
        assert run(build / "src/cli/lamina", "synth", GOLDEN / f"{source}.json", at / out, "--type", kind, "-q", env=env).returncode == 0
    return {"file": at / "file.gguf", "folder": at / "folder", "experts": at / "experts.gguf"}


@pytest.fixture(params=COMMANDS)
def writer(request, build, hub, made, tmp_path):
    (tmp_path / "w").mkdir()
    return Writer(build, hub, made, request.param, tmp_path / "w")


def whole_or_absent(writer, goal, state, complete):
    """Check that files with a final name are complete; parts of a split file may exist without the first, which is needed to open them."""
    for name, digest in state.items():
        assert goal.get(name) == digest, f"{name} is not what it should be"
    if not complete and writer.name not in ("pull", "convert parts", "quantize parts"):
        assert not state, state
    if not complete and writer.name.endswith(" parts"):
        assert not any("00001-of" in name for name in state)
    if not complete and writer.name == "pull":
        assert not any("refs/" in name for name in state)


# ---- calls that fail ----

@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short"] if LONG else ["error", "short"])
def test_failing_calls(writer, library, tmp_path, kind):
    """The short form tries both errors by turns: no command distinguishes them but in the text of its error."""
    log = tmp_path / "log"
    faults = {"LD_PRELOAD": str(library), "FAULT_LOG": str(log)}
    numbers = {"short": ["0"], "error": [str(errno.EIO), str(errno.ENOSPC)]}.get(kind) or [str(getattr(errno, kind))]
    done = writer.run(**faults, FAULT_ERRNO=numbers[0], FAULT_AT="0")
    assert done.returncode == 0, done.stderr
    goal, calls = writer.state(), int(log.read_text().split()[0])
    assert goal and calls > 2 and not writer.stray()
    points = list(range(1, calls + 1))
    if len(points) > (400 if LONG else 14):
        points = points[:4] + random.Random(1).sample(points[4:-6], 390 if LONG else 4) + points[-6:]
    failed, statuses = set(), set()
    for at in points:
        writer.clear()
        done = writer.run(**faults, FAULT_ERRNO=numbers[at % len(numbers)], FAULT_AT=str(at))
        call = log.read_text().split()[1]
        failed.add(call)
        state = writer.state()
        statuses.add(done.returncode)
        where = f"call {at} of {calls}, {call}: {done.stderr}"
        assert done.returncode in ((0,) if kind == "short" else (0, 1)), where
        whole_or_absent(writer, goal, state, done.returncode == 0)
        if done.returncode == 0:
            assert state == goal, where                      # nothing was lost: the next call succeeded, or it failed after the rename
            continue
        assert len([line for line in done.stderr.splitlines() if line.startswith("error:")]) == 1, where
        assert writer.name == "pull" or not writer.stray(), where
        again = writer.run()
        assert again.returncode == 0 or "exists" in again.stderr, where + again.stderr
        if again.returncode == 0:
            assert writer.state() == goal and not writer.stray(), where
    assert failed - {"-"} and (kind == "short" or 1 in statuses), "no call was reached"


# ---- a full disk ----

def on_a_disk(writer, kilobytes):
    """Run the command in its own namespace, where its folder is a disk of this size; return its result and a copy of what is left there."""
    script = ('mount -t tmpfs -o size="$1k" tmpfs "$2" || exit 99; disk="$2"; shift 2; "$@"; status=$?; cp -a "$disk/." "$KEEP/"; exit $status')
    keep = writer.folder.parent / "kept"
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir()
    done = run("unshare", "-m", "sh", "-c", script, "sh", kilobytes, writer.folder, *writer.command, env=writer.env | {"KEEP": str(keep)})
    return done, keep


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare") or run("unshare", "-m", "true").returncode != 0,
                    reason="a disk of one's own needs root and namespaces")
def test_full_disks(writer):
    assert writer.run().returncode == 0
    goal, stray = writer.state(), writer.folder
    size = sum(p.stat().st_size for p in stray.rglob("*") if p.is_file() and not p.is_symlink()) // 1024
    writer.clear()
    statuses = []
    part = 24 if LONG else 6
    for kilobytes in sorted({4, 16, *(max(4, size * k // part) for k in range(1, part + 1)), size + 64, 2 * size + 4096}):      # 0: no limit
        done, keep = on_a_disk(writer, kilobytes)
        if done.returncode == 99:
            pytest.skip("tmpfs cannot be mounted here")
        there = Writer.state(type("At", (), {"folder": keep, "name": writer.name}))
        assert done.returncode in (0, 1), done.stderr
        statuses.append(done.returncode)
        whole_or_absent(writer, goal, there, done.returncode == 0)
        if done.returncode:
            assert len([line for line in done.stderr.splitlines() if line.startswith("error:")]) == 1, done.stderr
            assert writer.name == "pull" or not [p for p in keep.rglob("*") if ".lamina" in p.name]
        else:
            assert there == goal
    assert statuses[0] == 1 and statuses[-1] == 0 and statuses == sorted(statuses, reverse=True), statuses


# ---- kill -9 ----

def test_killed(writer):
    """After a kill at a random moment, files with a final name are complete; the last run completes the output and cleans up."""
    begun = time.monotonic()
    assert writer.run().returncode == 0
    lasts, goal = time.monotonic() - begun, writer.state()
    dice, killed = random.Random(24), 0
    for _ in range(50 if LONG else 10):
        if dice.random() < 0.5:
            writer.clear()
        elif writer.state() == goal:
            writer.clear()
        process = writer.start()
        time.sleep(dice.random() * lasts)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            killed += 1
        else:
            lasts *= 0.7                    # the first run was slower, as under load
        whole_or_absent(writer, goal, writer.state(), process.returncode == 0 or writer.state() == goal)
    assert killed
    if writer.state() != goal:
        done = writer.run()
        assert done.returncode == 0, done.stderr
    else:
        done = writer.run() if writer.name == "pull" else run(*writer.command, "--force", env=writer.env)
        assert done.returncode == 0 or "unknown flag" in done.stderr or "--force" in done.stderr, done.stderr
    assert writer.state() == goal
    assert not [p for p in writer.stray() if "incomplete" not in p or writer.name == "pull"]
