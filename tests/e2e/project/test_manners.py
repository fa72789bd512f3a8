"""How the program affects the machine and other processes: limits set from outside, signals, leftover files."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BARE, PATIENCE, SANITIZED, run
from test_chat import Terminal

CGROUPS = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


class Group:
    """A control group of the test, below that of this process or below the root, v1 or v2: the first that can be written."""

    def __init__(self, controller):
        self.path = None
        self.v2 = False
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names and controller not in names.split(","):
                continue
            for mount in [CGROUPS / names, CGROUPS / controller] if names else [CGROUPS]:
                for parent in (mount / path.lstrip("/"), mount):
                    if self.make(parent / f"lamina-test-{os.getpid()}-{controller}", controller, not names):
                        return

    def make(self, path, controller, v2):
        """Create the group; return whether it can be limited."""
        if not (path.parent / "cgroup.procs").exists():
            return False
        try:
            path.mkdir()
        except OSError:
            return False
        self.path, self.v2 = path, v2
        if list(path.glob(f"{controller}.*")) and os.access(path / "cgroup.procs", os.W_OK):
            return True
        self.remove()
        self.path = None
        return False

    def write(self, name, value):
        try:
            (self.path / name).write_text(str(value))
        except OSError as error:
            self.remove()
            pytest.skip(f"no control group can be limited here: {error}")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


@pytest.fixture
def group(request):
    made = Group(request.param)
    if not made.path:
        pytest.skip("no control group can be made here")
    yield made
    made.remove()


def in_group(group, *command, **environment):
    return run(*command, env={**os.environ, **BARE, **environment}, preexec_fn=group.enter)


@pytest.mark.skipif(SANITIZED, reason="its shadow memory does not fit")
@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_the_memory_of_a_control_group_is_all_there_is(lamina, model, group):
    limit = 80 << 20
    group.write("memory.max" if group.v2 else "memory.limit_in_bytes", limit)
    received = json.loads(in_group(group, lamina, "doctor", "--json").stdout)["memory"]
    assert received["cgroup_limit"] == limit and received["available"] <= limit < received["total"]
    assert "limited to 83.9 MB by a control group" in in_group(group, lamina, "doctor").stdout
    refused = in_group(group, lamina, "run", model, "-p", "Hello", "-n", "2", "-c", "2048")
    assert refused.returncode == 4 and refused.stderr.splitlines()[-1].startswith("error: memory: "), (refused.returncode, refused.stderr)
    small = in_group(group, lamina, "run", model, "-p", "Hello", "-n", "2", "-c", "64", "-b", "16", "--no-repack")
    assert small.returncode == 0 and small.stdout, "weights of the file are pages that the kernel takes back"


@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_the_quota_of_a_control_group_bounds_the_threads(lamina, group, tmp_path):
    if group.v2:
        group.write("cpu.max", "100000 100000")
    else:
        group.write("cpu.cfs_quota_us", 100000)
    measured = {"LAMINA_CACHE": str(tmp_path)}                  # by the first command
    received = json.loads(in_group(group, lamina, "doctor", "--json", **measured).stdout)
    assert received["cpu"]["quota"] == 1 and received["cpu"]["cores"] == 1 and received["limits"]["threads"] == 1
    assert "limited to the time of 1 processor by a control group" in in_group(group, lamina, "doctor", **measured).stdout


@pytest.mark.skipif(SANITIZED, reason="it maps terabytes")
def test_the_address_space_bounds_what_fits(lamina, model):
    def limited(kib, *command):
        return run("sh", "-c", f'ulimit -v {kib} && exec "$@"', "sh", *command, env={**os.environ, **BARE})

    received = json.loads(limited(1000000, lamina, "doctor", "--json").stdout)["memory"]
    assert received["address_space_limit"] == 1024000000 and received["available"] < 1024000000
    refused = limited(300000, lamina, "run", model, "-p", "Hello", "-n", "2", "-c", "8192")
    assert refused.returncode == 4 and refused.stderr.splitlines()[-1].startswith("error: memory: "), refused.stderr


def test_a_file_at_its_limit_is_an_error_of_one_line(lamina, model, tmp_path):
    out = tmp_path / "report.md"
    done = run("sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", lamina, "report", "llama-3.2-1b", "-o", out, env={**os.environ, **BARE})
    assert done.returncode == 1 and done.stderr == f"error: {out}: cannot be written: File too large\n"
    assert list(tmp_path.iterdir()) == []
    with open(tmp_path / "out", "wb") as file:
        command = ["sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", lamina, "report", "llama-3.2-1b", "--format", "md", "-o", "/dev/stdout"]
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, env={**os.environ, **BARE}, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "File too large" in done.stderr


WRITERS = [
    ("report.md", ["report", "gpt2", "-o"]),
    ("topic.txt", ["explain", "kv", "gpt2", "-o"]),
    ("layer.svg", ["explain", "--diagram", "layer", "gpt2", "--svg", "-o"]),
    ("config.json", ["estimate", "gpt2", "--config", "-o"]),
    ("dump.safetensors", ["verify", "tests/golden/llama/mqa", "tests/golden/llama/mqa/golden.safetensors", "--dump"]),
    ("made.gguf", ["synth", "tests/golden/llama/mqa/config.json"]),
]


@pytest.mark.parametrize("name, command", WRITERS, ids=[c[0] for _, c in WRITERS])
def test_an_existing_file_is_replaced_only_with_force(lamina, source, tmp_path, name, command):
    out = tmp_path / name
    assert run(lamina, *command, out, cwd=source).returncode == 0 and out.stat().st_size
    out.write_text("mine")
    done = run(lamina, *command, out, cwd=source)
    assert done.returncode == 2 and out.read_text() == "mine"
    hint, error = done.stderr.splitlines()
    assert hint == "hint: use --force to replace it" and str(out) in error and "already exists" in error
    assert run(lamina, *command, out, "--force", cwd=source).returncode == 0 and out.read_bytes()[:4] != b"mine"
    if command[0] != "synth":
        out.write_text("")                               # empty, as mktemp leaves it
        assert run(lamina, *command, out, cwd=source).returncode == 0 and out.stat().st_size
        done = run(lamina, *command[:-1], "--force", cwd=source)
        assert done.returncode == 2 and done.stderr.startswith("error: --force: requires --")
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_files_of_a_killed_synth_are_removed(lamina, tmp_path):
    out = tmp_path / "made"
    made = subprocess.Popen([lamina, "synth", "llama-3.2-1b", out], stderr=subprocess.DEVNULL, env={**os.environ, **BARE})
    end = time.monotonic() + PATIENCE
    while not list(tmp_path.glob(".lamina-*/.lamina-*")):
        assert time.monotonic() < end and made.poll() is None
        time.sleep(0.01)
    made.kill()
    made.wait()
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".lamina-")
    done = run(lamina, "report", "llama-3.2-1b", "-o", tmp_path / "report.md", env={**os.environ, **BARE})
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_force_leaves_unreadable_folders(lamina, tmp_path, source):
    """Root can read every folder, so another user then runs the program."""
    program = shutil.copy(lamina, tmp_path / "lamina")
    real = tmp_path / "real"
    real.mkdir()
    (real / "notes.txt").write_text("mine")
    tmp_path.chmod(0o777)
    options = {}
    if os.geteuid() == 0:
        for path in (real, tmp_path):
            os.chown(path, 65534, 65534)
        for parent in tmp_path.parents[:2]:
            parent.chmod(0o755)
        options = {"user": 65534, "group": 65534, "extra_groups": []}
    real.chmod(0o300)
    done = run(program, "synth", "llama-3.2-1b", real, "--force", env={**os.environ, **BARE}, cwd=tmp_path, **options)
    real.chmod(0o700)
    assert done.returncode == 1 and f"error: {real}: cannot be read" in done.stderr, done.stderr
    assert (real / "notes.txt").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lamina", "real"]


def threads_of(pid):
    """Yield the name and the mask of blocked signals of every thread."""
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda p: int(p.name)):
        blocked = next(line for line in (task / "status").read_text().splitlines() if line.startswith("SigBlk:"))
        yield (task / "comm").read_text().strip(), int(blocked.split()[1], 16)


@pytest.mark.skipif(SANITIZED, reason="sanitizers have threads of their own")
def test_no_worker_takes_the_terminals_signals(lamina, model, tmp_path):
    """Workers block the terminal's signals: at the prompt and during an answer, each Ctrl-C reaches the thread that waits for it."""
    env = {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    t = Terminal(lamina, "chat", model, "--temp", "0", "--ignore-eos", "-t", "4", env=env)
    t.prompt()
    (_, blocked), *workers = threads_of(t.pid)
    assert [name for name, _ in workers] == ["lamina-1", "lamina-2", "lamina-3"]
    bits = sum(1 << (s - 1) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGWINCH))
    faults = sum(1 << (s - 1) for s in (signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGABRT))
    assert all(mask & bits == bits and mask & faults == 0 for _, mask in workers) and blocked & bits == 0
    for _ in range(50):
        os.kill(t.pid, signal.SIGINT)
        t.prompt()
    t.type("Tell me a story.\n")
    t.until("story.\r\n")
    t.until(" ")
    t.type("\x03")
    assert "interrupted" in t.prompt()
    t.type("\x04")
    assert t.status() == 0
