#!/usr/bin/env python3
"""Random tokenizer.json files and nasty texts: the tokenizers library encodes them, `lamina tokenize` must give the same ids.

    tools/oracle/random_tokenizers.py LAMINA [--seed N] [--count N] [--keep FOLDER]

Nothing is stored, except that --keep names a folder for tokenizers that disagree; these are printed with seed and text, and the exit
status is then 1. Classes with only capital or only small letters are left out: regex.h describes how they differ under (?i). The suite's
goldens cover known cases; this script searches for unknown ones."""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

CLASSES = ["\\w", "\\W", "\\d", "\\s", "\\S", "\\h", ".", "\\p{L}", "\\p{Lu}", "\\p{Ll}", "\\p{N}", "\\p{^M}", "\\P{L}", "\\p{Alpha}", "\\p{Han}",
           "\\p{Emoji}", "\\p{Word}", "[a-c]", "[^a-c\\s]", "[[:alpha:]]", "[[:^alpha:]]", "[^[:punct:]]", "[[:digit:]_]", "[[:word:]&&[^\\d]]",
           "[[:graph:]]", "[[:space:]]", "[\\p{L}\\p{M}]", "[^\\s\\p{L}\\p{N}]", "[\\w&&[^\\d_]]", "[\\]\\-a]", "[\\x{300}-\\x{36F}]"]
ATOMS = [" ?", "\\b", "\\B", "^", "$", "(?=\\p{L})", "(?<!\\d)", "(?!\\S)", "'s", "(?i:'s|'T)", "(?i)", "\\A", "\\z", "a", "B", "é", "\\n", "(?#x)", "1"]
TEXTS = ["पानी", "م\u064fح", "é", "e\u0301", "²", "½", "☺", "Ⅷ", "ª", "ⓐ", "中文", "👩‍👩‍👧", "🇩🇪", "👍🏽", "\U0001fae8", "\u200d", "\u200c", "\ufeff", "\u3000", "\u00a0", "\u0085", "\u2028",
         "\u180e", "\r\n", "\n", "\t", " ", "  ", "   ", "a", "b", "ab", "aB", "ABC", "don't", "'S", "'\u017f", "123", "1", "_", "-", "...", "$+<", "ß", "ẞ", "İ", "ﬁ", "㎏", "한글", "각",
         "\u0363", "\u1c89", "\U00010d50", "\ue000", "\U000f0000", "\x00", "\x07", "▁", "Ġ", "<s>", "<n>", "<w>", "ſ", "K", "Σς", "\u0345", "\u093c", "ා", "０１"]


def pattern(r):
    def piece():
        kind = r.random()
        if kind < .55:
            return r.choice(CLASSES) + r.choice(["", "", "+", "+", "*", "?", "{1,3}", "{2}", "++", "+?"])
        if kind < .85:
            return r.choice(ATOMS)
        return "(" + r.choice(["", "?:", "?>", "?i:", "?m:"]) + branch(2) + r.choice(["", "|" + branch(2)]) + ")" + r.choice(["", "", "+", "?"])

    def branch(n):
        return "".join(piece() for _ in range(r.randint(1, n)))

    return "|".join(branch(4) for _ in range(r.randint(1, 4)))


def find(r):
    return {"String": r.choice([" ", "a", "ab", "▁", "é", "  ", "1"])} if r.random() < .35 else {"Regex": pattern(r)}


def replaced(r):
    """Return a pattern that matches no empty text: such a match makes the library lose its positions and insert some texts twice."""
    while True:
        p = find(r)
        try:
            if "Regex" not in p or all(normalizers.Replace(Regex(p["Regex"]), "#").normalize_str(x).count("#") <= len(x) for x in ("", "z", " b", "é1", "\n")):
                return p
        except Exception:       # not a valid pattern
            continue


def normalizer(r):
    kind = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Prepend", "Replace", "Replace"])
    more = {"Strip": lambda: {"strip_left": r.random() < .7, "strip_right": r.random() < .7}, "Prepend": lambda: {"prepend": r.choice(["▁", " ", "ab"])},
            "Replace": lambda: {"pattern": replaced(r), "content": r.choice(["", "▁", " ", "xy", "é"])}}
    return {"type": kind, **more.get(kind, dict)()}


def stage(r):
    how = r.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    return r.choice([
        {"type": "Split", "pattern": find(r), "behavior": how, "invert": r.random() < .3},
        {"type": "Split", "pattern": find(r), "behavior": how, "invert": False},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": r.choice(["first", "first", "always", "never"]), "split": r.random() < .5},
        {"type": "Digits", "individual_digits": r.random() < .5}, {"type": "Punctuation", "behavior": how}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
        {"type": "ByteLevel", "add_prefix_space": r.random() < .5, "trim_offsets": True, "use_regex": r.random() < .5}])


def sequence(kind, name, parts):
    return None if not parts else parts[0] if len(parts) == 1 else {"type": kind, name: parts}


def tokenizer(r):
    level = pre_tokenizers.ByteLevel.alphabet()
    stages = [stage(r) for _ in range(r.choice([0, 1, 1, 2, 3]))] + [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    vocab = {c: i for i, c in enumerate(sorted(level))}
    merges = []
    for _ in range(60):         # pieces grow at random, so that the ids show where the text is split
        a, b = r.choice(list(vocab)), r.choice(list(vocab))
        if a + b not in vocab and len(a + b) < 8:
            vocab[a + b] = len(vocab)
            merges.append([a, b])
    for a in "ab1 \u00c3\u00a9\u0120'sS.B":
        for b in "ab1\u0120'sB.":
            if a in vocab and b in vocab and a + b not in vocab:
                vocab[a + b] = len(vocab)
                merges.append([a, b])
    added = [{"id": len(vocab) + i, "content": c, "single_word": r.random() < .3, "lstrip": r.random() < .3, "rstrip": r.random() < .3,
              "normalized": r.random() < .4, "special": r.random() < .5} for i, c in enumerate(["<s>", "<n>", "<w>", "中"])]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added[:r.randint(0, 4)],
            "normalizer": sequence("Sequence", "normalizers", [normalizer(r) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]),
            "pre_tokenizer": sequence("Sequence", "pretokenizers", stages), "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "ignore_merges": r.random() < .2, "vocab": vocab, "merges": merges}}


def reference(t, text):
    """Return the library's ids, or None if it panics."""
    try:
        return t.encode(text, add_special_tokens=False).ids
    except BaseException as e:
        if type(e).__name__ not in ("PanicException", "Exception"):
            raise
        return None


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("lamina")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--count", type=int, default=300)
    a.add_argument("--keep", type=pathlib.Path)
    a = a.parse_args()

    tally = dict.fromkeys(("tokenizers", "texts", "disagree", "refused here", "refused there", "panics"), 0)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        for seed in range(a.seed, a.seed + a.count):
            r = random.Random(seed)
            spec = tokenizer(r)
            texts = ["".join(r.choices(TEXTS, k=r.randint(1, 12))) for _ in range(40)]
            path.write_text(json.dumps(spec), encoding="utf-8")
            try:
                t = Tokenizer.from_str(path.read_text(encoding="utf-8"))
            except Exception:
                tally["refused there"] += 1
                continue
            p = subprocess.run([a.lamina, "tokenize", path, "--jsonl", "-"], input="".join(json.dumps(x) + "\n" for x in texts), capture_output=True, text=True)
            want = [reference(t, x) for x in texts]
            parts = json.dumps([spec["normalizer"], spec["pre_tokenizer"]], ensure_ascii=False)
            if p.returncode:
                tally["refused here"] += 1
                print(f"seed {seed}: {p.stderr.strip()[-200:]}\n    {parts}", flush=True)
                continue
            got = [json.loads(line) for line in p.stdout.splitlines()]
            tally["tokenizers"] += 1
            tally["texts"] += len(texts)
            if None in want:        # its positions are wrong for this tokenizer, so none of its results can be trusted
                tally["panics"] += 1
                continue
            wrong = [i for i in range(len(texts)) if got[i] != want[i]]
            if wrong:
                tally["disagree"] += 1
                i = min(wrong, key=lambda i: len(texts[i]))
                print(f"seed {seed}: {len(wrong)} texts, {texts[i]!a}\n    here  {[t.id_to_token(k) for k in got[i]]}\n    there {[t.id_to_token(k) for k in want[i]]}"
                      f"\n    {parts}", flush=True)
                if a.keep:
                    a.keep.mkdir(parents=True, exist_ok=True)
                    (a.keep / f"{seed}.json").write_text(json.dumps(spec), encoding="utf-8")
    print(*(f"{name} {n}" for name, n in tally.items()), sep=", ")
    return tally["disagree"] > 0


if __name__ == "__main__":
    sys.exit(main())
