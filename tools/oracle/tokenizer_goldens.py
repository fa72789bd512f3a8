#!/usr/bin/env python3
"""tokenizer_goldens.py: write tests/golden/tokenizer/ with the tokenizers library and the tokenizers themselves.

    tools/oracle/tokenizer_goldens.py [--assets build/assets] [--out tests/golden/tokenizer]

texts.jsonl            one JSON string per line
NAME.ids.jsonl         per text its ids; [[ids], [ids]] if leaving special tokens unparsed makes a difference
NAME.decode.jsonl      [[ids], text] of arbitrary ids; [[ids], text, text] if skipping special tokens makes a difference
pre.jsonl              per name of tokenizer.ggml.pre: [name, per text of kinds/ the bytes of its pieces]
kinds/NAME.json        a small tokenizer.json per kind of part that the published ones lack, with the same files next to it;
                       its ids include added special tokens
"""
import argparse
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

import tokenizer_kinds
import tokenizer_pres
import tokenizer_texts
import tokenizer_truth
from unicode_classes import stand_ins


def lines(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")


def encoded(t, texts, add):
    out = []
    for split in (False, True):
        t.encode_special_tokens = split
        out.append([e.ids for e in t.encode_batch(texts, add_special_tokens=add)])
    t.encode_special_tokens = False
    return [a if a == b else [a, b] for a, b in zip(*out)]


def id_lists(t, rng, n):
    """Return lists of arbitrary ids: from the whole vocabulary, bytes and special tokens."""
    known = [i for i in range(t.get_vocab_size()) if t.id_to_token(i) is not None]
    added = sorted(t.get_added_tokens_decoder())
    short = [i for i in known if len(t.id_to_token(i)) < 3]
    bytes_ = [i for i in known if len(t.id_to_token(i)) == 6 and t.id_to_token(i).startswith("<0x")] or short
    pools = [known, known, short, bytes_, added or known]
    rows = [[i] for i in rng.sample(bytes_, min(20, len(bytes_)))] + [[i] for i in added[:20]] + [[]]
    while len(rows) < n:
        pool = rng.choice(pools)
        rows.append([rng.choice(pool if rng.random() < 0.7 else rng.choice(pools)) for _ in range(rng.randint(1, 25))])
    return rows


def decoded(t, rows):
    plain, skipped = (t.decode_batch(rows, skip_special_tokens=skip) for skip in (False, True))
    return [[r, a] if a == b else [r, a, b] for r, a, b in zip(rows, plain, skipped)]


def write(t, folder, name, texts, add, n):
    ids = encoded(t, texts, add)
    lines(folder / f"{name}.ids.jsonl", ids)
    rng = random.Random(name)
    rows = id_lists(t, rng, n)
    plain = [i[0] if i and isinstance(i[0], list) else i for i in ids]
    rows += [rng.choice(plain)[:rng.randint(1, 40)] for _ in range(n // 8)]
    lines(folder / f"{name}.decode.jsonl", decoded(t, rows))


def main():
    parser = argparse.ArgumentParser()
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--assets", type=Path, default=root / "build/assets")
    parser.add_argument("--out", type=Path, default=root / "tests/golden/tokenizer")
    args = parser.parse_args()

    new = sorted(stand_ins())
    new = new[:40] + new[40::max(1, len(new) // 200)]
    texts = tokenizer_texts.texts(new)
    (args.out / "kinds").mkdir(parents=True, exist_ok=True)
    lines(args.out / "texts.jsonl", texts)
    for name in tokenizer_truth.NAMES:
        write(tokenizer_truth.load(name, args.assets), args.out, name, texts, False, 320)
        print(name, len(texts), "texts")
    few = texts[::4] + [t for t in texts if "bos>" in t or "eos>" in t or "mask" in t or "中" in t or "\u0897" in t or "\u180e" in t]
    few = list(dict.fromkeys(few))
    lines(args.out / "kinds/texts.jsonl", few)
    lines(args.out / "pre.jsonl", [[name, tokenizer_pres.sizes(name, few)] for name in tokenizer_pres.STAGES])
    for name, spec in tokenizer_kinds.all_kinds():
        path = args.out / "kinds" / f"{name}.json"
        path.write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
        write(Tokenizer.from_file(str(path)), args.out / "kinds", name, few, True, 40)
    print(len(few), "texts for the small ones")


if __name__ == "__main__":
    main()
