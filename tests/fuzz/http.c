/* http.c - fuzz target: bytes that a server with a small model receives on a connection.
 *
 * The input is sent unchanged; the server must answer in HTTP or close the connection, and answer the next
 * one. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "server/start/serve.h"

static const char *const pieces[] = {
    "GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ", "/v1/completions", "/v1/chat/completions", "/v1/messages", "/api/chat", "/health", "/slots/0?action=erase",
    "/v1/models/x", "/%00", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/9.9\r\n", "Host: localhost\r\n", "Host: evil\r\n", "Origin: null\r\n",
    "Content-Length: 20\r\n", "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Transfer-Encoding: chunked\r\n",
    "Content-Type: application/json\r\n", "Expect: 100-continue\r\n", "Connection: close\r\n", "\r\n", "\r\n\r\n", "5\r\nhello\r\n", "0\r\n\r\n",
    "ffffffffffffffff\r\n", "{\"prompt\": \"a\", \"max_tokens\": 2}", "{\"stream\": true}", "[[[[", "\xff\xfe", "X: y\r\n z\r\n", "Authorization: Bearer \r\n",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    for (size_t n = 1 + below(&seed, 3); n; n--) {
        const char *piece = pieces[below(&seed, sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece), at = below(&seed, size + 1);

        if (below(&seed, 3) == 0 || size + length > max_size) {
            size = LLVMFuzzerMutate(data, size, max_size);
            continue;
        }
        memmove(data + at + length, data + at, size - at);
        memcpy(data + at, piece, length);
        size += length;
    }
    return size;
}

static uint16_t port(void)
{
    static const char *const hosts[] = { "127.0.0.1", NULL };
    static lm_service_options model;
    static lm_server *server;
    static uint16_t at;
    lm_server_options o = { .http = { .hosts = hosts },
                            .models = { .services = &model, .n = 1, .stays = true } };
    lm_error e = { 0 };

    if (server)
        return at;
    model = (lm_service_options){ .path = GOLDEN_MODEL,
                                  .sampling = lm_sampler_defaults(),
                                  .predict = 4,
                                  .metrics = true,
                                  .engine = {
                                      .sequences = 2, .max_logits = 4, .context = 64, .threads = 1 } };
    PROMISE(lm_server_start(&o, false, &server, &e) == LM_OK);
    PROMISE(lm_server_load(server, &e) == LM_OK);
    at = (uint16_t)atoi(strrchr(lm_server_url(server, 0), ':') + 1);
    return at;
}

/* Receive up to `max` bytes, waiting at most so many milliseconds. */
static size_t hear(int fd, char *to, size_t max, int milliseconds)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n = poll(&p, 1, milliseconds) > 0 ? recv(fd, to, max, 0) : 0;

    return n > 0 ? (size_t)n : 0;
}

static int reach(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port()),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    PROMISE(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char alive[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static unsigned count;
    char answer[64] = "";
    int fd = reach();

    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0)                          /* the server has closed the connection */
            break;
        sent += (size_t)n;
    }
    size_t n = hear(fd, answer, sizeof answer - 1, 3);       /* a whole request is answered sooner, half a
                                                                request never */
    PROMISE(!n || n < 9 || memcmp(answer, "HTTP/1.", 7) == 0);
    close(fd);
    if (count++ % 16)
        return 0;
    fd = reach();
    PROMISE(send(fd, alive, sizeof alive - 1, MSG_NOSIGNAL) == (ssize_t)sizeof alive - 1);
    n = hear(fd, answer, sizeof answer - 1, 60000);
    PROMISE(n >= 12 && memcmp(answer, "HTTP/1.1 200", 12) == 0);
    close(fd);
    return 0;
}
