/* pre_names.c - the pre-tokenizers that a GGUF names in tokenizer.ggml.pre.
 *
 * The names are llama.cpp's; the stages are those of the models' own tokenizer.json where the two differ
 * (letter case outside ASCII in tekken, NFC in Qwen, digits one by one where the file has Digits). */
#include <string.h>

#include "text/unicode/unicode_class.h"
#include "text/vocab_spec.h"

#define CASELESS_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST             " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3           CASELESS_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" REST
#define QWEN2            CASELESS_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" REST
#define QWEN35                                                                              \
    CASELESS_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" \
                     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BAILING                                                                              \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|" \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define CAPITALS         "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALLS           "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN           "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALLS "+|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALLS "*|\\p{N}|" \
                         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4O_ENDINGS    CASELESS_ENDINGS "?"
#define GPT4O                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALLS "+" GPT4O_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS \
    "+" SMALLS "*" GPT4O_ENDINGS                                                                      \
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define KIMI_CAPITALS    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_SMALLS      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI                                                                                        \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_CAPITALS "*" KIMI_SMALLS "+" GPT4O_ENDINGS                \
    "|[^\\r\\n\\p{L}\\p{N}]?" KIMI_CAPITALS "+" KIMI_SMALLS "*" GPT4O_ENDINGS "|\\p{N}{1,3}|" REST
#define DEEPSEEK3                                                                                        \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"
#define CJK   "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

/* AFMoE: digits in threes from the right, and letters of these scripts. llama.cpp has U+8C48, the
 * decomposition of U+F900, where a block begins; U+0ECE is left out, whose stand-in (unicode_class.h) is of
 * another script. */
#define TRIPLES          "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define AFMOE_SCRIPTS                                                                                  \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}" \
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{0E40}-\\x{0E7F}\\x{0E80}-\\x{0ECD}\\x{0ECF}-\\x{0EFF}"  \
    "\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}"  \
    "\\x{1100}-\\x{11FF}]+"

/* DeepSeek-LLM: the cased letters as its file lists them, and its own set of punctuation. */
#define CASED            "\\s?["                                                                             \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"\
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"\
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"\
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"        \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"        \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"\
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"\
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}"\
    "\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"          \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"\
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"         \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"        \
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"\
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"                                        \
    "]+"
#define MARKS            "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"

enum { DIGITS_FIRST = 1, DIGITS_LAST = 2, NFC = 4, IGNORE_MERGES = 8, ADD_BOS = 16 };

/* Lists that several names share. */
#define GPT2_LIST   { LM_PATTERN_GPT2 }
#define LLAMA3_LIST { LLAMA3 }

static const struct pre {
    const char *name;
    unsigned    traits;
    const char *patterns[5];        /* each splits all pieces of the previous one, matches and gaps alike */
} pres[] = {
    { "default",        0, { "[\\p{P}\\$\\+<=>\\^~\\|]+", LM_PATTERN_GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { "gpt-2",          0, GPT2_LIST },
    { "mpt",            0, GPT2_LIST },
    { "olmo",           0, GPT2_LIST },
    { "phi-2",          0, GPT2_LIST },
    { "jais",           0, GPT2_LIST },
    { "granite-docling", 0, GPT2_LIST },
    { "starcoder",      DIGITS_FIRST, GPT2_LIST },
    { "refact",         DIGITS_FIRST, GPT2_LIST },
    { "smollm",         DIGITS_FIRST, GPT2_LIST },
    { "command-r",      DIGITS_FIRST, GPT2_LIST },
    { "codeshell",      DIGITS_FIRST, GPT2_LIST },
    { "exaone",         DIGITS_FIRST, GPT2_LIST },
    { "minerva-7b",     DIGITS_FIRST, GPT2_LIST },
    { "llama-bpe",      IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "llama3",         IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "llama-v3",       IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "falcon3",        IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "falcon-h1",      IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "lfm2",           IGNORE_MERGES | ADD_BOS, LLAMA3_LIST },
    { "dbrx",           0, LLAMA3_LIST },
    { "smaug-bpe",      0, LLAMA3_LIST },
    { "chatglm-bpe",    0, LLAMA3_LIST },
    { "glm4",           0, LLAMA3_LIST },
    { "qwen2",          NFC, { QWEN2 } },
    { "deepseek-r1-qwen", NFC, { QWEN2 } },
    { "megrez",         NFC, { QWEN2 } },
    { "qwen35",         NFC, { QWEN35 } },
    { "bailingmoe",     0, { BAILING } },
    { "bailingmoe2",    0, { BAILING } },
    { "stablelm2",      0, { QWEN2 } },
    { "gpt-4o",         0, { GPT4O } },
    { "llama4",         0, { GPT4O } },
    { "minimax-m2",     0, { GPT4O } },
    { "kimi-k2",        0, { KIMI } },
    { "tekken",         IGNORE_MERGES | ADD_BOS, { TEKKEN } },
    { "pixtral",        IGNORE_MERGES | ADD_BOS, { TEKKEN } },
    { "deepseek-llm",   DIGITS_LAST, { "[\r\n]", CASED, MARKS, "\\s+$", CJK } },
    { "deepseek-coder", DIGITS_LAST, { "[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK } },
    { "deepseek-v3",    0, { "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3 } },
    { "afmoe",          0, { TRIPLES, AFMOE_SCRIPTS, DEEPSEEK3 } },
    { "laguna",         0, { "[^\n]+|[\n]+", QWEN2 } },
    { "tiny_aya",       0, { "\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O } },
    { "cohere2moe",     0, { "\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O } },
    { "bloom",          0, { BLOOM } },
    { "gpt3-finnish",   0, { BLOOM } },
    { "poro-chat",      0, { BLOOM } },
    { "viking",         DIGITS_LAST, { BLOOM } },
    { "falcon",         0, { "[\\p{P}\\$\\+<=>\\^~\\|`]+", LM_PATTERN_GPT2, "[0-9][0-9][0-9]" } },
};

static lm_status make(const struct pre *pre, lm_pretokenizer *p, const char *where, lm_error *e)
{
    if (pre->traits & DIGITS_FIRST)
        LM_TRY(lm_pretokenizer_add_class(p, lm_is_numeric, LM_ISOLATED, where, e));
    for (size_t i = 0; i < sizeof pre->patterns / sizeof *pre->patterns && pre->patterns[i]; i++)
        LM_TRY(lm_pretokenizer_add_split(p, pre->patterns[i], LM_ISOLATED, where, e));
    if (pre->traits & DIGITS_LAST)
        LM_TRY(lm_pretokenizer_add_class(p, lm_is_numeric, LM_ISOLATED, where, e));
    return lm_pretokenizer_add(p, &(lm_pre_stage){ .kind = LM_STAGE_SPELL }, where, e);
}

static const struct pre *find(const char *name)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pres[i].name, name) == 0)
            return &pres[i];
    return NULL;
}

const char *lm_pre_pattern(const char *name, size_t i)
{
    const struct pre *pre = find(name);

    return pre && i < sizeof pre->patterns / sizeof *pre->patterns ? pre->patterns[i] : NULL;
}

int lm_pre_digits(const char *name)
{
    const struct pre *pre = find(name);

    return !pre ? 0 : pre->traits & DIGITS_FIRST ? -1 : pre->traits & DIGITS_LAST ? 1 : 0;
}

bool lm_pre_is_plain(const char *name)
{
    const char *first = lm_pre_pattern(name, 0);

    return first && !lm_pre_digits(name) && !lm_pre_pattern(name, 1) && strcmp(first, LM_PATTERN_GPT2) == 0;
}

const char *lm_pre_name(size_t i)
{
    return i < sizeof pres / sizeof *pres ? pres[i].name : NULL;
}

lm_status lm_pre_by_name(const char *name, lm_pretokenizer *p, lm_pre_traits *traits, const char *where,
                         lm_error *e)
{
    const struct pre *pre = find(name);

    if (pre) {
        *traits = (lm_pre_traits){ pre->traits & NFC, pre->traits & IGNORE_MERGES, pre->traits & ADD_BOS };
        return make(pre, p, where, e);
    }
    lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "unknown pre-tokenizer '%s'", name);
    lm_fail_hint(e,
                 "use `pre` to name one that splits text the same way: gpt-2, llama-bpe, qwen2, default …");
    return LM_UNSUPPORTED;
}
