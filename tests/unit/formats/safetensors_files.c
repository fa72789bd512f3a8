/* safetensors_files.c - safetensors and Hugging Face folders: read as their own packages wrote them, and
 * written by lamina. */
#include "describe.h"

#include <sys/stat.h>

#include "formats/safetensors.h"

static const char config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 2, \"rope_scaling\": {\"factor\": 8}}";

static void every_type_is_read_as_the_packages_wrote_it(void **state)
{
    static const char *const files[] = { "everything", "torch" };

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
            char          name[64];
            lm_container *c;
            snprintf(name, sizeof name, "formats/%s.safetensors", files[i]);
            assert_ok(
                lm_container_open(golden_path(name), &(lm_container_options){ .no_mmap = no_mmap }, &c, e));
            assert_described(c, name);
            lm_container_close(c);
        }
}

/* The same model as one file and in shards has the same tensors, and so has its GGUF, except for names and
 * order. */
static void shards_are_one_model(void **state)
{
    lm_container *c, *part;
    size_t        n = 0;

    (void)state;
    assert_ok(lm_container_open(golden_path("llama/sharded"), NULL, &c, e));
    assert_int_equal(lm_container_n_files(c), 4);
    for (size_t i = 0; i < lm_container_n_files(c); i++) {
        assert_ok(lm_container_open(lm_container_file(c, i)->path, NULL, &part, e));
        for (size_t k = 0; k < lm_container_n_tensors(part); k++, n++) {
            const lm_tensor_info *mine = lm_container_tensor(part, k),
                                 *all = lm_container_find(c, mine->name);
            assert_true(all && all->part == i && all->offset == mine->offset && all->bytes == mine->bytes);
            assert_memory_equal(lm_container_data(c, all), lm_container_data(part, mine), mine->bytes);
        }
        lm_container_close(part);
    }
    assert_int_equal(n, lm_container_n_tensors(c));
    lm_container_close(c);
}

/* The size of a header may begin as a Python pickle does. */
static void a_size_is_no_magic_number(void **state)
{
    static const uint64_t sizes[] = { 0x280, 0x10280, 0x30280 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char   *path = in_folder(fresh_folder(), "model.safetensors");
        char         *file = malloc(8 + sizes[i]);
        lm_container *c;
        memset(file, ' ', 8 + sizes[i]);
        memcpy(file, &sizes[i], 8);
        memcpy(file + 8, "{}", 2);
        write_file(path, file, 8 + sizes[i]);
        assert_ok(lm_container_open(path, NULL, &c, e));
        assert_int_equal(lm_container_n_tensors(c), 0);
        lm_container_close(c);
        free(file);
    }
}

static void the_documents_of_a_folder_are_reachable(void **state)
{
    const char    *folder = fresh_folder();
    lm_container  *c;
    const lm_meta *m, *again;
    lm_view        text;
    double         factor = 0;

    (void)state;
    write_text(in_folder(folder, "config.json"), config);
    write_text(in_folder(folder, "generation_config.json"), "{\"eos_token_id\": [1, 2]}");
    write_text(in_folder(folder, "chat_template.jinja"), "{{ x }}\n");
    write_text(in_folder(folder, "tokenizer_config.json"),
               "{\"model_max_length\": 1000000000000000019884624838656}");
    write_text(in_folder(folder, "special_tokens_map.json"), "{\"eos\": \"</s>\",}");
    write_file(in_folder(folder, "model.safetensors"), "\2\0\0\0\0\0\0\0{}", 10);
    assert_ok(lm_container_open(in_folder(folder, "/"), NULL, &c, e));
    assert_string_equal(lm_container_path(c), folder);
    assert_ok(lm_meta_f64(lm_container_meta(c), "rope_scaling/factor", 1, 64, &factor, e));
    assert_true(factor == 8);
    assert_ok(lm_container_json(c, "generation_config.json", &m, e));
    assert_true(lm_meta_has(m, "eos_token_id/1") && !lm_meta_has(m, "eos_token_id/2"));
    assert_ok(lm_container_json(c, "generation_config.json", &again, e));
    assert_ptr_equal(m, again);
    /* longer than 64 bits, in most models */
    assert_ok(lm_container_json(c, "tokenizer_config.json", &m, e));
    assert_ok(lm_meta_f64(m, "model_max_length", 0, 1e31, &factor, e));
    assert_true(factor == 1e30);
    assert_ok(lm_container_json(c, "absent.json", &m, e));
    assert_null(m);
    assert_fails(LM_BAD_MODEL, "special_tokens_map.json: JSON: expected a string, found '}' (offset 15)",
                 lm_container_json(c, "special_tokens_map.json", &m, e));
    assert_ok(lm_container_text(c, "special_tokens_map.json", &text, e));     /* broken JSON is still text */
    assert_int_equal(text.size, 16);
    assert_ok(lm_container_text(c, "chat_template.jinja", &text, e));
    assert_true(lm_view_is(text, "{{ x }}\n") && !text.data[text.size]);
    /* the bytes of the file: parsing did not change them */
    assert_ok(lm_container_text(c, "config.json", &text, e));
    assert_true(lm_view_is(text, config));
    assert_ok(lm_container_text(c, "absent.jinja", &text, e));
    assert_null(text.data);
    assert_fails(LM_USAGE, "../x", lm_container_text(c, "../x", &text, e));
    assert_fails(LM_USAGE, "..", lm_container_text(c, "..", &text, e));
    lm_container_close(c);
    remove_folder(folder);
}

static void models_without_weights_open_for_their_structure(void **state)
{
    static const lm_container_options structure = { .structure_only = true };
    const char                       *folder = fresh_folder(), *path = in_folder(folder, "config.json");
    lm_container                     *c;
    lm_view                           text;

    (void)state;
    write_text(path, config);
    write_text(in_folder(folder, "tokenizer.json"), "{}");
    assert_fails(LM_BAD_MODEL, "neither model.safetensors nor", lm_container_open(folder, NULL, &c, e));
    assert_fails(LM_BAD_MODEL, "neither GGUF nor safetensors", lm_container_open(path, NULL, &c, e));
    for (int i = 0; i < 2; i++) {
        assert_ok(lm_container_open(i ? path : folder, &structure, &c, e));
        assert_int_equal(lm_container_n_tensors(c), 0);
        assert_null(lm_container_find(c, "a"));
        assert_true(lm_meta_has(lm_container_meta(c), "hidden_size"));
        assert_ok(lm_container_text(c, "tokenizer.json", &text, e));
        assert_true(lm_view_is(text, "{}"));
        lm_container_close(c);
    }
    remove_folder(folder);
}

static void a_missing_path_is_not_a_bad_model(void **state)
{
    const char   *folder = fresh_folder();
    lm_container *c;

    (void)state;
    assert_fails(LM_NOT_FOUND, "no such file or folder",
                 lm_container_open(in_folder(folder, "x.gguf"), NULL, &c, e));
    assert_fails(LM_NOT_FOUND, "no such file or folder",
                 lm_container_open(in_folder(folder, "x.safetensors"), NULL, &c, e));
    assert_fails(LM_NOT_FOUND, "no such file or folder",
                 lm_container_open(in_folder(folder, "m-00001-of-00002.gguf"), NULL, &c, e));
    assert_fails(LM_IO, "not a regular file", lm_container_open("/dev/null", NULL, &c, e));
    remove_folder(folder);
}

static void a_broken_link_is_named(void **state)
{
    const char   *folder = fresh_folder();
    lm_container *c;

    (void)state;
    write_text(in_folder(folder, "config.json"), config);
    assert_int_equal(symlink("../../blobs/0", in_folder(folder, "model.safetensors")), 0);
    assert_fails(LM_BAD_MODEL, "model.safetensors: a link to a missing file; the download is incomplete",
                 lm_container_open(folder, NULL, &c, e));
    remove_folder(folder);
}

/* ---- the writer, and data at odd addresses ---- */

static void written_values_are_read_back(void **state)
{
    static const uint64_t   three[] = { 3 }, two_by_two[] = { 2, 2 }, none[] = { 4, 0 };
    static const uint16_t   bf16[] = { 0x3f80, 0xc000, 0x0001, 0x7f80 };
    const char             *folder = fresh_folder(), *path = in_folder(folder, "x.safetensors");
    lm_safetensors_writer  *w;
    lm_container           *c;
    const lm_tensor_info   *t;
    lm_view                 s;
    float                   out[4];

    (void)state;
    assert_ok(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_meta(w, "source", "a \"quoted\"\n\\ \x7f ünï🦙");
    lm_safetensors_add_tensor(w, "odd", LM_U8, 1, three);
    lm_safetensors_add_tensor(w, "ta\"p", LM_BF16, 2, two_by_two);
    lm_safetensors_add_tensor(w, "none", LM_F32, 2, none);
    lm_safetensors_add_tensor(w, "scalar", LM_F64, 0, NULL);
    assert_ok(lm_safetensors_begin(w, e));
    assert_ok(lm_safetensors_write(w, "\1\2\3", 3, e));
    assert_ok(lm_safetensors_write(w, bf16, 5, e));
    assert_ok(lm_safetensors_write(w, (const char *)bf16 + 5, 3, e));
    assert_ok(lm_safetensors_write(w, &(double){ 2.5 }, 8, e));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(lm_safetensors_commit(w, e));

    assert_ok(lm_container_open(path, NULL, &c, e));
    assert_ok(lm_meta_string(lm_container_meta(c), "source", &s, e));
    assert_true(lm_view_is(s, "a \"quoted\"\n\\ \x7f ünï🦙"));
    assert_int_equal(lm_container_n_tensors(c), 4);
    t = lm_container_find(c, "ta\"p");
    assert_true(t->type == LM_BF16 && t->n_dims == 2 && t->bytes == 8);
    /* at an odd address because of "odd" */
    assert_int_equal((uintptr_t)lm_container_data(c, t) % 2, 1);
    lm_container_unpack(c, t, 0, 4, out);
    assert_true(out[0] == 1 && out[1] == -2 && out[2] > 0 && out[2] < 1e-38f && out[3] > 3e38f);
    lm_container_unpack(c, t, 1, 1, out);
    assert_true(out[0] == -2);
    t = lm_container_find(c, "none");
    assert_true(t->elements == 0 && t->bytes == 0 && t->dims[0] == 4 && t->dims[1] == 0);
    t = lm_container_find(c, "scalar");
    assert_true(t->elements == 1 && t->n_dims == 0 && t->dims[0] == 1);
    lm_container_unpack(c, t, 0, 1, out);
    assert_true(out[0] == 2.5f);
    /* "odd" begins right after a padded header */
    assert_int_equal((lm_container_tensor(c, 0)->offset - 3) % 8, 5);
    lm_container_close(c);
    remove_folder(folder);
}

static void the_writer_rejects_what_no_reader_accepts(void **state)
{
    static const uint64_t dims[] = { 2, 1, 1, 1, 1, 1, 1, 1, 1 },
                          wide[] = { UINT64_C(1) << 40, UINT64_C(1) << 40 };
    const struct {
        const char     *name, *message;
        lm_dtype        type;
        uint32_t        n_dims;
        const uint64_t *dims;
    } cases[] = {
        { "a", "9 dimensions", LM_F32, 9, dims },
        { "a", "no type q8_0", LM_Q8_0, 1, dims },
        { "a", "more than 2^48", LM_F32, 2, wide },
        { "", "without a name", LM_F32, 1, dims },
        { "a\1", "control character", LM_F32, 1, dims },
        { "a\xff", "not UTF-8", LM_F32, 1, dims },
        { "__metadata__", "not a name for a tensor", LM_F32, 1, dims },
    };
    const char            *folder = fresh_folder(), *path = in_folder(folder, "x.safetensors");
    lm_safetensors_writer *w;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lm_error e = { 0 };
        assert_int_equal(lm_safetensors_create(path, &w, &e), LM_OK);
        lm_safetensors_add_tensor(w, cases[i].name, cases[i].type, cases[i].n_dims, cases[i].dims);
        assert_int_not_equal(lm_safetensors_begin(w, &e), LM_OK);
        if (!strstr(e.message, cases[i].message))
            fail_msg("\"%s\" is not in: %s", cases[i].message, e.message);
        lm_safetensors_abort(w);
    }
    assert_ok(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_tensor(w, "a", LM_F32, 1, dims);
    lm_safetensors_add_tensor(w, "a", LM_F32, 1, dims);
    assert_fails(LM_USAGE, "declared twice", lm_safetensors_begin(w, e));
    lm_safetensors_abort(w);

    assert_ok(lm_safetensors_create(path, &w, e));
    lm_safetensors_add_tensor(w, "a", LM_F32, 1, dims);
    assert_fails(LM_USAGE, "bytes more", lm_safetensors_write(w, "", 1, e));
    assert_ok(lm_safetensors_begin(w, e));
    assert_fails(LM_USAGE, "bytes more", lm_safetensors_write(w, "123456789", 9, e));
    assert_ok(lm_safetensors_write(w, "1234", 4, e));
    assert_fails(LM_USAGE, "4 of 8 bytes", lm_safetensors_commit(w, e));
    assert_int_not_equal(access(path, F_OK), 0);
    remove_folder(folder);
}

static const char *path_to_write;

static lm_status write_and_read(lm_error *e)
{
    lm_safetensors_writer *w;
    lm_container          *c;
    lm_status              s;
    char                   name[16];

    LM_TRY(lm_safetensors_create(path_to_write, &w, e));
    lm_safetensors_add_meta(w, "a", "b");
    lm_safetensors_add_meta(w, "c", "d");
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i);
        lm_safetensors_add_tensor(w, name, LM_I32, 0, NULL);
    }
    s = lm_safetensors_begin(w, e);
    for (int i = 0; i < 100 && s == LM_OK; i++)
        s = lm_safetensors_write(w, &i, 4, e);
    if (s != LM_OK) {
        lm_safetensors_abort(w);
        return s;
    }
    LM_TRY(lm_safetensors_commit(w, e));
    LM_TRY(lm_container_open(path_to_write, NULL, &c, e));
    lm_container_close(c);
    return LM_OK;
}

static lm_status read_documents(lm_error *e)
{
    lm_container  *c;
    const lm_meta *m = NULL;
    lm_view        text;
    lm_status      s;

    LM_TRY(lm_container_open(path_to_write, &(lm_container_options){ .structure_only = true }, &c, e));
    s = lm_container_json(c, "tokenizer_config.json", &m, e);
    if (s == LM_OK)
        s = lm_container_text(c, "tokenizer.json", &text, e);
    lm_container_close(c);
    return s;
}

static void nothing_is_left_behind_without_memory(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    path_to_write = in_folder(folder, "x.safetensors");
    assert_survives_no_memory(write_and_read);
    path_to_write = golden_path("llama/gqa");
    assert_survives_no_memory(read_documents);
    path_to_write = golden_path("llama/gqa/config.json");
    assert_survives_no_memory(read_documents);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_as_the_packages_wrote_it),
        cmocka_unit_test(shards_are_one_model),
        cmocka_unit_test(a_size_is_no_magic_number),
        cmocka_unit_test(the_documents_of_a_folder_are_reachable),
        cmocka_unit_test(models_without_weights_open_for_their_structure),
        cmocka_unit_test(a_missing_path_is_not_a_bad_model),
        cmocka_unit_test(a_broken_link_is_named),
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(the_writer_rejects_what_no_reader_accepts),
        cmocka_unit_test(nothing_is_left_behind_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
