#!/usr/bin/env python3
"""tests/golden/embed/hidden.safetensors: the last hidden state, after the final norm, of one tiny model of every family.

From transformers' AutoModel, in float32, on the first input_ids of the case's own golden; one tensor [T, D] per case, named as the case.
"""
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from case import all_cases

ROOT = Path(__file__).resolve().parents[2] / "tests" / "golden"


def of_every_family():
    """Yield the first case of each family, and cases that end differently: norms after the blocks, a projection, caps, a latent."""
    more = {"opt/post-norm", "opt/pre-norm", "openai-gpt/post-norm", "gemma2/windows", "llama/rope-yarn", "deepseek_v3/halves"}
    seen = set()
    for case in all_cases():
        folder = ROOT / case.path
        whole = all((folder / name).exists() for name in ("config.json", "golden.safetensors", "model.safetensors"))
        if whole and not case.relaid and (case.family not in seen or case.path in more):
            seen.add(case.family)
            yield case, folder


@torch.no_grad()
def hidden(case, path: Path) -> torch.Tensor:
    model = AutoModel.from_pretrained(path, dtype=torch.float32, attn_implementation=case.attention).eval()
    ids = load_file(path / "golden.safetensors")["input_ids"][:1]
    return model(input_ids=ids, use_cache=False).last_hidden_state[0].float().contiguous()


def main() -> None:
    torch.set_num_threads(1)
    found = {case.path: hidden(case, folder) for case, folder in of_every_family()}
    (ROOT / "embed").mkdir(exist_ok=True)
    save_file(found, ROOT / "embed" / "hidden.safetensors",
              metadata={"source": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32"})
    print(json.dumps({k: list(v.shape) for k, v in found.items()}))


if __name__ == "__main__":
    main()
