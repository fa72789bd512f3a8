"""tokenize and detokenize as scripts use them: output formats, round trips and invalid lines."""
import json
import subprocess

import pytest
from conftest import PATIENCE, run

TEXTS = ["", " ", "Hello, world!", "  two  spaces ", "tabs\tand\nnewlines\r\n", "naïve café", "日本語テキスト", "Привет, мир",
         "עברית العربية", "👩‍👩‍👧‍👦 🏳️‍🌈", "e\u0301 \u212b \ufb01", "a\u2028b\u2029c\u0085d", "\u0000nul\u0001", "x" * 5000, "1234567890",
         "<|im_start|>user\nhi<|im_end|>", "\ufeffBOM", "def f(x):\n    return x ** 2\n", "\ud7ff\ue000\U0010ffff", "don't can't I'll"]


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def lines(values):
    """Return the values as JSON lines, half of them with \\u escapes, half as they are."""
    return "".join(json.dumps(v, ensure_ascii=i % 2 == 0) + "\n" for i, v in enumerate(values))


def jsonl(lamina, command, model, text, *flags):
    done = subprocess.run([lamina, command, model, "--jsonl", "-", *flags], input=text.encode(), capture_output=True, timeout=PATIENCE)
    return done.returncode, [json.loads(x) for x in done.stdout.decode().split("\n")[:-1]], done.stderr.decode()


def test_round_trips(lamina, model):
    status, ids, err = jsonl(lamina, "tokenize", model, lines(TEXTS))
    assert status == 0 and err == "" and len(ids) == len(TEXTS)
    assert ids[0] == [] and all(isinstance(i, int) for row in ids for i in row)
    status, back, err = jsonl(lamina, "detokenize", model, lines(ids))
    assert status == 0 and back == TEXTS


def test_the_text_form_is_id_and_piece(lamina, model, tmp_path):
    text = "Hello<|im_end|>\nworld"
    done = run(lamina, "tokenize", model, "-p", text)
    rows = [line.split("  ", 1) for line in done.stdout.split("\n")[:-1]]
    document = json.loads(run(lamina, "tokenize", model, "-p", text, "--json").stdout)
    assert [int(r[0]) for r in rows] == document["ids"] and [r[1] for r in rows] == document["pieces"]
    assert "<|im_end|>" in document["pieces"]
    path = tmp_path / "text"
    path.write_text(text)
    assert run(lamina, "tokenize", model, "-f", path).stdout == done.stdout
    assert run(lamina, "tokenize", model, input=text).stdout == done.stdout
    path.write_text(text + "\n")                                           # a trailing newline is part of the text
    assert len(run(lamina, "tokenize", model, "-f", path).stdout.splitlines()) == len(rows) + 1


def test_count_is_the_number_of_ids(lamina, model):
    for text in ("The sky is blue.", "", "Hello<|im_end|>\nworld"):
        n = len(json.loads(run(lamina, "tokenize", model, "-p", text, "--json").stdout)["ids"])
        assert run(lamina, "tokenize", model, "-p", text, "--count").stdout == f"{n}\n"
        document = json.loads(run(lamina, "tokenize", model, "-p", text, "--count", "--json").stdout)
        assert document == {"schema": "lamina.tokenize/1", "count": n}
    assert run(lamina, "tokenize", model, "-p", "The sky is blue.", "--count").stdout == "5\n"
    ids = jsonl(lamina, "tokenize", model, lines(TEXTS))[1]
    assert jsonl(lamina, "tokenize", model, lines(TEXTS), "--count") == (0, [len(row) for row in ids], "")
    done = run(lamina, "tokenize", model, "-p", "a", "--count", "--text")
    assert done.returncode == 2 and done.stderr.splitlines()[-1] == "error: --count: cannot be combined with --text"


def test_special_tokens(lamina, model):
    text = "a<|im_end|>b"
    parsed = json.loads(run(lamina, "tokenize", model, "-p", text, "--json").stdout)
    spelled = json.loads(run(lamina, "tokenize", model, "-p", text, "--json", "--no-parse-special").stdout)
    assert "<|im_end|>" in parsed["pieces"] and "<|im_end|>" not in spelled["pieces"]
    for document in (parsed, spelled):
        assert run(lamina, "detokenize", model, *document["ids"]).stdout == text + "\n"
    assert run(lamina, "detokenize", model, "--skip-special", *parsed["ids"]).stdout == "ab\n"
    assert run(lamina, "detokenize", model, "--skip-special", *spelled["ids"]).stdout == text + "\n"


@pytest.mark.parametrize("bad", ["5", "null", "[1]", "{}", '"open', '"a" "b"', "'a'", '"\\ud800"', '"\\x41"', '"tab\t"', "nonsense",
                                 "[" * 10000])
def test_a_line_that_is_not_a_string_stops_with_its_number(lamina, model, bad):
    status, ids, err = jsonl(lamina, "tokenize", model, f'"fine"\n{bad}\n"never read"\n')
    assert status == 2 and len(ids) == 1
    assert len(err.splitlines()) == 1 and err.startswith("error: line 2: ")


@pytest.mark.parametrize("bad", ["5", '"x"', "{}", "[1.5]", "[1e3]", "[-1]", "[true]", '["1"]', "[[1]]", "[4294967296]",
                                 "[99999999999999999999]", "[1,]", "[2147483648]", "[2147483647]"])
def test_a_line_without_ids_stops_with_its_number(lamina, model, bad):
    status, texts, err = jsonl(lamina, "detokenize", model, f"[1]\n{bad}\n[2]\n")
    assert status == 2 and len(texts) == 1
    assert len(err.splitlines()) == 1 and "line 2" in err


@pytest.mark.parametrize("command, good, bad", [("tokenize", '"a"', "xx"), ("detokenize", "[81]", "xx"), ("detokenize", "[81]", "[-1]")])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_wrong_line_is_a_document_on_a_line(lamina, model, command, good, bad, before):
    status, found, _ = jsonl(lamina, command, model, f"{good}\n" * before + f"{bad}\n", "--json")
    assert status == 2 and len(found) == before + 1
    assert found[-1]["error"]["where"] == f"line {before + 1}" and found[-1]["error"]["file"] == "standard input"


def test_bytes_that_are_not_utf8(lamina, model):
    done = subprocess.run([lamina, "tokenize", model, "--jsonl", "-"], input=b'"ok"\n"\xff\xfe"\n', capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and b"line 2" in done.stderr and b"offset 6" in done.stderr
    done = subprocess.run([lamina, "tokenize", model, "--json"], input=b"a\xffb\xe6\x97", capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["offset"] == 1


def test_half_a_character_is_a_replacement_character(lamina, model):
    ids = json.loads(run(lamina, "tokenize", model, "-p", "𝕏", "--json").stdout)["ids"]
    assert len(ids) > 1
    [text] = jsonl(lamina, "detokenize", model, json.dumps(ids[:-1]) + "\n")[1]
    assert text and set(text) == {"\ufffd"}


def test_only_newlines_end_lines(lamina, model):
    text = '"a\u2028b"\n"c\u0085d"\r\n"no newline at the end"'
    status, ids, _ = jsonl(lamina, "tokenize", model, text)
    assert status == 0 and len(ids) == 3
    assert jsonl(lamina, "detokenize", model, lines(ids))[1] == ["a\u2028b", "c\u0085d", "no newline at the end"]
    assert jsonl(lamina, "tokenize", model, "") == (0, [], "")


def test_ids_from_standard_input(lamina, model):
    for spelling in ("19556 2", "19556,2", "[19556, 2]\n"):
        assert run(lamina, "detokenize", model, input=spelling).stdout == run(lamina, "detokenize", model, 19556, 2).stdout


def test_a_bare_tokenizer_json(lamina, source):
    found = sorted((source / "build/assets/tokenizers").glob("*/tokenizer.json"))
    if not found:
        pytest.skip("no tokenizer.json here: scripts/setup test")
    for path in found:
        status, ids, err = jsonl(lamina, "tokenize", path, lines(["Hello wörld", "日本"]))
        assert status == 0, err
        if "mistral" not in str(path):                                     # its decoder removes one space
            assert jsonl(lamina, "detokenize", path, lines(ids))[1] == ["Hello wörld", "日本"]


def test_without_a_model_the_demo_model_is_named(lamina, model, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models/SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(model)
    done = run("env", f"LAMINA_CACHE={tmp_path}", lamina, "tokenize", "-p", "Hello")
    assert done.returncode == 0 and done.stdout == "19556  Hello\n" and "SmolLM2" in done.stderr
    done = run("env", f"LAMINA_CACHE={tmp_path}", lamina, "detokenize", "19556")
    assert done.returncode == 0 and done.stdout == "Hello\n"
    done = run("env", f"LAMINA_CACHE={tmp_path / 'none'}", lamina, "tokenize", "-p", "Hello")
    assert done.returncode == 1 and "scripts/setup" in done.stderr
