#!/usr/bin/env python3
"""Function bodies follow clang-format in what must be one way: indentation, braces, the space around operators.

Contracts, tables and everything else at file scope are laid out by hand. A body runs from a line `{` to the next line
`}`, both in the first column; inside it the author may still align columns with extra spaces and choose where a
statement is broken. `--write` changes the files, otherwise differences are printed.
"""
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The program itself: what stands in bin/ is a Python script that starts it.
TOOL = next(ROOT.glob("build/venv/lib/python3*/site-packages/clang_format/data/bin/clang-format"), None)


def bodies(lines):
    """Line ranges (from 1, inclusive) of the function bodies."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number
            start = None


def joined(lines):
    """The same statement whatever its line breaks and columns."""
    text = re.sub(r"\s+(?:\\\s+)?", " ", " ".join(lines) + " ").strip()
    return re.sub(r"(?<=[(\[]) | (?=[)\],;])|,(?= })", "", text)


def indent(line):
    return len(line) - len(line.lstrip())


def segments(ours, theirs):
    """Both texts cut at the line ends they share; the tool moves nothing but white space."""
    a = b = 0
    at, bt, first_a, first_b = 0, 0, 0, 0
    size = lambda line: len(re.sub(r"\s", "", line))
    while a < len(ours) or b < len(theirs):
        if at <= bt and a < len(ours):
            at, a = at + size(ours[a]), a + 1
        else:
            bt, b = bt + size(theirs[b]), b + 1
        if at == bt and at and (a == len(ours) or ours[a].strip()) and (b == len(theirs) or theirs[b].strip()):
            yield ours[first_a:a], theirs[first_b:b]
            first_a, first_b = a, b
    yield ours[first_a:], theirs[first_b:]


def continues(before, line):
    """Whether a line goes on with the statement of the line before it."""
    return bool(re.search(r"[,(&|?+*/=<>-]$", re.sub(r"\s*/\*.*?\*/$", "", before))
                or re.match(r"\s*(?:[?:&|+*/\"]|-[^-])", line))


def merged(text, tool):
    """What the tool says, except where it only undoes columns or breaks a statement elsewhere."""
    out = [""]
    for mine, tools in segments(text.split("\n"), tool.split("\n")):
        same = (mine and tools and joined(mine) == joined(tools) and mine.count("") == tools.count("")
                and (indent(mine[0]) == indent(tools[0]) or continues(out[-1], mine[0])))
        out += mine if same else tools
    return "\n".join(out[1:])


def formatted(path, text):
    ranges = [f"--lines={a}:{b}" for a, b in bodies(text.split("\n"))]
    if not ranges:
        return text
    tool = TOOL or shutil.which("clang-format")
    if not tool:
        print("no clang-format: run scripts/setup test", file=sys.stderr)
        sys.exit(77)                        # Meson's word for skipped
    return merged(text, subprocess.run([str(tool), "--style=file", f"--assume-filename={path}", *ranges], input=text, cwd=ROOT,
                                       check=True, capture_output=True, text=True).stdout)


def check_example():
    text = ("int t[] = { 1,  2 };\n\nint f(int  a)\n{\n    int   b = 1;\n    g(a,\n      b);\n"
            "  if(a){\n    a+=b;\n  }\n    return a;\n}\n")
    want = ("int t[] = { 1,  2 };\n\nint f(int  a)\n{\n    int   b = 1;\n    g(a,\n      b);\n"
            "    if (a) {\n        a += b;\n    }\n    return a;\n}\n")
    got = formatted("src/x.c", text)
    return [] if got == want else [f"tests/lint/format.py: the example became {got!r}"]


def main():
    write = "--write" in sys.argv[1:]
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    files = named or [str(p.relative_to(ROOT)) for d in ("include", "src", "tests", "examples", "bench", "tools")
                      for p in sorted((ROOT / d).rglob("*.[ch]"))]
    wrong = check_example()
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in files]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        laid_out = list(pool.map(formatted, files, texts))
    for path, text, new in zip(files, texts, laid_out):
        if new == text:
            continue
        if write:
            (ROOT / path).write_text(new, encoding="utf-8")
        else:
            wrong += difflib.unified_diff(text.split("\n"), new.split("\n"), path, path + " (make fmt)", lineterm="", n=1)
    print("\n".join(wrong))
    print(f"format: {len(files)} files" + (", not all laid out: make fmt" if wrong else ""))
    return 1 if wrong else 0


sys.exit(main())
