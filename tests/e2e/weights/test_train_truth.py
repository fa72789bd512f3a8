"""lamina train compared with peft and PyTorch: fifty steps with their losses (tools/oracle/curves.py)."""
import json
import os
import pathlib
import struct

import pytest

from conftest import BARE, SOURCE, run

GOLDEN = SOURCE / "tests/golden"
CURVES = sorted(p.parent.name for p in (GOLDEN / "train/curves").glob("*/options.txt"))


@pytest.fixture(scope="session")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE})


def tensors(path):
    """Return the numbers of each F32 and F64 tensor of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and t["dtype"] in ("F32", "F64"):
            a, b = t["data_offsets"]
            out[name] = struct.unpack(f"<{(b - a) // (4 if t['dtype'] == 'F32' else 8)}{'f' if t['dtype'] == 'F32' else 'd'}",
                                      data[8 + size + a:8 + size + b])
    return out


def test_four_families_have_curves():
    assert CURVES == ["deepseek_v2", "gemma2", "gpt2", "llama"]


@pytest.mark.parametrize("family", CURVES)
def test_fifty_steps_equal_peft(lamina, tmp_path, family):
    """With accumulation, masks, clipping, decay and schedule: peft's loss, norm and rate at every step, and peft's final adapter."""
    folder = GOLDEN / "train/curves" / family
    truth = tensors(folder / "golden.safetensors")
    out = tmp_path / "run"
    done = lamina("train", GOLDEN / (folder / "base.txt").read_text().strip(), "--ids-file", folder / "golden.safetensors", "--init-from", folder,
                  *(folder / "options.txt").read_text().split(), "--compute", "f32", "-o", out)
    assert done.returncode == 0, done.stderr
    log = [json.loads(x) for x in (out / "log.jsonl").read_text().splitlines()]
    assert len(log) == 50 == len(truth["loss"])
    assert truth["loss"][-1] < truth["loss"][0] - 0.5 and any(n > 0.5 for n in truth["norm"])  # the loss falls, and gradients are clipped
    for line, loss, norm, rate in zip(log, truth["loss"], truth["norm"], truth["rate"]):
        assert abs(line["loss"] - loss) <= 1e-5, (line["step"], line["loss"], loss)
        assert abs(line["grad_norm"] - norm) <= 1e-4 * norm, (line["step"], line["grad_norm"], norm)
        assert abs(line["lr"] - rate) <= 1e-8 * rate, (line["step"], line["lr"], rate)
    mine = tensors(out / "adapter_model.safetensors")
    assert {f"final.{k}" for k in mine} == {k for k in truth if k.startswith("final.")}
    for name, a in mine.items():
        b = truth[f"final.{name}"]
        assert max(abs(x - y) for x, y in zip(a, b)) <= 5e-5 * max(map(abs, b)), name


def test_models_trained_whole_open_again(lamina, tmp_path):
    """A model of every family, trained whole without a change of its weights, agrees with its golden: every tensor is written, in the shape
    that its reader expects."""
    agreed = 0
    for folder in sorted(p.parent for p in GOLDEN.glob("*/*/golden.safetensors") if (p.parent / "config.json").exists()):
        out = tmp_path / folder.parent.name / folder.name
        few = json.loads((folder / "config.json").read_text()).get("vocab_size", 96) < 96
        ids = GOLDEN / f"train/{folder.parent.name if few else 'llama'}.{'lora' if few else 'full'}.safetensors"
        done = lamina("train", folder, "--ids-file", ids, "--full", "--lr", "1e-30", "--steps", "1", "-o", out)
        if done.returncode == 3 and any(why in done.stderr for why in ("can only be trained with adapters", "train an adapter", "quantised by")):
            continue
        assert done.returncode == 0, (folder, done.stderr)
        done = lamina("verify", out, folder / "golden.safetensors")
        assert done.returncode == 0, (folder, done.stderr)
        agreed += 1
    assert agreed > 80
