// batched_matvec for fp16 rows of 64 on sm_90 and newer: the rows come by the bulk copy engine, not by loads of threads.
//
// The function is that of kernel.cu. There, a thread holds what it has asked for in registers: 34 of them in fp16, so six
// blocks fit on a multiprocessor and at most 96 KB are on the way. Here one thread asks for the 8 KB of its block with a single
// instruction, as the block's first act; 16 blocks keep 128 KB on the way and no register is taken for them.
//
// Thread mapping: 8 lanes a row, 16 bytes each. A thread takes rows kGroups apart, not neighbours: where inner * rows divides
// kGroups (a condition of the variant) all of them meet the same row of x unless a new outer index begins between them, so
// x is loaded once for four rows. Divisions are multiplications by what the host passes as by_... .
//
// Bytes moved: a, x and y once; a is marked as the first to leave L2.
//
// On an H200 (driver 580, CUDA 13.0), a [600, 200, 8, 1, 64] __half, median of 81 launches over four input sets in turns:
// 32.5 us (in a CUDA graph 32.3) where kernel.cu took 35.6 (35.2) in the same run, and 33.3 (32.9) held down to 32 registers,
// eight blocks. Aimed at: 32; the floor is 27.4. Slower: 16 KB a block 32.8 to 33.6, in two copies 33.7, 32 KB in four 34.9; two
// copies not marked for L2 35.4; a ring of copies for each warp of a persistent grid 35.3 to 41.8. For fp32 see kernel.cu.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kThreads = 128;
constexpr int kRows = 4;  // of a thread
constexpr int kLanes = kLength / Pack16<T>::kCount;
constexpr int kGroups = kThreads / kLanes;
constexpr int kRowsPerBlock = kGroups * kRows;
static_assert(sizeof(T) == 2 && kLength == 64, "measured for these rows alone; other types and lengths go to kernel.cu");
ASSERT_LAUNCH(batched_matvec_bulk, kThreads, 0);

// Begins the copy of so many bytes, a multiple of 16; the barrier's phase 0 ends when all have arrived. Called by one thread.
__device__ __forceinline__ void begin_copy(void* to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine must see the barrier initialised
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile(
      "{\n\t"
      ".reg .b64 policy;\n\t"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n\t"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], policy;\n\t"
      "}" ::"r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void wait_for_copy(unsigned barrier) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "AGAIN:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t"
      "@!done bra AGAIN;\n\t"
      "}" ::"r"(barrier)
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
  wait_for_copy(shared_address(&barrier));
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
