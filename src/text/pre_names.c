/* pre_names.c - the pre-tokenizers that a GGUF names in tokenizer.ggml.pre.
 *
 * The names are llama.cpp's; the stages are those of the models' own tokenizer.json where the two differ (letter case
 * outside ASCII in tekken, NFC in Qwen, digits one by one where the file has Digits). */
#include <string.h>

#include "text/unicode_class.h"
#include "text/vocab_spec.h"

#define CASELESS_ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST             " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3           CASELESS_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" REST
#define QWEN2            CASELESS_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" REST
#define CAPITALS         "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALLS           "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN           "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALLS "+|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALLS "*|\\p{N}|" \
                         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4O_ENDINGS    CASELESS_ENDINGS "?"
#define GPT4O            "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALLS "+" GPT4O_ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALLS "*" \
                         GPT4O_ENDINGS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK3        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
                         " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM            " ?[^(\\s|.,!?…。，、।۔،)]+"
#define CJK              "[一-龥ࠀ-一가-퟿]+"

/* DeepSeek-LLM: letters with case, as ranges, and its own idea of punctuation. */
#define CASED            "\\s?[" \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ" \
    "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-" \
    "Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⲲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-" \
    "ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃" \
    "]+"
#define MARKS            "\\s?[!-/:-~！-／：-～‘-‟　-。]+"

enum { DIGITS_FIRST = 1, DIGITS_LAST = 2, NFC = 4, IGNORE_MERGES = 8, ADD_BOS = 16 };

/* Lists that several names share. */
#define GPT2_LIST   { LM_PATTERN_GPT2 }
#define LLAMA3_LIST { LLAMA3 }

static const struct pre {
    const char *name;
    unsigned    traits;
    const char *patterns[5];        /* each splits the pieces of the one before, matches and gaps alike */
} pres[] = {
    { "default",        0, { "[\\p{P}\\$\\+<=>\\^~\\|]+", LM_PATTERN_GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { "gpt-2",          0, GPT2_LIST },
    { "mpt",            0, GPT2_LIST },
    { "olmo",           0, GPT2_LIST },
    { "phi-2",          0, GPT2_LIST },
    { "jais",           0, GPT2_LIST },
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
    { "dbrx",           0, LLAMA3_LIST },
    { "smaug-bpe",      0, LLAMA3_LIST },
    { "chatglm-bpe",    0, LLAMA3_LIST },
    { "glm4",           0, LLAMA3_LIST },
    { "qwen2",          NFC, { QWEN2 } },
    { "deepseek-r1-qwen", NFC, { QWEN2 } },
    { "megrez",         NFC, { QWEN2 } },
    { "stablelm2",      0, { QWEN2 } },
    { "gpt-4o",         0, { GPT4O } },
    { "llama4",         0, { GPT4O } },
    { "tekken",         IGNORE_MERGES | ADD_BOS, { TEKKEN } },
    { "pixtral",        IGNORE_MERGES | ADD_BOS, { TEKKEN } },
    { "deepseek-llm",   DIGITS_LAST, { "[\r\n]", CASED, MARKS, "\\s+$", CJK } },
    { "deepseek-coder", DIGITS_LAST, { "[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK } },
    { "deepseek-v3",    0, { "\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK3 } },
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
    return lm_pretokenizer_add(p, &(lm_stage){ .kind = LM_STAGE_SPELL }, where, e);
}

lm_status lm_pre_by_name(const char *name, lm_pretokenizer *p, lm_pre_traits *traits, const char *where, lm_error *e)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pres[i].name, name) == 0) {
            *traits = (lm_pre_traits){ pres[i].traits & NFC, pres[i].traits & IGNORE_MERGES, pres[i].traits & ADD_BOS };
            return make(&pres[i], p, where, e);
        }
    lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "the pre-tokenizer '%s' is not known", name);
    return lm_fail_hint(e, "name one that splits text in the same way with --pre: gpt-2, llama-bpe, qwen2, default …");
}
