#!/usr/bin/env bash
# Trace a program with Nsight Systems: CUDA calls, kernels (inside CUDA graphs too), copies and NVTX ranges.
#
# usage: scripts/nsys_profile.sh [--whole] REPORT PROGRAM [ARGUMENTS...]
#
#   scripts/nsys_profile.sh lenet5 trtexec --loadEngine=lenet5.engine --warmUp=0 --duration=0 --iterations=50
#   scripts/nsys_profile.sh --whole mine ./my_program
#
# Writes REPORT.nsys-rep. What is traced is what the program runs between cudaProfilerStart and cudaProfilerStop, as
# trtexec does around its timed inferences; --whole traces everything. Read it with scripts/nsys_stats.sh, with
# `lenet-trt profile --from REPORT.nsys-rep`, or in the nsys-ui window. `lenet-trt profile MODEL` does all of it for a
# model file.
set -euo pipefail

usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

[ "${1:-}" != --help ] || { usage; exit 0; }
range=(--capture-range=cudaProfilerApi --capture-range-end=stop)
if [ "${1:-}" = --whole ]; then
    range=()
    shift
fi
[ $# -ge 2 ] || { usage >&2; exit 2; }
report=${1%.nsys-rep}
shift
command -v nsys > /dev/null || { echo "nsys is not on the PATH: install Nsight Systems, or add its folder" >&2; exit 1; }

# No sampling of the CPU: it makes the report a thousand times larger, and the GPU's times worse.
nsys profile --output="$report" --force-overwrite=true --trace=cuda,nvtx --cuda-graph-trace=node \
    --sample=none --cpuctxsw=none "${range[@]}" "$@"
if [ ! -f "$report.nsys-rep" ]; then
    echo "nsys made no $report.nsys-rep: did the program reach cudaProfilerStart? --whole traces without it" >&2
    exit 1
fi
echo "$report.nsys-rep"
