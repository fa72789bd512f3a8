"""Constraints of run and chat: the output fits, also with speculative decoding; one that cannot be enforced is rejected by name."""
import json
import re

import pytest
from conftest import run

SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                                           "kind": {"enum": ["cat", "dog"]}}, "required": ["name", "age", "kind"], "additionalProperties": False}


@pytest.fixture(scope="module")
def lamina(build, model):
    def call(*args, command="run", **options):
        args += ("--raw",) if command == "run" and "--chat" not in args else ()
        return run(build / "src/cli/lamina", command, model, *args, **options)
    return call


def fits(text):
    value = json.loads(text)
    return list(value) == ["name", "age", "kind"] and len(value["name"]) <= 12 and 1 <= value["age"] <= 99 and value["kind"] in ("cat", "dog")


@pytest.mark.parametrize("more", [["--temp", "0"], ["--seed", "3", "--temp", "1.5"], ["--temp", "0", "--draft-ngram", "3"]], ids=["greedy", "hot", "drafted"])
def test_schema(lamina, more):
    done = lamina("--chat", "-p", "An animal as JSON", "--json-schema", json.dumps(SCHEMA), "-n", "120", "--json", *more)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["stop_reason"] == "eos" and fits(answer["text"]), done.stderr


def test_schema_of_a_file_in_chat(lamina, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    done = lamina("--temp", "0", "-n", "120", "-j", f"@{tmp_path}/s.json", command="chat", input="a dog\na cat\n")
    answers = re.findall(r"\{[^{}]*\}", done.stdout)
    assert done.returncode == 0 and len(answers) == 2 and all(map(fits, answers)), done.stdout


def test_regex_choice_and_grammar(lamina, tmp_path):
    done = lamina("-p", "The year is", "--regex", "[12][0-9]{3}", "-n", "20", "--seed", "1")
    assert re.fullmatch(r"[12]\d{3}", done.stdout.strip())
    done = lamina("-p", "Is water wet?", "--choice", "yes", "--choice", "no", "-n", "20", "--seed", "1")
    assert done.stdout.strip() in ("yes", "no")
    (tmp_path / "g.gbnf").write_text('root ::= ("ha" | "ho"){3} "!"\n')
    for flags in (["--grammar-file", tmp_path / "g.gbnf"], ["--grammar", 'root ::= ("ha" | "ho"){3} "!"']):
        assert re.fullmatch("(ha|ho){3}!", lamina("-p", "Laugh:", *flags, "-n", "20", "--seed", "2").stdout.strip())


def test_a_complete_constraint_ends_the_text_with_ignore_eos(lamina):
    """End tokens are excluded where the constraint allows another token; after its last one, the text ends without an error."""
    for flags, text in ((["--regex", "ab"], "ab"), (["--choice", "abc"], "abc"), (["--json-schema", '{"const": [1]}'], "[1]")):
        done = lamina("-p", "x", *flags, "--ignore-eos", "-n", "20")
        assert (done.returncode, done.stdout.strip()) == (0, text), done.stderr
    done = lamina("-p", "x", "--regex", "a*", "--ignore-eos", "-n", "20", "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)["ids"]) == 20


@pytest.mark.parametrize("flags, where", [
    (["--json-schema", '{"properties": {"a": {"uniqueItems": true}}}'], r"--json-schema: #/properties/a/uniqueItems: uniqueItems"),
    (["--json-schema", '{"$ref": "http://example.com/x"}'], r"--json-schema: #/\$ref"),
    (["--json-schema", '{"type": "object", "frobnicate": 1}'], r"--json-schema: #/frobnicate: frobnicate"),
    (["--json-schema", "{"], r"--json-schema: no JSON"),
    (["--json-schema", "false"], r"--json-schema: #: no value fits"),
    (["--regex", r"(a)\1"], r"--regex: a backreference"),
    (["--grammar", 'root ::= root "a"'], r"--grammar: the rule 'root' begins with itself"),
    (["--grammar", 'root ::= "a', "--regex", "b"], r"--regex: cannot be combined with --grammar"),
])
def test_rejections(lamina, flags, where):
    done = lamina("-p", "x", *flags, "-n", "4")
    assert done.returncode == 2 and done.stdout == "" and re.search(r"error: " + where, done.stderr), done.stderr
