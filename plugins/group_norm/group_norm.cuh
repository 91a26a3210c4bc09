// What the variants of group_norm share: sizes, a group in registers, and what is stored of it.
#pragma once

#include "group_norm/part.cuh"
#include "windows/activation.cuh"

namespace group_norm {

using T = TYPE_T;
constexpr int kGroups = ATTR_GROUP, kChannels = AXIS_C / kGroups, kPixels = AXIS_S, kLength = kChannels * kPixels;  // of a group
constexpr float kEpsilon = ATTR_EPSILON;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

// A group, shared out to kThreads threads. Each has up to 64 elements in registers; what is left of a larger group it reads from L2 each time.
template <int kThreads>
struct Group {
  using Layout = RowLayout<T, kLength>;
  static constexpr int kWide = Layout::kWide, kHeld = smaller(ceil_div(Layout::kPacks, kThreads), 64 / kWide);  // packs
  static constexpr bool kAllHeld = kHeld * kThreads >= Layout::kPacks;

  const T* __restrict__ x;
  const int row, thread;
  const RowPacks<T, kLength, kThreads, kHeld> held;

  __device__ __forceinline__ Group(const T* x_, int row_, int thread_) : x(x_), row(row_), thread(thread_), held(x_, row_, thread_, 0.0f) {}

  // Calls what(pack, the index of its first element in the group) for all packs of this thread. Elements outside of the group are 0.
  template <typename What>
  __device__ __forceinline__ void each(const What& what) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) what(held.pack[i], held.first_of(i));
    if constexpr (!kAllHeld) {
#pragma unroll 4
      for (int next = thread + kHeld * kThreads; next < Layout::kPacks; next += kThreads) {
        const RowPacks<T, kLength, kThreads, 1> packs(x, row, next, 0.0f);
        what(packs.pack[0], packs.first);
      }
    }
  }

  static __device__ __forceinline__ bool holds(int first, int j) {
    return Layout::is_whole(first) || (!Layout::kWhole && first + j >= 0 && first + j < kLength);
  }

  // What this thread's warp has of the group.
  __device__ __forceinline__ Part of_warp() const {
    float numbers = 0.0f, sum = 0.0f, squares = 0.0f;
    each([&](const Pack16<T>& pack, int first) {
#pragma unroll
      for (int j = 0; j < kWide; ++j) sum += to_float(pack.value[j]);
      numbers += larger(smaller(first + kWide, kLength) - larger(first, 0), 0);
    });
    numbers = lanes_sum<32>(numbers);
    const float mean = mean_of(numbers, lanes_sum<32>(sum));
    each([&](const Pack16<T>& pack, int first) {
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const float distance = holds(first, j) ? to_float(pack.value[j]) - mean : 0.0f;
        squares = fmaf(distance, distance, squares);
      }
    });
    return {numbers, mean, lanes_sum<32>(squares)};
  }

  // Stores the norm; `all` is the whole group's.
  __device__ __forceinline__ void store(const Part& all, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) const {
    const int channels = row % kGroups * kChannels;
    const float mean = all.mean, inverse = inverse_deviation(all, kEpsilon);
    T* const to = y + held.start;
    each([&](const Pack16<T>& pack, int first) {
      Pack16<T> out;
      float factor, offset;
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        if (j == 0 || kPixels % kWide != 0) {  // otherwise a pack is of one channel
          const int channel = channels + (holds(first, j) ? first + j : 0) / kPixels;
          factor = inverse * to_float(scale[channel]), offset = to_float(bias[channel]);
        }
        out.value[j] = from_float<T>(activate<kActivation>(fmaf(to_float(pack.value[j]) - mean, factor, offset)));
      }
      if (Layout::is_whole(first)) {
        store_vector(to + first, out);
      } else if constexpr (!Layout::kWhole) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          if (holds(first, j)) to[first + j] = out.value[j];
        }
      }
    });
  }
};

}  // namespace group_norm
