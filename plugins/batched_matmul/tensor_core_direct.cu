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
constexpr int kRows = kM > 8 ? kTiles * 2 : 1;  // eights of rows of a warp
constexpr int kWarps = ceil_div(kM, kTiles * 16);  // of a product
// Of small products, a warp has several at once; the declaration's grid is for as many, and any other is right.
constexpr int kLoadBytes = 1024, kMostProducts = 4;
constexpr int kProducts = larger(smaller(kLoadBytes / ((kM + kN) * kK * static_cast<int>(sizeof(T))), kMostProducts), 1);
static_assert(kProducts == 1 || kWarps == 1, "several warps of several products");

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

// The product p of a group, or the last one.
__device__ __forceinline__ long long at(long long group, int p, int batch) {
  const long long product = group * kProducts + p;
  return kProducts == 1 || product < batch ? product : batch - 1;
}

// Adds the products of 16 rows (g and g + 8 of them) and 8 columns over 4 kRunK neighbours in k.
__device__ __forceinline__ void multiply_run(float (&sums)[4], const Run<kRunK>& upper, const Run<kRunK>& lower,
                                             const unsigned (&right)[kWords]) {
  if constexpr (kWords == 1) {
    mma_16x8x16<T>(sums, upper.value[0], lower.value[0], 0u, 0u, right[0], 0u);
  } else {
#pragma unroll
    for (int w = 0; w + 1 < kWords; w += 2) {
      mma_16x8x16<T>(sums, upper.value[w], lower.value[w], upper.value[w + 1], lower.value[w + 1], right[w], right[w + 1]);
    }
  }
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

// One group of products: each of them has kWarps warps.
__device__ __forceinline__ void multiply(const T* a, const T* b, T* y, long long group, int warp, int batch) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, first_row = warp * (kTiles * 16) + g;
  // Rows beyond the last row, and products beyond the last one, are computed from the last one and not written.
  Run<kRunK> left[kProducts][kRows][kDepths];
#pragma unroll
  for (int p = 0; p < kProducts; ++p) {
    const T* own_a = a + at(group, p, batch) * (kM * kK) + kRunK * t;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
        left[p][i][d] = load_run<kRunK>(own_a + smaller(first_row + 8 * i, kM - 1) * kK + 4 * kRunK * d);
      }
    }
  }
#pragma unroll
  for (int first = 0; first < kN; first += 4 * kRunN) {
    unsigned right[kProducts][kColumns][kDepths][kWords];
#pragma unroll
    for (int p = 0; p < kProducts; ++p) load_b(right[p], b + at(group, p, batch) * (kK * kN), first, g, t);
#pragma unroll
    for (int p = 0; p < kProducts; ++p) {
      float sums[kTiles][kColumns][4] = {};
#pragma unroll
      for (int d = 0; d < kDepths; ++d) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
#pragma unroll
          for (int i = 0; i < kTiles; ++i) {
            multiply_run(sums[i][j], left[p][2 * i][d], left[p][smaller(2 * i + 1, kRows - 1)][d], right[p][j][d]);
          }
        }
      }
      T* own_y = y + at(group, p, batch) * (kM * kN) + first + kRunN * t;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (first_row + 8 * i >= kM || group * kProducts + p >= batch) continue;
        Vector<T, kRunN> values;
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          values.value[2 * j] = result_of(sums[i / 2][j][i % 2 * 2]);
          values.value[2 * j + 1] = result_of(sums[i / 2][j][i % 2 * 2 + 1]);
        }
        store_vector(own_y + (first_row + 8 * i) * kN, values);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_tensor_direct(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kBlockWarps = kThreads / 32;
  const long long items = (static_cast<long long>(batch) + kProducts - 1) / kProducts * kWarps;
  for (long long item = static_cast<long long>(blockIdx.x) * kBlockWarps + threadIdx.x / 32; item < items;
       item += static_cast<long long>(gridDim.x) * kBlockWarps) {
    multiply(a, b, y, item / kWarps, static_cast<int>(item % kWarps), batch);
  }
}
