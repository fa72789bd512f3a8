#!/usr/bin/env python3
"""make.py: every golden model under tests/golden/ that comes from transformers, remade from nothing.

    tools/oracle/make.py [PATTERN …] --llama-cpp DIR [--out tests/golden]

Deterministic: the same package versions on the same kind of processor give the same bytes. PATTERN is a case's path
(`llama/gqa`, `llama/*`). DIR is vendor/llama.cpp of llama-cpp-python's source package
(`pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36`, unpacked anywhere).
"""

import argparse
import fnmatch
import json
import os
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

import case as cases  # noqa: E402
import convert  # noqa: E402
import quantise  # noqa: E402
import reference  # noqa: E402
import store  # noqa: E402


def make(c: cases.Case, out: Path, llama_cpp: Path | None) -> dict:
    """Write all files of one case; return its row of the table."""
    if c.quantise and not llama_cpp:
        raise SystemExit(f"{c.path}: needs --llama-cpp")
    folder = out / c.path
    store.clean(folder)
    quantised = c.quantise and partial(quantise.make, llama_cpp=llama_cpp, out=folder / "model.gguf")
    model, seed, found = reference.prepare(c, quantised)
    ids, out, _ = max(found, key=lambda row: row[0].shape[1])
    if ids.shape[1] < 8:                # too short to show an effect
        ids = torch.cat([ids, torch.tensor([out])], 1)
    moved = reference.flipped(c, model, ids)
    if not c.quantise:
        store.hugging_face(c, model, folder)
        store.check(c, folder, found, model)
        if c.relaid:
            c.relaid(c, folder)
    goldens = store.golden(c, model, seed, found, folder)
    if c.gguf and llama_cpp and not c.quantise:
        convert.gguf(c, folder, llama_cpp, folder / "model.gguf")
        if c.gguf_patch:
            c.gguf_patch(c, folder / "model.gguf")
    for file in folder.iterdir():
        file.chmod(0o644)
    return {
        "case": c.path, "shows": c.shows, "config": c.spelling, "storage": "quantised" if c.quantise else c.dtype, "sharded": bool(c.shard_bytes),
        "goldens": goldens, "gguf": c.gguf, "gguf_note": c.gguf_note, "seed": seed,
        "greedy_margin": short(min(m for _, _, m in found)), "flips": {k: short(v) for k, v in moved.items()},
    }


def check_versions() -> None:
    """Exit if a package has another version, before anything is overwritten: other versions give other bytes."""
    for line in (HERE / "requirements.txt").read_text().splitlines():
        name, pinned, wanted = line.partition("==")
        if pinned and not line.startswith("#") and (found := version(name).split("+")[0]) != wanted:
            raise SystemExit(f"error: make.py: requirements.txt: {name} is {found}, the goldens are made with {wanted}")


def short(x: float) -> float:
    return float(f"{x:.3g}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("patterns", nargs="*", default=["*"])
    p.add_argument("--out", type=Path, default=HERE.parents[1] / "tests" / "golden")
    p.add_argument("--llama-cpp", type=Path, help="vendor/llama.cpp of llama-cpp-python's source package: GGUF twins")
    args = p.parse_args()
    check_versions()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    table = args.out / "models.json"
    rows = {r["case"]: r for r in json.loads(table.read_text())} if table.exists() else {}
    chosen = [c for c in cases.all_cases() if any(fnmatch.fnmatch(c.path, pat) for pat in args.patterns)]
    for c in chosen:
        row = make(c, args.out, args.llama_cpp)
        rows[c.path] = row
        table.write_text(json.dumps([rows[k] for k in sorted(rows)], indent=1) + "\n")     # kept even if the next case fails
        size = sum(f.stat().st_size for f in (args.out / c.path).iterdir())
        print(f"{c.path:32} seed {row['seed']:4}  margin {row['greedy_margin']:.3f}  {size // 1024:5} KiB  "
              + ", ".join(f"{k} {v:.2g}" for k, v in row["flips"].items()), flush=True)
    known = {c.path for c in cases.all_cases()}
    for family in {c.family for c in cases.all_cases()}:
        for folder in (args.out / family).glob("*"):
            if f"{family}/{folder.name}" not in known:
                print(f"warning: {folder} belongs to no case", file=sys.stderr)
    table.write_text(json.dumps([rows[k] for k in sorted(rows) if k in known], indent=1) + "\n")


if __name__ == "__main__":
    main()
