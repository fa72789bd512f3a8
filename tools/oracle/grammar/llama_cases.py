#!/usr/bin/env python3
"""llama.cpp's cases of grammars and schemas as lines of tests/golden/grammar/llama.jsonl.

`llama_cases.py LLAMA_CPP OUT`: reads the calls of test_grammar and test_schema in tests/test-grammar-integration.cpp and
tests/test-grammar-llguidance.cpp. Strings are C++ literals, raw ones too. Cases in Lark's notation are left out; those with token ids need
a vocabulary and are in tests/unit/grammar/constraint.c.
"""
import json
import pathlib
import re
import sys

# Keywords that llama.cpp ignores and this compiler rejects.
REFUSED = ["DISABLED_uniqueItems", "uniqueItems"]

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\((?P<raw>.*?)\)(?P=d)"|u8"(?P<u8>(?:\\.|[^"\\])*)"|"(?P<s>(?:\\.|[^"\\])*)"|(?P<w>\w+)|(?P<p>[{}(),+])|\s+|.', re.S)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'", "0": "\0"}


def unescape(text):
    def one(m):
        c = m.group(1)
        if c[0] == "x":
            return bytes([int(c[1:], 16)]).decode("latin-1")
        if c[0] in "uU":
            return chr(int(c[1:], 16)).encode().decode("latin-1")
        return ESCAPES[c]
    raw = re.sub(r"\\(x[0-9a-fA-F]+|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", one, text.encode().decode("latin-1"))
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def tokens(source):
    for m in TOKEN.finditer(source):
        if m["raw"] is not None:
            yield "s", m["raw"]
        elif m["s"] is not None or m["u8"] is not None:
            yield "s", unescape(m["s"] if m["s"] is not None else m["u8"])
        elif m["w"]:
            yield "w", m["w"]
        elif m["p"]:
            yield "p", m["p"]


def calls(source, name):
    """Yield the arguments of each call of `name`: strings, and lists of strings."""
    stream = list(tokens(source))
    for i, t in enumerate(stream):
        if t != ("w", name) or stream[i + 1] != ("p", "("):
            continue
        args, depth, joined, plain = [], 0, None, True
        for kind, text in stream[i + 2:]:
            if kind == "s":
                target = args[-1] if depth else args
                if joined is target:
                    target[-1] += text
                else:
                    target.append(text)
                joined = target
                continue
            if kind == "w":
                plain = plain and text == "std"
            if text == "{":
                args.append([])
                depth += 1
            elif text == "}":
                depth -= 1
            elif text == ")" and depth == 0:
                break
            elif text in "()":
                plain = False
            joined = None
        if plain and len(args) == 4 and isinstance(args[1], str):
            yield args


def valid(texts):
    return [t for t in texts if not any(0xDC80 <= ord(c) <= 0xDCFF for c in t)]


def main(root, out):
    lines, counts = [], {}
    for file in ("test-grammar-integration.cpp", "test-grammar-llguidance.cpp"):
        source = (pathlib.Path(root) / "tests" / file).read_text()
        for function, kind in (("test_grammar", "gbnf"), ("test_schema", "schema")):
            for name, text, accept, reject in calls(source, function):
                if file.endswith("llguidance.cpp") and kind == "gbnf":
                    continue                            # Lark's notation
                line = {"name": name.split("\n")[0][:80], "kind": kind, "text": text, "accept": valid(accept), "reject": valid(reject)}
                word = next((w for w in REFUSED if kind == "schema" and re.search(rf'"{w}"\s*:\s*true', text)), None)
                if word:
                    line["refused"] = word
                if name.startswith("min+max items") and "llguidance" in file:
                    line["options"] = {"open": True}    # the two files contradict each other about values of other types
                if line not in lines:
                    lines.append(line)
                    c = counts.setdefault((file, function), [0, 0, 0])
                    c[0] += 1
                    c[1] += len(accept)
                    c[2] += len(reject)
    for key, c in counts.items():
        print(*key, "cases %d accept %d reject %d" % tuple(c), file=sys.stderr)
    pathlib.Path(out).write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
