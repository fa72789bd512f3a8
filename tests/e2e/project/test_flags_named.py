"""Every flag and path named in a message, a document or a hint exists: flags in the program's table, paths in its OpenAPI description."""
import json
import re

import pytest
from conftest import SOURCE, run



@pytest.fixture(scope="module")
def table(build):
    return json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)


def names(flags):
    return {word for f in flags for field in (f["name"], f.get("also") or "", f.get("short") or "") for word in re.findall(r"-[\w-]+", field)}


@pytest.fixture(scope="module")
def known(table):
    """command → its flags; "" → all of them."""
    general = names(table["general"])
    known = {c["name"]: names(c["flags"]) | general for c in table["commands"]}
    known[""] = set().union(*known.values())
    return known


@pytest.fixture(scope="module")
def foreign(table):
    """Flags of llama.cpp that are accepted, or rejected by name."""
    return {word for f in table["foreign"] for word in f["names"].split()}


def strings(path):
    """Yield the line and the text of each string literal of a C file; adjacent ones are joined."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), path.read_text(), flags=re.S)
    for found in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
        yield text[:found.start()].count("\n") + 1, "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found.group()))


def test_flags_in_messages(source, known, foreign):
    wrong = []
    for path in sorted((source / "src").rglob("*.[ch]")):
        if path.name == "foreign.c":           # the table of llama.cpp's own flags
            continue
        for line, text in strings(path):
            wrong += [f"{path.relative_to(source)}:{line}: {word}" for word in re.findall(r"(?<![\w<%-])--[a-z][a-z0-9-]*[a-z0-9]", text)
                      if word not in known[""] | foreign]
    assert wrong == []


def commands(text):
    """Yield (command, words) of each `lamina COMMAND …` in code spans and code blocks of a document."""
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text) + [line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M) for line in block.split("\n")]
    spans += re.findall(r"^    (.*)$", text, re.M)
    for span in spans:
        for found in re.finditer(r"(?:^|[\s/|$])lamina ([a-z]+)((?: [^|#…`]*)?)", span):
            yield found.group(1), re.split(r"\s+#|\s{2,}", found.group(2))[0]


@pytest.mark.parametrize("page", sorted(p.relative_to(SOURCE) for p in [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")] if not p.name.startswith("adding-")), ids=str)
def test_flags_in_documents(source, known, foreign, page):
    """Documents named adding-* are excepted: what they add does not exist."""
    text = (source / page).read_text()
    wrong = []
    for command, words in commands(text):
        if command not in known or command == "cluster":       # cluster run takes mpirun's arguments
            continue
        quoted = re.sub(r"\"[^\"]*\"|'[^']*'", "''", words)
        wrong += [f"lamina {command}: {word}" for word in quoted.split() if re.match(r"-[a-zA-Z-]", word)
                  and re.sub(r"^(-[a-z])\d+$", r"\1", word.split("=")[0].rstrip(",.;:)]")) not in known[command] | foreign]
    assert wrong == []


def test_paths_in_messages(build, source, known):
    if "serve" not in known:
        pytest.skip("built without the server")
    described = json.loads(run(build / "src/cli/lamina", "serve", "--openapi").stdout)
    known = {re.sub(r"\{[^}]*\}", "*", path) for path in described["paths"]}
    wrong = []
    for path in sorted((source / "src").rglob("*.[ch]")):
        for line, text in strings(path):
            for word in re.findall(r"(?:GET|POST|DELETE|PUT) (/[\w/{}.-]*[\w}])", text):
                if re.sub(r"\{[^}]*\}|\bN\b|\bID\b|<[^>]*>", "*", word) not in known:
                    wrong.append(f"{path.relative_to(source)}:{line}: {word}")
    assert wrong == []
