/* listen.c - listen.h: sockets of addresses, names and paths. Threads: the one that starts the server. */
#include "server/front/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

static const char *unix_path(const char *host)
{
    return strncmp(host, "unix:", 5) == 0 ? host + 5 : NULL;
}

/* ---- unix sockets ---- */

/* Whether it is a stale socket file, at which no process listens. */
static bool is_left_behind(const struct sockaddr_un *at)
{
    struct stat s;
    int fd;
    bool left;

    if (lstat(at->sun_path, &s) < 0 || !S_ISSOCK(s.st_mode) ||
        (fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return false;
    left = connect(fd, (const struct sockaddr *)at, sizeof *at) < 0 && errno == ECONNREFUSED;
    close(fd);
    return left;
}

static lm_status listen_unix(const char *path, int *out, lm_text *url, lm_error *e)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd;

    if (!*path || strlen(path) >= sizeof at.sun_path)
        return lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET, "a unix socket has a path of 1 to %zu bytes",
                       sizeof at.sun_path - 1);
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (is_left_behind(&at))
        unlink(path);
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return lm_fail_errno(e, path, "cannot make a socket");
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0) {
        lm_fail_errno(e, path, "cannot listen");
        close(fd);
        return LM_IO;
    }
    lm_text_printf(url, "unix:%s", path);
    *out = fd;
    return LM_OK;
}

/* ---- addresses ---- */

static int listen_at(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol), yes = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static void add_address(lm_text *url, int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getsockname(fd, (struct sockaddr *)&at, &size) < 0 ||
        getnameinfo((struct sockaddr *)&at, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return;
    lm_text_printf(url, at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

lm_status lm_listen(const char *host, uint16_t port, int *out, lm_text *url, lm_error *e)
{
    struct addrinfo want = { .ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
                    *found = NULL;
    char number[8];
    int fd = -1, why;

    if (unix_path(host))
        return listen_unix(unix_path(host), out, url, e);
    snprintf(number, sizeof number, "%u", port);
    if ((why = getaddrinfo(host, number, &want, &found)))
        return lm_fail(e, LM_USAGE, "--host", LM_NO_OFFSET, "%s: %s", host, gai_strerror(why));
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = listen_at(a);
    why = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return lm_fail(e, LM_IO, "--host", LM_NO_OFFSET, "cannot listen at %s, port %u: %s", host, port,
                       strerror(why));
    add_address(url, fd);
    *out = fd;
    return LM_OK;
}

bool lm_listen_is_local(const char *host)
{
    unsigned char address[16];

    if (unix_path(host) || strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, address) == 1)
        return address[0] == 127;
    return inet_pton(AF_INET6, host, address) == 1 && memcmp(address, &in6addr_loopback, 16) == 0;
}
