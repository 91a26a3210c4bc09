// softmax: y = exp(x - max) / sum of exp(x - max), over each row; any length, any architecture.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: block.cuh, a block a row. The other variants keep the row in registers or shared memory.
// Bytes: x and y once from DRAM, x once more from L2.
// What was measured: docs/kernels/softmax.md.
#include "softmax/block.cuh"

using softmax::T;
ASSERT_LAUNCH(softmax_block, softmax::kThreads, 0);

extern "C" __global__ void __launch_bounds__(softmax::kThreads)
    softmax_block(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::row_of_block(x, y, [](const softmax::Packs& packs, int i, int j) { return packs.value(i, j); });
}
