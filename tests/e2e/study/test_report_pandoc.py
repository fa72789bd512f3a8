"""lamina report for pandoc: formulas between $$, anchors as attributes, no block that only GitHub reads."""
import re
import shutil

import pytest
from conftest import run


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


def test_markdown_for_pandoc(lamina, tmp_path):
    text = lamina("report", "deepseek-v2-lite", "--format", "pandoc").stdout
    assert "```math" not in text and "```mermaid" not in text and "<details" not in text and text.count("\n$$\n") > 200
    assert not set(re.findall(r"\]\(#([^)]+)\)", text)) - set(re.findall(r"\{#([^}]+)\}", text))
    if not shutil.which("pandoc"):
        return
    (tmp_path / "a.md").write_text(text)
    done = run("pandoc", "a.md", "--mathml", "-t", "html", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count('display="block"') == text.count("\n$$\n") // 2
