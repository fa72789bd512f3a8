#!/usr/bin/env python3
"""Check that function bodies follow clang-format in indentation, braces and the spaces around operators.

Contracts, tables and everything else at file scope are laid out by hand. A body runs from a line `{` to the next line
`}`, both in the first column; inside it the author may still align columns with extra spaces and choose where a
statement is broken, unless a line then begins beyond column 60 or an argument does not align with its bracket:
such a statement is broken as clang-format breaks it. `--write` changes the files, otherwise differences are printed.
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
# The program itself: the file in bin/ is a Python script that starts it.
TOOL = next(ROOT.glob("build/venv/lib/python3*/site-packages/clang_format/data/bin/clang-format"), None)

FARTHEST = 60                               # blanks before a continued line; past them the break belongs before the call
LITERAL = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


def bodies(lines):
    """Yield the line ranges (from 1, inclusive) of the function bodies."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number
            start = None


def joined(lines):
    """Join a statement to a form that does not depend on line breaks and columns."""
    text = re.sub(r"\s+(?:\\\s+)?", " ", " ".join(lines) + " ").strip()
    return re.sub(r"(?<=[(\[]) | (?=[)\],;])|,(?= })", "", text)


def indent(line):
    return len(line) - len(line.lstrip())


def past_blank(lines, at):
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def segments(ours, theirs):
    """Split both texts at the line ends that they share; the tool changes only white space."""
    a = b = 0
    at, bt, first_a, first_b = 0, 0, 0, 0
    size = lambda line: len(re.sub(r"\s", "", line))
    while a < len(ours) or b < len(theirs):
        if at <= bt and a < len(ours):
            at, a = at + size(ours[a]), a + 1
        else:
            bt, b = bt + size(theirs[b]), b + 1
        if at == bt and at:
            a, b = past_blank(ours, a), past_blank(theirs, b)
            yield ours[first_a:a], theirs[first_b:b]
            first_a, first_b = a, b
    yield ours[first_a:], theirs[first_b:]


def continues(before, line):
    """Return whether a line continues the statement of the line before it."""
    before = re.sub(r"\s*/\*.*?\*/$", "", before)
    return bool(re.search(r"[,(&|?+*/=<>-]$", before) or not re.search(r"[;{}]$", before) and before
                and re.match(r"\s*(?:[?:&|+*/\"]|-[^-])", line) or before.endswith("{") and re.match(r"\s*\.\w", line))


def statements(pairs):
    """Join segments to whole statements, so that no statement is laid out half by hand and half by the tool."""
    ours, theirs = [], []
    for mine, tools in pairs:
        if ours and mine and not continues(ours[-1], mine[0]):
            yield ours, theirs
            ours, theirs = [], []
        ours, theirs = ours + mine, theirs + tools
    yield ours, theirs


def astray(lines):
    """Return whether a line begins too far to the right, or an argument does not begin below the first one of its call."""
    brackets, before = [], ""
    for line in lines:
        code = LITERAL.sub(lambda m: m.group(0)[0] + "x" * (len(m.group(0)) - 2) + m.group(0)[-1], line)
        if line.strip() and indent(line) > FARTHEST:
            return True
        if brackets and brackets[-1] and before.endswith(",") and line.strip() and indent(line) != brackets[-1]:
            return True
        for at, c in enumerate(code):
            if c in "([{":                  # the column after the bracket; 0 if nothing follows it
                brackets.append(at + 1 if c != "{" and code[at + 1:].strip() else 0)
            elif c in ")]}" and brackets:
                brackets.pop()
        before = re.sub(r"\s*/x+/$", "", code).rstrip()
    return False


def merged(text, tool):
    """Return the output of the tool, but keep statements where it only undoes columns or breaks lines elsewhere."""
    out = []
    for mine, tools in statements(segments(text.split("\n"), tool.split("\n"))):
        same = (mine and tools and joined(mine) == joined(tools) and mine.count("") == tools.count("")
                and indent(mine[0]) == indent(tools[0]) and not astray(mine))
        out += mine if same else tools
    return "\n".join(out)


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


EXAMPLES = [
    ("int t[] = { 1,  2 };\n\nint f(int  a)\n{\n    int   b = 1;\n    g(a,\n      b);\n"
     "  if(a){\n    a+=b;\n  }\n    return a;\n}\n",
     "int t[] = { 1,  2 };\n\nint f(int  a)\n{\n    int   b = 1;\n    g(a,\n      b);\n"
     "    if (a) {\n        a += b;\n    }\n    return a;\n}\n"),
    # The end of a call too far to the right to be recognised as part of it.
    ("int f(void)\n{\n    int  b = g(\"what the first argument of this call is about\", another_function(context,\n"
     + " " * 80 + "1));\n    return b;\n}\n",
     "int f(void)\n{\n    int b = g(\"what the first argument of this call is about\", another_function(context, 1));\n    return b;\n}\n"),
    # A renamed call whose continuation lines were not moved.
    ("int f(void)\n{\n    return g(a,\n               \"b\",\n             c);\n}\n",
     "int f(void)\n{\n    return g(a, \"b\", c);\n}\n"),
    # The members of an argument may hang.
    ("int f(void)\n{\n    return g(a, &(spec){\n        .b = 1, .c = 2,\n        .d = 3,\n    });\n}\n",
     "int f(void)\n{\n    return g(a, &(spec){\n        .b = 1, .c = 2,\n        .d = 3,\n    });\n}\n"),
    # A loop that is a macro has a body.
    ("int f(void)\n{\n    json_array_foreach(a, i, one)\n        n++;\n}\n",
     "int f(void)\n{\n    json_array_foreach(a, i, one)\n        n++;\n}\n"),
]


def check_examples():
    return [f"tests/lint/format.py: the example {text!r} became {got!r}"
            for text, want in EXAMPLES if (got := formatted("src/x.c", text)) != want]


def main():
    write = "--write" in sys.argv[1:]
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    files = named or [str(p.relative_to(ROOT)) for d in ("include", "src", "tests", "examples", "bench", "tools")
                      for p in sorted((ROOT / d).rglob("*.[ch]"))]
    wrong = check_examples()
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
