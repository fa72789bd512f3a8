#!/usr/bin/env python3
"""Random models of every family: torch's gradients of every weight, in float64, beside those of `lamina train --gradients`.

    tools/oracle/random_gradients.py LAMINA [--seed N] [--count N] [--family NAME ...] [--keep FOLDER]

Nothing is stored, except that --keep names a folder for models that disagree. The error of a tensor is relative to its largest gradient."""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types

os.environ["HF_HUB_OFFLINE"] = os.environ["TQDM_DISABLE"] = "1"

import torch
import transformers
from safetensors.torch import load_file, save_file

import gradients
from random_models import EAGER, FAMILIES, fill

ALLOWED = 2e-4                          # of float32 beside float64, with weights as large as `fill` makes them


def write(folder, family, r):
    """Write a random model and a batch; return torch's gradients and what was drawn."""
    make, config_class, model_class = FAMILIES[family]
    keywords = make(r)
    model_class = getattr(transformers, model_class)
    fill(model_class(getattr(transformers, config_class)(**keywords, **EAGER)).eval()).save_pretrained(folder)
    ids, labels = gradients.documents(keywords["vocab_size"], r.randrange(1000))
    save_file({"input_ids": ids, "labels": labels}, folder / "batch.safetensors")
    case = types.SimpleNamespace(family=family, model=model_class, in_files=lambda name: name)
    return gradients.everything(case, folder, ids, labels), keywords


def plain(name):
    """Return one name for a matrix of all experts, which files name in several ways."""
    for file, own in ((".w1.", ".gate_proj."), (".w3.", ".up_proj."), (".w2.", ".down_proj."), ("experts.*.", "experts."), ("block_sparse_moe.", "mlp.")):
        name = name.replace(file, own)
    return name


def judged(lamina, folder, wanted):
    """Return (largest relative error, the tensor that has it or a message)."""
    p = subprocess.run([lamina, "train", folder, "--ids-file", folder / "batch.safetensors", "--gradients", folder / "found.safetensors",
                        "--full", "--compute", "f32", "-q"], capture_output=True, text=True)
    if p.returncode:
        return float("inf"), f"status {p.returncode}: {p.stderr.strip()[-200:]}"
    found = {plain(name): x for name, x in load_file(folder / "found.safetensors").items()}
    worst, other = (0.0, ""), 0
    for name, x in wanted.items():
        name = plain(name.removeprefix("grad."))
        if name == "loss" or x.abs().max() < 1e-6 or ".indexer." in name:        # the choice has no gradient
            continue
        if name not in found:            # files name it otherwise, or store several weights in one tensor
            other += 1
            continue
        error = ((found[name].reshape(x.shape) - x).abs().max() / x.abs().max()).item()
        worst = max(worst, (error, name))
    return worst if other < len(wanted) / 3 else (float("inf"), f"{other} of {len(wanted)} gradients have no name in the file")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("lamina")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--count", type=int, default=len(FAMILIES))
    a.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    a.add_argument("--keep", type=pathlib.Path)
    a = a.parse_args()

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    tally = {f: [0, 0, 0, 0.0] for f in a.family}
    for seed in range(a.seed, a.seed + a.count):
        family = a.family[seed % len(a.family)]
        t = tally[family]
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            try:
                wanted, drawn = write(folder, family, random.Random(seed))
            except Exception as e:       # transformers itself rejects some combinations
                t[2] += 1
                print(f"seed {seed} {family}: transformers: {type(e).__name__}: {str(e)[:120]!r}", flush=True)
                continue
            error, name = judged(a.lamina, folder, wanted)
            t[0] += 1
            t[3] = max(t[3], error)
            if error > ALLOWED:
                t[1] += 1
                print(f"seed {seed} {family}: {error:.1e} {name}\n    {drawn}", flush=True)
                if a.keep:
                    shutil.copytree(folder, a.keep / f"{family}-{seed}", dirs_exist_ok=True)
    print(f"{'family':19}{'models':>8}{'disagree':>10}{'refused':>9}{'max rel':>10}")
    for family, (models, disagree, refused, error) in tally.items():
        print(f"{family:19}{models:8}{disagree:10}{refused:9}{error:10.1e}")
    return any(t[1] for t in tally.values())


if __name__ == "__main__":
    sys.exit(main())
