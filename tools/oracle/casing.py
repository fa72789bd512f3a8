#!/usr/bin/env python3
"""Write src/text/jinja/jinja_casing.h: the characters whose upper or title case is more than one character.

The reference is Python's str.upper and str.title (Unicode's SpecialCasing.txt, unconditional rules)."""
import os
import sys

rows = []
for c in range(sys.maxunicode + 1):
    if 0xD800 <= c < 0xE000:
        continue
    upper, title = chr(c).upper(), chr(c).title()
    if len(upper) > 1 or len(title) > 1:
        cell = lambda s: "{ " + ", ".join("0x%04X" % ord(x) for x in s) + " }"
        rows.append("    { 0x%04X, %s, %s },\n" % (c, cell(upper), cell(title)))
out = os.path.join(os.path.dirname(__file__), "../../src/text/jinja/jinja_casing.h")
with open(out, "w") as f:
    f.write("""/* jinja_casing.h - characters whose upper or title case is more than one character, in rising order.
 * Made by tools/oracle/casing.py. */
#ifndef LM_TEXT_JINJA_CASING_H
#define LM_TEXT_JINJA_CASING_H

#include <stdint.h>

static const struct jcasing { int32_t c, upper[3], title[3]; } casings[] = {
""" + "".join(rows) + """};

#endif
""")
