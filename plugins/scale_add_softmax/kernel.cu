// scale_add_softmax: y = softmax(x * scale + mask), over each row; any length, any architecture.
//
// x [outer, repeat, inner, K], mask [outer, 1, inner, K] -> y [outer, repeat, inner, K].
//
// Mapping: softmax/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x and y once from DRAM, x once more from L2, and mask as often as it is repeated.
// What was measured: docs/kernels/softmax.md.
#include "scale_add_softmax/mask.cuh"
#include "softmax/block.cuh"

using softmax::T;
ASSERT_LAUNCH(scale_add_softmax_block, softmax::kThreads, 0);

extern "C" __global__ void __launch_bounds__(softmax::kThreads)
    scale_add_softmax_block(const T* __restrict__ x, const T* __restrict__ mask, int rows, int repeat, int inner,
                            T* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace softmax;
  const T* const own = mask + mask_row(blockIdx.x, repeat, inner) * kLength;
  row_of_block(x, y, [&](const Packs& packs, int i, int j) {
    return packs.holds(i, j) ? masked(packs.value(i, j), own[packs.column(i, j)]) : nothing();
  });
}
