/* bytelevel.h - GPT-2's byte alphabet: every byte as one printable character.
 *
 * 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68 bytes in rising order are U+0100,
 * U+0101 … so a space is "Ġ" and a line feed "Ċ". (Radford et al. 2019, encoder.py.) */
#ifndef LM_TEXT_BYTELEVEL_H
#define LM_TEXT_BYTELEVEL_H

#include "base/str.h"

/* Return the character of a byte, below U+0144. */
uint32_t lm_bytelevel_char(uint8_t byte);

/* Return the byte of a character, or -1 if it is not in the alphabet. */
int lm_bytelevel_byte(uint32_t cp);

/* Append bytes spelled in the alphabet. */
void lm_bytelevel_spell(lm_text *out, const char *s, size_t n);

/* Append the bytes that `s` spells, or `s` itself if any of its characters is outside the alphabet. */
void lm_bytelevel_read(lm_text *out, const char *s, size_t n);

#endif
