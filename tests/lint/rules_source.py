"""C sources as text: what the rules of this folder share."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_FILES = (".c", ".h")

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


APPS = {"server", "hub", "cli"}          # these use the public headers only


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
