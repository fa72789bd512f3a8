"""lamina chat over a pipe and on a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
import unicodedata

import pytest
from conftest import PATIENCE, run


@pytest.fixture(scope="module")
def chat(build, model):
    def call(text, *args, **options):
        return run(build / "src/cli/lamina", "chat", model, "--temp", "0", *args, input=text, **options)
    return call


def answers(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_over_a_pipe(chat):
    done = chat("What is the capital of France?\n", "-n", "40", "--compute", "f32")
    assert done.returncode == 0 and "Paris" in done.stdout and done.stdout.endswith("\n")
    assert "> " not in done.stdout


def test_processed_tokens_are_not_processed_again(chat):
    first, second = answers(chat("Say one word.\nSay another word.\n", "-n", "12", "--json"))
    assert first["timings"]["reused_tokens"] == 0
    assert second["timings"]["reused_tokens"] >= first["timings"]["prompt_tokens"]
    assert second["timings"]["prompt_tokens"] > second["timings"]["reused_tokens"]
    assert first["role"] == "assistant" and first["stop_reason"] in ("eos", "length")


def test_a_loaded_conversation_continues_unchanged(chat, tmp_path):
    """A loaded conversation continues with the same tokens as the saved one, although its cache is cold."""
    saved = tmp_path / "talk.json"
    both = answers(chat(f"Say one word.\n/save {saved}\nSay another word.\n", "-n", "12", "--json"))
    messages = json.loads(saved.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] and messages[1]["content"] == both[0]["content"]
    again, = answers(chat("Say another word.\n", "-n", "12", "--json", "--load", saved))
    assert again["ids"] == both[1]["ids"]


def test_a_rejected_message_leaves_no_trace(chat):
    """A message that does not fit leaves no trace: half of it is answered as if it were the first."""
    half = "one two three four five six seven eight nine ten " * 6
    lines = f"hello\n/reset\n{half * 5}\n{half}\n"
    first, refused, second = answers(chat(lines, "-n", "8", "-c", "256", "--json"))
    assert "error" in refused and first["timings"]["reused_tokens"] == 0
    alone, = answers(chat(f"{half}\n", "-n", "8", "-c", "256", "--json"))
    assert second["ids"] == alone["ids"]


def test_slash_commands(chat):
    done = chat("/system Answer in French.\nHi\n/reset\nHi\n/system none\n/reset\nHi\n/stats\n/help\n/quit\nnever said\n", "-n", "4", "--json")
    first, second, third = answers(done)
    assert done.returncode == 0
    assert first["ids"] == second["ids"] and first["timings"]["prompt_tokens"] == second["timings"]["prompt_tokens"]
    assert third["timings"]["prompt_tokens"] != second["timings"]["prompt_tokens"]
    assert "answers    3" in done.stderr and "/regen" in done.stderr


def test_the_first_token_of_an_answer_comes_with_the_prompt(chat):
    done = chat("Hi\nHi\n/stats\n", "-n", "4", "--json", "--ignore-eos")
    seconds = sum(a["timings"]["generate_seconds"] for a in answers(done))
    speed = re.search(r"^generated  8 tokens in .* \(([\d.]+) tok/s\)$", done.stderr, re.M)[1]
    assert float(speed) == pytest.approx(6 / seconds, rel=0.01)
    done = chat("Hi\n/stats\n", "-n", "1")
    assert re.search(r"^generated  1 token in .* \(– tok/s\)$", done.stderr, re.M)


def test_regen_draws_anew_and_set_sets(chat):
    lines = "/set temp 2\n/set top-k 0\n/set seed 7\nTell me something.\n" + "/regen\n" * 3
    several = answers(chat(lines, "-n", "10", "--json"))
    assert len({tuple(a["ids"]) for a in several}) > 1
    assert [a["timings"]["prompt_tokens"] for a in several] == [several[0]["timings"]["prompt_tokens"]] * 4
    assert [a["ids"] for a in several] == [a["ids"] for a in answers(chat(lines, "-n", "10", "--json"))]


def test_a_failed_regen_keeps_the_answer(chat, tmp_path):
    saved = tmp_path / "talk.json"
    lines = f"Hi\n/system {'word ' * 300}\n/regen\n/system none\n/save {saved}\n/regen\n"
    first, error, again = answers(chat(lines, "-c", "120", "-n", "4", "--json"))
    assert error["error"]["code"] == "limit"
    assert [m["content"] for m in json.loads(saved.read_text())["messages"]] == ["Hi", first["content"]]
    assert again["timings"]["prompt_tokens"] == first["timings"]["prompt_tokens"]


def test_set_takes_spellings_of_other_programs(chat):
    done = chat("/set parameter temperature 0.5\n/set top_k 7\n/set n_predict 4\n/set seed 11\n/set seed -5\n/set\nHi\n", "-n", "1")
    assert "error: --seed: -5 is outside" in done.stderr
    for setting in (r"temp +0\.5", r"top-k +7", r"predict +4", r"seed +11"):
        assert re.search(f"^{setting}$", done.stderr + done.stdout, re.M), setting


@pytest.mark.parametrize("line, words", [
    ("/rest", "/rest: unknown command"),
    ("/set tmep 1", '/set: unknown setting "tmep"'),
    ("/set top-p 7", "top_p: 7 is outside 0 ... 1"),
    ("/load /nowhere.json", "/nowhere.json"),
    ("/regen", "/regen: no answer yet"),
])
def test_errors_do_not_end_the_chat(chat, line, words):
    done = chat(f"{line}\nHi\n", "-n", "2")
    assert done.returncode != 0 and done.stderr.splitlines()[-1].startswith("error: ") and words in done.stderr
    assert done.stdout, "the next message is answered"


def test_errors_replace_the_answer(chat):
    """Each message gets one document, also if it fails, so that a client waiting for a line gets one."""
    done = chat("/rest\nHi\n" + "word " * 300 + "\nHi\n", "-c", "120", "-n", "2", "--json")
    first, second, third, fourth = answers(done)
    assert first["error"]["where"] == "/rest" and third["error"]["code"] == "limit"
    assert second["role"] == fourth["role"] == "assistant"
    assert done.returncode == 2 and done.stderr.count("error: ") == 2


@pytest.mark.parametrize("flags", [["--load", "zero"], ["-m", "zero"], ["--nope"], ["-n"]])
def test_errors_before_the_first_message_are_lines_too(chat, tmp_path, flags):
    (tmp_path / "zero").touch()
    done = chat("Hi\n", "--json", *flags, cwd=tmp_path)
    assert done.returncode in (1, 2, 3) and "error" in answers(done)[0] and len(answers(done)) == 1


@pytest.mark.parametrize("text, where, message", [
    ("", "line 1", "'[' or '{' expected near end of file"), ('{\n"a": x}', "line 2", "invalid token near 'x'"),
    ("{}", "messages", "expected an array of messages"), (None, None, "Is a directory"),
])
def test_an_invalid_conversation_is_named(chat, tmp_path, text, where, message):
    path = tmp_path / "talk"
    path.mkdir() if text is None else path.write_text(text)
    error = answers(chat("Hi\n", "--json", "--load", path))[0]["error"]
    assert error["file"] == str(path) and error["where"] == where and error["message"] == message


def test_a_message_that_does_not_fit(chat):
    done = chat("word " * 300 + "\nHi\n", "-c", "120", "-n", "2")
    assert done.returncode == 1 and "the context size is 120" in done.stderr
    assert done.stdout, "it is not part of the conversation"


class Terminal:
    """The program on its own terminal."""

    def __init__(self, *command, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            level = {k: v for k, v in os.environ.items() if k == "LAMINA_CPU"}       # the level under test
            os.execve(command[0], [str(c) for c in command], {**level, **env})
        self.seen = b""

    def until(self, text, seconds=PATIENCE):
        """Return the output up to and including `text`."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {text!r} after {self.seen.decode(errors='replace')!r}")
            self.seen += os.read(self.fd, 4096)
        before, after, self.seen = self.seen.partition(text.encode())
        return (before + after).decode(errors="replace")

    def prompt(self):
        """Return the output up to the prompt once the line editor has the keyboard: what is typed before is echoed twice."""
        reply, end = self.until("\r\n> "), time.monotonic() + PATIENCE
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < end
            time.sleep(0.01)
        return reply

    def type(self, text):
        os.write(self.fd, text.encode())

    def status(self):
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_on_a_terminal_without_locales(build, model, tmp_path):
    """A line editor without UTF-8 would lose letters; the terminal's own line editing does not."""
    bare = ("/usr/bin/unshare", "-m", "sh", "-c", 'mount -t tmpfs none /usr/lib/locale && exec "$@"', "sh")
    if not os.path.exists(bare[0]) or run(*bare, "true").returncode:
        pytest.skip("the locales of this machine cannot be hidden from a program")
    env = {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "LANG": "de_DE.UTF-8"}
    t = Terminal(*bare, build / "src/cli/lamina", "chat", model, "--temp", "0", "-n", "4", env=env)
    t.until("\r\n> ")
    t.type("Say \\\n")
    t.until("\r\n  ")
    t.type("héros 層.\n")
    t.until("\r\n> ")
    t.type("half a line\x03")
    t.until("\r\n> ")
    t.type(f"/save {tmp_path / 'saved.json'}\n")
    t.until("\r\n> ")
    t.type("\x04")
    assert t.status() == 0
    [first, *_] = [m for m in json.loads((tmp_path / "saved.json").read_text())["messages"] if m["role"] == "user"]
    assert first["content"] == "Say \nhéros 層."


def test_on_a_terminal(build, model, tmp_path):
    env = {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    t = Terminal(build / "src/cli/lamina", "chat", model, "--temp", "0", "--ignore-eos", env=env)
    t.prompt()
    t.type("Tell me a long story about héros.\n")
    t.until("héros.\r\n")
    t.until(" ")                                       # the answer has begun
    t.type("\x03")
    assert "interrupted" in t.prompt(), "Ctrl-C stops the answer and not the program"
    t.type("half a line\x03")
    t.prompt()
    t.type("/set predict 3\n")
    t.prompt()
    t.type("Go \\\non.\n")
    assert "context" in t.prompt()
    t.type("\x04")
    assert t.status() == 0
    past = (tmp_path / "chat_history").read_text()
    assert "héros" in past and "half" not in past


def shown_lines(stream):
    """Return the lines on a terminal after `stream`, whose cursor moves left (CSI D) and erases (CSI K)."""
    lines, at = [[]], 0
    for move, erase, character in re.findall(r"\x1b\[(\d+)D|(\x1b\[K)|([^\r])", stream, re.S):
        if move:
            at -= int(move)
        elif erase:
            del lines[-1][at:]
        elif character == "\n":
            lines.append([])
            at = 0
        else:
            wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            lines[-1][at:] = [character] + [""] * (wide - 1)
            at += wide
    return lines


@pytest.mark.parametrize("columns", [24, 57])
def test_answers_break_at_words(build, model, tmp_path, chat, columns):
    for question, flags in (("Tell me about the ocean.", []), ("Say it.", ["--choice", "中文字符很宽 mixed with 日本語 and words" * 2])):
        env = {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        ask = ["--temp", "0", "-n", "200" if flags else "60", *flags]
        t = Terminal(build / "src/cli/lamina", "chat", model, *ask, env=env)
        t.prompt()
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        t.type(question + "\n")
        t.until(question + "\r\n")
        lines = shown_lines(re.split(r"\r\x1b\[K", t.until("context "))[-1])      # after the progress bar, if it was shown
        t.prompt()
        t.type("\x04")
        assert t.status() == 0
        lines = lines[:-1]                               # the last is the meter
        text = chat(question + "\n", *ask).stdout.strip()
        assert len(lines) > 1 and all(len(line) < columns for line in lines), ["".join(x) for x in lines]
        assert "".join("".join("".join(line) for line in lines).split()) == "".join(text.split()), "nothing is lost"
        words = set(re.findall(r"[a-z]+", text))
        assert all(set(re.findall(r"[a-z]+", "".join(line))) <= words for line in lines), "no word is cut"


def test_ctrl_c_on_an_empty_line_says_how_to_leave(build, model, tmp_path):
    env = {"LAMINA_CACHE": str(tmp_path), "TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    t = Terminal(build / "src/cli/lamina", "chat", model, env=env)
    t.prompt()
    t.type("half a line")
    t.until("half a line")                               # before Ctrl-C, which discards what has not been read
    t.type("\x03")
    assert "ends the chat" not in t.prompt()
    t.type("\x03")
    assert "Ctrl-D or /quit ends the chat" in t.prompt()
    t.type("\x04")
    assert t.status() == 0
