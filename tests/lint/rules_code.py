"""Rules about C code: what it calls, and how a page of it is laid out."""
import re

from rules_source import C_FILES, ROOT, find, in_library, in_server, in_src, not_in, outside_kernels, strip

PRINT = r"(?<![\w.>])(?:printf|vprintf|puts|putchar|perror|psignal)\s*\(|\b(?:stdout|stderr)\b"
END = r"(?<![\w.>])(?:exit|_exit|_Exit|quick_exit|abort|raise|assert_perror|err|errx|verr|verrx)\s*\("
SIMD = (r"[<\"](?:\w*intrin|arm_neon|arm_sve|arm_acle)\.h[>\"]|\b_mm\d*_\w+|\b__m(?:128|256|512)[id]?\b"
        r"|\bv(?:ld|st|dot|mla|fma|add|mul)\w*q_[fsu]\d+\b|\b__builtin_ia32_(?!pause)\w+")
UNSAFE = (r"(?<![\w.>])(?:strcpy|stpcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|mktemp|tmpnam"
          r"|strncpy|strncat)\s*\(")
NUMBERS = r"(?<![\w.>])(?:v?[fs]?scanf|ato[ilf]|atoll)\s*\("      # sufficient for the tables of a test
HEAP = (r"(?<![\w.>])(?:malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|posix_memalign"
        r"|aligned_alloc)\s*\(")

WIDTH = {".c": 110, ".h": 110}
FARTHEST = 60                        # blanks before a continued line, as in format.py
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


# A cast through an integer, which hides from the compiler that it takes a const away.
CAST = re.compile(r"\*\s*\)\s*\(uintptr_t\)")


def casts_have_reasons(path, text):
    """A pointer made by way of uintptr_t has a comment on its line or the line before that says why it is right."""
    lines, code = text.split("\n"), strip(text).split("\n")
    for number, line in enumerate(code, 1):
        near = "".join(lines[max(0, number - 2):number])
        if CAST.search(line) and not re.search(r"/\*|\*/|//", near):
            yield number, "a cast by way of uintptr_t without a reason: change the type, or say in a comment why it is right"


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


MAX_DECISIONS = 20                      # per function: cyclomatic complexity, a switch counting as one decision


def complexity(table):
    """No function has more decisions than MAX_DECISIONS. `table`: the output of pmccabe, one line per function."""
    for line in table.splitlines():
        decisions, _, _, start, _, where = line.split(None, 5)
        path, name = re.match(r"(\S+?)\(\d+\): (.+)", where).groups()
        if int(decisions) > MAX_DECISIONS:
            yield path, int(start), f"{name} has {decisions} decisions; {MAX_DECISIONS} are the limit: split it"


RULES = {
    # name: (files it reads, rule, [(path, bad text)], [(path, good text)])
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
    "casts_have_reasons": (
        C_FILES, casts_have_reasons,
        [("src/x.c", "/* x */\n\n    free((void *)(uintptr_t)p);\n"), ("tests/x.c", "a = (json_t*) (uintptr_t)b;\n")],
        [("src/x.c", "    free((void *)(uintptr_t)p);    /* ours */\n"), ("src/x.c", "/* only\n * read */\nf((void *)(uintptr_t)p);\nn = (uintptr_t)p % 64;\n")]),
    "heads": (
        C_FILES, heads,
        [("src/a/x.c", '#include "a/x.h"\n'), ("src/a/x.h", "/* y.h - what. */\n")], [("src/a/x.c", "/* GET /: the page. */\n"), ("include/lamina/x.h", "/* x.h - what. */\n")]),
    "page": (
        C_FILES + (".py", ".build", ".md", ".txt", "Makefile"), page,
        [("src/x.c", "int x; \n"), ("src/x.c", "\tint x;\n"), ("src/x.c", "int x;"), ("src/x.c", "/" * 141 + "\n"),
         ("src/x.c", "    f(a, another(b,\n" + " " * 61 + "c));\n")],
        [("src/x.c", "int x;\n"), ("src/x.c", " " * 60 + "c));\n" + " " * 90 + "\\\n"), ("src/x.c", "    { " + "1, " * 50 + "},\n"), ("Makefile", "\tcc\n")]),
}


def examples():
    """Yield what is wrong with the rules of TREE below, found by examples."""
    row = "{}\t9\t30\t12\t40\tsrc/a.c({}): f\n"
    if list(complexity(row.format(MAX_DECISIONS, 12))) or len(list(complexity(row.format(MAX_DECISIONS + 1, 12)))) != 1:
        yield "complexity does not tell functions apart"


TREE = {
    "complexity": lambda tree: complexity(tree.run("pmccabe", *[p for p in tree.files if p.startswith("src/") and p.endswith(".c") and (ROOT / p).is_file()])),
}
