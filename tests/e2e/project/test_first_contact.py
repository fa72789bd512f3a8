"""What users of llama.cpp or ollama try first: typed prompts, flags of other programs, pipes, sizes, pastes."""
import json
import os
import re
import signal
import struct
import subprocess

import pytest
from conftest import BARE, PATIENCE, SANITIZED, run
from test_chat import Terminal

PARIS = "The capital of France is"


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def environment(tmp_path):
    return {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}


def terminal(tmp_path, *command):
    return Terminal(*command, env=environment(tmp_path))


def program(lamina):
    return json.loads(run(lamina, "help", "--json").stdout)


# ---- the first command ----

@pytest.mark.parametrize("theirs, ours", [("list", "doctor"), ("ls", "pull list"), ("rm", "pull rm"), ("show", "inspect"), ("ps", "serve"), ("create", "convert"),
                                          ("download", "pull"), ("perplexity", "eval"), ("server", "serve"), ("cli", "run"), ("completion", "run"), ("stop", "serve"), ("finetune", "train"), ("gguf-split", "convert"), ("env", "doctor")])
def test_commands_of_other_programs_lead_to_ours(lamina, theirs, ours):
    done = run(lamina, theirs)
    hint, error = done.stderr.splitlines()
    assert done.returncode == 2 and hint.startswith("hint: ") and f"lamina {ours}" in hint and error == f"error: {theirs}: unknown command"
    assert ours.split()[0] in [c["name"] for c in program(lamina)["commands"]]


# ---- the first prompt ----

def test_one_end_of_input_is_enough(lamina, model, tmp_path):
    t = terminal(tmp_path, lamina, "run", model, "-n", "3", "--temp", "0")
    t.until("Ctrl-D ends it")
    t.type("Hello there\n\x04")
    t.until("stopped: length")
    assert t.status() == 0
    for flags, ends, text in ([], "Ctrl-D ends it", "Hello\n"), (["--jsonl", "-"], "Ctrl-D ends them", '"Hello"\n'):
        t = terminal(tmp_path, lamina, "tokenize", model, *flags)
        t.until(ends)
        t.type(text + "\x04")
        t.until("19556")
        assert t.status() == 0


def test_an_empty_message_is_ignored(lamina, model, tmp_path):
    t = terminal(tmp_path, lamina, "run", model)
    t.until("Ctrl-D ends it")
    t.type("\x04")
    t.until("prompt: the prompt has no tokens")
    assert t.status() == 2
    piped = run(lamina, "run", model, input="")
    assert piped.returncode == 2 and piped.stderr.splitlines()[-1].endswith("the prompt has no tokens")


def test_a_terminal_and_a_pipe_get_the_same_answer(lamina, model, tmp_path):
    ask = ["run", model, "-n", "8", "--temp", "0"]
    raw, answer = (run(lamina, *ask, "-p", PARIS, form).stdout for form in ("--raw", "--chat"))
    assert raw != answer and raw.startswith(" Paris")
    t = terminal(tmp_path, lamina, *ask, "-p", PARIS)
    assert answer in t.until("stopped").replace("\r\n", "\n") and t.status() == 0
    t = terminal(tmp_path, lamina, *ask, "-p", PARIS, "-no-cnv")
    assert raw in t.until("stopped").replace("\r\n", "\n") and t.status() == 0
    assert run(lamina, *ask, "-p", PARIS).stdout == answer
    assert run(lamina, *ask, "-p", PARIS, "-q").stderr == ""


def test_a_document_precedes_the_question(lamina, model, tmp_path):
    def prompt(*how, **options):
        return json.loads(run(lamina, "run", model, "--raw", "-n", "1", "--json", *how, **options).stdout)["prompt"]
    assert prompt("-p", "Summarise:", input="a text\n") == "a text\nSummarise:"
    assert prompt("-p", "Summarise:", input="") == "Summarise:"
    assert prompt("-p", "Summarise:", stdin=subprocess.DEVNULL) == "Summarise:"
    (tmp_path / "doc").write_text("a text\n")
    with open(tmp_path / "doc") as document:
        assert prompt("-p", "Summarise:", stdin=document) == "a text\nSummarise:"


def test_a_model_is_a_command(lamina, model, tmp_path):
    done = run(lamina, model, PARIS, "-n", "2", "--temp", "0", "--raw")
    assert done.returncode == 0 and done.stdout.startswith(" Paris")
    assert run(lamina, model, "-n", "2", "--temp", "0", "--raw", input=PARIS).stdout == done.stdout
    assert run(lamina, "run", model, *PARIS.split(), "-n2", "--temp", "0", "--raw").stdout == done.stdout, "words after MODEL are the prompt"
    t = terminal(tmp_path, lamina, model)
    t.prompt()
    t.type("\x04")
    assert t.status() == 0
    assert run(lamina, "run", model, "x", "-p", "y").returncode == 2


def test_a_preset_gives_a_hint(lamina):
    done = run(lamina, "llama-3.2-1b", env=BARE)
    assert done.returncode == 2 and "lamina inspect llama-3.2-1b" in done.stderr
    done = run(lamina, "run", "llama-3.2-1b", "-p", "x", env=BARE)
    assert done.returncode == 2 and "meta-llama/Llama-3.2-1B" in done.stderr and "lamina synth llama-3.2-1b" in done.stderr
    for command in (["run", "nosuch"], ["chat", "smolm2-135m"]):
        done = run(lamina, *command, env=BARE, stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and "presets" not in done.stderr and "lamina doctor" in done.stderr


@pytest.mark.parametrize("address", ["hf.co/", "huggingface.co/", "https://hf.co/", "https://huggingface.co/"])
def test_a_name_may_begin_with_the_hub(lamina, tmp_path, address):
    for command in (["run", "-p", "x"], ["inspect"], ["tokenize", "-p", "x"], []):
        done = run(lamina, *command[:1], address + "no-such-org/no-such-name:Q8_0", *command[1:], env={**environment(tmp_path), "HF_HUB_OFFLINE": "1"},
                   stdin=subprocess.DEVNULL)
        assert done.returncode and "hint: lamina pull no-such-org/no-such-name:Q8_0 downloads " in done.stderr, done.stderr


@pytest.mark.parametrize("command", [["serve", "{}"], ["tokenize", "{}", "-p", "x"], ["quantize", "{}", "x.gguf", "q4_0"], ["convert", "{}", "x.gguf"],
                                     ["merge", "{}", "adapter", "x.gguf"], ["template", "{}", "--show"]])
def test_only_models_with_weights_are_proposed(lamina, tmp_path, command):
    def refused(name):
        done = run(lamina, *(word.format(name) for word in command), env=environment(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL)
        assert done.returncode and not list(tmp_path.glob("*.gguf"))
        return done.stderr.splitlines()[-2:]
    assert refused("nosuch") == ["hint: name a .gguf file, a folder, or org/name; lamina pull ORG/NAME downloads a model, lamina doctor lists the models of the cache",
                                 "error: nosuch: no such file or folder, and no such model in the cache"]
    assert refused("llama-3.2-1b") == ["hint: name a .gguf file, a Hugging Face folder or a .jinja file" if command[0] == "template" else
                                       "hint: use lamina synth llama-3.2-1b OUT.gguf to create it with random weights",
                                       "error: llama-3.2-1b: a preset has no weights and no tokenizer"]


@pytest.mark.parametrize(("command", "hint"), [
    (["run", "Why is the sky blue?"], "a prompt without a MODEL is given with -p: lamina run -p TEXT"),
    (["Why is the sky blue?"], "lamina run -p TEXT answers a text, lamina help lists the commands"),
    (["pull", "llama3.2"], "names are those of huggingface.co: lamina pull HuggingFaceTB/SmolLM2-135M-Instruct")])
def test_what_users_of_ollama_type_first_gets_a_hint(lamina, tmp_path, command, hint):
    done = run(lamina, *command, env=environment(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.returncode in (1, 2) and f"hint: {hint}\n" in done.stderr


def test_a_name_of_several_presets_gives_a_hint(lamina):
    done = run(lamina, "run", "llama3.2", "-p", "x", env=BARE)
    assert done.returncode == 2 and done.stderr.splitlines()[-1] == "error: llama3.2: matches several presets: llama-3.2-1b, llama-3.2-3b"
    assert "lamina doctor lists the models" in done.stderr
    done = run(lamina, "presets", "llama", "xyz")
    assert done.returncode == 1 and done.stderr == "hint: lamina presets lists them\nerror: llama xyz: no matching preset\n"


# ---- flags of other programs ----

def values(row):
    """Return a value that the flag accepts."""
    return {"-ts": ["1,1"], "-ot": ["x=CPU"], "--numa": ["distribute"]}.get(row["names"].split()[0], ["1"])


def test_flags_without_effect_are_accepted_with_a_note(lamina, model):
    rows = [r for r in program(lamina)["foreign"] if r["accepted"]]
    ask = ["run", model, "--raw", "-p", PARIS, "-n", "2", "--temp", "0"]
    plain = run(lamina, *ask)
    alone = [n for r in rows for n in r["names"].split()[:1] if run(lamina, *ask, n, "--nope").stderr.splitlines()[-1] != "error: --nope: unknown flag of lamina run"]
    everything = [word for r in rows for word in ([r["names"].split()[0]] + (values(r) if r["names"].split()[0] in alone else []))]
    done = run(lamina, *ask, *everything)
    assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
    for row in rows:
        assert done.stderr.count(f"{row['names'].split()[0]}: flag of {row['program']} without effect here: {row['reason']}\n") == 1, row
    assert run(lamina, *ask, *everything, "-q").stderr == ""


def test_unsupported_flags_are_rejected_by_name(lamina, model):
    for row in program(lamina)["foreign"]:
        for name in row["names"].split() if not row["accepted"] else []:
            done = run(lamina, "run", model, "-p", "x", name, "1")
            assert done.returncode == 2 and done.stderr == f"error: {name}: flag of {row['program']}: {row['reason']}\n"


def of_serve(lamina, accepted):
    """Return (row, those of its names that are not flags of lamina serve, which has more of llama.cpp's flags than lamina run)."""
    every = program(lamina)
    ours = {n for c in every["commands"] if c["name"] == "serve" for f in c["flags"] for n in [f["name"], *(f["also"] or "").split()]}
    return [(row, [n for n in row["names"].split() if n not in ours]) for row in every["foreign"] if row["accepted"] == accepted]


def test_serve_takes_the_same_flags(lamina, model):
    plain = run(lamina, "serve", "--openapi")
    rows = of_serve(lamina, True)
    alone = {n[0] for _, n in rows if n and run(lamina, "serve", "--openapi", n[0], "--nope").stderr.splitlines()[-1] != "error: --nope: unknown flag of lamina serve"}
    everything = [word for r, n in rows if n for word in ([n[0]] + (values(r) if n[0] in alone else []))]
    done = run(lamina, "serve", "--openapi", *everything)
    assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
    for row, names in rows:
        assert not names or done.stderr.count(f"{names[0]}: flag of {row['program']} without effect here: {row['reason']}\n") == 1, row
    for row, names in of_serve(lamina, False):
        for name in names[:1]:
            done = run(lamina, "serve", model, name, "1")
            assert done.returncode == 2 and done.stderr == f"error: {name}: flag of {row['program']}: {row['reason']}\n"


def test_serve_as_llama_server_is_started(lamina, model):
    """A command line from llama-server's documentation is accepted."""
    line = "-ngl 99 -fa on -c 512 --jinja -cb -np 4 --no-ui --pooling mean --timeout 600 -t 2 --threads-http 2 --metrics --slots --host 127.0.0.1 --port 0"
    done = run(lamina, "serve", model, *line.split(), "--openapi")
    assert done.returncode == 0 and done.stderr.count("without effect here") == 4, done.stderr


def test_no_row_is_a_flag_of_ours(lamina):
    every = program(lamina)
    ours = {n for c in every["commands"] if c["name"] == "run" for f in c["flags"] for n in [f["name"], *(f["also"] or "").split()]}
    names = [n for r in every["foreign"] for n in r["names"].split()]
    assert not ours & set(names), "a flag that has a meaning now needs no row in foreign.c"
    assert len(names) == len(set(names))


def test_the_table_of_the_document_is_that_of_the_program(lamina, source):
    text = (source / "docs/guide/coming-from.md").read_text()
    shown = re.findall(r"^\| (`-.*`) \| (.*) \|$", text, re.M)
    assert shown == [(" ".join(f"`{n}`" for n in r["names"].split()), r["reason"]) for r in program(lamina)["foreign"]], "scripts/coming-from"


def test_other_commands_take_flags_of_graphics_processors(lamina, model):
    for command in (["score", "-p", PARIS], ["embed", "-p", PARIS], ["trace", "-p", PARIS]):
        plain, done = (run(lamina, *command, "-m", model, "--compute", "f32", *flags) for flags in ([], ["-ngl", "99", "-fa", "on", "-sm", "none"]))
        assert done.returncode == 0 and done.stdout == plain.stdout and done.stderr.count("flag of llama.cpp without effect here") == 3, done.stderr


def test_a_flag_of_another_command_is_named(lamina, model):
    for command, flag, owner in (("run", "--host", "serve"), ("chat", "-p", "run"), ("serve", "-md", "run"), ("tokenize", "--pooling", "serve")):
        done = run(lamina, command, model, flag, "1")
        assert done.returncode == 2 and done.stderr == f"hint: {flag} is a flag of lamina {owner}\nerror: {flag}: unknown flag of lamina {command}\n"


def test_an_empty_sequence_breaker_is_refused(lamina, model):
    done = run(lamina, "run", model, "-p", "x", "-n", "1", "--dry-sequence-breaker", "")
    assert done.returncode == 2 and ": an empty value; needs " in done.stderr.splitlines()[-1], done.stderr


def test_ranges_are_written_in_full(lamina, model):
    assert run(lamina, "run", model, "-p", "x", "-n", "-2").stderr == "error: --predict: -2 is outside -1 ... 1000000000000000\n"


def test_flash_attention_takes_a_value_or_none(lamina, model):
    for how in (["-fa"], ["-fa", "on"], ["--flash-attn=off"], ["-fa", "auto"]):
        done = run(lamina, "run", *how, model, "--raw", "-p", PARIS, "-n", "1", "--temp", "0")
        assert done.returncode == 0 and done.stdout == " Paris", how


def test_numbers_may_touch_their_flag(lamina, model):
    def ids(*how):
        return json.loads(run(lamina, "run", model, "--raw", "-p", PARIS, "--temp", "0", "--json", *how).stdout)["ids"]
    assert len(ids("-n4", "-t2", "-c4096", "-ngl99")) == 4
    assert run(lamina, "run", model, "-p4x").returncode == 2, "a text may not"


def test_escapes_are_processed_by_default(lamina, model):
    def prompt(*how):
        return json.loads(run(lamina, "run", model, "--raw", "-n", "1", "--json", *how).stdout)["prompt"]
    assert prompt("-p", r"a\nb") == prompt("-e", "-p", r"a\nb") == "a\nb" and prompt("--no-escape", "-p", r"a\nb") == r"a\nb"
    done = run(lamina, "run", model, "--raw", "-p", "1\n2\n3\n", "-n", "20", "--temp", "0", "-r", r"\n5")
    assert done.returncode == 0 and done.stdout.startswith("4") and "5" not in done.stdout
    assert run(lamina, "run", model, "-p", "x", "-e", "--no-escape").returncode == 2


def test_one_turn(lamina, model):
    done = run(lamina, "chat", model, "-st", "-n", "2", "--temp", "0", "--json", input="/stats\nHi\nnever\n")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(SANITIZED, reason="its shadow memory is locked too")
def test_locked_memory_or_a_warning(lamina, model):
    ask = ["run", model, "-p", PARIS, "--raw", "-n", "40", "--ignore-eos", "--mlock"]
    if os.geteuid() == 0:
        process = subprocess.Popen([lamina, *ask, "-n", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        [locked] = re.findall(r"VmLck:\s+(\d+) kB", open(f"/proc/{process.pid}/status").read())
        process.kill()
        process.communicate()
        assert int(locked) > 50000, "the weights are in memory that is locked"
    if subprocess.run(["setpriv", "--bounding-set", "-ipc_lock", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no setpriv here")
    done = run("setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "sh", "-c", 'ulimit -l 64 && exec "$@"', "sh", lamina, *ask)
    assert done.returncode == 0 and "warning: --mlock: memory cannot be locked: ulimit -l allows 65.5 kB" in done.stderr


# ---- context sizes ----

@pytest.mark.skipif(SANITIZED, reason="it maps terabytes")
def test_the_context_that_fits_is_named_and_found(lamina, model):
    def limited(*context):
        return run("sh", "-c", 'ulimit -v 420000 && exec "$@"', "sh", lamina, "run", model, "--raw", "-p", PARIS, "-n", "2", "--temp", "0", "-v",
                   "-ctk", "f32", *context, env={**os.environ, **BARE})
    refused = limited("-c", "8192")
    assert refused.returncode == 4 and re.search(r"error: memory: [\d.]+ MB are needed \(weights [\d.]+ MB, cache [\d.]+ MB, "
                                                 r"scratch [\d.]+ MB\), [\d.]+ MB are available$", refused.stderr), refused.stderr
    fits = int(re.search(r"hint: -c (\d+) would fit", refused.stderr)[1])
    assert 256 <= fits < 8192 and limited("-c", str(fits)).returncode == 0
    found = limited("-c", "auto")
    assert found.returncode == 0 and 256 <= int(re.search(r"context ([\d,]+);", found.stderr)[1].replace(",", "")) < 8192
    whole = run(lamina, "run", model, "--raw", "-p", PARIS, "-n", "2", "--context", "auto", "-v")
    assert "context 8,192;" in whole.stderr, "no more than the model has"


def test_a_prompt_that_is_too_long_names_the_flag(lamina, model):
    done = run(lamina, "run", model, "--raw", "-p", PARIS, "-c", "4")
    assert done.returncode == 1 and done.stderr.splitlines()[-2:] == \
        ["hint: -c 6 or more holds it; without -c, the context is as large as needed", "error: prompt: 5 tokens; the context size is 4"]
    document = json.loads(run(lamina, "run", model, "--raw", "-p", PARIS, "-c", "4", "--json").stdout)
    assert document["hint"].startswith("-c 6 or more holds it")
    done = run(lamina, "run", model, "--raw", "-p", PARIS, "-c", "4", "-n", "20", "--ignore-eos")
    assert done.stderr.splitlines()[-2] == "hint: -c 25 or more holds it and its answer"
    assert run(lamina, "run", model, "--raw", "-p", PARIS, "-c", "25", "-n", "20", "--ignore-eos", "--json").stdout.count('"stop_reason": "length"') == 1


@pytest.mark.parametrize("term", ["xterm", "dumb", None])
def test_the_hint_follows_the_error_at_a_terminal(lamina, model, tmp_path, term):
    env = {k: v for k, v in environment(tmp_path).items() if k != "TERM"} | ({"TERM": term} if term else {})
    t = Terminal(lamina, "--no-color", "run", model, "--tmep", "1", env=env)
    assert t.until("--temp?").replace("\r\n", "\n") == "error: --tmep: unknown flag of lamina run\nhint: did you mean --temp?"
    assert t.status() == 2
    assert run(lamina, "run", model, "--tmep", "1").stderr == "hint: did you mean --temp?\nerror: --tmep: unknown flag of lamina run\n"


# ---- chat ----

def test_a_paste_is_one_message(lamina, model, tmp_path):
    t = terminal(tmp_path, lamina, "chat", model, "--temp", "0", "-n", "3")
    assert "\033[?2004h" in t.prompt(), "the terminal is asked to mark pastes"
    t.type("\033[200~one\r\ttwo\033[31m\r\rthree /quit\033[201~ and more\r")
    t.prompt()
    t.type('"""four\n')
    t.until("\r\n  ")
    t.type('five\\\n')
    t.until("\r\n  ")
    t.type('"""\n')
    t.prompt()
    t.type("\033[A\033[A\x01\x0b/save talk.json\n".replace("talk.json", str(tmp_path / "talk.json")))
    assert "4 messages written" in t.prompt(), "keys that begin as a paste does still do what they did"
    t.type("/bye\n")
    t.until("\033[?2004l")
    assert t.status() == 0
    reply = [m["content"] for m in json.loads((tmp_path / "talk.json").read_text())["messages"] if m["role"] == "user"]
    assert reply == ["one\n\ttwo[31m\n\nthree /quit and more", "four\nfive\\"]


def test_commands_of_other_chats(lamina, model):
    lines = '/?\n/set\n/system\n/system Be brief.\n/system\n/system none\n/system\n"""Hi\nyou"""\n/clear\n/bye\nnever\n'
    done = run(lamina, "chat", model, "-n", "2", "--temp", "0.5", "--json", input=lines)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    assert re.search(r"^temp +0\.5$", done.stderr, re.M) and re.search(r"^predict +2$", done.stderr, re.M)
    assert done.stderr.count("no system message\n") == 3 and "\nBe brief.\n" in done.stderr and "conversation cleared" in done.stderr


def test_saving_confirms_and_asks_before_overwriting(lamina, model, tmp_path):
    saved = tmp_path / "talk.json"
    done = run(lamina, "chat", model, "-n", "2", input=f"/save {saved}\n")
    assert done.returncode == 0 and f"{saved}: 0 messages written" in done.stderr
    before = saved.read_text()
    done = run(lamina, "chat", model, "-n", "2", input=f"Hi\n/save {saved}\n")
    assert done.returncode == 2 and "already exists" in done.stderr and saved.read_text() == before
    assert run(lamina, "chat", model, "-n", "2", input=f"Hi\n/save! {saved}\n").returncode == 0 and saved.read_text() != before
    t = terminal(tmp_path, lamina, "chat", model)
    t.prompt()
    before = saved.read_text()
    for answer, word in (("no", "not saved"), ("yes", "0 messages written")):
        t.type(f"/save {saved}\n")
        assert "Replace it?" in t.prompt()
        t.type(f"{answer}\n")
        assert word in t.prompt() and (saved.read_text() == before) == (answer == "no")
    t.type("\x04")
    assert t.status() == 0


def test_the_seed_is_returned_on_request(lamina, model):
    done = run(lamina, "run", model, "--raw", "-p", PARIS, "-n", "6", "-v", "--temp", "1.5")
    seed = re.search(r"^seed +(\d+)$", done.stderr, re.M)[1]
    assert run(lamina, "run", model, "--raw", "-p", PARIS, "-n", "6", "--temp", "1.5", "-s", seed).stdout == done.stdout
    assert re.search(r"^seed +7$", run(lamina, "chat", model, "-s", "7", "-v", input="").stderr, re.M)


# ---- pipes and errors ----

@pytest.mark.parametrize("command", [
    ["presets"], ["help"], ["inspect", "llama-3.2-1b", "--view", "facts"], ["report", "llama-3.2-1b"], ["help", "--json"],
    ["run", "MODEL", "--raw", "-p", PARIS, "--ignore-eos"], ["tokenize", "MODEL", "-p", PARIS * 4000],
    ["chat", "MODEL"],
])
def test_a_reader_that_leaves_ends_it_quietly(lamina, model, command):
    words = [model if w == "MODEL" else w for w in command]
    out, end = os.pipe()
    os.close(out)
    process = subprocess.Popen([lamina, *map(str, words), *([] if command == ["report", "llama-3.2-1b"] else ["-q"])], stdin=subprocess.PIPE, stdout=end,
                               stderr=subprocess.PIPE, text=True)
    os.close(end)
    _, err = process.communicate("Hi\nHi\n", timeout=PATIENCE)
    assert process.returncode == -signal.SIGPIPE and "error" not in err and "Broken pipe" not in err, err


def test_a_process_that_ignores_the_signal_is_reported(lamina):
    out, end = os.pipe()
    os.close(out)
    done = subprocess.run([lamina, "presets"], stdout=end, stderr=subprocess.PIPE, text=True, restore_signals=False, check=False)
    os.close(end)
    assert done.returncode == 1 and done.stderr == "error: standard output: Broken pipe\n"


@pytest.mark.parametrize("command, words", [
    (["--verison"], "did you mean lamina --version?"), (["inspct"], "did you mean lamina inspect?"),
    (["run", "MODEL", "--tmep", "1"], "did you mean --temp?"), (["chat", "MODEL", "--promt", "x"], None),
    (["list"], None), (["xylophone"], None), (["run", "MODEL", "--gramma", "x"], "did you mean --grammar?"), (["tokenize", "MODEL", "--jinja"], None),
])
def test_only_near_names_are_suggested(lamina, model, command, words):
    done = run(lamina, *(model if w == "MODEL" else w for w in command))
    assert done.returncode == 2
    assert words in done.stderr if words else "did you mean" not in done.stderr, done.stderr


@pytest.mark.parametrize("flags, words", [
    (["report", "gpt2", "--format", "foo"], "html, md, pandoc, json, txt"), (["eval", "choices", "-f", "x", "--task", "foo"], "any, plain, hellaswag, "),
    (["serve", "--ensemble-rule", "foo"], "mean, logmean, contrast"),
])
def test_the_values_of_a_flag_are_listed(lamina, flags, words):
    done = run(lamina, *flags)
    assert done.returncode == 2 and f': "foo" is not one of {words}' in done.stderr, done.stderr


@pytest.mark.parametrize("flags, words", [
    (["--seed", "18446744073709551616"], "--seed: 18446744073709551616 is outside 0 ... 9223372036854775807"),
    (["--seed", "-2"], "--seed: -2 is outside 0 ... 9223372036854775807"), (["-s", "x"], '--seed: "x" is not a whole number'),
    (["-c", "autp"], "--ctx-size: "),
])
def test_values_are_judged_by_name(lamina, model, flags, words):
    done = run(lamina, "run", model, "-p", "x", *flags)
    assert done.returncode == 2 and words in done.stderr.splitlines()[-1]


def test_an_unknown_precision_lists_the_words(lamina):
    done = run(lamina, "inspect", "llama-3.2-1b", "--precision", "foo")
    assert done.returncode == 2 and all(w in done.stderr for w in ("--precision", "bf16", "Q4_K_M", "IQ4_XS"))


def test_the_first_different_token_is_named(lamina, source, tmp_path):
    folder = source / "tests/golden/llama/gqa"
    data = bytearray((folder / "golden.safetensors").read_bytes())
    size, = struct.unpack_from("<Q", data)
    entry = json.loads(data[8:8 + size])["greedy_ids"]
    sequences, steps = entry["shape"]
    at = 8 + size + entry["data_offsets"][0] + 8 * ((sequences - 1) * steps + 2)
    id, = struct.unpack_from("<q", data, at)
    struct.pack_into("<q", data, at, id + 1 if id == 0 else id - 1)
    (tmp_path / "golden.safetensors").write_bytes(data)
    done = run(lamina, "verify", folder, tmp_path / "golden.safetensors", "--json")
    assert done.returncode == 5 and f"different token at step 2 of sequence {sequences - 1} " in done.stderr.splitlines()[-1]
    assert json.loads(done.stdout)["greedy_differs"] == {"sequence": sequences - 1, "step": 2}


def test_help_has_every_spelling_and_the_environment(lamina):
    text = " ".join(run(lamina, "run", "--help").stdout.split())
    assert all(name in text for name in ("--stop", "--n-predict", "--temperature", "--raw", "HF_HUB_CACHE", "LAMINA_CACHE"))
    assert "HF_HOME" in run(lamina, "help").stdout


def test_no_folder_is_made_of_the_name_of_a_file(lamina, tmp_path):
    done = run(lamina, "synth", "gpt2", tmp_path / "out.bin")
    assert done.returncode == 2 and "no .bin is written" in done.stderr and list(tmp_path.iterdir()) == []
