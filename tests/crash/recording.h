/* Writes down what every point did, in order: one JSON object a line, with all it takes to do the same to a copy. */
#ifndef RECORDING_H
#define RECORDING_H

#include "syscall_points.h"

/* Opens the file that is written; false if it cannot be. Standard output is recorded, too: it is what the tracer has now. */
bool start_recording(const char *name);
bool is_recording(void);
bool finish_recording(void);

/* Writes down what the call is about to print, if it writes to standard output; does nothing else. */
void record_output(pid_t tid, const info_t *info);

/* To be called right before a point's call runs and right after; meanwhile no other point may run. */
void record_before(pid_t tid, const info_t *info, const struct point *point);
void record_after(pid_t tid);

#endif
