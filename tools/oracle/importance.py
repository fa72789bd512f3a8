#!/usr/bin/env python3
"""importance.py: importance matrices by llama-imatrix.

    tools/oracle/importance.py LAMINA LLAMA_IMATRIX

Writes NAME.gguf for the models of tests/golden/imatrix/*.json, made by `lamina synth --type f32`, from text.txt in the same folder, in
chunks of 64 tokens, and fused.gguf: gemma4/mixture, whose experts' gate and up are one tensor, in float32 (`lamina quantize`). Prints the
perplexities that llama-imatrix reports. The cache is float32.
"""
import pathlib
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/imatrix"
MODEL = ["-f", str(GOLDEN / "text.txt"), "-c", "64", "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off"]


def main():
    lamina, tool = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        fused = GOLDEN.parent / "gemma4/mixture/model.gguf"
        for source in [*sorted(GOLDEN.glob("*.json")), fused]:
            name = "fused" if source == fused else source.stem
            model = pathlib.Path(folder, name + ".gguf")
            make = ["quantize", str(fused), str(model), "F32"] if source == fused else ["synth", str(source), str(model), "--type", "f32", "-q"]
            subprocess.run([lamina, *make], check=True, stdout=subprocess.DEVNULL)
            done = subprocess.run([tool, "-m", str(model), *MODEL, "-o", str(GOLDEN / f"{name}.gguf"), "--process-output"],
                                  capture_output=True, text=True, check=True)
            print(name, *[line for line in (done.stdout + done.stderr).splitlines() if "Final estimate" in line])


main()
