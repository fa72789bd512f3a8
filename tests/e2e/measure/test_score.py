"""lamina score: the log-probabilities of a text, as a table and as JSON."""
import json
import subprocess

import pytest
from conftest import PATIENCE, run


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def test_texts_through_the_tokenizer(lamina, source, model):
    """Scores agree with those of transformers for every fifth text (the unit test checks all, by ids)."""
    texts = [json.loads(x) for x in (source / "tests/golden/smollm2/scores.jsonl").read_text().splitlines()][::5]
    done = subprocess.run([lamina, "score", model, "--jsonl", "-", "--compute", "f32", "--kv-type", "f32"], capture_output=True, text=True,
                          input="".join(json.dumps(t["text"]) + "\n" for t in texts), timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        ours, total = json.loads(line), sum(text["logprobs"])
        assert ours["ids"] == text["ids"] and ours["tokens"][0] is None and ours["scored"] == len(text["logprobs"])
        assert abs(ours["logprob"] - total) <= 1e-4 * abs(total), text["text"]
        for token, theirs in zip(ours["tokens"][1:], text["logprobs"], strict=True):
            assert abs(token["logprob"] - theirs) <= 1e-4 * max(1, abs(theirs))


def test_forms_agree(lamina, model):
    table = run(lamina, "score", model, "-p", "The capital of France is Paris.", "--logprobs", "2")
    document = json.loads(run(lamina, "score", model, "-p", "The capital of France is Paris.", "--logprobs", "2", "--json").stdout)
    by_ids = json.loads(run(lamina, "score", model, "--ids", json.dumps(document["ids"]), "--json").stdout)
    rows = [line.split() for line in table.stdout.split("\n\n")[0].splitlines()[1:]]
    assert [int(r[1]) for r in rows] == document["ids"][1:] and document["ids"] == by_ids["ids"]
    assert [int(r[3]) for r in rows] == [t["rank"] for t in document["tokens"][1:]]
    assert all(t["rank"] == 0 or t["top"][0]["logprob"] > t["logprob"] for t in document["tokens"][1:])
    assert document["logprob"] == by_ids["logprob"] == pytest.approx(sum(t["logprob"] for t in document["tokens"][1:]))
    assert f"perplexity       {document['perplexity']:.4f}\n" in table.stdout


def test_run_scores_its_prompt(lamina, model):
    """With nothing to generate, run --logprobs scores the prompt, with the numbers of lamina score."""
    text = ["-p", "The capital of France is Paris.", "--logprobs", "2"]
    score, done = run(lamina, "score", model, *text), run(lamina, "run", model, "--raw", *text, "-n", "0")
    assert done.stdout == "" and score.stdout in done.stderr
    document = json.loads(run(lamina, "run", model, "--raw", *text, "-n", "0", "--json").stdout)
    assert document["prompt_logprobs"] == json.loads(run(lamina, "score", model, *text, "--json").stdout)["tokens"]
    assert "logprobs" not in document and document["ids"] == [] and document["stop_reason"] == "length"


@pytest.mark.parametrize("args, shows, status", [
    (["-p", "hi", "-f", "x"], "error: score: ", 2),
    (["-p", ""], "error: text: no tokens to score", 2),
    (["--ids", "1,99999999"], "error: text: token 99999999 is outside the vocabulary", 2),
    (["--ids", "1,2,3", "-c", "2"], "error: text: 3 tokens; the context size is 2", 1),
    (["-f", "/nonexistent"], "error: /nonexistent: ", 1),
])
def test_rejections(lamina, model, args, shows, status):
    done = run(lamina, "score", model, *args)
    assert done.returncode == status and done.stdout == "" and shows in done.stderr.splitlines()[-1], done.stderr


def test_a_wrong_line_is_named(lamina, model):
    done = subprocess.run([lamina, "score", model, "--jsonl", "-"], input='[504, 2365]\n{"text": 1}\n', capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and len(done.stdout.splitlines()) == 1
    assert done.stderr.splitlines()[-1] == "error: line 2: standard input: not a JSON string or array of ids"
    done = subprocess.run([lamina, "score", model, "--jsonl", "-"], input='[504, 2365]\n""\n', capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr.splitlines()[-1] == "error: line 2: text: standard input: no tokens to score"
