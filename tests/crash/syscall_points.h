/* Which system calls change files, or pass something to or from a server, and whether a stopped one would. What to do about it is fault_injector.c's matter. */
#ifndef POINTS_H
#define POINTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/types.h>

#define SERVER "the server"

enum must { ANY, PRESENT, ABSENT }; /* what the name has to be for the call to change anything */

/* Arguments are numbered from 1, so that 0 means "has none". */
struct call {
    int nr;
    const char *name;
    unsigned char fd;             /* the descriptor it changes; or else: */
    unsigned char dir, path;      /* the name it changes, and what that is relative to (0: the working directory) */
    unsigned char from_dir, from; /* the name it moves away */
    unsigned char flags;          /* open flags */
    unsigned char length, vector; /* the size of a write, to tear it */
    unsigned char offset, offset_at; /* where it writes, or where that is stored; else at the file's position */
    bool syncs, syncs_all;           /* it changes nothing; and: it names no file, it is about all of them */
    enum must must;
    bool grows;   /* needs room: the only calls that fail on a full disk */
    bool message; /* it changes no file: it asks the server, or takes its answer */
};

struct point {
    long number;
    pid_t pid;
    bool is_main_process, is_alone, grows; /* alone: no other process lives */
    long exchanges; /* how much had passed between the main process and the others before it */
    const struct call *call;
    char comm[32], path[PATH_MAX];
};

typedef struct __ptrace_syscall_info info_t;

/* Stops the calling process at the calls of the table from now on, in it and in all it starts; false if the kernel will not.
 * With `exchanges`, it also stops at the calls by which processes notice each other; with `messages`, at those to and from
 * a server. */
bool install_filter(bool exchanges, bool messages);

/* Names the directory outside which nothing is a point; false if there is none. */
bool set_directory(const char *name);

/* Names the port on this machine whose server is asked through points, too; without one, no message is a point. */
void set_server(int port);

/* Fills in call, path and grows if the call at which `tid` stands would change a file below the directory, or is about a
 * connection to the server, whose path is SERVER. */
bool find_point(pid_t tid, const info_t *info, struct point *point);

/* Whether a call that is no point may let processes notice each other: anything that the main process does but read, what
 * any other says through a pipe or a socket, and whatever tells who is alive: signals and locks. */
bool is_exchange(pid_t tid, const info_t *info, bool by_main_process);

/* A point as a JSON object that the caller closes; and one more text in it. */
void print_point(FILE *file, const struct point *point);
void print_string(FILE *file, const char *key, const char *text);

/* A path relative to the directory, "." for itself; as it is if it lies outside. */
const char *shown_path(const char *path);

/* The path of an open regular file or directory that still has a name. */
bool path_of_fd(pid_t tid, int fd, char *path);

/* The path that a call's arguments name, with everything but its last component resolved; false if there is no such place. */
bool path_of_name(pid_t tid, int dir, __uint64_t address, char *path);

/* Reads or writes (O_RDONLY, O_WRONLY) a stopped tracee's memory; what lies before an unmapped page is read. */
ssize_t tracee_memory(pid_t tid, __uint64_t address, int operation, void *data, size_t size);

#endif
