/* ends.c - which tokens end a generation. */
#include "text/ends.h"

#include "text/json_members.h"

/* The spellings that llama.cpp knows (src/llama-vocab.cpp, special_eog_ids). */
static const struct { const char *piece; unsigned kind; } names[] = {
    { "<|eot_id|>", LM_ENDS_TURN },        { "<|im_end|>", LM_ENDS_TURN },     { "<|end|>", LM_ENDS_TURN },
    { "<|return|>", LM_ENDS_TURN },        { "<end_of_turn>", LM_ENDS_TURN },  { "<|endoftext|>", LM_ENDS_TURN },
    { "</s>", LM_ENDS_TURN },              { "<EOT>", LM_ENDS_TURN },          { "_<EOT>", LM_ENDS_TURN },
    { "[EOT]", LM_ENDS_TURN },             { "[EOS]", LM_ENDS_TURN },          { "<|end_of_text|>", LM_ENDS_TURN },
    { "<end_of_utterance>", LM_ENDS_TURN }, { "<eos>", LM_ENDS_TURN },         { "<turn|>", LM_ENDS_TURN },
    { "<｜end▁of▁sentence｜>", LM_ENDS_TURN }, { "[e~[", LM_ENDS_TURN },        { "<|flush|>", LM_ENDS_TURN },
    { "<|eom_id|>", LM_ENDS_CALL },        { "<|call|>", LM_ENDS_CALL },       { "<|calls|>", LM_ENDS_CALL },
    { "<|tool_response>", LM_ENDS_CALL },
    { "<|fim_pad|>", LM_ENDS_GAP },                { "<fim-pad>", LM_ENDS_GAP },               { "<fim_pad>", LM_ENDS_GAP },
    { "<|fim_repo|>", LM_ENDS_GAP },               { "<|repo_name|>", LM_ENDS_GAP },           { "<fim-repo>", LM_ENDS_GAP },
    { "<reponame>", LM_ENDS_GAP },                 { "<|file_sep|>", LM_ENDS_GAP },
};

bool lm_tokenizer_mark_end(lm_tokenizer *t, int64_t id)
{
    if (id < 0 || id >= (int64_t)t->vocab.n)
        return false;
    t->vocab.pieces[id].end = true;
    return true;
}

static void list_end(lm_tokenizer *t, const json_t *number)
{
    uint32_t id;

    if (lm_whole_number(number, LM_MAX_VOCAB, &id) && lm_tokenizer_mark_end(t, id))
        t->ends_listed = LM_ENDS_ALL;
}

void lm_tokenizer_list_ends(lm_tokenizer *t, const json_t *o)
{
    const json_t *v = json_object_get(o, "eos_token_id"), *item;
    size_t        i;

    list_end(t, v);
    json_array_foreach(v, i, item) list_end(t, item);
}

static bool has(const lm_tokenizer *t, const char *piece)
{
    return lm_vocab_find(&t->vocab, lm_view_of(piece)) >= 0;
}

/* Some vocabularies use a spelling otherwise: between the channels of an answer (gpt-oss, Solar), or as plain
 * text (Gemma 4). llama.cpp drops the same ones. */
static bool means_other(const lm_tokenizer *t, lm_view piece)
{
    if (lm_view_is(piece, "<|end|>")) {
        bool call = has(t, "<|call|>") || has(t, "<|calls|>");
        return call && (has(t, "<|return|>") || has(t, "<|flush|>"));
    }
    return lm_view_is(piece, "</s>") && has(t, "<|tool_response>");
}

unsigned lm_end_kind(const lm_tokenizer *t, lm_token id)
{
    lm_view piece = { 0 };

    if (id >= 0 && (uint32_t)id < t->vocab.n)
        piece = (lm_view){ t->vocab.pieces[id].text, t->vocab.pieces[id].size };
    for (size_t i = 0; piece.size && i < sizeof names / sizeof *names; i++)
        if (lm_view_is(piece, names[i].piece))
            return means_other(t, piece) ? 0 : names[i].kind;
    return 0;
}

void lm_ends_by_name(lm_tokenizer *t)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lm_token id = lm_vocab_find(&t->vocab, lm_view_of(names[i].piece));
        if (lm_end_kind(t, id) & ~t->ends_listed)
            lm_tokenizer_mark_end(t, id);
    }
}
