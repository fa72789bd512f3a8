"""A build without lamina audit (-Daudit=disabled): the command reports this, and nothing else is missing."""
import json

import pytest
from conftest import run


@pytest.fixture(scope="session")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args)


def test_the_omitted_command_is_reported(lamina):
    done = lamina("audit", "page.md", "-m", "gpt2")
    assert done.returncode == 2 and not done.stdout and done.stderr == "error: audit: this build leaves the command out\n"


def test_other_commands_exist(lamina):
    commands = {c["name"] for c in json.loads(lamina("help", "--json").stdout)["commands"]}
    assert "audit" not in commands and {"run", "inspect", "report", "compare", "explain"} <= commands
    assert lamina("inspect", "gpt2", "--query", "architecture.layers").stdout == "12\n"
