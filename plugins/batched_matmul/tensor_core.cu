// batched_matmul on tensor cores, for fp16 and bfloat16 of any sizes and layouts; sums in float.
//
// Shapes: see kernel.cu.
//
// Mapping: a block copies kGroup matrices of a and b to shared memory, 16 bytes a copy, and each warp computes 16 rows of a product at a
// time. Rows that are whole pieces of 16 bytes are loaded by ldmatrix; others, such as the 49 of a 7x7 window, element by element. y is
// collected in shared memory, so that it is written 16 bytes at a time too.
//
// Bytes: a, b and y once.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "matrices.cuh"
#include "mma.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(batched_matmul_tensor, kThreads, 0);
constexpr int kBlockBytes = 16 * 1024;  // of a, b and y; the declaration's grid is for as many, and any other is right

// An operand of a product in shared memory: rows of a or columns of b.
template <int kExtent, bool kAlong>
struct Operand {
  using Matrices = Staged<kAlong ? kExtent : kK, kAlong ? kK : kExtent, true>;
  static constexpr bool kWide = Matrices::kWholeRows;
  static constexpr bool kMasked = kK % 8 != 0;  // some of the last eight k are beyond the matrix

  // Loads 8x8 matrices in the layout of mma.cuh: row + 8 (i % kAcross), k + 8 (i / kAcross) for i < 4. Beyond k they are zero.
  template <int kAcross>
  __device__ static __forceinline__ void load(unsigned (&part)[4], const T* matrix, int row, int k) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (kWide) {
      const int i = lane / 8, first_row = row + 8 * (i % kAcross), first_k = k + 8 * (i / kAcross);
      const T* from;
      if constexpr (kAlong) {
        from = matrix + smaller(first_row + lane % 8, kExtent - 1) * Matrices::kRowStride + smaller(first_k, kK - 8);
      } else {
        from = matrix + smaller(first_k + lane % 8, kK - 1) * Matrices::kRowStride + smaller(first_row, kExtent - 8);
      }
      load_matrices<!kAlong>(part, shared_address(from));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first_k = k + 8 * (i / kAcross), own_k = first_k + 2 * t;
      if (first_k >= kK) {
        part[i] = 0;
      } else if constexpr (!kWide) {
        part[i] = load_pair(matrix, smaller(row + 8 * (i % kAcross) + g, kExtent - 1), own_k);
      } else if (kMasked && first_k + 8 > kK) {
        part[i] &= (own_k < kK ? 0xffffu : 0u) | (own_k + 1 < kK ? 0xffff0000u : 0u);
      }
    }
  }

  // Elements k and k + 1 of a row.
  __device__ static __forceinline__ unsigned load_pair(const T* matrix, int row, int k) {
    if constexpr (kAlong && kK % 2 == 0) {
      return k < kK ? *reinterpret_cast<const unsigned*>(matrix + row * Matrices::kRowStride + k) : 0u;
    } else {
      const auto* bits = reinterpret_cast<const unsigned short*>(matrix);
      constexpr int kNext = kAlong ? 1 : Matrices::kRowStride;
      const int at = kAlong ? row * Matrices::kRowStride + k : k * Matrices::kRowStride + row;
      const unsigned low = k < kK ? bits[at] : 0u, high = k + 1 < kK ? bits[at + kNext] : 0u;
      return low | high << 16;
    }
  }
};

using OperandA = Operand<kM, kAlongA>;
using OperandB = Operand<kN, kAlongB>;
using A = OperandA::Matrices;
using B = OperandB::Matrices;
using Y = StagedY<true>;
constexpr int kGroup = larger(smaller(kBlockBytes / kBytes, most_products(A::kStride + B::kStride + Y::kStride)), 1);
constexpr int kRowTiles = ceil_div(kM, 16), kSteps = ceil_div(kK, 16);

// Writes two neighbouring elements of a row of y, where they are inside.
__device__ __forceinline__ void write_pair(T* y, int row, int column, float first, float second) {
  if (row >= kM || column >= kN) return;
  T* to = y + row * Y::kRowStride + column;
  if constexpr (kN % 2 == 0) {
    *reinterpret_cast<Vector<T, 2>*>(to) = {result_of(first), result_of(second)};
  } else {
    to[0] = result_of(first);
    if (column + 1 < kN) to[1] = result_of(second);
  }
}

// Computes rows row ... row + 15 of a product; all lanes of a warp call it.
__device__ __forceinline__ void multiply_rows(const T* a, const T* b, T* y, int row) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  unsigned left[kSteps][4];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) OperandA::load<2>(left[s], a, row, 16 * s);
#pragma unroll
  for (int column = 0; column < kN; column += 8) {
    float sums[4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; s += 2) {
      unsigned right[4];  // 32 of k
      OperandB::load<1>(right, b, column, 16 * s);
      mma_16x8x16<T>(sums, left[s][0], left[s][1], left[s][2], left[s][3], right[0], right[1]);
      if (s + 1 < kSteps) {
        const auto& next = left[smaller(s + 1, kSteps - 1)];
        mma_16x8x16<T>(sums, next[0], next[1], next[2], next[3], right[2], right[3]);
      }
    }
    write_pair(y, row + g, column + 2 * t, sums[0], sums[1]);
    if (row + 8 < kM) write_pair(y, row + g + 8, column + 2 * t, sums[2], sums[3]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_tensor(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ __align__(16) T staged_a[A::size(kGroup)];
  __shared__ __align__(16) T staged_b[B::size(kGroup)];
  __shared__ __align__(16) T staged_y[Y::size(kGroup)];
  const long long stride = static_cast<long long>(gridDim.x) * kGroup;
  for (long long first = static_cast<long long>(blockIdx.x) * kGroup; first < batch; first += stride) {
    const int count = static_cast<int>(batch - first < kGroup ? batch - first : kGroup);
    A::fetch<kThreads, kGroup>(staged_a, a, first, count, batch);
    B::fetch<kThreads, kGroup>(staged_b, b, first, count, batch);
    copy_async_wait_all();
    __syncthreads();
    const T *own_a = staged_a + A::lead(first), *own_b = staged_b + B::lead(first);
    T* own_y = staged_y + Y::lead(first);
    for (int item = threadIdx.x / 32; item < count * kRowTiles; item += kThreads / 32) {
      const int product = item / kRowTiles;
      multiply_rows(own_a + product * A::kStride, own_b + product * B::kStride, own_y + product * Y::kStride, item % kRowTiles * 16);
    }
    __syncthreads();
    Y::put<kThreads, kGroup>(staged_y, y, first, count);
    // The next copies go to a and b, which nobody reads any more; the barrier above them keeps y.
  }
}
