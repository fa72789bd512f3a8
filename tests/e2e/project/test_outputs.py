"""docs/study/report.md lists all forty-one outputs, and the command of each prints what is expected of it."""
import os
import re
import shlex

import pytest
from conftest import SOURCE, run
from command_outputs import is_output_of

ROWS = re.findall(r"^\| (O-\d+) \|.*\| `(lamina [^`]*)` \|$", (SOURCE / "docs/study/report.md").read_text(), re.M)


def test_every_output_has_a_row():
    assert {o for o, _ in ROWS} == {f"O-{n}" for n in range(1, 42)}


@pytest.mark.parametrize("output, example", ROWS, ids=[o for o, _ in ROWS])
def test_example(build, source, model, output, example):
    env = {**os.environ, "LAMINA_MODEL": str(model)}
    done = run(build / "src/cli/lamina", *shlex.split(example)[1:], cwd=source, env=env)
    assert done.returncode == 0, done.stderr
    assert is_output_of(example.removeprefix("lamina "), done.stdout), done.stdout[:2000]
