"""Sparse attention, key by key and in blocks: with few tokens it is full attention, bit for bit; with many, neither threads nor the sizes of steps
matter."""
import json
import os
import shutil
import struct

import pytest
from conftest import BARE, SOURCE, run

GOLDEN = SOURCE / "tests/golden"
CASES = ["deepseek_v32/chosen", "glm_moe_dsa/shared"]
BLOCKS, PAGES = "minimax_m3_vl_text/blocks", "minimax_m3_vl_text/pages"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **env: run(build / "src/cli/lamina", *args, env={**os.environ, **BARE, **env})


def with_config(case, to, **changes):
    """Copy a golden folder with other members of config.json."""
    shutil.copytree(GOLDEN / case, to)
    config = json.loads((to / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**config, **changes}))
    return to


def logits(path):
    """Return the bytes of each position's logits."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    t = json.loads(data[8:8 + size])["logits"]
    at, end = t["data_offsets"]
    n = (end - at) // t["shape"][1]
    return [data[8 + size + i:8 + size + i + n] for i in range(at, end, n)]


def dumped(lamina, folder, golden, to, *options, **env):
    done = lamina("verify", folder, golden, "--dump", to, *options, **env)
    assert done.returncode in (0, 5) and "in chunks equal, one at a time equal" in done.stdout, done.stdout + done.stderr
    return logits(to)


def ids_alone(path, tokens, vocabulary):
    """Write a file with ids alone: as many logits as it needs, all zero."""
    ids = [(i * i + 7 * i) % vocabulary for i in range(tokens)]
    a, b = struct.pack(f"<{tokens}q", *ids), bytes(4 * tokens * vocabulary)
    head = json.dumps({"input_ids": {"dtype": "I64", "shape": [1, tokens], "data_offsets": [0, len(a)]},
                       "logits": {"dtype": "F32", "shape": [1, tokens, vocabulary], "data_offsets": [len(a), len(a) + len(b)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + a + b)
    return path


@pytest.mark.parametrize("cpu", ["auto", "avx2", "ref"])
@pytest.mark.parametrize("mla", ["absorbed", "naive"])
@pytest.mark.parametrize("case", CASES)
def test_up_to_top_k_tokens_it_is_full_attention(lamina, tmp_path, case, mla, cpu):
    golden = ids_alone(tmp_path / "ids", 24, 131)
    folder = with_config(case, tmp_path / "full", model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"])
    sparse = dumped(lamina, GOLDEN / case, golden, tmp_path / "a", "--mla", mla, "--cpu", cpu)
    full = dumped(lamina, folder, golden, tmp_path / "b", "--mla", mla, "--cpu", cpu, "--allow-unused")
    assert sparse[:7] == full[:7] and all(a != b for a, b in zip(sparse[7:], full[7:]))
    every = with_config(case, tmp_path / "every", index_topk=24)
    assert dumped(lamina, every, golden, tmp_path / "c", "--mla", mla, "--cpu", cpu) == full


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kv", ["f32", "f16", "bf16"])
def test_neither_threads_nor_steps_matter(lamina, tmp_path, case, kv):
    """Over a thousand keys: rows are divided by ranges of positions, too."""
    folder = with_config(case, tmp_path / "long", max_position_embeddings=2048, index_topk=100)
    golden = ids_alone(tmp_path / "ids", 1200, 131)
    options = "-ctk", kv, "-ctv", kv
    one = dumped(lamina, folder, golden, tmp_path / "a", "-t", "1", *options)
    assert one == dumped(lamina, folder, golden, tmp_path / "b", "-t", "3", *options)


def with_blocks(to, **changes):
    """Copy MiniMax M3's golden folder with other sizes of its indexer."""
    sizes = json.loads((GOLDEN / BLOCKS / "config.json").read_text())["sparse_attention_config"]
    return with_config(BLOCKS, to, sparse_attention_config={**sizes, **{f"sparse_{k}": v for k, v in changes.items()}}, max_position_embeddings=2048)


@pytest.mark.parametrize("cpu", ["auto", "avx2", "ref"])
@pytest.mark.parametrize("case, tokens, top_k", [(BLOCKS, 24, 12), (PAGES, 200, 128)])
def test_up_to_the_chosen_blocks_it_is_full_attention(lamina, tmp_path, case, tokens, top_k, cpu):
    """Blocks of four keys; then of 64, which are pages of the cache and not copied."""
    def run(config, *more):
        return dumped(lamina, config, golden, tmp_path / f"{config.name}.out", "--cpu", cpu, *more)

    golden = ids_alone(tmp_path / "ids", tokens, 131 if case == BLOCKS else 41)
    sparse = run(GOLDEN / case)
    full, every = ((with_blocks(tmp_path / "full", attention_freq=[0, 0]), with_blocks(tmp_path / "every", topk_blocks=6)) if case == BLOCKS else
                   (with_config(case, tmp_path / "full", layer_types=["full_attention"] * 2), with_config(case, tmp_path / "every", index_topk_blocks=4)))
    full = run(full, "--allow-unused")
    assert sparse[:top_k] == full[:top_k] and all(a != b for a, b in zip(sparse[top_k:], full[top_k:]))
    assert run(every) == full


@pytest.mark.parametrize("kv", ["f32", "f16", "q8_0"])
@pytest.mark.parametrize("block, blocks", [(64, 3), (37, 4), (128, 1)])
def test_neither_threads_nor_steps_matter_in_blocks(lamina, tmp_path, block, blocks, kv):
    """Over a thousand keys. The index keys are as wide as a block of q8_0."""
    if kv == "q8_0":
        folder = tmp_path / "synthetic"
        sizes = json.loads((GOLDEN / BLOCKS / "config.json").read_text())
        sizes |= {"head_dim": 32, "rotary_dim": 16, "max_position_embeddings": 2048}
        sizes["sparse_attention_config"] |= {"sparse_index_dim": 32, "sparse_block_size": block, "sparse_topk_blocks": blocks}
        (tmp_path / "wide.json").write_text(json.dumps(sizes))
        assert lamina("synth", tmp_path / "wide.json", folder, "--seed", "3").returncode == 0
    else:
        folder = with_blocks(tmp_path / "long", block_size=block, topk_blocks=blocks)
    golden = ids_alone(tmp_path / "ids", 1200, 131)
    options = "-ctk", kv, "-ctv", kv
    one = dumped(lamina, folder, golden, tmp_path / "a", "-t", "1", *options)
    assert one == dumped(lamina, folder, golden, tmp_path / "b", "-t", "3", *options)


def test_cost_in_blocks(lamina):
    """MiniMax M3 at 128k tokens: 3 layers see all keys; in 57, 4 heads score all of them and 64 heads see 2048."""
    f = json.loads(lamina("inspect", "minimax-m3", "-c", "131072", "--query", "flops").stdout)
    each, scored = 2 * 64 * (128 + 128), 2 * 4 * 128
    assert f["per_context_token"] == 60 * each + 57 * scored and f["per_context_token_past_windows"] == 3 * each + 57 * scored
    assert f["at_context"] == f["per_token_matmul"] + 131072 * (3 * each + 57 * scored) + 2048 * 57 * each
    page = lamina("explain", "sparse", "minimax-m3", "-c", "131072").stdout
    assert page.count("\u2713") == 5 and "131,072 8.10 GFLOP 3.83 GFLOP 245 GFLOP 2.15 GB 15.3 GB" in " ".join(page.split()), page


def test_the_blocks_chosen_are_values(lamina, tmp_path):
    """Of each of two choices three blocks of four keys, the last one among them; weights of other keys are 0."""
    file = tmp_path / "chosen.safetensors"
    ids = ",".join(str(i % 120 + 3) for i in range(22))
    done = lamina("trace", GOLDEN / BLOCKS, "--ids", ids, "--values", "*self_attn.chosen", "-o", file)
    assert done.returncode == 0, done.stderr
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {name: t for name, t in json.loads(data[8:8 + size]).items() if name.endswith("chosen")}
    assert list(tensors) == ["model.layers.1.self_attn.chosen"]
    at, end = tensors["model.layers.1.self_attn.chosen"]["data_offsets"]
    rows = struct.unpack(f"<{22 * 6}f", data[8 + size + at:8 + size + end])
    for t in range(22):
        for choice in rows[6 * t:6 * t + 3], rows[6 * t + 3:6 * t + 6]:
            seen = [b for b in choice if b >= 0]
            assert len(seen) == min(t // 4 + 1, 3) and seen == sorted(set(seen)) and seen[-1] == t // 4
    assert any(rows[6 * t:6 * t + 3] != rows[6 * t + 3:6 * t + 6] for t in range(12, 22))


def test_cost_with_and_without(lamina):
    """DeepSeek-V3.2 at 128k tokens: 64 indexer heads score all keys, 128 heads see 2048."""
    sparse = json.loads(lamina("inspect", "deepseek-v3.2", "-c", "131072", "--query", "flops").stdout)
    full = json.loads(lamina("inspect", "deepseek-v3", "-c", "131072", "--query", "flops").stdout)
    assert sparse["per_context_token"] - full["per_context_token"] == 61 * 2 * 64 * (128 + 1)
    assert sparse["per_token_matmul"] > full["per_token_matmul"]


def test_the_explanation_says_what_it_costs(lamina):
    """The steps of the card agree with the program, of a model whose layers share a choice too; the positions chosen are values of a trace."""
    page = lamina("explain", "sparse", "deepseek-v3.2", "-c", "131072").stdout
    assert page.count("\u2713") == 5 and "131,072 134 GFLOP 34.8 GFLOP 2.23 TFLOP 2.19 GB 9.21 GB" in " ".join(page.split()), page
    page = lamina("explain", "sparse", GOLDEN / "glm_moe_dsa/shared").stdout
    assert page.count("\u2713") == 5 and "2 \u00b7 2 \u00b7 (q_rank \u00b7 index_heads \u00b7 index_dim" in page, page


def test_the_positions_chosen_are_values(lamina, tmp_path):
    file = tmp_path / "chosen.safetensors"
    done = lamina("trace", GOLDEN / "glm_moe_dsa/shared", "--ids", "1,2,3,4,5,6,7,8,9", "--values", "*indexer.chosen", "-o", file)
    assert done.returncode == 0, done.stderr
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    heads = json.loads(data[8:8 + size])
    chosen = {name: struct.unpack("<63f", data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for name, t in heads.items() if "chosen" in name}
    assert sorted(chosen) == [f"model.layers.{i}.self_attn.indexer.chosen" for i in range(2)]
    for rows in chosen.values():
        assert rows[:14] == (0, *[-1] * 6, 0, 1, *[-1] * 5) and rows[42:49] == tuple(range(7))
        assert all(list(set(row)) == sorted(row) and row[0] >= 0 and row[-1] <= t for t in (7, 8) for row in [rows[7 * t:7 * t + 7]])


def with_further_block(data, arch):
    """Return a GGUF file that counts a block which predicts further tokens, and has none: 64 bytes of keys more, so that nothing else moves."""
    at = data.index(arch + b".block_count") + len(arch) + 12 + 4
    blocks = struct.unpack_from("<I", data, at)[0]
    data = data[:at] + struct.pack("<I", blocks + 1) + data[at + 4:]
    key, note = arch + b".nextn_predict_layers", b"general.description"
    more = struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, 1) + struct.pack("<Q", len(note)) + note + struct.pack("<I", 8)
    rest = -(len(more) + 8) % 64
    more += struct.pack("<Q", rest) + b"." * rest
    return data[:16] + struct.pack("<Q", struct.unpack_from("<Q", data, 16)[0] + 2) + more + data[24:]


@pytest.mark.parametrize("case, arch", [(CASES[0], b"deepseek32"), (CASES[1], b"glm-dsa")])
def test_blocks_that_predict_further_tokens(lamina, tmp_path, case, arch):
    """They are counted by files that do not have them, and are the last layers of published folders."""
    model = tmp_path / "model.gguf"
    model.write_bytes(with_further_block((GOLDEN / case / "model.gguf").read_bytes(), arch))
    done = lamina("verify", model, GOLDEN / case / "golden.safetensors")
    assert done.returncode == 0 and "warning: nextn_predict_layers is 1, but the file contains no such layers" in done.stderr, done.stderr
    layers = json.loads((GOLDEN / case / "config.json").read_text())["num_hidden_layers"]
    shorter = {"indexer_types": ["full"] * (layers - 1)} if "glm" in case else {}
    folder = with_config(case, tmp_path / "folder", num_hidden_layers=layers - 1, num_nextn_predict_layers=1, **shorter)
    done = lamina("verify", folder, ids_alone(tmp_path / "ids", 9, 131))
    assert f"warning: layers from {layers - 1} on predict further tokens: they are not run" in done.stderr, done.stderr
