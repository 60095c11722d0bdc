/* Load generator for Thrift binary servers: sends the same request bytes over N connections, one in flight on each.
 *
 *   loadgen --port P [--host A] --request FILE... [--setup FILE...] [--framed] [--scan]
 *           [--connections N] [--warmup S | --warm-calls N] [--duration S] [--min-replies N] [--rate R]
 *   loadgen --port P [--host A] --cycle FILE [the same options]
 *   loadgen --port P [--host A] --batch FILE [--framed]
 *
 * FILE holds one message without a frame; several --request files are sent in turn, over all connections together. --setup files are
 * sent once per connection, before the measurement. --framed puts the length before each message. The end of a reply is
 * found by parsing it as it comes, each byte once; when all replies to a file have the same length (the default) only
 * the first ones are parsed, and --scan parses them all. Replies are never kept: 256 KiB serve all connections.
 * --rate sends R requests a second over all connections, and a latency then runs from the time at which a request was
 * due (no coordinated omission); without it each connection sends as soon as it has its reply.
 * The measurement begins after --warmup seconds, or when --warm-calls requests have been answered.
 * --min-replies goes on after the duration until so many replies have come, up to 5 times the duration (of 0: without a limit):
 * for servers that need a second for one. At the end the replies in flight are waited for, so that `all_replies` is what the server did.
 * --cycle FILE holds many messages, each after its length (4 bytes, big-endian): they are sent in turn, again and again.
 * --batch FILE holds many messages likewise: each is sent once, on one connection,
 * without a warm-up, and every reply is parsed.
 * One thread, epoll. Prints one JSON object; exits 1 after a connection failed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUESTS 65536
#define MAX_DEPTH 64
#define CHUNK (256 << 10)
#define TAIL 16        /* the most that `scan` leaves unread at the end of a chunk is 8 bytes */
#define LONGEST_MS 60000 /* for the replies in flight at the end */
#define NS 1000000000ULL
#define BUCKETS (58 * 128) /* 128 per power of two: 0.8 % */

struct message { uint8_t *bytes; size_t length; size_t reply_length; };
/* Where the parser of one reply stands; `at` may lie ahead of what has come. */
struct level { int in_struct, parts; uint8_t types[2]; uint64_t left; };
struct scanner {
    uint64_t at;
    int depth, started;
    struct level levels[MAX_DEPTH];
};
struct connection {
    int fd, setups_left, busy, failed;
    uint64_t due_ns;
    size_t sent, received;
    const struct message *current;
    struct scanner scanner;
    uint8_t tail[TAIL];
};

enum outcome { MORE, WHOLE, BROKEN };

static struct message requests[MAX_REQUESTS], setups[MAX_REQUESTS];
static int request_count, setup_count, framed, scan_all, connections = 16;
static double warmup_s = 1, duration_s = 5, rate;
static uint64_t measured_from, stop_at, latest; // of the measurement, once it has begun
static double cpu_before;
static uint64_t histogram[BUCKETS], min_replies, warm_calls, replies, all_replies, reply_bytes, exceptions, max_ns, sum_ns;
static int measuring, in_flight, once, next_request;
static uint8_t buffer[TAIL + CHUNK];

static void die(const char *what) { perror(what); exit(1); }

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS + t.tv_nsec;
}

static uint32_t big32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

/* Goes on in a reply of which the bytes [from, to) are at p; leaves `at` at the first byte that it wants next. A step is
 * taken whole or not at all, so that it can be taken again when more has come. */
static enum outcome scan(struct scanner *s, const uint8_t *p, uint64_t from, uint64_t to) {
    static const int fixed[16] = {[2] = 1, [3] = 1, [4] = 8, [6] = 2, [8] = 4, [10] = 8};
    static const int heads[16] = {[11] = 4, [13] = 6, [14] = 5, [15] = 5}; /* before a string's bytes, a container's items */
    p -= from;
    if (!s->started) {
        if (to < 8) return MORE;
        if (framed) s->at = 4 + (uint64_t)big32(p);
        else if (p[0] != 0x80) return BROKEN;
        else {
            s->at = 12 + (uint64_t)big32(p + 4);
            s->levels[s->depth++] = (struct level){.in_struct = 1};
        }
        s->started = 1;
    }
    while (s->depth) {
        struct level *top = &s->levels[s->depth - 1];
        uint64_t at = s->at;
        int type;
        if (top->in_struct) {
            if (at >= to) return MORE;
            type = p[at];
            if (!type) { s->at++; s->depth--; continue; }
            at += 3;
        } else {
            if (!top->left) { s->depth--; continue; }
            type = top->types[top->left % top->parts]; /* a map's keys are at even numbers, counted down */
        }
        if (type < 2 || type > 15 || !(fixed[type] || heads[type] || type == 12)) return BROKEN;
        int head = heads[type];
        if (at + head > to) return MORE;
        if (!top->in_struct) top->left--;
        s->at = at + head + fixed[type];
        if (type == 11) s->at += big32(p + at);
        if (fixed[type] || type == 11) continue;
        if (s->depth == MAX_DEPTH) return BROKEN;
        struct level *next = &s->levels[s->depth++];
        next->in_struct = type == 12;
        if (type == 12) continue;
        next->parts = head - 4;
        next->left = (uint64_t)big32(p + at + next->parts) * next->parts;
        memcpy(next->types, p + at, 2);
    }
    return s->at <= to ? WHOLE : MORE;
}

static void add(struct message *list, int *count, const uint8_t *message, size_t length) {
    if (*count == MAX_REQUESTS) { fprintf(stderr, "loadgen: too many messages\n"); exit(1); }
    size_t head = framed ? 4 : 0;
    uint8_t *bytes = malloc(head + length);
    memcpy(bytes + head, message, length);
    if (framed) { uint32_t n = htonl(length); memcpy(bytes, &n, 4); }
    list[(*count)++] = (struct message){bytes, head + length, 0};
}

static void add_file(struct message *list, int *count, const char *path, int batch) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status)) die(path);
    size_t length = status.st_size, at = 0;
    uint8_t *bytes = malloc(length);
    if (fread(bytes, 1, length, file) != length) die(path);
    fclose(file);
    if (!batch) add(list, count, bytes, length);
    for (; batch && at + 4 <= length && at + 4 + big32(bytes + at) <= length; at += 4 + big32(bytes + at))
        add(list, count, bytes + at + 4, big32(bytes + at));
    if (batch && at != length) { fprintf(stderr, "loadgen: %s is cut short\n", path); exit(1); }
    free(bytes);
}

static void observe(uint64_t ns) {
    int exponent = ns < 256 ? 0 : 56 - __builtin_clzll(ns);
    uint64_t index = (uint64_t)exponent * 128 + (ns >> exponent);
    histogram[index < BUCKETS ? index : BUCKETS - 1]++;
    sum_ns += ns;
    if (ns > max_ns) max_ns = ns;
}

static double percentile(double share) {
    uint64_t wanted = (uint64_t)(share * replies), seen = 0;
    for (int i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (histogram[i] && seen >= wanted) {
            int exponent = i < 256 ? 0 : i / 128 - 1;
            return ((double)((uint64_t)(i - exponent * 128) << exponent)) / 1e6;
        }
    }
    return 0;
}

static void fail(struct connection *c, const char *why) {
    fprintf(stderr, "loadgen: connection failed after %llu replies: %s\n", (unsigned long long)replies, why);
    close(c->fd);
    exit(1);
}

static void push(struct connection *c, int epoll) {
    while (c->sent < c->current->length) {
        ssize_t n = send(c->fd, c->current->bytes + c->sent, c->current->length - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail(c, strerror(errno));
        c->sent += n;
    }
    if (c->sent != c->current->length || c->busy == 2) { /* a large request: wait for room, then stop waiting */
        int waiting = c->sent != c->current->length;
        struct epoll_event event = {.events = EPOLLIN | (waiting ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->busy = waiting ? 2 : 1;
    }
}

static void start(struct connection *c, int epoll, uint64_t due) {
    if (c->setups_left) c->current = &setups[setup_count - c->setups_left];
    else {
        c->current = &requests[next_request];
        next_request = (next_request + 1) % request_count;
    }
    c->busy = 1;
    c->due_ns = due;
    c->sent = c->received = 0;
    c->failed = c->scanner.started = c->scanner.depth = 0;
    c->scanner.at = 0;
    in_flight++;
    push(c, epoll);
}

/* 1 when the reply is complete. */
static int pull(struct connection *c) {
    struct message *current = (struct message *)c->current;
    int parsed = scan_all || !current->reply_length;
    size_t kind = framed ? 7 : 3; /* where the message's type is */
    for (;;) {
        ssize_t n = recv(c->fd, buffer + TAIL, CHUNK, 0);
        if (n < 0 && errno == EAGAIN) return 0;
        if (n <= 0) fail(c, n ? strerror(errno) : "closed by the server");
        size_t from = parsed && c->scanner.at < c->received ? c->scanner.at : c->received, unread = c->received - from;
        uint8_t *p = memcpy(buffer + TAIL - unread, c->tail, unread);
        c->received += n;
        if (kind >= from && kind < c->received) c->failed = p[kind - from] == 3;
        size_t length = current->reply_length;
        if (parsed) {
            enum outcome outcome = scan(&c->scanner, p, from, c->received);
            if (outcome == BROKEN) fail(c, "the reply is not Thrift binary");
            size_t at = c->scanner.at;
            if (outcome == MORE) {
                if (at < c->received) memcpy(c->tail, p + (at - from), c->received - at);
                continue;
            }
            length = current->reply_length = at;
        }
        if (c->received < length) continue;
        if (c->received > length) fail(c, "more bytes than the reply has: use --scan");
        exceptions += c->failed;
        return 1;
    }
}

static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void measure(uint64_t now) {
    measuring = 1;
    exceptions = 0;
    measured_from = now;
    stop_at = now + (uint64_t)(duration_s * NS);
    latest = duration_s > 0 ? now + (uint64_t)(5 * duration_s * NS) : UINT64_MAX;
    cpu_before = cpu_s();
}

static void finish(struct connection *c, uint64_t now) {
    c->busy = 0;
    in_flight--;
    if (c->setups_left) { c->setups_left--; return; }
    all_replies++;
    if (!measuring) {
        if (warm_calls && all_replies == warm_calls) measure(now);
        return;
    }
    replies++;
    reply_bytes += c->received;
    observe(now > c->due_ns ? now - c->due_ns : 0);
}

static struct connection *open_all(const char *host, int port, int epoll) {
    struct connection *all = calloc(connections, sizeof *all);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) { fprintf(stderr, "--host: an IPv4 address\n"); exit(1); }
    for (int i = 0; i < connections; i++) {
        struct connection *c = &all[i];
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->setups_left = setup_count;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl");
    }
    return all;
}

static void report(double seconds, double cpu) {
    printf("{\"rps\": %.1f, \"replies\": %llu, \"exceptions\": %llu, \"seconds\": %.3f, \"connections\": %d,"
           " \"all_replies\": %llu, \"reply_bytes\": %.0f, \"mean_ms\": %.4f, \"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f,"
           " \"p999_ms\": %.4f, \"max_ms\": %.4f, \"loadgen_cpu_s\": %.3f}\n",
           replies / seconds, (unsigned long long)replies, (unsigned long long)exceptions, seconds, connections,
           (unsigned long long)all_replies, replies ? (double)reply_bytes / replies : 0, replies ? sum_ns / 1e6 / replies : 0, percentile(.5),
           percentile(.9), percentile(.99), percentile(.999), max_ns / 1e6, cpu);
}

/* Waits until `wake`, takes what has come; connections whose reply is whole send again if `again`. */
static void turn(int epoll, uint64_t now, uint64_t wake, int again) {
    struct epoll_event events[256];
    uint64_t wait = wake > now ? wake - now : 0;
    struct timespec timeout = {wait / NS, wait % NS};
    int n = epoll_pwait2(epoll, events, 256, &timeout, NULL);
    if (n < 0 && errno != EINTR) die("epoll_pwait2");
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;
        if (c->busy && (events[i].events & EPOLLOUT)) push(c, epoll);
        if (!(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
        if (!pull(c)) continue;
        now = now_ns();
        finish(c, now);
        if (again || c->setups_left) start(c, epoll, now);
    }
}

static void run(struct connection *all, int epoll) {
    uint64_t began = now_ns(), measure_at = began + (uint64_t)(warmup_s * NS), now;
    uint64_t step = rate > 0 ? (uint64_t)(NS / rate) : 0, due = began;
    int next_idle = 0;
    if (once) { measure_at = began; duration_s = 1e6; }
    for (int i = 0; i < connections && (!step || setup_count); i++) start(&all[i], epoll, began);
    for (;;) {
        now = now_ns();
        if (!measuring && !warm_calls && now >= measure_at) measure(now);
        if (once && replies == (uint64_t)request_count) break;
        if (measuring && now >= stop_at && (replies >= min_replies || now >= latest)) break;
        for (int tried = 0; step && due <= now && tried < connections; tried++) {
            struct connection *c = &all[next_idle];
            next_idle = (next_idle + 1) % connections;
            if (c->busy) continue;
            start(c, epoll, due);
            due += step;
            tried = -1;
        }
        uint64_t wake = !measuring ? (warm_calls ? now + NS : measure_at) : now < stop_at ? stop_at : now + NS;
        if (measuring && latest < wake) wake = latest;
        turn(epoll, now, step && due > now && due < wake ? due : wake, !step && !once);
        if (once && !in_flight && all_replies < (uint64_t)request_count) start(all, epoll, now_ns());
    }
    double seconds = (now - measured_from) / 1e9, cpu = cpu_s() - cpu_before;
    measuring = 0;
    uint64_t patience = now + LONGEST_MS * (NS / 1000);
    while (in_flight && (now = now_ns()) < patience) turn(epoll, now, patience, 0);
    report(seconds, cpu);
}

int main(int argc, char **argv) {
    const char *host = "127.0.0.1";
    int port = 0;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--framed")) framed = 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--framed")) continue;
        if (!strcmp(name, "--scan")) { scan_all = 1; continue; }
        const char *value = ++i < argc ? argv[i] : "";
        if (!strcmp(name, "--host")) host = value;
        else if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--request")) add_file(requests, &request_count, value, 0);
        else if (!strcmp(name, "--cycle")) add_file(requests, &request_count, value, 1);
        else if (!strcmp(name, "--batch")) { add_file(requests, &request_count, value, 1); once = 1; }
        else if (!strcmp(name, "--setup")) add_file(setups, &setup_count, value, 0);
        else if (!strcmp(name, "--connections")) connections = atoi(value);
        else if (!strcmp(name, "--warmup")) warmup_s = atof(value);
        else if (!strcmp(name, "--warm-calls")) warm_calls = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--duration")) duration_s = atof(value);
        else if (!strcmp(name, "--min-replies")) min_replies = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--rate")) rate = atof(value);
        else { fprintf(stderr, "loadgen: unknown option %s\n", name); return 2; }
    }
    if (!port || !request_count || connections < 1) { fprintf(stderr, "usage: --port P --request FILE\n"); return 2; }
    if (once) connections = scan_all = 1;
    int epoll = epoll_create1(0);
    run(open_all(host, port, epoll), epoll);
    return 0;
}
