/* log: human text on stderr, one line a call, safe from several threads and ranks.
 *
 * Levels: errors and warnings always; info by default; trace lines per topic when QTRAJ_TRACE names
 * the topic (QTRAJ_TRACE=sched,gptq,io or all). */
#pragma once
#include <stdbool.h>

/* Makes later trace lines name this rank: "trace io [2]: ...". */
void log_rank(int rank);
/* Each prints one line, the first two with "qtraj: error: " or "qtraj: warning: " in front. */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line of progress. On a terminal it replaces the one before, and stays until the next
 * message replaces it or log_clear_line does. */
void log_progress(const char *line, bool terminal);
void log_clear_line(void);

/* Whether QTRAJ_TRACE names the topic. */
bool log_traces(const char *topic);
/* Prints a line if it does. */
void log_trace(const char *topic, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
