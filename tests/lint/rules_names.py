"""Rules about names and words in code, strings and documents."""
import re

from rules_source import C_FILES, LITERAL, ROOT, in_src, not_in, strip

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
# spelling of bytes, keys of a keyboard, the demo model, a preset; the mixers that several families share.
NOT_A_FAMILY = re.compile(r"(?i)LM_ROPE_LLAMA3|llama3|(?:is_)?ik_llama\w*|llama[.-]\w+|llama_(?:ftype|tensor_get_type)|\"gpt-?2\"|Ctrl-\w|SmolLM2-135M-Instruct|\"[a-z][\w.-]*-\d[\d.]*[bm]\"|(?:->|add_|lm_)mamba(?:_keys)?|Mamba-2|Mamba Codestral")


def families():
    """Return two patterns of all names that files of src/arch/ accept as model_type or general.architecture: as parts of a line in small
    letters, which is eight times as fast and excludes most lines, and as words."""
    names = set()
    for path in sorted((ROOT / "src/arch").glob("*.c")):
        for listed in re.findall(r"\.(?:hf_types|gguf_archs|name)\s*=\s*(?:\([^)]*\))?\s*([^;]*?),\n", path.read_text(encoding="utf-8")):
            names |= set(re.findall(r'"([\w-]+)"', listed))
    words = "|".join(sorted({re.sub(r"[-_]", "[-_]?", n) for n in names}, key=len, reverse=True))
    return re.compile(words.lower()), re.compile(rf"(?i)(?<![a-z])(?:{words})(?![a-z])")


def no_family(path, text, patterns=[]):
    if not path.startswith("src/") or path.startswith(NAMED_BY_RIGHT):
        return
    patterns or patterns.extend(families())
    part, word = patterns
    for number, line in enumerate(text.split("\n"), 1):
        m = part.search(line.lower()) and word.search(NOT_A_FAMILY.sub(" ", line))
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
NAME_OF_OURS = re.compile(r"(?<!\w)(?!lm_head(?:_multiplier|_bias)?\b)(?:lm|LM)_\w+")


def comments_name_code(sources):
    """Each name lm_… or LM_… in a comment of src/ or include/ exists in their code; `lm_add_*` is the beginning of a name."""
    code = {name for _, text in sources for name in NAME_OF_OURS.findall(strip(text))}
    for path, text in sources:
        for comment in LITERAL.finditer(text):
            for m in NAME_OF_OURS.finditer(comment.group(0)) if comment.group(0)[0] == "/" else ():
                name, begins = m.group(0), comment.group(0)[m.end():m.end() + 1] in ("*", "…", "<")
                if name not in code and not (begins and any(n.startswith(name) for n in code)):
                    yield path, text.count("\n", 0, comment.start() + m.start()) + 1, f"a comment names {name}, which is not there"


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
                yield number, f"“{m.group()}”: see AVOIDED in tests/lint/rules_names.py for the plain form"


RULES = {
    # name: (files it reads, rule, [(path, bad text)], [(path, good text)])
    "families_in_arch_only": (
        C_FILES,                           # cards cite papers by title and name presets as examples: prose; flags of llama.cpp name models
        not_in(("src/study/explain/cards.c", "src/study/explain/cards_layers.c", "src/study/explain/cards_positions.c",
                "src/study/explain/cards_running.c", "src/study/explain/cards_states.c",
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
    "plain_words": (
        (".md",), plain_words,
        [("docs/x.md", "a model that nobody wants\n"), ("README.md", "What is told is told once.\n"), ("docs/x.md", "the text gives pages back\n"),
         ("docs/guide/x.md", "Such a file is refused.\n")],
        [("docs/x.md", "```\nnobody\n```\n    told\nis `told`\n"), ("docs/library/c-interface.md", "told\n")]),
    "no_private_places": (
        C_FILES + (".py", ".build", ".md", ".txt", ".sh", "Makefile", "setup", "run"),
        not_in(("tests/lint/rules_names.py",), places),
        [("docs/x.md", "see /home/jo/lamina\n"), ("scripts/setup", "curl https://registry.npmjs.org/x\n")],
        [("docs/x.md", "in $HOME/.cache and /usr/local/lib, src/work/x\n")]),
}


def examples():
    """Yield what is wrong with the rules of TREE below, found by examples."""
    twice = [("src/a.h", "typedef struct lm_a { int x; } lm_a;\nenum { LM_X, LM_Y = 2 };\n#define LM_M 1\n"),
             ("src/b.h", "struct lm_b { lm_a *a; };\nenum { MINE = LM_X };\n")]
    if list(one_meaning(twice)) or len(list(one_meaning([*twice, ("src/c.h", "typedef int lm_a;\nenum { LM_Y };\n#define LM_M 2\nunion lm_b { int y; };\n")]))) != 4:
        yield "one_meaning does not tell names apart"
    known = [("src/a.h", "int lm_x(void); enum { LM_A_B }; /* lm_x, LM_A_* and the lm_head: lm_x's, lm_… */"), ("src/a.c", 's = "lm_gone";')]
    if list(comments_name_code(known)) or len(list(comments_name_code(known + [("src/b.c", "/* lm_gone,\nLM_B_* */ // lm_x_y")]))) != 3:
        yield "comments_name_code does not tell names apart"


TREE = {
    "one_meaning": lambda tree: one_meaning(tree.sources()),
    "comments_name_code": lambda tree: comments_name_code(tree.sources()),
}
