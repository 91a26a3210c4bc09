// dense_bias_relu on tensor cores through shared memory, for many rows: y = x w^T + bias, then ReLU if ATTR_RELU; sums in float.
//
// x [n, in], w [out, in], bias [out], y [n, out].
//
// Mapping: dense/staged.cuh; an entry for each size of tile. Floats are stored from registers, smaller types through shared memory, so that
// rows of y are written in wide pieces.
//
// Floats are split into tf32 parts. An infinity, a NaN or a number near the largest one makes such a sum infinite or NaN: a sum
// that is not finite is computed again by plain multiply-adds.
//
// Bytes: x once per kTileOut features, w once per kTileRows rows, from L2.
// What was measured: docs/kernels/dense_bias_relu.md.
#include "dense/staged.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;

__device__ __noinline__ float plain_sum(const T* x, const T* w) {
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < kIn; ++k) sum = fmaf(to_float(x[k]), to_float(w[k]), sum);
  return sum;
}

template <int kTileRows, int kTileOut, int kWarpRows, int kWarpOut, int kStages>
__device__ __forceinline__ void dense_by_tiles(unsigned char* shared, const T* x, const T* w, const T* bias, int n, T* y) {
  using Tile = dense::Tile<T, kIn, kOut, kTileRows, kTileOut, kWarpRows, kWarpOut, kStages>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const size_t first_row = static_cast<size_t>(blockIdx.x) * kTileRows;
  const int first_out = blockIdx.y * kTileOut;
  const int rows = min(kTileRows, static_cast<int>(n - first_row)), outs = min(kTileOut, kOut - first_out);
  const int row = warp / Tile::kWarpsAcross * kWarpRows, out = warp % Tile::kWarpsAcross * kWarpOut;
  x += first_row * kIn;
  w += static_cast<size_t>(first_out) * kIn;
  y += first_row * kOut + first_out;

  float offsets[Tile::kOutTiles][2];
#pragma unroll
  for (int j = 0; j < Tile::kOutTiles; ++j) {
#pragma unroll
    for (int k = 0; k < 2; ++k) offsets[j][k] = to_float(bias[min(first_out + out + j * 8 + 2 * t + k, kOut - 1)]);
  }
  dense::Sums<Tile> sums = {};
  dense::multiply_tile<Tile>(sums, shared_address(shared), x, w, rows, outs, row, out);

  using Results = dense::Results<Tile, T>;
  T* const results = reinterpret_cast<T*>(shared);
  constexpr bool kThroughShared = sizeof(T) < 4;
  if constexpr (kThroughShared) __syncthreads();  // all have left the last stage
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at_row = row + i * 16 + half * 8 + g;
#pragma unroll
      for (int j = 0; j < Tile::kOutTiles; ++j) {
        const int at_out = out + j * 8 + 2 * t;
        Vector<T, 2> values;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float sum = sums[i][j][2 * half + k];
          if constexpr (sizeof(T) == 4) {
            if (!(fabsf(sum) <= 3.4028234e38f) && at_row < rows && at_out + k < outs) {
              sum = plain_sum(x + static_cast<size_t>(at_row) * kIn, w + static_cast<size_t>(at_out + k) * kIn);
            }
          }
          const float value = sum + offsets[j][k];
          values.value[k] = from_float<T>(kRelu ? relu_nan(value) : value);
        }
        if constexpr (kThroughShared) {
          *reinterpret_cast<unsigned*>(results + at_row * Results::kPitch + at_out) = *reinterpret_cast<const unsigned*>(&values);
        } else if (at_row < rows && at_out < outs) {
          T* to = y + static_cast<size_t>(at_row) * kOut + at_out;
          if constexpr (kOut % 2 == 0) {
            store_vector(to, values);
          } else {
            to[0] = values.value[0];
            if (at_out + 1 < outs) to[1] = values.value[1];
          }
        }
      }
    }
  }
  if constexpr (kThroughShared) {
    __syncthreads();
    Results::write(results, y, rows, outs);
  }
}

#define STAGED(entry, rows, out, warp_rows, warp_out, stages)                                                         \
  ASSERT_LAUNCH(entry, 32 * ((rows) / (warp_rows)) * ((out) / (warp_out)), (stages) * ((rows) + (out)) * 128);        \
  extern "C" __global__ void __launch_bounds__(32 * ((rows) / (warp_rows)) * ((out) / (warp_out)))                    \
      entry(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) { \
    if constexpr (!is_launched(#entry)) return;  /* the others are compiled with other variants */                    \
    wait_for_previous_kernel();                                                                                       \
    extern __shared__ __align__(16) unsigned char shared[];                                                           \
    dense_by_tiles<rows, out, warp_rows, warp_out, stages>(shared, x, w, bias, n, y);                                 \
  }
STAGED(dense_bias_relu_staged_32x32, 32, 32, 16, 16, 4)
STAGED(dense_bias_relu_staged_64x32, 64, 32, 16, 32, 4)
STAGED(dense_bias_relu_staged_64x64, 64, 64, 32, 32, 4)
STAGED(dense_bias_relu_staged_128x128, 128, 128, 64, 32, 3)
