"""Settings and fixtures of all end-to-end tests. Meson sets the paths in the environment; without it they are those of build/test."""
import collections
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

# What tests of one room use of another, as if all were in one folder: file names are unique.
sys.path += sorted(str(room) for room in pathlib.Path(__file__).parent.iterdir() if room.is_dir())

SOURCE = pathlib.Path(os.environ.setdefault("LAMINA_SOURCE", str(pathlib.Path(__file__).resolve().parents[2])))
BUILD = pathlib.Path(os.environ.setdefault("LAMINA_BUILD", str(SOURCE / "build/test")))
DEMO = SOURCE / "build/assets/smollm2-135m-instruct-q4_1.gguf"
SHALLOW = BUILD / "tests/e2e" / DEMO.name               # random weights in two layers, with the vocabulary and the widths of the demo model
MODEL = SHALLOW if os.environ.get("LAMINA_SHALLOW") else DEMO

# An environment without a cache: it has no models and no measurements.
BARE = {"LAMINA_CACHE": "/dev/null/nothing"}

# Each test process has its own cache, with the demo model: one process's measurements would change the numbers that another compares.
CACHE = tempfile.TemporaryDirectory(prefix="lamina-cache-")
os.environ["LAMINA_CACHE"] = CACHE.name
(pathlib.Path(CACHE.name) / "models").mkdir()
(pathlib.Path(CACHE.name) / "models/SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(DEMO)

os.environ["LAMINA_LANG"] = "en"                        # tests expect English in every locale; test_languages.py selects others

signal.signal(signal.SIGHUP, signal.SIG_DFL)            # also under nohup: child processes inherit ignored signals

# Seconds. A limit for commands that never end, not a measure of speed: no load on the machine makes a test reach it.
PATIENCE = 600

SANITIZED = os.environ.get("LAMINA_SANITIZE", "none") != "none"

# What sanitizers prevent: they map terabytes, keep threads and memory of their own, or take too long. Run by the test e2e_plain_only.
plain_only = pytest.mark.plain_only

explains = pytest.mark.skipif(not os.environ.get("LAMINA_STUDY", "yes"), reason="a build without explanations")


def some(things, first=0, step=8):
    """Return all of `things`; in a build with sanitizers, which repeats what the plain build runs whole, every `step`-th from number
    `first` % `step`."""
    return list(things)[first % step::step] if SANITIZED else list(things)


def pytest_configure(config):
    config.addinivalue_line("markers", "plain_only: a test that a build with sanitizers cannot run")


def pytest_ignore_collect(collection_path, config):
    """With `-m plain_only`, a file that does not name this mark has no such test, and importing its clients would take seconds. (pytest does
    not ask about files that are named on its command line.)"""
    skipped = config.option.markexpr == "plain_only" and collection_path.suffix == ".py" and "plain_only" not in collection_path.read_text()
    return True if skipped else None


def pytest_collection_modifyitems(config, items):
    """In a build with sanitizers the tests of the server run whole, as on no other build in .ci/run. Of the others it runs the first of
    every eight cases of a test: they reach the same code, and the plain build runs all of them."""
    if not SANITIZED:
        return
    seen, kept, left = collections.Counter(), [], []
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        turn = item.path.parent.name == "serve" or item.path.name == "test_outputs.py" or seen[test] % 8 == 0
        (kept if turn and not item.get_closest_marker("plain_only") else left).append(item)
        seen[test] += 1
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def run(*command, **options):
    """Run a command and return its result, with its output as text; a nonzero status is not an exception."""
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=PATIENCE, **options)


def margins(done):
    """Return the gap between the best two tokens of each choice, in natural logarithms, as printed by `lamina run --logprobs 2 --json`."""
    return [t["top"][0]["logprob"] - t["top"][1]["logprob"] for t in json.loads(done.stdout)["logprobs"]]


@pytest.fixture(scope="session")
def build():
    return BUILD


@pytest.fixture(scope="session")
def limits(build):
    """Return the file of the machine's limits, placed in the cache. Measuring takes seconds of all processors: it is done once a day for all
    processes of a build, and marked as made without load: one made under load would be replaced after ten minutes."""
    folder = build / "limits" / os.environ.get("LAMINA_CPU", "detected")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(path.stat().st_mtime > time.time() - 86400 for path in folder.glob("limits-*.json")):
            assert run(build / "src/cli/lamina", "doctor", "--fresh", env=os.environ | {"LAMINA_CACHE": str(folder)}).returncode == 0
            for path in folder.glob("limits-*.json"):
                path.write_text(json.dumps(json.loads(path.read_text()) | {"busy": 0.0}))
        (path,) = folder.glob("limits-*.json")
    return pathlib.Path(shutil.copy(path, CACHE.name))


@pytest.fixture(scope="session")
def source():
    return SOURCE


@pytest.fixture(scope="session")
def model():
    if not MODEL.exists():
        pytest.fail("the demo model is not there: scripts/setup")
    return MODEL
