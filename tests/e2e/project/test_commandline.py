"""The command line itself: exit statuses, suggestions, errors as text and as JSON. stdout contains only the answer."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest
from conftest import PATIENCE, plain_only, run


@pytest.fixture(scope="module")
def lamina(build, limits):
    return build / "src/cli/lamina"


def last_line(done):
    return done.stderr.rstrip("\n").split("\n")[-1]


@pytest.mark.parametrize("typed, meant", [("tokenise", "tokenize"), ("docter", "doctor"), ("rnu", "run"), ("templat", "template")])
def test_an_unknown_command_suggests_the_nearest(lamina, typed, meant):
    done = run(lamina, typed)
    assert done.returncode == 2 and done.stdout == ""
    assert f"did you mean lamina {meant}?" in done.stderr
    assert last_line(done).startswith(f"error: {typed}: ")


def test_no_suggestion_for_a_distant_command(lamina):
    done = run(lamina, "xylophone")
    assert done.returncode == 2 and "did you mean" not in done.stderr and "lamina help" in done.stderr


@pytest.mark.parametrize("command, typed, meant", [
    ("tokenize", "--add-spezial", "--add-special"), ("detokenize", "--skip_specials", "--skip-special"),
    ("template", "--contxt", "--context"), ("doctor", "--frsh", "--fresh"), ("run", "--tmep", "--temp"),
])
def test_an_unknown_flag_suggests_the_nearest(lamina, command, typed, meant):
    done = run(lamina, command, typed)
    assert done.returncode == 2 and done.stdout == ""
    assert f"did you mean {meant}?" in done.stderr and last_line(done).startswith("error: ")


def test_underscores_are_hyphens_and_values_may_be_attached(lamina, model):
    separate = run(lamina, "tokenize", model, "--add_special", "--prompt", "a b")
    attached = run(lamina, "tokenize", "--add-special", "--prompt=a b", "--", model)
    assert separate.returncode == 0 and separate.stdout == attached.stdout != ""


@pytest.mark.parametrize("arguments, status, code", [
    (["tokenize", "--nope"], 2, "usage"),
    (["tokenize", "-p"], 2, "usage"),
    (["tokenize", "a", "b", "c"], 2, "usage"),
    (["tokenize", "-p", "x", "-f", "y"], 2, "usage"),
    (["tokenize", "/no/such/model.gguf", "-p", "x"], 1, "not_found"),
    (["tokenize", "MODEL", "-f", "/no/such/file"], 1, "not_found"),
    (["tokenize", "MODEL", "--jsonl", "/no/such/file"], 1, "not_found"),
    (["detokenize", "MODEL", "99999999"], 2, "usage"),
    (["detokenize", "MODEL", "--", "-1"], 2, "usage"),
    (["detokenize", "MODEL", "1", "x"], 2, "usage"),
    (["tokenize", "BROKEN", "-p", "x"], 3, "bad_model"),
    (["template", "MODEL"], 2, "usage"),
    (["template", "MODEL", "--variables", "/no/such/file"], 1, "not_found"),
    (["chat", "MODEL", "--load", "/no/such/file"], 1, "not_found"),
    (["chat", "MODEL", "--chat-template-file", "/no/such/file"], 1, "not_found"),
    (["verify", "MODEL", "/no/such.safetensors"], 1, "not_found"),
    (["audit", "/no/such.tsv"], 1, "not_found"),
    (["run", "MODEL", "-f", "/tmp"], 1, "io"),
    (["chat", "MODEL", "--chat-template-kwargs", "{"], 2, "usage"),
    (["chat", "MODEL", "--chat-template-kwargs", "[]"], 2, "usage"),
    (["doctor", "--cpu", "avx3"], 2, "usage"),
    (["doctor", "--cpu", ""], 2, "usage"),
    (["doctor", "extra"], 2, "usage"),
    (["xylophone"], 2, "usage"),
    (["run", "MODEL", "-m", "MODEL", "-p", "x"], 2, "usage"),            # the model is given twice
    (["inspect", "gpt2", "-m", "llama-3.2-1b"], 2, "usage"),
    (["report", "gpt2", "-m", "llama-3.2-1b"], 2, "usage"),
    (["verify", "MODEL"], 2, "usage"),
    (["verify", "MODEL", "none.safetensors", "-m", "MODEL"], 2, "usage"),
    (["run", "MODEL", "--ids", "1,,2"], 2, "usage"),                     # an id is missing
    (["tokenize", "llama-3.2-1b", "-p", "x"], 2, "usage"),               # a shape without a tokenizer
    (["tokenize", "CONFIG", "-p", "x"], 3, "bad_model"),                 # JSON, but no tokenizer
    (["compare", "gpt2", "--history"], 2, "usage"),
    (["explain", "gqa", "gpt2", "--layer", "1"], 2, "usage"),            # flags without effect
    (["explain", "gqa", "MODEL", "-p", "x"], 2, "usage"),
    (["explain", "--diagram", "flow", "gpt2", "llama-3.2-1b"], 2, "usage"),
    (["explain", "kv", "gpt2", "-o", ""], 2, "usage"),                   # rejected before any computation
    (["report", "gpt2", "-o", ""], 2, "usage"),
    (["verify", "MODEL", "none.safetensors", "--dump", ""], 2, "usage"),
    (["synth", "gpt2", ""], 2, "usage"),
])
def test_errors_have_a_status_one_line_and_a_document(lamina, model, tmp_path, arguments, status, code):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 16)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "gpt2"}')
    arguments = [{"MODEL": model, "BROKEN": broken, "CONFIG": config}.get(a, a) for a in arguments]
    plain = run(lamina, *arguments)
    assert plain.returncode == status, plain.stderr
    assert plain.stdout == "" and last_line(plain).startswith("error: ")
    found = run(lamina, arguments[0], "--json", *arguments[1:])
    assert found.returncode == status and last_line(found) == last_line(plain)
    document = json.loads(found.stdout)["error"]
    assert set(document) == {"code", "message", "file", "where", "offset"}
    assert document["code"] == code and document["message"] in last_line(found)


def test_json_as_a_value_is_a_value(lamina, model):
    done = run(lamina, "tokenize", model, "-p", "--json")
    assert done.returncode == 0 and done.stdout.split()[0].isdigit()
    done = run(lamina, "tokenize", "/no/such/model.gguf", "-p", "--json")
    assert done.returncode == 1 and done.stdout == ""
    done = run(lamina, "tokenize", "--nope", "--json")                     # the flags are invalid: --json may have been meant
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["code"] == "usage"


def test_hostile_names_stay_on_one_line(lamina, tmp_path):
    path = tmp_path / "a\nerror: b\x1b[2J\u2028c.gguf"
    path.write_bytes(b"GGUF")
    done = run(lamina, "tokenize", path, "-p", "x")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1 and "\x1b" not in done.stderr
    assert json.loads(run(lamina, "tokenize", "--json", path, "-p", "x").stdout)["error"]["code"] == "bad_model"


def test_an_unknown_level_of_the_environment_is_named(lamina, model):
    done = run("env", "LAMINA_CPU=fast", lamina, "run", model, "-p", "x", "-n", "1")
    assert done.returncode == 2 and "LAMINA_CPU" in last_line(done) and "avx2" in last_line(done)


@pytest.mark.parametrize("flags, reply", [
    (["--pre", "qwen2"], "the pre-tokenizer 'qwen2' is ignored"),
    (["-c", 9000], "the context of 9000 positions is longer than the 8192 that the model was made for"),
    (["--mla", "naive"], "the model has no latent attention"),
])
def test_a_flag_that_does_nothing_or_goes_too_far_is_warned_of(lamina, model, flags, reply):
    done = run(lamina, "run", model, "--ids", "1", "-n", 1, "--temp", 0, *flags)
    assert done.returncode == 0 and f"warning: {reply}" in done.stderr
    listed = json.loads(run(lamina, "run", model, "--ids", "1", "-n", 1, "--temp", 0, "--json", *flags).stdout)["warnings"]
    assert any(w.startswith(reply) for w in listed)
    quiet = run(lamina, "run", model, "--ids", "1", "-n", 1, "--temp", 0, "-c", 8192)
    assert quiet.returncode == 0 and "warning" not in quiet.stderr


def test_rotary_flags_of_a_model_that_does_not_rotate(lamina):
    reply = "warning: the model has no rotary embedding: the RoPE options have no effect"
    assert reply in run(lamina, "inspect", "gpt2", "--rope-scale", 4).stderr
    assert "warning: the RoPE options replace the rotary embedding of the file" in run(lamina, "inspect", "llama-3.2-1b", "--rope-scale", 4).stderr
    assert "--yarn-orig-ctx has no effect" in run(lamina, "inspect", "smollm2-135m", "--yarn-orig-ctx", 100).stderr
    assert "--yarn-orig-ctx has no effect" not in run(lamina, "inspect", "llama-3.2-1b", "--yarn-orig-ctx", 100).stderr


@pytest.mark.parametrize("flags", [["--rope-scale", 4], ["--rope-freq-scale", 0.25], ["--yarn-orig-ctx", 100]])
def test_no_rotary_scaling_goes_with_no_scale(lamina, flags):
    done = run(lamina, "inspect", "llama-3.2-1b", "--rope-scaling", "none", *flags)
    assert done.returncode == 2 and '"none" cannot be combined with a factor' in last_line(done)


def test_options_of_the_library_become_flags_and_commands(lamina, tmp_path):
    (tmp_path / "there.gguf").write_text("")
    for arguments, hint in ((["synth", "gpt2", tmp_path / "there.gguf"], "use --force to replace it"),
                            (["run", "gpt2"], "use lamina synth gpt2 OUT.gguf to create it with random weights"),
                            (["fit", "gpt2", "--device", "abacus9999"], "lamina devices lists them")):
        done = run(lamina, *arguments)
        assert f"hint: {hint}\n" in done.stderr and "`" not in done.stderr
        received = run(lamina, *arguments, "--json")
        assert received.stdout == "" or "`" not in received.stdout


def test_files_that_are_not_models_get_no_recipe(lamina, tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    done = run(lamina, "run", tmp_path / "tokenizer.json", "--ids", "1")
    assert done.returncode == 3 and "hint" not in done.stderr and "neither weights nor the config.json" in last_line(done)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    done = run(lamina, "run", tmp_path / "config.json", "--ids", "1")
    assert done.returncode == 2 and "hint: use lamina synth" in done.stderr


def test_a_key_that_holds_a_nul(lamina, tmp_path):
    config = {"model_type": "llama", "hidden_act\0" + "A" * 3_500_000: {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run(lamina, "inspect", tmp_path / "config.json").returncode == 3


def test_weights_alone_are_not_a_model(lamina, source):
    done = run(lamina, "inspect", source / "tests/golden/llama/gqa/model.safetensors")
    assert done.returncode == 2 and "name the folder" in last_line(done)


def test_doctor_reports_what_it_could_not_store(lamina):
    done = run("env", "LAMINA_CACHE=/dev/null", lamina, "doctor", "--cpu", "ref", "-t", 1)
    assert done.returncode == 0 and "not saved" in done.stdout and "is not writable: measurements are not saved" in done.stderr


def test_metadata_numbers_are_unchanged(lamina, model):
    page = run(lamina, "inspect", model, "--metadata").stdout.split("\n")
    assert [line.split()[1] for line in page if line.startswith("llama.attention.layer_norm_rms_epsilon")] == ["1e-5"]
    assert [line.split()[1] for line in run(lamina, "inspect", "llama-3.2-1b", "--metadata").stdout.split("\n")
            if line.startswith("rms_norm_eps")] == ["1e-5"]


def test_a_closed_pipe_ends_quietly(lamina, model):
    done = run("bash", "-c", '"$1" tokenize "$2" -f /dev/stdin < <(yes word | head -200000) | head -1; echo "${PIPESTATUS[0]}"', "bash",
               lamina, model)
    assert done.stdout.split("\n")[1] == "141" and done.stderr == ""


def test_a_closed_stream_is_not_taken_by_a_file(lamina, model, tmp_path):
    done = run("bash", "-c", '"$1" run "$2" -n 1 --temp 0 <&-', "bash", lamina, model)
    assert done.returncode == 1 and "Bad file descriptor" in last_line(done)
    out = tmp_path / "a.md"
    done = run("bash", "-c", '"$1" report gpt2 -o "$2" >&-', "bash", lamina, out)
    assert done.returncode == 0 and out.read_text().startswith("# GPT-2")


def test_output_to_a_stream_is_written_there(lamina):
    done = run(lamina, "report", "gpt2", "--format", "md", "-o", "/dev/stdout")
    assert done.returncode == 0 and done.stdout.startswith("# GPT-2")


def test_every_command_explains_itself(lamina):
    commands = [c["name"] for c in json.loads(run(lamina, "help", "--json").stdout)["commands"]]
    assert {"tokenize", "detokenize", "template", "doctor"} <= set(commands)
    assert sorted(re.findall(r"^  lamina (\w+)", run(lamina, "help").stdout, re.M)) == sorted(commands)
    for command in commands:
        done = run(lamina, command, "--help")
        assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith(f"lamina {command}")
        assert max(map(len, done.stdout.split("\n"))) <= 120


def test_an_unknown_tokenizer_matters_only_for_text(lamina, source, tmp_path):
    folder, golden = tmp_path / "unigram", source / "tests/golden/llama/gqa"
    shutil.copytree(golden, folder)
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 0}}')
    for command in (["inspect", folder], ["compare", folder, "gpt2"], ["fit", folder, "--ram", "1G"], ["explain", "kv", folder], ["explain", "kv", folder, "-p", "x"],
                    ["report", folder], ["estimate", folder], ["bench", folder, "-p", 2, "-n", 1, "-r", 1, "--limits", "stored"],
                    ["verify", folder, folder / "golden.safetensors"], ["run", folder, "--ids", "3,4", "-n", 2, "--temp", 0]):
        done = run(lamina, *command)
        assert done.returncode == 0 and "warning: the tokenizer is left out: /model: the kind 'Unigram'" in done.stderr, command
    for command in (["run", folder, "-p", "x"], ["tokenize", folder, "-p", "x"]):
        done = run(lamina, *command)
        assert done.returncode == 3 and "the kind 'Unigram' is not supported" in last_line(done), command
    (folder / "tokenizer.json").write_text("{")                      # a broken file is an error in every command
    assert run(lamina, "inspect", folder).returncode == 3


@pytest.mark.parametrize("ids", ["[1,2", "1,2]", "[1][2]", "[1,2] 3", "1,,2"])
def test_a_list_of_ids_is_whole(lamina, model, ids):
    done = run(lamina, "detokenize", model, ids)
    assert done.returncode == 2 and done.stdout == "" and last_line(done).startswith("error: ID: ")
    done = run(lamina, "detokenize", model, input=ids)
    assert done.returncode == 2 and last_line(done).startswith("error: standard input: ")
    done = run(lamina, "detokenize", model, 49152)
    assert done.returncode == 2 and last_line(done) == "error: ID: token id 49152 is outside the vocabulary of 49152"
    done = run(lamina, "run", model, "--ids", ids, "-n", "1")
    assert done.returncode == 2 and last_line(done).startswith("error: --ids: ")


def test_an_empty_instruction_set_is_a_wrong_flag(lamina, source):
    done = run(lamina, "run", source / "tests/golden/llama/gqa/model.gguf", "--ids", "3", "-n", "1", "--cpu", "")
    assert done.returncode == 2 and last_line(done).startswith("error: --cpu: empty instruction set level")


@pytest.mark.parametrize("arguments, flag", [
    (["run", "MODEL", "-p", "x", "--mirostat-ent", "-1"], "--mirostat-ent"),
    (["run", "MODEL", "-p", "x", "--temperature", "1e7"], "--temp"),
    (["run", "MODEL", "-p", "x", "--top_p", "2"], "--top-p"),
    (["run", "MODEL", "-p", "x", "--logit-bias", "99999999+1"], "--logit-bias"),
    (["run", "MODEL", "-p", ""], "--prompt"),
    (["inspect", "gpt2", "-c", "5000"], "--context"),
    (["run", "MODEL", "-p", "x", "--cpu", "foo"], "--cpu"),
    (["inspect", "gpt2", "--view", "all", "--json"], "--view"),
    (["inspect", "llama-3.2-1b", "--layer", "16"], "--layer"),
    (["explain", "--diagram", "layer", "llama-3.2-1b", "--layer", "16"], "--layer"),
    (["estimate"], "--hidden"),                                          # required, not given
    (["estimate", "--hidden", "64", "--layers", "2", "--vocab", "9", "--heads", "5", "--ffn", "9"], "--heads"),
    (["explain", "--diagram", "context", "gpt2", "-c", "64"], "--diagram"),
    (["explain", "context", "gpt2", "-c", "64"], "context"),             # a topic, not a flag
    (["detokenize", "MODEL", "1.5"], "ID"),                              # an argument
])
def test_errors_name_the_given_flag(lamina, model, arguments, flag):
    done = run(lamina, *[model if a == "MODEL" else a for a in arguments])
    assert done.returncode == 2 and last_line(done).startswith(f"error: {flag}: "), done.stderr


def test_values_are_quoted_unchanged(lamina, model):
    assert '"1.5" is not a token id' in run(lamina, "detokenize", model, "1.5", "2").stderr
    done = run(lamina, "run", model, "-p", "x", "--temp", "1e308")
    assert done.returncode == 2 and last_line(done).startswith('error: --temp: "1e308" is not')


def test_errors_name_the_separate_tokenizer(lamina, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    done = run(lamina, "tokenize", "tokenizer.json", "-p", "x", cwd=tmp_path)
    assert done.returncode == 3 and ": tokenizer.json: " in last_line(done)


@pytest.mark.parametrize("context, where, offset", [("", "--variables", 0), ("[]", "--variables", None), ('{"a": x}', "--variables", 7),
                                                    ('{"now": "soon"}', "now", None)])
@pytest.mark.parametrize("how", ["file", "pipe"])
def test_an_invalid_context_is_named(lamina, model, tmp_path, context, where, offset, how):
    (tmp_path / "context.json").write_text(context)
    given = "context.json" if how == "file" else "-"
    done = run(lamina, "template", model, "--variables", given, "--json", cwd=tmp_path, input=context)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2 and error["file"] == ("context.json" if how == "file" else "standard input")
    assert error["where"] == where and error["offset"] == offset


def test_a_template_of_a_model_is_in_the_model(lamina, model, tmp_path):
    (tmp_path / "talk").write_text('{"messages": [{"role": "user"}]}')             # without content
    error = json.loads(run(lamina, "template", model, "--context", tmp_path / "talk", "--json").stdout)["error"]
    assert error["file"] == str(model) and error["where"].startswith("line ") and "content" in error["message"]


def test_a_model_whose_logits_are_nan_is_named(lamina, source, tmp_path):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / "tests/golden/llama/gqa" / name, tmp_path)
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + size])["model.norm.weight"]["data_offsets"]
    data[8 + size + begin:8 + size + end] = b"\xff" * (end - begin)
    path.write_bytes(data)
    done = run(lamina, "run", tmp_path, "--ids", "3", "-n", "1", "--temp", "0")
    assert done.returncode == 1 and last_line(done) == f"error: {tmp_path}: the logit of token 0 is NaN"


def test_a_document_without_statements_is_reported(lamina, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    done = run(lamina, "audit", tmp_path / "empty.tsv")
    assert done.returncode == 0 and "no statements found to check" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_chat_ends_with_the_signal_that_ends_it(lamina, source, number):
    with subprocess.Popen([lamina, "chat", source / "build/assets/smollm2-135m-instruct-q4_1.gguf", "-n", "4"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as chat:
        chat.stdin.write(b"hi\n")
        chat.stdin.flush()
        assert chat.stdout.read(1)
        chat.send_signal(number)
        assert chat.wait(PATIENCE) == 128 + number


# ---- endless input ----

@pytest.mark.parametrize("arguments, stdin", [
    (["tokenize", "MODEL", "-f", "/dev/zero"], None), (["detokenize", "MODEL"], "/dev/zero"),
    (["detokenize", "MODEL", "--jsonl", "/dev/zero"], None), (["chat", "MODEL"], "/dev/zero"),
    (["run", "MODEL", "-n", "2"], "/dev/zero"), (["template", "MODEL", "--context", "/dev/zero"], None),
])
@pytest.mark.parametrize("memory", [None, pytest.param(500 << 20, marks=plain_only)])     # sanitizers reserve more
def test_endless_input_is_rejected(lamina, model, arguments, stdin, memory):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
    command = [lamina, *(model if a == "MODEL" else a for a in arguments)]
    done = run(*command, stdin=open(stdin or "/dev/null", "rb"), preexec_fn=limit)
    assert done.returncode == 1 and done.stdout == ""
    reply = ["out of memory"] if memory else ["longer than "]
    if memory and arguments[0] in ("run", "chat"):
        reply.append("bytes of memory")
    assert any(s in last_line(done) for s in reply), done.stderr
