"""Rules about modules: what a folder may include, and how large it is."""
import collections
import pathlib
import re

from rules_source import APPS, C_FILES, ROOT, room

# The modules (rooms): a folder includes only folders of a lower level, and itself.
LEVELS = {
    "base": 0, "tensor": 1, "kernels": 2, "formats": 2, "text": 2, "grammar": 3, "program": 3, "arch": 4, "plan": 4,
    "runtime": 5, "export": 5, "schedule": 6, "cluster": 6, "trace": 6, "train": 6, "api": 7, "study": 7, "server": 7, "hub": 7, "cli": 8,
}
# Submodules of a module, with separate levels: the same rule. "": the files of the module itself.
ROOMS = {
    "base": {"": 0, "os": 1},
    "grammar": {"": 0, "schema": 1},
    "program": {"": 0, "ops": 1},
    "runtime": {"model": 0, "sample": 0, "ops": 0, "engine": 1, "adapters": 2, "generate": 2, "measure": 3},
    "export": {"tensors": 0, "keys": 1, "vocabulary": 2, "files": 3, "synth": 4, "convert": 5, "quantize": 5},
    "server": {"front": 0, "store": 1, "models": 1, "ask": 2, "dialects": 3, "start": 4},
    "study": {"facts": 0, "claims": 1, "audit": 2, "derive": 1, "listing": 1, "draw": 2, "page": 3, "explain": 4, "compare": 4, "report": 5, "views": 6, "models": 6, "cluster": 6},
    "cli": {"base": 0, "run": 1, "weights": 2, "study": 2, "measure": 2, "serve": 2, "": 3},
}
# A public header has the level of the module that implements it.
PUBLIC = {"study": 7, "adapter": 5, "answer": 2, "audit": 7, "cluster": 5, "clusterplan": 7, "error": 0, "log": 0, "buffer": 0, "heap": 0, "version": 0, "language": 0, "text": 2, "grammar": 3, "preset": 4, "convert": 5, "quantize": 5, "merge": 6, "imatrix": 5, "mixture": 5, "model": 5, "engine": 5, "embed": 5, "sampler": 5, "sequence": 5, "generate": 5, "chat": 5, "schedule": 6, "verify": 5, "eval": 5, "score": 5, "logits": 5, "machine": 5, "facts": 7, "synth": 5, "explain": 7, "describe": 4, "device": 7, "compare": 7, "report": 7, "allot": 6, "diff": 6, "trace": 6, "train": 6, "fit": 7, "lamina": 6}
# Modules that a module must not include although their level is lower.
FORBIDDEN = {
    "grammar": {"formats", "kernels"},
    "program": {"formats", "kernels", "text"},
    "arch": {"kernels", "text"},
    "plan": {"formats", "text"},
}
# What the study reads of the engine, and does not change: programs, plans, configurations, files, and how a model is opened. It includes base
# and the public headers besides, and no other part of the engine.
VIEW = {"program/program.h", "program/op.h", "program/split.h", "plan/plan.h", "plan/cost.h", "arch/config.h", "arch/presets.h", "arch/typemix.h", "tensor/act.h", "tensor/dtype.h",
        "formats/meta.h", "formats/container.h", "formats/filetype.h", "text/watched.h", "runtime/model/model.h", "runtime/model/divide.h", "runtime/engine/engine_plan.h",
        "runtime/engine/broadcast.h", "train/predict_memory.h"}
# and these: time, and threads without signals of the host, which are inline; columns, JSON kept exactly, the nearest word, numbers as text, the reader of texts
# and JSON lines, and traces as values of jansson, which the library uses too but does not export.
APPS_MAY = {"base/os/clock.h", "base/os/condition.h", "base/os/thread.h", "base/columns.h", "base/json_exact.h", "base/nearest.h", "base/number.h", "base/textfile.h", "trace/tracejson.h"}


def inner_room(path):
    """Return the submodule of a file, "os" of "base/os/cpu.h"; "" if it lies in the module itself."""
    return path.split("/")[1] if path.count("/") > 1 else ""


def inner_level(path, target):
    """Return what is wrong with an include within a module that has submodules; None if it is allowed."""
    here, levels = room(path), ROOMS[room(path)]
    mine, theirs = inner_room(path.removeprefix("src/")), inner_room(target)
    if mine not in levels or theirs not in levels:
        return f"{here} consists of rooms: {', '.join(filter(None, levels))}"
    if mine != theirs and levels[theirs] >= levels[mine]:
        return f"{here}/{mine} (level {levels[mine]}) includes {target} (level {levels[theirs]})"
    return None


def include_levels(path, text):
    here = room(path)
    for number, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1)
        first = target.split("/")[0]
        if path.startswith("include/"):
            if first != "lamina":
                yield number, f"a public header includes {target}"
            continue
        if here is None:
            continue
        if here not in LEVELS:
            yield number, f"src/{here} has no level in LEVELS"
        elif "/" not in target:
            yield number, f"write includes from src/: {target}"
        elif first == "lamina":
            level = PUBLIC.get(pathlib.PurePosixPath(target).stem)
            if level is None:
                yield number, f"{target} has no level in tests/lint/rules_modules.py"
            elif level > LEVELS[here]:
                yield number, f"{here} (level {LEVELS[here]}) includes {target} (level {level})"
        elif first == here:
            if here in ROOMS and (wrong := inner_level(path, target)):
                yield number, wrong
        elif first not in LEVELS:
            yield number, f"unknown folder: {target}"
        elif here in APPS and target not in APPS_MAY and not (here == "cli" and target in ("server/start/serve.h", "hub/pull.h", "hub/cache_scan.h")):
            yield number, f"{here} uses the public headers only, not {target}"
        elif LEVELS[first] >= LEVELS[here]:
            yield number, f"{here} (level {LEVELS[here]}) includes {target} (level {LEVELS[first]})"
        elif here == "study" and first != "base" and target not in VIEW:
            yield number, f"the study reads the engine through VIEW, which has no {target}"
        elif first in FORBIDDEN.get(here, ()):
            yield number, f"{here} must not know {first}: {target}"


def rooms_documented(folders, page):
    """docs/dev/architecture.md lists each folder of src/ with the level of LEVELS."""
    rows = dict((name, int(level)) for level, name in re.findall(r"^\| (\d) \| `src/(\w+)/` \|", page, re.M))
    for name in sorted(set(folders) ^ set(rows) | set(folders) ^ set(LEVELS) | {n for n in rows if LEVELS.get(n) != rows[n]}):
        yield "docs/dev/architecture.md", 1, f"src/{name}: folder, table and level do not agree"


def inner_rooms_documented(folders, page):
    """docs/dev/architecture.md lists each submodule with the level of ROOMS. `folders`: names such as "runtime/engine"."""
    rows = {name: int(level) for level, name in re.findall(r"^\| (\d) \| `src/(\w+/\w+)/` \|", page, re.M)}
    rooms = {f"{outer}/{name}": level for outer, levels in ROOMS.items() for name, level in levels.items() if name}
    there = {f for f in folders if f.split("/")[0] in ROOMS}
    for name in sorted(there ^ set(rows) | there ^ set(rooms) | {n for n in rows if rooms.get(n) != rows[n]}):
        yield "docs/dev/architecture.md", 1, f"src/{name}: folder, table and level do not agree"


MAX_FILES = 40                          # of a folder of src/ or tests/: more files are rooms of their own
CROWDED = re.compile(r"src/arch|tests/golden/|tests/bad|tests/fuzz/corpus/")     # a file a family; data


def folder_sizes(files):
    """No folder of src/ or tests/ has more than MAX_FILES files."""
    count = collections.Counter(f.rpartition("/")[0] for f in files if f.startswith(("src/", "tests/")))
    for folder, n in sorted(count.items()):
        if n > MAX_FILES and not CROWDED.match(folder + "/"):
            yield folder, 1, f"{n} files; {MAX_FILES} are the limit: make rooms in it"


RULES = {
    # name: (files it reads, rule, [(path, bad text)], [(path, good text)])
    "include_levels": (
        C_FILES, include_levels,
        [("src/base/x.c", '#include "tensor/dtype.h"\n'), ("src/cli/x.c", '#include "base/str.h"\n'), ("src/text/x.c", '#include "formats/meta.h"\n'),
         ("src/cli/x.c", '#include "runtime/engine/state.h"\n'), ("src/kernels/x.c", '#include "lamina/model.h"\n'),
         ("include/lamina/x.h", '#include "base/error.h"\n'), ("src/arch/x.c", '#include "kernels/kernels.h"\n'),
         ("src/base/x.c", '#include "y.h"\n'), ("src/study/x.c", '#include "study/facts/x.h"\n'), ("src/study/views/x.c", '#include "runtime/engine/kv.h"\n'), ("src/plan/x.c", '#include "lamina/study/facts.h"\n'),
         ("src/study/facts/x.c", '#include "study/page/x.h"\n'), ("src/study/compare/x.c", '#include "study/explain/x.h"\n')],
        [("src/study/views/x.c", '#include "study/page/x.h"\n#include "study/views/y.h"\n'),
         ("src/runtime/engine/x.c", '#include "plan/plan.h"\n#include "lamina/engine.h"\n#include <stdio.h>\n'),
         ("src/cli/x.c", '#include "lamina/lamina.h"\n#include "cli/base/command.h"\n')]),
}


def examples():
    """Yield what is wrong with the rules of TREE below, found by examples."""
    many = [f"src/a/{n}.c" for n in range(MAX_FILES + 1)]
    if list(folder_sizes(many[1:])) or not list(folder_sizes(many)) or list(folder_sizes([f"src/arch/{n}.c" for n in range(99)])):
        yield "folder_sizes does not tell folders apart"
    table = "".join(f"| {level} | `src/{name}/` | x |\n" for name, level in LEVELS.items())
    if list(rooms_documented(LEVELS, table)) or len(list(rooms_documented(["base", "no"], table))) != len(LEVELS):
        yield "rooms_documented does not tell tables apart"
    inner = {f"{outer}/{name}": level for outer, levels in ROOMS.items() for name, level in levels.items() if name}
    table = "".join(f"| {level} | `src/{name}/` | x |\n" for name, level in inner.items())
    if list(inner_rooms_documented(inner, table)) or not list(inner_rooms_documented(inner, table.replace("| 1 |", "| 2 |"))) or not list(
            inner_rooms_documented([*inner, "runtime/no"], table)):
        yield "inner_rooms_documented does not tell tables apart"


def submodules(files):
    return {"/".join(p.split("/")[1:3]) for p in files if p.startswith("src/") and p.count("/") > 2}


TREE = {
    "folder_sizes": lambda tree: folder_sizes([p for p in tree.files if (ROOT / p).exists()]),
    "rooms_documented": lambda tree: rooms_documented({room(p) for p in tree.files} - {None}, tree.text("docs/dev/architecture.md")),
    "inner_rooms_documented": lambda tree: inner_rooms_documented(submodules(tree.files), tree.text("docs/dev/architecture.md")),
}
