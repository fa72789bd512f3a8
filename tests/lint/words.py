#!/usr/bin/env python3
"""Count words to avoid, find sentences that were replaced, and names of private words: words.py [TREE]

Three kinds of text are read: pages (prose of Markdown), headers (comments of include/) and messages (strings of src/ that contain a phrase:
errors, hints, help, descriptions of fields). AVOID maps words to their plain forms; counts are not findings, as some uses are right.
tests/lint/replaced.tsv lists sentences that readers could not follow, with their replacements: none of them may be in these texts or in a
comment of src/, word for word or as any run of seven words that the new sentence lacks. PRIVATE maps words that no name in src, include,
bench and examples may have, split at _ and between cases, to the field's terms. The exit status is 1 if such a sentence or name is found.
Run by `make lint`.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve()
RUN = 7
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
AVOID = {
    r"texts?": "request, sequence, prompt, output", r"guess(?:es|ed|ing)?": "draft token", r"let in": "admit", r"gives? (?:its |their )?pages back": "is preempted",
    r"shared? beginnings?": "shared prefix", r"told|tells|says|said": "returned, shows", r"stands?(?: in| beside| behind| before| there| apart)": "is in",
    r"figures": "numbers, results", r"beside": "compared with", r"in (?:the|its|their|\w+'s) words": "X-compatible", r"kept": "enforced, stored",
    r"refus(?:e|es|ed|al|als)": "rejected", r"that (?:is|are) there(?: already)?": "existing", r"is no [a-zA-Z]\w*": "is not a", r"(?:most|least) tokens": "maximum, minimum",
    r"for each": "per", r"as ever": "unchanged", r"go(?:es)? on": "continues", r"but for": "except", r"of (?:its|their|our) own": "own, separate",
    r"circles?": "cycle", r"rooms?": "module, page", r"by (?:it|them)sel(?:f|ves)": "independently", r"asks? for|asked for": "requests", r"calls? of tools": "tool calls",
    r"in turn": "alternately", r"in fewer bits": "quantised", r"nobody|somebody|whoever": "the role", r"(?<![,.] )(?:for|to|of) who": "the role",
    r"knows?": "supports", r"myths?|lore": "statement", r"visits?": "pass",
}
# Words that names in C had, and the field's terms that replaced them.
PRIVATE = {
    "most": "max", "foresee": "predict", "vocable": "lexeme", "vocables": "lexemes", "excuse": "neutralise", "stranger": "unknown", "strangers": "unknown",
    "hasnt": "lacks", "lives": "live_ranges", "weave": "place, interleave", "departures": "overrides", "hope": "optimism", "fade": "decay",
}
NAME = re.compile(r"[A-Za-z_]\w*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
COUNTED = [(re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I), pattern, plain) for pattern, plain in AVOID.items()]


def prose(text):
    """Return a page without code blocks, code in back quotes and addresses."""
    text = re.sub(r"^```.*?^```$", " ", text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)|^ {4}.*$", " ", text, flags=re.M)


def comments(text):
    return " ".join(re.sub(r"^[ \t]*[/*]+|[*]/$", " ", m, flags=re.M) for m in LITERAL.findall(text) if m[0] == "/")


def strings(text):
    return " ".join(m[1:-1].replace("\\n", " ") for m in LITERAL.findall(text) if m[0] == '"' and m.count(" ") > 1)


def read(root, places, ends, part):
    """Return {path: the part of the file that people read}."""
    found = {}
    for place in places:
        for path in [root / place] if (root / place).is_file() else sorted((root / place).rglob("*")):
            if path.is_file() and path.suffix in ends:
                found[path.relative_to(root)] = part(path.read_text(encoding="utf-8"))
    return found


def words_of(text):
    return re.findall(r"[a-z0-9_./-]*[a-z0-9]", text.lower())


def runs(sentence):
    """Yield the runs of RUN words of each part of a sentence. `…` separates parts; a shorter part is one run."""
    for part in sentence.split("…"):
        words = words_of(part)
        for at in range(max(1, len(words) - RUN + 1)):
            if len(words) > 2:
                yield " " + " ".join(words[at:at + RUN]) + " "


def private_names(text):
    """Yield the names in C source that have a word of PRIVATE."""
    for name in sorted(set(NAME.findall(LITERAL.sub(" ", text)))):
        if found := PRIVATE.keys() & {part.lower() for part in PART.findall(name)}:
            yield name, " ".join(sorted(found))


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2]
    kinds = {"pages": read(root, ["README.md", "CONTRIBUTING.md", "docs"], {".md"}, prose),
             "headers": read(root, ["include"], {".h"}, comments),
             "messages": read(root, ["src"], {".c", ".h"}, strings)}
    print(f"{'':44}{'pages':>9}{'headers':>9}{'messages':>9}")
    total = dict.fromkeys(kinds, 0)
    for pattern, name, plain in COUNTED:
        counts = {kind: sum(len(pattern.findall(text)) for text in files.values()) for kind, files in kinds.items()}
        total = {kind: total[kind] + counts[kind] for kind in kinds}
        name = re.sub(r"\(\?(?::|<[=!][^)]*\))", "(", name)
        print(f"{name[:43]:44}{counts['pages']:9}{counts['headers']:9}{counts['messages']:9}   {plain}")
    print(f"{'all':44}{total['pages']:9}{total['headers']:9}{total['messages']:9}")
    thousands = {kind: max(1, sum(len(words_of(text)) for text in files.values())) / 1000 for kind, files in kinds.items()}
    print(f"{'per thousand words':44}" + "".join(f"{total[kind] / thousands[kind]:9.1f}" for kind in kinds))
    everything = {path: " " + " ".join(words_of(text)) + " " for files in kinds.values() for path, text in files.items()}
    everything |= {f"{path} (comments)": " " + " ".join(words_of(text)) + " " for path, text in read(root, ["src"], {".c", ".h"}, comments).items()}
    together = "|".join(everything.values())
    rows = [line.split("\t") for line in (HERE.parent / "replaced.tsv").read_text(encoding="utf-8").splitlines()]
    left = 0
    for old, new in rows:
        known = " " + " ".join(words_of(new)) + " "
        where = [(path, run.strip()) for run in runs(old) if run not in known and run in together for path, text in everything.items() if run in text]
        left += bool(where)
        for path, run in where[:1]:
            print(f"{path}: “{run}”, of a sentence that was replaced: {new}")
    print(f"{left} of {len(rows)} replaced sentences are left")
    assert [n for n, _ in private_names("int max_MOST, foresee2, nMost, almost, mostly; /* most */ s = \"most\";")] == ["foresee2", "max_MOST", "nMost"]
    sources = read(root, ["src", "include", "bench", "examples"], {".c", ".h"}, lambda text: text)
    names = [(path, *found) for path, text in sources.items() for found in private_names(text)]
    for path, name, word in names:
        print(f"{path}: {name}: {word} is a private word; the field says {', '.join(PRIVATE[w] for w in word.split())}")
    print(f"{len(names)} names have private words")
    return 1 if left or names else 0


sys.exit(main())
