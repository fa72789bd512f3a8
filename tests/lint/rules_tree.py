"""Rules about the tree and its history: files, tests, documents and commits that must agree."""
import re

from rules_source import C_FILES, ROOT

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


SUBJECTS_SINCE = "9a8eed57"              # later commits have a subject as CONTRIBUTING describes it
NO_VERB = re.compile(r"\w+(?:ed|ing|(?<![su])s)$|(?:the|a|an|no|one|two|what|who|where|it|all|each|some)$", re.I)


def subjects(log):
    """Each subject of a commit is `area: imperative verb …`, at most 72 characters. `log`: one hash and subject per line."""
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        m = re.match(r"[\w/., -]+: (\w+)", subject)
        if len(subject) > 72:
            yield f"commit {commit}", f"the subject has {len(subject)} characters; 72 are the limit"
        if not m or m[1][0].isupper() or NO_VERB.match(m[1]):
            yield f"commit {commit}", f"the subject is not `area: imperative verb …`: {subject}"


BODIES_SINCE = "34e0d7c8"                # later commits say why
REASONED = re.compile(r"[^\n]+\n\n(?:[\w-]+-by:[^\n]*\n|\s)*(?![\w-]+-by:)\S")


def bodies(log):
    """Each commit says why: below its subject, a blank line, and at least one line that is no signature. `log`: commits that end in a NUL,
    each a hash, a blank and the message."""
    for record in filter(str.strip, log.split("\0")):
        commit, _, message = record.strip().partition(" ")
        if not REASONED.match(message):
            yield f"commit {commit}", "the message ends with the subject: add a blank line, and a line that says why"


def examples():
    """Yield what is wrong with the rules of TREE below, found by examples."""
    if list(subjects("1 api: describe the engine\n2 x/y, z: pass names\n")) or len(list(subjects(
            "1 api: engines described\n2 server: one word\n3 api: describe " + 9 * "the engine ".strip() + "\n4 no area\n"))) != 4:
        yield "subjects does not tell subjects apart"
    if list(bodies("1 a: say x\n\nFor y.\n\0\n2 a: say x\n\nFor y.\nAnd z.\n\0\n")) or len(list(bodies(
            "1 a: say x\n\0\n2 a: say x\nFor y.\n\0\n3 a: say x\n\n\0\n4 a: say x\n\nSigned-off-by: y\n\0\n"))) != 4:
        yield "bodies does not tell messages apart"
    if not list(unique_names(["src/a/x.c", "src/b/x.c"])) or list(unique_names(["src/a/x.c", "include/x.h"])):
        yield "unique_names does not tell files apart"
    builds = {"tests/e/meson.build": "'a'"}
    if list(tests_listed(["tests/e/test_a.py", "tests/e/b.py"], builds)) or not list(tests_listed(["tests/e/test_b.py"], builds)):
        yield "tests_listed does not tell tests apart"
    if list(paths_exist(["src/a/x.c"], [("p", "see `src/a/`, src/NAME/x.c.")])) or not list(
            paths_exist(["src/a/x.c"], [("p", "see `src/b/`")])):
        yield "paths_exist does not tell paths apart"
    if list(statuses_documented('X(LM_A, "a")', "[LM_A] = 1", "| `a` | `LM_A` | 1 | x |")) or not list(
            statuses_documented('X(LM_A, "a")', "[LM_A] = 1", "| `a` | `LM_A` | 2 | x |")):
        yield "statuses_documented does not tell tables apart"


TREE = {
    "subjects": lambda tree: subjects(tree.run("git", "log", "--no-merges", "--format=%h %s", f"{SUBJECTS_SINCE}..")),
    "bodies": lambda tree: bodies(tree.run("git", "log", "--no-merges", "--format=%h %B%x00", f"{BODIES_SINCE}..")),
    "tests_listed": lambda tree: tests_listed(tree.files, {p: tree.text(p) for p in tree.files if p.endswith("meson.build")}),
    "unique_names": lambda tree: unique_names(tree.files),
    "statuses_documented": lambda tree: statuses_documented(*map(tree.text, ("include/lamina/error.h", "src/cli/main.c", "docs/library/errors.md"))),
    "paths_exist": lambda tree: paths_exist(tree.files, [(p, tree.text(p)) for p in tree.files if p.endswith(".md")]),
}
