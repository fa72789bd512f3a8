"""`make install`: where files are installed, what the shared library exports, and building an outside program against it."""
import json
import os
import pathlib
import re
import shutil

import pytest
from conftest import SANITIZED, SOURCE, run

# A program finds the library where it was linked: nothing tells the loader where that is.
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
STRANGER = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nowhere"}

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
    headers = sorted((prefix / "include/lamina").rglob("*.h"))
    return set(run(source / "scripts/exports", "--list", *headers).stdout.split())


def test_every_public_header_is_installed(prefix, source):
    ours = {p.name: p.read_text() for p in (source / "include/lamina").rglob("*.h")}
    theirs = {p.name: p.read_text() for p in (prefix / "include/lamina").rglob("*.h")}
    assert ours == theirs


def test_every_public_header_has_a_page_of_the_manual(prefix, source):
    pages = {p.name for p in prefix.rglob("man3/*")}
    assert pages == {"lamina.3" if p.stem == "lamina" else f"lamina_{p.stem}.3" for p in (source / "include/lamina").rglob("*.h")}


def test_shared_library_exports_what_the_headers_declare(prefix, library, source):
    listed = run("nm", "-D", "--defined-only", library).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()} - {"LAMINA_0"}
    assert exported == declared(prefix, source)


def test_shared_library_is_versioned(library):
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library).stdout).group(1)
    assert re.fullmatch(r"liblamina\.so\.\d+", soname)
    assert (library.parent / soname).resolve() == library
    assert (library.parent / "liblamina.so").resolve() == library


def test_static_library_shows_what_the_headers_declare(prefix, library, source):
    listed = run("nm", "--defined-only", "--extern-only", library.parent / "liblamina.a").stdout
    assert {line.split()[2] for line in listed.splitlines() if len(line.split()) == 3} == declared(prefix, source)


def pkg_config(prefix, library, *words):
    """Return the words that pkg-config prints, as on a machine where only lamina is installed with its headers."""
    received = run("pkg-config", f"--define-variable=prefix={prefix}", *words, "lamina",
               env={**os.environ, "PKG_CONFIG_LIBDIR": str(library.parent / "pkgconfig"), "PKG_CONFIG_PATH": ""})
    assert received.returncode == 0, received.stderr
    return received.stdout.split()


def test_pkg_config_is_complete(prefix, library):
    assert pkg_config(prefix, library, "--cflags") == [f"-I{prefix}/include"]
    assert pkg_config(prefix, library, "--libs") == [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-llamina"]
    below = pkg_config(prefix, library, "--static", "--libs")[3:]
    needed = re.findall(r"NEEDED.*\[lib(.*)\.so", run("readelf", "-d", library).stdout)
    sanitizers = {"asan", "ubsan", "tsan"}              # which the compiler adds itself
    assert {f"-l{name}" for name in needed if name not in sanitizers} - {"-lc"} <= set(below) | {"-lgcc_s"}


def linked(prefix, library, kind):
    """Return the arguments that link a program with the shared library, or with lamina's archive and the other libraries as installed."""
    words = pkg_config(prefix, library, *(["--static"] if kind == "static" else []), "--cflags", "--libs")
    return [library.parent / "liblamina.a" if kind == "static" and w == "-llamina" else w for w in words] + ["-lm"]


COMPILERS = {"c": ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror"],
             "c++": ["c++", "-x", "c++", "-std=c++20", "-Wall", "-Werror"]}


@sanitized
@pytest.mark.parametrize("language", COMPILERS)
@pytest.mark.parametrize("kind", ["shared", "static"])
@pytest.mark.parametrize("name", sorted(p.stem for p in (SOURCE / "examples").glob("*.c")))
def test_example_builds_as_its_comment_says(prefix, library, source, tmp_path, name, kind, language):
    program = tmp_path / name
    built = run(*COMPILERS[language], source / f"examples/{name}.c", "-x", "none", *linked(prefix, library, kind), "-o", program)
    assert built.returncode == 0, built.stderr
    done = run(program, env=PLAIN)
    assert done.returncode == 2 and "usage" in done.stderr


@sanitized
def test_a_program_can_be_one_file(prefix, library, source, model, tmp_path):
    words = pkg_config(prefix, library, "--static", "--cflags", "--libs")
    built = run("cc", "-static", source / "examples/next_token.c", *words, "-o", tmp_path / "next_token", env={**os.environ, "LC_ALL": "C"})
    if "cannot find -l" in built.stderr and "cannot find -llamina" not in built.stderr:
        pytest.skip("a library below is not here as an archive")
    assert built.returncode == 0 and "warning" not in built.stderr, built.stderr
    assert "not a dynamic executable" in (received := run("ldd", tmp_path / "next_token", env={**os.environ, "LC_ALL": "C"})).stdout + received.stderr
    done = run(tmp_path / "next_token", model, "Hello")
    assert done.returncode == 0 and done.stdout, done.stderr


@sanitized
@pytest.mark.parametrize("kind", ["shared", "static"])
def test_names_of_the_library_are_free_for_others(prefix, library, tmp_path, model, kind):
    """A program can use the library's internal names for its own functions and variables."""
    unit = tmp_path / "own.c"
    unit.write_text("""
#include <lamina/lamina.h>
#include <stdio.h>
int lm_add(int a, int b) { return a + b; }
int lm_push = 1, lm_scale = 2, lm_alloc = 3;
int main(int argc, char **argv)
{
    lm_model *m = NULL;
    lm_error e;
    if (argc != 2 || lm_model_open(argv[1], NULL, &m, &e) != LM_OK)
        return 1;
    lm_model_close(m);
    printf("%d\\n", lm_add(lm_push, lm_add(lm_scale, lm_alloc)));
    return 0;
}
""")
    built = run("cc", "-Wall", "-Werror", unit, *linked(prefix, library, kind), "-o", tmp_path / "own")
    assert built.returncode == 0, built.stderr
    done = run(tmp_path / "own", model, env=PLAIN)
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr


@pytest.fixture
def home(build, source, tmp_path):
    """An installation for one user, as `make install PREFIX=$HOME/.local` makes it, and what it printed. Its build folder is configured for
    this prefix, has the files of `build`, and is gone afterwards."""
    prefix, own = tmp_path / "home/.local", tmp_path / "build"
    assert run("meson", "setup", "-Dtests=disabled", f"--prefix={prefix}", own, cwd=source).returncode == 0
    for made in json.loads((own / "meson-info/intro-installed.json").read_text()):
        made = pathlib.Path(made)
        if own in made.parents and not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(build / made.relative_to(own), made)
    done = run("meson", "install", "-C", own, "--no-rebuild", "--quiet")
    assert done.returncode == 0, done.stderr
    printed = run(source / "scripts/installed", own, env=STRANGER).stdout
    shutil.rmtree(own)
    return prefix, printed


@sanitized
def test_an_installation_of_one_user_works(home, source, tmp_path):
    prefix, printed = home
    for line in ("export PATH=", "export PKG_CONFIG_PATH="):
        assert line in printed
    shell = "\n".join(re.findall("export .*", printed)) + f"""
        lamina version && cc {source}/examples/first.c $(pkg-config --cflags --libs lamina) -o {tmp_path}/first && {tmp_path}/first"""
    done = run("sh", "-c", shell, env=STRANGER)
    assert done.stdout.startswith("lamina ") and done.returncode == 2 and "usage" in done.stderr, done.stderr
    assert str(prefix) in run("readelf", "-d", tmp_path / "first").stdout

    uninstall = re.search(r"or (sh .*)\)", printed).group(1)
    assert run("sh", "-c", uninstall).returncode == 0
    assert [p for p in prefix.rglob("*") if not p.is_dir() or p.name == "lamina"] == []


@pytest.mark.parametrize("prefix, rpath", [("/usr", ""), ("/elsewhere", "-Wl,-rpath,/elsewhere/")])
def test_the_loader_finds_what_is_below_usr(source, tmp_path, prefix, rpath):
    assert run("meson", "setup", "-Dtests=disabled", f"--prefix={prefix}", tmp_path / "build", cwd=source).returncode == 0
    libs = run("pkg-config", "--libs", tmp_path / "build/meson-private/lamina.pc").stdout
    assert rpath in libs and ("rpath" in libs) == bool(rpath)


def test_install_needs_no_terminal(source):
    steps = run("make", "-n", "install", "PREFIX=/tmp/no where", cwd=source)
    assert steps.returncode == 0 and "meson install" in steps.stdout and '-Dprefix="/tmp/no where"' in steps.stdout
    assert "setup " not in steps.stdout.replace("meson setup ", "")


def test_uninstall_leaves_nothing(build, source, tmp_path):
    """With DESTDIR, as a packager: `make uninstall` removes what this and earlier versions installed, and no other file."""
    dest = tmp_path / "a package"

    def uninstall():
        return run("make", "uninstall", f"DESTDIR={dest}", f"PREFIX=/{prefix.relative_to(dest)}", cwd=source)

    def files():
        return [p for p in dest.rglob("*") if not p.is_dir()]

    for others in ([], ["include/lamina/mine.h", "bin/other"]):
        assert run("meson", "install", "-C", build, "--no-rebuild", "--destdir", dest).returncode == 0
        [header] = dest.rglob("lamina.h")
        prefix = header.parents[2]
        manifest = prefix / "share/lamina/manifest"
        earlier = header.parent / "earlier.h"
        earlier.write_text("")
        manifest.write_text(f"{manifest.read_text()}/{earlier.relative_to(dest)}\n/{earlier.relative_to(dest)}.gone\n")
        assert run("meson", "install", "-C", build, "--no-rebuild", "--destdir", dest).returncode == 0
        assert "gone" not in manifest.read_text() and len(files()) > 20
        for other in others:
            (prefix / other).write_text("")
        done = uninstall()
        assert done.returncode == 0, done.stderr
        assert sorted(files()) == sorted(prefix / other for other in others)
        assert header.parent.exists() == bool(others) and not manifest.parent.exists()
    done = uninstall()
    assert done.returncode == 2 and f"error: {manifest.parent}/uninstall: not there" in done.stderr


def test_uninstall_refuses_a_copy(build, tmp_path):
    """A copy of an installation in another folder is not the installation that its manifest lists."""
    assert run("meson", "install", "-C", build, "--no-rebuild", "--destdir", tmp_path / "dest").returncode == 0
    [manifest] = tmp_path.rglob("manifest")
    copy = shutil.copytree(manifest.parent, tmp_path / "copy")
    done = run("sh", copy / "uninstall")
    configured = manifest.read_text().splitlines()[0]
    assert (done.returncode, done.stderr) == (1, f"error: {copy}: installed for {configured}, remove it from there\n")
    assert manifest.exists()


@sanitized
def test_a_host_keeps_its_signals(prefix, library, source, model, tmp_path):
    built = run("cc", "-Wall", "-Wextra", "-Werror", source / "tests/e2e/host.c", *linked(prefix, library, "shared"), "-o", tmp_path / "host")
    assert built.returncode == 0, built.stderr
    done = run(tmp_path / "host", model, env=PLAIN)
    assert done.returncode == 0, done.stdout


@sanitized
def test_headers_are_cplusplus_too(prefix, tmp_path):
    if run("c++", "--version").returncode:
        pytest.skip("no C++ compiler")
    unit = tmp_path / "x.cc"
    unit.write_text('#include <lamina/lamina.h>\nint main() { return lm_version() == nullptr; }\n')
    built = run("c++", "-std=c++17", "-Wall", "-Werror", f"-I{prefix / 'include'}", "-c", unit, "-o", tmp_path / "x.o")
    assert built.returncode == 0, built.stderr
