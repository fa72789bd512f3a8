#!/usr/bin/env python3
"""Random models of every family: transformers computes their logits, `lamina verify` judges the engine by them.

    tools/oracle/random_models.py LAMINA [--seed N] [--count N] [--family NAME ...] [--keep FOLDER] [--gguf LLAMA_CPP]

With --gguf the model is judged as llama.cpp's converter writes it; LLAMA_CPP is its source (build/oracle/llama.cpp). Not everything
has a key there, so who disagrees with transformers is held to what llama.cpp itself makes of the file. Nothing is stored: a model that disagrees
is printed with its seed, and its folder kept where --keep says. Status 1 when any does. The suite's goldens fix what was found once;
this looks for what nobody thought of."""

import argparse
import concurrent.futures
import contextlib
import io
import json
import math
import multiprocessing
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

import convert
import peer
import random_configs
import store
from random_configs import FAMILIES

LENGTHS = (1, 2, 7, 33, 65, 150)
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}


def fill(model):
    """Weights large enough that every part moves the logits: fresh ones are so small that mistakes drown."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                p.normal_(0, 1.2 / math.sqrt(p.shape[-1]))
            elif ("norm" in name or "ln" in name) and name.endswith("weight"):
                p.add_(.2 * torch.randn_like(p))
            else:
                p.normal_(0, .2)
        for name, b in model.named_buffers():
            if "e_score" in name:
                b.normal_(0, .1)
        model.tie_weights()
    return model


def write(folder, family, r):
    """A random model and its logits in `folder`; returns what was drawn."""
    make, config_class, model_class = FAMILIES[family]
    keywords = make(r)
    model_class = getattr(transformers, model_class)
    model = fill(model_class(getattr(transformers, config_class)(**keywords, **EAGER)).eval())
    dtype = r.choice((torch.float32, torch.bfloat16, torch.float16))
    model.to(dtype).save_pretrained(folder, max_shard_size=r.choice(("5GB", "100KB")))

    model = model_class.from_pretrained(folder, dtype=torch.float32, **EAGER).eval()
    ids = torch.randint(3, model.config.vocab_size, (r.choice((1, 2)), r.choice(LENGTHS)))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "golden.safetensors",
              metadata={"source": f"transformers {transformers.__version__}"})
    return {"config": keywords, "rows": tuple(ids.shape), "dtype": str(dtype)}


def twin(folder, family, vocabulary, llama_cpp):
    """model.gguf beside the folder's files, by llama.cpp's converter, everything in float32. Some converters cut the embedding to the
    tokens there are, so there is one for each row."""
    whole = json.loads(store.tokenizer(vocabulary)["tokenizer.json"])
    named = whole["model"]["vocab"]
    named |= {f"<{i}>": i for i in range(len(named), vocabulary - 1)}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    case = types.SimpleNamespace(path=family, family=family, kwargs={"vocab_size": vocabulary}, raw_config=False, plain_vocab=True, dtype="F32")
    with contextlib.redirect_stderr(io.StringIO()):
        convert.gguf(case, folder, llama_cpp, folder / "model.gguf")
    return folder / "model.gguf"


def peer_golden(folder):
    """peer.safetensors beside the folder's golden: what llama.cpp makes of its model.gguf, run apart, for it may abort."""
    ids = load_file(folder / "golden.safetensors")["input_ids"]
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        rows = pool.submit(peer.run, folder / "model.gguf", ids.tolist(), n_ctx=256).result()
    save_file({"input_ids": ids, "logits": torch.stack([torch.from_numpy(x) for x in rows])}, folder / "peer.safetensors",
              metadata={"source": "llama.cpp"})
    return folder / "peer.safetensors"


def verdict(lamina, model, golden, *flags):
    """(agrees, largest relative error, what was said)"""
    p = subprocess.run([lamina, "verify", model, golden, "--json", *flags], capture_output=True, text=True)
    try:
        answer = json.loads(p.stdout)
    except ValueError:
        answer = {"error": p.stdout[:200]}
    return p.returncode == 0, answer.get("max_rel_err") or 0.0, f"status {p.returncode}: {p.stderr.strip()[-250:]}"


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("lamina")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--count", type=int, default=len(FAMILIES))
    a.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    a.add_argument("--keep", type=pathlib.Path)
    a.add_argument("--gguf", type=pathlib.Path, metavar="LLAMA_CPP")
    a = a.parse_args()

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if a.gguf:
        random_configs.VOCABULARIES = tuple(v for v in random_configs.VOCABULARIES if v > 128)      # room for the tokenizer's bytes
    tally = {f: {"models": 0, "disagree": 0, "refused": 0, "error": 0.0} for f in a.family}
    for seed in range(a.seed, a.seed + a.count):
        family = a.family[seed % len(a.family)]
        t, r = tally[family], random.Random(seed)
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            try:
                drawn = write(folder, family, r)
            except Exception as e:       # transformers itself refuses some combinations
                t["refused"] += 1
                print(f"seed {seed} {family}: transformers: {type(e).__name__}: {str(e)[:120]!r}", flush=True)
                continue
            if a.gguf:
                try:
                    model = twin(folder, family, drawn["config"]["vocab_size"], a.gguf)
                except (Exception, SystemExit) as e:
                    t["refused"] += 1
                    print(f"seed {seed} {family}: converter: {type(e).__name__}: {str(e)[:120]!r}", flush=True)
                    continue
            agrees, error, said = verdict(a.lamina, model if a.gguf else folder, folder / "golden.safetensors")
            if a.gguf and not agrees:
                try:
                    agrees, error, again = verdict(a.lamina, model, peer_golden(folder), "--tol", "0.01")
                except Exception as e:
                    again = f"llama.cpp: {type(e).__name__}: {str(e)[:120]!r}"
                said = f"transformers: {said}\n    llama.cpp: {again}"
            t["models"] += 1
            t["error"] = max(t["error"], error)
            if not agrees:
                t["disagree"] += 1
                print(f"seed {seed} {family}: {said}\n    {drawn}", flush=True)
                if a.keep:
                    shutil.copytree(folder, a.keep / f"{family}-{seed}", dirs_exist_ok=True)
    print(f"{'family':19}{'models':>8}{'disagree':>10}{'refused':>9}{'max rel':>10}")
    for family, t in tally.items():
        print(f"{family:19}{t['models']:8}{t['disagree']:10}{t['refused']:9}{t['error']:10.1e}")
    return any(t["disagree"] for t in tally.values())


if __name__ == "__main__":
    sys.exit(main())
