"""lamina estimate: formulas and the exact count, from sizes, from models and from trees printed by transformers (tools/oracle/trees.py)."""
import json

import pytest
from conftest import run

MISTRAL = ["--hidden", "4096", "--layers", "32", "--vocab", "32000", "--ffn", "14336", "--heads", "32", "--kv-heads", "8"]


@pytest.fixture(scope="module")
def lamina(build, source):
    return lambda *args: run(build / "src/cli/lamina", *args, cwd=source)


def steps(lamina, *args):
    done = lamina("estimate", *args, "--json")
    assert done.returncode == 0, done.stderr
    found = {s["name"]: s for s in json.loads(done.stdout)["derivation"]["steps"] if "name" in s}
    assert found["exact"]["agrees"] is True
    return {name: s["value"] for name, s in found.items()}


def test_its_own_printout_is_readable(lamina, tmp_path):
    """A tree printed by inspect is readable, although Cohere's norms show no width."""
    tree = tmp_path / "tree.txt"
    tree.write_text(lamina("inspect", "command-r-35b", "--view", "tree").stdout)
    assert "(norm): CohereLayerNorm()" in tree.read_text()
    assert steps(lamina, "--from-tree", tree)["exact"] == 34_980_831_232


def test_sizes_equal_the_model(lamina):
    by_hand, published = steps(lamina, *MISTRAL), steps(lamina, "mistral-7b-v0.1")
    assert by_hand == published
    assert by_hand["quick"] == 8_046_772_224 and by_hand["by_groups"] == -805_306_368 and by_hand["by_norms"] == 266_240
    assert by_hand["exact"] == 7_241_732_096
    assert steps(lamina, *MISTRAL, "--tied")["exact"] == by_hand["exact"] - 32000 * 4096
    assert steps(lamina, *MISTRAL, "--qkv-bias")["by_biases"] == 32 * (4096 + 2 * 1024)
    plain = steps(lamina, *MISTRAL, "--plain", "--bias")
    assert plain["mlp"] == 2 * 4096 * 14336 and plain["by_norms"] == 2 * 266_240


def test_the_page_begins_with_its_table(lamina):
    page = lamina("estimate", "llama-3.2-1b").stdout.splitlines()
    assert [line.split() for line in page[2:7]] == [
        ["parameters", "off", "by"], ["quick", "1,599,078,400", "1.60", "B", "+29.39", "%"], ["standard", "1,336,410,112", "1.34", "B", "+8.14", "%"],
        ["grouped", "1,235,746,816", "1.24", "B", "-0.01", "%"], ["exact", "1,235,814,400", "1.24", "B"]]
    assert "1.24 G" not in "".join(page) and "= 1,235,814,400 parameters (1.24 B)" in "\n".join(page)
    assert "| exact | 1,235,814,400 | 1.24 B |  |" in lamina("estimate", "llama-3.2-1b", "--md").stdout


@pytest.mark.parametrize("preset", ["llama-3.2-1b", "gpt2", "deepseek-v2", "gemma-2-2b"])
def test_a_presets_config_can_be_changed(lamina, tmp_path, preset):
    """--config writes the preset's description, floats as floats; a changed copy describes a different model."""
    path = tmp_path / "config.json"
    done = lamina("estimate", preset, "--config")
    assert done.returncode == 0 and done.stdout == lamina("inspect", preset, "--query", "config").stdout
    assert lamina("estimate", preset, "--config", "-o", path).stdout == "" and path.read_text() == done.stdout
    assert json.loads(lamina("estimate", preset, "--config", "--json").stdout) == json.loads(done.stdout)
    config = json.loads(done.stdout)
    assert steps(lamina, path)["exact"] == steps(lamina, preset)["exact"]
    key = "num_hidden_layers" if "num_hidden_layers" in config else "n_layer"
    path.write_text(json.dumps({**config, key: config[key] + 1}))
    assert steps(lamina, path)["exact"] > steps(lamina, preset)["exact"]


def test_a_gguf_file_has_no_config(lamina, model):
    done = lamina("estimate", model, "--config")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("error: --config: a GGUF file has no config.json")


@pytest.mark.parametrize("model", ["gpt2", "deepseek-v2", "mixtral-8x7b", "gemma-2-2b", "opt-350m", "falcon-7b", "bloom-560m", "ctrl", "llama-3.1-405b"])
def test_the_gap_adds_up(lamina, model):
    s = steps(lamina, model)
    assert s["quick"] + sum(v for k, v in s.items() if k.startswith("by_")) == s["exact"]


@pytest.mark.parametrize("tree, more", [("llama-3.2-3b", []), ("qwen2.5-3b", []), ("unpublished", ["--heads", "6"]), ("qwen3", []),
                                        ("starcoder2", ["--heads", "4"]), ("gpt2", []), ("mixtral-8x7b", []), ("falcon-7b", []),
                                        ("gemma-2b", []), ("bloom-560m", [])])
def test_trees(lamina, source, tree, more):
    folder = source / "tests/golden/explain/trees"
    totals = dict(line.split("\t") for line in (folder / "totals.tsv").read_text().splitlines())
    assert steps(lamina, "--from-tree", folder / f"{tree}.txt", *more)["exact"] == int(totals[tree])


def test_a_tree_makes_the_published_configuration(lamina, source):
    j = json.loads(lamina("estimate", "--from-tree", "tests/golden/explain/trees/llama-3.2-3b.txt", "--config", "--json").stdout)
    assert j["num_attention_heads"] == 24 and j["num_key_value_heads"] == 8 and j["tie_word_embeddings"] is True
    j = json.loads(lamina("estimate", "--from-tree", "tests/golden/explain/trees/unpublished.txt", "--heads", "6", "--config", "--json").stdout)
    assert j["attention_bias"] and j["mlp_bias"] and j["hidden_act"] == "gelu" and j["num_key_value_heads"] == 2


def test_underivable_quantities_are_reported(lamina, source, tmp_path):
    def fails(text, status, words):
        (tmp_path / "t.txt").write_text(text)
        done = lamina("estimate", "--from-tree", tmp_path / "t.txt")
        assert done.returncode == status and words in done.stderr, done.stderr
    whole = (source / "tests/golden/explain/trees/unpublished.txt").read_text()
    fails(whole, 2, "give the number of heads")
    fails(whole.rstrip()[:-1], 3, "unclosed parenthesis at the end of the tree")
    fails("nothing\n", 3, "line 1")
    fails(whole.replace("LlamaForCausalLM", "OtherForCausalLM"), 3, "OtherForCausalLM")
    fails(")\n", 3, "unmatched closing parenthesis")
    fails("A(\n" * 60, 3, "nested too deeply")
    fails((source / "tests/golden/explain/trees/deepseek-v2.txt").read_text(), 3, "differ")
    # the sum reveals a module that is not understood
    extra = whole.replace("        (mlp): LlamaMLP(", "        (extra): Linear(in_features=96, out_features=7, bias=False)\n        (mlp): LlamaMLP(")
    (tmp_path / "t.txt").write_text(extra)
    done = lamina("estimate", "--from-tree", tmp_path / "t.txt", "--heads", "6")
    assert done.returncode == 3 and "something in it is not understood" in done.stderr
    assert lamina("estimate", "--hidden", "64").returncode == 2 and lamina("estimate", "gpt2", "--hidden", "64").returncode == 2
    assert lamina("estimate", "--from-tree", "nowhere.txt").returncode == 1


@pytest.mark.parametrize("arguments, flag", [
    *[(["gpt2", *flag], flag[0]) for flag in (["--layers", 5], ["--tied"], ["--plain"], ["--bias"], ["--qkv-bias"], ["--context", 5],
                                              ["--from-tree", "tree.txt"])],
    *[(["--from-tree", "unpublished.txt", "--heads", 6, *flag], flag[0])
      for flag in (["--hidden", 64], ["--layers", 5], ["--vocab", 9], ["--ffn", 5], ["--kv-heads", 2], ["--plain"], ["--bias"], ["--qkv-bias"])],
    (["--from-tree", "unpublished.txt", "--heads", 7], "--heads"),
    (["--from-tree", "qwen2.5-3b.txt", "--tied"], "--tied"),                # a published model: its other values are known
    (["--from-tree", "qwen2.5-3b.txt", "--context", 64], "--context"),
    (["--from-tree", "qwen2.5-3b.txt", "--rope-freq-base", 1000], "--rope-freq-base"),
    ([*MISTRAL, "--mla", "naive"], "--mla"),
])
def test_a_flag_that_would_do_nothing_is_an_error(build, source, arguments, flag):
    done = run(build / "src/cli/lamina", "estimate", *arguments, cwd=source / "tests/golden/explain/trees")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(f"error: {flag}: "), done.stderr


def test_keys_missing_in_a_tree_can_be_given(lamina):
    done = lamina("estimate", "--from-tree", "tests/golden/explain/trees/unpublished.txt", "--heads", 6, "--context", 99, "--tied", "--config")
    config = json.loads(done.stdout)
    assert config["max_position_embeddings"] == 99 and config["tie_word_embeddings"] is True and "tying" not in done.stderr
