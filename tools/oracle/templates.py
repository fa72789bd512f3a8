#!/usr/bin/env python3
"""Chat templates rendered by jinja2 in transformers' own environment -> tests/golden/template/renderings.jsonl.

    tools/oracle/templates.py [--assets build/assets]

The first line contains the names and contexts of the conversations. A line per template follows: {"template": name, "source": text} for
the project's own (tools/oracle/template/sources.py), {"template": name, "asset": path} for real ones, which are read from the fetched
assets and not stored here. "renderings" has one entry per conversation: a string, or null if jinja2 raises.
"""
import argparse
import datetime
import json
import os
import sys
import warnings

import transformers.utils.chat_template_utils as chat

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "template"))
from conversations import CONVERSATIONS  # noqa: E402
from sources import SOURCES  # noqa: E402

REAL = ["tokenizers/llama3_1/tokenizer_config.json", "tokenizers/qwen3/tokenizer_config.json",
        "tokenizers/deepseek_v3/tokenizer_config.json", "smollm2-135m-instruct-q4_1.gguf"]
NOW = datetime.datetime(2025, 3, 9, 8, 5, 7, 123456)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*NOW.timetuple()[:6], NOW.microsecond)


def template_of(path):
    """Return the chat template in a model's file."""
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as f:
            return json.load(f)["chat_template"]
    import gguf

    field = gguf.GGUFReader(path).fields["tokenizer.chat_template"]
    return bytes(field.parts[field.data[0]]).decode("utf-8")


def render(source, context):
    variables = {"tools": None, "documents": None, "add_generation_prompt": False, **context}
    assert variables.pop("now") == NOW.isoformat()
    try:
        text = chat._cached_compile_jinja_template(source).render(**variables)
    except Exception:
        return None
    assert " at 0x" not in text, "a rendering that shows an address"
    return text


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--assets", default="build/assets")
    p.add_argument("--out", default="tests/golden/template/renderings.jsonl")
    a = p.parse_args()

    warnings.simplefilter("ignore")         # Python warns about escapes such as \d
    chat.datetime = Clock
    rows = [{"template": name, "source": text} for name, text in SOURCES.items()]
    rows += [{"template": "real: " + path, "asset": path} for path in REAL]
    errors = 0
    os.makedirs(os.path.dirname(a.out), exist_ok=True)
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(json.dumps({"conversations": CONVERSATIONS}, ensure_ascii=True, separators=(",", ":")) + "\n")
        for row in rows:
            source = row.get("source") or template_of(os.path.join(a.assets, row["asset"]))
            row["renderings"] = [render(source, c) for c in CONVERSATIONS.values()]
            errors += row["renderings"].count(None)
            f.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"{len(rows)} templates x {len(CONVERSATIONS)} conversations, {errors} of them errors -> {a.out}")


if __name__ == "__main__":
    main()
