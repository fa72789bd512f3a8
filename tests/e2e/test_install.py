"""`make install`: what is put where, what the shared library exports, and a stranger's program built against it."""
import os
import re

import pytest
from conftest import SANITIZED, run

sanitized = pytest.mark.skipif(SANITIZED, reason="a plain program cannot link it")


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    dest = tmp_path_factory.mktemp("dest")
    done = run("meson", "install", "-C", build, "--no-rebuild", "--destdir", dest)
    assert done.returncode == 0, done.stderr
    [lamina_pc] = dest.rglob("lamina.pc")
    at = re.search(r"^prefix=(.*)$", lamina_pc.read_text(), re.M).group(1)
    return dest / at.lstrip("/")


@pytest.fixture(scope="module")
def library(prefix):
    [so] = [p for p in prefix.rglob("liblamina.so.*") if not p.is_symlink()]
    return so


def declared(prefix, source):
    headers = sorted((prefix / "include/lamina").glob("*.h"))
    return set(run(source / "scripts/exports", "--list", *headers).stdout.split())


def test_every_public_header_is_installed(prefix, source):
    ours = {p.name: p.read_text() for p in (source / "include/lamina").glob("*.h")}
    theirs = {p.name: p.read_text() for p in (prefix / "include/lamina").glob("*.h")}
    assert ours == theirs


def test_shared_library_exports_what_the_headers_declare(prefix, library, source):
    listed = run("nm", "-D", "--defined-only", library).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()} - {"LAMINA_0"}
    assert exported == declared(prefix, source)


def test_shared_library_is_versioned(library):
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library).stdout).group(1)
    assert re.fullmatch(r"liblamina\.so\.\d+", soname)
    assert (library.parent / soname).resolve() == library
    assert (library.parent / "liblamina.so").resolve() == library


@sanitized
@pytest.mark.parametrize("kind", ["shared", "static"])
@pytest.mark.parametrize("name", ["generate", "batch", "next_token"])
def test_example_builds_as_its_comment_says(prefix, library, source, tmp_path, name, kind):
    config = {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}

    def ask(*words):
        told = run("pkg-config", f"--define-variable=prefix={prefix}", *words, env=config)
        assert told.returncode == 0, told.stderr
        return told.stdout.split()

    words = ask("--cflags", "--libs", "lamina")
    if kind == "static":                    # lamina itself from its archive, what it stands on as it is installed
        below = ask("--libs", *ask("--print-requires-private", "lamina"))
        words = [library.parent / "liblamina.a" if w == "-llamina" else w for w in words] + below
    program = tmp_path / name
    built = run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", source / f"examples/{name}.c", *words, "-lm", "-o", program)
    assert built.returncode == 0, built.stderr
    done = run(program, env={**os.environ, "LD_LIBRARY_PATH": str(library.parent) if kind == "shared" else ""})
    assert done.returncode == 2 and "usage" in done.stderr


@sanitized
def test_headers_are_cplusplus_too(prefix, tmp_path):
    if run("c++", "--version").returncode:
        pytest.skip("no C++ compiler")
    unit = tmp_path / "x.cc"
    unit.write_text('#include <lamina/lamina.h>\nint main() { return lm_status_exit(LM_OK); }\n')
    built = run("c++", "-std=c++17", "-Wall", "-Werror", f"-I{prefix / 'include'}", "-c", unit, "-o", tmp_path / "x.o")
    assert built.returncode == 0, built.stderr
