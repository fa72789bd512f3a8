#!/usr/bin/env python3
"""tokenizer_patterns.py: how the tokenizers library (Oniguruma) interprets patterns that PCRE2 interprets differently.

    tools/oracle/tokenizer_patterns.py [--out tests/golden/tokenizer]

classes.jsonl    [pattern, [run, …]]: lengths of runs of characters from U+0000 on, without surrogates, alternately outside and inside
                 the class
patterns.jsonl   first a list of texts, then [pattern, per text the bytes of its pieces]
first.jsonl      [tokenizer.json, [[text, [ids]], …]]: the meaning of "first" after a normalizer has changed the text
"""
import argparse
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from tokenizer_goldens import lines
from unicode_classes import ALL

NAMES = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
CLASSES = [f"[[:{n}:]]" for n in NAMES] + [rf"\p{{{n}}}" for n in NAMES + ["Alphabetic", "Emoji", "^Lowercase"]] + [
    r"\w", r"\W", r"[\w]", r"[^\w]", r"\d", r"\s", r"\h", r".\B", "[[:^alpha:]]", "[^[:alnum:]]", "[[:^word:]a]", "[[:graph:]&&[:^punct:]]"]
PATTERNS = [
    r"\b", r"\B", r"\bé", r"\b\w+\b", r"\w+\b|\W", r"\B\w", r"[\b]+", r"\w+", r"\W+", r"[\w]+", r"[^\w\s]+", r"\p{^Word}+", "[^[:space:][:punct:]]+",
    "[[:punct:]]+", "[[:alpha:]]+|[[:digit:]]{1,3}", "[^[:^alpha:]]+", "[[:^upper:][:space:]]+", "[[:alnum:]&&[^a-m]]+", r"[[:alpha:]\d]+[[:^print:]]?",
    "a(?i)b|c", "(?i)ab|c", "(a(?i)b|c)d|A", "x|(?:a(?i)B(?-i)c|d)|D", "(?i)a|(?-i)b|c", "(?m)a.b|(?-m).", "(?x) a b # [(c\n | c", "(?x: a # )\n b )c d",
    "a(?#[b\\))c|b", r"(?i:'s|'t)|\b\p{L}+", r"(?:\b|a)b", r"(?=\b)|1", r"(?<!\w)\w|\w(?!\w)",
    r"\P{M}+\P{L}", r"\P{L}*\P{N}|\p{N}", r"a\p{^Lu}+\p{^Ll}+",
]
TEXTS = [
    "", "पानी है २३", "don't stop, I'LL", "aé é\u0301e", "m²3 ½x ¹² ⁴a", "a☺b+c<d$e_f", "aⅧbⅧ", "Aªbº", "aCab", "ab aB Ab AB abd aCd aCD Abd", "xaBC xabc d D",
    "abc ac ABC aBc", "a\nb\nc", "ab cd ab d", "a\u200db\u200cc", "x\ufe0fy", "ⓐb1", "中文 a。b", "a$b+c", "\u0903k", "１２ab", "a\u0085b\x7fc", "\ue000a\U000f0000",
    "\u1c89a \U00010d50\U00010d70", "\u0363a\u1dd3", "👩‍👩‍👧 🇩🇪🇫 👍🏽", "\U0001fae8\U0001f6dc", "a'S b'\u017f", "\x08a", "---", " ", "a1b22c333d",
]


def classes():
    for pattern in CLASSES:
        pieces = pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(ALL)
        found = {f for _, (f, _) in pre_tokenizers.Split(Regex(pattern), "removed", True).pre_tokenize_str(ALL)}
        runs, inside = [0], False
        for _, (low, high) in pieces:
            if (low in found) != inside:
                runs.append(0)
                inside = not inside
            runs[-1] += high - low
        yield [pattern, runs]


def patterns():
    yield TEXTS
    for pattern in PATTERNS:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        yield [pattern, [[len(p.encode()) for p, _ in split.pre_tokenize_str(t)] for t in TEXTS]]


def encoded(t, texts):
    """Return the ids of the texts, or None if the library loses its positions: it panics, and its other results are wrong too."""
    try:
        return [[text, t.encode(text).ids] for text in texts]
    except BaseException as e:      # a panic is not an Exception
        if type(e).__name__ != "PanicException":
            raise
        return None


def first():
    N, P = normalizers, pre_tokenizers
    rewriting = [None, N.Strip(), N.Replace(" ", ""), N.Replace("a", "xa"), N.Replace("ab", "x"), N.Replace(Regex("^"), "b"), N.Prepend("b"), N.NFKC(),
                 N.Sequence([N.Strip(), N.Replace(Regex("^"), "a")]), N.Sequence([N.Prepend(" x"), N.Strip()]), N.Sequence([N.NFD(), N.Replace("e", "")]),
                 N.Sequence([N.NFKD(), N.NFC(), N.Lowercase()]), N.Sequence([N.Lowercase(), N.Strip(True, False), N.Prepend("é")])]
    cutting = [P.Metaspace("▁", "first", False), P.Metaspace("▁", "first", True), P.Sequence([P.Split(Regex("[a-g]"), "isolated"), P.Metaspace("▁", "first", False)]),
               P.Sequence([P.Split("a", "removed"), P.Metaspace("▁", "first", False), P.Split("▁", "isolated"), P.Metaspace("x", "first", False)]),
               P.Sequence([P.ByteLevel(add_prefix_space=True, use_regex=False), P.Split("Ġ", "isolated"), P.Metaspace("▁", "first", False)])]
    texts = ["a", " a", "  ab", "ba", "\u3000a", " b a", "éa", "e\u0301a", "㎏ a", "ﬁa", "İb", "<s>a", "<s> a", " <s>a", "<s>", "É<n>a", "<n> a", "a<n>a", "aab", "ab ab"]
    alphabet = sorted(set("".join(texts)) | set("▁xkgfié\u0307\u0301") | set(P.ByteLevel.alphabet()))
    for normalizer in rewriting:
        for cut in cutting:
            t = Tokenizer(models.BPE({c: i for i, c in enumerate(["<unk>", *alphabet])}, [], unk_token="<unk>"))
            if normalizer is not None:
                t.normalizer = normalizer
            t.pre_tokenizer = cut
            spec = json.loads(t.to_str())
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "special": True}
            n = len(alphabet) + 1
            spec["added_tokens"] = [{"id": n, "content": "<s>", "normalized": False, **flags}, {"id": n + 1, "content": "<n>", "normalized": True, **flags, "special": False}]
            t = Tokenizer.from_str(json.dumps(spec))
            rows = encoded(t, texts)
            if rows:
                yield [json.dumps(spec, ensure_ascii=False, separators=(",", ":")), rows]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[2] / "tests/golden/tokenizer")
    a = a.parse_args()
    lines(a.out / "classes.jsonl", classes())
    lines(a.out / "patterns.jsonl", patterns())
    lines(a.out / "first.jsonl", first())


if __name__ == "__main__":
    main()
