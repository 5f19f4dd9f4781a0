#include "util/version.h"
#include "version_git.h"

const char version_text[] = QTRAJ_VERSION "+" QTRAJ_GIT;
const char version_release[] = QTRAJ_VERSION, version_commit[] = QTRAJ_GIT;
