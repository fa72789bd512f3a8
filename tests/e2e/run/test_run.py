"""lamina run: output streams, JSON for scripts, interruption and exit statuses."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest
from conftest import BARE, PATIENCE, run

PARIS = "The capital of France is"
PARIS_IDS = [504, 3575, 282, 4649, 314]


@pytest.fixture(scope="module")
def lamina(build, model):
    def call(*args, **options):
        """Continue a text, unless the arguments say --chat."""
        return run(build / "src/cli/lamina", "run", model, *([] if "--chat" in args else ["--raw"]), *args, **options)
    return call


def document(done):
    return json.loads(done.stdout)


def test_paris(lamina):
    done = lamina("-p", PARIS, "-n", "8", "--temp", "0")
    assert done.returncode == 0
    assert done.stdout.startswith(" Paris")
    assert re.search(r"^prompt 5 tokens in .* tok/s\)  ·  generated 8 tokens in .* tok/s\)  ·  stopped: length$", done.stderr, re.M)


@pytest.mark.parametrize("n", [0, 1])
def test_unmeasured_passes_have_no_speed(lamina, n):
    done = lamina("-p", PARIS, "-n", n, "--temp", "0", "--json")
    assert document(done)["timings"]["generated_per_second"] is None and len(document(done)["ids"]) == n
    assert re.search(rf"generated {n} tokens? in .* \(– tok/s\)  ·  stopped", done.stderr)


def test_stdout_is_the_text_and_nothing_else(lamina):
    plain, data = lamina("-p", PARIS, "-n", "5", "--temp", "0"), document(lamina("-p", PARIS, "-n", "5", "--temp", "0", "--json"))
    assert plain.stdout == data["text"]


def test_a_seed_can_be_given_back(lamina):
    seed = 2**63 - 1
    assert document(lamina("-p", PARIS, "-n", "1", "-s", str(seed), "--json"))["seed"] == seed
    done = lamina("-p", PARIS, "-n", "1", "-s", str(seed + 1))
    assert done.returncode == 2 and "--seed" in done.stderr


def test_json(lamina):
    j = document(lamina("-p", PARIS, "-n", "3", "--temp", "0", "--json", "--logprobs", "4"))
    assert j["prompt_ids"] == PARIS_IDS and j["prompt"] == PARIS
    assert len(j["ids"]) == 3 and j["text"].startswith(" Paris") and j["stop_reason"] == "length"
    assert j["warnings"] == [] and isinstance(j["seed"], int)
    t = j["timings"]
    assert t["prompt_tokens"] == 5 and t["generated_tokens"] == 3 and t["prompt_seconds"] > 0 and t["generate_seconds"] > 0
    assert t["prompt_per_second"] == pytest.approx(5 / t["prompt_seconds"])
    assert t["generated_per_second"] == pytest.approx(2 / t["generate_seconds"]), "the first token comes with the prompt"
    for id, position in zip(j["ids"], j["logprobs"], strict=True):
        assert position["id"] == id and len(position["top"]) == 4
        logprobs = [x["logprob"] for x in position["top"]]
        assert logprobs == sorted(logprobs, reverse=True) and max(logprobs) < 0
        assert position["top"][0]["id"] == id and position["logprob"] == logprobs[0]          # greedy


@pytest.mark.parametrize("how", ["flag", "file", "pipe", "ids"])
def test_sources_of_the_prompt(lamina, tmp_path, how):
    given = {"flag": ["-p", PARIS], "file": ["-f", tmp_path / "prompt"], "pipe": [], "ids": ["--ids", ",".join(map(str, PARIS_IDS))]}[how]
    (tmp_path / "prompt").write_text(PARIS + "\n")
    done = lamina(*given, "-n", "2", "--temp", "0", "--json", input=PARIS + "\n" if how == "pipe" else None)
    assert document(done)["prompt_ids"] == PARIS_IDS


def test_chat_uses_the_template(lamina):
    j = document(lamina("--chat", "--system", "Be brief.", "-p", "Hi <|im_end|>", "-n", "1", "--temp", "0", "--json"))
    assert j["prompt"] == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert j["prompt_ids"].count(1) == 3 and j["prompt_ids"].count(2) == 2, "what the message spells is not the end of its turn"
    j = document(lamina("--chat", "--system", "Be brief.", "-p", "Hi <|im_end|>", "-n", "1", "--temp", "0", "--json", "--parse-special"))
    assert j["prompt_ids"].count(2) == 3


def test_the_template_is_the_default(build, model, tmp_path):
    """The template is applied wherever the model has one: -p, -f, a pipe, --json, a constraint; --raw continues; --ids are as given."""
    def ids(*args, **options):
        return document(run(build / "src/cli/lamina", "run", model, *args, "-n", "1", "--temp", "0", "--json", **options))["prompt_ids"]
    (tmp_path / "prompt").write_text(PARIS)
    answered = ids("--chat", "-p", PARIS)
    assert ids("--raw", "-p", PARIS) == ids("--ids", ",".join(map(str, PARIS_IDS))) == PARIS_IDS and answered[0] == 1 and len(answered) > len(PARIS_IDS)
    assert answered == ids("-p", PARIS) == ids("-f", tmp_path / "prompt") == ids(input=PARIS) == ids("-p", PARIS, "--choice", "Paris")
    done = run(build / "src/cli/lamina", "run", model, "-p", PARIS, "-n", "4", "--temp", "0")
    assert "template" not in done.stderr, "a script has no use for the note"


def test_ends_at_the_end_of_the_turn(lamina):
    j = document(lamina("--chat", "-p", "Say OK.", "--temp", "0", "-n", "200", "--json"))
    assert j["stop_reason"] == "eos" and j["ids"][-1] == 2 and "<|im_end|>" not in j["text"]
    j = document(lamina("--chat", "-p", "Say OK.", "--temp", "0", "-n", "60", "--json", "--ignore-eos"))
    assert j["stop_reason"] == "length" and len(j["ids"]) == 60 and 2 not in j["ids"]


def test_stop_strings(lamina):
    whole = lamina("-p", "1, 2, 3, 4,", "-n", "24", "--temp", "0").stdout
    assert " 7, 8" in whole
    done = lamina("-p", "1, 2, 3, 4,", "-n", "24", "--temp", "0", "-r", "nowhere", "--stop", "7, 8", "--json")
    j = document(done)
    assert (j["stop_reason"], j["stop_string"]) == ("stop", "7, 8") and j["text"] == whole[:whole.index("7, 8")]


def test_a_full_context_stops(lamina):
    j = document(lamina("-p", PARIS, "-c", "9", "--temp", "0", "--json"))
    assert j["stop_reason"] == "context" and len(j["ids"]) == 9 - 5 + 1
    done = lamina("-p", PARIS, "-c", "4")
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "error: prompt: 5 tokens; the context size is 4"


def test_seeds(lamina):
    def text(*args):
        return lamina("-p", "Once upon a time", "-n", "12", "--temp", "1.5", *args).stdout
    assert text("--seed", "1") == text("--seed", "1")
    assert len({text("--seed", str(s)) for s in range(4)}) > 1


def test_chunks_and_threads_do_not_matter(lamina):
    prompt = PARIS * 20
    texts = {lamina("-p", prompt, "-n", "6", "--seed", "3", *how).stdout for how in ([], ["-ub", "7"], ["-b", "33"], ["-t", "1"])}
    assert len(texts) == 1


def test_samplers(lamina):
    one = lamina("-p", PARIS, "-n", "6", "--top-k", "1", "--seed", "9").stdout
    assert one == lamina("-p", PARIS, "-n", "6", "--temp", "0").stdout
    biased = document(lamina("-p", PARIS, "-n", "1", "--temp", "0", "-l", "7042-inf", "--json"))
    assert biased["ids"] != [7042] and document(lamina("-p", PARIS, "-n", "1", "--temp", "0", "-l", "30+100", "--json"))["ids"] == [30]


@pytest.mark.parametrize("args, status, words", [
    (["-p", "x", "--tmep", "1"], 2, "--tmep: unknown flag of lamina run"),
    (["-p", "x", "--temp", "warm"], 2, '--temp: "warm" is not a number'),
    (["-p", "x", "-n"], 2, "-n: needs a value: N"),
    (["-p", "x", "--top-p", "2"], 2, "--top-p: 2 is outside 0 ... 1"),
    (["-p", "x", "--samplers", "top_k;best"], 2, '--samplers: unknown sampler "best"'),
    (["-p", "x", "--mirostat", "1"], 2, "--mirostat: 1 is neither 0 (off) nor 2"),
    (["-p", "x", "-ctk", "q8_0", "--kv-type", "f16"], 2, "--cache-type-k: q8_0 cannot be combined with --kv-type f16"),
    (["-p", "x", "-l", "99999999+1"], 2, "--logit-bias: token 99999999 is outside the vocabulary"),
    (["-p", "x", "--ids", "1"], 2, "-p, -f and --ids cannot be combined"),
    (["--ids", "1,x"], 2, "is not a token id"),
    (["-p", ""], 2, "the prompt has no tokens"),
    (["-f", "/nowhere"], 1, "/nowhere: no such file or folder"),
    (["-p", "x", "--cpu", "z80"], 2, "z80"),
])
def test_errors(lamina, args, status, words):
    done = lamina(*args)
    assert done.returncode == status and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and words in last
    j = document(lamina(*args, "--json"))
    assert set(j["error"]) == {"code", "message", "file", "where", "offset"}


def test_a_file_that_is_not_a_model(build, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really" * 10)
    done = run(build / "src/cli/lamina", "run", tmp_path / "bad.gguf", "-p", "x")
    assert done.returncode == 3 and "bad.gguf" in done.stderr.splitlines()[-1]
    done = run(build / "src/cli/lamina", "run", "no-such-model", "-p", "x")
    assert done.returncode == 1 and "no-such-model" in done.stderr.splitlines()[-1]


def test_the_demo_model_is_the_default(build, model, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(model)
    env = {"LAMINA_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for name in ([], ["smollm2-135m-instruct"]):
        done = run(build / "src/cli/lamina", "run", *name, "--raw", "-p", PARIS, "-n", "1", "--temp", "0", env=env)
        assert done.stdout == " Paris" and ("demo model" in done.stderr) == (not name)
    done = run(build / "src/cli/lamina", "run", "-p", "x", env={**BARE, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and "demo model is not installed" in done.stderr


def test_interrupted(build, model):
    process = subprocess.Popen([build / "src/cli/lamina", "run", model, "--raw", "-p", PARIS, "--ignore-eos", "--temp", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun = process.stdout.read(6)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert begun == " Paris" and process.returncode == 130 and "stopped: interrupted" in err
    assert err.splitlines()[-1] == "error: interrupted"


@pytest.mark.parametrize("delay", [0, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("command", [["run", "-p", PARIS], ["run"], ["embed", "-p", PARIS * 1500]])
def test_interrupted_while_loading(build, model, command, delay):
    """Once the model is being opened, Ctrl-C ends the program cleanly, whether it loads weights, reads the prompt or runs a step."""
    process = subprocess.Popen([build / "src/cli/lamina", *command, "-v", "-m", model, "--compute", "f32"], stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not process.stderr.readline().startswith("model "):
        assert process.poll() is None
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    err = process.stderr.read()
    assert process.wait(PATIENCE) == 130 and err.splitlines()[-1] == "error: interrupted"


def test_interrupted_twice(build, model):
    """A second Ctrl-C ends a program that has not yet reacted to the first."""
    def status():
        process = subprocess.Popen([build / "src/cli/lamina", "run", model, "--raw", "-p", PARIS * 50, "--ignore-eos", "--temp", "0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.read(6)
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        return process.returncode
    assert any(status() == -signal.SIGINT for _ in range(20))


def test_no_server_listens(build, model):
    process = subprocess.Popen([build / "src/cli/lamina", "run", model, "--raw", "-p", PARIS, "--ignore-eos", "--temp", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.read(6)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=PATIENCE) == -signal.SIGPIPE and "error" not in err


def test_escapes(lamina):
    want = document(lamina("-p", "a\nb\\A\tc", "-n", "1", "--json"))["prompt_ids"]
    assert document(lamina("-e", "-p", r"a\nb\\\x41\tc", "-n", "1", "--json"))["prompt_ids"] == want
    assert document(lamina("--no-escape", "-p", r"a\nb", "-n", "1", "--json"))["prompt"] == r"a\nb"


def test_special_tokens_are_shown_on_request(lamina):
    ask = ["--chat", "-p", "Say hi.", "--temp", "0"]
    plain, special = lamina(*ask), lamina(*ask, "--special")
    assert special.stdout == plain.stdout + "<|im_end|>"


def test_the_model_cannot_control_the_terminal(build, model):
    """Token 212 is ESC."""
    terminal, end = pty.openpty()
    ask = [build / "src/cli/lamina", "run", model, "-q", "-p", "x", "-n", "3", "-l", "212+1000", "--temp", "0"]
    assert subprocess.run(ask, stdout=end, stderr=subprocess.DEVNULL, timeout=PATIENCE).returncode == 0
    assert os.read(terminal, 100).decode().strip() == "\u241b" * 3
    assert subprocess.run(ask, capture_output=True, timeout=PATIENCE).stdout == b"\x1b" * 3, "a pipe gets the bytes"


# ---- speculative decoding ----

CODE = "def a(path):\n    with open(path) as f:\n        return f.read()\n\ndef b(path):\n    with open(path) as f:\n"


@pytest.mark.parametrize("how", [["--temp", "0"], ["--temp", "0.9", "--seed", "7", "--repeat-penalty", "1.1"]])
def test_drafts_do_not_change_the_answer(lamina, model, how):
    plain = document(lamina("-p", CODE, "-n", "40", "--json", "--logprobs", "2", *how))
    for draft in (["--draft-ngram", "3"], ["-md", model, "--draft-max", "5"], ["--draft-ngram", "2", "-md", model]):
        j = document(lamina("-p", CODE, "-n", "40", "--json", "--logprobs", "2", *how, *draft))
        assert (j["ids"], j["text"], j["logprobs"], j["stop_reason"]) == (plain["ids"], plain["text"], plain["logprobs"], plain["stop_reason"])
        assert 0 <= j["timings"]["accepted_tokens"] <= j["timings"]["drafted_tokens"]
    assert plain["timings"]["drafted_tokens"] == 0


def test_drafts_are_counted(lamina):
    done = lamina("-p", "la la la la la la la la la la la la la la la la la la", "-n", "64", "--temp", "0", "--draft-ngram", "4")
    assert re.search(r"\d+ of \d+ draft tokens accepted", done.stderr)


def test_unsuitable_draft_models_are_rejected(lamina, source):
    assert lamina("-p", PARIS, "--draft-max", "4").returncode == 2
    done = lamina("-p", PARIS, "-md", source / "tests/golden/llama/gqa/model.gguf")
    assert done.returncode == 2 and "tokens" in done.stderr and len([x for x in done.stderr.splitlines() if x.startswith("error:")]) == 1


@pytest.mark.parametrize("flag", ["--stop", "--reverse-prompt"])
def test_stop_strings_are_utf8(lamina, flag):
    done = lamina("-p", "a", "-n", "1", flag, "ok", flag, os.fsdecode(b"cl\xe9"))
    assert done.returncode == 2 and "is not UTF-8" in done.stderr, done.stderr
