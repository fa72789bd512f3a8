#!/usr/bin/env python3
"""Regular expressions and texts, as Python's `re` decides them: tests/golden/grammar/regex.jsonl.

`regex_cases.py OUT`: hand-written and random expressions; for each, texts that match as a whole, and texts that do not, among them
small changes of the former. \\d, \\w and \\b are ASCII (re.ASCII would change \\s too, so classes are spelled out if the two differ).
"""
import json
import random
import re
import sys

WRITTEN = [
    r"abc", r"a|b|", r"(a|b)*c", r"[a-z]+@[a-z]+\.(com|org)", r"\d{3}-\d{4}", r"[^abc]{2,3}", r"(?:ab){2,}", r"a{0}", r"x{2}y?",
    r"^abc$", r"^(a|b)$", r"(^a|b)c", r"a(b$|c)", r"^a|b$", r"()", r"(a?){3}", r"(a*)*b", r"[\w.-]+", r"[\]\-^]", r"a.c", r"\x41\u0042",
    r"[é-ü]+", r"(?P<year>\d{4})-(?P<m>\d\d)", r"a+?b*?c??", r"\[\]\{\}\(\)\.\*\+\?\|\\\^\$", r"a{x}", r"\t\n\r\f\v\0", r"[\d\-x]+",
    r"(((((a)))))", r"[a-c]{1,200}", r"(a|ab)(c|bcd)(d*)", r"^^a$$", r"[\s\S]{3}", r"日本(語|人)?", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?",
]
REFUSED = {
    r"(?=a)b": "lookaround", r"(?!a)b": "lookaround", r"(?<=a)b": "lookaround", r"(a)\1": "backreference", r"\bword\b": "word boundary",
    r"a*+": "possessive", r"(?>a)": "this kind of group", r"(?i)a": "this kind of group", r"(?P=n)": "this kind of group", r"[[:alpha:]]": "POSIX",
    r"\A": "anchor", r"\k<n>": "backreference", r"\q": "this escape", r"a{,2}": "{,n}",
}
WRONG = {r"(a": "not closed", r"a)": "not opened", r"*a": "needs an item before", r"a**": "repetition of a repetition", r"[b-a]": "ends before",
         r"a{3,2}": "more repetitions", "[a": "not closed", "\\": "at the end"}
LETTERS = "abcxyz019 _-.é日\n\"\\"


def expression(r, depth=0):
    kind = r.random()
    if depth > 3 or kind < 0.35:
        return re.escape(r.choice(LETTERS)).replace("\\\n", "\\n")
    if kind < 0.5:
        inner = "".join(re.escape(c).replace("\\\n", "\\n") for c in r.sample(LETTERS, r.randint(1, 3)))
        return "[" + r.choice(["", "", "^"]) + inner + r.choice(["", "a-f", r"\d"]) + "]"
    if kind < 0.7:
        return "".join(expression(r, depth + 1) for _ in range(r.randint(2, 3)))
    if kind < 0.85:
        return "(" + "|".join(expression(r, depth + 1) for _ in range(r.randint(1, 3))) + ")"
    inner = "(?:" + expression(r, depth + 1) + ")"
    return inner + r.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"])


def texts(r, count):
    alphabet = LETTERS + "dfg7\t"
    return {"".join(r.choice(alphabet) for _ in range(r.randint(0, 6))) for _ in range(count)}


def neighbours(r, text):
    for _ in range(6):
        i = r.randint(0, len(text))
        yield r.choice([text[:i] + r.choice(LETTERS) + text[i:], text[:i] + text[i + 1:], text + text[:1], text[1:]])


def grown(r, compiled):
    """Return texts that match as a whole: matching parts of random texts."""
    found = set()
    for _ in range(200):
        t = "".join(r.choice(LETTERS) for _ in range(r.randint(0, 9)))
        m = compiled.search(t)
        if m and compiled.fullmatch(m.group(0)):
            found.add(m.group(0))
    return found


def main(out):
    r, lines = random.Random(22), []
    for source in WRITTEN + [expression(r) for _ in range(400)]:
        try:
            compiled = re.compile(source, re.ASCII)
        except re.error:
            continue
        tried = texts(r, 40) | grown(r, compiled) | {"abc", "a", "b", "c", "", "ac", "bc", "ab", "5551234", "555-1234", "a@b.com", "日本", "日本語"}
        for t in list(tried):
            tried |= set(neighbours(r, t)) if compiled.fullmatch(t) else set()
        accept = sorted(t for t in tried if compiled.fullmatch(t))[:40]
        reject = sorted(t for t in tried if not compiled.fullmatch(t))
        r.shuffle(reject)
        lines.append({"name": source[:60], "kind": "regex", "text": source, "accept": accept, "reject": reject[:25]})
    for source, why in {**REFUSED, **WRONG}.items():
        lines.append({"name": source, "kind": "regex", "text": source, "refused": why})
    with open(out, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(x, ensure_ascii=False) + "\n" for x in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
