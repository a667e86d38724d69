/* fault_injector: run a command and break it at exactly one of its file-changing system calls.
 *
 *   fault_injector -r DIR [-s PORT] [-m MODE] [-n POINT | -f POINT] [-d] [-l LIST] [-t RECORDING] [-o VERDICT] COMMAND... | -p PID
 *
 * Every call that changes a file below DIR, in any process or thread that COMMAND ever starts, is a point; one counter
 * numbers them all. Without -m they are only counted. A call that cannot change anything (mkdir of what exists, unlink
 * of what does not, O_CREAT on an existing file) is no point, nor is a write to a pipe, a socket or a deleted file.
 *
 * With -s, what is sent to the server at that port of this machine, and what is received from it, is a point, too.
 *
 *   kill          every process dies before the call runs
 *   after         ... right after it ran
 *   torn          half of a write runs, then every process dies
 *   main_process  only COMMAND's own process dies, the others go on
 *   errno=NUMBER  the call does not run and returns that error (-n: this point only, -f: this and all later points)
 *
 * With -p, COMMAND is a process that exists already, has stopped itself by SIGSTOP, and installs the filter when it goes on.
 *
 * With -t, what every point did is written to RECORDING (recording.h), together with what COMMAND printed. Points then run
 * one after the other: the next one waits until the one before it is over.
 *
 * A seccomp filter wakes the tracer at the calls of the table only, so all other calls run at full speed. A filter
 * cannot be removed, and without a tracer its calls fail; so processes that outlive COMMAND (-d, main_process) stay
 * traced by a silent tracer in the background. SIGTERM to fault_injector or to that tracer ends them all; so does the
 * tracer's death.
 *
 * Not seen: stores into a shared mapping, io_uring, reflinks, and paths inside a mount namespace that differ from ours.
 */
#define _GNU_SOURCE
#include "recording.h"
#include "syscall_points.h"
#include "arch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TRACEES = 4096, TOOL_FAILED = 125, CANNOT_EXECUTE = 127 };
enum mode { COUNT, KILL, AFTER, TORN, MAIN_PROCESS, ERRNO };

struct tracee {
    pid_t tid, group;
    long held; /* stopped at a point until the fault or the call in progress is over; the first to come has the least */
};

static struct {
    enum mode mode;
    int error;
    long at;
    bool lasting, leave, has_server;
    FILE *list;
    const char *verdict;
    pid_t attached; /* the process of -p */
} want;

static struct tracee tracees[MAX_TRACEES];
static int tracee_count;
static pid_t main_process;   /* COMMAND's own process */
static int main_status = -1; /* as waitpid tells it; -1 while it lives */
static pid_t pending;        /* the thread whose call, or the process whose death, completes the fault or the record */
static bool unrecorded;      /* the pending call changes nothing, and only has to be over */
static bool ending;          /* everything is being killed */
static bool background;      /* the verdict is out; the survivors are only passed through */
static int front;            /* pipe on which the foreground process awaits its exit code */
static pid_t tracer;         /* for the foreground process */
static long seen, hits, waiting;
static long exchanges;   /* counted with -l and -t only */
static struct point hit; /* the first point at which the fault fired */

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fault_injector: %s: %s\n", what, strerror(errno));
    exit(TOOL_FAILED);
}

/* ---- the processes ---- */

static void read_proc(pid_t pid, const char *file, char *text, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/%s", pid, file);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    close(fd);
}

static pid_t status_field(const char *status, const char *field)
{
    const char *found = strstr(status, field);
    return found ? (pid_t)strtol(found + strlen(field), NULL, 10) : 0;
}

/* A task that is gone, or that is another's by now, is not taken in. */
static struct tracee *know(pid_t tid)
{
    char status[2048];
    for (int i = 0; i < tracee_count; i++)
        if (tracees[i].tid == tid)
            return &tracees[i];
    read_proc(tid, "status", status, sizeof status);
    if (status_field(status, "\nTracerPid:") != getpid())
        return NULL;
    if (tracee_count == MAX_TRACEES) {
        errno = EAGAIN;
        die("too many threads");
    }
    tracees[tracee_count] = (struct tracee){ tid, status_field(status, "\nTgid:"), 0 };
    return &tracees[tracee_count++];
}

static void forget(pid_t tid)
{
    for (int i = 0; i < tracee_count; i++)
        if (tracees[i].tid == tid)
            tracees[i--] = tracees[--tracee_count];
}

static bool is_alone(pid_t group)
{
    for (int i = 0; i < tracee_count; i++)
        if (tracees[i].group != group)
            return false;
    return true;
}

/* A task that shows up later is killed when it first stops; no call of the table runs any more, because none is resumed. */
static void end_all(int signal_number)
{
    (void)signal_number;
    ending = true;
    for (int i = 0; i < tracee_count; i++)
        kill(tracees[i].group, SIGKILL);
}

static void resume(pid_t tid, long request, int signal_number)
{
    ptrace(request, tid, 0, signal_number); /* fails only if the task was killed meanwhile: then its end is reported */
}

/* ---- the verdict ---- */

static void report(void)
{
    FILE *file = want.verdict ? fopen(want.verdict, "we") : stderr;
    if (!file)
        die(want.verdict);
    int code = WIFEXITED(main_status) ? WEXITSTATUS(main_status) : -WTERMSIG(main_status);
    fprintf(file, "{\"fired\":%s,\"hits\":%ld,\"total\":%ld,\"exit_status\":%d", hits ? "true" : "false", hits, seen, code);
    fprintf(file, ",\"survivors\":%d,\"tracer\":%d,\"point\":", tracee_count, getpid());
    if (hits)
        print_point(file, &hit);
    fputs(hits ? "}}\n" : "null}\n", file);
    if (fflush(file) != 0 || (want.list && fclose(want.list) != 0) || (is_recording() && !finish_recording()))
        die("verdict");
    code = code < 0 ? 128 - code : code;
    if (write(front, &code, sizeof code) != sizeof code)
        die("report");
}

/* The tracer lets go of everything that its starter might wait for, tells it the verdict, and lets the survivors run. */
static void go_background(void)
{
    background = true;
    pending = 0;
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
    report();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") != 0)
        die("background");
    close(front);
    for (int i = 0; i < tracee_count; i++)
        if (tracees[i].held)
            resume(tracees[i].tid, PTRACE_CONT, 0);
}

/* ---- the fault ---- */

static bool is_due(const struct point *point)
{
    bool full = want.error == ENOSPC || want.error == EDQUOT;
    if (full && point->call->message) /* no disk is in the way of a message */
        return false;
    if (want.lasting)
        return point->number >= want.at && (!full || point->grows);
    bool possible = want.mode != MAIN_PROCESS || main_status < 0; /* only a living process can be killed */
    return want.mode != COUNT && point->number == want.at && possible;
}

/* Halves a write, or a vector's first piece. The tracee never sees its changed memory: it is killed after the call. */
static bool tear(pid_t tid, const struct call *call, const info_t *info)
{
    struct iovec piece;
    if (call->length)
        set_argument(tid, call->length, info->seccomp.args[call->length - 1] / 2);
    if (!call->vector)
        return call->length;
    __uint64_t address = info->seccomp.args[call->vector - 1];
    if (tracee_memory(tid, address, O_RDONLY, &piece, sizeof piece) != sizeof piece)
        return false;
    piece.iov_len /= 2;
    set_argument(tid, call->vector + 1, 1);
    return tracee_memory(tid, address, O_WRONLY, &piece, sizeof piece) == sizeof piece;
}

static void strike(pid_t tid, const info_t *info, const struct point *point)
{
    if (!hits++)
        hit = *point;
    if (want.mode == ERRNO) {
        refuse_call(tid, want.error);
        resume(tid, PTRACE_CONT, 0);
    } else if (want.mode == MAIN_PROCESS) {
        pending = main_process;
        know(tid)->held = ++waiting;
        kill(main_process, SIGKILL);
    } else if (want.mode == AFTER || (want.mode == TORN && tear(tid, point->call, info))) {
        pending = tid;
        resume(tid, PTRACE_SYSCALL, 0);
    } else {
        end_all(0);
    }
}

static void pass(pid_t tid, const info_t *info, const struct point *point)
{
    if (!is_recording()) {
        resume(tid, PTRACE_CONT, 0);
        return;
    }
    record_before(tid, info, point);
    pending = tid;
    resume(tid, PTRACE_SYSCALL, 0);
}

/* Of a call that cannot change anything now: it must not run later, beside another that makes its parent folder. */
static void run_aside(pid_t tid, const struct point *point)
{
    bool at_once = is_recording() && point->call && point->call->must != ANY;
    if (at_once) {
        pending = tid;
        unrecorded = true;
    }
    resume(tid, at_once ? PTRACE_SYSCALL : PTRACE_CONT, 0);
}

static void on_call(struct tracee *tracee)
{
    info_t info;
    struct point point = { .pid = tracee->group, .is_main_process = tracee->group == main_process };
    pid_t tid = tracee->tid;
    bool is_over = hits && want.mode == ERRNO && !want.lasting; /* nothing is left to do but to let them run */
    if (background || is_over || ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0) {
        resume(tid, PTRACE_CONT, 0);
        return;
    }
    bool is_point = find_point(tid, &info, &point);
    if (!is_point && !(is_recording() && pending)) {
        exchanges += is_exchange(tid, &info, point.is_main_process);
        if (is_recording() && point.is_main_process)
            record_output(tid, &info);
        run_aside(tid, &point);
        return;
    }
    if (pending) { /* nothing may change beside the call that the fault or the record is about */
        tracee->held = ++waiting;
        return;
    }
    point.number = ++seen;
    point.exchanges = exchanges;
    point.is_alone = is_alone(main_process);
    exchanges += point.is_main_process && !point.call->syncs;
    read_proc(point.pid, "comm", point.comm, sizeof point.comm);
    point.comm[strcspn(point.comm, "\n")] = '\0';
    if (want.list) {
        print_point(want.list, &point);
        fputs("}\n", want.list);
    }
    if (is_due(&point))
        strike(tid, &info, &point);
    else
        pass(tid, &info, &point);
}

/* The call in progress is over: the next one may run, unless it turns out to be no point any more. */
static void on_recorded(void)
{
    pending = 0;
    unrecorded = false;
    for (struct tracee *first = &tracees[0]; first && !pending;) {
        first = NULL;
        for (int i = 0; i < tracee_count; i++)
            if (tracees[i].held && (!first || tracees[i].held < first->held))
                first = &tracees[i];
        if (first) {
            first->held = 0;
            on_call(first);
        }
    }
}

/* ---- the tracer ---- */

static void on_stop(pid_t tid, int status)
{
    int event = status >> 16, signal_number = WSTOPSIG(status);
    unsigned long message = 0;
    struct tracee *tracee = know(tid);
    if (ending || !tracee) {
        kill(tid, SIGKILL);
        return;
    }
    exchanges += event != PTRACE_EVENT_SECCOMP && tracee->group == main_process; /* it starts a process, above all */
    switch (event) {
    case PTRACE_EVENT_SECCOMP:
        on_call(tracee);
        return;
    case PTRACE_EVENT_STOP:
        if (signal_number != SIGTRAP) { /* stopped by job control: stays so until SIGCONT */
            resume(tid, PTRACE_LISTEN, 0);
            return;
        }
        break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
        if (ptrace(PTRACE_GETEVENTMSG, tid, 0, &message) == 0)
            know((pid_t)message);
        break;
    case PTRACE_EVENT_EXEC: /* a thread that executes takes its leader's id, and its own ends unreported */
        if (ptrace(PTRACE_GETEVENTMSG, tid, 0, &message) == 0 && (pid_t)message != tid)
            forget((pid_t)message);
        break;
    }
    if (tid == pending && signal_number == (SIGTRAP | 0x80)) {
        if (!is_recording()) {
            end_all(0);
            return;
        }
        if (!unrecorded)
            record_after(tid);
        resume(tid, PTRACE_CONT, 0);
        on_recorded();
        return;
    }
    resume(tid, PTRACE_CONT, event || signal_number == (SIGTRAP | 0x80) ? 0 : signal_number);
}

static void on_end(pid_t tid, int status)
{
    forget(tid);
    if (tid == main_process)
        main_status = status;
    if (ending || background)
        return;
    if (tid == main_process && (want.leave || pending == main_process))
        go_background();
    else if (tid == pending && is_recording())
        on_recorded();
    else if (tid == pending)
        end_all(0);
}

static void seize_main_process(void)
{
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (ptrace(PTRACE_SEIZE, main_process, 0, options) != 0)
        die("ptrace");
    know(main_process);
}

static void attach_main_process(void)
{
    main_process = want.attached;
    seize_main_process();
    kill(main_process, SIGCONT);
}

static void start_main_process(char **command)
{
    int go[2];
    char byte = 0;
    if (pipe2(go, O_CLOEXEC) != 0 || (main_process = fork()) < 0)
        die("fork");
    if (main_process == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(TOOL_FAILED);
        if (!install_filter(want.list || is_recording(), want.has_server))
            die("seccomp");
        execvp(command[0], command);
        fprintf(stderr, "fault_injector: %s: %s\n", command[0], strerror(errno));
        _exit(CANNOT_EXECUTE);
    }
    seize_main_process();
    if (write(go[1], &byte, 1) != 1)
        die("start");
    close(go[0]);
    close(go[1]);
}

static void trace(char **command, pid_t parent)
{
    sigset_t term;
    int status;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        exit(TOOL_FAILED);
    if (want.attached)
        attach_main_process();
    else
        start_main_process(command);
    signal(SIGTERM, end_all);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    for (;;) {
        sigprocmask(SIG_UNBLOCK, &term, NULL); /* the handler reads the table of tracees, which is at rest here only */
        pid_t tid = waitpid(-1, &status, __WALL);
        sigprocmask(SIG_BLOCK, &term, NULL);
        if (tid < 0 && errno == ECHILD)
            break;
        if (tid > 0 && WIFSTOPPED(status))
            on_stop(tid, status);
        else if (tid > 0)
            on_end(tid, status);
    }
    if (!background)
        report();
    exit(0);
}

/* ---- the foreground ---- */

static void forward(int signal_number)
{
    kill(tracer, signal_number);
}

static enum mode parse_mode(char *text)
{
    static const char *const names[] = { [KILL] = "kill", [AFTER] = "after", [TORN] = "torn", [MAIN_PROCESS] = "main_process" };
    for (int mode = KILL; mode <= MAIN_PROCESS; mode++)
        if (strcmp(text, names[mode]) == 0)
            return (enum mode)mode;
    if (strncmp(text, "errno=", 6) == 0 && (want.error = atoi(text + 6)) > 0)
        return ERRNO;
    errno = EINVAL;
    die(text);
}

static void parse(int argc, char **argv)
{
    bool has_directory = false;
    int option;
    while ((option = getopt(argc, argv, "+r:s:m:n:f:dl:t:o:p:")) != -1) {
        if (option == 'r' && !(has_directory = set_directory(optarg)))
            die(optarg);
        if (option == 's') {
            set_server(atoi(optarg));
            want.has_server = true;
        }
        if (option == 'm')
            want.mode = parse_mode(optarg);
        if (option == 'n' || option == 'f') {
            want.at = atol(optarg);
            want.lasting = option == 'f';
        }
        if (option == 'd')
            want.leave = true;
        if (option == 'l' && !(want.list = fopen(optarg, "we")))
            die(optarg);
        if (option == 't' && !start_recording(optarg))
            die(optarg);
        if (option == 'o')
            want.verdict = optarg;
        if (option == 'p')
            want.attached = atoi(optarg);
        if (option == '?')
            exit(TOOL_FAILED);
    }
    errno = EINVAL;
    if (!has_directory || (optind >= argc) != (want.attached > 0))
        die("needs -r DIR, and a command or -p");
    if ((want.mode != COUNT) != (want.at > 0) || (want.lasting && want.mode != ERRNO))
        die("a fault needs -m MODE and -n POINT; -f POINT is for errno only");
    if (is_recording() && (want.mode != COUNT || want.leave || want.has_server))
        die("-t records a whole and unbroken run, and no server");
}

int main(int argc, char **argv)
{
    int ends[2], code = TOOL_FAILED;
    parse(argc, argv);
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("pipe");
    pid_t self = getpid();
    if ((tracer = fork()) < 0)
        die("fork");
    if (tracer == 0) {
        close(ends[0]);
        front = ends[1];
        trace(argv + optind, self);
    }
    close(ends[1]);
    struct sigaction forwarding = { .sa_handler = forward, .sa_flags = SA_RESTART };
    sigaction(SIGTERM, &forwarding, NULL);
    if (read(ends[0], &code, sizeof code) != sizeof code)
        code = TOOL_FAILED;
    return code;
}
