/* gguf_files.c - GGUF: files of the gguf package are read as it describes them, and written files are read
 * back. */
#include "describe.h"

#include "formats/gguf.h"

static lm_container *open_golden(const char *name, const lm_container_options *o)
{
    lm_container *c;

    assert_ok(lm_container_open(golden_path(name), o, &c, e));
    return c;
}

static void every_type_is_read_as_the_gguf_package_wrote_it(void **state)
{
    static const char *const files[] = { "everything", "version-2", "alignment" };

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
            char name[64];
            snprintf(name, sizeof name, "formats/%s.gguf", files[i]);
            lm_container *c = open_golden(name, &(lm_container_options){ .no_mmap = no_mmap });
            assert_described(c, name);
            lm_container_close(c);
        }
}

static void a_split_model_opens_from_any_part(void **state)
{
    (void)state;
    for (int part = 1; part <= 3; part++) {
        char name[64];
        snprintf(name, sizeof name, "formats/split-%05d-of-00003.gguf", part);
        lm_container *c = open_golden(name, NULL);
        assert_int_equal(lm_container_n_files(c), 3);
        assert_described(c, "formats/split.gguf");
        assert_int_equal(lm_container_find(c, "t0")->part, 0);
        assert_int_equal(lm_container_find(c, "t4")->part, 2);
        assert_non_null(
            strstr(lm_container_file_of(c, lm_container_find(c, "t3")), "split-00002-of-00003.gguf"));
        lm_container_close(c);
    }
}

static void data_of_tensors_is_aligned_as_the_file_promises(void **state)
{
    lm_container *c = open_golden("formats/alignment.gguf", NULL);

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(lm_container_tensor(c, i)->offset % 256, 0);
    lm_container_close(c);
}

static void getters_check_kind_and_range(void **state)
{
    lm_container  *c = open_golden("formats/everything.gguf", NULL);
    const lm_meta *m = lm_container_meta(c);
    uint32_t       u = 7;
    uint64_t       n = 7;
    double         f = 7;
    bool           b = false;
    lm_view        s = { NULL, 0 };
    lm_meta_value  a;

    (void)state;
    assert_ok(lm_meta_u32(m, "t.u8", 0, 255, &u, e));
    assert_int_equal(u, 255);
    assert_ok(lm_meta_u64(m, "t.i64.positive", 0, UINT64_MAX, &n, e));       /* any width, any sign */
    assert_true(n == (UINT64_C(1) << 53) + 1);
    /* a float may be written as an integer */
    assert_ok(lm_meta_f64(m, "t.u16", 0, 1e9, &f, e));
    assert_true(f == 65535);
    assert_ok(lm_meta_bool(m, "t.true", &b, e));
    assert_true(b);
    assert_ok(lm_meta_string(m, "t.empty", &s, e));
    assert_int_equal(s.size, 0);
    assert_ok(lm_meta_array(m, "a.strings", 50, &a, e));
    assert_int_equal(a.a.n, 50);

    u = 7, n = 7, f = 7;
    assert_fails(LM_BAD_MODEL, "t.u8: ", lm_meta_u32(m, "t.u8", 0, 254, &u, e));
    assert_fails(LM_BAD_MODEL, "255 is outside 256...300", lm_meta_u32(m, "t.u8", 256, 300, &u, e));
    assert_fails(LM_BAD_MODEL, "-128 is outside", lm_meta_u32(m, "t.i8", 0, UINT32_MAX, &u, e));
    assert_fails(LM_BAD_MODEL, "4294967295 is outside", lm_meta_u32(m, "t.u32", 0, UINT32_MAX - 1, &u, e));
    assert_fails(LM_BAD_MODEL, "is outside", lm_meta_u32(m, "t.u64", 0, UINT32_MAX, &u, e));
    assert_fails(LM_BAD_MODEL, "expected an integer, found a number", lm_meta_u32(m, "t.f32", 0, 1, &u, e));
    assert_fails(LM_BAD_MODEL, "expected an integer, found a boolean", lm_meta_u64(m, "t.true", 0, 1, &n, e));
    assert_fails(LM_BAD_MODEL, "expected a number, found a string", lm_meta_f64(m, "t.string", 0, 1, &f, e));
    assert_fails(LM_BAD_MODEL, "missing, expected a number", lm_meta_f64(m, "t.absent", 0, 1, &f, e));
    assert_fails(LM_BAD_MODEL, "is outside", lm_meta_f64(m, "t.f64", 0, 1, &f, e));
    assert_fails(LM_BAD_MODEL, "expected a boolean, found an integer", lm_meta_bool(m, "t.u8", &b, e));
    assert_fails(LM_BAD_MODEL, "expected a string, found an array", lm_meta_string(m, "a.strings", &s, e));
    assert_fails(LM_BAD_MODEL, "50 elements, at most 49", lm_meta_array(m, "a.strings", 49, &a, e));
    assert_int_equal(u, 7);                                                  /* written only on success */
    assert_true(n == 7 && f == 7);
    assert_false(lm_meta_at(&a, 50, &a));
    lm_container_close(c);
}

/* ---- the writer ---- */

static void write_sample(const char *path)
{
    static const float    floats[] = { 1.5f, -0.0f, 3e38f };
    static const int32_t  ints[] = { -1, 0, INT32_MIN };
    static const uint64_t dims[] = { 2, 3, 32 };
    lm_view               words[40];
    lm_gguf_writer       *w;
    uint8_t               data[2 * 3 * 34];

    for (size_t i = 0; i < 40; i++)
        words[i] = i % 3 ? LM_VIEW("w\0rd") : LM_VIEW("");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    assert_ok(lm_gguf_create(path, &w, e));
    lm_gguf_add_string(w, "general.architecture", LM_VIEW("llama"));
    lm_gguf_add_u32(w, "u32", UINT32_MAX);
    lm_gguf_add_f32(w, "f32", 1e-45f);
    lm_gguf_add_bool(w, "yes", true);
    lm_gguf_add_strings(w, "strings", words, 40);
    lm_gguf_add_strings(w, "none", NULL, 0);
    lm_gguf_add_f32s(w, "f32s", floats, 3);
    lm_gguf_add_i32s(w, "i32s", ints, 3);
    lm_gguf_add_tensor(w, "q", LM_Q8_0, 3, dims);
    lm_gguf_add_tensor(w, "f", LM_F32, 1, dims);
    assert_ok(lm_gguf_begin(w, e));
    /* pieces that are not whole blocks */
    for (size_t i = 0; i < sizeof data; i += 17)
        assert_ok(lm_gguf_write(w, data + i, 17, e));
    assert_ok(lm_gguf_write(w, floats, 8, e));
    assert_int_not_equal(access(path, F_OK), 0);                             /* not before it is complete */
    assert_ok(lm_gguf_commit(w, e));
}

static void written_values_are_read_back(void **state)
{
    const char          *folder = fresh_folder(), *path = in_folder(folder, "x.gguf");
    lm_container        *c;
    const lm_meta       *m;
    lm_meta_value        v, a;
    const lm_tensor_info *q;

    (void)state;
    write_sample(path);
    assert_ok(lm_container_open(path, NULL, &c, e));
    m = lm_container_meta(c);
    assert_int_equal(lm_meta_count(m), 8);
    assert_true(lm_meta_get(m, "u32", &v) && v.kind == LM_META_UINT && v.u == UINT32_MAX);
    assert_true(lm_meta_get(m, "f32", &v) && v.kind == LM_META_FLOAT && v.f == (double)1e-45f);
    assert_true(lm_meta_get(m, "yes", &v) && v.kind == LM_META_BOOL && v.b);
    assert_true(lm_meta_get(m, "none", &v) && v.a.n == 0);
    assert_true(lm_meta_get(m, "strings", &a) && a.a.n == 40);
    /* backwards: no order is needed */
    for (uint64_t i = 40; i-- > 0;)
        assert_true(lm_meta_at(&a, i, &v) && lm_view_equal(v.s, i % 3 ? LM_VIEW("w\0rd") : LM_VIEW("")));
    assert_true(lm_meta_get(m, "i32s", &a) && lm_meta_at(&a, 2, &v) && v.kind == LM_META_INT &&
                v.i == INT32_MIN);
    q = lm_container_find(c, "q");
    assert_true(q->type == LM_Q8_0 && q->n_dims == 3 && q->dims[0] == 2 && q->dims[2] == 32 &&
                q->bytes == 204);
    for (size_t i = 0; i < 204; i++)
        assert_int_equal(((const uint8_t *)lm_container_data(c, q))[i], (uint8_t)(i * 7));
    assert_memory_equal(lm_container_data(c, lm_container_find(c, "f")), ((float[]){ 1.5f, -0.0f }), 8);
    lm_container_close(c);
    remove_folder(folder);
}

static void all_keys_can_be_copied_in_their_own_types(void **state)
{
    static const char *const except[] = { "a.int", "t.string", NULL };
    const char              *folder = fresh_folder(), *path = in_folder(folder, "copy.gguf");
    lm_container            *from = open_golden("formats/alignment.gguf", NULL), *to;
    lm_gguf_writer          *w;
    lm_meta_value            v;

    (void)state;
    assert_ok(lm_gguf_create(path, &w, e));
    /* its alignment describes another file */
    lm_gguf_add_some(w, lm_container_meta(from), "", NULL);
    lm_container_close(from);
    from = open_golden("formats/split-00001-of-00003.gguf", NULL);
    assert_ok(lm_gguf_begin(w, e));
    assert_ok(lm_gguf_commit(w, e));
    assert_ok(lm_container_open(path, NULL, &to, e));
    assert_false(lm_meta_has(lm_container_meta(to), "general.alignment"));
    lm_container_close(to);
    lm_container_close(from);

    from = open_golden("formats/everything.gguf", NULL);
    assert_ok(lm_gguf_create(path, &w, e));
    lm_gguf_add_some(w, lm_container_meta(from), "", except);
    lm_gguf_add_string(w, "t.string", LM_VIEW("mine"));
    assert_ok(lm_gguf_begin(w, e));
    assert_ok(lm_gguf_commit(w, e));
    assert_ok(lm_container_open(path, NULL, &to, e));
    for (size_t i = 0; i < lm_meta_count(lm_container_meta(from)); i++) {
        lm_text        a = { 0 }, b = { 0 };
        lm_view       key;
        lm_meta_value other;
        char          name[64];
        lm_meta_entry(lm_container_meta(from), i, &key, &v);
        snprintf(name, sizeof name, "%.*s", (int)key.size, key.data);
        if (!strncmp(name, "a.int", 5)) {
            assert_false(lm_meta_has(lm_container_meta(to), name));
            continue;
        }
        assert_true(lm_meta_get(lm_container_meta(to), name, &other));
        put_value(&a, &v);
        put_value(&b, &other);
        assert_string_equal(b.data, strcmp(name, "t.string") ? a.data : "string 6d696e65");
        lm_text_free(&a);
        lm_text_free(&b);
    }
    lm_container_close(to);
    lm_container_close(from);
    remove_folder(folder);
}

static void the_writer_rejects_what_no_reader_accepts(void **state)
{
    static const uint64_t dims[] = { 1, 1, 1, 1, 33 }, wide[] = { UINT64_C(1) << 40, UINT64_C(1) << 40 },
                          empty[] = { 0 };
    const struct {
        const char     *name, *message;
        lm_dtype        type;
        uint32_t        n_dims;
        const uint64_t *dims;
    } cases[] = {
        { "a", "5 dimensions", LM_F32, 5, dims },
        { "a", "0 dimensions", LM_F32, 0, dims },
        { "a", "not whole blocks", LM_Q4_0, 1, dims + 4 },
        { "a", "a dimension of 0", LM_F32, 1, empty },
        { "a", "more than 2^48", LM_F32, 2, wide },
        { "a", "is a format of activations", LM_Q8_1, 1, dims + 4 },
        { "a", "unknown tensor type 200", LM_BOOL, 1, dims },
        { "", "without a name", LM_F32, 1, dims },
        { "a\nb", "control character", LM_F32, 1, dims },
        { "a234567890123456789012345678901234567890123456789012345678901234x", "65 bytes", LM_F32, 1, dims },
    };
    const char     *folder = fresh_folder(), *path = in_folder(folder, "x.gguf");
    lm_gguf_writer *w;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(lm_gguf_create(path, &w, e));
        lm_gguf_add_tensor(w, cases[i].name, cases[i].type, cases[i].n_dims, cases[i].dims);
        lm_gguf_add_u32(w, "later", 1);
        lm_error e = { 0 };
        assert_int_not_equal(lm_gguf_begin(w, &e), LM_OK);
        if (!strstr(e.message, cases[i].message))
            fail_msg("\"%s\" is not in: %s", cases[i].message, e.message);
        lm_gguf_abort(w);
    }
    assert_ok(lm_gguf_create(path, &w, e));
    lm_gguf_add_u32(w, "same", 1);
    lm_gguf_add_u32(w, "same", 1);
    assert_fails(LM_USAGE, "same: ", lm_gguf_begin(w, e));
    lm_gguf_abort(w);

    assert_ok(lm_gguf_create(path, &w, e));
    lm_gguf_add_tensor(w, "a", LM_F32, 1, dims);
    assert_ok(lm_gguf_begin(w, e));
    assert_fails(LM_USAGE, "1 bytes more", lm_gguf_write(w, "12345", 5, e));
    lm_gguf_abort(w);

    assert_ok(lm_gguf_create(path, &w, e));
    lm_gguf_add_tensor(w, "a", LM_F32, 1, dims);
    assert_ok(lm_gguf_begin(w, e));
    assert_fails(LM_USAGE, "0 of 1 tensors", lm_gguf_commit(w, e));
    assert_int_not_equal(access(path, F_OK), 0);
    remove_folder(folder);
}

/* ---- invariants while files are in use ---- */

/* Metadata and tensor table are copies: truncating the file afterwards does not affect them. */
static void a_file_that_shrinks_keeps_its_metadata(void **state)
{
    const char   *folder = fresh_folder(), *path = in_folder(folder, "x.gguf");
    size_t        n, want_size;
    char         *data = read_file(golden_path("formats/everything.gguf"), &n);
    char         *want = read_file(golden_path("formats/everything.gguf.txt"), &want_size);
    lm_container *c;
    lm_text        keys = { 0 };

    (void)state;
    write_file(path, data, n);
    assert_ok(lm_container_open(path, NULL, &c, e));
    assert_int_equal(truncate(path, 0), 0);
    put_keys(&keys, lm_container_meta(c));
    assert_memory_equal(keys.data, want, keys.size);
    assert_non_null(lm_container_find(c, "q6_k"));
    lm_container_close(c);
    lm_text_free(&keys);
    free(data);
    free(want);
    remove_folder(folder);
}

static const char *path_to_try;

static lm_status open_and_close(lm_error *e)
{
    lm_container *c;

    LM_TRY(lm_container_open(path_to_try, NULL, &c, e));
    lm_container_close(c);
    return LM_OK;
}

static void opening_survives_no_memory(void **state)
{
    static const char *const files[] = { "formats/everything.gguf", "formats/split-00002-of-00003.gguf",
                                         "formats/everything.safetensors", "llama/sharded", "llama/bf16" };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_to_try = golden_path(files[i]);
        assert_survives_no_memory(open_and_close);
    }
}

static lm_container *container_to_copy;

/* A hundred tensors, so that every table grows. */
static lm_status write_a_copy(lm_error *e)
{
    static const uint64_t dims[] = { 1 };
    lm_gguf_writer       *w;
    char                  name[16];
    lm_status             s;

    LM_TRY(lm_gguf_create(path_to_try, &w, e));
    lm_gguf_add_some(w, lm_container_meta(container_to_copy), "", NULL);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i);
        lm_gguf_add_tensor(w, name, LM_F32, 1, dims);
    }
    s = lm_gguf_begin(w, e);
    for (int i = 0; i < 100 && s == LM_OK; i++)
        s = lm_gguf_write(w, &i, 4, e);
    if (s == LM_OK)
        return lm_gguf_commit(w, e);
    lm_gguf_abort(w);
    return s;
}

static void writing_survives_no_memory(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    path_to_try       = in_folder(folder, "x.gguf");
    container_to_copy = open_golden("formats/everything.gguf", NULL);
    assert_survives_no_memory(write_a_copy);
    assert_survives_no_memory(open_and_close);
    lm_container_close(container_to_copy);
    remove_folder(folder);
}

/* A small key takes more memory than its bytes in the file, so the number of keys is limited; 65536 are
 * accepted. */
static void many_keys_are_limited(void **state)
{
    enum { MAX = 65536, BYTES = 24 + (MAX + 1) * (8 + 5 + 4 + 1) };
    const char   *folder = fresh_folder(), *path = in_folder(folder, "x.gguf");
    uint8_t      *data = calloc(1, BYTES), *p = data + 24;
    lm_container *c;
    lm_meta_value v;

    (void)state;
    memcpy(data, "GGUF\3", 5);
    data[18] = 1;                                                            /* 0x10000 keys */
    for (uint32_t i = 0; i <= MAX; i++, p += 18) {
        p[0] = 5;
        for (int k = 0; k < 5; k++)
            p[8 + k] = (uint8_t)('a' + (i >> 4 * k & 15));
    }
    write_file(path, data, BYTES);
    assert_ok(lm_container_open(path, NULL, &c, e));
    assert_int_equal(lm_meta_count(lm_container_meta(c)), MAX);
    assert_true(lm_meta_get(lm_container_meta(c), "ppppa", &v) && v.kind == LM_META_UINT && v.u == 0);
    lm_container_close(c);
    data[16] = 1;
    write_file(path, data, BYTES);
    assert_fails(LM_UNSUPPORTED, "number of keys: ", lm_container_open(path, NULL, &c, e));
    free(data);
    remove_folder(folder);
}

static void the_demo_model_opens(void **state)
{
    const char   *assets = getenv("LAMINA_ASSETS");
    char          path[4096];
    lm_container *c;
    lm_meta_value tokens, v;
    float         row[576];

    (void)state;
    snprintf(path, sizeof path, "%s/smollm2-135m-instruct-q4_1.gguf", assets ? assets : "build/assets");
    if (access(path, F_OK))
        skip();
    assert_ok(lm_container_open(path, NULL, &c, e));
    assert_int_equal(lm_container_n_tensors(c), 272);
    assert_int_equal(lm_meta_count(lm_container_meta(c)), 34);
    const lm_tensor_info *t = lm_container_find(c, "token_embd.weight");
    assert_true(t->type == LM_Q8_0 && t->dims[0] == 49152 && t->dims[1] == 576);
    lm_container_unpack(c, t, UINT64_C(49151) * 576, 576, row);
    assert_true(row[0] == row[0] && row[575] == row[575]);
    assert_ok(lm_meta_array(lm_container_meta(c), "tokenizer.ggml.tokens", 1 << 20, &tokens, e));
    assert_true(lm_meta_at(&tokens, 2, &v) && lm_view_is(v.s, "<|im_end|>"));
    assert_true(lm_meta_at(&tokens, 49151, &v) && lm_view_is(v.s, "ectable"));
    lm_container_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_as_the_gguf_package_wrote_it),
        cmocka_unit_test(a_split_model_opens_from_any_part),
        cmocka_unit_test(data_of_tensors_is_aligned_as_the_file_promises),
        cmocka_unit_test(getters_check_kind_and_range),
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(all_keys_can_be_copied_in_their_own_types),
        cmocka_unit_test(the_writer_rejects_what_no_reader_accepts),
        cmocka_unit_test(a_file_that_shrinks_keeps_its_metadata),
        cmocka_unit_test(opening_survives_no_memory),
        cmocka_unit_test(writing_survives_no_memory),
        cmocka_unit_test(many_keys_are_limited),
        cmocka_unit_test(the_demo_model_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
