/* jinja_case.c - character classes and case conversion, as in Python's str. */
#include "text/jinja/jinja.h"

#include <utf8proc.h>

#include "text/jinja/jinja_casing.h"

bool lm_cp_is_space(int32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool lm_cp_is_printable(int32_t c)
{
    if (c < 0x80)
        return c >= 0x20 && c < 0x7F;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default:
        return true;
    }
}

bool lm_cp_is_alpha(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool lm_cp_is_decimal(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }

/* Decimal digits come in runs of ten whose first is zero. */
int lm_cp_digit(int32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9' ? c - '0' : -1;
    if (!lm_cp_is_decimal(c))
        return -1;
    if (c >= 0x1D7CE && c <= 0x1D7FF)                   /* five runs without a gap */
        return (c - 0x1D7CE) % 10;
    int32_t first = c;
    while (c - first < 9 && lm_cp_is_decimal(first - 1))
        first--;
    return (int)(c - first);
}

typedef struct cp_range { int32_t from, to; } cp_range;

static bool is_within(int32_t c, const cp_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].from && c <= ranges[i].to)
            return true;
    return false;
}

bool lm_cp_is_digit(int32_t c)
{
    /* superscripts, subscripts, and digits in circles, in parentheses and with a full stop */
    static const cp_range digits[] = { { 0xB2, 0xB3 },     { 0xB9, 0xB9 },     { 0x2070, 0x2070 },
                                       { 0x2074, 0x2079 }, { 0x2080, 0x2089 }, { 0x2460, 0x2468 },
                                       { 0x2474, 0x247C }, { 0x2488, 0x2490 }, { 0x24EA, 0x24EA },
                                       { 0x24F5, 0x24FD }, { 0x24FF, 0x24FF }, { 0x2776, 0x277E },
                                       { 0x2780, 0x2788 }, { 0x278A, 0x2792 } };

    return lm_cp_is_decimal(c) || is_within(c, digits, sizeof digits / sizeof *digits);
}

bool lm_cp_is_numeric(int32_t c)
{
    static const int32_t ideographs[] = { 0x3007, 0x4E00, 0x4E03, 0x4E07, 0x4E09, 0x4E5D, 0x4E8C,
                                          0x4E94, 0x516B, 0x516D, 0x5341, 0x5343, 0x56DB, 0x767E };
    utf8proc_category_t k = utf8proc_category(c);

    for (size_t i = 0; i < sizeof ideographs / sizeof *ideographs; i++)
        if (ideographs[i] == c)
            return true;
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool lm_cp_is_word(int32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
    return lm_cp_is_alpha(c) || lm_cp_is_numeric(c);
}

static bool is_lower(int32_t c)
{
    /* Other_Lowercase: ordinals, modifier letters, small Roman numerals, circled small letters */
    static const cp_range others[] = { { 0xAA, 0xAA },     { 0xBA, 0xBA },     { 0x2B0, 0x2B8 },
                                       { 0x2C0, 0x2C1 },   { 0x2E0, 0x2E4 },   { 0x345, 0x345 },
                                       { 0x37A, 0x37A },   { 0x1D2C, 0x1D6A }, { 0x1D78, 0x1D78 },
                                       { 0x1D9B, 0x1DBF }, { 0x2071, 0x2071 }, { 0x207F, 0x207F },
                                       { 0x2090, 0x209C }, { 0x2170, 0x217F }, { 0x24D0, 0x24E9 } };

    return utf8proc_category(c) == UTF8PROC_CATEGORY_LL ||
           is_within(c, others, sizeof others / sizeof *others);
}

static bool is_upper(int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
           (c >= 0x24B6 && c <= 0x24CF);
}

bool lm_cp_is_cased(int32_t c)
{
    return is_lower(c) || is_upper(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
}

static bool is_case_ignorable(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
           c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

static const struct jcasing *special(int32_t c)
{
    size_t low = 0, high = sizeof casings / sizeof *casings;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (casings[mid].c < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < sizeof casings / sizeof *casings && casings[low].c == c ? &casings[low] : NULL;
}

static void put_upper(jinja *m, jbuild *b, int32_t c, bool title, bool content)
{
    const struct jcasing *k = c < 0x80 ? NULL : special(c);
    if (!k) {
        lm_jb_char(m, b, title ? utf8proc_totitle(c) : utf8proc_toupper(c), content);
        return;
    }
    const int32_t *to = title ? k->title : k->upper;
    for (int i = 0; i < 3 && to[i]; i++)
        lm_jb_char(m, b, to[i], content);
}

/* Return whether a sigma is final: a cased letter precedes it and none follows, apart from ignorable
 * characters. */
static bool is_final_sigma(const jstr *s, size_t at)
{
    size_t i = at, n;
    bool before = false;

    for (; i > 0; i -= n) {
        int32_t c = lm_cp_before(s->data, i, &n);
        if (!is_case_ignorable(c)) {
            before = lm_cp_is_cased(c);
            break;
        }
    }
    for (i = at + 2; before && i < s->n; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        if (!is_case_ignorable(c))
            return !lm_cp_is_cased(c);
    }
    return before;
}

static void put_lower(jinja *m, jbuild *b, const jstr *s, size_t at, int32_t c, bool content)
{
    if (c == 0x130) {
        lm_jb_char(m, b, 'i', content);
        lm_jb_char(m, b, 0x307, content);
    } else if (c == 0x3A3) {
        lm_jb_char(m, b, is_final_sigma(s, at) ? 0x3C2 : 0x3C3, content);
    } else {
        lm_jb_char(m, b, utf8proc_tolower(c), content);
    }
}

static void put_folded(jinja *m, jbuild *b, int32_t c, bool content)
{
    utf8proc_int32_t folded[4];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(c, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 4; i++)
        lm_jb_char(m, b, folded[i], content);
}

bool lm_jstr_case(jinja *m, const jstr *s, jcase how, const jstr **out)
{
    jbuild b = { 0 };
    bool previous_cased = false;
    jval v;
    size_t n;

    if (!lm_jinja_spend(m, s->n / 64))
        return false;
    for (size_t i = 0; i < s->n; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        bool content = lm_jstr_content_at(s, i);
        if (how == J_UPPER)
            put_upper(m, &b, c, false, content);
        else if (how == J_CASEFOLD)
            put_folded(m, &b, c, content);
        else if ((how == J_TITLE && !previous_cased) || (how == J_CAPITALIZE && i == 0))
            put_upper(m, &b, c, true, content);
        else if (how == J_SWAPCASE && !is_upper(c))
            is_lower(c) ? put_upper(m, &b, c, false, content) : lm_jb_char(m, &b, c, content);
        else
            put_lower(m, &b, s, i, c, content);
        previous_cased = lm_cp_is_cased(c);
    }
    if (!lm_jb_done(m, &b, s->safe, &v))
        return false;
    *out = v.s;
    return true;
}

static bool all_cased(const jstr *s, bool upper)
{
    bool any = false;
    size_t n;
    for (size_t i = 0; i < s->n; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        if (!lm_cp_is_cased(c))
            continue;
        if (upper ? !is_upper(c) : !is_lower(c))
            return false;
        any = true;
    }
    return any;
}

bool lm_jstr_is_lower(const jstr *s) { return all_cased(s, false); }
bool lm_jstr_is_upper(const jstr *s) { return all_cased(s, true); }
