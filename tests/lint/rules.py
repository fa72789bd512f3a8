#!/usr/bin/env python3
"""Check the project's rules that a program can check. Run by `make lint` and as a test.

Each rule has examples that it must report and examples that it must accept; they are checked before the tree is
read, so a rule that no longer works fails too. `rules.py RULE…` runs only those rules.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The modules (rooms): a folder includes only folders of a lower level, and itself.
LEVELS = {
    "base": 0, "tensor": 1, "kernels": 2, "formats": 2, "text": 2, "grammar": 3, "program": 3, "arch": 4, "plan": 4,
    "runtime": 5, "export": 5, "schedule": 6, "cluster": 6, "trace": 6, "train": 6, "api": 7, "study": 7, "server": 7, "hub": 7, "cli": 8,
}
# Submodules of a module, with separate levels: the same rule. "": the files of the module itself.
ROOMS = {
    "base": {"": 0, "os": 1},
    "grammar": {"": 0, "schema": 1},
    "runtime": {"model": 0, "sample": 0, "engine": 1, "adapters": 2, "generate": 2, "measure": 3},
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
VIEW = {"program/program.h", "program/split.h", "plan/plan.h", "plan/cost.h", "arch/config.h", "arch/presets.h", "arch/typemix.h", "tensor/act.h", "tensor/dtype.h",
        "formats/meta.h", "formats/container.h", "formats/filetype.h", "text/watched.h", "runtime/model/model.h", "runtime/model/divide.h", "runtime/engine/engine_plan.h",
        "runtime/engine/broadcast.h", "train/predict_memory.h"}
APPS = {"server", "hub", "cli"}          # these use the public headers only
# and these: time, and threads without signals of the host, which are inline; columns, JSON kept exactly and the nearest word, which the library
# uses too but does not export.
APPS_MAY = {"base/os/clock.h", "base/os/condition.h", "base/os/thread.h", "base/columns.h", "base/json_exact.h", "base/nearest.h"}


# A comment, a string or a character of C.
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip(text):
    """Return C source without comments and string contents, with unchanged line numbers."""
    def blank(m):
        s = m.group(0)
        if s.startswith("/"):
            return re.sub(r"[^\n]", " ", s)
        return s[0] + " " * (len(s) - 2) + s[-1]
    return LITERAL.sub(blank, text)


def find(pattern, why):
    """Return a rule that reports each match of `pattern` in code (not in comments or strings)."""
    compiled = re.compile(pattern)

    def rule(path, text):
        for number, line in enumerate(strip(text).split("\n"), 1):
            m = compiled.search(line)
            if m:
                yield number, why.format(m.group(0).strip())
    return rule


def room(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


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


# ---- rules: each takes (path, text) and yields (line, message) ----
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
            yield number, f"src/{here} has no level in design.md's list"
        elif "/" not in target:
            yield number, f"write includes from src/: {target}"
        elif first == "lamina":
            level = PUBLIC.get(pathlib.PurePosixPath(target).stem)
            if level is None:
                yield number, f"{target} has no level in tests/lint/rules.py"
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


def in_src(rule):
    return lambda path, text: rule(path, text) if path.startswith("src/") else ()


def in_library(rule):
    return lambda path, text: rule(path, text) if path.startswith("src/") and room(path) not in APPS else ()


def in_server(rule):
    return lambda path, text: rule(path, text) if path.startswith("src/server/") else ()


def outside_kernels(rule):
    return lambda path, text: rule(path, text) if not path.startswith("src/kernels/") else ()


def not_in(prefixes, rule):
    return lambda path, text: rule(path, text) if not path.startswith(prefixes) else ()


def page(path, text):
    """Check line width, tabs, line ends and trailing spaces."""
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end of the file"
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line and not path.endswith(("Makefile", ".tsv")):
            yield number, "tab"
        if line != line.rstrip():
            yield number, "space at the end of the line"
        if "\r" in line:
            yield number, "carriage return"
        limit = next((n for end, n in WIDTH.items() if path.endswith(end)), None)
        if limit and (line.lstrip().startswith("{ ") and line.endswith(("},", "}, \\")) or re.search(r'"[,);}]*(?: *\\)?$', line)):
            limit = 180                     # a row of a table; a line that ends in a string, which a break would cut
        if limit and len(line) > limit:
            yield number, f"{len(line)} columns; {limit} are the limit"
        blanks = len(line) - len(line.lstrip(" "))
        if path.endswith(C_FILES) and blanks > FARTHEST and not re.match(r"\s+(?:\\$|[?:] |[^;]*\*/$)", line):
            yield number, f"begins after {blanks} blanks; break before the call, or make it two statements"


def heads(path, text):
    """Each file begins with a comment that says what it is for; a header names itself."""
    if not path.startswith(("src/", "include/")):
        return
    name = path.rsplit("/", 1)[-1]
    if not re.match(r"/\* (?:study/)?" + re.escape(name) + r" - \S" if name.endswith(".h") else r"/\* \S", text):
        yield 1, f"does not begin with a comment about it: /* {name} - …"


def places(path, text):
    """Forbid paths of one machine and addresses of package registries."""
    pattern = re.compile(r"(?<![\w.])/(?:home|Users|work|root|mnt|opt)/\w+"
                         r"|(?:registry\.npmjs\.|files\.pythonhosted\.|//pypi\.|deb\.debian\.|download\.pytorch\.)\w+")
    for number, line in enumerate(text.split("\n"), 1):
        m = pattern.search(line)
        if m:
            yield number, f"a place of one machine or registry: {m.group(0)}"


# Families are described only in src/arch/; pre-tokenizers have the names of the models that introduced them.
NAMED_BY_RIGHT = ("src/arch/", "src/text/")
# Words that contain a family's name but mean something else: a kind of rotary scaling, llama.cpp and its parts, a tokenizer's
# spelling of bytes, keys of a keyboard, the demo model.
NOT_A_FAMILY = re.compile(r"(?i)LM_ROPE_LLAMA3|llama3|(?:is_)?ik_llama\w*|llama[.-]\w+|llama_(?:ftype|tensor_get_type)|\"gpt-?2\"|Ctrl-\w|SmolLM2-135M-Instruct")


def families():
    """Return a pattern of all names that files of src/arch/ accept as model_type or general.architecture."""
    names = set()
    for path in sorted((ROOT / "src/arch").glob("*.c")):
        for listed in re.findall(r"\.(?:hf_types|gguf_archs|name)\s*=\s*(?:\([^)]*\))?\s*([^;]*?),\n", path.read_text(encoding="utf-8")):
            names |= set(re.findall(r'"([\w-]+)"', listed))
    words = "|".join(sorted({re.sub(r"[-_]", "[-_]?", n) for n in names}, key=len, reverse=True))
    return re.compile(rf"(?i)(?<![a-z])(?:{words})(?![a-z])")


def no_family(path, text, pattern=[]):
    if not path.startswith("src/") or path.startswith(NAMED_BY_RIGHT):
        return
    pattern or pattern.append(families())
    for number, line in enumerate(text.split("\n"), 1):
        m = pattern[0].search(NOT_A_FAMILY.sub(" ", line))
        if m:
            yield number, f"a family's name outside src/arch/: {m.group(0)}"


def names_in_strings(path, text):
    """Forbid names of the C code in strings: an earlier replacement of words also changed strings."""
    for m in LITERAL.finditer(text):
        named = m.group(0)[0] == '"' and NAME_OF_OURS.search(m.group(0))
        if named:
            yield text.count("\n", 0, m.start()) + 1, f"a string names {named.group(0)}"


COMMANDS = "|".join(sorted(p.stem[len("command_"):] for p in (ROOT / "src/cli").rglob("command_*.c")))
FLAG_OR_COMMAND = re.compile(rf"(?<![\w-])--[a-z]|\blamina (?:{COMMANDS})\b|\bscripts/")
MADE_BY = ("lamina synth", "lamina convert", "lamina merge")      # marks in generated files: existing files contain them


def library_names_no_flags(path, text):
    """Strings of the library name its options in back quotes; the program replaces them with flags and commands (cli/base/flag_names.h)."""
    if path.startswith(("src/cli/", "src/server/")):
        return
    for m in LITERAL.finditer(text):
        named = m.group(0)[0] == '"' and not any(mark in m.group(0) for mark in MADE_BY) and FLAG_OR_COMMAND.search(m.group(0))
        if named:
            yield text.count("\n", 0, m.start()) + 1, f"the library names a flag, a command or a script: {named.group(0)}"


DECIMAL = re.compile(r"%[-+ #'0-9.*]*[efgaEFGA]")
OBEYS_LOCALE = re.compile(r"(?<![\w.>])(?:strto[df]|strtold|snprintf)\s*\(")


def decimals_in_any_locale(path, text):
    """Forbid functions that obey the locale: a program that uses the library may have set one with a decimal comma."""
    code = strip(text)
    for m in OBEYS_LOCALE.finditer(code):
        depth, end = 1, m.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        if m.group(0).startswith("strto") or DECIMAL.search(text[m.start():end].replace("%%", "")):
            yield text.count("\n", 0, m.start()) + 1, f"obeys the locale; base/number.h does not: {m.group(0)}"


COMPARES = re.compile(r"(?<![\w.>])(?:strn?(?:case)?cmp|strstr)\s*\(")
SHOWN_WORD = re.compile(r'"[^"]*[A-Z\x80-\U0010ffff][^"]*"')
SHOWN_LETTERS = re.compile(r'"[^"]*[A-Z][^"]*"')
ASKED_WORD = re.compile(r"\blm_(?:facts|compare|compared)_text\s*\(|->text\b")
# PyTorch's class names are not words of this project.
CLASS_NAME = re.compile(r"class_name")


def words_not_compared(path, text):
    """Forbid decisions that depend on displayed words, or rewording a page would change results: facts carry ids, programs enums."""
    if not path.startswith("src/study/"):
        return
    code = strip(text)
    for m in COMPARES.finditer(code):
        depth, end = 1, m.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        call, literal = text[m.start():end], '"' in code[m.start():end]
        shown = SHOWN_LETTERS if call.startswith("strstr") else SHOWN_WORD       # lines may break at an arrow
        if literal and not CLASS_NAME.search(call) and (shown.search(call) or ASKED_WORD.search(call)):
            yield text.count("\n", 0, m.start()) + 1, f"compares words that are shown: {' '.join(call.split())}"


# `lm_head` is the matrix to logits, as Hugging Face calls it.
NAME_OF_OURS = re.compile(r"(?<!\w)(?!lm_head\b)(?:lm|LM)_\w+")


def comments_name_code(sources):
    """Each name lm_… or LM_… in a comment of src/ or include/ exists in their code; `lm_add_*` is the beginning of a name."""
    code = {name for _, text in sources for name in NAME_OF_OURS.findall(strip(text))}
    for path, text in sources:
        for comment in LITERAL.finditer(text):
            for m in NAME_OF_OURS.finditer(comment.group(0)) if comment.group(0)[0] == "/" else ():
                name, begins = m.group(0), comment.group(0)[m.end():m.end() + 1] in ("*", "…", "<")
                if name not in code and not (begins and any(n.startswith(name) for n in code)):
                    yield path, text.count("\n", 0, comment.start() + m.start()) + 1, f"a comment names {name}, which is not there"

PRINT = r"(?<![\w.>])(?:printf|vprintf|puts|putchar|perror|psignal)\s*\(|\b(?:stdout|stderr)\b"
END = r"(?<![\w.>])(?:exit|_exit|_Exit|quick_exit|abort|raise|assert_perror|err|errx|verr|verrx)\s*\("
SIMD = (r"[<\"](?:\w*intrin|arm_neon|arm_sve|arm_acle)\.h[>\"]|\b_mm\d*_\w+|\b__m(?:128|256|512)[id]?\b"
        r"|\bv(?:ld|st|dot|mla|fma|add|mul)\w*q_[fsu]\d+\b|\b__builtin_ia32_(?!pause)\w+")
UNSAFE = (r"(?<![\w.>])(?:strcpy|stpcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|mktemp|tmpnam"
          r"|strncpy|strncat)\s*\(")
NUMBERS = r"(?<![\w.>])(?:v?[fs]?scanf|ato[ilf]|atoll)\s*\("      # sufficient for the tables of a test
HEAP = (r"(?<![\w.>])(?:malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|posix_memalign"
        r"|aligned_alloc)\s*\(")

C_FILES = (".c", ".h")
WIDTH = {".c": 110, ".h": 110}
FARTHEST = 60                        # blanks before a continued line, as in format.py
# Words that documents for users and contributors avoid: private words and unidiomatic phrases. Each has a plain form:
# request or sequence, draft token, admitted, is preempted, returned, is in, separate, X-compatible, tool calls, the caller.
AVOIDED = re.compile(
    r"\b(?:nobody|somebody|whoever|as ever|let in|pages? back|in the words of|in \w+'s words|calls? of tools|but for|shared? beginnings?"
    r"|guess(?:es|ed|ing)|of (?:their|our) own|stands? (?:in|beside|behind|before|there)|that (?:is|are) there|told|in fewer bits|is no [A-Z]\w*)\b")

# The same for pages for users, which are in the places below. Plain forms: rejected, results, compared with, continues, maximum.
USERS = ("README.md", "docs/guide/", "docs/server/", "docs/library/", "docs/study/")
AVOIDED_FOR_USERS = re.compile(rf"{AVOIDED.pattern}|\b(?:refus(?:e|es|ed)|figures|beside|go(?:es)? on|gives? back|most tokens|by itself|(?:for|of) who)\b")


def plain_words(path, text):
    """Forbid the words of AVOIDED in the prose of a document; code and generated pages are not checked."""
    if path in ("docs/server/api.md", "docs/library/c-interface.md", "docs/guide/coming-from.md"):
        return
    code, avoided = False, AVOIDED_FOR_USERS if path.startswith(USERS) else AVOIDED
    for number, line in enumerate(text.split("\n"), 1):
        code ^= line.startswith("```")
        if not code and not line.startswith(("    ", "```")):
            for m in avoided.finditer(re.sub(r"`[^`]*`", "``", line)):
                yield number, f"“{m.group()}”: see AVOIDED in tests/lint/rules.py for the plain form"


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
    "library_does_not_print": (
        C_FILES, in_library(find(PRINT, "the library prints nothing: {}")),
        [("src/base/x.c", 'printf("x");\n'), ("src/base/x.c", 'fputs("x", stderr);\n')],
        [("src/base/x.c", 'snprintf(b, 3, "printf(");  /* printf( */\n'), ("src/cli/x.c", 'printf("x");\n')]),
    "library_does_not_end_the_process": (
        C_FILES,                           # sigbus.c passes on signals that it does not handle
        in_library(not_in(("src/base/os/sigbus.c",), find(END, "the library ends no process: {}"))),
        [("src/base/x.c", "    abort();\n"), ("src/text/x.c", "if (x) exit(1);\n")],
        [("src/base/x.c", "on_exit_(1); lm_abort(w); p->abort(w);\n"), ("src/cli/x.c", "exit(1);\n")]),
    "intrinsics_only_in_kernels": (
        C_FILES, outside_kernels(find(SIMD, "instruction sets belong to src/kernels/: {}")),
        [("src/base/x.c", "#include <immintrin.h>\n"), ("src/text/x.c", "x = _mm256_add_ps(a, b);\n"),
         ("src/plan/x.c", "float32x4_t v = vld1q_f32(p);\n")],
        [("src/kernels/x86/avx2/x.c", "#include <immintrin.h>\n"), ("src/base/x.c", "__builtin_cpu_supports(s);\n")]),
    "no_unsafe_functions": (
        C_FILES, find(UNSAFE, "unbounded or unchecked: {}"),
        [("src/cli/x.c", "strcpy(a, b);\n"), ("tests/unit/x.c", "strcat(a, b);\n")],
        [("src/cli/x.c", "snprintf(a, n, s); lm_strcpy(a);  /* sprintf( */\n")]),
    "numbers_are_checked": (
        C_FILES, in_src(find(NUMBERS, "overflow goes unnoticed: {}")),
        [("src/cli/x.c", 'sscanf(s, "%d", &n);\n'), ("src/cli/x.c", "n = atoi(s);\n")], [("tests/unit/x.c", 'sscanf(s, "%d", &n);\n')]),
    "decimals_in_any_locale": (
        C_FILES, in_library(not_in(("src/base/number.c",), decimals_in_any_locale)),
        [("src/arch/x.c", "x = strtod(s, NULL);\n"), ("src/plan/x.c", 'snprintf(a, f(n),\n         "%5.1f %%", x);\n')],
        [("src/plan/x.c", 'snprintf(a, n, "%d %%f", i); lm_print(a, n, "%g", x);  /* strtod( */\n'), ("src/cli/x.c", "strtod(s, NULL);\n")]),
    "one_door_to_the_heap": (
        C_FILES, in_library(not_in(("src/base/alloc.",), find(HEAP, "memory goes through base/alloc.h: {}"))),
        [("src/text/x.c", "p = malloc(3);\n"), ("src/text/x.c", "free(p);\n")],
        [("src/base/alloc.c", "p = malloc(3);\n"), ("src/text/x.c", "lm_free(p); x->free(p);\n")]),
    "server_counts_its_memory": (
        C_FILES, in_server(not_in(("src/server/models/traced.c",), find(HEAP, "memory goes through server/front/memory.h: {}"))),
        [("src/server/ask/x.c", "p = calloc(3, 4);\n")],
        [("src/server/models/traced.c", "free(p);\n"), ("src/server/ask/x.c", "lm_heap_free(p);\n"), ("src/cli/x.c", "free(p);\n")]),
    "families_in_arch_only": (
        C_FILES,                           # cards cite papers by title and name presets as examples: prose; flags of llama.cpp name models
        not_in(("src/study/explain/cards.c", "src/study/explain/cards_layers.c", "src/study/explain/cards_positions.c",
                "src/study/explain/cards_text.c", "src/cli/base/foreign.c"), no_family),
        [("src/runtime/engine/x.c", 'if (strcmp(family, "llama") == 0)\n'), ("src/plan/x.c", "if (p->is_deepseek_v2)\n"),
         ("src/program/x.c", "lm_value lm_gpt2_block(void);\n"), ("src/kernels/x.c", "LM_MIXTRAL,\n"),
         ("src/study/x.c", 'return "Qwen2";\n'), ("src/plan/x.c", "/* Mistral's window */\n"), ("src/plan/x.c", "lm_llama_step(p);\n")],
        [("src/arch/llama.c", 'strcmp(s, "llama")\n'), ("src/program/x.c", "LM_ROPE_LLAMA3: /* as llama.cpp does */ llama3(s, options);\n"),
         ("src/runtime/engine/x.c", "adopt(x); mptr++;\n")]),
    "words_not_compared": (
        C_FILES,                           # these parse what others have written about a model
        not_in(("src/study/claims/judge.c", "src/study/claims/claim.c", "src/study/audit/"), words_not_compared),
        [("src/study/views/x.c", 'if (strcmp(lm_facts_text(f, "rope.scaling"), "none") == 0)\n'),
         ("src/study/x.c", 'strstr(name,\n    "MLA")\n'), ("src/study/x.c", 'strcmp(value, "–")\n'), ("src/study/x.c", 'strcmp(x->text, "yes")\n')],
        [("src/study/x.c", 'strcmp(x->id, "none"); strcmp(m->class_name, "Conv1D"); strcmp(a->text, b->text); strstr(path, "[4096]"); strstr(p, " → ");\n'),
         ("src/text/x.c", 'strcmp(s, "YAML")\n')]),
    "no_names_in_strings": (
        C_FILES, in_src(names_in_strings),
        [("src/program/x.c", 'need(b, ok, "sines lm_record_need an even width");\n'), ("src/text/x.c", '/* " */ say("LM_OK", 1);\n')],
        [("src/arch/x.c", 'lm_linear(b, "lm_head", x); find("lm_head.weight", "film_x");  /* "lm_linear" */\n'),
         ("tests/unit/x.c", 'puts("lm_x");\n')]),
    "library_names_no_flags": (
        C_FILES, in_src(library_names_no_flags),
        [("src/runtime/x.c", 'lm_fail_hint(e, "--no-repack runs from the file");\n'), ("src/arch/x.c", 's = "lamina presets lists them";\n'),
         ("src/export/x.c", 'lm_fail_hint(e, "scripts/setup demo fetches it");\n')],
        [("src/runtime/x.c", 'lm_fail_hint(e, "`no_repack` runs from the file -- or not");  /* --no-repack */\n'),
         ("src/cli/x.c", 'puts("--force replaces it");\n'), ("src/export/x.c", 's = "made by lamina synth, a family that lamina knows";\n')]),
    "heads": (
        C_FILES, heads,
        [("src/a/x.c", '#include "a/x.h"\n'), ("src/a/x.h", "/* y.h - what. */\n")], [("src/a/x.c", "/* GET /: the page. */\n"), ("include/lamina/x.h", "/* x.h - what. */\n")]),
    "page": (
        C_FILES + (".py", ".build", ".md", ".txt", "Makefile"), page,
        [("src/x.c", "int x; \n"), ("src/x.c", "\tint x;\n"), ("src/x.c", "int x;"), ("src/x.c", "/" * 141 + "\n"),
         ("src/x.c", "    f(a, another(b,\n" + " " * 61 + "c));\n")],
        [("src/x.c", "int x;\n"), ("src/x.c", " " * 60 + "c));\n" + " " * 90 + "\\\n"), ("src/x.c", "    { " + "1, " * 50 + "},\n"), ("Makefile", "\tcc\n")]),
    "plain_words": (
        (".md",), plain_words,
        [("docs/x.md", "a model that nobody wants\n"), ("README.md", "What is told is told once.\n"), ("docs/x.md", "the text gives pages back\n"),
         ("docs/guide/x.md", "Such a file is refused.\n")],
        [("docs/x.md", "```\nnobody\n```\n    told\nis `told`\n"), ("docs/library/c-interface.md", "told\n")]),
    "no_private_places": (
        C_FILES + (".py", ".build", ".md", ".txt", ".sh", "Makefile", "setup", "run"),
        not_in(("tests/lint/rules.py",), places),
        [("docs/x.md", "see /home/jo/lamina\n"), ("scripts/setup", "curl https://registry.npmjs.org/x\n")],
        [("docs/x.md", "in $HOME/.cache and /usr/local/lib, src/work/x\n")]),
}


def unique_names(files):
    """File names of sources and headers are unique within each of include/, src/ and tests/."""
    seen = {}
    for path in files:
        if path.endswith(C_FILES) and path.startswith(("src/", "include/", "tests/")):
            key = path.split("/")[0], path.split("/")[-1]
            if key in seen:
                yield path, 1, f"the name is taken by {seen[key]}"
            seen[key] = path


def statuses_documented(header, exits, page):
    """docs/library/errors.md lists LM_STATUS_LIST with the exit statuses of the program: the same error codes and numbers in the same order."""
    numbers = dict(re.findall(r"\[(LM_\w+)\] = (\d+)", exits))
    code = [(word, name, numbers.get(name)) for name, word in re.findall(r'X\((LM_\w+),\s*"(\w+)"\)', header)]
    text = re.findall(r"^\| `(\w+)` \| `(LM_\w+)` \| (\d+) \|", page, re.M)
    if not code or code != text:
        yield "docs/library/errors.md", 1, f"not LM_STATUS_LIST: {sorted(set(code) ^ set(text)) or 'another order'}"


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


def paths_exist(files, pages):
    """Each path of this tree in a document exists, or a patch of tests/changes creates it. `NAME` and `<family>` stand for any name."""
    folders = {"/".join(f.split("/")[:n]) for f in files for n in range(1, f.count("/") + 1)}
    made = {f for p in (ROOT / "tests/changes").glob("*.patch") for f in re.findall(r"^\+\+\+ b/(.*)$", p.read_text(), re.M)}
    known = set(files) | folders | made
    for page, text in pages:
        for number, line in enumerate(text.split("\n"), 1):
            for path in re.findall(r"(?<![\w/.])(?:src|tests|docs|scripts|tools|examples|include)/[\w./<>*-]*[\w>*/]", line):
                pattern = re.compile(re.sub(r"NAME|<\w+>|\\\*", "[^/]+", re.escape(path.rstrip("/"))) + "$")
                if not any(map(pattern.match, known)):
                    yield page, number, f"{path} is not there"


def tests_listed(files, builds):
    """Each tests/…/test_NAME.py is named in the meson.build of its folder, so that it runs."""
    for path in files:
        m = re.fullmatch(r"(tests/.+)/test_(\w+)\.py", path)
        if m and not any(f"'{m[2]}'" in builds.get(folder + "/meson.build", "") for folder in (m[1], m[1].rpartition("/")[0])):
            yield path, 1, f"no meson.build of {m[1]} names it: it never runs"


# The name of a type, an enumerator or a macro at its definition.
DEFINED = re.compile(r"\b(?:struct|union|enum)\s+(lm_\w+)\s*\{|\}\s*(lm_\w+)\s*;|^typedef\s+(?!struct|union|enum)[^;{(]*?\b(lm_\w+)\s*;"
                     r"|^typedef\s+[^;{]*\(\*\s*(lm_\w+)\)|^#\s*define\s+(LM_\w+)", re.M)
ENUM = re.compile(r"\benum\s*(?:lm_\w+\s*)?\{([^}]*)\}")


def one_meaning(sources):
    """No lm_ type, enumerator or macro is defined in two files, where C would not report it. Kernels of an instruction set have parameters
    of their own under one name."""
    seen = {}
    for path, text in sources:
        text = strip(text)
        names = {name for m in DEFINED.finditer(text) for name in m.groups() if name}
        names |= {name for m in ENUM.finditer(text) for name in re.findall(r"(?:^|,)\s*(LM_\w+)", m[1])}
        for name in sorted(names):
            if seen.setdefault(name, path) != path and not path.startswith("src/kernels/"):
                yield path, 1, f"{name} is defined in {seen[name]} too: give each meaning a name of its own"


MAX_FILES = 40                          # of a folder of src/ or tests/: more files are rooms of their own
CROWDED = re.compile(r"src/arch|tests/golden/|tests/bad|tests/fuzz/corpus/")     # a file a family; data


def folder_sizes(files):
    """No folder of src/ or tests/ has more than MAX_FILES files."""
    count = collections.Counter(f.rpartition("/")[0] for f in files if f.startswith(("src/", "tests/")))
    for folder, n in sorted(count.items()):
        if n > MAX_FILES and not CROWDED.match(folder + "/"):
            yield folder, 1, f"{n} files; {MAX_FILES} are the limit: make rooms in it"


SUBJECTS_SINCE = "9a8eed57"              # later commits have a subject as CONTRIBUTING describes it
NO_VERB = re.compile(r"\w+(?:ed|ing|(?<![su])s)$|(?:the|a|an|no|one|two|what|who|where|it|all|each|some)$", re.I)


def subjects(log):
    """Each subject of a commit is `area: imperative verb …`, at most 72 characters. `log`: one hash and subject per line."""
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        m = re.match(r"[\w/., -]+: (\w+)", subject)
        if len(subject) > 72:
            yield commit, f"the subject has {len(subject)} characters; 72 are the limit"
        if not m or m[1][0].isupper() or NO_VERB.match(m[1]):
            yield commit, f"the subject is not `area: imperative verb …`: {subject}"


MAX_DECISIONS = 20                      # per function: cyclomatic complexity, a switch counting as one decision


def complexity(table):
    """No function has more decisions than MAX_DECISIONS. `table`: the output of pmccabe, one line per function."""
    for line in table.splitlines():
        decisions, _, _, start, _, where = line.split(None, 5)
        path, name = re.match(r"(\S+?)\(\d+\): (.+)", where).groups()
        if int(decisions) > MAX_DECISIONS:
            yield path, int(start), f"{name} has {decisions} decisions; {MAX_DECISIONS} are the limit: split it"


TREE = ["subjects", "complexity", "tests_listed", "folder_sizes", "one_meaning", "unique_names", "statuses_documented", "rooms_documented", "inner_rooms_documented", "paths_exist",
        "comments_name_code"]               # rules that read more than one file


def check_examples():
    for name, (_, rule, bad, good) in RULES.items():
        for path, text in bad:
            if not list(rule(path, text)):
                yield f"tests/lint/rules.py: {name} does not see {text!r} in {path}"
        for path, text in good:
            for _, message in rule(path, text):
                yield f"tests/lint/rules.py: {name} reports {text!r} in {path}: {message}"
    if list(subjects("1 api: describe the engine\n2 x/y, z: pass names\n")) or len(list(subjects(
            "1 api: engines described\n2 server: one word\n3 api: describe " + 9 * "the engine ".strip() + "\n4 no area\n"))) != 4:
        yield "tests/lint/rules.py: subjects does not tell subjects apart"
    row = "{}\t9\t30\t12\t40\tsrc/a.c({}): f\n"
    if list(complexity(row.format(MAX_DECISIONS, 12))) or len(list(complexity(row.format(MAX_DECISIONS + 1, 12)))) != 1:
        yield "tests/lint/rules.py: complexity does not tell functions apart"
    if not list(unique_names(["src/a/x.c", "src/b/x.c"])) or list(unique_names(["src/a/x.c", "include/x.h"])):
        yield "tests/lint/rules.py: unique_names does not tell files apart"
    builds = {"tests/e/meson.build": "'a'"}
    if list(tests_listed(["tests/e/test_a.py", "tests/e/b.py"], builds)) or not list(tests_listed(["tests/e/test_b.py"], builds)):
        yield "tests/lint/rules.py: tests_listed does not tell tests apart"
    twice = [("src/a.h", "typedef struct lm_a { int x; } lm_a;\nenum { LM_X, LM_Y = 2 };\n#define LM_M 1\n"),
             ("src/b.h", "struct lm_b { lm_a *a; };\nenum { MINE = LM_X };\n")]
    if list(one_meaning(twice)) or len(list(one_meaning([*twice, ("src/c.h", "typedef int lm_a;\nenum { LM_Y };\n#define LM_M 2\nunion lm_b { int y; };\n")]))) != 4:
        yield "tests/lint/rules.py: one_meaning does not tell names apart"
    many = [f"src/a/{n}.c" for n in range(MAX_FILES + 1)]
    if list(folder_sizes(many[1:])) or not list(folder_sizes(many)) or list(folder_sizes([f"src/arch/{n}.c" for n in range(99)])):
        yield "tests/lint/rules.py: folder_sizes does not tell folders apart"
    if list(paths_exist(["src/a/x.c"], [("p", "see `src/a/`, src/NAME/x.c.")])) or not list(
            paths_exist(["src/a/x.c"], [("p", "see `src/b/`")])):
        yield "tests/lint/rules.py: paths_exist does not tell paths apart"
    known = [("src/a.h", "int lm_x(void); enum { LM_A_B }; /* lm_x, LM_A_* and the lm_head: lm_x's, lm_… */"), ("src/a.c", 's = "lm_gone";')]
    if list(comments_name_code(known)) or len(list(comments_name_code(known + [("src/b.c", "/* lm_gone,\nLM_B_* */ // lm_x_y")]))) != 3:
        yield "tests/lint/rules.py: comments_name_code does not tell names apart"
    table = "".join(f"| {level} | `src/{name}/` | x |\n" for name, level in LEVELS.items())
    if list(rooms_documented(LEVELS, table)) or len(list(rooms_documented(["base", "no"], table))) != len(LEVELS):
        yield "tests/lint/rules.py: rooms_documented does not tell tables apart"
    inner = {f"{outer}/{name}": level for outer, levels in ROOMS.items() for name, level in levels.items() if name}
    table = "".join(f"| {level} | `src/{name}/` | x |\n" for name, level in inner.items())
    if list(inner_rooms_documented(inner, table)) or not list(inner_rooms_documented(inner, table.replace("| 1 |", "| 2 |"))) or not list(
            inner_rooms_documented([*inner, "runtime/no"], table)):
        yield "tests/lint/rules.py: inner_rooms_documented does not tell tables apart"
    if list(statuses_documented('X(LM_A, "a")', "[LM_A] = 1", "| `a` | `LM_A` | 1 | x |")) or not list(
            statuses_documented('X(LM_A, "a")', "[LM_A] = 1", "| `a` | `LM_A` | 2 | x |")):
        yield "tests/lint/rules.py: statuses_documented does not tell tables apart"


def main():
    wanted = sys.argv[1:] or [*RULES, *TREE]
    findings = list(check_examples())
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        files = sorted(set(listed.stdout.splitlines()))
    else:                                   # a source archive: no git, or not its own repository
        files = [str(p.relative_to(ROOT)) for p in sorted(ROOT.rglob("*")) if p.is_file()]
        files = [p for p in files if not p.startswith("build/")]
    read = 0
    for path in files:
        if not (ROOT / path).is_file() or path.startswith(("tests/golden/", "tests/bad/", "tests/fuzz/corpus/")) and not path.endswith((".py", ".c")):
            continue
        rules = [(n, RULES[n][1]) for n in wanted if n in RULES and path.endswith(RULES[n][0])]
        if not rules:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        read += 1
        for name, rule in rules:
            findings += [f"{path}:{line}: {message} [{name}]" for line, message in rule(path, text)]
    if "unique_names" in wanted and files:
        findings += [f"{path}:{line}: {message} [unique_names]" for path, line, message in unique_names(files)]
    if "subjects" in wanted:                # a source archive or a shallow clone has no such commits
        log = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", f"{SUBJECTS_SINCE}.."], cwd=ROOT, capture_output=True, text=True)
        findings += [f"commit {commit}: {message} [subjects]" for commit, message in subjects(log.stdout)]
    if "complexity" in wanted:
        sources = [p for p in files if p.startswith("src/") and p.endswith(".c") and (ROOT / p).is_file()]
        table = subprocess.run(["pmccabe", *sources], cwd=ROOT, capture_output=True, text=True)
        findings += [f"{path}:{line}: {message} [complexity]" for path, line, message in complexity(table.stdout)]
    if "tests_listed" in wanted:
        builds = {p: (ROOT / p).read_text(encoding="utf-8") for p in files if p.endswith("meson.build")}
        findings += [f"{path}:{line}: {message} [tests_listed]" for path, line, message in tests_listed(files, builds)]
    if "folder_sizes" in wanted:
        there = [p for p in files if (ROOT / p).exists()]
        findings += [f"{path}:{line}: {message} [folder_sizes]" for path, line, message in folder_sizes(there)]
    if "statuses_documented" in wanted:
        texts = [(ROOT / p).read_text(encoding="utf-8") for p in ("include/lamina/error.h", "src/cli/main.c", "docs/library/errors.md")]
        findings += [f"{path}:{line}: {message} [statuses_documented]" for path, line, message in statuses_documented(*texts)]
    if "rooms_documented" in wanted:
        page_ = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")
        findings += [f"{path}:{line}: {message} [rooms_documented]"
                     for path, line, message in rooms_documented({room(p) for p in files} - {None}, page_)]
    if "inner_rooms_documented" in wanted:
        page_ = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")
        inner = {"/".join(p.split("/")[1:3]) for p in files if p.startswith("src/") and p.count("/") > 2}
        findings += [f"{path}:{line}: {message} [inner_rooms_documented]" for path, line, message in inner_rooms_documented(inner, page_)]
    if "paths_exist" in wanted:
        pages = [(p, (ROOT / p).read_text(encoding="utf-8")) for p in files if p.endswith(".md")]
        findings += [f"{path}:{line}: {message} [paths_exist]" for path, line, message in paths_exist(files, pages)]
    if "one_meaning" in wanted:
        sources = [(p, (ROOT / p).read_text(encoding="utf-8")) for p in files if p.startswith(("src/", "include/")) and p.endswith(C_FILES)
                   and (ROOT / p).is_file()]
        findings += [f"{path}:{line}: {message} [one_meaning]" for path, line, message in one_meaning(sources)]
    if "comments_name_code" in wanted:
        sources = [(p, (ROOT / p).read_text(encoding="utf-8")) for p in files if p.startswith(("src/", "include/")) and p.endswith(C_FILES)
                   and (ROOT / p).is_file()]
        findings += [f"{path}:{line}: {message} [comments_name_code]" for path, line, message in comments_name_code(sources)]
    if not read and not set(TREE) & set(wanted):
        findings.append("tests/lint/rules.py: found no file to read")
    print("\n".join(findings))
    print(f"lint: {len(wanted)} rules, {read} files, {len(findings)} findings")
    return 1 if findings else 0


sys.exit(main())
