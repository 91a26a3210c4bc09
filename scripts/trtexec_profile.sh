#!/usr/bin/env bash
# How long each layer of an engine takes, by trtexec: once timed as it is, once layer by layer.
#
# usage: scripts/trtexec_profile.sh ENGINE [FOLDER] [trtexec options]
#
#   scripts/trtexec_profile.sh lenet5.engine out --shapes=x:32x1x28x28 --iterations=100
#
# Writes FOLDER/layers.json (what the engine consists of), profile.json (a time for each layer) and times.json (each
# inference), by default into ENGINE.trtexec/; read them with
#   lenet-trt profile --from FOLDER/profile.json FOLDER/layers.json FOLDER/times.json
# Needs a GPU that the engine was built for. TRTEXEC names the program (tensorrt_rtx for an engine of TensorRT-RTX).
# An engine can contain code: run only those that you trust. `lenet-trt profile ENGINE --trtexec` does the same.
set -euo pipefail

usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

[ "${1:-}" != --help ] || { usage; exit 0; }
engine=${1:-}
[ -n "$engine" ] || { usage >&2; exit 2; }
[ -f "$engine" ] || { echo "$engine does not exist: build it with lenet-trt build" >&2; exit 1; }
shift
folder=$engine.trtexec
case ${1:-} in
    "" | --*) ;;
    *) folder=$1; shift ;;
esac
trtexec=${TRTEXEC:-trtexec}
command -v "$trtexec" > /dev/null || { echo "$trtexec is not on the PATH: it comes with TensorRT's archive" >&2; exit 1; }

# Version 8 and 10 time copies, wait by sleeping, launch each kernel and profile in the timed run unless told; 11 and
# tensorrt_rtx do not, and no longer list these options.
help=$("$trtexec" --help 2>&1 || true)
flags=()
for option in noDataTransfers useSpinWait useCudaGraph separateProfileRun; do
    if [[ $help == *"--includeDataTransfers"* ]]; then break; fi
    if [[ $help == *"--$option"* ]]; then flags+=("--$option"); fi
done

mkdir -p "$folder"
"$trtexec" --loadEngine="$engine" --profilingVerbosity=detailed --dumpLayerInfo --dumpProfile \
    --exportLayerInfo="$folder/layers.json" --exportProfile="$folder/profile.json" --exportTimes="$folder/times.json" \
    "${flags[@]}" "$@"
printf '%s\n' "$folder/profile.json" "$folder/layers.json" "$folder/times.json"
