"""A build without explanations (-Dstudy=disabled): commands that run models are complete; the others report that they are missing."""
import json
import os
import re

import pytest
from conftest import BARE, run

LEFT_OUT = ["audit", "compare", "devices", "estimate", "explain", "fit", "report"]
HEADERS = {"study.h"}


@pytest.fixture(scope="session")
def lamina(build):
    def start(*args, **env):
        return run(build / "src/cli/lamina", *args, env={**os.environ, **BARE, **env})
    return start


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    dest = tmp_path_factory.mktemp("dest")
    done = run("meson", "install", "-C", build, "--no-rebuild", "--destdir", dest)
    assert done.returncode == 0, done.stderr
    [header] = dest.rglob("include/lamina/lamina.h")
    return header.parents[2]


def test_help_lists_existing_commands(lamina):
    commands = {c["name"] for c in json.loads(lamina("help", "--json").stdout)["commands"]}
    assert not commands & set(LEFT_OUT) and {"run", "chat", "inspect", "bench", "verify", "presets"} <= commands
    flags = {f["name"] for f in json.loads(lamina("inspect", "--help", "--json").stdout)["flags"]}
    assert "--plan" in flags and not flags & {"--view", "--query", "--torchinfo-compat"}


@pytest.mark.parametrize("command", LEFT_OUT)
def test_an_omitted_command_is_reported(lamina, command):
    done = lamina(command, "gpt2")
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == f"error: {command}: this build leaves the command out\n"


def test_cluster_keeps_jobs_running_and_plans_nothing(lamina):
    assert lamina("cluster", "run", "--", "true").returncode == 0
    done = lamina("cluster", "plan", "gpt2")
    assert done.returncode == 2 and "this build leaves plans of clusters out" in done.stderr


def test_inspect_shows_files_programs_and_plans(lamina):
    assert "LlamaForCausalLM" in lamina("inspect", "llama-3.2-1b", "--program").stdout
    assert lamina("inspect", "llama-3.2-1b", "--plan").returncode == 0
    for more in [], ["--json"]:
        done = lamina("inspect", "llama-3.2-1b", *more)
        assert done.returncode == 2 and "leaves views out" in done.stderr and done.stderr.count("\n") == 1


def test_only_english(lamina, source):
    done = lamina("presets", "--lang", "zh-Hans")
    assert done.returncode == 2 and done.stderr == "error: zh-Hans: this build has no translations; use en\n"
    assert lamina("presets", "gpt2", LANG="zh_CN.UTF-8").stdout == lamina("presets", "gpt2").stdout


def test_the_library_is_smaller(prefix, source):
    """The library installs no header, exports no symbol and contains no text of the omitted part; lamina.h can still be included."""
    ours = {p.name for p in (source / "include/lamina").glob("*.h")}
    theirs = {p.name for p in (prefix / "include/lamina").glob("*.h")}
    assert ours - theirs == HEADERS and not (prefix / "include/lamina/study").exists()
    [so] = [p for p in prefix.rglob("liblamina.so.*") if not p.is_symlink()]
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", so).stdout.splitlines()}
    assert "lm_generate" in exported and not [name for name in exported if re.match("lm_(fact|explain|compare|report_|device|fit)", name)]
    held = so.read_bytes()
    assert "Pre and after each branch".encode() not in held and "注意力".encode() not in held


def test_a_program_compiles_against_it(prefix, tmp_path):
    (tmp_path / "a.c").write_text("#include <lamina/lamina.h>\nint main(void) { lm_sampler_options o = { 0 }; return (int)o.top_k; }\n")
    done = run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{prefix / 'include'}", tmp_path / "a.c")
    assert done.returncode == 0, done.stderr
