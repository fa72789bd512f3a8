"""Texts and training data as people write them: encodings, marks and blank lines in every command; members of records; templates that change
earlier turns."""
import fcntl
import json
import os
import shutil
import subprocess

import pytest

from conftest import BARE, PATIENCE, SOURCE, run

MODEL = SOURCE / "tests/golden/llama/gqa"
END = "<|endoftext|>"
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}" + END + "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
TOOLS = ("{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
         "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}" + END
         + "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# Like Qwen3's: only the answers after the last question keep their reasoning, and they always have a place for it.
QWEN3 = ("{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
         "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% set parts = m.content.split('</think>') %}"
         "{% set thought = m.reasoning_content or (parts[0].split('<think>')[-1] if parts | length > 1 else '') %}"
         "{% if loop.index0 > ns.last %}<think>\n{{ thought | trim }}\n</think>\n\n{% endif %}{{ parts[-1] | trim }}{% else %}{{ m.content }}{% endif %}"
         + END + "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
PHI = ("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}" + END + "\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}")
# Like DeepSeek-R1's: an answer begins with <think>, which the conversation leaves out.
R1 = ("{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% else %}<A>{{ m.content.split('</think>')[-1] }}" + END
      + "{% endif %}{% endfor %}{% if add_generation_prompt %}<A><think>\n{% endif %}")


@pytest.fixture(scope="session")
def lamina(build):
    return lambda *args, **more: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE}, **more)


@pytest.fixture
def chat(tmp_path):
    """Return a function that makes a model with a template."""
    def make(template):
        folder = tmp_path / "model"
        shutil.copytree(MODEL, folder, dirs_exist_ok=True)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
        return folder
    return make


def refused(done, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 2 and len(error) == 1 and all(w in error[0] for w in words), (done.returncode, done.stderr)
    return error[0]


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def shown(lamina, model, tmp_path, *records, flags=()):
    """Return the training data as --dry-run shows it, with [[ ]] around trained parts."""
    path = tmp_path / "d.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return lamina("train", model, path, "--dry-run", "-c", "512", "--valid-share", "0", *flags)


def texts(done):
    assert done.returncode == 0, done.stderr
    return [line.split("trained: ", 1)[1] for line in (done.stdout + done.stderr).splitlines() if line.startswith("text ")]


# ---- encodings ----

READERS = [["run", MODEL, "-n", "1", "-f"], ["score", MODEL, "-f"], ["tokenize", MODEL, "-f"], ["embed", MODEL, "-f"], ["eval", MODEL, "perplexity", "-f"],
           ["run", MODEL, "-n", "1", "-p", "a", "--grammar-file"], ["run", MODEL, "-n", "1", "-p", "a", "--chat", "--chat-template-file"],
           ["tokenize", MODEL, "--jsonl"], ["embed", MODEL, "--jsonl"], ["score", MODEL, "--jsonl"],
           ["audit", "-m", "llama-3.2-1b"], ["estimate", "--from-tree"],
           ["eval", MODEL, "choices", "-f"], ["trace", MODEL, "--vector", "v.safetensors", "--pairs"]]


@pytest.mark.parametrize("args", READERS, ids=lambda a: f"{a[0]}{a[-1]}")
def test_text_that_is_not_utf8_is_rejected(lamina, tmp_path, args):
    """llama.cpp#8691: a letter of Windows-1252 became U+FFFD, and the result was of another text."""
    path = tmp_path / "text"
    path.write_bytes(b'"a caf\xe9 in town"\n')
    refused(lamina(*args, path, cwd=tmp_path), "line 1", "not UTF-8", "windows-1252", "offset 6", "text")


@pytest.mark.parametrize("name, text", [("d.md", b"# Notes\n\n| parameters | 1235814400 |\n| h\xe9ads | 32 |\n"), ("d.json", b'{\n"num_hidden_layers": 16,\n\n"caf\xe9 au lait": 1}\n'),
                                        ("d.yaml", b"num_hidden_layers: 16\n\n\nna\xefve: 1\n")])
def test_audit_names_the_line_of_foreign_bytes(lamina, tmp_path, name, text):
    """A document of Windows-1252 was audited with U+FFFD in place of its letters."""
    (tmp_path / name).write_bytes(text)
    at = next(i for i, b in enumerate(text) if b >= 0x80)
    for document in (tmp_path / name, "-"):
        done = lamina("audit", document, "-m", "llama-3.2-1b", stdin=(tmp_path / name).open("rb"))
        refused(done, "line 4", "windows-1252", f"offset {at}")
        assert "iconv -f windows-1252" in done.stderr


def test_train_and_imatrix_reject_it_too(lamina, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a caf\xe9 in town\n" * 4)
    refused(lamina("imatrix", MODEL, "-f", tmp_path / "a.txt", "-o", tmp_path / "o.gguf"), "windows-1252", "offset 5")
    refused(lamina("train", MODEL, tmp_path / "a.txt", "--dry-run"), "windows-1252", "offset 5")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "good"}\r\n{"text": "caf\xe9 au lait"}\n')
    refused(lamina("train", MODEL, tmp_path / "a.jsonl", "--dry-run"), "line 2", "windows-1252", "offset 34")
    done = lamina("train", MODEL, tmp_path / "a.jsonl", "--dry-run", "--skip-bad", "--valid-share", "0", "--json")
    assert json.loads(done.stdout)["data"]["bad"] == 1


@pytest.mark.parametrize("text, encoding, likely", [("Привет, как дела сегодня?", "cp1251", "windows-1251"), ("你好，世界，今天怎么样", "gb18030", "gb18030"),
                                                    ("déjà vu à Noël", "cp1252", "windows-1252"), ("plain words", "utf-16-le", "UTF-16LE"), ("plain words", "utf-16-be", "UTF-16BE")])
def test_the_likely_encoding_is_named(lamina, tmp_path, text, encoding, likely):
    (tmp_path / "t").write_bytes(text.encode(encoding))
    done = lamina("tokenize", MODEL, "-f", tmp_path / "t")
    refused(done, likely)
    assert f"iconv -f {likely} -t utf-8" in done.stderr


def test_a_damaged_character_is_not_another_encoding(lamina, tmp_path):
    (tmp_path / "t").write_bytes("Grüße".encode()[:-1] + b"\xff")
    refused(lamina("tokenize", MODEL, "-f", tmp_path / "t"), "0xFF")
    (tmp_path / "t").write_bytes("ab日".encode()[:-1])
    refused(lamina("tokenize", MODEL, "-f", tmp_path / "t"), "0xE6", "offset 2")


def test_arguments_are_text_too(build):
    for args in (["run", MODEL, "-n", "1", "-p", b"caf\xe9"], ["run", MODEL, "-n", "1", b"caf\xe9"], ["tokenize", MODEL, "-p", b"caf\xe9"]):
        done = subprocess.run([build / "src/cli/lamina", *args], capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and b"UTF-8" in done.stderr and not done.stdout, done


@pytest.mark.parametrize("args, good", [(["tokenize", MODEL, "--jsonl"], ['"the cat"', '"sat"']), (["embed", MODEL, "--jsonl"], ['"the cat"', '"sat"']),
                                        (["score", MODEL, "--jsonl"], ['"the cat"', '"sat on"']), (["detokenize", MODEL, "--jsonl"], ["[5, 6]", "[7]"]),
                                        (["template", "--jsonl"], ['{"template": "a", "context": {}}'] * 2),
                                        (["eval", MODEL, "choices", "--json", "-f"], ['{"context": "a", "choices": ["b", "c"], "answer": 0}'] * 2)])
def test_marks_blank_lines_and_line_ends_change_nothing(lamina, tmp_path, args, good):
    path, outputs = tmp_path / "f.jsonl", []
    for text in ("\n".join(good), "\ufeff" + "\r\n".join(good) + "\r\n", "\n  \n" + "\n \t\r\n\n".join(good) + "\n\n"):
        path.write_bytes(text.encode())
        outputs.append(lamina(*args, path))
        assert outputs[-1].returncode == 0, outputs[-1].stderr
    assert outputs[0].stdout and len({o.stdout for o in outputs}) == 1
    if args[-1] == "--jsonl":
        assert lamina(*args, "-", input=text).stdout == outputs[0].stdout


# ---- text files ----

def test_a_text_file_is_one_text(lamina, tmp_path):
    """A file that was cut at blank lines, each part with an end, taught a model to stop after each paragraph."""
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"the cat sat on mat {i}" for i in range(40)))
    one = json.loads(lamina("train", MODEL, path, "--dry-run", "-c", "32", "--valid-share", "0", "--json").stdout)
    whole = json.loads(lamina("tokenize", MODEL, "-f", path, "--add-special", "--json").stdout)["ids"]
    assert one["data"]["tokens"] == len(whole) + 1 and one["data"]["texts"] == -(-one["data"]["tokens"] // 32) and one["data"]["left_out"] == 0
    for text in (path.read_text(), path.read_text().replace("\n", "\r\n"), path.read_text().replace("\n\n", "\n \t\n\n")):
        path.write_bytes(text.encode())
        split = json.loads(lamina("train", MODEL, path, "--dry-run", "-c", "32", "--valid-share", "0", "--json", "--split", "blank-lines").stdout)
        assert split["data"]["texts"] == 40


@pytest.mark.parametrize("words", range(6))
def test_a_file_of_one_row_is_trained(lamina, tmp_path, words):
    (tmp_path / "a.txt").write_text("the cat sat on mat " + "so " * words)
    done = lamina("train", MODEL, tmp_path / "a.txt", "--dry-run", "-c", "512", "--valid-share", "0.9", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["data"]["texts"] == 1, done.stderr


# ---- members ----

def test_weights_of_messages_are_used(lamina, chat, tmp_path):
    talk = [message("user", "hi"), message("assistant", "first", weight=0), message("user", "more"), message("assistant", "second", weight=1)]
    for off in ({"weight": 0}, {"train": False}, {"training": False}, {"loss": False}, {"masked": True}):
        talk[1] = message("assistant", "first", **off)
        [text] = texts(shown(lamina, chat(CHATML), tmp_path, {"messages": talk}))
        assert text.count("[[") == 1 and "[[second" in text, text
    reply = shown(lamina, chat(CHATML), tmp_path, {"messages": talk, "weight": 0}, {"messages": talk}, flags=["--json"])
    assert json.loads(reply.stdout)["data"]["left_out"] == 1


@pytest.mark.parametrize("record, words", [
    ({"messages": [message("user", "a"), message("assistant", "b", weight=0.5)]}, ["weight", "line 2"]),
    ({"messages": [message("user", "a", weight=1), message("assistant", "b")]}, ["weight", "only answers", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", "b", mask=1)]}, ["mask", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", "b", train_detail=[])], "x": 1}, ["train_detail", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", "b")], "loss_mask": [1]}, ["loss_mask", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", "b")], "tools": [{"type": "function", "function": {"name": "look"}}]}, ["tools", "look", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", None, tool_calls=[{"function": {"name": "look", "arguments": "{}"}}])]}, ["tool_calls", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", "b", reasoning_content="because")]}, ["reasoning_content", "line 2"]),
    ({"messages": [message("user", "a"), message("assistant", [{"type": "image_url", "image_url": {}}])]}, ["image_url", "line 2"]),
])
def test_what_cannot_be_used_is_rejected_by_name(lamina, chat, tmp_path, record, words):
    good = {"messages": [message("user", "a"), message("assistant", "b")]}
    error = refused(shown(lamina, chat(CHATML), tmp_path, good, record), *words)
    assert error.count("line ") == 1


@pytest.mark.parametrize("record, words", [({"prompt": "a", "completion": "b", "label": False}, ["label"]), ({"prompt": "a", "completion": "b", "tools": [1]}, ["tools"]),
                                           ({"text": "a b c", "weight": 0.3}, ["weight"]), ({"text": "a", "mask": [1]}, ["mask"]),
                                           ({"instruction": "a", "output": "b", "history": [["c", "d"]]}, ["history"]),
                                           ({"input_ids": [5, 6, 7], "attention_mask": [0, 1, 1]}, ["attention_mask"])])
def test_members_of_records(lamina, tmp_path, record, words):
    refused(shown(lamina, MODEL, tmp_path, record), "line 1", *words)


def test_members_without_effect_are_listed(lamina, tmp_path):
    done = shown(lamina, MODEL, tmp_path, {"text": "a b c", "id": 5, "source": "web"})
    assert done.returncode == 0 and "not used: id, source" in done.stdout + done.stderr


def test_the_forms_of_openai(lamina, chat, tmp_path):
    """arguments as a string, content null or as parts, developer: as OpenAI's own files have them (trl#5517)."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    record = {"messages": [message("developer", "Be kind"), message("user", [{"type": "text", "text": "hello"}]), message("assistant", None, tool_calls=[call]),
                           message("tool", "blue", tool_call_id="c1"), message("assistant", "It is blue")],
              "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}], "parallel_tool_calls": False}
    [text] = texts(shown(lamina, chat(TOOLS), tmp_path, record))
    assert '[[<call>look{"at": "sky"}' in text and "[[It is blue" in text and "None" not in text, text


# ---- templates that change earlier turns ----

TURNS = [message("user", "one"), message("assistant", "<think>\nhm\n</think>\n\nred"), message("user", "two"), message("assistant", "<think>\nho\n</think>\n\nblue")]


@pytest.mark.parametrize("template, trained", [(QWEN3, ["red" + END, "<think> ho </think>  blue" + END]), (PHI, [f"red{END}", f"blue{END}"]), (R1, [f"red{END}", f"blue{END}"])])
def test_answers_are_found_in_the_whole_conversation(lamina, chat, tmp_path, template, trained):
    turns = TURNS if template is QWEN3 else [dict(m, content=m["content"].split("\n")[-1]) for m in TURNS]
    [text] = texts(shown(lamina, chat(template), tmp_path, {"messages": turns}))
    parts = [p.split("]]")[0] for p in text.split("[[")[1:]]
    assert len(parts) == 2 and all(p.replace("\\x0a", " ").strip().startswith(t) for p, t in zip(parts, trained)), text


def test_an_answer_that_is_not_there_is_rejected(lamina, chat, tmp_path):
    template = "{% for m in messages[-2:] %}{{ m.role }}: {{ m.content }}" + END + "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    refused(shown(lamina, chat(template), tmp_path, {"messages": TURNS}), "line 1", "message 1", "cannot be found")


# ---- forms ----

def test_sharegpt_with_roles_and_an_array_of_records(lamina, chat, tmp_path):
    model = chat(CHATML)
    old = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]}
    new = {"conversations": [message("user", "hi"), message("assistant", "hello")]}
    expected = texts(shown(lamina, model, tmp_path, old))
    assert texts(shown(lamina, model, tmp_path, new)) == expected
    assert texts(shown(lamina, model, tmp_path, json.dumps([new]))) == expected
    assert texts(shown(lamina, model, tmp_path, json.dumps([new], indent=2))) == expected
    refused(shown(lamina, model, tmp_path, json.dumps([new, {"words": 1}], indent=2)), "record 2", "none of the keys")


# ---- flags ----

@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": f"the cat sat on mat {i}"}) + "\n" for i in range(12)))
    return path


def short(model, data, folder, *more):
    return ["train", model, data, "-o", folder, "-t", "2", "--compute", "f32", "--rank", "4", "-c", "48", "--valid-share", "0", "--steps", "2", *more]


def test_lists_may_be_separated_by_commas(lamina, lines, tmp_path):
    """llama.cpp's --lora a,b and peft's target_modules; a comma in brackets belongs to a pattern."""
    for n, flags in enumerate((["--target", "q_proj,v_proj"], ["--target", "q_proj", "--target", "v_proj"], ["--target", "(q|v).{1,2}proj"])):
        done = lamina(*short(MODEL, lines, tmp_path / f"run{n}", *flags, "--json"))
        assert done.returncode == 0, done.stderr
    refused(lamina(*short(MODEL, lines, tmp_path / "no", "--target", "q_proj,,v_proj")), "empty item")
    given = [["--lora", f"{tmp_path}/run0:0.5,{tmp_path}/run1"], ["--lora", f"{tmp_path}/run0:0.5", "--lora", f"{tmp_path}/run1"]]
    outputs = [lamina("run", MODEL, "-p", "the cat", "-n", "4", "--temp", "0", "-v", *g) for g in given]
    assert outputs[0].returncode == 0 and outputs[0].stdout == outputs[1].stdout and outputs[0].stderr.count("adapter ") == 2, outputs[0].stderr


def test_an_adapter_is_not_a_model(lamina):
    adapters = SOURCE / "tests/golden/adapters/llama"
    for path in (adapters, adapters / "adapter.gguf"):
        done = lamina("run", path, "-p", "a", "-n", "1")
        assert done.returncode == 3 and "an adapter" in done.stderr and f"--lora {path}" in done.stderr, done.stderr
    assert json.loads((adapters / "adapter_config.json").read_text())["base_model_name_or_path"] in lamina("run", adapters, "-p", "a").stderr


def test_resume_needs_a_run_and_knows_its_end(lamina, lines, tmp_path):
    run_of = short(MODEL, lines, tmp_path / "run")
    refused(lamina(*run_of, "--resume"), "no run to continue")
    assert not (tmp_path / "run").exists()
    assert lamina(*run_of).returncode == 0
    done = lamina(*run_of, "--resume")
    assert done.returncode == 0 and "nan" not in done.stderr and "all 2 steps are done" in done.stderr, done.stderr


def test_a_damaged_state_is_rejected(lamina, lines, tmp_path):
    run_of = short(MODEL, lines, tmp_path / "run")
    assert lamina(*run_of).returncode == 0
    state = tmp_path / "run/state/state.safetensors"
    data = bytearray(state.read_bytes())
    for at in (len(data) - 5, len(data) // 2):
        data[at] ^= 1
        state.write_bytes(data)
        done = lamina(*run_of, "--resume")
        assert done.returncode == 3 and "checksum" in done.stderr, done.stderr
        data[at] ^= 1
    state.write_bytes(data)
    assert lamina(*run_of, "--resume").returncode == 0


def test_one_process_trains_in_a_folder(lamina, lines, tmp_path):
    """Two runs in one folder would mix their logs and files."""
    folder = tmp_path / "run"
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused(lamina(*short(MODEL, lines, folder)), "another process")
    assert not any(folder.iterdir())
    os.close(held)
    assert lamina(*short(MODEL, lines, folder)).returncode == 0


def test_a_text_is_not_an_importance_matrix(lamina, tmp_path):
    for done in (lamina("quantize", MODEL, tmp_path / "q.gguf", "q8_0", "--imatrix", SOURCE / "README.md"),
                 lamina("imatrix", "--in-file", SOURCE / "README.md", "--show-statistics")):
        assert done.returncode == 3 and "a text, not an importance matrix" in done.stderr, done.stderr
    assert not (tmp_path / "q.gguf").exists()


def test_an_interrupted_download_is_called_that(lamina, tmp_path, build):
    """huggingface_hub leaves BLOB.incomplete, and no file in the snapshot."""
    repo, commit = tmp_path / "models--org--name", "0" * 40
    (repo / "snapshots" / commit).mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(commit)
    (repo / "blobs").mkdir()
    (repo / "blobs/abc.incomplete").write_bytes(b"x")
    env = {**os.environ, **BARE, "HF_HUB_CACHE": str(tmp_path)}
    done = run(build / "src/cli/lamina", "run", "org/name", "-p", "a", "-n", "1", env=env)
    assert done.returncode == 1 and "interrupted" in done.stderr, (done.returncode, done.stderr)
    for name in ("a.Q4_0.gguf", "a.Q8_0.gguf"):
        (repo / "snapshots" / commit / name).write_bytes(b"GGUF")
    done = run(build / "src/cli/lamina", "run", "org/name:Q6_K", "-p", "a", "-n", "1", env=env)
    assert "a.Q4_0.gguf, a.Q8_0.gguf" in done.stderr, done.stderr
