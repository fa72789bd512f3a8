"""The language model of vision-language models, compared with transformers' logits of the whole model (tools/oracle/nested.py)."""
import json
import math
import shutil
import struct

import pytest
from conftest import SOURCE, run

GOLDEN = SOURCE / "tests/golden/nested"
MODELS = GOLDEN / "models"
KINDS = sorted(p.name for p in MODELS.iterdir())
CLASSES = json.loads((GOLDEN / "classes.json").read_text())


@pytest.fixture
def lamina(build):
    return build / "src/cli/lamina"


def golden(folder):
    """Return the token ids, and the logarithms of all probabilities per position."""
    data = (folder / "logits.safetensors").read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    head, body = json.loads(data[8:8 + n]), data[8 + n:]
    ids, logits = (body[slice(*head[k]["data_offsets"])] for k in ("input_ids", "logits"))
    _, rows, width = head["logits"]["shape"]
    values = struct.unpack(f"<{rows * width}f", logits)
    split = [values[i * width:(i + 1) * width] for i in range(rows)]
    totals = [math.log(sum(map(math.exp, row))) for row in split]
    return struct.unpack(f"<{rows}q", ids), [[x - total for x in row] for row, total in zip(split, totals)]


def agree(lamina, model, ids, rows):
    done = run(lamina, "trace", model, "--ids", ",".join(map(str, ids)), "--top", len(rows[0]), "--lens", 0, "--compute", "f32", "--cache-type-k", "f32", "--cache-type-v", "f32", "--json")
    assert done.returncode == 0, done.stderr
    tokens = json.loads(done.stdout)["tokens"]
    for token, row in zip(tokens[1:], rows):
        assert len(token["top"]) == len(row)
        for one in token["top"]:
            assert abs(one["p"] - math.exp(row[one["id"]])) < 1e-5, (token["position"], one)
    return done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_language_model_computes_what_it_does_in_the_whole(lamina, kind, tmp_path):
    """The folder and the GGUF file converted from it give the golden probabilities; one warning lists what is ignored."""
    ids, rows = golden(MODELS / kind)
    reply = agree(lamina, MODELS / kind, ids, rows)
    ignored = "audio_config, vision_config" if kind == "gemma3n" else "vision_config"
    assert reply.count("warning") == 1 and f"{kind.split('-')[0]}: only its language model is read; ignored: {ignored}, " in reply, reply
    assert "tensors (" in reply and ("visual" in reply or "vision_" in reply)
    assert run(lamina, "convert", MODELS / kind, tmp_path / "m.gguf").returncode == 0
    assert "ignored" not in agree(lamina, tmp_path / "m.gguf", ids, rows)


@pytest.mark.parametrize("rename", ["model.language_model.", "shards"])
def test_other_names_and_shards(lamina, rename, tmp_path):
    """A model with the tensor names of transformers 5 in memory, and a folder of shards with an index, give the golden probabilities."""
    shutil.copytree(MODELS / "gemma3", tmp_path / "m")
    path = tmp_path / "m/model.safetensors"
    data = path.read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    head = json.loads(data[8:8 + n])
    if rename == "shards":
        path.rename(tmp_path / "m/model-00001-of-00001.safetensors")
        index = {"metadata": {}, "weight_map": {k: "model-00001-of-00001.safetensors" for k in head if k != "__metadata__"}}
        (tmp_path / "m/model.safetensors.index.json").write_text(json.dumps(index))
    else:
        text = json.dumps({k.replace("language_model.model.", rename): v for k, v in head.items()}).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])
    agree(lamina, tmp_path / "m", *golden(MODELS / "gemma3"))


def config(text, kind="gemma3", **more):
    return json.dumps({"model_type": kind, "text_config": text, "vision_config": {"hidden_size": 8}, **more})


def described(lamina, tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    return run(lamina, "inspect", tmp_path / "config.json", "--json")


WHOLE = {"gemma3_text": "gemma3", "llama4_text": "llama4", "mistral": "mistral3", "ministral3": "mistral3", "mistral4": "mistral3", "llama": "llava", "lfm2": "lfm2_vl", "qwen2": "llava_onevision", "qwen3": "internvl",
         "qwen2_vl_text": "qwen2_vl", "qwen2_5_vl_text": "qwen2_5_vl", "qwen3_vl_text": "qwen3_vl",
         "qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe", "minimax_m3_vl_text": "minimax_m3_vl"}


def language_part(kind):
    """The text_config of a golden model by itself, as a person cuts it out, or transformers saves it."""
    whole = json.loads((MODELS / kind / "config.json").read_text())
    text = whole.get("text_config") or {k: v for k, v in whole.items() if k != "vision_config"} | {"model_type": f"{whole['model_type']}_text"}
    return text | {k: whole[k] for k in ("tie_word_embeddings",) if k in whole}


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_of_the_language_part_alone(lamina, kind, tmp_path):
    """It describes the same model as the whole, without a word about other parts."""
    whole = json.loads(run(lamina, "inspect", MODELS / kind / "config.json", "--json").stdout)
    done = described(lamina, tmp_path, json.dumps(language_part(kind)))
    assert done.returncode == 0 and "ignored" not in done.stderr, done.stderr
    model = json.loads(done.stdout)
    same = ("architecture", "attention", "mlp", "rope", "parameters", "kv", "flops")
    assert {k: model[k] for k in same} == {k: whole[k] for k in same}


@pytest.mark.parametrize("kind", ["gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_a_folder_of_the_language_part_alone(lamina, kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(language_part(kind)))
    data = (MODELS / kind / "model.safetensors").read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    head = json.loads(data[8:8 + n])
    names = {k: k.removeprefix("language_model.").replace("model.language_model.", "model.") for k in head
             if "vis" not in k and "projector" not in k and k != "__metadata__"}
    out, body = {}, b""
    for k, name in names.items():
        begin, end = head[k]["data_offsets"]
        out[name] = head[k] | {"data_offsets": [len(body), len(body) + end - begin]}
        body += data[8 + n + begin:8 + n + end]
    text = json.dumps(out).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    assert "ignored" not in agree(lamina, tmp_path, *golden(MODELS / kind))


@pytest.mark.parametrize("name", CLASSES)
def test_missing_keys_of_a_text_config_have_the_class_defaults(lamina, name, tmp_path):
    """Google publishes Gemma 3 4B without vocab_size and heads. A description that contains every default gives the same model."""
    family = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3"}.get(name, name)
    whole = {k: v for k, v in CLASSES[name].items() if v is not None} | {"model_type": family}
    texts = [config({"model_type": name}, WHOLE[name]), json.dumps(whole)]
    if name.endswith("_text"):
        texts.append(json.dumps({"model_type": name}))                       # text_config alone
    models = []
    for text in texts:
        done = described(lamina, tmp_path, text)
        assert done.returncode == 0, done.stderr
        model = json.loads(done.stdout)
        models.append({k: v for k, v in model.items() if k not in ("warnings", "source", "fingerprint", "departures", "config")})
    differ = [k for m in models[1:] for k in models[0].keys() | m.keys() if models[0].get(k) != m.get(k)]
    assert not differ


def test_gemma_3_4b_as_published(lamina, tmp_path):
    """The language model has 3.88 billion parameters (arXiv 2503.19786, table 1: 675M of embedding with 262k tokens and 3,209M others)."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}
    done = described(lamina, tmp_path, config(text, eos_token_id=[1, 106], torch_dtype="bfloat16", mm_tokens_per_image=256))
    assert "3880263168" in done.stdout, done.stderr


@pytest.mark.parametrize("text,words", [
    (config({"model_type": "mllama_text_model"}, "mllama"), 'the language model of "mllama" is not read alone'),
    (config({"model_type": "gemma"}, "paligemma"), 'the language model of "paligemma" is not read alone'),
    (config({"model_type": "cohere2"}, "aya_vision"), 'the language model of "aya_vision" is not read alone'),
    (json.dumps({"model_type": "mllama_text_model", "hidden_size": 8}), 'unknown model family "mllama_text_model"'),
    (config({"model_type": "no_such"}), 'unknown model family "no_such"'), (json.dumps({"model_type": "gemma3"}), "text_config"),
    (config({"model_type": "gemma3_text", "attn_logit_softcapping": 30.0}), "attn_logit_softcapping"),
    (config({"model_type": "gemma3_text"}, quantization_config={"quant_method": "gptq"}), "quantised by gptq"),
])
def test_impossible_values_are_rejected_in_one_line(lamina, tmp_path, text, words):
    done = described(lamina, tmp_path, text)
    if "quantization" in text:       # a description is accepted, weights are rejected
        folder = tmp_path / "m"
        shutil.copytree(MODELS / "gemma3", folder)
        (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | {"quantization_config": {"quant_method": "gptq"}}))
        done = run(lamina, "run", folder, "-p", "a")
    assert done.returncode and words in done.stderr, done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error")]) == 1
