"""run --ensemble: models that choose tokens together, compared with the same mixture of their separate log-probabilities, computed here."""
import array
import json
import math
import shutil
import struct

import pytest
from conftest import MODEL, SOURCE, run

TINY = SOURCE / "tests/golden/llama/gqa"
PROMPT = [5, 17, 40, 9]
VOCABULARY = 131


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The same model with another head."""
    folder = tmp_path_factory.mktemp("models") / "other"
    shutil.copytree(TINY, folder)
    data = bytearray((TINY / "model.safetensors").read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + size])["lm_head.weight"]["data_offsets"]
    head = array.array("f", data[8 + size + begin:8 + size + end])
    data[8 + size + begin:8 + size + end] = array.array("f", [2 * x * math.cos(i) for i, x in enumerate(head)]).tobytes()
    (folder / "model.safetensors").write_bytes(data)
    (folder / "model.gguf").unlink()
    return folder


def alone(lamina, model, ids):
    """Return the log-probabilities of all tokens after `ids`."""
    reply = json.loads(run(lamina, "run", model, "--ids", ",".join(map(str, ids)), "-n", 1, "--temp", 0, "--logprobs", VOCABULARY, "--json", "--ignore-eos").stdout)
    top = reply["logprobs"][0]["top"]
    assert len(top) == VOCABULARY
    return [t["logprob"] for t in sorted(top, key=lambda t: t["id"])]


def normalised(x):
    most = max(x)
    total = math.log(sum(math.exp(v - most) for v in x)) + most
    return [v - total for v in x]


def mixture(rule, a, b, wa, wb):
    if rule == "mean":
        return normalised([math.log(wa * math.exp(x) + wb * math.exp(y)) for x, y in zip(a, b)])
    if rule == "logmean":
        return normalised([wa * x + wb * y for x, y in zip(a, b)])
    return normalised([(1 + wb) * x - wb * y if x >= max(a) + math.log(0.1) else -1e9 for x, y in zip(a, b)])


def together(lamina, members, *flags):
    done = run(lamina, "run", "--ensemble", members, "--ids", ",".join(map(str, PROMPT)), "-n", 6, "--temp", 0, "--ignore-eos", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("rule", ["mean", "logmean", "contrast"])
def test_the_mixture_equals_the_formula(lamina, other, rule):
    reply = together(lamina, f"both={TINY}:0.9,{other}:0.6", "--ensemble-rule", rule)
    wa, wb = (0.9 / 1.5, 0.6 / 1.5) if rule != "contrast" else (0.9, 0.6)
    assert reply["ensemble"]["name"] == "both" and reply["ensemble"]["rule"] == rule
    assert [m["weight"] for m in reply["ensemble"]["models"]] == pytest.approx([wa, wb])
    assert [t["id"] for t in reply["ensemble"]["tokens"]] == reply["ids"] and len(reply["ids"]) == 6
    ids = list(PROMPT)
    for token in reply["ensemble"]["tokens"]:
        a, b = alone(lamina, TINY, ids), alone(lamina, other, ids)
        mixed = mixture(rule, a, b, wa, wb)
        assert mixed[token["id"]] == pytest.approx(max(mixed), abs=1e-4)
        assert token["logprob"] == pytest.approx(mixed[token["id"]], abs=1e-4)
        assert token["members"] == pytest.approx([a[token["id"]], b[token["id"]]], abs=1e-4)
        ids.append(token["id"])


def test_an_ensemble_of_one_model_twice_is_that_model(lamina):
    one = json.loads(run(lamina, "run", TINY, "--ids", ",".join(map(str, PROMPT)), "-n", 6, "--temp", 0, "--ignore-eos", "--json").stdout)
    assert together(lamina, f"{TINY},{TINY}")["ids"] == one["ids"] and together(lamina, f"{TINY}:3,{TINY}:1,{TINY}", "--ensemble-rule", "logmean")["ids"] == one["ids"]


def test_chunks_drafts_and_constraints_change_nothing_else(lamina, other):
    whole = together(lamina, f"{TINY},{other}")
    assert together(lamina, f"{TINY},{other}", "-ub", 1)["ids"] == whole["ids"]
    assert together(lamina, f"{TINY},{other}", "--draft-ngram", 2)["ids"] == whole["ids"]
    held = run(lamina, "run", "--ensemble", f"{TINY},{other}", "-p", "a", "-n", 8, "--temp", 0, "--regex", "[ab]{3}", "--no-chat")
    assert held.returncode == 0 and set(held.stdout.strip()) <= {"a", "b"} and len(held.stdout.strip()) == 3, held


@pytest.mark.parametrize("members,flags,status,why", [
    (f"{TINY}", [], 2, "expected two or more models"), (f"{TINY}:0,{TINY}", [], 2, "a weight must be above 0"), (f"{TINY},", [], 2, "without a name"),
    (f"{TINY},{TINY},{TINY}", ["--ensemble-rule", "contrast"], 2, "contrast compares two"), (f"{TINY},/nowhere", [], 1, "/nowhere"),
    (f"{TINY},{TINY}", ["--logprobs", "3"], 2, "--logprobs"), (f"{TINY},{TINY}", ["-m", TINY], 2, "--ensemble"), (f"{TINY},{MODEL}", [], 2, "smollm2"),
])
def test_incompatible_models_are_rejected(lamina, model, members, flags, status, why):
    done = run(lamina, "run", "--ensemble", members, "--ids", "1,2", "-n", 1, *flags)
    assert done.returncode == status and why in done.stderr.splitlines()[-1], done.stderr
