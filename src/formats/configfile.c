/* configfile.c - tell a configuration from other files, and read it. */
#include "formats/configfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/str.h"
#include "formats/nested.h"

#define MAX_CONFIG (UINT64_C(4) << 20)
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

const char *lm_config_name(const char *path)
{
    if (strcmp(path, LM_STANDARD_INPUT) == 0)
        return "standard input";
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0 ? "a pipe" : path;
}

bool lm_config_is_stream(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

/* Return whether a file begins like JSON. A safetensors file begins with the length of its header in
 * eight bytes, of which a small header uses two or three. */
static bool begins_like_json(const unsigned char *head, size_t n)
{
    size_t at = n >= 3 && memcmp(head, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;

    if (n >= 8 && !head[5] && !head[6] && !head[7])
        return false;
    while (at < n && strchr(" \t\r\n", head[at]) && head[at])
        at++;
    return at < n && head[at] == '{';
}

bool lm_config_is_file(const char *path)
{
    unsigned char head[64];

    if (!lm_path_is_file(path) || lm_view_ends(lm_view_of(path), LM_VIEW(".safetensors")))
        return false;
    if (lm_view_ends(lm_view_of(path), LM_VIEW(".json")))
        return true;
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n  = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return n > 0 && begins_like_json(head, (size_t)n);
}

/* Read what is available, waiting for its first byte; *n 0: the end. */
static lm_status read_some(int fd, char *to, size_t max, size_t *n, const char *name, lm_error *e)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    for (;;) {
        ssize_t got = read(fd, to, max);
        if (got >= 0) {
            *n = (size_t)got;
            return LM_OK;
        }
        if (errno != EINTR && errno != EAGAIN)
            return lm_fail_errno(e, name, "cannot be read");
        if (errno == EAGAIN)
            poll(&ready, 1, -1);
    }
}

static lm_status read_to_end(int fd, const char *name, lm_text *out, lm_error *e)
{
    for (size_t n = 1; n;) {
        if (!lm_text_reserve(out, 1 << 16))
            return lm_fail_memory(e, name, out->size);
        LM_TRY(read_some(fd, out->data + out->size, 1 << 16, &n, name, e));
        out->size += n;
        out->data[out->size] = '\0';
        if (out->size > MAX_CONFIG) {
            lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "more than %llu bytes, which no config.json has",
                    (unsigned long long)MAX_CONFIG);
            return lm_fail_in(e, name);
        }
    }
    return LM_OK;
}

static lm_status read_stream(const char *path, char **text, size_t *size, lm_error *e)
{
    const char *name = lm_config_name(path);
    lm_text     all  = { 0 };
    int         fd   = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return lm_fail_errno(e, name, "cannot be opened");
    lm_status status = read_to_end(fd, name, &all, e);
    close(fd);
    if (status != LM_OK) {
        lm_text_free(&all);
        return status;
    }
    *text = all.data;
    *size = all.size;
    return LM_OK;
}

lm_status lm_config_read(const char *path, char **text, size_t *size, lm_error *e)
{
    const size_t mark = sizeof BYTE_ORDER_MARK - 1;

    if (!lm_config_is_stream(path))
        return lm_file_read(path, MAX_CONFIG, text, size, e);
    LM_TRY(read_stream(path, text, size, e));
    if (*size >= mark && memcmp(*text, BYTE_ORDER_MARK, mark) == 0) {
        *size -= mark;
        memmove(*text, *text + mark, *size + 1);
    }
    return LM_OK;
}

lm_status lm_config_parse(const char *text, size_t size, const char *name, lm_text *warnings, lm_meta **out,
                          lm_error *e)
{
    enum { DEPTH = 32 };
    size_t  n    = size, noted = warnings ? warnings->size : 0;
    char   *copy = lm_alloc(size + 1);

    if (!copy)
        return lm_fail_memory(e, name, size);
    memcpy(copy, text, size);
    copy[size] = '\0';
    lm_status status = lm_nested_config(&copy, &n, name, -1, warnings, e);
    if (status == LM_OK)
        status = lm_meta_from_json(copy, n, name, DEPTH, out, e);
    if (status == LM_OK && warnings && warnings->size > noted)
        lm_text_add_str(warnings, "\n");
    lm_free(copy);
    return status;
}
