// batched_matvec: y = a @ x where x is a column, a MatMul whose right operand's last dimension is 1.
//
// a [outer, broadcast, inner, rows, K], x [outer, inner, K], y [outer, broadcast, inner, rows]; every leading shape through which
// ONNX MatMul broadcasts x over a folds into this one. K is compiled in; there are fewer than 2^31 rows in all.
//
// Mapping: kLanes neighbouring lanes share a row, and each lane loads 16 bytes of it at a time. Such a group of lanes has kRows
// consecutive rows, and issues all their loads before it uses the first. Then the lanes exchange sums, so that each lane has the total
// of some rows (5 shuffles for 4 rows of 16 lanes, not 16), and the group writes its rows side by side.
//
// Bytes: a, x and y once. Each byte of a is used once, so its loads bypass L1 and it is the first to leave L2; x is small and stays
// in L1. While the loads of a are under way, the threads count which row of x belongs to each row of a.
// What was tried and measured: docs/kernels/batched_matvec.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kThreads = 256;
ASSERT_LAUNCH(batched_matvec, kThreads, 0);
constexpr int kLoadsInFlight = 4;  // 16-byte loads of a thread; 8 and 16 were slower on an H200

// Rows start 16-byte aligned if they are whole packs; if not, elements are loaded one by one.
constexpr bool kWide = kLength % Pack16<T>::kCount == 0;
constexpr int kPack = kWide ? Pack16<T>::kCount : 1;
constexpr int kPacks = kLength / kPack;

__host__ __device__ constexpr int lanes_for(int packs) {
  int lanes = 1;
  while (lanes < packs && lanes < 32) lanes *= 2;
  return lanes;
}
__host__ __device__ constexpr int floor_power_of_two(int value) {
  int power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}
constexpr int kLanes = lanes_for(kPacks);
constexpr int kSteps = ceil_div(kPacks, kLanes);  // packs of a row that one lane takes
constexpr int kStepsAtOnce = kSteps < kLoadsInFlight ? kSteps : kLoadsInFlight;
constexpr int kRows = floor_power_of_two(kLoadsInFlight / kStepsAtOnce);
constexpr int kGroups = kThreads / kLanes;

using PackOfRow = Vector<T, kPack>;

template <bool kStreaming>
__device__ __forceinline__ PackOfRow load_pack(const T* row, int pack) {
  PackOfRow result;
  if (kPacks % kLanes != 0 && pack >= kPacks) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) result.value[i] = from_float<T>(0.0f);
  } else if constexpr (kWide) {
    const auto bits = reinterpret_cast<const uint4*>(row) + pack;
    *reinterpret_cast<uint4*>(&result) = kStreaming ? __ldcs(bits) : __ldg(bits);
  } else {
    result.value[0] = row[pack];
  }
  return result;
}

// Position of a row of a in [outer, broadcast, inner, rows], advanced one row at a time.
struct RowCounter {
  int rows, inner, broadcast;
  int row, inside, repeat, x_row;  // x_row = index into x [outer * inner, K]

  __device__ __forceinline__ RowCounter(int first, int broadcast_, int inner_, int rows_)
      : rows(rows_), inner(inner_), broadcast(broadcast_) {
    const int vector = first / rows, batch = vector / inner;
    row = first - vector * rows;
    inside = vector - batch * inner;
    const int outer = batch / broadcast;
    repeat = batch - outer * broadcast;
    x_row = outer * inner + inside;
  }
  __device__ __forceinline__ void advance() {  // selects, no branches: the loads of x around it stay together
    const bool next_vector = ++row == rows;
    row = next_vector ? 0 : row;
    inside += next_vector;
    x_row += next_vector;
    const bool next_repeat = inside == inner;
    inside = next_repeat ? 0 : inside;
    x_row -= next_repeat ? inner : 0;
    repeat += next_repeat;
    const bool next_outer = repeat == broadcast;
    repeat = next_outer ? 0 : repeat;
    x_row += next_outer ? inner : 0;
  }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matvec(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast, int inner, int rows,
                   T* __restrict__ y) {
  const int total = outer * broadcast * inner * rows;
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  constexpr int kRowsPerBlock = kGroups * kRows;
  const int blocks = (total - 1) / kRowsPerBlock + 1;
  for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
    const unsigned first = static_cast<unsigned>(block) * kRowsPerBlock + group * kRows;  // may pass 2^31
    float sums[kRows] = {};
#pragma unroll 1
    for (int step = 0; step < kSteps; step += kStepsAtOnce) {
      PackOfRow packs[kRows][kStepsAtOnce];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int row = min(first + r, static_cast<unsigned>(total - 1));
#pragma unroll
        for (int s = 0; s < kStepsAtOnce; ++s) {
          packs[r][s] = load_pack<true>(a + static_cast<size_t>(row) * kLength, lane + (step + s) * kLanes);
        }
      }
      RowCounter counter(min(first, static_cast<unsigned>(total - 1)), broadcast, inner, rows);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const T* vector = x + static_cast<size_t>(min(counter.x_row, outer * inner - 1)) * kLength;
#pragma unroll
        for (int s = 0; s < kStepsAtOnce; ++s) {
          const PackOfRow pack = load_pack<false>(vector, lane + (step + s) * kLanes);
#pragma unroll
          for (int i = 0; i < kPack; ++i) sums[r] = fmaf(to_float(packs[r][s].value[i]), to_float(pack.value[i]), sums[r]);
        }
        counter.advance();
      }
    }

    const unsigned row = first + exchange_sums<kRows, kLanes / 2>(sums, lane);
    constexpr int kKept = kRows > kLanes ? kRows / kLanes : 1;
    constexpr int kCopies = kLanes > kRows ? kLanes / kRows : 1;  // lanes that hold the same total
    if (lane % kCopies != 0) continue;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (row + i < static_cast<unsigned>(total)) y[row + i] = from_float<T>(sums[i]);
    }
  }
}
