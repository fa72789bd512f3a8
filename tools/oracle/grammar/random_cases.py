#!/usr/bin/env python3
"""Random schemas and random values, as Python's `jsonschema` decides them: tests/golden/grammar/random.jsonl.

`random_cases.py OUT LEAST` needs jsonschema. Schemas combine the supported keywords; values are made close to the schema, so that some are
valid and some are not. A stricter grammar may reject valid values, but it must never accept invalid ones. LEAST: minimum number
of values that are decided as by jsonschema.
"""
import json
import random
import sys

from jsonschema import Draft202012Validator

STRINGS = ["", "a", "ab", "abc", "b1", "2", "é", "日本", "x y", "a\"b", "long string here", "2024-02-29", "A-1", "\n"]
NUMBERS = [0, 1, -1, 2, 3, 5, 7, 10, 12, 100, -3, 0.5, 1.5, -2.25, 0.1, 99.99, 1000000, -17]
NAMES = ["a", "b", "c", "ab", "x1", "name"]
PATTERNS = ["^a", "b$", "^[a-z]+$", "[0-9]", "^(a|b)*$", "a.c", "^.{2,3}$", "^[^0-9]*$"]


def scalar(r):
    return r.choice([None, True, False, r.choice(STRINGS), r.choice(NUMBERS), r.choice(NUMBERS)])


def value(r, depth=0):
    kind = r.random()
    if depth > 2 or kind < 0.6:
        return scalar(r)
    if kind < 0.8:
        return [value(r, depth + 1) for _ in range(r.randint(0, 3))]
    return {n: value(r, depth + 1) for n in r.sample(NAMES, r.randint(0, 3))}


def maybe(r, p, schema, key, make):
    if r.random() < p:
        schema[key] = make()


def string_schema(r):
    s = {"type": "string"}
    maybe(r, 0.4, s, "minLength", lambda: r.randint(0, 3))
    maybe(r, 0.4, s, "maxLength", lambda: r.randint(1, 6))
    maybe(r, 0.4, s, "pattern", lambda: r.choice(PATTERNS))
    return s


def number_schema(r):
    s = {"type": r.choice(["number", "integer"])}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        maybe(r, 0.25, s, key, lambda: r.choice(NUMBERS))
    maybe(r, 0.2, s, "multipleOf", lambda: r.choice([1, 2, 3, 0.5, 0.25, 7, 10]))
    return s


def array_schema(r, depth):
    s = {"type": "array"}
    maybe(r, 0.3, s, "prefixItems", lambda: [schema(r, depth + 1) for _ in range(r.randint(1, 2))])
    maybe(r, 0.7, s, "items", lambda: schema(r, depth + 1))
    maybe(r, 0.3, s, "minItems", lambda: r.randint(0, 2))
    maybe(r, 0.3, s, "maxItems", lambda: r.randint(0, 3))
    return s


def object_schema(r, depth):
    s = {"type": "object"}
    maybe(r, 0.8, s, "properties", lambda: {n: schema(r, depth + 1) for n in r.sample(NAMES, r.randint(1, 3))})
    maybe(r, 0.5, s, "required", lambda: r.sample(NAMES, r.randint(0, 2)))
    maybe(r, 0.5, s, "additionalProperties", lambda: r.choice([True, False, schema(r, depth + 1)]))
    maybe(r, 0.2, s, "patternProperties", lambda: {r.choice(["^a", "b$", "^x"]): schema(r, depth + 1)})
    maybe(r, 0.2, s, "propertyNames", lambda: r.choice([{"maxLength": 1}, {"pattern": "^[a-z]+$"}, {"enum": ["a", "b", "ab"]}]))
    maybe(r, 0.2, s, "minProperties", lambda: r.randint(0, 2))
    maybe(r, 0.2, s, "maxProperties", lambda: r.randint(0, 3))
    maybe(r, 0.1, s, "dependentRequired", lambda: {r.choice(NAMES): [r.choice(NAMES)]})
    return s


def schema(r, depth=0):
    kind = r.random()
    if kind < 0.05:
        return r.choice([True, {}])
    if kind < 0.15:
        return {"enum": [value(r, 1) for _ in range(r.randint(1, 3))]}
    if depth < 2 and kind < 0.33:
        key = r.choice(["anyOf", "allOf", "oneOf", "not"])
        s = {key: schema(r, depth + 1) if key == "not" else [schema(r, depth + 1) for _ in range(2)]}
        if r.random() < 0.3:
            s["type"] = r.choice(["string", "number", "object", ["string", "null"]])
        return s
    if depth < 2 and kind < 0.38:
        s = {"if": schema(r, depth + 1), "then": schema(r, depth + 1)}
        maybe(r, 0.5, s, "else", lambda: schema(r, depth + 1))
        return s
    if kind < 0.55 or depth > 2:
        s = string_schema(r)
    elif kind < 0.7:
        s = number_schema(r)
    elif kind < 0.8:
        s = array_schema(r, depth)
    else:
        s = object_schema(r, depth)
    if r.random() < 0.2:
        del s["type"]
    return s


def near(r, s, depth=0):
    """Return a value that is likely to be valid."""
    if not isinstance(s, dict) or depth > 4 or r.random() < 0.15:
        return value(r, depth)
    if "enum" in s:
        return r.choice(s["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in s:
            return near(r, r.choice(s[key]), depth)
    t = s.get("type") or ("object" if "properties" in s or "required" in s else "array" if "items" in s else None)
    if isinstance(t, list):
        t = r.choice(t)
    if t == "string":
        return r.choice(STRINGS)
    if t == "integer":
        return r.choice([n for n in NUMBERS if isinstance(n, int)])
    if t == "number":
        return r.choice(NUMBERS)
    if t == "array":
        return [near(r, s.get("items"), depth + 1) for _ in range(r.randint(0, 3))]
    if t == "object":
        names = set(s.get("required", [])) | {n for n in NAMES if r.random() < 0.3}
        return {n: near(r, s.get("properties", {}).get(n, s.get("additionalProperties")), depth + 1) for n in sorted(names)}
    return value(r, depth)


def main(out, least):
    r, lines = random.Random(2026), []
    while len(lines) < 600:
        s = schema(r)
        validator = Draft202012Validator(s)
        values = {json.dumps(v): v for v in [near(r, s) for _ in range(14)] + [value(r) for _ in range(4)]}
        maybe_, reject = [], []
        for v in values.values():
            texts = [json.dumps(v, ensure_ascii=False, separators=(",", ":")), json.dumps(v, ensure_ascii=False)]
            (maybe_ if validator.is_valid(v) else reject).append(list(dict.fromkeys(texts)))
        literal = len(lines) % 3
        lines.append({"name": f"random {len(lines)}", "kind": "schema", "text": json.dumps(s, ensure_ascii=False), "refused": "",
                      "options": {"any_order": literal > 0, "open": literal > 1}, "maybe": maybe_, "reject": reject})
    lines.append({"least": int(least)})
    with open(out, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(x, ensure_ascii=False) + "\n" for x in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
