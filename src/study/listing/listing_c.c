/* listing_c.c - the frame of listings in C: memory, weights from safetensors files, main. */
#include "study/listing/listing_c.h"

#include <string.h>

static const char headers[] =
    "#include <dirent.h>\n#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
    "static int T;                           /* tokens */\n\n";

static const char memory[] =
    "static void stop(const char *what, const char *name)\n"
    "{\n"
    "    fprintf(stderr, \"%s: %s\\n\", name, what);\n"
    "    exit(1);\n"
    "}\n\n"
    "/* ---- memory: values are [T][width]; what a layer has made is given back when it is done ---- */\n\n"
    "static float *made[65536];\n"
    "static int    n_made;\n\n"
    "static float *make(size_t width)\n"
    "{\n"
    "    float *x = n_made < 65536 ? calloc(T * width, sizeof *x) : NULL;\n\n"
    "    if (!x)\n"
    "        stop(\"no memory\", \"values\");\n"
    "    return made[n_made++] = x;\n"
    "}\n\n"
    "/* Frees all but x. */\n"
    "static float *rest(float *x)\n"
    "{\n"
    "    for (int i = 0; i < n_made; i++)\n"
    "        if (made[i] != x)\n"
    "            free(made[i]);\n"
    "    made[0] = x;\n"
    "    n_made  = 1;\n"
    "    return x;\n"
    "}\n\n";

static const char reading[] =
    "/* ---- weights, by their names in the checkpoint ---- */\n\n"
    "static struct tensor { char name[256]; size_t n, dims[4]; float *x; } *tensors;\n"
    "static size_t n_tensors;\n\n"
    "static float from_bits(uint32_t bits)\n"
    "{\n"
    "    float x;\n\n"
    "    memcpy(&x, &bits, sizeof x);\n"
    "    return x;\n"
    "}\n\n"
    "/* The number at p of type F32, BF16 (the upper half of an F32), F16 or U8. */\n"
    "static float number(const unsigned char *p, const char *type)\n"
    "{\n"
    "    if (type[0] == 'U')\n"
    "        return p[0];\n"
    "    uint32_t h = p[0] | p[1] << 8, mantissa = h & 1023, exponent = h >> 10 & 31;\n"
    "    if (type[0] == 'B')\n"
    "        return from_bits(h << 16);\n"
    "    if (type[1] == '3')\n"
    "        return from_bits(h | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);\n"
    "    float x = exponent == 31 ? mantissa ? NAN : INFINITY\n"
    "            : exponent ? ldexpf(mantissa + 1024, (int)exponent - 25) : ldexpf(mantissa, -24);\n"
    "    return h >> 15 ? -x : x;\n"
    "}\n\n"
    "/* One entry of the directory: \"name\": { \"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24] } */\n"
    "static void add_tensor(const char *name, size_t length, const char *entry, const unsigned char *data, size_t bytes)\n"
    "{\n"
    "    const char *type = strstr(entry, \"\\\"dtype\\\"\"), *shape = strstr(entry, \"\\\"shape\\\"\"), *at = strstr(entry, "
    "\"\\\"data_offsets\\\"\");\n"
    "    size_t n = 1, from, dims[4] = { 1, 1, 1, 1 };\n"
    "    int    d = 0;\n\n"
    "    if (!type || !shape || !at || length >= sizeof tensors->name || sscanf(at, \"\\\"data_offsets\\\" : [ %zu\", &from) != 1)\n"
    "        return;\n"
    "    type = strchr(type + 7, '\"') + 1;\n"
    "    for (const char *p = strchr(shape, '['); p && *p && *p != ']' && d < 4; p = strpbrk(p + 1, \",]\"))\n"
    "        n *= dims[d++] = p[1] == ']' ? 1 : strtoull(p + 1, NULL, 10);\n"
    "    size_t size = type[0] == 'U' ? 1 : type[1] == '3' ? 4 : 2;\n"
    "    if (strncmp(type, \"F32\\\"\", 4) != 0 && strncmp(type, \"F16\\\"\", 4) != 0 && strncmp(type, \"BF16\\\"\", 5) != 0 &&\n"
    "        strncmp(type, \"U8\\\"\", 3) != 0)\n"
    "        return;                          /* masks and the like */\n"
    "    if (from > bytes || n > (bytes - from) / size)\n"
    "        stop(\"lies outside the file\", name);\n"
    "    tensors = realloc(tensors, (n_tensors + 1) * sizeof *tensors);\n"
    "    struct tensor *t = tensors ? &tensors[n_tensors++] : NULL;\n"
    "    if (!t || !(t->x = malloc((n + 1) * sizeof(float))))\n"
    "        stop(\"no memory\", \"weights\");\n"
    "    memcpy(t->name, name, length);\n"
    "    t->name[length] = '\\0';\n"
    "    memcpy(t->dims, dims, sizeof dims);\n"
    "    t->n = n;\n"
    "    for (size_t i = 0; i < n; i++)\n"
    "        t->x[i] = number(data + from + i * size, type);\n"
    "}\n\n"
    "/* The length of a JSON directory, the directory, the numbers. */\n"
    "static void load_file(const char *path)\n"
    "{\n"
    "    FILE *f = fopen(path, \"rb\");\n"
    "    unsigned char *all = NULL;\n"
    "    size_t n = 0;\n\n"
    "    if (!f || fseek(f, 0, SEEK_END) || (n = (size_t)ftell(f)) < 8 || !(all = malloc(n + 1)))\n"
    "        stop(\"cannot be read\", path);\n"
    "    rewind(f);\n"
    "    if (fread(all, 1, n, f) != n)\n"
    "        stop(\"cannot be read\", path);\n"
    "    fclose(f);\n"
    "    uint64_t length = 0;\n"
    "    for (int i = 7; i >= 0; i--)\n"
    "        length = length << 8 | all[i];\n"
    "    if (length > n - 8)\n"
    "        stop(\"is cut off\", path);\n"
    "    char *json = malloc(length + 1);\n"
    "    if (!json)\n"
    "        stop(\"no memory\", path);\n"
    "    memcpy(json, all + 8, length);\n"
    "    json[length] = '\\0';\n"
    "    for (char *p = strchr(json, '\"'); p;) {\n"
    "        char *end = strchr(p + 1, '\"'), *open = end ? strchr(end, '{') : NULL, *close = open ? strchr(open, '}') : NULL;\n"
    "        if (!close)\n"
    "            break;\n"
    "        *close = '\\0';\n"
    "        if (strncmp(p, \"\\\"__metadata__\\\"\", 14) != 0)\n"
    "            add_tensor(p + 1, (size_t)(end - p - 1), open, all + 8 + length, n - 8 - length);\n"
    "        p = strchr(close + 1, '\"');\n"
    "    }\n"
    "    free(json);\n"
    "    free(all);\n"
    "}\n\n"
    "static void load(const char *folder)\n"
    "{\n"
    "    DIR *d = opendir(folder);\n"
    "    char path[4096];\n\n"
    "    if (!d)\n"
    "        stop(\"no such folder\", folder);\n"
    "    for (struct dirent *e; (e = readdir(d));) {\n"
    "        size_t n = strlen(e->d_name);\n"
    "        if (strncmp(e->d_name, \"model\", 5) == 0 && n > 12 && strcmp(e->d_name + n - 12, \".safetensors\") == 0) {\n"
    "            snprintf(path, sizeof path, \"%s/%s\", folder, e->d_name);\n"
    "            load_file(path);\n"
    "        }\n"
    "    }\n"
    "    closedir(d);\n"
    "}\n\n";

static const char four_bits[] =
    "/* MXFP4: blocks of 32 four-bit floats (two a byte, the low half first) that share a power of two. Kept as [E][in][out]. */\n"
    "static const float *from_four_bits(size_t at, const char *name, size_t n)\n"
    "{\n"
    "    static const float values[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };\n"
    "    const struct tensor *codes = &tensors[at], *scales = NULL;\n"
    "    size_t out = codes->dims[1], in = codes->dims[2] * 32;\n"
    "    struct tensor t = { .n = n };\n\n"
    "    for (size_t i = 0; i < n_tensors; i++)\n"
    "        if (strncmp(tensors[i].name, name, strlen(name)) == 0 && strcmp(tensors[i].name + strlen(name), \"_scales\") == 0)\n"
    "            scales = &tensors[i];\n"
    "    if (!scales || codes->n * 2 != n || scales->n * 32 != n || !(t.x = malloc(n * sizeof *t.x)))\n"
    "        stop(\"has another size\", name);\n"
    "    for (size_t i = 0; i < n; i++) {\n"
    "        int   code = (int)codes->x[i / 2] >> (i % 2 ? 4 : 0) & 15;\n"
    "        float x = ldexpf(values[code & 7], (int)scales->x[i / 32] - 127);\n"
    "        t.x[(i / in / out * in + i % in) * out + i / in % out] = code & 8 ? -x : x;\n"
    "    }\n"
    "    snprintf(t.name, sizeof t.name, \"%.*s\", (int)strlen(codes->name) - 7, codes->name);\n"
    "    tensors = realloc(tensors, (n_tensors + 1) * sizeof *tensors);\n"
    "    if (!tensors)\n"
    "        stop(\"no memory\", name);\n"
    "    tensors[n_tensors] = t;\n"
    "    return tensors[n_tensors++].x;\n"
    "}\n\n";

static const char naming[] =
    "/* The n numbers of a weight. */\n"
    "static const float *W(const char *name, size_t n)\n"
    "{\n"
    "    const char *dot = strchr(name, '.'), *bare = dot ? dot + 1 : name;   /* checkpoints of the bare decoder leave a word out */\n\n"
    "    for (size_t i = 0; i < 2 * n_tensors; i++) {\n"
    "        const struct tensor *t = &tensors[i % n_tensors];\n"
    "        if (strcmp(t->name, i < n_tensors ? name : bare) != 0)\n"
    "            continue;\n"
    "        if (t->n != n)\n"
    "            stop(\"has another size\", name);\n"
    "        return t->x;\n"
    "    }\n";

static const char layers[] =
    "static char layer_name[256];             /* what the names of the layer's weights begin with */\n\n"
    "/* A weight of the layer; `e` stands for %d in its name. */\n"
    "static const float *we(const char *name, int e, size_t n)\n"
    "{\n"
    "    char form[512], whole[600];\n\n"
    "    snprintf(form, sizeof form, \"%s%s\", layer_name, name);\n"
    "    snprintf(whole, sizeof whole, form, e);\n"
    "    return W(whole, n);\n"
    "}\n\n"
    "static const float *w(const char *name, size_t n)\n"
    "{\n"
    "    return we(name, 0, n);\n"
    "}\n\n";

static bool has_codes(const lm_listing *l)
{
    for (uint32_t i = l->from; i < l->to; i++)
        if (l->p->nodes[i].code == LM_OP_EXPERTS && l->p->weights[l->p->nodes[i].weights[0]].interleaved.codes)
            return true;
    return false;
}

void lm_listing_c_begin(const lm_listing *l, bool random, lm_text *out)
{
    lm_text_add_str(out, headers);
    lm_text_add_str(out, memory);
    lm_text_add_str(out, reading);
    bool codes = has_codes(l);
    if (codes)
        lm_text_add_str(out, four_bits);
    lm_text_add_str(out, naming);
    if (codes)
        lm_text_add_str(out, "    for (size_t i = 0; i < n_tensors; i++)\n"
                             "        if (strncmp(tensors[i].name, name, strlen(name)) == 0 && strcmp(tensors[i].name + strlen(name), "
                             "\"_blocks\") == 0)\n"
                             "            return from_four_bits(i, name, n);\n");
    lm_text_add_str(out, random ? "    if (n_tensors)\n"
                                  "        stop(\"is not in the checkpoint\", name);\n"
                                  "    float *x = malloc((n + 1) * sizeof *x);  /* made up: small, and always the same */\n"
                                  "    if (!x)\n"
                                  "        stop(\"no memory\", name);\n"
                                  "    for (size_t i = 0; i < n; i++)\n"
                                  "        x[i] = 0.02f * sinf(12.9898f * (float)(i % 65521));\n"
                                  "    return x;\n}\n\n"
                                : "    stop(\"is not in the checkpoint\", name);\n    return NULL;\n}\n\n");
    lm_text_add_str(out, layers);
}

void lm_listing_c_main(const lm_listing *l, lm_text *out)
{
    lm_text_printf(out,
                   "int main(int argc, char **argv)\n"
                   "{\n"
                   "    static int ids[65536];\n\n"
                   "    if (argc != 3)\n"
                   "        stop(\"wants a folder and token numbers: 1,2,3\", argv[0]);\n"
                   "    for (char *p = argv[2]; p && T < 65536; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)\n"
                   "        ids[T++] = atoi(p);\n"
                   "    load(argv[1]);\n"
                   "    float *p = forward(ids) + (size_t)(T - 1) * %u;\n"
                   "    softmax(p, %u);\n"
                   "    for (int k = 0; k < 5; k++) {\n"
                   "        int best = 0;\n"
                   "        for (int i = 1; i < %u; i++)\n"
                   "            best = p[i] > p[best] ? i : best;\n"
                   "        printf(\"%%8d %%.4f\\n\", best, p[best]);\n"
                   "        p[best] = -1;\n"
                   "    }\n"
                   "    return 0;\n"
                   "}\n",
                   l->p->n_vocab, l->p->n_vocab, l->p->n_vocab);
}
