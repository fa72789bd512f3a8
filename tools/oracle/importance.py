#!/usr/bin/env python3
"""importance.py: importance matrices by llama-imatrix.

    tools/oracle/importance.py LAMINA LLAMA_IMATRIX

Writes NAME.gguf for the models of tests/golden/imatrix/*.json, made by `lamina synth --type f32`, from text.txt in the same folder, in
chunks of 64 tokens. Prints the perplexities that llama-imatrix reports. The cache is float32.
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
        for config in sorted(GOLDEN.glob("*.json")):
            model = pathlib.Path(folder, config.stem + ".gguf")
            subprocess.run([lamina, "synth", str(config), str(model), "--type", "f32", "-q"], check=True)
            done = subprocess.run([tool, "-m", str(model), *MODEL, "-o", str(GOLDEN / f"{config.stem}.gguf"), "--process-output"],
                                  capture_output=True, text=True, check=True)
            print(config.stem, *[line for line in (done.stdout + done.stderr).splitlines() if "Final estimate" in line])


main()
