#!/usr/bin/env python3
"""Check the project's rules that a program can check. Run by `make lint` and as a test.

Each rule has examples that it must report and examples that it must accept; they are checked before the tree is
read, so a rule that no longer works fails too. `rules.py RULE…` runs only those rules. The rules are in rules_*.py by kind: RULES read
one file each, as (path, text), and yield (line, message); TREE read more than one file, and yield (path, line, message) or (commit, message).
"""
import subprocess
import sys

sys.dont_write_bytecode = True
import rules_code
import rules_modules
import rules_names
import rules_tree
from rules_source import C_FILES, ROOT

KINDS = (rules_modules, rules_code, rules_names, rules_tree)
RULES = {name: rule for kind in KINDS for name, rule in getattr(kind, "RULES", {}).items()}
TREE = {name: rule for kind in KINDS for name, rule in kind.TREE.items()}


class Tree:
    """The files of the project, without what a build makes."""
    def __init__(self):
        listed = self.run("git", "ls-files", "--cached", "--others", "--exclude-standard")
        if listed:
            self.files = sorted(set(listed.splitlines()))
        else:                               # a source archive: no git, or not its own repository
            self.files = [str(p.relative_to(ROOT)) for p in sorted(ROOT.rglob("*")) if p.is_file()]
            self.files = [p for p in self.files if not p.startswith("build/")]

    def run(self, *command):
        """Return what a command prints in the tree: nothing, if git has no repository or no such commit here."""
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout

    def text(self, path):
        return (ROOT / path).read_text(encoding="utf-8")

    def sources(self):
        """Return (path, text) of each source and header of src/ and include/."""
        return [(p, self.text(p)) for p in self.files if p.startswith(("src/", "include/")) and p.endswith(C_FILES) and (ROOT / p).is_file()]


def check_examples():
    for name, (_, rule, bad, good) in RULES.items():
        for path, text in bad:
            if not list(rule(path, text)):
                yield f"tests/lint/rules.py: {name} does not see {text!r} in {path}"
        for path, text in good:
            for _, message in rule(path, text):
                yield f"tests/lint/rules.py: {name} reports {text!r} in {path}: {message}"
    for kind in KINDS:
        yield from (f"tests/lint/{kind.__name__}.py: {wrong}" for wrong in kind.examples())


def main():
    wanted = sys.argv[1:] or [*RULES, *TREE]
    findings, tree, read = list(check_examples()), Tree(), 0
    for path in tree.files:
        if not (ROOT / path).is_file() or path.startswith(("tests/golden/", "tests/bad/", "tests/fuzz/corpus/")) and not path.endswith((".py", ".c")):
            continue
        rules = [(n, RULES[n][1]) for n in wanted if n in RULES and path.endswith(RULES[n][0])]
        if not rules:
            continue
        text = tree.text(path)
        read += 1
        for name, rule in rules:
            findings += [f"{path}:{line}: {message} [{name}]" for line, message in rule(path, text)]
    for name in filter(wanted.__contains__, TREE):
        findings += [f"{':'.join(map(str, where))}: {message} [{name}]" for *where, message in TREE[name](tree)]
    if not read and not set(TREE) & set(wanted):
        findings.append("tests/lint/rules.py: found no file to read")
    print("\n".join(findings))
    print(f"lint: {len(wanted)} rules, {read} files, {len(findings)} findings")
    return 1 if findings else 0


sys.exit(main())
