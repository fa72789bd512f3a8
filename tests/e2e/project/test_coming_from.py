"""docs/guide/coming-from.md shows what a terminal shows, with `…` for numbers of one machine. The model's output is the same at every
instruction-set level: its choices have clear margins."""
import importlib.machinery
import importlib.util

import pytest
from conftest import MODEL, SOURCE, margins, run

loader = importlib.machinery.SourceFileLoader("coming_from", str(SOURCE / "scripts/coming-from"))
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("coming_from", loader))
loader.exec_module(script)
SESSIONS = script.BLOCK.findall(script.PAGE.read_text())


@pytest.mark.parametrize("command, shown", SESSIONS, ids=[c for c, _ in SESSIONS])
def test_session(build, model, command, shown):
    assert script.typed(command, (build / "src/cli/lamina").resolve()) == shown, "scripts/coming-from BUILD-FOLDER writes it again"


def test_each_program_has_its_sessions():
    assert len(SESSIONS) >= 12


@pytest.mark.parametrize("flags, stdin", [
    (["--chat", "-p", "Name the capital of France."], None), (["--raw", "-p", "1, 2, 3, 4, 5,"], None), (["--chat", "-p", "Name the capital of Japan."], None),
    (["--chat", "-p", "Repeat this text."], "Paris is in France. Rome is in Italy.\n"), (["--chat", "-p", "Name the\ncapital of France."], None)])
def test_the_shown_answers_have_a_margin(build, model, flags, stdin):
    """The best two tokens are more than 0.4 apart in natural logarithms; instruction-set levels differ by at most 0.12 on these prompts."""
    assert any(flags[-1].split("\n")[-1] in command for command, _ in SESSIONS)
    gaps = margins(run(build / "src/cli/lamina", "run", MODEL, *flags, "-n", 12, "--temp", 0, "--logprobs", 2, "--json", input=stdin))
    assert min(gaps) > 0.4, gaps
