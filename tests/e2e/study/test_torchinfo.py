"""`--torchinfo-compat` prints what torchinfo 1.8.0 prints for the same tiny model (tools/oracle/tables.py)."""
import os
import pathlib

import pytest
from conftest import BARE, SOURCE, run

TABLES = sorted((SOURCE / "tests/golden/torchinfo").glob("*.txt"))


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.stem)
def test_byte_for_byte(build, source, table):
    config = source / "tests/golden" / pathlib.Path(*table.stem.split(".")) / "config.json"
    done = run(build / "src/cli/lamina", "inspect", config, "--view", "torchinfo", "--torchinfo-compat", "--precision", "f32", cwd=source,
               env={**os.environ, **BARE})
    assert done.returncode == 0, done.stderr
    assert done.stdout == table.read_text()


def test_tables_exist():
    families = {t.stem.split(".")[0] for t in TABLES}
    assert {"llama", "gpt2"} <= families and len(families) >= 14
