// scale_add_softmax (see kernel.cu) with a block a row: for rows of more than a thousand elements.
//
// x [outer, repeat, inner, K], mask [outer, 1, inner, K] -> y [outer, repeat, inner, K].
//
// Mapping: softmax/row.cuh, one block a row, of as many threads as the variant declares; they hold the row in registers.
// Bytes: x and y once; mask from L2 as often as it is repeated.
#include "scale_add_softmax/mask.cuh"
#include "softmax/row.cuh"

using softmax::T;
ASSERT_LAUNCH_WHERE(scale_add_softmax_row, LAUNCH_THREADS == 128 || LAUNCH_THREADS == 256 || LAUNCH_THREADS == 1024, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    scale_add_softmax_row(const T* __restrict__ x, const T* __restrict__ mask, int rows, int repeat, int inner,
                          T* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace softmax;
  using Packs = Row<LAUNCH_THREADS>;
  const T* const own = mask + mask_row(blockIdx.x, repeat, inner) * kLength;
  row_in_registers<1, LAUNCH_THREADS>(x, y, [&](const Packs& packs, Values<LAUNCH_THREADS>& value) {
#pragma unroll
    for (int i = 0; i < Packs::kEach; ++i) {
      Pack16<T> wide;
      const bool together = Packs::kWhole && packs.whole(i);
      if (together) wide = load16(own + packs.first_of(i));
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) {
        if (packs.holds(i, j)) value[i][j] = masked(value[i][j], together ? wide.value[j] : own[packs.column(i, j)]);
      }
    }
  });
}
