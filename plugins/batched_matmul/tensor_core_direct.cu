// batched_matmul on tensor cores without shared memory, where k and n are multiples of 8 and a is not transposed; fp16 and bfloat16.
//
// Shapes: see kernel.cu.
//
// Mapping: a warp computes kTiles * 16 rows of a product. A lane loads up to 16 bytes of a row, and these are operand registers of
// mma.cuh as they are, because the order of k is free. So is the order of n, and it is chosen so that each lane ends up with neighbours
// in n and writes up to 16 bytes. Where b is not transposed, a lane has neighbours in n, and movmatrix exchanges them for neighbours in k.
//
// Bytes: a and y once, b once from memory; from L1 b once per kTiles * 16 rows.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "matrices.cuh"
#include "mma.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(batched_matmul_tensor_direct, kThreads, 0);
static_assert(kAlongA && kK % 8 == 0 && kN % 8 == 0, "other layouts and sizes go to tensor_core.cu");
constexpr int kTiles = kM > 16 ? 2 : 1;
constexpr int kWarps = divide_up(kM, kTiles * 16);  // of a product

__host__ __device__ constexpr int run_of(int extent) { return extent % 32 == 0 ? 8 : extent % 16 == 0 ? 4 : 2; }
constexpr int kRunK = run_of(kK), kRunN = run_of(kN);  // neighbouring elements of a lane
constexpr int kWords = kRunK / 2, kColumns = kRunN / 2;  // registers; products of 8 columns
constexpr int kDepths = kK / (4 * kRunK);

template <int kElements>
using Run = Vector<unsigned, kElements / 2>;

template <int kElements>
__device__ __forceinline__ Run<kElements> load_run(const T* from) {
  return *reinterpret_cast<const Run<kElements>*>(from);
}

// Loads the part of b for columns first ... first + 4 kRunN - 1: in part[j][d][w], column first + kRunN (g / 2) + 2 j + g % 2 and
// k = kRunK (4 d + t) + 2 w and one more.
__device__ __forceinline__ void load_b(unsigned (&part)[kColumns][kDepths][kWords], const T* b, int first, int g, int t) {
  if constexpr (kAlongB) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const T* row = b + (first + kRunN * (g / 2) + 2 * j + g % 2) * kK;
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        const auto run = load_run<kRunK>(row + kRunK * (4 * d + t));
#pragma unroll
        for (int w = 0; w < kWords; ++w) part[j][d][w] = run.value[w];
      }
    }
  } else {
    Run<kRunN> runs[kDepths][kWords];
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int k = kRunK * (4 * d + g / 2) + 2 * w + g % 2;
        runs[d][w] = load_run<kRunN>(b + k * kN + first + kRunN * t);
      }
    }
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) part[j][d][w] = transpose_8x8(runs[d][w].value[j]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_tensor_direct(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  const long long item = static_cast<long long>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32, product = item / kWarps;
  if (product >= batch) return;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, first_row = static_cast<int>(item % kWarps) * (kTiles * 16) + g;
  const T* own_a = a + product * (kM * kK) + kRunK * t;
  const T* own_b = b + product * (kK * kN);
  T* own_y = y + product * (kM * kN) + kRunN * t;

  Run<kRunK> left[kTiles * 2][kDepths];  // rows first_row + 8 i; beyond the last row, the last one, which is not written
#pragma unroll
  for (int i = 0; i < kTiles * 2; ++i) {
#pragma unroll
    for (int d = 0; d < kDepths; ++d) left[i][d] = load_run<kRunK>(own_a + smaller(first_row + 8 * i, kM - 1) * kK + 4 * kRunK * d);
  }
#pragma unroll
  for (int first = 0; first < kN; first += 4 * kRunN) {
    unsigned right[kColumns][kDepths][kWords];
    load_b(right, own_b, first, g, t);
    float sums[kTiles][kColumns][4] = {};
#pragma unroll
    for (int d = 0; d < kDepths; ++d) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const auto &upper = left[2 * i][d], &lower = left[2 * i + 1][d];
          if constexpr (kWords == 1) {
            mma_16x8x16<T>(sums[i][j], upper.value[0], lower.value[0], 0u, 0u, right[j][d][0], 0u);
          } else {
#pragma unroll
            for (int w = 0; w + 1 < kWords; w += 2) {
              mma_16x8x16<T>(sums[i][j], upper.value[w], lower.value[w], upper.value[w + 1], lower.value[w + 1], right[j][d][w],
                             right[j][d][w + 1]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      if (first_row + 8 * i >= kM) continue;
      Vector<T, kRunN> values;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        values.value[2 * j] = from_float<T>(sums[i / 2][j][i % 2 * 2]);
        values.value[2 * j + 1] = from_float<T>(sums[i / 2][j][i % 2 * 2 + 1]);
      }
      store_vector(own_y + (first_row + 8 * i) * kN + first, values);
    }
  }
}
