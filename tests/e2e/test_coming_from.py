"""What docs/coming-from.md shows is what a terminal shows; `…` stands for figures of one machine."""
import importlib.machinery
import importlib.util

import pytest
from conftest import SOURCE

loader = importlib.machinery.SourceFileLoader("coming_from", str(SOURCE / "scripts/coming-from"))
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("coming_from", loader))
loader.exec_module(script)
SESSIONS = script.BLOCK.findall(script.PAGE.read_text())


@pytest.mark.parametrize("command, shown", SESSIONS, ids=[c for c, _ in SESSIONS])
def test_session(build, model, command, shown):
    assert script.typed(command, (build / "src/cli/lamina").resolve()) == shown, "scripts/coming-from BUILD-FOLDER writes it again"


def test_each_program_has_its_sessions():
    assert len(SESSIONS) >= 12
