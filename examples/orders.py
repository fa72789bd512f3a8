#!/usr/bin/env python3
"""orders.py: a small set of data to fine-tune a model on, and questions that tell whether it has learnt it.

    examples/orders.py FOLDER

Orders in plain words, and the code that a shop writes for them: who|what|how many|day|p or d (picked up or delivered). FOLDER gets
orders.jsonl, conversations to train on; and questions.jsonl, for `lamina eval choices`: other orders, each with its code and three that differ
from it in one thing (the number, the day, or the order of the parts). The same files every time. docs/guide/training.md has the rest of the story."""
import json
import pathlib
import random
import sys

NAMES = "Anna Ben Carla David Elena Frank Grace Hugo Irene Jonas Karin Luis Maria Nils Olga Peter".split()
GOODS = "apples candles chairs cups lamps pens plates roses shirts spoons tables towels".split()
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday".split()
FORMS = ["{name} wants {number} {goods} on {day}, {how}.", "On {day}, {number} {goods} for {name}, {how}.",
         "Please note {number} {goods} for {name} on {day}, {how}.", "{number} {goods}, {how}, {day}, for {name}."]
HOW = {"d": ["delivered", "to be delivered"], "p": ["to be picked up", "picked up at the shop"]}
SYSTEM = "Write the code of the order."


def code(name, goods, number, day, how):
    return f"{name[:3].lower()}|{goods}|{number}|{day[:2].lower()}|{how}"


def main():
    draw = random.Random(5)
    orders = [(n, g, k, d, h) for n in NAMES for g in GOODS for k in range(1, 13) for d in DAYS for h in HOW]
    draw.shuffle(orders)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines, questions = [], []
    for i, (name, goods, number, day, how) in enumerate(orders[:360]):
        text = draw.choice(FORMS).format(name=name, goods=goods, number=NUMBERS[number - 1], day=day, how=draw.choice(HOW[how]))
        text = text[0].upper() + text[1:]
        right = code(name, goods, number, day, how)
        if i < 300:
            lines.append({"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}, {"role": "assistant", "content": right}]})
            continue
        wrong = [code(name, goods, number % 12 + 1, day, how), code(name, goods, number, DAYS[(DAYS.index(day) + 1) % 6], how),
                 f"{goods}|{name[:3].lower()}|{number}|{day[:2].lower()}|{how}"]
        answer = draw.randrange(4)
        choices = wrong[:answer] + [right] + wrong[answer:]
        context = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in (("system", SYSTEM), ("user", text))) + "<|im_start|>assistant\n"
        questions.append({"context": context, "choices": choices, "answer": answer})
    for file, records in (("orders.jsonl", lines), ("questions.jsonl", questions)):
        (folder / file).write_text("".join(json.dumps(r) + "\n" for r in records))


main()
