/* folderends.c - the end tokens of a folder as GGUF keys, and of a GGUF file as a folder's list. */
#include "export/vocabulary/folderends.h"

#include "text/ends.h"
#include "text/json_members.h"

static bool has(const lm_folder_ends *ends, int64_t id)
{
    for (uint32_t i = 0; i < ends->n; i++)
        if (ends->ids[i] == id)
            return true;
    return false;
}

static bool add(lm_folder_ends *ends, int64_t id)
{
    if (id < 0 || has(ends, id))
        return true;
    if (ends->n == LM_MAX_ENDS)
        return false;
    ends->ids[ends->n++] = id;
    return true;
}

void lm_folder_ends_listed(const json_t *generation, const json_t *model, uint32_t rows, lm_folder_ends *out)
{
    const json_t *docs[] = { json_object_get(generation, "eos_token_id"),
                             json_object_get(model, "eos_token_id") };
    const json_t *item;
    uint32_t      id;
    size_t        i;

    out->n = 0;
    for (int k = 0; k < 2 && rows; k++) {
        if (lm_whole_number(docs[k], rows - 1, &id))
            add(out, id);
        json_array_foreach(docs[k], i, item) if (lm_whole_number(item, rows - 1, &id)) add(out, id);
    }
}

/* Tokens that end a filled gap always end a generation: they are not listed. */
static bool collect(const lm_tokenizer *t, uint32_t rows, lm_folder_ends *out)
{
    for (lm_token id = 0; id < (lm_token)rows; id++)
        if (lm_tokenizer_is_end(t, id) && !(lm_end_kind(t, id) & LM_ENDS_GAP) && !add(out, id))
            return false;
    return true;
}

typedef struct keys { int64_t eos, eot, eom; } keys;

/* Return whether a reader of the keys finds these end tokens and no others. */
static bool read_back(const lm_folder_ends *ends, const lm_tokenizer *t, uint32_t rows, const keys *k)
{
    unsigned open = (k->eot < 0 ? LM_ENDS_TURN : 0) | (k->eom < 0 ? LM_ENDS_CALL : 0);

    for (lm_token id = 0; id < (lm_token)rows; id++) {
        bool found = id == k->eos || id == k->eot || id == k->eom || (t && (lm_end_kind(t, id) & open));
        if (found != has(ends, id))
            return false;
    }
    return true;
}

/* Find the end token for a key: one whose spelling is of its kind, otherwise the first one that is left. */
static int64_t pick(const lm_folder_ends *ends, const lm_tokenizer *t, unsigned kind, unsigned other,
                    int64_t a, int64_t b)
{
    int64_t found = -1;

    for (uint32_t i = 0; i < ends->n; i++) {
        unsigned named = t ? lm_end_kind(t, (lm_token)ends->ids[i]) : 0;
        if (ends->ids[i] == a || ends->ids[i] == b)
            continue;
        if (named & kind)
            return ends->ids[i];
        if (found < 0 && !(named & other))
            found = ends->ids[i];
    }
    return found;
}

static void add_list(lm_gguf_writer *w, const lm_folder_ends *ends, lm_text *notes)
{
    int32_t ids[LM_MAX_ENDS];

    lm_text_add_str(notes, "the end tokens");
    for (uint32_t i = 0; i < ends->n; i++) {
        ids[i] = (int32_t)ends->ids[i];
        lm_text_printf(notes, "%s %d", i ? "," : "", ids[i]);
    }
    lm_text_add_str(notes, " are in the key " LM_ENDS_KEY ", which other programs do not read\n");
    lm_gguf_add_i32s(w, LM_ENDS_KEY, ids, ends->n);
}

lm_status lm_add_end_keys(lm_gguf_writer *w, const lm_tokenizer *t, const lm_folder_ends *listed,
                          uint32_t rows, int64_t *eos, lm_text *notes, lm_error *e)
{
    lm_folder_ends ends = { 0 };
    keys           k    = { -1, -1, -1 };

    if (t && !collect(t, rows, &ends))
        return lm_fail(e, LM_UNSUPPORTED, "eos_token_id", LM_NO_OFFSET, "more than %d end tokens",
                       LM_MAX_ENDS);
    if (!t)
        ends = *listed;
    if (*eos < 0 && ends.n)
        *eos = ends.ids[0];
    k.eos = *eos;
    if (!ends.n || read_back(&ends, t, rows, &k))
        return LM_OK;
    k.eot = pick(&ends, t, LM_ENDS_TURN, LM_ENDS_CALL, k.eos, -1);
    k.eom = pick(&ends, t, LM_ENDS_CALL, 0, k.eos, k.eot);
    /* eos again: no other token of the kind is an end */
    if (k.eot < 0)
        k.eot = k.eos;
    if (k.eom < 0 && !read_back(&ends, t, rows, &k))
        k.eom = k.eos;
    lm_gguf_add_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)k.eot);
    if (k.eom >= 0)
        lm_gguf_add_u32(w, "tokenizer.ggml.eom_token_id", (uint32_t)k.eom);
    if (!read_back(&ends, t, rows, &k))
        add_list(w, &ends, notes);
    return LM_OK;
}

json_t *lm_ends_of_file(const lm_meta *m, const lm_tokenizer *t)
{
    lm_folder_ends ends = { 0 };
    lm_end_keys    read = { 0 };
    lm_meta_value  v;

    if (lm_meta_get(m, "tokenizer.ggml.eos_token_id", &v) && v.kind == LM_META_UINT && v.u < INT32_MAX)
        add(&ends, (int64_t)v.u);
    if (t)
        collect(t, lm_tokenizer_size(t), &ends);
    else if (lm_end_keys_read(m, INT32_MAX, &read, NULL) == LM_OK)
        for (uint32_t i = 0; i < read.n; i++)
            add(&ends, read.ids[i]);
    if (!ends.n)
        return NULL;
    if (ends.n == 1)
        return json_integer((json_int_t)ends.ids[0]);
    json_t *list = json_array();
    for (uint32_t i = 0; i < ends.n; i++)
        json_array_append_new(list, json_integer((json_int_t)ends.ids[i]));
    return list;
}
