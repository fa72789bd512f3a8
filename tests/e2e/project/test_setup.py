"""scripts/setup, run again when everything is installed, uses neither the network nor a package manager."""
import os

import pytest
from conftest import run


@pytest.fixture
def offline(tmp_path, source):
    """An environment in which package managers and download tools fail with a message."""
    if not os.access(source / "build/.setup", os.W_OK):
        pytest.skip("scripts/setup cannot write here")
    for name in ("apt-get", "npm", "sudo", "curl", "wget"):
        shim = tmp_path / name
        shim.write_text(f"#!/bin/sh\necho {name} was called >&2\nexit 99\n")
        shim.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}


def test_a_second_run_is_silent_and_offline(source, offline):
    if not all((source / "build/.setup" / part).exists() for part in ("demo", "test")):
        pytest.skip("scripts/setup has not run here")
    first = run(source / "scripts/setup", env=offline, cwd=source)           # after an edit of the script: checks hashes
    assert first.returncode == 0, first.stderr
    again = run(source / "scripts/setup", env=offline, cwd=source)
    assert again.returncode == 0 and again.stderr == "" and again.stdout == ""


def test_the_demo_model_is_placed_in_a_new_cache(source, offline, tmp_path):
    if not (source / "build/.setup/demo").exists():
        pytest.skip("scripts/setup has not run here")
    done = run(source / "scripts/setup", "demo", env={**offline, "LAMINA_CACHE": str(tmp_path / "cache")}, cwd=source)
    assert done.returncode == 0, done.stderr
    [model] = (tmp_path / "cache/models").iterdir()
    assert model.stat().st_size == 98362496


def test_an_unknown_part_is_usage(source):
    done = run(source / "scripts/setup", "everything", cwd=source)
    assert done.returncode == 2 and "unknown part: everything" in done.stderr
