"""Sampling settings that a model's files carry: general.sampling.* of GGUF (llama.cpp, common_init_sampler_from_model) and
generation_config.json (transformers, vLLM). They are defaults: flags and members of a request win."""
import json
import shutil

import pytest
from conftest import MODEL, SOURCE, run
from ggufs import keys_and_tensors
from servers import Server

FOLDER = SOURCE / "tests/golden/llama/gqa"
GIVEN = {"temperature": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "repetition_penalty": 1.5}
KEYS = {"temp": 0.25, "top_k": 7, "top_p": 0.5, "min_p": 0.125, "penalty_repeat": 1.5}


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models") / "folder"
    shutil.copytree(FOLDER, made)
    (made / "model.gguf").unlink()
    (made / "generation_config.json").write_text(json.dumps(GIVEN | {"do_sample": True, "max_length": 9}))
    return made


def carried(path):
    keys = keys_and_tensors(path.read_bytes())[0]
    return {k.removeprefix("general.sampling."): v for k, v in keys.items() if k.startswith("general.sampling.")}


def test_conversions_keep_them(lamina, folder, tmp_path):
    assert lamina("convert", folder, tmp_path / "a.gguf").returncode == 0
    assert lamina("quantize", tmp_path / "a.gguf", tmp_path / "b.gguf", "q8_0").returncode == 0
    assert carried(tmp_path / "a.gguf") == carried(tmp_path / "b.gguf") == KEYS
    assert lamina("convert", tmp_path / "b.gguf", tmp_path / "back").returncode == 0
    back = json.loads((tmp_path / "back/generation_config.json").read_text())
    assert {k: back[k] for k in GIVEN} == GIVEN


def test_keys_that_only_llama_cpp_has_survive_a_folder(lamina, folder, build, tmp_path):
    more = {"xtc_probability": 0.5, "xtc_threshold": 0.25, "mirostat": 2, "mirostat_tau": 4.0, "mirostat_eta": 0.5, "penalty_last_n": -1}
    assert lamina("convert", folder, tmp_path / "a.gguf").returncode == 0
    done = run("python3", SOURCE / "scripts/gguf-set", tmp_path / "a.gguf", tmp_path / "b.gguf", *(f"general.sampling.{k}={v}" for k, v in more.items()))
    assert done.returncode == 0, done.stderr
    assert lamina("convert", tmp_path / "b.gguf", tmp_path / "back").returncode == 0
    assert lamina("convert", tmp_path / "back", tmp_path / "c.gguf").returncode == 0
    assert carried(tmp_path / "c.gguf") == KEYS | more


def test_they_are_shown(lamina, folder):
    line = "temperature 0.25, top_k 7, top_p 0.5, min_p 0.125, repetition_penalty 1.5"
    assert lamina("inspect", folder, "--query", "model.sampling").stdout.strip() == line
    assert f"  sampling           {line}\n" in lamina("inspect", folder).stdout
    assert "  sampling  " not in lamina("inspect", FOLDER).stdout


@pytest.mark.parametrize("command", ["run", "chat"])
def test_flags_win(lamina, tmp_path, command):
    """The demo model's file says 0, so every seed gives the same text; a flag that repeats the general default of 0.8 is still a flag."""
    def texts(*flags):
        ask = ("run", MODEL, "-p", "Name a colour.") if command == "run" else ("chat", MODEL)
        given = {} if command == "run" else {"input": "Name a colour.\n"}
        return {lamina(*ask, "-n", 12, "-s", seed, *flags, **given).stdout for seed in range(4)}
    assert texts() == texts("--temp", "0") and len(texts()) == 1
    assert len(texts("--temp", "0.8")) > 1


def test_the_server_has_them_as_defaults(build, folder):
    s = Server(build, "-c", 64, "--top-k", 9, model=folder).ready()
    try:
        params = s.get("/props")[1]["default_generation_settings"]["params"]
        shown = {k: round(params[k], 6) for k in ("temperature", "top_k", "top_p", "min_p", "repeat_penalty")}
        assert shown == {"temperature": 0.25, "top_k": 9, "top_p": 0.5, "min_p": 0.125, "repeat_penalty": 1.5}
        used = s.post("/completion", {"prompt": "a", "n_predict": 1, "top_p": 0.75})[1]["generation_settings"]
        assert (used["temperature"], used["top_p"], used["top_k"]) == (0.25, 0.75, 9)
    finally:
        s.close()


@pytest.mark.parametrize("bad, named", [({"top_p": 7}, "top_p: 7 is outside 0...1"), ({"temperature": "warm"}, "temperature: expected a number"),
                                        ({"top_k": 2.5}, "top_k: 2.5 is not a whole number"), ({"mirostat": 1}, "1 is neither 0 (off) nor 2")])
def test_settings_that_make_no_sense_are_warnings(lamina, folder, tmp_path, bad, named):
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m/generation_config.json").write_text(json.dumps(GIVEN | bad))
    done = lamina("run", tmp_path / "m", "-p", "a", "-n", "1", "--json")
    assert done.returncode == 0
    [warning] = json.loads(done.stdout)["warnings"]
    assert warning.startswith("sampling setting ignored: ") and named in warning
    assert f"warning: {warning}" in done.stderr


def test_null_is_absent(lamina, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m/generation_config.json").write_text(json.dumps({"temperature": None, "top_p": 0.5}))
    assert lamina("inspect", tmp_path / "m", "--query", "model.sampling").stdout.strip() == "top_p 0.5"


@pytest.mark.parametrize("level", [None, "avx2", "ref"])
def test_the_demo_answers_right_at_its_defaults(lamina, level):
    for seed in range(3):
        done = lamina("run", MODEL, "-p", "What is the capital of France?", "-n", 24, "-s", seed, *(["--cpu", level] if level else []))
        assert done.stdout.strip() == "The capital of France is Paris.", done
