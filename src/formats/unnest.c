/* unnest.c - reduce the container of a vision-language model to its language model. */
#include "formats/containerimpl.h"

#include <string.h>

#include "base/alloc.h"
#include "formats/nested.h"

/* Return the size of the first words of a name, which identify the part that a tensor belongs to. */
static size_t part_size(const char *name)
{
    size_t inner = strncmp(name, "model.", 6) == 0 ? 6 : 0;

    return inner + strcspn(name + inner, ".");
}

static void note_part(lm_text *parts, const char *name)
{
    size_t n = part_size(name);

    for (const char *at = parts->data; at && *at; at += strcspn(at, ",") + 2) {
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0)
            return;
        if (!at[strcspn(at, ",")])
            break;
    }
    if (parts->size < 256)
        lm_text_printf(parts, "%s%.*s", parts->size ? ", " : "", (int)(n < 64 ? n : 64), name);
}

/* Name the tensors as in the language model alone; remove and note those of other parts. */
static lm_status keep_language_model(lm_container *c, bool prefixed, lm_text *note, lm_error *e)
{
    char    buffer[1100];
    lm_text parts = { 0 };
    size_t  kept = 0, had = c->n_tensors;

    for (size_t i = 0; i < had; i++) {
        const char *name = lm_nested_name(c->tensors[i].name, prefixed, buffer, sizeof buffer);
        if (!name) {
            note_part(&parts, c->tensors[i].name);
            continue;
        }
        c->tensors[kept]      = c->tensors[i];
        c->tensors[kept].name = name == buffer ? lm_arena_strdup(&c->arena, name) : name;
        if (!c->tensors[kept++].name) {
            lm_text_free(&parts);
            return lm_fail_memory(e, "a tensor's name", sizeof buffer);
        }
    }
    c->n_tensors = kept;
    if (had > kept)
        lm_text_printf(note, ", %zu tensors (%s)", had - kept, parts.data ? parts.data : "");
    lm_text_free(&parts);
    lm_map_free(c->by_name);
    c->by_name = NULL;
    return lm_container_seal(c, e);
}

/* Return 1 if the weights have a separate head, 0 if they have none, -1 if there are no weights. */
static int has_head(const lm_container *c)
{
    for (size_t i = 0; i < c->n_tensors; i++)
        if (strcmp(c->tensors[i].name, "lm_head.weight") == 0 ||
            strcmp(c->tensors[i].name, "language_model.lm_head.weight") == 0)
            return 1;
    return c->n_tensors ? 0 : -1;
}

lm_status lm_container_unnest(lm_container *c, const char *name, lm_error *e)
{
    lm_text      note = { 0 };
    lm_json_file *d = NULL;
    lm_view      text;
    bool         prefixed = false;
    lm_status    status;

    LM_TRY(lm_container_text(c, name, &text, e));
    LM_TRY(lm_container_document(c, name, &d, e));
    const char *before = d->text;
    LM_TRY_GOTO(status, lm_nested_config(&d->text, &d->size, lm_meta_file(c->meta), has_head(c), &note, e),
                done);
    if (d->text == before)
        goto done;
    if (d->meta)
        lm_meta_free(d->meta);
    else
        lm_meta_free(c->meta);
    d->meta          = c->meta = NULL;
    d->parsed        = true;
    c->meta_borrowed = true;
    char *path = lm_arena_printf(&c->arena, "%s/%s", c->folder, name);
    LM_TRY_GOTO(status,
                path ? lm_meta_from_json(d->text, d->size, path, LM_JSON_DEPTH, &d->meta, e)
                     : lm_fail_memory(e, name, 0),
                done);
    c->meta = d->meta;
    if (!note.size)                      /* it describes the language model only */
        goto done;
    for (size_t i = 0; i < c->n_tensors && !prefixed; i++)
        prefixed = lm_nested_prefix(c->tensors[i].name);
    LM_TRY_GOTO(status, keep_language_model(c, prefixed, &note, e), done);
    c->warning = lm_arena_printf(&c->arena, "%s%s%s", c->warning ? c->warning : "", c->warning ? "; " : "",
                                 note.data);
    if (note.failed || !c->warning)
        LM_TRY_GOTO(status, lm_fail_memory(e, "a warning", note.size), done);

done:
    lm_text_free(&note);
    return status;
}
