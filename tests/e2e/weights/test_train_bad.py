"""lamina train under failures: kills, full disks, losses that are not finite, adapters of other models."""
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import BARE, BUILD, SOURCE, run

MODEL = SOURCE / "tests/golden/llama/gqa"
QUICK = ["-t", "2", "--compute", "f32", "--rank", "4", "-c", "48", "--valid-share", "0"]


@pytest.fixture(scope="session")
def lamina(build):
    return lambda *args, **more: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE}, **more)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": f"the {a} is {b} in {i}"}) + "\n" for i in range(10) for a in ("cat", "dog") for b in ("old", "new")))
    return path


def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), (done.returncode, done.stderr)


def left_over(folder):
    return [p for p in pathlib.Path(folder).rglob("*") if "tmp" in p.name or p.name.startswith(".")]


def killed(command, path, lines, delay):
    """Run a command and kill it once its log has `lines` lines and `delay` seconds have passed. Return whether it was killed; otherwise it
    ended before, with status 0."""
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while running.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= lines):
            time.sleep(0.001)
        running.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGKILL)
    assert running.wait() in (0, -signal.SIGKILL)
    return running.returncode != 0


def test_killed_at_twenty_points_it_ends_with_the_same_bits(lamina, data, tmp_path):
    """On a machine of any speed: a run that ends before it is killed is compared, and another one is started."""
    args = ["train", MODEL, data, *QUICK, "--lr", "5e-3", "--steps", "60", "--save-every", "1", "--dropout", "0.05"]
    assert lamina(*args, "-o", tmp_path / "whole").returncode == 0
    kills, runs = 0, 0
    while kills < 20:
        parts, done, runs = tmp_path / f"parts{runs}", False, runs + 1
        assert runs < 21, "every run ended before it could be killed"
        log = parts / "log.jsonl"
        while not done:
            lines = log.read_bytes().count(b"\n") if log.exists() else 0
            command = [str(BUILD / "src/cli/lamina"), *map(str, args), "-o", str(parts), *(["--resume"] if parts.exists() else [])]
            if kills < 20 and killed(command, log, lines + kills % 3, 0.002 * (kills % 7)):
                kills += 1
                state = parts / "state/state.safetensors"
                assert not state.exists() or state.stat().st_size > 1000
                continue
            if kills == 20:
                assert subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
            done = True
        for file in ("adapter_model.safetensors", "adapter_config.json", "state/state.safetensors"):
            assert (parts / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
        steps = [[json.loads(x) for x in (p / "log.jsonl").read_text().splitlines()] for p in (parts, tmp_path / "whole")]
        assert [(x["step"], x["loss"]) for x in steps[0]] == [(x["step"], x["loss"]) for x in steps[1]]


def with_a_bad_token(folder):
    """Copy the model with NaN as the embedding of token 93; return the folder."""
    shutil.copytree(MODEL, folder)
    raw = bytearray((folder / "model.safetensors").read_bytes())
    size = struct.unpack("<Q", raw[:8])[0]
    table = json.loads(raw[8:8 + size])["model.embed_tokens.weight"]
    width = table["shape"][1]
    at = 8 + size + table["data_offsets"][0] + 93 * width * 4
    raw[at:at + 4 * width] = struct.pack(f"<{width}f", *[math.nan] * width)
    (folder / "model.safetensors").write_bytes(raw)
    return folder


def ids_file(path, rows):
    data = struct.pack(f"<{sum(map(len, rows))}q", *(i for r in rows for i in r))
    tensor = {"dtype": "I64", "shape": [len(rows), len(rows[0])]}
    head = json.dumps({name: {**tensor, "data_offsets": [i * len(data), (i + 1) * len(data)]} for i, name in enumerate(("input_ids", "labels"))}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data + data)
    return path


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_save(lamina, tmp_path):
    """One bad step is skipped; three in a row end the run with an error that names them."""
    model, out = with_a_bad_token(tmp_path / "model"), tmp_path / "run"
    rows = [[5 + (i * 7 + k) % 80 for k in range(12)] for i in range(10)]
    for i in (2, 5, 6, 7):
        rows[i][4] = 93
    ids = ids_file(tmp_path / "ids.safetensors", rows)
    done = lamina("train", model, "--ids-file", ids, "-o", out, "-t", "2", "--rank", "4", "--lr", "1e-2", "--batch", "1", "--steps", "10", "--save-every", "4")
    one_line(done, 1, "steps 6 to 8", "not finite", "rows 6 to 8 of epoch 1")
    log = [json.loads(x) for x in (out / "log.jsonl").read_text().splitlines()]
    assert [x["step"] for x in log if x.get("skipped")] == [3, 6, 7] and all(x["loss"] > 0 for x in log if not x.get("skipped"))
    shorter = tmp_path / "shorter"
    ids_file(tmp_path / "few.safetensors", rows[:4])
    done = lamina("train", model, "--ids-file", tmp_path / "few.safetensors", "-o", shorter, "-t", "2", "--rank", "4", "--lr", "1e-2", "--batch", "1",
                  "--steps", "4", "--schedule", "constant", "--warmup", "0")
    assert done.returncode == 0 and "not finite: skipped" in done.stderr
    assert b"nan" not in (shorter / "log.jsonl").read_bytes().lower()


def test_a_full_disk_is_an_error_and_leaves_nothing_half(lamina, data, tmp_path):
    out = tmp_path / "run"

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    done = subprocess.run([str(BUILD / "src/cli/lamina"), "train", str(MODEL), str(data), "-o", str(out), *QUICK, "--steps", "2"], text=True,
                          capture_output=True, preexec_fn=small_files, env={**os.environ, **BARE})
    one_line(done, 1, "adapter_model.safetensors")
    assert not (out / "adapter_model.safetensors").exists() and not left_over(out)


def test_adapters_to_begin_with(lamina, data, tmp_path):
    """An adapter of another model, rank or set of modules is rejected by name; a run from an adapter cannot be resumed without it."""
    adapters, out = SOURCE / "tests/golden/adapters", tmp_path / "run"
    args = ["train", MODEL, data, "-o", out, *QUICK, "--alpha", "8", "--steps", "2"]
    done = lamina(*args, "--init-from", adapters / "gpt2")
    assert done.returncode != 0 and len(done.stderr.strip().splitlines()) < 12 and "transformer.h.0" in done.stderr
    one_line(lamina(*args, "--init-from", adapters / "llama", "--rank", "8"), 2, "rank 4", "q_proj")
    one_line(lamina(*args, "--init-from", adapters / "llama-layer"), 2, "not a module of the adapter")
    one_line(lamina(*args, "--init-from", adapters / "llama", "--target", "q_proj"), 2, "is a module of the adapter, but not trained")
    one_line(lamina(*args, "--init-from", adapters / "llama", "--full"), 2, "init-from")
    nothing = lamina(*args, "--target", "v_proj", "--target", "q_projj")
    one_line(nothing, 2, "q_projj: no linear layer")
    assert 'did you mean "q_proj"?' in nothing.stderr
    assert not out.exists() or not (out / "state").exists()
    assert lamina(*args, "--init-from", adapters / "llama").returncode == 0
    one_line(lamina(*args, "--resume"), 2, "begun from")


def test_a_path_that_is_too_long_is_rejected(lamina, data, tmp_path):
    """A path that was cut would be another folder."""
    out = tmp_path.joinpath(*["d" * 200] * 19)
    one_line(lamina("train", MODEL, data, *QUICK, "--steps", "1", "-o", out), 2, "folder", "3800 are possible")
    assert not any(p.name.startswith("ddd") for p in tmp_path.iterdir())
