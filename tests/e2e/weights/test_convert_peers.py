"""Converted files in llama.cpp: lamina writes the files whose logits tools/oracle/converted.py has compared, and the table of
docs/dev/weights-as-tested.md matches."""
import fnmatch
import hashlib
import os

import pytest
from conftest import BARE, SOURCE, run, some

GOLDEN = SOURCE / "tests/golden"
PEERS = [line.split("\t") for line in (GOLDEN / "convert/peers.tsv").read_text().splitlines()]
DIFFERENCES = [line.split("\t") for line in (GOLDEN / "convert/differences.tsv").read_text().splitlines() if line and line[0] != "#"]
PAIRED = {"llama", "internlm3", "ministral3", "mistral", "mixtral", "granite", "granitemoe", "granitemoe_swa", "smollm3", "granitemoehybrid", "nemotron_h"}     # as in test_convert.py
FOLDED = {"falcon_h1"}
# Cases that do not have the same bits, and why.
OTHERWISE = {
    "deepseek_v2/older-gguf": "its own converter's golden has the form of early 2025",
    "glm4_moe_lite/flash": "its own converter's golden has no function of the scores, which llama.cpp takes for softmax in so small a model",
    "llama/rope-llama3": "two of its factors differ in the last bit: float64 here, float32 there",
    "llama4_text/scout": "factors of its rotation differ in the last bit: float64 here, float32 there",
    "mixtral/experts-apart": "the golden keeps experts apart, which llama.cpp no longer reads; lamina's file stacks them",
}


@pytest.mark.parametrize("case, kind, digest, found", some(PEERS), ids=[p[0] for p in some(PEERS)])
def test_the_file_is_the_one_that_was_compared(build, tmp_path, case, kind, digest, found):
    done = run(build / "src/cli/lamina", "convert", f"tests/golden/{case}", tmp_path / "o.gguf", "--type", kind, "-q", cwd=SOURCE, env={**os.environ, **BARE})
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((tmp_path / "o.gguf").read_bytes()).hexdigest() == digest, "tools/oracle/converted.py compares it again"
    assert found in ("bits", "neither") or case in OTHERWISE


def test_every_exception_is_still_one():
    assert {case for case, *_, found in PEERS if found not in ("bits", "neither")} == set(OTHERWISE)
    assert sum(found == "bits" for *_, found in PEERS) >= 63


def rows():
    families = sorted({case.split("/")[0] for case, *_ in PEERS})
    for family in families:
        mine = [p for p in PEERS if p[0].startswith(family + "/")]
        same, read = sum(p[3] == "bits" for p in mine), sum(p[3] != "neither" for p in mine)
        listed = {d[0] for d in DIFFERENCES if d[1] != "*" and any(fnmatch.fnmatchcase(p[0], d[1]) for p in mine)}
        logits = f"{same} of {read}" if read else "–"
        exact = "up to the order of sums" if family in PAIRED else "up to rounding: multipliers" if family in FOLDED else "to the bit"
        yield f"| {family} | {len(mine)} | {exact} | {logits} | {len(listed) or 'none'} |"


def test_the_table_of_the_page():
    page = (SOURCE / "docs/dev/weights-as-tested.md").read_text()
    missing = [row for row in rows() if row not in page]
    assert not missing, "\n".join(missing)
