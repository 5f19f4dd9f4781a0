/* err: a status that cannot be ignored and a caller-owned record of the first cause.
 *
 * A function that can fail returns enum status and takes `struct err *e` last; e may be NULL when
 * nobody reads the text. It has one of two forms:
 *
 * - RAISE raises, NEED checks and PASS passes on; all return at once. What the function owns is
 *   freed on every way out: it is declared with AUTO_FREE (util/mem.h), json_auto_t or CLEANUP.
 * - It does more at its end than to free variables: `enum status st = OK`, and one label `done:`.
 *   FAIL raises, ENSURE checks and TRY passes on; all jump to the label.
 *
 * None of them inside an OpenMP region, which neither goto nor return may leave: keep the status in
 * a variable and look at it after the region. */
#pragma once
#include <stdbool.h> /* nearly every file has the standard types from here */
#include <stddef.h>
#include <stdint.h>

/* X(enumerator, word for files, text for people) */
#define STATUS_LIST(X)                                                                             \
    X(OK, "ok", "ok")                                                                              \
    X(ERR_USAGE, "usage", "bad argument or config")                                                \
    X(ERR_SHAPE, "shape", "shapes do not agree")                                                   \
    X(ERR_IO, "io", "file or storage failure")                                                     \
    X(ERR_FULL, "no_space", "no space left")                                                       \
    X(ERR_FORMAT, "format", "input is malformed")                                                  \
    X(ERR_CHANGED, "changed", "an input was changed")                                              \
    X(ERR_LOCKED, "locked", "in use by another run")                                               \
    X(ERR_NOMEM, "no_memory", "out of memory")                                                     \
    X(ERR_NUMERIC, "numeric", "numerical failure")                                                 \
    X(ERR_STOPPED, "stopped", "stopped by a signal")                                               \
    X(ERR_INTERNAL, "internal", "a defect of the program or of a library")                         \
    X(ERR_MPI, "mpi", "communication failure")                                                     \
    X(ERR_PEER, "peer", "another rank failed")

#define X(id, word, text) id,
enum status { STATUS_LIST(X) };
#undef X

struct err {
    enum status code;
    int line;         /* where it was raised */
    const char *file; /* static string */
    char text[512];   /* what, with the numbers and names */
    char trail[256];  /* call sites it came through, innermost first */
};

#define MUST_USE __attribute__((warn_unused_result))

/* The fixed text of a status: "ok", "file or storage failure", ... */
const char *status_text(enum status st);

/* The word that stands for a status in files: "ok", "no_memory", ... and back: ERR_FORMAT for a
 * word that is none of them, or NULL. */
const char *status_word(enum status st);
enum status status_of_word(const char *word);

/* Records the first cause in e (later ones are dropped) and returns code. */
enum status err_set(struct err *e, enum status code, const char *file, int line, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));

/* Adds a call site to the trail of e. */
void err_trail(struct err *e, const char *file, int line);

/* Puts "prefix: " before the text: which file or key failed. No effect on an empty record. */
void err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts the name `to` where the text has `from`: a file is written under a temporary name, and the
 * user knows the one that they gave. */
void err_rename(struct err *e, const char *from, const char *to);

/* For parallel loops: keeps the error of the lowest iteration i in *bad, and that i in *first,
 * which is the number of iterations at first. Thread-safe. */
void err_first(struct err *bad, int64_t *first, int64_t i, const struct err *own);

/* Empties the record. */
void err_clear(struct err *e);

/* CLEANUP(texts_free) struct texts t = {0}; calls texts_free(&t) when t leaves its scope, the last
 * declared first. CLEANUP_BY_VALUE(struct model, model_close) below a destructor that takes the
 * pointer makes model_close_at for it, as in CLEANUP(model_close_at) struct model *m = NULL; */
#define CLEANUP(f) __attribute__((cleanup(f)))
#define CLEANUP_BY_VALUE(type, f)                                                                  \
    static inline void f##_at(type **at)                                                           \
    {                                                                                              \
        f(*at);                                                                                    \
    }

#define FAIL(code, ...)                                                                            \
    do {                                                                                           \
        st = err_set(e, (code), __FILE__, __LINE__, __VA_ARGS__);                                  \
        goto done;                                                                                 \
    } while (0)
#define ENSURE(cond, code, ...)                                                                    \
    do {                                                                                           \
        if (!(cond)) FAIL(code, __VA_ARGS__);                                                      \
    } while (0)
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((st = (call)) != OK) {                                                                 \
            err_trail(e, __FILE__, __LINE__);                                                      \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#define RAISE(code, ...) return err_set(e, (code), __FILE__, __LINE__, __VA_ARGS__)
#define NEED(cond, code, ...)                                                                      \
    do {                                                                                           \
        if (!(cond)) RAISE(code, __VA_ARGS__);                                                     \
    } while (0)
#define PASS(call)                                                                                 \
    do {                                                                                           \
        enum status passed_ = (call);                                                              \
        if (passed_ != OK) {                                                                       \
            err_trail(e, __FILE__, __LINE__);                                                      \
            return passed_;                                                                        \
        }                                                                                          \
    } while (0)
