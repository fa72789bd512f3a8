"""The pages of lamina inspect, byte for byte. LAMINA_REWRITE=1 rewrites the golden files: read the diff."""
import os
import re

import pytest
from conftest import BARE, run

# The plan depends on the machine; these flags remove the dependence.
FIXED = ["--cpu", "ref", "--threads", "2", "--context", "8192"]
PAGES = {
    "overview-llama-3.2-3b": ["llama-3.2-3b"],
    "overview-llama-3.1-405b": ["llama-3.1-405b"],
    "layer0-llama-3.2-3b": ["llama-3.2-3b", "--layer", "0"],
    "layer27-llama-3.2-3b": ["llama-3.2-3b", "--layer", "27"],
    "info-llama-3.2-3b": ["llama-3.2-3b", "--view", "info"],
    "tree-llama-3.2-3b": ["llama-3.2-3b", "--view", "tree"],
    "torchinfo-llama-3.2-3b": ["llama-3.2-3b", "--view", "torchinfo"],
    "torchinfo-compat-llama-3.2-3b": ["llama-3.2-3b", "--view", "torchinfo", "--torchinfo-compat"],
    "params-llama-3.2-3b": ["llama-3.2-3b", "--view", "params"],
    "flops-llama-3.2-3b": ["llama-3.2-3b", "--view", "flops"],
    "kv-llama-3.2-3b": ["llama-3.2-3b", "--view", "kv"],
    "memory-llama-3.2-3b": ["llama-3.2-3b", "--view", "memory"],
    "rope-llama-3.2-1b": ["llama-3.2-1b", "--view", "rope"],
    "cards-deepseek-v2": ["deepseek-v2", "--view", "cards"],
    "formulas-mistral-7b-v0.1": ["mistral-7b-v0.1", "--view", "formulas"],
    "diagram-llama-3.2-3b": ["llama-3.2-3b", "--view", "diagram"],
    "diagram-deepseek-v2": ["deepseek-v2", "--view", "diagram"],
    "diagram-gpt-j-6b": ["gpt-j-6b", "--view", "diagram", "--context", "2048"],      # parallel blocks
    "diagram-gemma-2-2b": ["gemma-2-2b", "--view", "diagram"],                      # norms on both sides, alternating windows
    "diagram-olmo-2-7b": ["olmo-2-7b", "--view", "diagram", "--context", "4096"],    # norms after each branch
    "layers-gpt2": ["tests/golden/gpt2/plain", "--view", "layers", "--context", "48"],
}


@pytest.fixture(scope="module")
def lamina(build, source):
    env = {**os.environ, **BARE}
    return lambda *args: run(build / "src/cli/lamina", "inspect", *args, cwd=source, env=env)


@pytest.mark.parametrize("page", PAGES)
def test_page(lamina, source, page):
    golden = source / "tests/golden/analysis" / (page + ".txt")
    done = lamina(*FIXED, *PAGES[page])
    assert done.returncode == 0, done.stderr
    if os.environ.get("LAMINA_REWRITE"):
        golden.write_text(done.stdout)
    assert done.stdout == golden.read_text()


def test_torchinfo_reports_what_it_overcounts(lamina):
    done = lamina("llama-3.2-3b", "--view", "torchinfo", "--torchinfo-compat")
    assert "tied head counts twice" in done.stderr and "Total params: 3,606,752,256" in done.stdout
    assert "Total params: 3,212,749,824" in lamina("llama-3.2-3b", "--view", "torchinfo").stdout


def test_missing_views_and_layers(lamina):
    done = lamina("llama-3.2-3b", "--view", "nothing")
    assert done.returncode == 2 and "torchinfo" in done.stderr
    done = lamina("llama-3.2-3b", "--layer", "28")
    assert done.returncode == 2 and "28" in done.stderr


def test_all_views_of_every_family(lamina, source):
    for config in sorted((source / "tests/golden").glob("*/*/config.json")):
        done = lamina(config.parent, "--view", "all")
        assert done.returncode == 0, f"{config}: {done.stderr}"
        total = lamina(config.parent, "--query", "parameters.total").stdout.strip()
        assert re.search(rf"total +{int(total):,}", done.stdout), config


def test_facts_are_a_table(lamina):
    lines = [line.split("\t") for line in lamina("llama-3.2-1b", "--view", "facts").stdout.splitlines()]
    assert len(lines) > 1000 and all(len(line) == 5 for line in lines)
    facts = {line[0]: line for line in lines}
    assert facts["parameters.total"][1:4] == ["1235814400", "parameters", "program"]
    for path in list(facts)[:: len(facts) // 40]:
        assert lamina("llama-3.2-1b", "--query", path).returncode == 0, path
