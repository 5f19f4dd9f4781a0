#include "util/version.h"
#include "version_git.h"

const char *version_text(void)
{
    return QTRAJ_VERSION "+" QTRAJ_GIT;
}

const char *version_release(void)
{
    return QTRAJ_VERSION;
}

const char *version_commit(void)
{
    return QTRAJ_GIT;
}
