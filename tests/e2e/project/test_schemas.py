"""What commands print with --json conforms to docs/schema/: several models each, every kind of document of a command."""
import json
import os
import sqlite3

import fastjsonschema
import pytest
from conftest import MODEL, SOURCE, run

pytestmark = pytest.mark.usefixtures("limits")            # not measured by the first command that requires them

TREES = "tests/golden/explain/trees"
DOCUMENTS = {
    "compare": ["llama-3.2-3b llama-3.1-8b", "gpt2 mixtral-8x7b deepseek-v2 gemma-2-2b", "tests/golden/llama/gqa bloom-560m",
                "--history", "llama-3.2-1b mistral-7b --view kv", "gpt2 opt-350m --view reading"],
    "fit": ["llama-3.2-3b --ram 16G", "deepseek-v2 --device h100", "gpt-oss-20b --device all", "llama-3.1-8b --device rtx-4090 --throughput",
            "llama-3.1-8b --device rtx-4090 --throughput --price 0.4", "--fleet llama-3.2-1b qwen2.5-3b --ram 32G",
            "{model} --ram 2G", "llama-3.1-405b --ram 16G", "tests/golden/gpt2/plain --vram 1G"],
    "explain": ["", "kv mistral-7b", "mla deepseek-v2", "moe gpt-oss-20b", "alibi bloom-560m", "rope llama-3.2-1b", "norm gpt2", "swa",
                "sampling", "kv {model} --prompt hello", "alibi llama-3.2-3b", "--diagram flow gpt2", "--code gpt2", "forward {model} -p hello"],
    "estimate": ["mistral-7b", "--hidden 64 --layers 2 --heads 4 --ffn 128 --vocab 100", "gpt2", "deepseek-v2",
                 f"--from-tree {TREES}/qwen2.5-3b.txt", f"--from-tree {TREES}/llama-3.2-3b.txt"],
    "report": ["gpt2", "llama-3.2-3b deepseek-v2", "tests/golden/mixtral/experts-window", "mpt-7b --device rtx-4090", "gpt2 -o {tmp}/report.md"],
    "embed": ["{model} -p hello", "{model} -p hello --pooling none --normalize"],
    "cluster": ["plan llama-3.1-8b --nodes 4 --link 25gbe --device epyc-9654", "plan deepseek-v2 --simulate 8 --device epyc-9654 --ram 64GiB",
                "plan {model} --nodes 3 --ram 1M"],
    "devices": ["", "h100", "--kind phone"],
    "audit": ["tests/golden/facts/facts.tsv", "tests/golden/audit/qwen2.5-7b.md -m qwen2.5-7b"],
    "inspect": ["gpt2", "gpt2 --view facts", "tests/golden/llama/gqa --view tensors", "gpt2 --view flops", "gpt2 --view tree", "gpt2 --query memory",
                "gpt2 --query memory --query parameters.total", "tests/golden/llama/gqa --tensors", "tests/golden/llama/gqa --plan"],
    "run": ["-m {model} -p hi -n 2", "-m {model} -p hi -n 2 --logprobs 2", "-m {model} -p hi -n 0 --logprobs 2", "-m {model} -p hi -n 0",
            "-m {model} --ids 1,2 -n 1", "--ensemble tests/golden/llama/gqa:0.5,tests/golden/llama/gqa:0.5 --ids 1,2 -n 2"],
    "chat": ["-m {model} -n 2"],
    "score": ["-m {model} -p hello", "-m {model} -f tests/golden/imatrix/text.txt --logprobs 2", "-m {model} --jsonl -"],
    "verify": ["tests/golden/llama/gqa tests/golden/llama/gqa/golden.safetensors", "tests/golden/llama/gqa tests/golden/llama/gqa/golden.safetensors --tol 1e-12",
               "{model} {model} -f tests/golden/imatrix/text.txt"],
    "trace": ["{model} -p hello", "tests/golden/mixtral/bare --ids 1,2,3 --attention 1.2 --times --all --lens-parts",
              "{model} -p hello -n 2 --set layers.3.mlp=0", "tests/golden/llama/gqa --ids 1,2 --compare tests/golden/llama/gqa"],
    "tokenize": ["-m {model} -p hi", "-m {model} -p hi --count"],
    "detokenize": ["-m {model} 1 2 3"],
    "template": ["{model} --show"],
    "presets": ["", "llama", "llama-3.2-3b", "llama --fits --device raspberry-pi-5"],
    "imatrix": ["--in-file tests/golden/imatrix/experts.gguf", "{model} -f README.md -c 64 --chunks 2 -o {tmp}/im.gguf"],
    "convert": ["tests/golden/llama/gqa {tmp}/c.gguf", "tests/golden/llama/gqa/model.gguf folder --dry-run"],
    "eval": ["{model} perplexity -f README.md -c 64 --chunks 2", "{model} kl --base {model} -f README.md -c 64 --chunks 2",
             "{model} choices -f tests/golden/eval/winogrande.jsonl --limit 2 --details", "{model} speed -f README.md -c 64 -n 2 --chunks 1",
             "{model} needle --lengths 160 --depths 50 --samples 1 -n 2"],
    "diff": ["tests/golden/llama/gqa tests/golden/llama/gqa/model.gguf", "{model} {model} -f README.md -c 32 --chunks 2"],
    "merge": ["tests/golden/llama/gqa/model.gguf tests/golden/adapters/llama {tmp}/merged.gguf", "tests/golden/llama/gqa tests/golden/adapters/llama --dry-run"],
    "quantize": ["tests/golden/llama/gqa/model.gguf {tmp}/small.gguf q8_0", "tests/golden/llama/gqa/model.gguf q4_0 --dry-run"],
    "train": ["tests/golden/llama/gqa --ids-file tests/golden/train/llama.full.safetensors -o {tmp}/run --steps 2",
              "tests/golden/llama/gqa --ids-file tests/golden/train/llama.full.safetensors --dry-run"],
    "synth": ["gpt2 {tmp}/model.gguf --layers 1", "gpt2 {tmp}/folder --layers 1"],
    "doctor": [""],
    "help": ["", "run", "version"],
    "usage": ["{tmp}/store"],
    "version": [""],
    "bench": ["-m {model} -p 8 -n 2 -r 1 --limits stored", "-m {model} -p 8 -n 2 -r 1 --profile --limits stored",
              "-m {model} -p 0 -n 2 -r 2 -d 4 -npl 2 --limits stored"],
}
CASES = [(kind, line) for kind, lines in DOCUMENTS.items() for line in lines]


INPUTS = {"chat": "hello\n", "score": '"one line"\n'}       # one line of text, so that there is one document
NOT_OURS = {"serve"}                                     # describes itself at /openapi.json
ELSEWHERE = {"pull"}                                     # needs a hub: test_pull.py


def store(path):
    """Create a store as `serve --store` leaves one."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA application_id = 1818324321")
        db.execute("CREATE TABLE tokens (day, owner, model, requests, prompt, cached, written, PRIMARY KEY (owner, day, model))")
        db.execute("INSERT INTO tokens VALUES ('2026-01-02', 'ab12', 'small', 2, 30, 10, 7)")
    db.close()


MADE = {}                                                # (kind, line) -> what the command printed: each runs once


def document(build, tmp_path, kind, line):
    if (kind, line) not in MADE:
        MADE[kind, line] = printed(build, tmp_path, kind, line)
    return json.loads(MADE[kind, line])


def words(line, tmp_path=""):
    return [word.format(tmp=tmp_path, model=MODEL) for word in line.split()]


def printed(build, tmp_path, kind, line):
    if kind == "usage" and not (tmp_path / "store").exists():
        store(tmp_path / "store")
    done = run(build / "src/cli/lamina", kind, *words(line, tmp_path), "--json", cwd=SOURCE, input=INPUTS.get(kind, ""))
    assert done.returncode in (0, 4, 5), done.stderr          # 4: does not fit, 5: the document is wrong about something
    return done.stdout


def schema(kind):
    return json.loads((SOURCE / f"docs/schema/{kind}.schema.json").read_text())


@pytest.mark.parametrize("kind,line", CASES)
def test_output_obeys_its_schema(build, tmp_path, kind, line):
    """The document also begins with the name and version of its schema."""
    whole = document(build, tmp_path, kind, line)
    fastjsonschema.compile(schema(kind))(whole)
    for one in whole if isinstance(whole, list) else [whole]:
        assert next(iter(one)) == "schema" and one["schema"] == f"lamina.{kind}/1"


def test_every_command_has_a_schema(build):
    commands = {c["name"] for c in json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)["commands"]}
    assert commands - NOT_OURS - ELSEWHERE == set(DOCUMENTS)


@pytest.mark.parametrize("line", ["run --nonsense", "inspect /nowhere", "nonsense", "version --wrong", "template {model}"])
def test_errors_have_one_form(build, line):
    done = run(build / "src/cli/lamina", *words(line), "--json", cwd=SOURCE)
    assert done.returncode
    fastjsonschema.compile(schema("error"))(json.loads(done.stdout))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_schema_rejects_missing_and_unknown_members(build, tmp_path, kind):
    valid = fastjsonschema.compile(schema(kind))
    whole = document(build, tmp_path, kind, DOCUMENTS[kind][0])
    row = whole[0] if isinstance(whole, list) else whole
    row["nobody knows this"] = 1
    with pytest.raises(fastjsonschema.JsonSchemaException):
        valid(whole)
    del row["nobody knows this"]
    valid(whole)
    row.pop(next(iter(row)))
    with pytest.raises(fastjsonschema.JsonSchemaException):
        valid(whole)


def test_every_property_is_explained():
    """Every schema describes its document in more than 40 characters."""
    for kind in DOCUMENTS:
        assert len(schema(kind)["description"]) > 40
