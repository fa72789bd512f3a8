#!/usr/bin/env python3
"""Random models of every family: transformers computes their logits, `lamina verify` judges the engine by them.

    tools/oracle/random_models.py LAMINA [--seed N] [--count N] [--family NAME ...] [--keep FOLDER]
                                   [--gguf LLAMA_CPP [--quantise]]

With --gguf the file of llama.cpp's converter is tested; LLAMA_CPP is its source (build/oracle/llama.cpp). GGUF has no key for some
features, so a model that disagrees with transformers is compared with llama.cpp's logits of the file. With --quantise llama.cpp then
quantises the file to a random type, and every instruction set is compared with llama.cpp's logits by divergence. Nothing is stored,
except that --keep names a folder for models that disagree; they are printed with their seeds, and the exit status is then 1. The suite's
goldens cover known cases; this script searches for unknown ones."""

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
import quantise
import random_configs
import store
from random_configs import FAMILIES
from random_recent import RECENT

FAMILIES |= RECENT
LENGTHS = (1, 2, 7, 33, 65, 150)
LEVELS = ("ref", "sse41", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16")
MIXTURES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 F16 BF16".split()
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}


def fill(model):
    """Fill the weights with values large enough that every part moves the logits; fresh weights are so small that they hide mistakes."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                p.normal_(0, 1.2 / math.sqrt(p.shape[-1]))
            elif ("norm" in name or "ln" in name) and name.endswith("weight"):
                p.add_(.2 * torch.randn_like(p))
            else:
                p.normal_(0, .2)
        for name, b in model.named_buffers():
            if "e_score" in name or "expert_bias" in name:
                b.normal_(0, .1)
            if name.endswith("tid2eid"):
                b.copy_(torch.stack([torch.randperm(model.config.n_routed_experts)[:b.shape[1]] for _ in range(len(b))]))
        model.tie_weights()
    return model


def write(folder, family, r):
    """Write a random model and its logits to `folder`; return what was drawn."""
    make, config_class, model_class = FAMILIES[family]
    keywords = make(r)
    model_class = getattr(transformers, model_class)
    model = fill(model_class(getattr(transformers, config_class)(**keywords, **EAGER)).eval())
    dtype = r.choice((torch.float32, torch.bfloat16, torch.float16))
    model.to(dtype).save_pretrained(folder, max_shard_size=r.choice(("5GB", "100KB")))

    model = model_class.from_pretrained(folder, dtype=torch.float32, **EAGER).eval()
    torch.nn.Module.float(model)        # what is not quantised beside what is keeps its type
    ids = torch.randint(3, model.config.vocab_size, (r.choice((1, 2)), r.choice(LENGTHS)))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "golden.safetensors",
              metadata={"source": f"transformers {transformers.__version__}"})
    return {"config": keywords, "rows": tuple(ids.shape), "dtype": str(dtype)}


def twin(folder, family, vocabulary, llama_cpp):
    """Write model.gguf into the folder with llama.cpp's converter, everything in float32. Some converters cut the embedding to the number
    of tokens, so there is one token per row."""
    whole = json.loads(store.tokenizer(vocabulary)["tokenizer.json"])
    named = whole["model"]["vocab"]
    named |= {f"<{i}>": i for i in range(len(named), vocabulary - 1)}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    case = types.SimpleNamespace(path=family, family=family, kwargs={"vocab_size": vocabulary}, raw_config=False, plain_vocab=True, dtype="F32", extra=None)
    with contextlib.redirect_stderr(io.StringIO()):
        convert.gguf(case, folder, llama_cpp, folder / "model.gguf")
    return folder / "model.gguf"


def apart(call, *arguments, **named):
    """Call llama.cpp in a separate process, because it may abort; the next call then gets a new process."""
    if not apart.pool:
        apart.pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    try:
        return apart.pool.submit(call, *arguments, **named).result()
    except concurrent.futures.process.BrokenProcessPool:
        apart.pool = None
        raise


apart.pool = None


def mixture(kind, source, out):
    quantise.mixture(kind)(source, out)


def peer_golden(folder):
    """Write peer.safetensors next to the folder's golden: llama.cpp's logits of model.gguf."""
    ids = load_file(folder / "golden.safetensors")["input_ids"]
    rows = apart(peer.run, folder / "model.gguf", ids.tolist(), n_ctx=256)
    save_file({"input_ids": ids, "logits": torch.stack([torch.from_numpy(x) for x in rows])}, folder / "peer.safetensors",
              metadata={"source": "llama.cpp"})
    return folder / "peer.safetensors"


def verdict(lamina, model, golden, *flags):
    """Return (whether lamina agrees, largest relative error, messages)."""
    p = subprocess.run([lamina, "verify", model, golden, "--json", *flags], capture_output=True, text=True)
    try:
        answer = json.loads(p.stdout)
    except ValueError:
        answer = {"error": p.stdout[:200]}
    same = all((answer.get("bitwise") or {}).values())
    reply = f"status {p.returncode}: {p.stderr.strip()[-250:]}" + ("" if same else ", in pieces other bits")
    return p.returncode == 0 and same, answer.get("max_rel_err") or 0.0, reply


def judged_gguf(lamina, model, folder):
    agrees, error, reply = verdict(lamina, model, folder / "golden.safetensors")
    if agrees:
        return agrees, error, reply
    try:
        agrees, error, again = verdict(lamina, model, peer_golden(folder), "--tol", "0.01")
    except (Exception, SystemExit) as e:                 # no second reference
        again = f"{type(e).__name__}: {str(e)[:120]!r}"
    return agrees, error, f"transformers: {reply}\n    llama.cpp: {again}"


def judged_quantised(lamina, model, folder, kind):
    """Compare float32 and the arithmetic of every level with llama.cpp, which rounds activations too."""
    apart(mixture, kind, model, folder / "quantised.gguf")
    (folder / "quantised.gguf").replace(model)
    golden, worst = peer_golden(folder), 0.0
    for flags in ((), *(("--compute", "auto", "--cpu", level) for level in LEVELS)):
        agrees, error, reply = verdict(lamina, model, golden, "--kl-max", "0.02", *flags)
        worst = max(worst, error)
        if not agrees:
            return False, worst, f"{kind} {' '.join(flags)}: {reply}"
    return True, worst, ""


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("lamina")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--count", type=int, default=len(FAMILIES))
    a.add_argument("--family", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    a.add_argument("--keep", type=pathlib.Path)
    a.add_argument("--gguf", type=pathlib.Path, metavar="LLAMA_CPP")
    a.add_argument("--quantise", action="store_true")
    a = a.parse_args()

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if a.quantise and not a.gguf:
        sys.exit("--quantise needs --gguf")
    if a.quantise:                       # all widths are multiples of 32
        random_configs.sizes = lambda r: (r.choice((4, 8)), r.choice((32, 64)), r.choice((256, 320, 512, 96)), r.choice((1, 2)))
    if a.gguf:
        random_configs.VOCABULARIES = tuple(v for v in random_configs.VOCABULARIES if v > 128)      # space for the tokenizer's bytes
    tally = {f: {"models": 0, "disagree": 0, "refused": 0, "error": 0.0} for f in a.family}
    for seed in range(a.seed, a.seed + a.count):
        family = a.family[seed % len(a.family)]
        t, r = tally[family], random.Random(seed)
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            try:
                drawn = write(folder, family, r)
            except Exception as e:       # transformers itself rejects some combinations
                t["refused"] += 1
                print(f"seed {seed} {family}: transformers: {type(e).__name__}: {str(e)[:120]!r}", flush=True)
                continue
            try:
                if a.gguf:
                    model = twin(folder, family, drawn["config"]["vocab_size"], a.gguf)
            except (Exception, SystemExit) as e:
                t["refused"] += 1
                print(f"seed {seed} {family}: converter: {type(e).__name__}: {str(e)[:120]!r}", flush=True)
                continue
            try:
                agrees, error, reply = (judged_quantised(a.lamina, model, folder, r.choice(MIXTURES)) if a.quantise else
                                       judged_gguf(a.lamina, model, folder) if a.gguf else
                                       verdict(a.lamina, folder, folder / "golden.safetensors"))
            except (Exception, SystemExit) as e:
                agrees, error, reply = False, 0.0, f"llama.cpp: {type(e).__name__}: {str(e)[:120]!r}"
                if a.quantise:           # no reference
                    t["refused"] += 1
                    continue
            t["models"] += 1
            t["error"] = max(t["error"], error)
            if not agrees:
                t["disagree"] += 1
                print(f"seed {seed} {family}: {reply}\n    {drawn}", flush=True)
                if a.keep:
                    shutil.copytree(folder, a.keep / f"{family}-{seed}", dirs_exist_ok=True)
    print(f"{'family':19}{'models':>8}{'disagree':>10}{'refused':>9}{'max rel':>10}")
    for family, t in tally.items():
        print(f"{family:19}{t['models']:8}{t['disagree']:10}{t['refused']:9}{t['error']:10.1e}")
    return any(t["disagree"] for t in tally.values())


if __name__ == "__main__":
    sys.exit(main())
