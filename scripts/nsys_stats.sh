#!/usr/bin/env bash
# What took the time in a report of Nsight Systems: kernels, copies, CUDA calls, NVTX ranges.
#
# usage: scripts/nsys_stats.sh REPORT.nsys-rep [--csv]
#
# The tables have share of the time, total, calls, average, median, minimum, maximum and name. --csv prints them as
# CSV. nsys keeps its export beside the report as .sqlite, which `lenet-trt profile --from` reads without nsys.
set -euo pipefail

usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

[ "${1:-}" != --help ] || { usage; exit 0; }
report=${1:-}
[ -n "$report" ] || { usage >&2; exit 2; }
[ -f "$report" ] || { echo "$report does not exist: make it with scripts/nsys_profile.sh" >&2; exit 1; }
format=table
case ${2:-} in
    "") ;;
    --csv) format=csv ;;
    *) usage >&2; exit 2 ;;
esac
command -v nsys > /dev/null || { echo "nsys is not on the PATH: install Nsight Systems, or add its folder" >&2; exit 1; }

nsys stats --force-export=true --format "$format" \
    --report cuda_gpu_kern_sum --report cuda_gpu_mem_time_sum --report cuda_gpu_mem_size_sum \
    --report cuda_api_sum --report nvtx_sum "$report"
