"""One model in several processes: the same output as in one, rejected options, and the loss of a process."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import PATIENCE, SANITIZED, explains, plain_only, run

TEXT = ["-p", "The capital of France is", "--raw", "-n", "8", "--temp", "0", "-t", "1"]
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "ASAN_OPTIONS": "detect_leaks=0"}                # leaks of Open MPI itself


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def ranks(n, *command, transport="self,vader"):
    loopback = ["--mca", "btl_tcp_if_include", "lo"] if "tcp" in transport else []      # Open MPI leaves it out, and another may be missing
    return ["mpirun", "--oversubscribe", "--mca", "btl", transport, *loopback, "-n", str(n), *(str(c) for c in command)]


def errors(done):
    """Return lamina's lines; mpirun adds its own."""
    return [line for line in done.stderr.splitlines() if line.startswith(("error: ", "hint: "))]


@pytest.fixture(scope="module")
def alone(lamina, model):
    done = run(lamina, "run", model, *TEXT, "--json")
    assert done.returncode == 0
    return json.loads(done.stdout)["ids"]


@pytest.mark.parametrize("n, transport", [(2, "self,vader")] if SANITIZED else [(2, "self,vader"), (3, "self,tcp"), (4, "self,vader"), (8, "self,vader")])
def test_an_exact_split_gives_the_tokens_of_one_process(lamina, model, alone, n, transport):
    done = run(*ranks(n, lamina, "run", model, *TEXT, "--json", "--split", f"tp={n}", "--exact-split", transport=transport), env=ENV)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ids"] == alone


@pytest.mark.parametrize("split, n, transport, flags", [("pp=2", 2, "self,vader", []), ("pp=3", 3, "self,tcp", []), ("tp=2,pp=2", 4, "self,vader", ["--exact-split"])])
def test_runs_of_layers_give_the_tokens_of_one_process(lamina, model, alone, split, n, transport, flags):
    """No sum is split between layers, so the tokens are equal without --exact-split too."""
    done = run(*ranks(n, lamina, "run", model, *TEXT, "--json", "--split", split, *flags, transport=transport), env=ENV)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ids"] == alone


@explains
def test_one_range_of_layers_can_be_shown(lamina, model):
    whole = json.loads(run(lamina, "inspect", model, "--json").stdout)["parameters"]["total"]
    parts = [run(lamina, "inspect", model, "--split", "pp=3", "--rank", r, "--program") for r in range(3)]
    assert all(p.returncode == 0 and "send " in p.stdout and "receive " in p.stdout for p in parts)
    counts = [int(p.stdout.split(" weights, ")[1].split()[0]) for p in parts]
    assert sum(counts) == whole and max(counts) < whole * 0.4              # every weight once, evenly
    layers = [{int(line.split("layers.")[1].split(".")[0]) for line in p.stdout.splitlines() if " attention " in line} for p in parts]
    assert set.union(*layers) == set(range(30)) and sum(map(len, layers)) == 30
    many = run(lamina, "inspect", model, "--split", "pp=31", "--program")
    assert many.returncode == 2 and "31 runs of 30 layers; 1 to 30 are possible" in many.stderr


def test_a_split_repeats_its_bits_and_is_close_to_one_rank(lamina, model):
    command = ranks(3, lamina, "score", model, "-p", "The capital of France is Paris.", "--json", "-t", "1", "--split", "auto", "--compute", "f32", "--kv-type", "f32")
    one = json.loads(run(lamina, "score", model, "-p", "The capital of France is Paris.", "--json", "--compute", "f32", "--kv-type", "f32").stdout)
    first, second = (json.loads(run(*command, env=ENV).stdout) for _ in range(2))
    assert first == second
    pairs = [(a["logprob"], b["logprob"]) for a, b in zip(one["tokens"][1:], first["tokens"][1:])]
    assert len(pairs) >= 6 and all(abs(a - b) < 3e-5 for a, b in pairs)


def test_two_turns_of_a_chat(lamina, model):
    command = ["chat", model, "--temp", "0", "-n", "12", "-t", "1", "--json"]
    requested = "What is water made of?\nAnd ice?\n"
    one = run(lamina, *command, input=requested)
    two = run(*ranks(2, lamina, *command, "--split", "tp=2", "--exact-split"), input=requested, env=ENV)
    def texts(done):
        return [json.loads(line)["content"] for line in done.stdout.splitlines()]
    assert len(texts(one)) == 2 and texts(two) == texts(one)


@pytest.mark.parametrize("n, flags, shows", [
    (2, ["--split", "tp=3"], "error: --split: tp=3 needs 3 ranks, and the job has 2: mpirun -n 3"),
    (10, ["--split", "tp=10"], "error: --split: 10 ranks share 9 query heads; 1 to 9 ranks are possible"),
    (1, ["--split", "pp=2"], "error: --split: pp=2 needs 2 ranks, and the job has 1: mpirun -n 2"),
    (2, ["--split", "tp=2,pp=2"], "error: --split: tp=2,pp=2 needs 4 ranks, and the job has 2: mpirun -n 4"),
    (2, ["--split", "tp=x"], 'error: --split: "tp=x" is not auto, tp=N, pp=N or tp=N,pp=M, of 256 ranks at most'),
    (1, ["--split", "pp=2,pp=2"], 'error: --split: "pp=2,pp=2" is not auto, tp=N, pp=N or tp=N,pp=M, of 256 ranks at most'),
    (1, ["--split", "ep=2"], 'error: --split: "ep=2": experts cannot be split separately; tp=N splits each of them'),
    (1, ["--exact-split"], "error: --exact-split: requires --split"),
])
def test_an_impossible_split_is_rejected_once(lamina, model, n, flags, shows):
    done = run(*ranks(n, lamina, "run", model, *TEXT, *flags), env=ENV)
    assert done.returncode != 0 and errors(done) == [shows] and done.stdout == ""


def test_a_context_that_does_not_fit_is_rejected_by_rank_0(lamina, model):
    done = run(*ranks(2, lamina, "run", model, *TEXT, "--split", "tp=2", "-c", "99999999"), env=ENV)
    assert done.returncode == 4 and len(errors(done)) == 2 and "are needed" in errors(done)[1]


@explains
def test_one_part_can_be_shown(lamina, model):
    whole = json.loads(run(lamina, "inspect", model, "--json").stdout)["parameters"]["total"]
    parts = [run(lamina, "inspect", model, "--split", "tp=3", "--rank", str(r), "--program") for r in range(3)]
    assert all(p.returncode == 0 and "sum over 3 ranks" in p.stdout for p in parts)
    counts = [int(p.stdout.split(" weights, ")[1].split()[0]) for p in parts]
    assert all(whole / 3 < c < whole * 0.6 for c in counts)
    refused = run(lamina, "inspect", model, "--split", "tp=3", "--rank", "3", "--program")
    assert refused.returncode == 2 and "rank 3 of 3" in refused.stderr


def processes(mark):
    """Return the processes whose command matches the expression `mark`; a process that ends meanwhile is left out."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(entry)}/cmdline", "rb") as file:
            command = file.read().replace(b"\0", b" ").decode(errors="replace")
            if re.search(mark, command):
                found.append(int(entry))
    return found


def gone(mark):
    """Wait until no process has `mark` in its command; kill those that remain, and fail."""
    until = time.time() + PATIENCE
    while (left := processes(mark)) and time.time() < until:
        time.sleep(0.1)
    for p in left:
        os.kill(p, signal.SIGKILL)
    assert not left


@pytest.mark.parametrize("blow, shows", [(signal.SIGSTOP, "has not answered for 2.125 s"), (signal.SIGKILL, None)])
def test_a_lost_process_ends_the_job(lamina, model, tmp_path, blow, shows):
    link = tmp_path / f"lost-{blow}.gguf"               # a name to find its processes by
    link.symlink_to(model)
    job = subprocess.Popen(ranks(3, lamina, "run", link, "-p", "Once upon a time", "--raw", "-n", "100000", "--ignore-eos", "-t", "1",
                                 "--split", "tp=3", "--step-timeout", "2.125"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
    assert job.stdout.read(40)                          # it is generating
    others = [p for p in processes(f"run {link}") if p != job.pid]
    try:
        os.kill(max(others), blow)
        _, received = job.communicate(timeout=PATIENCE)
        assert job.returncode != 0
        assert shows is None or shows in received.decode()
    finally:
        job.kill()
        gone(f"run {link}")


# ---- serving ----

def free_port():
    """Return a port outside the kernel's ephemeral range, in which a reconnecting client could take that of a server being restarted."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(20000, first if first > 21000 else 65536)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def ask(port, path, body=None, timeout=PATIENCE):
    """Return the status, 0 if there is no connection, and the body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=json.dumps(body).encode() if body else None,
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
    except OSError:
        return 0, b""


def healthy(port, seconds=PATIENCE):
    for _ in range(int(seconds * 10)):
        if ask(port, "/health")[0] == 200:
            return True
        time.sleep(0.1)
    return False


def serving(lamina, path, port, split, n, *flags):
    return ["mpirun", "--enable-recovery", "--oversubscribe", "-n", str(n), str(lamina), "serve", str(path), "--port", str(port), "--split", split,
            "-t", "1", "-c", "2048", "--parallel", "4", "--step-timeout", "5", *flags]


STORY = {"prompt": "Once upon a time", "max_tokens": 1900, "temperature": 0, "stream": True, "ignore_eos": True}


def read_story(port, text):
    """Append what is streamed to `text` as it arrives."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    c.request("POST", "/v1/completions", json.dumps(STORY))
    with contextlib.suppress(http.client.IncompleteRead):
        r = c.getresponse()
        while piece := r.read1():
            text += piece
    c.close()


def end(job, path):
    job.terminate()
    try:
        job.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        job.kill()
    gone(f"serve {path}")


@plain_only          # slow
@pytest.mark.parametrize("split, n", [("tp=2", 2), ("pp=2", 2)])
def test_ranks_serve_the_same_as_one_process(lamina, model, tmp_path, alone, split, n):
    """Concurrent requests with the same prompt get the output of one process."""
    link, port = tmp_path / "served.gguf", free_port()
    link.symlink_to(model)
    job = subprocess.Popen(serving(lamina, link, port, split, n, "--exact-split"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENV)
    try:
        assert healthy(port)
        expected = run(lamina, "run", model, *TEXT).stdout
        body = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda _: ask(port, "/v1/completions", body), range(6)))
        assert {json.loads(text)["choices"][0]["text"] for status, text in answers} == {expected.rstrip("\n")}
    finally:
        end(job, link)


@plain_only          # slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_streams_end_in_an_error_when_a_rank_is_lost_and_the_job_starts_again(lamina, model, tmp_path, blow):
    link, port = tmp_path / "lost.gguf", free_port()
    link.symlink_to(model)
    job = subprocess.Popen([lamina, "cluster", "run", "--", *serving(lamina, link, port, "tp=3", 3)], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env=ENV)
    try:
        assert healthy(port)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            texts = [bytearray() for _ in range(3)]
            streams = [pool.submit(read_story, port, text) for text in texts]
            while min(len(text) for text in texts) <= 1000:
                assert not any(s.done() for s in streams)
                time.sleep(0.01)
            ranks_now = [p for p in processes(f"serve {link}") if f"lamina serve {link}" in " ".join(
                open(f"/proc/{p}/cmdline").read().split("\0")) and "mpirun" not in open(f"/proc/{p}/cmdline").read()]
            assert len(ranks_now) == 3
            os.kill(max(ranks_now), blow)
        for text in texts:
            last = [line for line in text.decode().splitlines() if line.startswith("data: ")][-1]
            assert "another rank" in json.loads(last[6:])["error"]["message"]
        assert healthy(port)                                           # the restarted ranks
        again = [p for p in processes(f"serve {link}")]
        assert not set(again) & set(ranks_now)
        assert ask(port, "/v1/completions", {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})[0] == 200
    finally:
        end(job, link)
    assert b"a rank was lost; started again in 1 s" in job.stdout.read()


@pytest.mark.parametrize("flags, shows", [(["--sandbox"], "cannot be combined with --split"), (["--prefix-store", "."], "cannot be combined with --split")])
def test_features_that_ranks_lack(lamina, model, flags, shows):
    done = run(*ranks(2, lamina, "serve", model, "--port", "0", "--split", "tp=2", *flags), env=ENV)
    assert done.returncode == 2 and shows in done.stderr


# ---- supervision of a job ----

def test_a_job_is_started_again_until_it_ends_well(lamina, tmp_path):
    done = run(lamina, "cluster", "run", "--", "sh", "-c", "echo x >> lines; test $(wc -l < lines) -ge 3", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "lines").read_text() == "x\n" * 3
    assert re.findall(r"started again in (\d+) s", done.stderr) == ["1", "2"]


@pytest.mark.parametrize("job, shows", [(["sh", "-c", "exit 4"], "status 4, which another start"), (["/nowhere/mpirun"], "not found"), ([], "requires a job")])
def test_permanent_errors_are_not_restarted(lamina, job, shows):
    done = run(lamina, "cluster", "run", "--", *job)
    assert done.returncode in (1, 2) and shows in done.stderr


def test_a_job_that_ignores_the_signal_is_killed(lamina, tmp_path):
    job = subprocess.Popen([lamina, "cluster", "run", "--grace", "1", "--", "sh", "-c", "trap '' TERM; touch began; while :; do sleep 0.1; done"],
                           cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    until = time.time() + PATIENCE
    while not (tmp_path / "began").exists() and time.time() < until:
        time.sleep(0.05)
    [mark] = tmp_path.glob("lamina-lost-*")
    assert mark.is_dir() and mark.stat().st_mode & 0o777 == 0o700
    job.send_signal(signal.SIGTERM)
    assert "has not ended 1 s after the signal: killed" in job.communicate(timeout=PATIENCE)[1]
    assert job.returncode == 0 and not mark.exists()


def test_a_job_ends_with_its_keeper_and_leaves_no_process(lamina, tmp_path):
    mark = f"sleep 98{os.getpid()}"
    job = subprocess.Popen([lamina, "cluster", "run", "--", "sh", "-c", f"{mark} & {mark}"], cwd=tmp_path)
    until = time.time() + PATIENCE
    while len(processes(mark)) < 2 and time.time() < until:
        time.sleep(0.05)
    job.terminate()
    assert job.wait(PATIENCE) == 0
    gone(f"^{mark}")
