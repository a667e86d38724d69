#define _GNU_SOURCE
#include "syscall_points.h"

#include "arch.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name_, ...) { .nr = SYS_##name_, .name = #name_, __VA_ARGS__ }

static const struct call CALLS[] = {
    CALL(write, .fd = 1, .length = 3, .grows = true),
    CALL(pwrite64, .fd = 1, .length = 3, .offset = 4, .grows = true),
    CALL(writev, .fd = 1, .vector = 2, .grows = true),
    CALL(pwritev, .fd = 1, .vector = 2, .offset = 4, .grows = true),
    CALL(sendfile, .fd = 1, .length = 4, .grows = true),
    CALL(splice, .fd = 3, .length = 5, .offset_at = 4, .grows = true),
    CALL(sendto, .fd = 1, .length = 3, .message = true),
    CALL(recvfrom, .fd = 1, .message = true),
    CALL(fallocate, .fd = 1, .grows = true),
    CALL(ftruncate, .fd = 1),
    CALL(fsync, .fd = 1, .syncs = true),
    CALL(fdatasync, .fd = 1, .syncs = true),
    CALL(syncfs, .fd = 1, .syncs = true),
    CALL(sync, .syncs = true, .syncs_all = true),
    CALL(fchmod, .fd = 1),
    CALL(fchown, .fd = 1),
    CALL(truncate, .path = 1, .must = PRESENT),
    CALL(openat, .dir = 1, .path = 2, .flags = 3),
    CALL(mkdirat, .dir = 1, .path = 2, .must = ABSENT, .grows = true),
    CALL(mknodat, .dir = 1, .path = 2, .must = ABSENT, .grows = true),
    CALL(symlinkat, .dir = 2, .path = 3, .must = ABSENT, .grows = true),
    CALL(linkat, .dir = 3, .path = 4, .must = ABSENT, .grows = true),
    CALL(unlinkat, .dir = 1, .path = 2, .must = PRESENT),
    CALL(fchmodat, .dir = 1, .path = 2, .must = PRESENT),
    CALL(fchownat, .dir = 1, .path = 2, .must = PRESENT),
    CALL(utimensat, .dir = 1, .path = 2, .must = PRESENT),
#ifdef SYS_sync_file_range
    CALL(sync_file_range, .fd = 1, .syncs = true),
#endif
#ifdef SYS_pwritev2
    CALL(pwritev2, .fd = 1, .vector = 2, .offset = 4, .grows = true),
#endif
#ifdef SYS_copy_file_range
    CALL(copy_file_range, .fd = 3, .length = 5, .offset_at = 4, .grows = true),
#endif
#ifdef SYS_openat2
    CALL(openat2, .dir = 1, .path = 2, .flags = 3),
#endif
#ifdef SYS_fchmodat2
    CALL(fchmodat2, .dir = 1, .path = 2, .must = PRESENT),
#endif
#ifdef SYS_renameat
    CALL(renameat, .dir = 3, .path = 4, .from_dir = 1, .from = 2, .must = PRESENT, .grows = true),
#endif
#ifdef SYS_renameat2
    CALL(renameat2, .dir = 3, .path = 4, .from_dir = 1, .from = 2, .must = PRESENT, .grows = true),
#endif
#ifdef SYS_open /* the older names: on x86-64, not on aarch64 */
    CALL(open, .path = 1, .flags = 2),
    CALL(creat, .path = 1),
    CALL(rename, .path = 2, .from = 1, .must = PRESENT, .grows = true),
    CALL(mkdir, .path = 1, .must = ABSENT, .grows = true),
    CALL(mknod, .path = 1, .must = ABSENT, .grows = true),
    CALL(symlink, .path = 2, .must = ABSENT, .grows = true),
    CALL(link, .path = 2, .must = ABSENT, .grows = true),
    CALL(unlink, .path = 1, .must = PRESENT),
    CALL(rmdir, .path = 1, .must = PRESENT),
    CALL(chmod, .path = 1, .must = PRESENT),
    CALL(chown, .path = 1, .must = PRESENT),
    CALL(lchown, .path = 1, .must = PRESENT),
    CALL(utime, .path = 1, .must = PRESENT),
    CALL(utimes, .path = 1, .must = PRESENT),
    CALL(futimesat, .dir = 1, .path = 2, .must = PRESENT),
#endif
};
enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS };

/* How processes notice each other besides by files: messages, signals, locks, and ends of pipes that close. */
static const int EXCHANGES[] = {
    SYS_sendmsg, SYS_sendto, SYS_sendmmsg, SYS_shutdown, SYS_connect, SYS_kill, SYS_tkill, SYS_tgkill,
    SYS_pidfd_send_signal, SYS_flock, SYS_fcntl, SYS_close, SYS_close_range, SYS_dup3,
#ifdef SYS_dup2
    SYS_dup2,
#endif
};
enum { EXCHANGE_COUNT = sizeof EXCHANGES / sizeof *EXCHANGES };

static char directory[PATH_MAX]; /* real and without a slash at the end, so that "/" is empty */
static int server_port;          /* 0: there is none */

bool set_directory(const char *name)
{
    if (!realpath(name, directory))
        return false;
    if (strcmp(directory, "/") == 0)
        directory[0] = '\0';
    return true;
}

void set_server(int port)
{
    server_port = port;
}

bool install_filter(bool exchanges, bool messages)
{
    struct sock_filter code[5 + 5 * CALL_COUNT + 2 * EXCHANGE_COUNT];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < CALL_COUNT; i++) {
        const struct call *call = &CALLS[i];
        if (call->message && !messages)
            continue;
        /* Most opens only read: their flags are tested here, without waking the tracer. openat2 hides them in memory. */
        bool test_flags = call->flags && strcmp(call->name, "openat2") != 0;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call->nr, 0, test_flags ? 4 : 1);
        if (test_flags) {
            unsigned low_word = offsetof(struct seccomp_data, args) + 8u * (call->flags - 1u);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_word);
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | O_TRUNC, 1, 0);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    for (int i = 0; exchanges && i < EXCHANGE_COUNT; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)EXCHANGES[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { n, code };
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
        return true;
    /* Without privileges the kernel asks us to give up gaining any. */
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

ssize_t tracee_memory(pid_t tid, __uint64_t address, int operation, void *data, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", tid);
    int fd = open(name, operation | O_CLOEXEC);
    ssize_t done = operation == O_RDONLY ? pread(fd, data, size, (off_t)address) : pwrite(fd, data, size, (off_t)address);
    close(fd);
    return done;
}

bool path_of_fd(pid_t tid, int fd, char *path)
{
    char name[64];
    struct stat status;
    if (fd == AT_FDCWD)
        snprintf(name, sizeof name, "/proc/%d/cwd", tid);
    else
        snprintf(name, sizeof name, "/proc/%d/fd/%d", tid, fd);
    ssize_t length = readlink(name, path, PATH_MAX - 1);
    if (length <= 0 || path[0] != '/')
        return false;
    path[length] = '\0';
    return stat(name, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) && status.st_nlink > 0;
}

/* The last component is not resolved, for the calls act on the name itself. */
bool path_of_name(pid_t tid, int dir, __uint64_t address, char *path)
{
    static const char OWN[] = "/proc/self/"; /* seen from here, that would be our own */
    char text[PATH_MAX] = "", whole[2 * PATH_MAX], parent[PATH_MAX];
    if (address && tracee_memory(tid, address, O_RDONLY, text, sizeof text - 1) < 0)
        return false;
    if (!text[0]) /* AT_EMPTY_PATH, and futimens */
        return dir != AT_FDCWD && path_of_fd(tid, dir, path);
    if (text[0] != '/' && !path_of_fd(tid, dir, parent))
        return false;
    if (strncmp(text, OWN, sizeof OWN - 1) == 0)
        snprintf(whole, sizeof whole, "/proc/%d/%s", tid, text + sizeof OWN - 1);
    else
        snprintf(whole, sizeof whole, "%s/%s", text[0] == '/' ? "" : parent, text);
    for (size_t end = strlen(whole); end > 1 && whole[end - 1] == '/'; end--)
        whole[end - 1] = '\0';
    char *leaf = strrchr(whole, '/');
    *leaf++ = '\0';
    if (!realpath(whole[0] ? whole : "/", parent))
        return false;
    return snprintf(path, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", leaf) < PATH_MAX;
}

static bool is_below(const char *path)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool open_changes(pid_t tid, const info_t *info, struct point *point)
{
    const struct call *call = point->call;
    __uint64_t flags = call->flags ? info->seccomp.args[call->flags - 1] : O_CREAT | O_TRUNC;
    if (strcmp(call->name, "openat2") == 0 && tracee_memory(tid, flags, O_RDONLY, &flags, sizeof flags) != sizeof flags)
        return false;
    struct stat status;
    bool exists = stat(point->path, &status) == 0;
    point->grows = !exists;
    return exists ? (flags & O_TRUNC) && !(flags & O_EXCL) && S_ISREG(status.st_mode) : (flags & O_CREAT) != 0;
}

static bool changes_name(pid_t tid, const info_t *info, struct point *point)
{
    const struct call *call = point->call;
    const __uint64_t *args = info->seccomp.args;
    char moved[PATH_MAX];
    struct stat status;
    if (!path_of_name(tid, call->dir ? (int)args[call->dir - 1] : AT_FDCWD, args[call->path - 1], point->path))
        return false;
    const char *subject = point->path;
    if (call->from) {
        if (!path_of_name(tid, call->from_dir ? (int)args[call->from_dir - 1] : AT_FDCWD, args[call->from - 1], moved))
            return false;
        subject = moved;
    }
    if (!is_below(point->path) && !is_below(subject))
        return false;
    if (call->must == ANY)
        return open_changes(tid, info, point);
    return (lstat(subject, &status) == 0) == (call->must == PRESENT);
}

/* The connection is looked at through a copy of its descriptor: the tracer shares no files with the tracee. */
static bool is_to_server(pid_t process, int fd)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t size = sizeof peer;
    int handle = server_port ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
    int copy = handle < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, handle, fd, 0);
    bool known = copy >= 0 && getpeername(copy, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family == AF_INET;
    close(copy);
    close(handle);
    return known && ntohs(((struct sockaddr_in *)&peer)->sin_port) == server_port;
}

bool find_point(pid_t tid, const info_t *info, struct point *point)
{
    for (int i = 0; i < CALL_COUNT && !point->call; i++)
        if ((__uint64_t)CALLS[i].nr == info->seccomp.nr)
            point->call = &CALLS[i];
    if (!point->call)
        return false;
    point->grows = point->call->grows;
    if (point->call->syncs_all)
        return snprintf(point->path, sizeof point->path, "%s", directory) >= 0;
    if (point->call->message)
        return is_to_server(point->pid, (int)info->seccomp.args[0]) && snprintf(point->path, sizeof point->path, SERVER) >= 0;
    if (!point->call->fd)
        return changes_name(tid, info, point);
    return path_of_fd(tid, (int)info->seccomp.args[point->call->fd - 1], point->path) && is_below(point->path);
}

static bool is_message(pid_t tid, int fd)
{
    char name[64];
    struct stat status;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", tid, fd);
    return stat(name, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

static bool is_lock_command(__uint64_t command)
{
    return command == F_GETLK || command == F_SETLK || command == F_SETLKW || command == F_OFD_GETLK ||
           command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

bool is_exchange(pid_t tid, const info_t *info, bool by_main_process)
{
    switch (info->seccomp.nr) {
    case SYS_fcntl:
        return is_lock_command(info->seccomp.args[1]);
    case SYS_flock:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_pidfd_send_signal:
        return true;
    case SYS_write:
    case SYS_writev:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendto:
    case SYS_connect:
    case SYS_shutdown:
        return by_main_process || is_message(tid, (int)info->seccomp.args[0]);
    }
    return by_main_process;
}

const char *shown_path(const char *path)
{
    if (!is_below(path))
        return path;
    const char *rest = path + strlen(directory);
    return *rest ? rest + 1 : ".";
}

void print_string(FILE *file, const char *key, const char *text)
{
    fprintf(file, ",\"%s\":\"", key);
    for (; *text; text++)
        fprintf(file, (unsigned char)*text < ' ' || strchr("\"\\", *text) ? "\\u%04x" : "%c", (unsigned char)*text);
    fputc('"', file);
}

void print_point(FILE *file, const struct point *point)
{
    fprintf(file, "{\"number\":%ld,\"pid\":%d,\"is_main_process\":%s", point->number, point->pid, point->is_main_process ? "true" : "false");
    print_string(file, "comm", point->comm);
    print_string(file, "syscall", point->call->name);
    print_string(file, "path", shown_path(point->path));
    fprintf(file, ",\"exchanges\":%ld,\"is_alone\":%s", point->exchanges, point->is_alone ? "true" : "false");
    fprintf(file, ",\"needs_room\":%s", point->grows || point->call->syncs ? "true" : "false");
}
