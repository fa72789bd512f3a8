/* dtype_ids.c - type ids and names in files, and error messages for those that lamina does not read. */
#include <inttypes.h>
#include <string.h>

#include "tensor/dtype.h"

typedef struct known_id {
    uint32_t    id;
    const char *name;
} known_id;

/* Former GGUF types that were removed from the format. */
static const known_id removed[] = {
    { 4, "Q4_2" },      { 5, "Q4_3" },       { 31, "Q4_0_4_4" },   { 32, "Q4_0_4_8" },
    { 33, "Q4_0_8_8" }, { 36, "IQ4_NL_4_4" }, { 37, "IQ4_NL_4_8" }, { 38, "IQ4_NL_8_8" },
};

/* Types of ik_llama.cpp with known names; its other ids are recognised by range. */
static const known_id ik_llama[] = {
    { 133, "Q6_0" },   { 134, "IQ1_BN" }, { 135, "IQ2_BN" },  { 137, "IQ2_K" },  { 138, "IQ3_K" },  { 139, "IQ4_K" },
    { 140, "IQ5_K" },  { 141, "IQ6_K" },  { 144, "IQ4_KS" },  { 145, "IQ2_KS" }, { 146, "IQ4_KSS" }, { 151, "Q8_KV" },
    { 152, "IQ5_KS" }, { 153, "IQ2_KT" }, { 154, "IQ3_KT" },  { 155, "IQ4_KT" }, { 156, "IQ3_KS" }, { 157, "IQ2_KL" },
    { 158, "IQ1_KT" },
};

static bool is_ik_llama(uint32_t id)
{
    return (id >= 97 && id <= 99) || (id >= 133 && id <= 158) || (id >= 202 && id <= 233) ||
           (id >= 335 && id <= 399);
}

#define REQUANTIZE "convert the original model again (or dequantise this file with the program that wrote it)"

static const char *name_in(const known_id *list, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].id == id)
            return list[i].name;
    return NULL;
}

static lm_status refuse(uint32_t id, const char *tensor, lm_error *e)
{
    const char *name = name_in(removed, sizeof removed / sizeof removed[0], id);

    if (name) {
        lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET,
                "tensor type %" PRIu32 " (%s%s) was removed from GGUF and cannot be read", id, name,
                id == 36 ? ", or I2_S of ik_llama.cpp" : "");
        lm_fail_hint(e, REQUANTIZE);
        return LM_UNSUPPORTED;
    }

    if (is_ik_llama(id)) {
        name = name_in(ik_llama, sizeof ik_llama / sizeof ik_llama[0], id);
        lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET,
                "tensor type %" PRIu32 " (%s) exists only in ik_llama.cpp", id,
                name ? name : "a layout of its own");
        lm_fail_hint(e, "use the file of a mainline GGUF type such as Q4_K or IQ4_XS, or convert it again");
        return LM_UNSUPPORTED;
    }

    return lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET, "unknown tensor type %" PRIu32, id);
}

lm_status lm_dtype_from_gguf(uint32_t id, const char *tensor, lm_dtype *out, lm_error *e)
{
    /* lamina's own ids are not GGUF ids */
    const lm_dtype_info *t = id < LM_BOOL ? lm_dtype_find(id) : NULL;

    if (!t)
        return refuse(id, tensor, e);
    if (!t->in_files) {
        lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET,
                "tensor type %" PRIu32 " (%s) is a format of activations and does not belong in a file", id,
                t->name);
        lm_fail_hint(e, REQUANTIZE);
        return LM_UNSUPPORTED;
    }
    *out = t->type;
    return LM_OK;
}

lm_status lm_dtype_from_safetensors(const char *name, const char *tensor, lm_dtype *out, lm_error *e)
{
    static const struct {
        const char *name;
        lm_dtype    type;
    } names[] = {
        { "F64", LM_F64 }, { "F32", LM_F32 }, { "F16", LM_F16 }, { "BF16", LM_BF16 }, { "I64", LM_I64 },
        { "I32", LM_I32 }, { "I16", LM_I16 }, { "I8", LM_I8 },   { "U64", LM_U64 },   { "U32", LM_U32 },
        { "U16", LM_U16 }, { "U8", LM_U8 },   { "BOOL", LM_BOOL },
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i].name, name)) {
            *out = names[i].type;
            return LM_OK;
        }
    }
    lm_fail(e, LM_UNSUPPORTED, tensor, LM_NO_OFFSET, "dtype \"%s\" is not supported", name);
    lm_fail_hint(e, "save the model as F32, F16 or BF16");
    return LM_UNSUPPORTED;
}
