#!/usr/bin/env python3
"""own_adapters.py: adapters that lamina has trained, and what peft makes of them: tests/golden/adapters/own-*/.

    tools/oracle/own_adapters.py LAMINA [PATTERN …] [--out tests/golden/adapters]

Each folder is what `lamina train` wrote after some steps on a golden model (base.txt), in both forms where the model is a GGUF file too, and
golden.safetensors: ids and logits of the model with that folder loaded by peft, in float32 with eager attention. A tensor that peft misses or
does not expect ends the script."""

import argparse
import fnmatch
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from peft import PeftModel, get_peft_model_state_dict  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
CASES = {"own-llama": ("llama/gqa", []), "own-gpt2": ("gpt2/plain", []), "own-gemma2": ("gemma2/windows", ["--rslora"]),
         "own-deepseek_v2": ("deepseek_v2/groups", ["--target", "attention"]),
         "own-phi3": ("phi3/window", ["--target", "qkv_proj", "--target", r"layers\.0\..*"]),
         "own-falcon": ("falcon/grouped", []), "own-gpt_neox": ("gpt_neox/pythia", [])}


def make(name: str, lamina: str, out: Path) -> None:
    base, options = CASES[name]
    folder, model = out / name, GOLDEN / base
    ids = GOLDEN / "train/curves/llama/golden.safetensors"
    with tempfile.TemporaryDirectory() as work:
        stored = model / "model.gguf" if (model / "model.gguf").exists() else model
        subprocess.run([lamina, "train", stored, "--ids-file", ids, "-o", f"{work}/run", "--rank", "4", "--steps", "30", "--lr", "2e-2",
                        "--batch", "4", "--compute", "f32", *options], check=True, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in ("adapter_config.json", "adapter_model.safetensors", "adapter.gguf"):
            if Path(work, "run", file).exists():
                shutil.copy(Path(work, "run", file), folder / file)
    config = (folder / "adapter_config.json").read_text().replace(str(stored), base)
    (folder / "adapter_config.json").write_text(config)
    (folder / "base.txt").write_text(base + "\n")
    golden = load_file(model / "golden.safetensors")["input_ids"]
    plain = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)             # peft warns about missing keys
        before = plain(golden).logits
        adapted = PeftModel.from_pretrained(plain, folder).eval()
        logits = adapted(golden).logits
    saved, here = load_file(folder / "adapter_model.safetensors"), get_peft_model_state_dict(adapted)
    if saved.keys() != here.keys() or any(not torch.equal(saved[k], here[k]) for k in saved):
        raise SystemExit(f"{name}: peft holds other tensors than the file")
    moved = ((logits - before).abs().max() / before.abs().max()).item()
    if moved < 0.02:
        raise SystemExit(f"{name}: the adapter hardly does anything ({moved:.2g})")
    source = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}; tools/oracle/own_adapters.py {name}"
    save_file({"input_ids": golden, "logits": logits.contiguous()}, folder / "golden.safetensors", metadata={"source": source})
    for file in folder.iterdir():
        file.chmod(0o644)
    print(f"{name}: {base}, {len(saved)} tensors, logits move by {moved:.2g}", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("lamina")
    p.add_argument("patterns", nargs="*", default=["*"])
    p.add_argument("--out", type=Path, default=GOLDEN / "adapters")
    o = p.parse_args()
    torch.set_num_threads(1)
    for name in CASES:
        if any(fnmatch.fnmatch(name, x) for x in o.patterns):
            make(name, o.lamina, o.out)


main()
