"""lamina train: common forms of data, the same bits however a run is interrupted, rejected input, files left on disk."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

import pytest

from conftest import BARE, BUILD, PATIENCE, SOURCE, run

MODEL = SOURCE / "tests/golden/llama/gqa"
TEXTS = ["the cat sat on the mat", "a dog ran in the park", "rain fell on the town all day", "she read the old book", "he went to the sea"]
QUICK = ["-t", "2", "--compute", "f32", "--rank", "4", "--lr", "5e-3", "-c", "48", "--valid-share", "0"]


@pytest.fixture(scope="session")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE})


def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


def tensors(path):
    """Return {name: bytes} and the header of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {k: data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}, head


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": t + f" {i}"}) + "\n" for i, t in enumerate(TEXTS * 4)))
    return path


def losses(folder):
    return [json.loads(x) for x in (folder / "log.jsonl").read_text().splitlines()]


def test_it_learns_and_writes_what_peft_reads(lamina, data, tmp_path):
    out = tmp_path / "run"
    done = lamina("train", MODEL, data, "-o", out, *QUICK, "--lr", "2e-2", "--steps", "30", "--json")
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["steps_done"] == 30 and reply["memory"]["planned"] == reply["memory"]["allocated"]
    log = losses(out)
    assert [x["step"] for x in log] == list(range(1, 31)) and {"step", "loss", "lr", "grad_norm", "tokens", "seconds"} <= set(log[0])
    assert log[-1]["loss"] < 0.7 * log[0]["loss"]
    found, head = tensors(out / "adapter_model.safetensors")
    config = json.loads((out / "adapter_config.json").read_text())
    assert config["r"] == 4 and config["lora_alpha"] == 8 and config["peft_type"] == "LORA"
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in found and len(found) == 2 * reply["modules"]
    assert head["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"]["shape"][0] == 4
    assert any(any(x) for k, x in found.items() if "lora_B" in k)


def reply(lamina, model, *more):
    done = lamina("run", model, "--ids", "5,17,33,8", "-n", "4", "--temp", "0", "--ignore-eos", "--logprobs", "3", "--compute", "f32", "--json", *more)
    assert done.returncode == 0, done.stderr
    return [(x["id"], round(x["logprob"], 4)) for x in json.loads(done.stdout)["logprobs"]]


def test_both_forms_of_an_adapter_agree_on_both_forms_of_the_model(lamina, data, tmp_path):
    """The rows of q and k have another order in this GGUF file: both forms of the adapter give the same results, on either base."""
    out = tmp_path / "run"
    assert lamina("train", MODEL / "model.gguf", data, "-o", out, *QUICK, "--lr", "2e-2", "--steps", "20").returncode == 0
    plain, peft = reply(lamina, MODEL / "model.gguf"), reply(lamina, MODEL / "model.gguf", "--lora", out)
    assert plain != peft
    for base, form in ((MODEL / "model.gguf", out / "adapter.gguf"), (MODEL, out)):
        other = reply(lamina, base, "--lora", form)
        assert [i for i, _ in other] == [i for i, _ in peft] and all(abs(a - b) <= 2e-4 for (_, a), (_, b) in zip(other, peft)), (base, form)


def test_threads_and_a_stop_change_no_bit(lamina, data, tmp_path):
    args = ["train", MODEL, data, "--accumulate", "2", "--dropout", "0.1", *QUICK[2:], "--steps", "8", "--save-every", "3"]
    assert lamina(*args, "-o", tmp_path / "one", "-t", "1").returncode == 0
    assert lamina(*args, "-o", tmp_path / "four", "-t", "4").returncode == 0
    whole = (tmp_path / "one/adapter_model.safetensors").read_bytes()
    assert (tmp_path / "four/adapter_model.safetensors").read_bytes() == whole
    first = tmp_path / "parts"
    running = subprocess.Popen([str(BUILD / "src/cli/lamina"), *map(str, args), "-o", str(first), "-t", "2"], stderr=subprocess.DEVNULL)
    until = time.time() + PATIENCE
    while not (first / "state/state.safetensors").exists() and running.poll() is None and time.time() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = lamina(*args, "-o", first, "-t", "2", "--resume")
    assert done.returncode == 0, done.stderr
    assert (first / "adapter_model.safetensors").read_bytes() == whole
    assert [x["step"] for x in losses(first)] == list(range(1, 9))
    assert [x["loss"] for x in losses(first)] == [x["loss"] for x in losses(tmp_path / "one")]


def test_an_existing_run_is_kept(lamina, data, tmp_path):
    args = ["train", MODEL, data, "-o", tmp_path / "run", *QUICK, "--steps", "2"]
    assert lamina(*args).returncode == 0
    one_line(lamina(*args), 2, "holds a run already")
    one_line(lamina(*args, "--resume", "--rank", "8"), 2, "rank 4")
    data.write_text(data.read_text() + json.dumps({"text": "one more"}) + "\n")
    one_line(lamina(*args, "--resume"), 2, "data ")


@pytest.mark.parametrize("model", ["llama/gqa", "mamba2/tied", "recurrent_gemma/griffin"])
def test_gradients_equal_the_golden(lamina, tmp_path, model):
    """--gradients writes the gradients of a user's own ids: they are those of the golden file, to 2e-5, with the names and the order of the
    model's own tensors."""
    golden = SOURCE / f"tests/golden/train/{model.split('/')[0]}.full.safetensors"
    out = tmp_path / "g.safetensors"
    done = lamina("train", SOURCE / "tests/golden" / model, "--ids-file", golden, "--gradients", out, "--full", "--compute", "f32")
    assert done.returncode == 0, done.stderr
    mine, _ = tensors(out)
    truth, _ = tensors(golden)
    for name, raw in mine.items():
        a, b = (struct.unpack(f"<{len(x) // 4}f", x) for x in (raw, truth[f"grad.{name}"]))
        assert max(abs(x - y) for x, y in zip(a, b)) <= 2e-5 * max(map(abs, b)), name


def ids_file(path, rows):
    """Write a safetensors file with input_ids and labels, as torch would save it."""
    data = struct.pack(f"<{sum(map(len, rows))}q", *(i for r in rows for i in r))
    shape = [len(rows), len(rows[0])]
    head = json.dumps({"input_ids": {"dtype": "I64", "shape": shape, "data_offsets": [0, len(data)]},
                       "labels": {"dtype": "I64", "shape": shape, "data_offsets": [len(data), 2 * len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data + data)
    return path


@pytest.mark.parametrize("model, way", [(MODEL, "lora"), (MODEL, "full"), (SOURCE / "tests/golden/llama/gqa/model.gguf", "lora"),
                                        (SOURCE / "tests/golden/quantised/classic/model.gguf", "lora")])
def test_the_plan_of_inspect_is_the_plan_and_the_allocation(lamina, tmp_path, model, way):
    """For adapters, adapters on quantised weights and full training: with every activation stored, and with every layer recomputed."""
    requested = [f"memory.training.{x}" for x in ("tokens", f"{way}.total", f"{way}.total_checkpointed")]
    done = lamina("inspect", model, *(x for path in requested for x in ("--query", path)), "-t", "2")
    tokens, kept, checkpointed = map(int, done.stdout.split())
    ids = ids_file(tmp_path / "ids.safetensors", [[1 + i % 90 for i in range(tokens)]])
    for number, (limit, total) in enumerate([("64G", kept), (str(checkpointed), checkpointed)]):
        done = lamina("train", model, "--ids-file", ids, "-o", tmp_path / f"run{number}", f"--{way}", "--steps", "1", "-t", "2", "--mem-limit", limit, "--json")
        assert done.returncode == 0, done.stderr
        memory = json.loads(done.stdout)["memory"]
        assert memory["planned"] == memory["allocated"] == total


def test_dry_run_trains_nothing(lamina, data, tmp_path):
    done = lamina("train", MODEL, data, "--dry-run", "-c", "48", "--json")
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["memory"]["allocated"] is None and reply["steps_done"] == 0 and reply["data"]["texts"] + reply["data"]["validation_texts"] == 20
    assert "[[" in done.stderr
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.parametrize("lines, reply", [
    ("", "is empty"),
    ('{"text": "a"}\n{"text": ', "line 2"),
    ('{"text": "a b c"}\n{"prompt": "a", "completion": "b"}\n', "line 2"),
    ('{"chosen": "a", "rejected": "b"}\n', "preferences"),
    ('{"words": "a"}\n', "none of the keys"),
    ('{"messages": [{"role": "user", "content": "a"}]}\n', "no chat template"),
])
def test_bad_data(lamina, tmp_path, lines, reply):
    path = tmp_path / "bad.jsonl"
    path.write_text(lines)
    one_line(lamina("train", MODEL, path, "-o", tmp_path / "run", *QUICK), 2, reply, "bad.jsonl")
    assert not (tmp_path / "run").exists()


def test_bad_lines_are_skipped_on_request(lamina, data, tmp_path):
    data.write_text("{\n" + data.read_text())
    reply = json.loads(lamina("train", MODEL, data, "--dry-run", "-c", "48", "--skip-bad", "--json").stdout)
    assert reply["data"]["bad"] == 1


def test_options_that_cannot_be(lamina, data, tmp_path):
    out = tmp_path / "run"
    one_line(lamina("train", MODEL, data), 2, "-o")
    one_line(lamina("train", MODEL, "-o", out), 2, "DATA")
    one_line(lamina("train", MODEL, data, "-o", out, "--target", "nothing_like_it"), 2, "nothing_like_it")
    one_line(lamina("train", MODEL, data, "-o", out, "--lora", "--full"), 2, "--full")
    one_line(lamina("train", MODEL, data, "-o", out, "-c", "48", "--mem-limit", "1000000"), 4, "training")


def test_a_whole_model(lamina, data, tmp_path):
    out = tmp_path / "model"
    done = lamina("train", MODEL, data, "-o", out, "--full", *QUICK[:4], "-c", "48", "--steps", "10", "--lr", "1e-3", "--valid-share", "0")
    assert done.returncode == 0, done.stderr
    assert losses(out)[-1]["loss"] < losses(out)[0]["loss"]
    assert lamina("run", out, "-p", "the", "-n", "2", "--temp", "0").returncode == 0
