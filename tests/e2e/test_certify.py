"""lamina certify and verify --certificate: what agreed is recorded and found again; what is not as certified is named."""
import base64
import hashlib
import json
import shutil
import subprocess

import pytest
from conftest import MODEL, SOURCE, run

GOLDEN = SOURCE / "tests/golden"
FOLDER = GOLDEN / "llama/gqa"
LOGITS = FOLDER / "golden.safetensors"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args: run(build / "src/cli/lamina", *args)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    private, public = folder / "key.pem", folder / "public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def passed(r):
    assert r.returncode == 0, r.stderr
    return r.stdout


def failed(r, status, *words):
    assert r.returncode == status and r.stdout == "", (r.returncode, r.stdout, r.stderr)
    errors = [line for line in r.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and all(w in errors[0] for w in words), r.stderr


def lines(path, *records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_a_certificate_has_the_hashes_of_all_files_and_what_agreed(lamina, tmp_path):
    out = tmp_path / "c.json"
    passed(lamina("certify", FOLDER, LOGITS, "-o", out))
    c = json.loads(out.read_text())
    assert [f["name"] for f in c["model"]["files"]] == ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
    for f in [*c["model"]["files"], *c["references"]]:
        data = (FOLDER / f["name"]).read_bytes()
        assert (f["bytes"], f["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert c["references"][0]["kind"] == "logits" and c["references"][0]["max_rel_err"] < c["references"][0]["tol"] == 1e-4
    printed = passed(lamina("verify", FOLDER, LOGITS, "--certificate", out))
    assert "golden.safetensors: agrees again" in printed and "not checked" in printed
    assert json.loads(passed(lamina("verify", FOLDER, "--certificate", out, "--json")))["references"] == [
        {"name": "golden.safetensors", "repeated": False}]


def test_files_in_several_parts_are_all_hashed(lamina, tmp_path):
    passed(lamina("convert", FOLDER, tmp_path / "x.gguf", "--split-max-tensors", 8))
    parts = sorted(tmp_path.glob("*.gguf"))
    assert len(parts) > 1
    c = json.loads(passed(lamina("certify", parts[0], LOGITS)))
    assert sorted(f["name"] for f in c["model"]["files"]) == [p.name for p in parts]


def test_changed_missing_and_additional_files_are_named(lamina, tmp_path):
    model, out = tmp_path / "model", tmp_path / "c.json"
    shutil.copytree(FOLDER, model)
    passed(lamina("certify", model, LOGITS, "-o", out))
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1                                         # the last bit of one weight
    (model / "model.safetensors").write_bytes(weights)
    failed(lamina("verify", model, "--certificate", out), 5, "model.safetensors", "not the file that was certified")
    shutil.copy(FOLDER / "model.safetensors", model)
    (model / "chat_template.jinja").write_text("{{ messages }}")
    failed(lamina("verify", model, "--certificate", out), 5, "chat_template.jinja", "not a file of the model when it was certified")
    (model / "chat_template.jinja").unlink()
    (model / "tokenizer_config.json").unlink()
    failed(lamina("verify", model, "--certificate", out), 5, "tokenizer_config.json", "missing")


def test_a_model_of_one_file_may_be_renamed(lamina, tmp_path):
    out = tmp_path / "c.json"
    passed(lamina("certify", FOLDER / "model.gguf", LOGITS, "-o", out))
    shutil.copy(FOLDER / "model.gguf", tmp_path / "other.gguf")
    passed(lamina("verify", tmp_path / "other.gguf", "--certificate", out))


def test_what_does_not_agree_is_not_certified(lamina, tmp_path):
    out = tmp_path / "c.json"
    failed(lamina("certify", FOLDER, LOGITS, "--tol", "1e-12", "-o", out), 5, "golden.safetensors", "at most 1e-12 is allowed")
    assert list(tmp_path.iterdir()) == []


def test_texts_of_tokenizers_and_templates(lamina, tmp_path):
    texts = [json.loads(line) for line in (GOLDEN / "tokenizer/texts.jsonl").read_text().splitlines()]
    ids = [json.loads(line) for line in (GOLDEN / "tokenizer/smollm2.ids.jsonl").read_text().splitlines()]
    records = [{"text": t, "ids": i} for t, i in zip(texts, ids) if all(isinstance(n, int) for n in i)]
    c = json.loads(passed(lamina("certify", MODEL, lines(tmp_path / "texts.jsonl", *records))))
    assert c["references"][0]["tokenized"] == len(records) > 50
    records[7]["ids"] = records[7]["ids"][:-1]
    failed(lamina("certify", MODEL, lines(tmp_path / "texts.jsonl", *records)), 5, "line 8", f"token {len(records[7]['ids'])} differs", "instead of -1")

    conversations, template = map(json.loads, (GOLDEN / "template/renderings.jsonl").read_text().splitlines()[:2])
    model = tmp_path / "model"
    shutil.copytree(FOLDER, model)
    (model / "chat_template.jinja").write_text(template["source"])
    rendered = [v | {"rendered": r} for v, r in zip(conversations["conversations"].values(), template["renderings"]) if isinstance(r, str)]
    c = json.loads(passed(lamina("certify", model, lines(tmp_path / "rendered.jsonl", *rendered))))
    assert c["references"][0]["rendered"] == len(rendered) > 1
    rendered[1]["rendered"] += "!"
    failed(lamina("certify", model, lines(tmp_path / "rendered.jsonl", *rendered)), 5, "line 2", "differs at byte")


def test_a_signature_is_that_of_openssl(lamina, keys, tmp_path):
    private, public = keys
    out = tmp_path / "c.json"
    passed(lamina("certify", FOLDER, LOGITS, "-o", out, "--key", private))
    subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", out, "-sigfile", f"{out}.sig"], check=True,
                   stdout=subprocess.DEVNULL)
    assert "signature        valid" in passed(lamina("verify", FOLDER, "--certificate", out, "--public-key", public))
    out.write_text(out.read_text().replace("1e-4", "1e-3").replace("0.0001", "0.001"))
    failed(lamina("verify", FOLDER, "--certificate", out, "--public-key", public), 5, "signature")
    (tmp_path / "c.json.sig").unlink()
    failed(lamina("verify", FOLDER, "--certificate", out, "--public-key", public), 1, "c.json.sig")


@pytest.mark.parametrize("key", ["", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n{short}\n-----END PRIVATE KEY-----\n",
                                 "-----BEGIN PRIVATE KEY-----\n{long}\n-----END PRIVATE KEY-----\n", "\0" * 100])
def test_what_is_no_key_is_rejected_before_anything_is_written(lamina, tmp_path, key):
    (tmp_path / "key").write_text(key.format(short=base64.b64encode(bytes(20)).decode(), long=base64.b64encode(bytes(5000)).decode()))
    failed(lamina("certify", FOLDER, LOGITS, "-o", tmp_path / "c.json", "--key", tmp_path / "key"), 2, "no Ed25519 private key")
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


def test_bad_input_and_flags_that_do_not_fit(lamina, keys, tmp_path):
    out = tmp_path / "c.json"
    passed(lamina("certify", FOLDER, LOGITS, "-o", out))
    failed(lamina("certify", FOLDER, LOGITS, "-o", out), 2, "already exists")
    failed(lamina("certify", FOLDER, LOGITS, "--key", keys[0]), 2, "--key", "requires --output")
    failed(lamina("certify", FOLDER, LOGITS, "--cpu", "mmx"), 2, "--cpu", "mmx")
    failed(lamina("certify", FOLDER, lines(tmp_path / "empty.jsonl")), 2, "empty.jsonl", "no lines")
    failed(lamina("certify", FOLDER, lines(tmp_path / "other.jsonl", {"text": "a"})), 2, "line 1", "other.jsonl")
    failed(lamina("certify", FOLDER, lines(tmp_path / "chat.jsonl", {"messages": [], "rendered": ""})), 2, "no chat template")
    for text in ("", "[]", "{}", '{"schema": "lamina.certify/1", "model": {"files": [1]}, "references": [{}]}', "\0"):
        (tmp_path / "bad.json").write_text(text)
        failed(lamina("verify", FOLDER, "--certificate", tmp_path / "bad.json"), 2, "not a certificate")
    failed(lamina("verify", FOLDER, FOLDER / "model.gguf", "--certificate", out), 2, "not a reference of the certificate")
    failed(lamina("verify", FOLDER, LOGITS, "--certificate", out, "--tol", 1), 2, "--tol", "cannot be combined")
    failed(lamina("verify", FOLDER, LOGITS, LOGITS), 2, "several references")
    failed(lamina("verify", FOLDER, LOGITS, "--public-key", keys[1]), 2, "requires --certificate")
