#define _GNU_SOURCE
#include "recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES_MAX = 1024, MAY_SYNC = O_SYNC | O_DSYNC };

static FILE *file;
static struct stat output; /* standard output */
static struct point current;
static __uint64_t args[6];
static char source[PATH_MAX]; /* the name that is moved or linked */

bool start_recording(const char *name)
{
    return fstat(STDOUT_FILENO, &output) == 0 && (file = fopen(name, "we"));
}

bool is_recording(void)
{
    return file != NULL;
}

bool finish_recording(void)
{
    return fclose(file) == 0;
}

static bool is_call(const char *name)
{
    return strcmp(current.call->name, name) == 0;
}

static void print_bytes(const unsigned char *bytes, ssize_t count)
{
    for (ssize_t i = 0; i < count; i++)
        fprintf(file, "%02x", bytes[i]);
}

/* ---- standard output ---- */

static void print_memory(pid_t tid, const struct iovec *piece)
{
    unsigned char *bytes = malloc(piece->iov_len + 1);
    if (bytes)
        print_bytes(bytes, tracee_memory(tid, (__uint64_t)piece->iov_base, O_RDONLY, bytes, piece->iov_len));
    free(bytes);
}

static bool is_output(pid_t tid, int fd)
{
    char name[64];
    struct stat status;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", tid, fd);
    return stat(name, &status) == 0 && status.st_dev == output.st_dev && status.st_ino == output.st_ino;
}

void record_output(pid_t tid, const info_t *info)
{
    const __uint64_t *given = info->seccomp.args;
    struct iovec pieces[PIECES_MAX] = { { (void *)given[1], given[2] } };
    size_t count = 1;
    if ((info->seccomp.nr != SYS_write && info->seccomp.nr != SYS_writev) || !is_output(tid, (int)given[0]))
        return;
    if (info->seccomp.nr == SYS_writev) {
        count = given[2] < PIECES_MAX ? given[2] : PIECES_MAX;
        if (tracee_memory(tid, given[1], O_RDONLY, pieces, count * sizeof *pieces) != (ssize_t)(count * sizeof *pieces))
            return;
    }
    fputs("{\"output\":\"", file);
    for (size_t i = 0; i < count; i++)
        print_memory(tid, &pieces[i]);
    fputs("\"}\n", file);
}

/* ---- points ---- */

void record_before(pid_t tid, const info_t *info, const struct point *point)
{
    const struct call *call = point->call;
    current = *point;
    memcpy(args, info->seccomp.args, sizeof args);
    source[0] = '\0';
    unsigned char dir = call->from_dir, from = call->from;
    if (is_call("link") || is_call("linkat")) { /* the name that is linked lies before the new one */
        from = call->path - (call->dir ? 2 : 1);
        dir = call->dir ? call->dir - 2 : 0;
    }
    if (from && !path_of_name(tid, dir ? (int)args[dir - 1] : AT_FDCWD, args[from - 1], source))
        source[0] = '\0';
}

static long field_of_fd(pid_t tid, int fd, const char *field, int base)
{
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", tid, fd);
    int info = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = info < 0 ? 0 : read(info, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    close(info);
    const char *found = strstr(text, field);
    return found ? strtol(found + strlen(field), NULL, base) : 0;
}

/* Where the bytes went. A file that is open for appending takes them at its end, whatever the call says. */
static off_t offset_of(pid_t tid, int fd, long written, off_t size)
{
    const struct call *call = current.call;
    off_t offset = call->offset ? (off_t)args[call->offset - 1] : -1;
    if (field_of_fd(tid, fd, "flags:", 8) & O_APPEND)
        return size - written;
    if (call->offset_at && args[call->offset_at - 1])
        return tracee_memory(tid, args[call->offset_at - 1], O_RDONLY, &offset, sizeof offset) == sizeof offset ? offset - written : -1;
    return offset >= 0 ? offset : field_of_fd(tid, fd, "pos:", 10) - written;
}

/* Bytes are read back from the file itself: no other call has changed it since. */
static void print_content(const char *name, off_t offset, off_t count)
{
    unsigned char bytes[65536];
    int copy = open(name, O_RDONLY | O_CLOEXEC);
    fprintf(file, ",\"offset\":%lld,\"data\":\"", (long long)offset);
    for (off_t done = 0, got; done < count; done += got) {
        off_t rest = count - done;
        got = pread(copy, bytes, rest < (off_t)sizeof bytes ? (size_t)rest : sizeof bytes, offset + done);
        if (got <= 0)
            break;
        print_bytes(bytes, got);
    }
    fputc('"', file);
    close(copy);
}

static void print_status(const struct stat *status)
{
    fprintf(file, ",\"inode\":%llu,\"mode\":%u,\"size\":%lld,\"mtime\":%lld", (unsigned long long)status->st_ino,
            status->st_mode, (long long)status->st_size, (long long)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec);
}

static void record_fd(pid_t tid, int fd, long result)
{
    char name[64];
    struct stat status;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", tid, fd);
    if (stat(name, &status) != 0)
        return;
    print_status(&status);
    if (current.call->length || current.call->vector)
        print_content(name, offset_of(tid, fd, result, status.st_size), result);
    if (field_of_fd(tid, fd, "flags:", 8) & MAY_SYNC)
        fputs(",\"is_synced\":true", file);
}

static void record_name(void)
{
    char target[PATH_MAX];
    struct stat status;
    if (lstat(current.path, &status) != 0)
        return; /* it was removed */
    ssize_t length = S_ISLNK(status.st_mode) ? readlink(current.path, target, sizeof target - 1) : -1;
    if (length >= 0 && current.call->must == PRESENT && !current.call->from) /* what a link leads to was changed */
        stat(current.path, &status);
    print_status(&status);
    if (length >= 0) {
        target[length] = '\0';
        print_string(file, "target", target);
    }
    if (S_ISREG(status.st_mode) && source[0] && shown_path(source) == source) /* it comes from outside */
        print_content(current.path, 0, status.st_size);
}

void record_after(pid_t tid)
{
    info_t info;
    bool opens = current.call->flags || is_call("creat");
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_EXIT)
        return;
    long result = (long)info.exit.rval;
    if (opens && result >= 0 && !path_of_fd(tid, (int)result, current.path)) /* behind a link it is another path */
        result = -1;
    print_point(file, &current);
    fprintf(file, ",\"result\":%ld", result);
    if (source[0])
        print_string(file, "source", shown_path(source));
    if (is_call("renameat2"))
        fprintf(file, ",\"flags\":%d", (int)args[4]);
    if (is_call("fallocate"))
        fprintf(file, ",\"flags\":%d", (int)args[1]);
    if (result >= 0 && (opens || current.call->fd))
        record_fd(tid, opens ? (int)result : (int)args[current.call->fd - 1], result);
    else if (result >= 0 && !current.call->syncs_all)
        record_name();
    fputs("}\n", file);
}
