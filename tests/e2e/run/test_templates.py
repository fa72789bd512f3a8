"""lamina template: output byte for byte, and one answer per line, whatever the line contains."""
import json
import shutil
import subprocess

import pytest
from conftest import PATIENCE, run

CHAT = {"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True}


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def answers(lamina, text):
    done = subprocess.run([lamina, "template", "--jsonl", "-"], input=text, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    return [json.loads(x) for x in done.stdout.decode().split("\n")[:-1]]


def test_the_model_s_own_template(lamina, model, tmp_path):
    context = tmp_path / "context.json"
    context.write_text(json.dumps(CHAT))
    done = run(lamina, "template", model, "--context", context)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert json.loads(run(lamina, "template", model, "--context", context, "--json").stdout)["text"] == done.stdout
    source = run(lamina, "template", model, "--show").stdout               # and the same from its source
    path = tmp_path / "t.jinja"
    path.write_text(source)
    assert run(lamina, "template", path, "--context", "-", input=json.dumps(CHAT)).stdout == done.stdout


def test_a_folder_needs_no_weights(lamina, source, tmp_path):
    shutil.copy(source / "tests/golden/llama/gqa/config.json", tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}!")
    done = run(lamina, "template", tmp_path, "--context", "-", input=json.dumps(CHAT))
    assert (done.returncode, done.stdout) == (0, "hi!"), done.stderr


CALLS = {"messages": [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": {"days": 12345678901234567890123}}},
        {"id": "b", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": '{"degrees": 31}'}]}
GLM = """[gMASK]<sop>{% for message in messages %}{% set meta = message.get("metadata", "") %}
{% if message.role == 'assistant' and meta %}<|assistant|>{{ meta }}
{{ message.content }}{% elif message.role in ['user', 'assistant', 'observation'] %}<|{{ message.role }}|>
{{ message.content }}{% endif %}{% endfor %}"""
HAMMER = """please directly output an empty list
{% for m in messages %}{{ m.role + ': ' + m.content + '.' }}{% endfor %}"""


@pytest.mark.parametrize("template, text", [
    # jinja2 with messages in the template's own form, from the model card of GLM-4-0414
    (GLM, '[gMASK]<sop><|user|>\nWeather?<|assistant|>\nI look.<|assistant|>get_weather\n{"days": 12345678901234567890123}'
          '<|assistant|>get_time\n{}<|observation|>\n{"degrees": 31}'),
    (HAMMER, 'please directly output an empty list\nuser: Weather?.assistant: I look..assistant: '
             '[{"name": "get_weather", "arguments": {"days": 12345678901234567890123}}, {"name": "get_time", "arguments": "{}"}].tool: {"degrees": 31}.'),
    ("{% for m in messages %}{{ m.role + ': ' + m.content + '.' }}{% endfor %}", 'user: Weather?.assistant: I look..tool: {"degrees": 31}.'),
])
def test_calls_of_templates_with_another_form(lamina, tmp_path, template, text):
    """GLM-4 and Hammer know no `tool_calls`: their templates would leave out calls, and GLM-4's the results."""
    (tmp_path / "t.jinja").write_text(template)
    done = run(lamina, "template", tmp_path / "t.jinja", "--context", "-", input=json.dumps(CALLS))
    assert (done.returncode, done.stdout) == (0, text), done.stderr


@pytest.mark.parametrize("template, context, text", [
    ("{{ x }}", {"x": "no newline is added"}, "no newline is added"),
    ("a\n", {}, "a"), ("a\n\n", {}, "a\n"), ("", {}, ""),
    ("{{ x }}", {"x": "\u0000\u2028é😀"}, "\u0000\u2028é😀"),
    ("{{ n }} {{ f }} {{ b }} {{ z }}", {"n": 12345678901234, "f": 0.1, "b": True, "z": None}, "12345678901234 0.1 True None"),
    ("{{ d | tojson }}", {"d": {"z": 1, "a": [1.0, "é"]}}, '{"z": 1, "a": [1.0, "é"]}'),
    ("{{ strftime_now('%Y-%m-%d') }}", {"now": "2024-02-29"}, "2024-02-29"),
    ("{{ strftime_now('%j %H:%M:%S.%f') }}", {"now": "2024-02-29T12:34:56.7+01:00"}, "060 12:34:56.700000"),
    ("{{ strftime_now('%H:%M:%S') }}", {"now": "2024-02-29 23:59"}, "23:59:00"),
])
def test_renderings(lamina, tmp_path, template, context, text):
    path = tmp_path / "t.jinja"
    path.write_text(template)
    done = subprocess.run([lamina, "template", path, "--context", "-"], input=json.dumps(context).encode(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout == text.encode()
    assert answers(lamina, json.dumps({"template": template, "context": context}).encode()) == [{"text": text}]


def test_the_model_gives_its_tokens_unless_the_context_does(lamina, model, tmp_path):
    contexts = ["{}", " { } ", json.dumps(CHAT), json.dumps({"bos_token": "B", "eos_token": "E", **CHAT}), '{"bos_token":"B"}']
    outputs = [run(lamina, "template", model, "--context", "-", input=c) for c in contexts]
    assert [o.returncode for o in outputs] == [0] * len(contexts), [o.stderr for o in outputs]
    for hostile in ("", "[]", "{", "{} x", "5", '{"a":}', "nonsense"):
        done = run(lamina, "template", model, "--context", "-", input=hostile)
        assert done.returncode != 0 and done.stdout == "" and done.stderr.splitlines()[-1].startswith("error: ")


HOSTILE = [b"null", b"[]", b'"x"', b"{", b'{"template":"x"}', b'{"context":{}}', b'{"template":5,"context":{}}',
           b'{"template":"x","context":[]}', b'{"template":"\xff","context":{}}', b"[" * 5000,
           b'{"template":"{{","context":{}}', b'{"template":"{% for %}","context":{}}', b'{"template":"{{ 1/0 }}","context":{}}',
           b'{"template":"{{ raise_exception(\'no\') }}","context":{}}', b'{"template":"{% include \'x\' %}","context":{}}',
           b'{"template":"{% for i in range(10**9) %}{% endfor %}","context":{}}',
           b'{"template":"{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}","context":{}}',
           b'{"template":"' + b"{{ (" * 3000 + b'","context":{}}', b'{"template":"{{ undefined.attribute }}","context":{}}']


def test_every_line_has_an_answer(lamina):
    good = b'{"template":"{{ x }}","context":{"x":"fine"}}'
    found = answers(lamina, b"\n".join(x for bad in HOSTILE for x in (bad, good)))
    assert len(found) == 2 * len(HOSTILE)
    assert all(a == {"text": "fine"} for a in found[1::2])
    for bad, a in zip(HOSTILE, found[::2]):
        assert list(a) == ["error"] and a["error"] and "\n" not in a["error"], bad
    by = dict(zip(HOSTILE, found[::2]))
    assert "no" in by[HOSTILE[14]]["error"] and "line 1" in by[HOSTILE[14]]["error"]


def test_lines_bring_their_own_templates(lamina):
    for flags, named in ((["--chat-template", "tool_use"], "--chat-template"), (["--pre", "llama-bpe"], "--pre")):
        done = run(lamina, "template", "--jsonl", "/dev/null", *flags)
        assert done.returncode == 2 and done.stderr.splitlines()[-1].endswith(f"cannot be combined with {named}")


def test_a_broken_template_names_its_line(lamina, tmp_path):
    path = tmp_path / "t.jinja"
    path.write_text("fine\n{% if %}\n")
    done = run(lamina, "template", path, "--context", "-", input="{}")
    assert done.returncode != 0 and "line 2" in done.stderr and str(path) in done.stderr


@pytest.mark.parametrize("name, content, message", [
    ("chat_template.jinja", None, "a link to a missing file"),
    ("tokenizer_config.json", '{"chat_template": ', "expected a value, found the end"),
])
def test_a_template_that_cannot_be_read_is_not_missing(lamina, source, tmp_path, name, content, message):
    folder = shutil.copytree(source / "tests/golden/llama/gqa", tmp_path / "m")
    (folder / name).unlink(missing_ok=True)
    if content is None:
        (folder / name).symlink_to("gone")
    else:
        (folder / name).write_text(content)
    done = run(lamina, "run", folder, "-p", "a", "-n", "1")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith(f"error: {folder / name}: ") and message in done.stderr and done.stderr.count("\n") == 1


BIG = 123456789012345678901234567890


@pytest.mark.parametrize("expression, text", [
    ("x", f"{BIG}"), ("x|tojson", f"{BIG}"), ("x|string|tojson", f'"{BIG}"'), ("(x ~ '')|tojson", f'"{BIG}"'), ("x|string|length", "30"), ("x|int", f"{BIG}"),
    ("[x]|string", f"[{BIG}]"), ("{'a': x}|tojson", f'{{"a": {BIG}}}'), ("{x: 1}|tojson", f'{{"{BIG}": 1}}'), ("x is number and x is integer", "True"),
    ("x is string or x is iterable or x is sequence", "False"), ("x == '%d'" % BIG, "False"), ("x == x", "True"), ("x > 5 and -5 < x and x > 1.5", "True"),
    ("[x, 1]|sort", f"[1, {BIG}]"), ("x|float", "1.2345678901234568e+29"), ("'%s' % x", f"{BIG}"), ("x[0] is defined", "False"),
    ("x|length", None), ("x|first", None), ("x + 'b'", None), ("'1' in x", None), ("x.upper()", None), ("x + 1", None), ("-x", None), ("x is odd", None), ("'%d' % x", None)])
def test_integers_beyond_64_bits(lamina, expression, text):
    """Results are those of jinja2 3.1.6. None: an error, as in jinja2, or because arithmetic on these integers is not supported."""
    answer = answers(lamina, json.dumps({"template": "{{ " + expression + " }}", "context": {"x": BIG}}).encode())[0]
    assert answer == {"text": text} if text else "error" in answer, answer


def test_integers_of_a_line_are_unchanged(lamina):
    numbers = [2 ** 64, -2 ** 63 - 1, 10 ** 400, 2 ** 63, -2 ** 62, 2 ** 62, 0]
    assert answers(lamina, json.dumps({"template": "{{ x|tojson }}", "context": {"x": numbers}}).encode()) == [{"text": json.dumps(numbers)}]
    assert "equal when rounded" in answers(lamina, json.dumps({"template": "{{ x }}", "context": {"x": [10 ** 30, 10 ** 30 + 1]}}).encode())[0]["error"]
