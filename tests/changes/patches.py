"""The patches of tests/changes, in the order in which they apply: scripts/changes and tests/e2e/project/test_changes.py make a copy of the tree with them."""
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ORDER = (HERE / "order").read_text().split()


def apply(tree):
    """Apply all patches to a copy of the tree. Git must not find a repository there, or it would skip files in an ignored folder."""
    for name in ORDER:
        done = subprocess.run(["git", "apply", HERE / f"{name}.patch"], cwd=tree, capture_output=True, text=True,
                              env=os.environ | {"GIT_CEILING_DIRECTORIES": str(pathlib.Path(tree).parent)})
        assert done.returncode == 0, f"{name}.patch does not apply; make the change again: {done.stderr}"


def page_of(name):
    """Return the page of docs/dev that describes the patch `name`."""
    [page] = [p for p in (HERE.parents[1] / "docs/dev").glob("adding-*.md") if f"tests/changes/{name}.patch" in p.read_text()]
    return page
