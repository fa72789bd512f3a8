"""The programs of examples/, on the demo model."""
import re

import pytest
from conftest import run


@pytest.fixture
def example(build):
    return lambda name, *args, **options: run(build / "examples" / f"example_{name}", *args, **options)


def test_generate_continues_the_text(example, model):
    done = example("generate", model, "The capital of France is", "8")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert re.search(r"8 tokens, [\d.]+ per second, stopped: length", done.stderr)


def test_a_batch_gives_each_prompt_its_own_answer(example, model):
    texts = ["The capital of France is", "Once upon a time", "1, 2, 3, 4,"]
    together = example("batch", model, "12", *texts)
    assert together.returncode == 0, together.stderr
    alone = [example("batch", model, "12", text).stdout for text in texts]
    assert together.stdout == "".join(alone)
    assert together.stdout.startswith("The capital of France is") and "Paris" in alone[0]


def pieces(output):
    """Return the output of each prompt, and how it ended."""
    texts, ends = {}, {}
    for line in output.splitlines():
        n, kind, rest = re.fullmatch(r"(\d+)([:.]) (.*)", line).groups()
        if kind == ":":
            texts[n] = texts.get(n, "") + rest
        else:
            ends[n] = rest
    return texts, ends


def test_streams_arrive_in_parts_and_stopping_one_changes_no_other(example, model):
    texts = ["The capital of France is", "Once upon a time", "1, 2, 3, 4,", "Roses are red,", "def main():", "Water boils at",
             "My favourite colour is", "The sun"]
    alone, ends = pieces(example("stream", model, "24", *texts).stdout)
    assert len(ends) == 8 and set(ends.values()) <= {"eos", "length"}
    stopped, how = pieces(example("stream", model, "24", *texts, input="3\n").stdout)
    assert how.pop("3") == "cancelled" and alone.pop("3").startswith(stopped.pop("3", ""))
    assert stopped == alone and how == {n: e for n, e in ends.items() if n != "3"}


def test_serve_many_writes_the_same_however_many_are_written_at_once(example, model):
    lines = [f"{beginning} {n}" for beginning in ("My favourite number is", "Once upon a time there were") for n in (3, 7, 12, 40)]
    outputs = []
    for at_once in ("1", "3", "8"):
        done = example("serve_many", model, at_once, "12", input="\n".join(lines) + "\n")
        assert done.returncode == 0, done.stderr
        outputs.append(sorted(done.stdout.splitlines()))
        assert re.fullmatch(r"8 texts, \d+ tokens of prompts \(\d+ of them cached\), \d+ tokens written: [\d.]+ a second\n", done.stderr)
    assert outputs[0] == outputs[1] == outputs[2] and len(outputs[0]) == 8


def test_a_conversation_is_that_of_the_chat_command(example, build, model):
    """The library and the command render, sample and stop alike: two turns with the same seed give the same text."""
    lines = 'What is the capital of France?\nSay "hello".\n'
    command = run(build / "src/cli/lamina", "chat", model, "-n", 24, "--seed", 0, input=lines)
    assert command.returncode == 0 and example("chat", model, "24", input=lines).stdout == command.stdout != ""


def test_chat_answers_through_the_template_and_reads_nothing_twice(example, model):
    done = example("chat", model, "12", input='What is the capital of France?\nSay "hello".\n')
    assert done.returncode == 0 and done.stdout.count("\n") >= 2
    first, second = re.findall(r"(\d+) tokens read, (\d+) from the cache", done.stderr)
    assert first[1] == "0" and int(first[0]) > 30, "the template's tokens stand around the 7 of the question"
    assert int(second[1]) >= int(first[0]) > int(second[0])


def test_next_token_lists_probabilities(example, model):
    done = example("next_token", model, "The capital of France is", "3")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert " Paris" in last
    percent = [float(p) for p in re.findall(r"([\d.]+) %", last.split("→")[1])]
    assert len(percent) == 3 and percent == sorted(percent, reverse=True) and 0 < sum(percent) <= 100


def test_a_missing_model_is_one_line_and_its_exit_status(example):
    done = example("generate", "/nowhere.gguf", "x")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and "/nowhere.gguf" in done.stderr


def test_usage(example):
    for name in ("generate", "batch", "stream", "serve_many", "chat", "next_token"):
        assert example(name).returncode == 2


def test_first_replies_to_the_message(example, model):
    done = example("first", model, "What is the capital of France?")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Paris" in done.stdout and done.stdout.endswith("\n")
    missing = example("first", "no.gguf", "x")
    assert missing.returncode == 1 and "no such file or folder" in missing.stdout
