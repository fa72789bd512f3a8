"""`--view tree` prints what transformers prints for the same published model (tools/oracle/prints.py)."""
import pytest
from conftest import SOURCE, run

PRINTS = sorted((SOURCE / "tests/golden/presets/prints").glob("*.txt"))


@pytest.mark.parametrize("printed", PRINTS, ids=lambda p: p.stem)
def test_byte_for_byte(build, source, printed):
    done = run(build / "src/cli/lamina", "inspect", printed.stem, "--view", "tree", cwd=source)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed.read_text()


def test_prints_exist():
    assert {"gpt2", "gemma-3-270m", "falcon-7b", "phi-3-mini-4k", "mamba2-130m"} <= {p.stem for p in PRINTS} and len(PRINTS) >= 35


def test_values_of_the_config_are_printed(build, tmp_path):
    """The tree shows the activation class, the dropout rate and the padding row of the configuration; --depth truncates it."""
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "vocab_size": 16, "resid_pdrop": 0.25, "attn_pdrop": 0,'
                                          ' "activation_function": "gelu_fast"}')
    page = run(build / "src/cli/lamina", "inspect", tmp_path / "config.json", "--view", "tree").stdout
    assert "(act): FastGELUActivation()" in page and "(resid_dropout): Dropout(p=0.25, inplace=False)" in page
    assert "(attn_dropout): Dropout(p=0.0, inplace=False)" in page and "(0-1): 2 x GPT2Block(" in page
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,'
                                          ' "vocab_size": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "pad_token_id": 3}')
    page = run(build / "src/cli/lamina", "inspect", tmp_path / "config.json", "--view", "tree", "--depth", "2").stdout
    assert "(embed_tokens): Embedding(16, 8, padding_idx=3)" in page and "(layers): ModuleList(…)" in page
