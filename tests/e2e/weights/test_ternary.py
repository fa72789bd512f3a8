"""Matrices of -1, 0 and 1: products of integers are exact, what has no form is refused by name."""
import json
import os
import shutil

import pytest
from conftest import BARE, SOURCE, run

GOLDEN = SOURCE / "tests/golden"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE})


@pytest.mark.parametrize("cpu", ["auto", "avx2", "ref"])
@pytest.mark.parametrize("compute", ["auto", "fine", "f32"])
def test_products_are_exact(lamina, cpu, compute):
    """Integer kernels, which elsewhere round their input, are as near to the reference as float32 is."""
    case = GOLDEN / "bitnet/packed"
    done = lamina("verify", case, case / "golden.safetensors", "--compute", compute, "--cpu", cpu, "--tol", "3e-6")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case, change, why", [
    ("bitnet/narrow", {"linear_class": "linear"}, "quantization_config/linear_class"),
    ("bitnet/narrow", {"quantization_mode": "offside"}, "quantization_config/quantization_mode"),
    ("bitnet/narrow", {"use_rms_norm": True}, "quantization_config/use_rms_norm"),
    ("bitnet/narrow", {"modules_to_not_convert": []}, "quantization_config/modules_to_not_convert"),
    ("bitnet/narrow", {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp"]}, "quantization_config/modules_to_not_convert"),
    ("bitnet/narrow", {"quant_method": "other"}, "weights quantised by other are not read"),
    ("llama/ternary", {"use_rms_norm": True}, "quantization_config/use_rms_norm"),
    ("qwen2/plain", {"quant_method": "bitnet"}, "weights quantised by bitnet are not read"),
])
def test_other_forms_are_refused(lamina, tmp_path, case, change, why):
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / case if (GOLDEN / case).exists() else next((GOLDEN / "qwen2").glob("*/config.json")).parent, folder)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {**config.get("quantization_config", {}), **change}
    (folder / "config.json").write_text(json.dumps(config))
    done = lamina("inspect", folder)
    assert done.returncode and why in done.stderr, done.stderr


def test_gguf_and_full_training_are_refused(lamina, tmp_path):
    for case in ("bitnet/packed", "bitnet/floats", "llama/ternary"):
        done = lamina("convert", GOLDEN / case, tmp_path / "m.gguf")
        assert done.returncode and "GGUF" in done.stderr and not (tmp_path / "m.gguf").exists(), done.stderr
    (tmp_path / "ids.jsonl").write_text("[1, 2, 3, 4, 5]\n")
    for case in ("bitnet/packed", "bitnet/online"):
        done = lamina("train", GOLDEN / case, "--ids-file", tmp_path / "ids.jsonl", "--full", "--steps", "1", "-o", tmp_path / "out")
        assert done.returncode and "matrices of -1, 0 and 1 are not trained" in done.stderr, done.stderr
