"""Small tokenizers, one per kind of part in tokenizer.json that the available published ones do not have."""
import json
from collections import Counter

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import tokenizer_texts

CORPUS = tokenizer_texts.SCRIPTS + tokenizer_texts.PROSE * 3 + tokenizer_texts.CODE + tokenizer_texts.DIGITS
GPT4O = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def added(i, content, **flags):
    base = {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {**base, **flags}


def words(t):
    """Return the words of the corpus that the model of `t` would see, with their counts."""
    found = Counter()
    for text in CORPUS:
        if t.normalizer is not None:
            text = t.normalizer.normalize_str(text)
        pieces = [p for p, _ in t.pre_tokenizer.pre_tokenize_str(text)] if t.pre_tokenizer is not None else text.split("\n")
        found.update(pieces)
    return found


def learned(found, characters, n):
    """Return BPE merges by count, ties by spelling: the library's own trainer breaks ties differently in every run."""
    split = {w: [c for c in w if c in characters] for w in found}
    merges = []
    for _ in range(n):
        pairs = Counter()
        for w, count in found.items():
            for pair in zip(split[w], split[w][1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        for symbols in split.values():
            at = 0
            while at + 1 < len(symbols):
                if (symbols[at], symbols[at + 1]) == best:
                    symbols[at:at + 2] = ["".join(best)]
                at += 1
    return merges


def trained(pre=None, normalizer=None, decoder=None, size=400, byte_level=False, model=None, tokens=(), post=None):
    """Return a tokenizer.json as a dictionary: these parts, and a BPE learned from the corpus that they process."""
    t = Tokenizer(models.BPE())
    if pre is not None:
        t.pre_tokenizer = pre
    if normalizer is not None:
        t.normalizer = normalizer
    if decoder is not None:
        t.decoder = decoder
    found = words(t)
    letters = Counter(c for w, n in found.items() for c in w * n)
    common = sorted(sorted(letters, key=lambda c: (-letters[c], c))[:150])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if byte_level else common
    special = [] if byte_level else ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if (model or {}).get("byte_fallback") else [])
    merges = learned(found, set(alphabet), size - len(alphabet))
    vocab = list(dict.fromkeys(special + alphabet + ["".join(m) for m in merges]))
    spec = json.loads(t.to_str())
    spec["model"] |= {"vocab": {piece: i for i, piece in enumerate(vocab)}, "merges": [list(m) for m in merges]}
    if not byte_level:
        spec["model"]["unk_token"] = "<unk>"
    spec["model"].update(model or {})
    spec["added_tokens"] = [] if byte_level else [added(0, "<unk>")]
    vocab = spec["model"]["vocab"]
    start = after = max(vocab.values()) + 1
    for content, flags in tokens:           # ids as the library will assign them
        spec["added_tokens"].append(added(vocab.get(content, after), content, **flags))
        after += content not in vocab
    if post:
        spec["post_processor"] = post(start)
    return spec


def template(start):
    return json.loads(processors.TemplateProcessing(single="<bos> $A <eos> <eos>", special_tokens=[("<bos>", start), ("<eos>", start + 1)]).__getstate__())


PAIR = [("<bos>", {}), ("<eos>", {}), ("mask", {}), ("中", {}), ("ɓ", {})]
FLAGS = [("<l>", {"lstrip": True}), ("<r>", {"rstrip": True}), ("<lr>", {"lstrip": True, "rstrip": True}), ("the", {"single_word": True, "special": False}),
         ("é", {"normalized": True, "special": False}), ("  ", {"special": False}), ("   ", {"special": False}), ("<|im_start|>", {}), ("<|im_", {"special": False}),
         ("HELLO", {"normalized": True, "special": False}), ("<|im_end|>", {"rstrip": True}), ("1", {"single_word": True}),
         ("ab", {"special": False}), ("abc", {"special": False}), ("bcdefgh", {"special": False})]


def all_kinds():
    P, N, D = pre_tokenizers, normalizers, decoders
    level = P.ByteLevel(add_prefix_space=False, use_regex=False)
    sp = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])

    def split(pattern, how, invert=False):
        return P.Split(Regex(pattern), how, invert)

    def levels(*stages):
        return P.Sequence([*stages, level])

    def byte(pre, **more):
        return trained(pre, decoder=D.ByteLevel(), byte_level=True, **more)

    yield "bytelevel-prefix-space", byte(P.ByteLevel(add_prefix_space=True), tokens=PAIR, post=template)
    yield "bloom", byte(levels(split(" ?[^(\\s|[.,!?…。，、।۔،])]+", "isolated")))
    yield "falcon", byte(P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False), split("[0-9][0-9][0-9]", "isolated")]))
    yield "digits-together", byte(levels(P.Digits(False)))
    yield "gpt-4o", byte(levels(split(GPT4O, "removed", True)))
    yield "split-previous", byte(levels(split("[aeiou\\d]", "merged_with_previous"), P.Split(" ", "merged_with_previous")))
    yield "split-next", byte(levels(split("[\\s\\p{Lu}]", "merged_with_next")))
    yield "split-contiguous", byte(levels(split("\\w", "contiguous"), split("\\h", "isolated", True)))
    yield "split-empty", byte(levels(split("(?=\\p{Lu})|(?<=\\d)", "isolated"), split("$", "isolated")))
    yield "classes", byte(levels(split("[\\p{L}&&[^a-eA-E\\p{Han}]]+|[^\\p{Letter}\\s[0-4]]+|\\p{^Greek}{,2}+", "isolated")))
    yield "added-flags", byte(P.ByteLevel(add_prefix_space=False), normalizer=N.Lowercase(), tokens=FLAGS + [("</s>", {"normalized": True})])
    yield "roberta", byte(P.ByteLevel(add_prefix_space=False), tokens=PAIR,
                          post=lambda s: {"type": "RobertaProcessing", "sep": ["<eos>", s + 1], "cls": ["<bos>", s], "trim_offsets": True, "add_prefix_space": False})
    yield "nfd", byte(P.ByteLevel(add_prefix_space=False), normalizer=N.NFD(), tokens=[("é", {"normalized": True, "special": False})])
    yield "nfkc-lower-strip", byte(P.ByteLevel(add_prefix_space=False), normalizer=N.Sequence([N.NFKC(), N.Lowercase(), N.Strip()]))
    yield "nfkd-replace", byte(P.ByteLevel(add_prefix_space=False), normalizer=N.Sequence([N.NFKD(), N.Replace(Regex("\\p{M}+"), ""), N.Replace("  ", "~")]))
    yield "metaspace-always", trained(P.Metaspace("▁", "always", True), decoder=D.Metaspace("▁", "always"), tokens=PAIR, post=template)
    yield "metaspace-first", trained(P.Metaspace("▁", "first", False), decoder=sp, model={"byte_fallback": True, "fuse_unk": True}, tokens=PAIR)
    yield "metaspace-never", trained(P.Metaspace("▁", "never", True), decoder=D.Metaspace("▁", "never"), model={"fuse_unk": True}, tokens=PAIR)
    yield "metaspace-after-digits", trained(P.Sequence([P.Digits(True), P.Metaspace("▁", "first", True)]), decoder=D.Metaspace("▁", "first"))
    yield "prepend", trained(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), sp, model={"byte_fallback": True}, tokens=FLAGS)
    yield "gemma", trained(split(" ", "merged_with_previous"), N.Replace(" ", "▁"), D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]),
                           model={"byte_fallback": True, "fuse_unk": True, "ignore_merges": True}, tokens=PAIR, post=template)
    yield "whitespace", trained(P.Whitespace())
    yield "whitespace-split", trained(P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_next")]), decoder=D.Sequence([D.Strip("e", 1, 0), D.Fuse(), D.Strip("a", 2, 0)]))
    yield "no-unk", trained(P.WhitespaceSplit(), model={"unk_token": None}, decoder=D.Fuse())
