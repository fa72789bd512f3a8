#!/usr/bin/env python3
"""peer.py: llama.cpp on every GGUF twin, against the reference logits of the goldens.

    tools/oracle/peer.py [PATTERN …] [--out tests/golden]

Prints and stores (tests/golden/peer.json) per model the largest |Δ logit| / max |reference| of a position, as `lamina verify` counts it. Needs
llama-cpp-python. The cache is float32 and flash attention off, so what is left is llama.cpp's own arithmetic.
"""

import argparse
import fnmatch
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def quiet():
    import ctypes
    import llama_cpp
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    quiet.keep = silent


def run(model: Path, rows, **options):
    """Return llama.cpp's logits [T, V] of each row, computed for all its positions at once."""
    from llama_cpp import Llama
    quiet()
    options = {"n_ctx": 128, "n_threads": 1, "n_threads_batch": 1, "type_k": 0, "type_v": 0, "flash_attn": False,
               "yarn_attn_factor": -1.0, "yarn_beta_fast": -1.0, "yarn_beta_slow": -1.0} | options      # -1: from the file
    llm = Llama(str(model), logits_all=True, n_batch=options["n_ctx"], n_ubatch=options["n_ctx"], verbose=False, **options)
    out = []
    for row in rows:
        llm.reset()
        llm.eval([int(t) for t in row])
        out.append(np.array(llm.scores[: len(row)], dtype=np.float32))
    llm.close()
    return out


def relative(mine, reference) -> float:
    """Return the maximum over positions of the largest |Δ| divided by the largest |reference| of the position."""
    return float((np.abs(mine - reference).max(-1) / np.abs(reference).max(-1)).max())


def kl(mine, reference) -> float:
    """Return the mean KL(reference || mine) in nats."""
    def log_softmax(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    p, q = log_softmax(reference), log_softmax(mine)
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def main() -> None:
    import case as cases
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("patterns", nargs="*", default=["*"])
    p.add_argument("--out", type=Path, default=HERE.parents[1] / "tests" / "golden")
    args = p.parse_args()
    table = args.out / "peer.json"
    rows = json.loads(table.read_text()) if table.exists() else {}
    for c in cases.all_cases():
        folder = args.out / c.path
        if not any(fnmatch.fnmatch(c.path, pat) for pat in args.patterns) or not c.peer or not c.peer or not (folder / "model.gguf").exists():
            continue
        for golden in sorted(folder.glob("golden*.safetensors")):
            g = load_file(golden)
            mine = np.stack(run(folder / "model.gguf", g["input_ids"], **c.peer_options.get(g["input_ids"].shape[1], {})))
            row = {"max_rel_err": float(f"{relative(mine, g['logits']):.2e}"), "mean_kl": float(f"{max(kl(mine, g['logits']), 0):.2e}"),
                   "argmax_agreement": float(f"{(mine.argmax(-1) == g['logits'].argmax(-1)).mean():.4f}")}
            rows[f"{c.path}/{golden.name}"] = row
            print(f"{c.path + '/' + golden.name:52} rel {row['max_rel_err']:.2e}  KL {row['mean_kl']:.2e}  argmax {row['argmax_agreement']:.3f}  {c.gguf_note}", flush=True)
    rows = {k: v for k, v in sorted(rows.items()) if (args.out / k).exists()}
    table.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
