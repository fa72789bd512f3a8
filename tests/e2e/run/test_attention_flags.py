"""--mla and --sliding-window on the command line: they change how attention is computed."""
import json

import pytest
from conftest import SOURCE, explains, run

GOLDEN = SOURCE / "tests/golden"


@pytest.fixture(scope="module")
def verify(build):
    def call(model, *flags):
        folder = GOLDEN / model
        done = run(build / "src/cli/lamina", "verify", folder, folder / "golden.safetensors", "--json", *flags)
        return done, json.loads(done.stdout) if done.stdout else None
    return call


def test_both_forms_of_latent_attention(verify):
    for form in ("absorbed", "naive"):
        done, j = verify("deepseek_v2/groups", "--mla", form)
        assert done.returncode == 0 and j["agrees"] and j["max_rel_err"] < 1e-4, form
        assert j["bitwise"] == {"chunked": True, "stepwise": True}
    assert "no effect" not in done.stderr


@explains
def test_the_cache_holds_latents(build):
    elements = {}
    for form in ("absorbed", "naive"):
        done = run(build / "src/cli/lamina", "inspect", GOLDEN / "deepseek_v2/groups", "--json", "--mla", form)
        elements[form] = json.loads(done.stdout)["kv"]["elements_per_token"]
    assert elements == {"absorbed": 3 * (24 + 8), "naive": 3 * 4 * (12 + 8 + 10)}


def test_a_form_without_latents_is_mentioned(verify):
    done, j = verify("llama/gqa", "--mla", "naive")
    assert j["agrees"] and "no latent attention" in done.stderr


def test_a_form_that_does_not_exist(verify):
    done, j = verify("deepseek_v2/groups", "--mla", "expanded")
    assert done.returncode == 2 and j["error"]["where"] == "--mla"
    assert '"expanded" is not one of absorbed, naive' in done.stderr


def test_another_window_is_used_and_mentioned(verify):
    done, j = verify("mistral/window", "--sliding-window", "5")
    assert j["agrees"] and "differs from the file's" not in done.stderr           # the file's own window
    for window in ("6", "-1"):
        done, j = verify("mistral/window", "--sliding-window", window)
        assert "was set to a value that differs from the file's" in done.stderr
        assert done.returncode != 0 and not j["agrees"] and j["max_rel_err"] > 1e-2, window


def test_latents_made_at_random_are_the_same_in_both_containers(build, tmp_path):
    lamina = build / "src/cli/lamina"
    config = json.loads((GOLDEN / "deepseek_v3/corrected/config.json").read_text()) | {"vocab_size": 300}
    (tmp_path / "config.json").write_text(json.dumps(config))
    reply = set()
    for out in ("made.gguf", "made"):
        assert run(lamina, "synth", tmp_path / "config.json", tmp_path / out, "--type", "f32").returncode == 0
        for form in ("absorbed", "naive"):
            done = run(lamina, "run", "-m", tmp_path / out, "-p", "a lamp", "-n", 12, "--temp", 0, "--ignore-eos", "--compute", "f32",
                       "--kv-type", "f32", "--mla", form)
            assert done.returncode == 0, done.stderr
            reply.add(done.stdout)
    assert len(reply) == 1 and len(reply.pop()) > 12


@explains
def test_no_window_without_a_window(build):
    """A sliding_window that use_sliding_window switches off, as in Qwen2.5's config.json, is not a window."""
    for model, flag, differs in (("qwen2.5-0.5b", "-1", False), ("llama-3.2-1b", "-1", False), ("llama-3.2-1b", "512", True),
                                 ("gemma-2-2b", "-1", True)):
        done = run(build / "src/cli/lamina", "inspect", model, "--sliding-window", flag, "--query", "attention.window")
        assert ("differs from the file's" in done.stderr) == differs, model
        assert done.stdout == ("512\n" if flag == "512" else "null\n")


def test_local_layers_keep_their_rotation_without_a_window(verify):
    """No window and one longer than the sequence cover the same keys, so they give the same logits."""
    errors = {verify("gemma3/rotations", "--sliding-window", window)[1]["max_rel_err"] for window in ("-1", "4000")}
    assert len(errors) == 1
