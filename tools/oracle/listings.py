#!/usr/bin/env python3
"""tests/golden/listings.tsv: results of the listings of `lamina explain --code`, compared with the goldens of transformers.

For every golden model with a folder of weights, in PyTorch and in NumPy, the listing is made and run on the golden's ids. The table has
the largest difference of its logits from the golden's, relative to the largest logit of the row, or the reason why a model has no listing.
Topics: tests/golden/topics.tsv, between two values of a golden. `listings.py --check` fails if an error exceeds 1e-4 or a listing is gone.
"""
import argparse
import json
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ROOT / "tests" / "golden" / "topics.tsv"
TABLE = ROOT / "tests" / "golden" / "listings.tsv"
LIMIT = 1e-4


def models():
    """Yield the folders with weights and logits, family by family."""
    for golden in sorted((ROOT / "tests" / "golden").glob("*/*/golden.safetensors")):
        folder = golden.parent
        if (folder / "config.json").exists() and list(folder.glob("model*.safetensors")):
            yield folder


def listing(lamina: Path, folder: Path, language: str, *topic: str) -> str:
    done = subprocess.run([lamina, "explain", "--code", *topic, folder, "--in", language], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(re.sub(r".*/", "", done.stderr.strip().split("\n")[-1]))
    return done.stdout


@torch.no_grad()
def error_of(text: str, folder: Path) -> float:
    """Run a listing; return its largest relative error over all rows of the golden."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(text)
        file.flush()
        names = runpy.run_path(file.name)
    names["load"](str(folder))
    golden, worst = load_file(folder / "golden.safetensors"), 0.0
    for ids, logits in zip(golden["input_ids"], golden["logits"].float()):
        got = torch.as_tensor(names["forward"](ids.tolist())).float()
        scale = logits.abs().amax(-1).clamp(min=1e-30)
        error = ((got - logits).abs().amax(-1) / scale).max().item()
        worst = max(worst, error if error == error else float("inf"))
    return worst


@torch.no_grad()
def part_error(text: str, folder: Path, before: str, after: str) -> float:
    """Run the listing of a topic on the value `before` of the golden; return its largest relative error against the value `after`."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(text)
        file.flush()
        names = runpy.run_path(file.name)
    names["load"](str(folder))
    name, arguments = re.findall(r"^def (\w+)\((x, i|x|ids)\):$", text, re.M)[-1]
    golden, worst = load_file(folder / "golden.safetensors"), 0.0
    wanted = golden[after if after == "logits" else "tap." + after].float()
    for row, y in enumerate(wanted):
        x = golden["input_ids"][row].tolist() if before == "ids" else golden["tap." + before][row].float()
        x = x.numpy() if "np" in names and before != "ids" else x
        got = torch.as_tensor(names[name](x, 0) if arguments == "x, i" else names[name](x)).float()
        worst = max(worst, ((got - y).abs().max() / y.abs().max()).item())
    return worst


def topics(lamina: Path, check: bool) -> int:
    """Compute the last two columns of tests/golden/topics.tsv; return the number of topics with an error above LIMIT."""
    head, *lines = TOPICS.read_text().splitlines()
    rows, bad = [], 0
    for topic, model, before, after, *_ in (line.split("\t") for line in lines):
        folder = ROOT / "tests" / "golden" / model
        errors = [part_error(listing(lamina, folder, language, topic), folder, before, after) for language in ("pytorch", "numpy")]
        bad += max(errors) > LIMIT
        rows.append("\t".join([topic, model, before, after, *(f"{error:.1e}" for error in errors)]))
    if not check:
        TOPICS.write_text("\n".join([head, *rows]) + "\n")
    print(json.dumps({"topics": len(rows), "off": bad}))
    return bad


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lamina", type=Path, default=ROOT / "build" / "release" / "src" / "cli" / "lamina")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    rows, bad = [], 0
    for folder in models():
        name = f"{folder.parent.name}/{folder.name}"
        for language in "pytorch", "numpy":
            try:
                error = error_of(listing(args.lamina, folder, language), folder)
                reply = f"{error:.1e}"
                bad += error > LIMIT
                if error > LIMIT:
                    print(f"{name} {language}: relative error {reply}", file=sys.stderr)
            except LookupError as why:
                reply = str(why)
            rows.append((name, language, reply))
    text = "model\tlanguage\trelative_error\n" + "".join("\t".join(row) + "\n" for row in rows)
    before = {tuple(line.split("\t")[:2]) for line in TABLE.read_text().splitlines()} if TABLE.exists() else set()
    if args.check:
        gone = [row for row in rows if row[:2] in before and not row[2][0].isdigit()]
        bad += len(gone)
    else:
        TABLE.write_text(text)
    agree = [(n, l) for n, l, reply in rows if reply[0].isdigit() and float(reply) <= LIMIT]
    for language in "pytorch", "numpy":
        mine = [n for n, l in agree if l == language]
        print(json.dumps({"language": language, "agree": len(mine), "models": len(rows) // 2,
                          "families": len({n.split("/")[0] for n in mine}), "of": len({n.split("/")[0] for n, _, _ in rows})}))
    return bad + topics(args.lamina, args.check) > 0


if __name__ == "__main__":
    sys.exit(main())
