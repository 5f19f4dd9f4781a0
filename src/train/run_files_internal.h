/* run_files_internal: the struct of a run's files; only run_*.c include it. */
#pragma once
#include "train/run_files.h"

struct run_files {
    const struct run *run;
    struct lock *lock;
    char *steps;      /* path */
    int fd;           /* of it */
    char *trajectory; /* rows of trajectory.csv */
};
