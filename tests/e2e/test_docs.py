"""The manual page and the completions that `make install` puts in place, made from the program's own table of flags."""
import json
import shutil

import pytest
from conftest import run


@pytest.fixture(scope="module")
def program(build):
    return json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)


def spellings(flag):
    return [flag["name"], *(flag["also"] or "").split()]


def test_manual_page_has_every_command_and_flag(build, program):
    page = (build / "docs/lamina.1").read_text().replace("\\-", "-")
    for command in program["commands"]:
        assert f"lamina {command['name']}" in page
        for flag in command["flags"]:
            for name in spellings(flag):
                assert f"\\fB{name}\\fR" in page


def complete(build, *words):
    """What bash offers for the last word."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _lamina; printf "%s\\n" "${COMPREPLY[@]}"')
    done = run("bash", "-c", script, "bash", build / "docs/lamina", "lamina", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_and_flags(build, program):
    assert complete(build, "") == [c["name"] for c in program["commands"]]
    assert complete(build, "vers") == ["version"]
    for command in program["commands"]:
        offered = complete(build, command["name"], "-")
        assert set(offered) >= {n for flag in command["flags"] for n in spellings(flag)} | {"--json", "--help"}
        for flag in command["flags"]:
            if flag["words"]:
                assert complete(build, command["name"], flag["name"], "") == flag["words"]


@pytest.mark.parametrize("shell, file", [("bash", "lamina"), ("zsh", "_lamina"), ("fish", "lamina.fish")])
def test_completions_are_sound(build, program, shell, file):
    text = (build / "docs" / file).read_text()
    assert all(command["name"] in text for command in program["commands"])
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here to read it")
    done = run(shell, "-n", build / "docs" / file)
    assert done.returncode == 0 and done.stderr == ""
