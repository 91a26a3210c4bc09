// batched_matvec (see kernel.cu) for fp16 rows of 64 on sm_90 and newer: the bulk copy engine fetches the rows, not loads of threads.
//
// a [outer, broadcast, inner, rows, 64], x [outer, inner, 64], y [outer, broadcast, inner, rows]; inner * rows divides kGroups.
//
// Mapping: each block begins with a single instruction, by which one thread requests the block's 8 KB. 16 blocks per multiprocessor keep
// 128 KB on the way, and no register waits for them. 8 lanes share a row, with 16 bytes each. The rows of a thread are kGroups apart: all
// of them use the same row of x unless a new outer index begins between them, so x is loaded once for four rows. Divisions are
// multiplications by reciprocals that the host passes as by_... .
//
// Bytes: a, x and y once; a is marked as the first to leave L2.
// What was tried and measured: docs/kernels/batched_matvec.md.
#include "bulk.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kThreads = 128;
constexpr int kRows = 4;  // rows of a thread
constexpr int kLanes = kLength / Pack16<T>::kCount;
constexpr int kGroups = kThreads / kLanes;
constexpr int kRowsPerBlock = kGroups * kRows;
static_assert(sizeof(T) == 2 && kLength == 64, "measured for these rows alone; other types and lengths go to kernel.cu");
ASSERT_LAUNCH(batched_matvec_bulk, kThreads, 0);

// Begins to copy `bytes` bytes, a multiple of 16; the barrier's phase 0 ends when all have arrived. One thread calls it.
__device__ __forceinline__ void begin_copy(void* to, const void* from, unsigned bytes, unsigned barrier) {
  init_barrier(barrier);
  publish_to_units();
  expect_bytes(barrier, bytes);
  asm volatile(
      "{\n\t"
      ".reg .b64 policy;\n\t"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n\t"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy;\n\t"
      "}" ::"r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}

// n / d for 0 <= n < 2^31, by = (2^31 - 1) / d: n * by / 2^31 falls short of the quotient by less than one.
__device__ __forceinline__ int divide(int n, int d, int by) {
  const int quotient = __umulhi(2u * n, by);
  return quotient + (n - quotient * d >= d);
}

__device__ __forceinline__ float dot(const Pack16<T>& left, const Pack16<T>& right) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Pack16<T>::kCount; ++i) sum = fmaf(to_float(left.value[i]), to_float(right.value[i]), sum);
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matvec_bulk(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast, int inner, int rows,
                        int by_rows, int by_inner, int by_broadcast, T* __restrict__ y) {
  __shared__ alignas(128) T tile[kRowsPerBlock * kLength];
  __shared__ alignas(8) unsigned long long barrier;
  const int total = outer * broadcast * inner * rows, start = blockIdx.x * kRowsPerBlock;
  if (threadIdx.x == 0) {
    const int count = min(total - start, kRowsPerBlock);
    begin_copy(tile, a + static_cast<size_t>(start) * kLength, count * kLength * sizeof(T), shared_address(&barrier));
  }

  const int lane = threadIdx.x % kLanes;
  const unsigned first = static_cast<unsigned>(start) + threadIdx.x / kLanes;  // rows may pass 2^31 in the last block
  const auto row_of_a = [&](int r) -> int { return min(first + r * kGroups, static_cast<unsigned>(total - 1)); };
  const auto outer_index = [&](int row) {
    return divide(divide(divide(row, rows, by_rows), inner, by_inner), broadcast, by_broadcast);
  };
  const auto load_x = [&](int row) {
    const int vector = divide(row, rows, by_rows), batch = divide(vector, inner, by_inner);
    const int x_row = divide(batch, broadcast, by_broadcast) * inner + vector - batch * inner;
    return pack_from_bits<T>(__ldg(reinterpret_cast<const uint4*>(x + static_cast<size_t>(x_row) * kLength) + lane));
  };
  const bool same_outer = row_of_a(kRows - 1) < (outer_index(row_of_a(0)) + 1) * (broadcast * inner * rows);
  const Pack16<T> shared_by_rows = load_x(row_of_a(0));

  __syncthreads();  // the barrier is initialised
  wait_for_bytes(shared_address(&barrier));
  float sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Pack16<T> left = load16(tile + (r * kThreads + threadIdx.x) * Pack16<T>::kCount);
    if (same_outer) {
      sums[r] = dot(left, shared_by_rows);
    } else {
      sums[r] = dot(left, load_x(row_of_a(r)));
    }
  }

  const unsigned row = first + exchange_sums<kRows, kLanes / 2>(sums, lane) * kGroups;
  if (lane % (kLanes / kRows) == 0 && row < static_cast<unsigned>(total)) y[row] = from_float<T>(sums[0]);
}
