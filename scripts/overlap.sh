#!/usr/bin/env bash
# Times engines with launches of plugins that overlap, and with launches that do not, in turns.
#
# usage: scripts/overlap.sh LIBRARY ENGINE...
#
#   scripts/overlap.sh liblenet_trt_plugins.so engines/*.engine
#
# Prints the median GPU time of each turn in microseconds: first of LENET_TRT_OVERLAP=0, then as usual. Needs a GPU that the
# engines were built for, and trtexec of TensorRT 8.6 to 10. TRTEXEC names the program, TURNS the turns (3).
# An engine can contain code: run only those that you trust.
set -euo pipefail

usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

[ "${1:-}" != --help ] || { usage; exit 0; }
[ $# -ge 2 ] || { usage >&2; exit 2; }
library=$1
shift
for file in "$library" "$@"; do
    [ -f "$file" ] || { echo "$file does not exist" >&2; exit 1; }
done
trtexec=${TRTEXEC:-trtexec}
command -v "$trtexec" > /dev/null || { echo "$trtexec is not on the PATH: it comes with TensorRT's archive" >&2; exit 1; }
help=$("$trtexec" --help 2>&1 || true)
plugins=--plugins
if [[ $help == *"--staticPlugins"* ]]; then plugins=--staticPlugins; fi

# median ENGINE 0|1: the median GPU time of an inference, in microseconds.
median() {
    local said
    said=$(LENET_TRT_OVERLAP=$2 "$trtexec" --loadEngine="$1" "$plugins=$library" --useCudaGraph --useSpinWait \
        --noDataTransfers --warmUp=200 --duration=0 --iterations=400 2>&1 || true)
    awk -v RS='\n' '/GPU Compute Time:/ && match($0, /median = [0-9.]+/) {
        printf "%.1f", 1000 * substr($0, RSTART + 9, RLENGTH - 9); found = 1; exit } END { exit !found }' <<< "$said" ||
        { echo "$trtexec did not run $1:" >&2; tail -5 <<< "$said" >&2; return 1; }
}

for engine in "$@"; do
    one=() both=()
    for _ in $(seq "${TURNS:-3}"); do
        one+=("$(median "$engine" 0)")
        both+=("$(median "$engine" 1)")
    done
    name=${engine##*/}
    printf '%-44s one after the other %s us; overlapping %s us\n' "${name%.engine}" "${one[*]}" "${both[*]}"
done
