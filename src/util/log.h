/* log: human text on stderr, one line a call, safe from several threads and ranks.
 *
 * Levels: errors and warnings always; info by default; trace lines per topic when QTRAJ_TRACE names
 * the topic (QTRAJ_TRACE=sched,gptq,io or all). */
#pragma once
#include <stdbool.h>

/* Later trace lines name this rank: "trace io [2]: ...". */
void log_rank(int rank);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* True if QTRAJ_TRACE asks for the topic. */
bool log_traces(const char *topic);
void log_trace(const char *topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
