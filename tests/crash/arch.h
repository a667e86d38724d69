/* The only part that knows the processor: how to change a call at which a tracee stands stopped. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

#include <elf.h>
#include <linux/audit.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

/* set_argument: arguments are numbered from 1. refuse_call: the call does not run and returns `error`. */
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64

static inline void set_argument(pid_t tid, int number, unsigned long value)
{
    static const size_t offsets[] = {
        offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rsi),
        offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, r10),
        offsetof(struct user_regs_struct, r8),  offsetof(struct user_regs_struct, r9),
    };
    ptrace(PTRACE_POKEUSER, tid, offsets[number - 1], value);
}

static inline void refuse_call(pid_t tid, int error)
{
    ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, orig_rax), -1L);
    ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, rax), (long)-error);
}
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64

static inline void set_argument(pid_t tid, int number, unsigned long value)
{
    struct user_regs_struct registers;
    struct iovec all = { &registers, sizeof registers };
    ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all);
    registers.regs[number - 1] = value;
    ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &all);
}

static inline void refuse_call(pid_t tid, int error)
{
    int none = -1;
    struct iovec number = { &none, sizeof none };
    ptrace(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &number);
    set_argument(tid, 1, (unsigned long)(long)-error); /* x0 also carries the result */
}
#else
#error "fault_injector knows x86-64 and aarch64"
#endif

#endif
