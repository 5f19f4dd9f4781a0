#include "util/version.h"
#include "version_git.h"

const char *version_text(void)
{
    return QTRAJ_VERSION "+" QTRAJ_GIT;
}
