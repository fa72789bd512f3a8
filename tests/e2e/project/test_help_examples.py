"""The examples of the help: each command has some, and each is run in the folder of a page, with its model, its hub and its server."""
import json
import subprocess
from types import SimpleNamespace

import pytest
from conftest import PATIENCE, SHALLOW, SOURCE, some
from test_pages import folder, program, server, started  # noqa: F401 (fixtures)

MEASURES = ("bench", "eval", "imatrix", "verify")         # what takes long, and is the same with one layer
EXAMPLES = (SOURCE / "src/cli/examples.txt").read_text().splitlines()


def test_every_command_has_an_example(build):
    described = json.loads(subprocess.run([build / "src/cli/lamina", "help", "--json"], capture_output=True, check=True).stdout)["commands"]
    assert {c["name"]: c["examples"] for c in described} == {c["name"]: [x for x in EXAMPLES if x.split()[1] == c["name"]] for c in described}
    assert all(c["examples"] for c in described) and sum(len(c["examples"]) for c in described) == len(EXAMPLES)


@pytest.mark.parametrize("example", some(EXAMPLES))
def test_example_of_the_help(example, build, program, server, folder):
    """Each example succeeds where the files that it names exist."""
    if example.startswith("lamina serve "):
        for made in started(SimpleNamespace(body=example), build, folder, example):
            made.close()
        return
    if example.startswith("lamina usage "):
        (folder / "store.db").symlink_to(server().store)
    for name in ("model.gguf", "small.gguf", "large.gguf") if example.split()[1] in MEASURES else ():
        (folder / name).unlink()
        (folder / name).symlink_to(SHALLOW)
    (folder / "data.jsonl").write_text('{"prompt": "The sky is", "completion": " blue."}\n')
    (folder / "card.md").write_text("- Layers: 16\n")
    before = "lamina convert folder model-f16.gguf && " if example.startswith("lamina quantize ") else ""
    done = subprocess.run(["bash", "-c", before + example], cwd=folder, env=program | {"HF_HOME": str(folder / "hub")},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
