"""The tokens that end a generation: what a model's files list, else well-known spellings; kept by every conversion. llama.cpp#9606, #15789, #15842."""
import json

import pytest
from conftest import run
from ggufs import keys_and_tensors
from test_serve_adapters import WIDTHS, write_adapter

SPECIAL = ["<|end|>", "<|return|>", "<|call|>", "<|im_end|>", "<|other|>", "<|fim_pad|>", "</s>", "<|eom_id|>", "[EOT]"]
END, RETURN, CALL, IM_END, OTHER, FIM_PAD, S, EOM, EOT = range(256, 265)
ROWS = 265


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args)


def letters():
    """Return the characters that byte-level BPE writes for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) if b in plain else chr(256 + sum(c not in plain for c in range(b))) for b in range(256)]


@pytest.fixture
def model(lamina, tmp_path):
    def make(special=SPECIAL, generation=None, config=(), tokenizer_config=(), name="folder"):
        sizes = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": ROWS, "hidden_size": 32, "intermediate_size": 32,
                 "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
        (tmp_path / "c.json").write_text(json.dumps(sizes))
        folder = tmp_path / name
        assert lamina("synth", tmp_path / "c.json", folder, "-q").returncode == 0
        for file in {*folder.glob("tokenizer*"), *folder.glob("*_config.json"), *folder.glob("special*")}:
            file.unlink()
        added = [{"id": 256 + i, "content": t, "special": True} for i, t in enumerate(special)]
        (folder / "tokenizer.json").write_text(json.dumps({
            "added_tokens": added, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters())}, "merges": []}}))
        (folder / "config.json").write_text(json.dumps({**sizes, **dict(config)}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **dict(tokenizer_config)}))
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        return folder
    return make


def ends(lamina, model):
    """Return the tokens after which the model stops, by making it choose each in turn."""
    found = set()
    for token in (*range(256, ROWS), 65, 66, 67, 68):
        done = lamina("run", model, "--ids", "1,2", "-n", "2", "--logit-bias", f"{token}+10000", "--temp", "0", "--json")
        assert done.returncode == 0, done.stderr
        if json.loads(done.stdout)["stop_reason"] == "eos":
            found.add(token)
    return found


def keys(path):
    return keys_and_tensors(path.read_bytes())[0]


# What the files list, and the tokens that end a generation. Tokens that end a filled gap always do.
LISTED = [
    ({"generation": {"eos_token_id": [RETURN, CALL]}}, {RETURN, CALL}),
    ({"generation": {"eos_token_id": OTHER}, "tokenizer_config": {"eos_token": "<|other|>"}}, {OTHER}),
    ({"config": {"eos_token_id": [65, OTHER]}}, {65, OTHER}),
    ({"tokenizer_config": {"eos_token": "<|im_end|>"}}, {IM_END}),
    ({"tokenizer_config": {"eos_token": "<|im_end|>"}, "generation": {"eos_token_id": [68, OTHER]}}, {IM_END, 68, OTHER}),
    ({"generation": {"eos_token_id": [65, 66, 67, 68, END]}}, {65, 66, 67, 68, END}),
    ({"generation": {"temperature": 1}}, {RETURN, CALL, IM_END, S, EOM, EOT}),             # no file lists any: by spelling, without <|end|>
]


@pytest.mark.parametrize("files,expected", LISTED)
def test_every_form_of_a_model_has_the_ends_that_its_files_list(lamina, model, tmp_path, files, expected):
    expected = expected | {FIM_PAD}
    folder = model(**files)
    assert ends(lamina, folder) == expected
    done = lamina("convert", folder, tmp_path / "a.gguf", "--type", "f32")
    assert done.returncode == 0, done.stderr
    assert ends(lamina, tmp_path / "a.gguf") == expected
    own = keys(tmp_path / "a.gguf").get("tokenizer.lamina.eos_token_ids")
    assert (own is not None) == ("tokenizer.lamina.eos_token_ids" in done.stderr)
    assert own is None or set(own) == expected - {FIM_PAD}
    for command in (("convert", tmp_path / "a.gguf", tmp_path / "back"), ("quantize", tmp_path / "a.gguf", tmp_path / "q.gguf", "q8_0"),
                    ("quantize", folder, tmp_path / "f.gguf", "q8_0"), ("convert", tmp_path / "a.gguf", tmp_path / "s.gguf", "--split-max-tensors", "4")):
        done = lamina(*command)
        assert done.returncode == 0, done.stderr
    parts = sorted(tmp_path.glob("s-*.gguf"))
    for other in (tmp_path / "back", tmp_path / "q.gguf", tmp_path / "f.gguf", parts[0]):
        assert ends(lamina, other) == expected, other
    listed = json.loads((tmp_path / "back/generation_config.json").read_text())["eos_token_id"]
    assert set(listed if isinstance(listed, list) else [listed]) == expected - {FIM_PAD}


def test_keys_of_gguf_complete_their_kind(lamina, model, tmp_path):
    """Two ends have keys that every program reads: no key of lamina's own, no warning. More than three do not."""
    done = lamina("convert", model(generation={"eos_token_id": [OTHER, 68]}), tmp_path / "a.gguf")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    found = keys(tmp_path / "a.gguf")
    assert {found["tokenizer.ggml.eos_token_id"], found["tokenizer.ggml.eot_token_id"]} == {OTHER, 68}
    assert not any("lamina" in k for k in found)
    done = lamina("convert", model(generation={"eos_token_id": [65, 66, 67, 68]}, name="four"), tmp_path / "b.gguf")
    assert done.returncode == 0 and "warning: the end tokens 65, 66, 67, 68 are in the key" in done.stderr, done.stderr


def test_an_eos_alone_in_gguf_leaves_the_ends_of_turns_to_their_spellings(lamina, model, tmp_path):
    """Files of llama.cpp's converter have one id; the end of a turn is known by its spelling."""
    special = ["<|end|>", "<|other|>"]
    folder = model(special=special)
    assert lamina("convert", folder, tmp_path / "a.gguf").returncode == 0
    assert keys(tmp_path / "a.gguf").keys().isdisjoint({"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    assert ends(lamina, tmp_path / "a.gguf") == {256}


def test_a_model_without_a_tokenizer_keeps_its_ends(lamina, model, tmp_path):
    folder = model(generation={"eos_token_id": [65, 66]})
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert ends(lamina, folder) == {65, 66}
    assert lamina("convert", folder, tmp_path / "a.gguf").returncode == 0
    assert ends(lamina, tmp_path / "a.gguf") == {65, 66}
    assert lamina("convert", tmp_path / "a.gguf", tmp_path / "back").returncode == 0
    assert ends(lamina, tmp_path / "back") == {65, 66}


def test_merging_keeps_the_ends(lamina, model, tmp_path, monkeypatch):
    folder = model(generation={"eos_token_id": [OTHER, 68]})
    assert lamina("convert", folder, tmp_path / "a.gguf", "--type", "f32").returncode == 0
    monkeypatch.setitem(WIDTHS, "self_attn.q_proj", (32, 32))
    adapter = write_adapter(tmp_path / "adapter", 1, 4, ["self_attn.q_proj"], range(1))
    for base, out in ((folder, tmp_path / "m"), (tmp_path / "a.gguf", tmp_path / "m.gguf")):
        done = lamina("merge", base, adapter, out)
        assert done.returncode == 0, done.stderr
        assert ends(lamina, out) == {OTHER, 68, FIM_PAD}


def test_tokens_that_only_tokenizer_config_names_count(lamina, model, tmp_path):
    """transformers adds the tokens of added_tokens_decoder to those of tokenizer.json; one without a row is left out, said."""
    decoder = {str(256 + len(SPECIAL) - 1): {"content": "[EOT]", "special": True}, "9999": {"content": "<far>", "special": True},
               "256": {"content": "<taken>", "special": True}}
    folder = model(special=SPECIAL[:-1], tokenizer_config={"added_tokens_decoder": decoder})
    done = lamina("tokenize", folder, "-p", "A[EOT]", "--json")
    assert json.loads(done.stdout)["ids"][-1] == EOT and len(json.loads(done.stdout)["ids"]) == 2, done.stdout
    info = lamina("run", folder, "--ids", "1", "-n", "1", "--json")
    assert "'<far>' is left out: the model has no row 9999" in info.stderr and "'<taken>' is left out: another token has the id 256" in info.stderr
    assert lamina("convert", folder, tmp_path / "a.gguf").returncode == 0
    assert keys(tmp_path / "a.gguf")["tokenizer.ggml.tokens"][EOT] == "[EOT]"
