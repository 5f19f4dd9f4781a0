#!/usr/bin/env bash
# Fetches one checkpoint from a mass store by rsync into a folder, for `stage` in a sweep file.
#
#     jobs/stage_rsync.sh [HOST:]SOURCE FOLDER [OPTION...]
#     stage: [../jobs/stage_rsync.sh, "archive:/store/olmo2-1b/{checkpoint}", "{path}", --exclude=optimizer*]
#
# SOURCE is a checkpoint's folder; OPTIONs are rsync's. Files that are there already, in part too, are completed, and times are kept, so
# that a checkpoint that is fetched again counts as unchanged. rsync asks no questions: ssh needs a key.
#
# Exit code: that of rsync; 2: bad arguments, or no rsync.
set -u
case "${1-}" in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
if [ $# -lt 2 ]; then
    echo "usage: $0 [HOST:]SOURCE FOLDER [OPTION...]; --help says more" >&2
    exit 2
fi
source=$1 folder=$2
shift 2
if ! command -v rsync >/dev/null; then
    echo "error: no command rsync on PATH" >&2
    exit 2
fi
export RSYNC_RSH="${RSYNC_RSH:-ssh -o BatchMode=yes}"
exec rsync --recursive --copy-links --times --partial "$@" -- "${source%/}/" "$folder/"
