# Who may write a journal and a cube, and what readers say of them: two runs at once in every spelling of the results' name; a
# journal that is removed, moved or changed under a run; a run that sleeps until another has taken its lock; signals in the last
# write of the cube; what killed runs leave; files that are no cube; cubes and journals that are damaged, cut or older.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy
quickstart_sweep '1p;3p;5p;7p;9p' fixed_text <<YAML
name: own
results: whole.h5
bits: [4]
methods: [{method: rtn, group_size: 64}, {method: gptq, group_size: 64}]
calibration: {text: text.txt, length: 64, samples: 4}
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 5}]
YAML
long=(--set curvature.trace=100000 --set curvature.sequences=3 --set curvature.length=64)
cd "$work" || exit 2

# start NAME [ARGUMENT ...]: a run alone in the background, $run, with results NAME.h5; its messages are in NAME.err
start() {
    "$QTRAJ" run sweep.yaml --set "results=$1.h5" "${@:2}" >/dev/null 2>"$(basename "$1").err" </dev/null &
    run=$!
}
has_records() { [ "$(wc -l <"$1.journal")" -ge "$2" ]; }

# ends NAME CODE WORD ...: the run ends so, and says the words
ends() {
    local code
    wait $run
    code=$?
    [ $code = "$2" ] || fail "$1: exit code $code, not $2: $(cat "$1.err")"
    for word in "${@:3}"; do
        grep -qF -- "$word" "$1.err" || fail "$1: not said: $word: $(cat "$1.err")"
    done
}

# says CODE WORD COMMAND ...: a command of qtraj ends so and says the word
says() {
    local code
    "$QTRAJ" "${@:3}" >out 2>err </dev/null
    code=$?
    [ $code = "$1" ] || fail "${*:3}: exit code $code, not $1: $(cat err)"
    cat out err | grep -qF -- "$2" || fail "${*:3}: not said: $2: $(cat out err)"
}

if [ "$(id -u)" = 0 ] && mpirun --version | grep -q "Open MPI"; then
    unset OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    says 4 'only if OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set' launch -n 2 sweep.yaml --set results=root.h5
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    rm -rf root.*
fi
says 0 '8 cells to do' run sweep.yaml

# --- two at once ---
mkdir real mount
ln -s real linked
ln -s real/own.h5 alias.h5
mounted=
mount --bind real mount 2>/dev/null && mounted=mount/own.h5
trap 'umount "$work/mount" 2>/dev/null; rm -rf "$work"' EXIT
QTRAJ_LEASE=4 start real/own "${long[@]}"
wait_for 60 has_records real/own 4
for spelling in real/own.h5 real/own "$work/real/own.h5" linked/own.h5 linked/../real/own alias.h5 $mounted; do
    before=$(date +%s%3N)
    says 2 "process $run on host $(hostname)" run sweep.yaml --set "results=$spelling"
    echo "$spelling: refused after $(($(date +%s%3N) - before)) ms"
done
# a second run is refused before it starts MPI, which fails here, or mpirun
OMPI_MCA_pml=none says 2 "process $run on host" run sweep.yaml --set results=real/own.h5
OMPI_MCA_pml=none says 2 "process $run on host" launch sweep.yaml --set results=real/own.h5
# nor does rank 0 wait for the others, of which one here never starts MPI
timeout 60 mpirun -n 1 "$QTRAJ" run sweep.yaml --set results=real/own.h5 : -n 1 sleep 100 >out 2>err </dev/null
[ $? = 2 ] && grep -q "process $run on host" err || fail "under mpirun: $(cat err)"
says 2 "process $run on host" rebuild linked/own.h5 real/own.journal
rm real/own.journal.lock # by hand: others are kept out all the same, and the holder makes it again
says 2 real/own.journal run sweep.yaml --set results=real/own.h5
wait_for 60 test -e real/own.journal.lock
kill -TERM $run
ends own 3
[ ! -e real/own.journal.lock ] || fail "the lock is left"
[ -z "$mounted" ] || umount mount

# --- a run in another namespace of process ids, as in another container ---
if unshare -fp --mount-proc true 2>/dev/null; then
    unshare -fp --mount-proc --kill-child "$QTRAJ" run sweep.yaml --set results=inside.h5 "${long[@]}" >/dev/null 2>inside.err </dev/null &
    run=$!
    wait_for 60 has_records inside 4
    says 2 'process 1 on host' run sweep.yaml --set results=inside.h5 # there is a process 1 here too
    kill -9 $run
    wait $run 2>/dev/null
    wait_for 60 "$QTRAJ" run sweep.yaml --set results=inside.h5
fi

# --- a journal that is not as the run left it ---
# broken NAME WORD COMMAND: the run ends with 3, and says the word and its journal's path
broken() {
    start "$1"
    wait_for 60 has_records "$1" 3
    kill -STOP $run
    eval "$3"
    kill -CONT $run
    ends "$1" 3 "$1.journal: " "$2"
}
broken removed 'removed or moved' 'rm removed.journal'
broken moved 'removed or moved' 'mv moved.journal elsewhere'
broken cut 'another program changed it' 'truncate -s -5 cut.journal'
broken grown 'another program changed it' 'echo more >>grown.journal'
mv elsewhere moved.journal
says 0 'done, 0 failed' run sweep.yaml --set results=moved.h5
compare whole moved

# --- a run that sleeps until another has taken its lock ---
QTRAJ_LEASE=2 start slept
wait_for 60 has_records slept 3
kill -STOP $run
until "$QTRAJ" run sweep.yaml --set results=slept.h5 2>err; do
    grep -q "held by process $run on host" err || { fail "taking over: $(cat err)"; break; }
done
grep -q "taken over from process $run" err || fail "taking over is not said: $(cat err)"
before=$(cat slept.journal slept.h5 | md5sum)
kill -CONT $run
ends slept 3 'taken over by '
[ "$(cat slept.journal slept.h5 | md5sum)" = "$before" ] || fail "a run that woke up late has written"
ls slept.h5.* slept.journal.* >/dev/null 2>&1 && fail "it left files: $(ls slept.*)"
compare whole slept
says 0 'last run: done' status slept.h5 --exit-code

# --- a signal in the last write of the cube ---
cat >shim.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    const size_t n = strlen(to);
    if (n > 3 && strcmp(to + n - 3, ".h5") == 0) {
        close(open("renaming", O_CREAT | O_WRONLY, 0666));
        for (int i = 0; i < 600; i++) usleep(100000);
    }
    return next(from, to);
}
C
if cc -shared -fPIC -o shim.so shim.c -ldl 2>/dev/null; then
    for name in late later; do # without a cube, and over an old one
        rm -f renaming
        LD_PRELOAD=$work/shim.so start $name
        wait_for 120 test -e renaming
        [ $name = late ] || cp whole.h5 later.h5
        tail -n 1 $name.journal | grep -q '"status":"done"' || fail "$name: no end record before the cube"
        kill -TERM $run
        ends $name 3
        tail -n 1 $name.journal | grep -q '"status":"stopped"' || fail "$name: the journal says: $(tail -n 1 $name.journal)"
        says 3 'last run: stopped' status $name.h5 --exit-code
        says 3 'the next run or qtraj rebuild makes it' status $name.h5 --exit-code
        says 0 'nothing to do' run sweep.yaml --set results=$name.h5
        says 0 'last run: done' status $name.h5 --exit-code
        [ ! -s err ] || fail "$name: status still warns: $(cat err)"
        compare whole $name
        ls $name.h5.* $name.journal.* >/dev/null 2>&1 && fail "$name: files are left: $(ls $name.*)"
    done
fi

# --- after a kill; a run without work ---
cp whole.h5 after.h5
sed '$d' whole.journal >after.journal # killed before its end record
touch after.h5.tmp.4194303 after.journal.tmp.1
says 0 'nothing to do' run sweep.yaml --set results=after.h5
says 0 'last run: done' status after.h5
ls after.*.tmp.* >/dev/null 2>&1 && fail "temporary files are left: $(ls after.*)"
before=$(stat -c %y after.h5 after.journal)
says 0 'nothing to do' run sweep.yaml --set results=after.h5
[ "$(stat -c %y after.h5 after.journal)" = "$before" ] || fail "a run without work writes"

# --- what is not replaced ---
for cube in whole.journal text.txt linked; do
    sums=$(cat whole.journal text.txt | md5sum)
    says 2 "$cube" rebuild $cube whole.journal
    [ "$(cat whole.journal text.txt | md5sum)" = "$sums" ] || fail "rebuild changed $cube"
done
cp whole.h5 alone.h5
says 2 'put the journal back' run sweep.yaml --set results=alone.h5
[ ! -e alone.journal ] || fail "a refused run left a journal"
ln -s whole.h5 also.h5 # a link stays one
says 0 'made from' rebuild also.h5 whole.journal
[ -L also.h5 ] || fail "rebuild replaced a link"
cp whole.journal beside.journal
says 0 'of beside.journal' rebuild beside.h5
rm beside.*

# --- what readers say ---
for reader in "status x.journal" "show x.journal" "rebuild x.h5 x.journal"; do
    rm -f x.h5
    # shellcheck disable=SC2086
    {
        sed '3s/"/!/' whole.journal >x.journal
        says 0 '1 damaged line left out, the first is line 3' $reader
        sed '4p' whole.journal >x.journal
        says 0 '1 line left out that only repeats the line before, the first is line 5' $reader
        head -c -7 whole.journal >x.journal
        says 0 'are not a whole line and left out' $reader
    }
done
head -n -2 whole.journal >y.journal
rm -f x.h5
says 0 'made from' rebuild x.h5 y.journal
cp whole.journal x.journal
for reader in show status; do
    cp whole.journal x.journal
    says 0 'of which it lacks the last 2 records' $reader x.h5
    head -n -4 whole.journal >x.journal
    "$QTRAJ" $reader x.h5 2>&1 | grep -qF 'which was cut, changed or replaced' || fail "$reader: a cut journal is not said"
done
# left WORD ...: status --json says these of what was left out of x.journal and x.h5
left() {
    for word; do says 0 "$word" status x.journal --json; done
}
left '"cube": "other"'
cp whole.journal x.journal
left '"damaged_lines": 0' '"repeated_lines": 0' '"torn_bytes": 0' '"cube": "older"' '"cube_lacks": 2'
sed '3s/"/!/; 5p' whole.journal | head -c -7 >x.journal
left '"damaged_lines": 1' '"first_damaged": 3' '"repeated_lines": 1' '"first_repeated": 6'
says 0 '"torn_bytes": 0' status whole.h5 --json
says 0 '"cube": "current"' status whole.h5 --json
"$QTRAJ" status x.journal --json 2>/dev/null | grep -q '"torn_bytes": [1-9]' || fail "status --json: no torn bytes"
rm x.journal
"$python" - x.h5 <<'PYTHON' || fail "h5py cannot change a cube"
import sys, h5py
with h5py.File(sys.argv[1], "r+") as f:
    f.attrs["note"] = "mine"
PYTHON
says 0 'without the checksum at its end' show x.h5
cp whole.h5 z.h5
printf x | dd of=z.h5 bs=1 seek=100000 conv=notrunc 2>/dev/null
says 2 'its checksum does not fit' show z.h5
finish
