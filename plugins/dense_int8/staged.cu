// dense_int8 through shared memory, for many rows: y = cut(round(act(x_scale w_scale[o] (x . w[o]) + bias[o]) / y_scale)).
//
// x [n, IN] int8, w [OUT, IN] int8, scales and bias float -> y [n, OUT] int8.
//
// Mapping: dense/staged.cuh; rows of x are the 16-row operand. Results pass through shared memory, so that rows of y are written in wide
// pieces.
//
// Bytes: x once per kTileOut outputs, w once per kTileRows rows, from L2; y once.
// What was measured: docs/kernels/dense_int8.md.
#include "dense/staged.cuh"
#include "dense_int8/layer.cuh"

namespace dense_int8 {

template <int kTileRows, int kTileOut, int kWarpRows, int kWarpOut, int kStages>
__device__ __forceinline__ void by_tiles(unsigned char* shared, const signed char* x, const float* x_scale, const signed char* w,
                                         const float* w_scale, const float* bias, const float* y_scale, int n, signed char* y) {
  using Tile = dense::Tile<signed char, kIn, kOut, kTileRows, kTileOut, kWarpRows, kWarpOut, kStages>;
  using Results = dense::Results<Tile, signed char>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const size_t first_row = static_cast<size_t>(blockIdx.x) * kTileRows;
  const int first_out = blockIdx.y * kTileOut;
  const int rows = min(kTileRows, static_cast<int>(n - first_row)), outs = min(kTileOut, kOut - first_out);
  const int row = warp / Tile::kWarpsAcross * kWarpRows, out = warp % Tile::kWarpsAcross * kWarpOut;

  dense::Sums<Tile> sums = {};
  dense::multiply_tile<Tile>(sums, shared_address(shared), x + first_row * kIn, w + static_cast<size_t>(first_out) * kIn, rows, outs,
                             row, out);
  signed char* const results = reinterpret_cast<signed char*>(shared);
  __syncthreads();  // all have left the last stage
#pragma unroll
  for (int j = 0; j < Tile::kOutTiles; ++j) {
    const int at_out = out + j * 8 + 2 * t;
    Scale scales[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) scales[k] = scale_of(first_out + at_out + k, kOut, x_scale, w_scale, bias, y_scale);
#pragma unroll
    for (int i = 0; i < 2 * Tile::kRowTiles; ++i) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int integer = requantized(sums[i / 2][j][i % 2 * 2 + k], scales[k]);
        results[(row + i * 8 + g) * Results::kPitch + at_out + k] = static_cast<signed char>(integer);
      }
    }
  }
  __syncthreads();
  Results::write(results, y + first_row * kOut + first_out, rows, outs);
}

}  // namespace dense_int8

#define STAGED(entry, rows, out, warp_rows, warp_out, stages)                                                            \
  ASSERT_LAUNCH(entry, 32 * ((rows) / (warp_rows)) * ((out) / (warp_out)), (stages) * ((rows) + (out)) * 128);           \
  extern "C" __global__ void __launch_bounds__(32 * ((rows) / (warp_rows)) * ((out) / (warp_out)))                       \
      entry(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,     \
            const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n, \
            signed char* __restrict__ y) {                                                                               \
    if constexpr (!is_launched(#entry)) return;  /* the others are compiled with other variants */                       \
    wait_for_previous_kernel();                                                                                          \
    extern __shared__ __align__(16) unsigned char shared[];                                                              \
    dense_int8::by_tiles<rows, out, warp_rows, warp_out, stages>(shared, x, x_scale, w, w_scale, bias, y_scale, n, y);   \
  }
STAGED(dense_int8_staged_32x32, 32, 32, 16, 16, 4)
STAGED(dense_int8_staged_64x64, 64, 64, 32, 32, 4)
STAGED(dense_int8_staged_128x128, 128, 128, 64, 32, 3)
