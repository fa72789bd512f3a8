/* conversion.c - lm_convert: choose the conversion for a model. */
#include "export/convert/conversion.h"

#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"

/* ---- options ---- */

static lm_status read_type(lm_conversion *c, bool gguf, lm_error *e)
{
    static const char *const names[] = { "f32", "f16", "bf16", "q8_0" };
    const char              *requested = c->o->type ? c->o->type : "auto";
    const lm_dtype_info     *type      = lm_dtype_named(requested);

    if (strcmp(requested, "auto") == 0)
        return LM_OK;
    for (size_t i = 0; type && i < (gguf ? 4 : 3); i++)
        if (strcmp(type->name, names[i]) == 0) {
            c->requested = type->type;
            c->type      = &c->requested;
            return LM_OK;
        }
    lm_fail(e, LM_USAGE, "type", LM_NO_OFFSET, "\"%s\" is not one of f32, f16, bf16, %sauto", requested,
            gguf ? "q8_0, " : "");
    return gguf ? lm_fail_hint(e, "quantising the converted file creates other types") : LM_USAGE;
}

static lm_status run(lm_conversion *c, lm_error *e)
{
    bool gguf_out = lm_view_ends(lm_view_of(c->out), LM_VIEW(".gguf"));

    if (!*c->out)
        return lm_fail(e, LM_USAGE, "OUT", LM_NO_OFFSET, "the file name is empty");
    LM_TRY(read_type(c, gguf_out, e));
    LM_TRY(lm_container_open(c->in, NULL, &c->container, e));
    if (lm_container_warning(c->container))
        lm_text_printf(&c->notes, "%s\n", lm_container_warning(c->container));
    if (lm_container_kind_of(c->container) == LM_GGUF)
        return gguf_out ? lm_convert_gguf_again(c, e) : lm_convert_to_folder(c, e);
    if (gguf_out)
        return lm_convert_to_gguf(c, e);
    lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "a folder becomes a GGUF file: end the name in .gguf");
    return lm_fail_in(e, c->out);
}

/* ---- result ---- */

static lm_status give(lm_conversion *c, double seconds, lm_convert_result *r, lm_error *e)
{
    lm_converted_tensor *list = lm_arena_new(&c->arena, c->n + 1, lm_converted_tensor);
    uint64_t             bytes = 0;
    size_t               n_notes;
    const char *const   *notes = lm_arena_lines(&c->arena, c->notes.data, c->notes.size, &n_notes);

    if (!list || !notes || c->notes.failed)
        return lm_fail_memory(e, "a result", c->n * sizeof *list);
    for (size_t i = 0; i < c->n; i++) {
        const lm_moved *t = &c->tensors[i];
        list[i] = (lm_converted_tensor){ .name = t->name,
                                         .from = lm_dtype_of(t->from)->name,
                                         .to = lm_dtype_of(t->to)->name,
                                         .elements = t->elements,
                                         .bytes = t->bytes,
                                         .part = t->part };
        bytes += t->bytes;
    }
    *r = (lm_convert_result){ .path = c->path,
                              .family = c->family,
                              .tensors = list,
                              .n_tensors = c->n,
                              .notes = notes,
                              .n_notes = n_notes,
                              .bytes = bytes,
                              .files = c->files,
                              .seconds = seconds,
                              .impl = c };
    return LM_OK;
}

static void end(lm_conversion *c)
{
    lm_moving_end(&c->moving);
    lm_gguf_view_close(c->carrier);
    lm_container_close(c->container);
    lm_text_free(&c->notes);
    lm_arena_free(&c->arena);
    lm_free(c);
}

lm_status lm_convert(const char *in, const char *out, const lm_convert_options *o, lm_convert_result *result,
                     lm_error *e)
{
    LM_REQUIRE(e, in && out);
    LM_CHECK_RESERVED(e, o);
    static const lm_convert_options defaults;
    lm_conversion *c     = lm_alloc_zero(1, sizeof *c);
    double         start = lm_clock_seconds();

    if (!c)
        return lm_fail_memory(e, in, sizeof *c);
    c->o                   = o ? o : &defaults;
    c->in                  = in;
    c->out                 = out;
    c->moving.clamp        = c->o->clamp;
    c->moving.notes        = &c->notes;
    c->moving.progress     = c->o->progress;
    c->moving.progress_arg = c->o->progress_arg;
    lm_status status       = run(c, e);
    if (status == LM_OK && result) {
        status = give(c, lm_clock_seconds() - start, result, e);
        if (status == LM_OK)
            return LM_OK;
    }
    end(c);
    return status;
}

void lm_convert_free(lm_convert_result *r)
{
    if (r && r->impl)
        end(r->impl);
    if (r)
        *r = (lm_convert_result){ 0 };
}
