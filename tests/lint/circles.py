#!/usr/bin/env python3
"""Find cycles between files of src/ by their symbols: files that use each other, directly or through other files.

`circles.py BUILD` reads the output of `nm` for the objects of the library and the program in a build folder. The files of a cycle cannot be
read, tested or left out one by one. ALLOWED lists inherent cycles with their reasons; any other cycle is a finding, and so is an entry of
ALLOWED without a cycle. Calls through a table of functions are not seen: such a table is the way to break a cycle.

`circles.py BUILD --why ROOM` lists which file of src/ROOM/ needs which other file there, and for which symbols.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ALLOWED = {
    # the files of one cycle, and why they need each other
    "grammar/{expression,members}": "a state of an object is an expression, and whether that is alive is asked of the object",
    "text/jinja/jinja_*": "an interpreter: values hold macros, a call of one evaluates its body, which makes values; expressions nest",
    "formats/{container,gguf,safetensors,unnest}": "a container opens the reader of its format, which fills in the container",
    "plan/{dispatch,steps}": "a step of experts dispatches rows, and what is dispatched are steps of their own",
}


def symbols(objects):
    """Return ({symbol: object that defines it}, {object: undefined symbols in it})."""
    text = subprocess.run(["nm", "-A", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    defined, wanted = {}, {}
    for path, kind, name in re.findall(r"^(.+?\.o):\s*[0-9a-f]*\s+(\w) (\S+)$", text, re.M):
        if kind == "U":
            wanted.setdefault(path, set()).add(name)
        elif kind in "TDBRCVW":
            defined[name] = path
    return defined, wanted


def needs(defined, wanted):
    """Return {file: files whose symbols it uses}."""
    graph = {file: {defined[name] for name in names if name in defined} - {file} for file, names in wanted.items()}
    return {file: set() for file in defined.values()} | graph


def reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        new = graph[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def circles(graph):
    """Return the sets of files that all reach each other, the largest first."""
    far = {file: reached(graph, file) for file in graph}
    found = {frozenset(other for other in far[file] if file in far[other]) for file in graph if file in far[file]}
    return sorted(found, key=lambda c: (-len(c), sorted(c)))


def matches(pattern, circle):
    head, _, names = pattern.rstrip("}").partition("{")
    patterns = [head + name for name in names.split(",")]
    return all(any(fnmatch.fnmatch(file, p) for p in patterns) for file in circle)


def findings(found, allowed):
    for circle in found:
        if not any(matches(pattern, circle) for pattern in allowed):
            yield f"{len(circle)} files call each other: {', '.join(sorted(circle))}"
    for pattern in allowed:
        if not any(matches(pattern, circle) for circle in found):
            yield f"tests/lint/circles.py: {pattern} is no circle any more"


def check_examples():
    graph = needs({"a": "x/a", "b": "x/b", "c": "x/c", "d": "y/d"}, {"x/a": {"b", "puts"}, "x/b": {"c"}, "x/c": {"a", "d"}, "y/d": {"d"}})
    found = circles(graph)
    if found != [{"x/a", "x/b", "x/c"}]:
        yield f"tests/lint/circles.py: does not see a circle in {graph}"
    if list(findings(found, ["x/*"])) or list(findings(found, ["x/{a,b,c}"])) or len(list(findings(found, ["x/{a,b}"]))) != 2:
        yield "tests/lint/circles.py: does not tell circles apart"


def library(build, root):
    """Yield each object of the library and the program with the name of its source: "study/facts/fact"."""
    sources = [str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.c")]
    flat = {name.replace("/", "_"): name for name in sources}
    for path in sorted(build.glob("src/**/*.c.o")):
        folders, name = path.relative_to(build / "src").parts[:-2], path.name.removesuffix(".c.o")
        whole = "_".join([*folders, name])               # src/cli/lamina.p/main.c.o is cli/main
        yield str(path), flat.get(whole, whole)


def explain(defined, wanted, room):
    for file in sorted(name for name in wanted if name.startswith(room)):
        for other in sorted({defined[name] for name in wanted[file] if name in defined} - {file}):
            if other.startswith(room):
                print(f"{file} -> {other}:", *sorted(name for name in wanted[file] if defined.get(name) == other))


def main():
    source = dict(library(pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parents[2] / "src"))
    if not source:
        print(f"{sys.argv[1]}: no objects of the library")
        return 1
    defined, wanted = symbols(source)
    defined = {symbol: source[path] for symbol, path in defined.items()}
    wanted  = {source[path]: names for path, names in wanted.items()}
    if sys.argv[2:3] == ["--why"]:
        explain(defined, wanted, sys.argv[3])
        return 0
    found = circles(needs(defined, wanted))
    wrong = [*check_examples(), *findings(found, ALLOWED)]
    print("\n".join(wrong))
    print(f"circles: {len(source)} files, {len(found)} circles, the longest of {len(found[0]) if found else 0}, {len(wrong)} findings")
    return 1 if wrong else 0


sys.exit(main())
