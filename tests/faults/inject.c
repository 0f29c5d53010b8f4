/* SPDX-License-Identifier: Apache-2.0 */
#include "inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

const char *const call_names[kCallCount] = {
    "socket",        "bind",       "listen",      "accept4",        "connect",
    "epoll_create1", "epoll_ctl",  "eventfd",     "timerfd_create", "timerfd_settime",
    "setsockopt",    "getsockopt", "getsockname", "getpeername",    "ioctl",
    "fcntl",         "open",       "getrandom",   "pthread_create", "mmap",
    "read",          "write",      "sendmsg",     "recvmsg",        "malloc",
    "descriptors",
};

static Fault armed;
static struct rlimit full;
static atomic_bool active;
static atomic_long counts[kCallCount];
static atomic_long hits;
static atomic_long live;
static _Thread_local bool here;
static atomic_bool narrow, hangs_up;
static atomic_int dialed = -1;
static atomic_long dials;

/* The lowest free number bounds what the process may have from now on: there are no gaps, as far as
 * it matters, since descriptors that were closed were the last ones. */
static void limit_descriptors(long more) {
    int lowest = dup(0);
    struct rlimit limit = {(rlim_t)(lowest + more), full.rlim_max};
    close(lowest);
    setrlimit(RLIMIT_NOFILE, &limit);
}

void inject_arm(const Fault *fault) {
    armed = *fault;
    getrlimit(RLIMIT_NOFILE, &full);
    if (fault->call == kDescriptors && fault->nth != 0) limit_descriptors(fault->nth - 1);
    here = true;
    for (int i = 0; i < kCallCount; i++)
        counts[i] = 0;
    hits = 0;
    active = true;
}

void inject_disarm(void) {
    if (active && armed.call == kDescriptors) setrlimit(RLIMIT_NOFILE, &full);
    active = false;
    here = false;
}

long inject_count(Call call) {
    return counts[call];
}

long inject_hits(void) {
    return hits;
}

long inject_live(void) {
    return live;
}

void inject_narrow(void) {
    narrow = true;
}

void inject_hang_up(void) {
    hangs_up = true;
}

long inject_dials(void) {
    return dials;
}

int inject_dialed(void) {
    return dialed;
}

static bool due(Call call) {
    if (!active || (armed.here && !here)) return false;
    long number = ++counts[call];
    if (call != armed.call || armed.nth == 0) return false;
    if (number != armed.nth && !(armed.onward && number > armed.nth)) return false;
    hits++;
    return true;
}

/* True if this call is to fail; errno is set. */
static bool fails(Call call) {
    if (!due(call)) return false;
    errno = armed.error;
    return true;
}

/* The function of that name that comes after ours: the sanitizer's or the C library's. */
#define NEXT(name)                 \
    static __typeof__(&name) next; \
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, #name)

#define CALLER __builtin_return_address(0)

/* There are things that libuv cannot bear to fail. */
static bool of_libuv(const void *caller) {
    Dl_info info;
    return active && dladdr(caller, &info) != 0 && strstr(info.dli_fname, "/libuv.") != NULL;
}

/* ---- descriptors ---- */

static bool is_unix(int fd) {
    NEXT(getsockopt);
    int domain = 0;
    socklen_t size = sizeof domain;
    return next(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int socket(int domain, int type, int protocol) {
    NEXT(socket);
    return fails(kSocket) ? -1 : next(domain, type, protocol);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t size) {
    NEXT(bind);
    return fails(kBind) ? -1 : next(fd, address, size);
}

int listen(int fd, int backlog) {
    NEXT(listen);
    return fails(kListen) ? -1 : next(fd, backlog);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *size, int flags) {
    NEXT(accept4);
    if (fails(kAccept)) return -1;
    const int accepted = next(fd, address, size, flags);
    if (hangs_up && accepted >= 0 && is_unix(accepted)) shutdown(accepted, SHUT_RDWR);
    return accepted;
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t size) {
    NEXT(connect);
    const int little = 16 * 1024;
    if (narrow) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    if (!is_unix(fd)) {
        dialed = fd;
        dials++;
    }
    return fails(kConnect) ? -1 : next(fd, address, size);
}

int epoll_create1(int flags) {
    NEXT(epoll_create1);
    return fails(kEpollCreate) ? -1 : next(flags);
}

/* libuv aborts where it registers a descriptor of its own accord and cannot (it marks the event
 * with the descriptor); it says so only of those that it was given, which it tries first. That a
 * descriptor can be taken off always holds. */
int epoll_ctl(int set, int op, int fd, struct epoll_event *event) {
    NEXT(epoll_ctl);
    bool may_fail = op == EPOLL_CTL_ADD && event->data.fd != fd;
    return may_fail && fails(kEpollCtl) ? -1 : next(set, op, fd, event);
}

/* Without it uv_loop_init leaks another descriptor, or aborts. */
int eventfd(unsigned value, int flags) {
    NEXT(eventfd);
    return !of_libuv(CALLER) && fails(kEventfd) ? -1 : next(value, flags);
}

int timerfd_create(int clock, int flags) {
    NEXT(timerfd_create);
    return fails(kTimerfdCreate) ? -1 : next(clock, flags);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *old) {
    NEXT(timerfd_settime);
    return fails(kTimerfdSettime) ? -1 : next(fd, flags, time, old);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    NEXT(setsockopt);
    return fails(kSetsockopt) ? -1 : next(fd, level, name, value, size);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    NEXT(getsockopt);
    return fails(kGetsockopt) ? -1 : next(fd, level, name, value, size);
}

int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *size) {
    NEXT(getsockname);
    return fails(kGetsockname) ? -1 : next(fd, address, size);
}

int getpeername(int fd, __SOCKADDR_ARG address, socklen_t *size) {
    NEXT(getpeername);
    return fails(kGetpeername) ? -1 : next(fd, address, size);
}

static void *last_argument(va_list list) {
    void *argument = va_arg(list, void *);
    va_end(list);
    return argument;
}

int ioctl(int fd, unsigned long request, ...) {
    NEXT(ioctl);
    va_list list;
    va_start(list, request);
    void *argument = last_argument(list);
    return fails(kIoctl) ? -1 : next(fd, request, argument);
}

int fcntl(int fd, int command, ...) {
    NEXT(fcntl);
    va_list list;
    va_start(list, command);
    void *argument = last_argument(list);
    return fails(kFcntl) ? -1 : next(fd, command, argument);
}

int open(const char *path, int flags, ...) {
    NEXT(open);
    va_list list;
    va_start(list, flags);
    mode_t mode = (mode_t)(uintptr_t)last_argument(list);
    return fails(kOpen) ? -1 : next(path, flags, mode);
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    NEXT(getrandom);
    return fails(kGetrandom) ? -1 : next(bytes, size, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    NEXT(pthread_create);
    return due(kThread) ? armed.error : next(thread, attributes, run, argument);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    NEXT(mmap);
    return fails(kMmap) ? MAP_FAILED : next(address, length, protection, flags, fd, offset);
}

/* ---- bytes ---- */

ssize_t read(int fd, void *bytes, size_t size) {
    NEXT(read);
    return fails(kRead) ? -1 : next(fd, bytes, size);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    NEXT(write);
    return fails(kWrite) ? -1 : next(fd, bytes, size);
}

/* `message` with room for its first byte only, by way of `one`. */
static struct msghdr one_byte(const struct msghdr *message, struct iovec *one) {
    struct msghdr small = *message;
    size_t i = 0;
    while (i + 1 < (size_t)message->msg_iovlen && message->msg_iov[i].iov_len == 0)
        i++;
    if (message->msg_iovlen == 0) return small;
    *one = message->msg_iov[i];
    if (one->iov_len > 1) one->iov_len = 1;
    small.msg_iov = one;
    small.msg_iovlen = 1;
    return small;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    NEXT(sendmsg);
    if (!due(kSendmsg)) return next(fd, message, flags);
    struct iovec one;
    struct msghdr small = one_byte(message, &one);
    if (armed.error == kShort) return next(fd, &small, flags);
    errno = armed.error;
    return -1;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    NEXT(recvmsg);
    if (!due(kRecvmsg)) return next(fd, message, flags);
    struct iovec one;
    struct msghdr small = one_byte(message, &one);
    errno = armed.error;
    if (armed.error != kShort) return -1;
    const ssize_t size = next(fd, &small, flags);
    /* Else it would find descriptors where nothing came. */
    message->msg_controllen = small.msg_controllen;
    message->msg_flags = small.msg_flags;
    return size;
}

/* ---- memory ---- */

#ifdef __SANITIZE_ADDRESS__

/* A sanitizer keeps the allocator for itself; C++ asks it by way of these. */
_Noreturn void _ZSt17__throw_bad_allocv(void);
void *_Znwm(size_t size);
void *_Znwm(size_t size) {
    if (fails(kAlloc)) _ZSt17__throw_bad_allocv();
    return malloc(size == 0 ? 1 : size);
}
void *_Znam(size_t size);
void *_Znam(size_t size) {
    return _Znwm(size);
}
struct nothrow;
void *_ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag);
void *_ZnwmRKSt9nothrow_t(size_t size, const struct nothrow *tag) {
    (void)tag;
    return fails(kAlloc) ? NULL : malloc(size == 0 ? 1 : size);
}
void _ZdlPv(void *memory);
void _ZdlPv(void *memory) {
    free(memory);
}
void _ZdlPvm(void *memory, size_t size);
void _ZdlPvm(void *memory, size_t size) {
    (void)size;
    free(memory);
}
void _ZdaPv(void *memory);
void _ZdaPv(void *memory) {
    free(memory);
}
void _ZdaPvm(void *memory, size_t size);
void _ZdaPvm(void *memory, size_t size) {
    (void)size;
    free(memory);
}

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void *counted(void *memory) {
    if (memory != NULL) live++;
    return memory;
}

void *malloc(size_t size) {
    return fails(kAlloc) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return fails(kAlloc) ? NULL : counted(__libc_calloc(count, size));
}

/* libuv aborts where the table of its descriptors cannot grow; it grows nothing else. */
void *realloc(void *old, size_t size) {
    if (!of_libuv(CALLER) && fails(kAlloc)) return NULL;
    void *memory = __libc_realloc(old, size);
    if (old == NULL) counted(memory);
    if (old != NULL && size == 0) live--;
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails(kAlloc) ? NULL : counted(__libc_memalign(alignment, size));
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    if (due(kAlloc)) return ENOMEM;
    *memory = counted(__libc_memalign(alignment, size));
    return *memory == NULL ? ENOMEM : 0;
}

void free(void *memory) {
    if (memory == NULL) return;
    live--;
    __libc_free(memory);
}

#endif
