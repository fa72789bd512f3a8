"""Kinds of problems that users of other programs reported, tested in commands and in the library. For the server: test_serve_reports.py,
test_serve_messages.py, test_serve_files.py."""
import json
import shutil

import pytest
from conftest import SOURCE, run

MARK = b"\xef\xbb\xbf"
LARGE = ["18446744073709551615", "-9223372036854775809", "1" + "0" * 400, "1e400", "-1e999"]


@pytest.fixture
def lamina(build):
    return build / "src/cli/lamina"


def answer_of(lamina, command, model, *flags, text="Hello", n=4, **more):
    """Return the result of `run`, or of `chat` with one message."""
    if command == "run":
        return run(lamina, "run", model, "-p", text, "-n", n, "--temp", 0, *flags, **more)
    return run(lamina, "chat", model, "-n", n, "--temp", 0, *flags, input=text + "\n", **more)


SHOWS = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %} {{ c.function.arguments | tojson }}{% endfor %};{% endfor %}"
CALLED = [{"role": "user", "content": "time?"}, {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "clock"}}]},
          {"role": "tool", "content": "noon"}]


def loaded(lamina, model, folder, messages, template=SHOWS, then="More."):
    """Load a conversation, continue it with `then`, and save it as d.json; return the result."""
    (folder / "t.jinja").write_text(template)
    (folder / "c.json").write_text(json.dumps({"messages": messages}))
    return run(lamina, "chat", model, "--load", folder / "c.json", "-n", 1, "--temp", 0, "--chat-template-file", folder / "t.jinja",
               input=f"{then}\n/save! {folder / 'd.json'}\n")


def saved(folder):
    return json.loads((folder / "d.json").read_text())["messages"]


both = pytest.mark.parametrize("command", ["run", "chat"])


# ---- 1 ollama#13497, vllm#6626: bytes of partial characters ----

def test_trace_and_score_return_bytes_of_partial_characters(lamina, model):
    text = "a🦙é"
    trace = json.loads(run(lamina, "trace", model, "-p", text, "--lens", 0, "--json").stdout)["tokens"]
    assert any("bytes" in t for t in trace)
    assert b"".join(bytes(t.get("bytes") or t["text"].encode()) for t in trace) == text.encode()
    assert all("bytes" in one for t in trace for one in t["top"] if "\ufffd" in one["text"])
    score = json.loads(run(lamina, "score", model, "-p", text, "--json").stdout)["tokens"]
    assert b"".join(bytes(t["bytes"]) for t in score[1:]) == text.encode()[1:]


# ---- 2 vllm#45807: which stop matched ----

@both
@pytest.mark.parametrize("stops,which", [(["nowhere", "e"], "e"), (["", "e", "o"], None), (["nowhere"], None)])
def test_the_matched_stop_is_returned(lamina, model, command, stops, which):
    chat = ("--chat",) if command == "run" else ()
    flags = [x for stop in stops for x in ("-r", stop)]
    whole = answer_of(lamina, command, model, *chat, n=8).stdout
    which = which if len(stops) < 3 else min("eo", key=whole.index)
    answer = json.loads(answer_of(lamina, command, model, *chat, *flags, "--json", n=8).stdout)
    assert (answer["stop_reason"], answer["stop_string"]) == (("stop", which) if which else ("length", None))
    assert answer.get("text", answer.get("content")) == (whole[:whole.index(which)] if which else whole.rstrip("\n"))


# ---- 3 llama.cpp#11755, 4 vllm#53975: options of the prompt are applied, rejected or named ----

@both
def test_no_template_variable_is_dropped_silently(lamina, model, command):
    """Variables are rejected or ignored with a warning, as in the server's `chat_template_kwargs`."""
    chat = ("--chat",) if command == "run" else ()
    for name, value in (("add_generation_prompt", False), ("messages", [])):
        done = answer_of(lamina, command, model, *chat, "--chat-template-kwargs", json.dumps({name: value}))
        assert done.returncode == 2 and f"error: --chat-template-kwargs: {name} is set by the program" in done.stderr, done.stderr
    done = answer_of(lamina, command, model, *chat, "--chat-template-kwargs", '{"continue_final_message": true, "bos_token": "x"}')
    assert done.returncode == 0, done.stderr
    assert "warning: --chat-template-kwargs: the chat template of this model does not use 'continue_final_message'; ignored\n" in done.stderr


# ---- 5 RevenueCat ai-toolkit#26: JSON has no largest number; lone surrogates become U+FFFD ----

@pytest.mark.parametrize("command,number", [*(("run", n) for n in LARGE), ("chat", "1e400")])
def test_numbers_of_any_size(lamina, model, command, number):
    """A number beyond a machine word in a schema's bound or a template's variable is not a syntax error (RFC 8259, 6)."""
    bound = "minimum" if number.startswith("-") else "maximum"
    done = answer_of(lamina, command, model, "--json-schema", f'{{"type": "integer", "{bound}": {number}}}')
    assert done.returncode == 0, done.stderr
    chat = () if command == "chat" else ("--chat",)
    done = answer_of(lamina, command, model, *chat, "--chat-template-kwargs", f'{{"x": {number}}}', n=1)
    assert done.returncode == 0, done.stderr


WIDE = [2 ** 63 - 1, -2 ** 63, 2 ** 63, 2 ** 64 - 1, -2 ** 63 - 2000, 10 ** 400, 10 ** 30]


@pytest.mark.parametrize("number", WIDE)
def test_integers_reach_templates_unchanged(lamina, model, tmp_path, number):
    """Integers in templates have no maximum, as in Python and so in transformers: json.dumps and str are the oracle."""
    (tmp_path / "t.jinja").write_text("{{ x }} {{ {'y': [x]} | tojson }} {{ x is integer }} {{ x is number }} {{ x is string }} {{ x is float }}")
    (tmp_path / "v.json").write_text(json.dumps({"x": number}))
    expected = f"{number} {json.dumps({'y': [number]})} True True False False"
    assert run(lamina, "template", tmp_path / "t.jinja", "--variables", tmp_path / "v.json").stdout == expected
    done = answer_of(lamina, "run", model, "--chat-template-file", tmp_path / "t.jinja", "--chat-template-kwargs", json.dumps({"x": number}), "--json", n=0)
    assert json.loads(done.stdout)["prompt"] == expected, done.stderr


def test_integers_of_a_conversation_are_unchanged(lamina, model, tmp_path):
    """Integers are unchanged in a saved conversation, also those in arguments given as a string."""
    numbers = {"a": WIDE[3], "b": WIDE[5], "c": WIDE[0], "d": 1.5, "e": 1e19}
    messages = json.loads(json.dumps(CALLED))
    messages[1]["tool_calls"][0]["function"]["arguments"] = json.dumps(numbers)
    messages[0]["id"] = WIDE[4]
    done = loaded(lamina, model, tmp_path, messages, "{% set f = messages[1].tool_calls[0].function %}{{ f.arguments.a - 1 if messages | length > 3 }}")
    assert done.returncode and "arguments" not in done.stderr, done.stderr                # no arithmetic on integers that do not fit
    done = loaded(lamina, model, tmp_path, messages)
    assert saved(tmp_path)[1]["tool_calls"][0]["function"]["arguments"] == numbers and saved(tmp_path)[0]["id"] == WIDE[4], done.stderr


def test_different_integers_of_equal_doubles_are_rejected(lamina, tmp_path):
    (tmp_path / "t.jinja").write_text("{{ x }}")
    (tmp_path / "v.json").write_text('{"x": [18446744073709551615, 18446744073709551614]}')
    done = run(lamina, "template", tmp_path / "t.jinja", "--variables", tmp_path / "v.json")
    assert done.returncode and "two integers beyond 64 bits are equal when rounded to a double" in done.stderr, done.stderr


@pytest.mark.parametrize("text,read", [(rb"a\ud83d", "a\ufffd"), (rb"\ude00b", "\ufffdb")])
def test_halves_of_characters_do_not_block_a_conversation(lamina, model, tmp_path, text, read):
    """A cut emoji in a loaded conversation, half of a surrogate pair, is read as U+FFFD. Bytes that are not UTF-8 are an error (test_data.py)."""
    (tmp_path / "c.json").write_bytes(b'{"messages": [{"role": "user", "content": "' + text + b'"}, {"role": "assistant", "content": "x"}]}')
    done = run(lamina, "chat", model, "--load", tmp_path / "c.json", "-n", 1, "--temp", 0, input=f"More.\n/save! {tmp_path / 'd.json'}\n")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "d.json").read_text())["messages"][0]["content"] == read


# ---- 9 vllm#19419, Qwen3#1894: arguments of earlier calls are a mapping; 10 sglang#40082: no role is dropped ----

@pytest.mark.parametrize("arguments", [{"arguments": ""}, {"arguments": " "}, {"arguments": None}, {}, {"arguments": "{}"}, {"arguments": {}}])
def test_arguments_of_a_loaded_conversation_are_a_mapping(lamina, model, tmp_path, arguments):
    messages = json.loads(json.dumps(CALLED))
    messages[1]["tool_calls"][0]["function"].update(arguments)
    done = loaded(lamina, model, tmp_path, messages)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert saved(tmp_path)[1] == {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "clock", "arguments": {}}}]}


def test_invalid_arguments_are_reported(lamina, model, tmp_path):
    messages = json.loads(json.dumps(CALLED))
    messages[1]["tool_calls"][0]["function"]["arguments"] = "{\"city\": \"Par"
    done = loaded(lamina, model, tmp_path, messages)
    assert done.returncode == 0 and "warning: messages: the arguments of clock in message 1 are not a JSON object and are left out" in done.stderr


@pytest.mark.parametrize("role,read", [("developer", "system"), ("function", "tool"), ("system", "system")])
def test_roles_of_a_loaded_conversation_are_accepted(lamina, model, tmp_path, role, read):
    done = loaded(lamina, model, tmp_path, [{"role": role, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
    assert done.returncode == 0 and saved(tmp_path)[0] == {"role": read, "content": "a\nb"}, done.stderr


@pytest.mark.parametrize("message,words", [
    ({"role": "narrator", "content": "x"}, 'message 3 has the unknown role "narrator"'), ({"content": "x"}, "message 3 is not an object"),
    ("x", "message 3 is not an object"), ({"role": "user", "content": 1}, "message 3 has a content that is neither"),
    ({"role": "user", "content": [{"type": "image_url"}]}, 'message 3 has a content part of type "image_url"')])
def test_invalid_messages_are_rejected(lamina, model, tmp_path, message, words):
    done = loaded(lamina, model, tmp_path, [*CALLED, message])
    assert done.returncode and done.stderr.startswith(f"error: messages: {tmp_path / 'c.json'}: ") and words in done.stderr, done.stderr


@pytest.mark.parametrize("role", ["system", "tool"])
def test_a_role_that_the_template_omits_is_reported(lamina, model, tmp_path, role):
    done = loaded(lamina, model, tmp_path, [{"role": role, "content": "Marigold"}], "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    assert done.returncode and f"the chat template of this model leaves out messages of role {role}" in done.stderr, done.stderr


# ---- 11 ollama#18575: 0 is not "not given" ----

@both
def test_zero_tokens_print_nothing(lamina, model, command):
    done = answer_of(lamina, command, model, n=0)
    assert done.returncode == 0 and not done.stdout.strip(), done.stdout


# ---- 12 SillyTavern#1855: empty values have no effect, alone and with others ----

EMPTY = ["--grammar", "--grammar-file", "--json-schema", "--regex", "--choice", "--stop", "-r", "--logit-bias", "--lora", "--chat-template", "--chat-template-kwargs"]


@both
def test_empty_values_request_nothing(lamina, model, command):
    chat = ("--chat",) if command == "run" else ()
    plain = answer_of(lamina, command, model, *chat)
    empty = [x for flag in EMPTY for x in (flag, "")]
    done = answer_of(lamina, command, model, *chat, *empty)
    assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
    done = answer_of(lamina, command, model, *chat, *empty, "--choice", "one")
    assert done.returncode == 0 and done.stdout.strip() == "one", done.stderr


@pytest.mark.parametrize("command,flag", [("run", "--chat-template-file"), ("run", "--file"), ("chat", "--load"), ("serve", "--api-key-file"), ("tokenize", "--jsonl")])
def test_empty_names_of_files_are_rejected(lamina, command, flag):
    done = run(lamina, command, flag, "")
    assert done.returncode == 2 and f'error: {flag}: "" is not the name of a file' in done.stderr, done.stderr


@both
def test_empty_files_request_nothing(lamina, model, tmp_path, command):
    """An empty file has no effect, as in llama.cpp, which reads a grammar file into --grammar; a warning names it, since more was meant."""
    empty, chat = tmp_path / "empty", ("--chat",) if command == "run" else ()
    empty.write_text("")
    files = ("--grammar-file", empty, "--json-schema", f"@{empty}")
    done = answer_of(lamina, command, model, *chat, *files)
    assert done.returncode == 0 and done.stdout == answer_of(lamina, command, model, *chat).stdout, done.stderr
    assert all(f"warning: {flag}: {empty} is empty" in done.stderr for flag in ("--grammar-file", "--json-schema"))
    done = answer_of(lamina, command, model, *chat, *files, "--choice", "one")
    assert done.returncode == 0 and done.stdout.strip() == "one", done.stderr


def test_an_empty_key_is_ignored(lamina, model):
    """`--api-key "$KEY"` without KEY must not open the server to all."""
    assert run(lamina, "serve", model, "--api-key", "").returncode


# ---- 13: errors name the flag that was given ----

@pytest.mark.parametrize("flag,named", [("--n-predict", "--n-predict"), ("--predict", "--predict"), ("-n", "--predict"), ("--temperature", "--temperature"),
                                        ("--top_k", "--top-k"), ("--context", "--context")])
def test_errors_name_the_flag_that_was_given(lamina, model, flag, named):
    done = run(lamina, "run", model, "-p", "x", flag, "many")
    assert done.returncode and done.stderr.startswith(f"error: {named}: "), done.stderr


# ---- 14 ollama#4503: a byte order mark is not part of the text ----

def test_a_byte_order_mark_is_removed(lamina, model, tmp_path):
    files = {"c.json": '{"messages": [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "x"}]}', "t.jinja": "{{ messages[-1].content }}",
             "s.json": '{"enum": [1]}', "p.txt": "abc"}
    for name, text in files.items():
        (tmp_path / name).write_bytes(MARK + text.encode())
    assert run(lamina, "chat", model, "--load", tmp_path / "c.json", "-n", 1, input="More.\n").returncode == 0
    assert answer_of(lamina, "run", model, "--json-schema", f"@{tmp_path / 's.json'}").stdout.strip() == "1"
    shown = [run(lamina, "run", model, "--chat", "--chat-template-file", tmp_path / "t.jinja", *given, "-n", 1, "--verbose-prompt").stderr
             for given in (("-p", "abc"), ("-f", tmp_path / "p.txt"))]
    prompts = [[line for line in text.splitlines() if "tok/s" not in line] for text in shown]
    assert prompts[0] == prompts[1] and "\ufeff" not in shown[0]


# ---- 15, 16 DeepSeek-V3#557, mesh-llm#311: Git LFS pointers and renamed files, in every command ----

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


@pytest.mark.parametrize("command", ["run", "chat", "trace", "score", "inspect", "report", "tokenize"])
def test_pointers_and_names_of_files(lamina, tmp_path, command):
    text = () if command in ("chat", "inspect", "report") else ("-p", "abc")
    (tmp_path / "m.gguf").write_text(POINTER)
    done = run(lamina, command, tmp_path / "m.gguf", *text)
    assert done.returncode and "git lfs pull" in done.stderr, done.stderr
    shutil.copy(TINY, tmp_path / "x-00001-of-00013.gguf")
    done = run(lamina, command, tmp_path / "x-00001-of-00013.gguf", *text)
    assert done.returncode == 0 or "chat template" in done.stderr or "no tokenizer" in done.stderr, done.stderr


# ---- 18: no line is printed twice ----

@both
def test_no_message_is_repeated(lamina, model, command):
    done = answer_of(lamina, command, model, "-c", 1000000, n=1)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == len(set(lines)), lines
