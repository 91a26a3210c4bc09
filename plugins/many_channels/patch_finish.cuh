// The end of a tile of by_wgmma.cuh: its sums become outputs, from the registers of this block or from the shared memory of a cluster's.
#pragma once

#include "block_cluster.cuh"
#include "many_channels/patch.cuh"

// Two neighbours in a row of y, of which the second may lie beyond the row.
struct Pair {
  static constexpr bool kEven = Layer::kOutWidth % 2 == 0;
  static __device__ __forceinline__ Vector<T, 2> load(const T* from, int column) {
    if constexpr (kEven) return load_vector<2>(from);
    return {from[0], column + 1 < Layer::kOutWidth ? from[1] : 0.0f};
  }
  static __device__ __forceinline__ void store(T* to, int column, const Vector<T, 2>& pair) {
    if constexpr (kEven) {
      store_vector(to, pair);
    } else {
      to[0] = pair.value[0];
      if (column + 1 < Layer::kOutWidth) to[1] = pair.value[1];
    }
  }
};

// A tile's sums become outputs.
template <typename Patch, bool kAdds>
struct Finish : Tensors {
  __device__ __forceinline__ Vector<T, 2> addends(int place, int column, bool exist) const {
    return kAdds && exist ? Pair::load(added + place, column) : Vector<T, 2>{};
  }
  // The output that is computed by plain multiply-adds.
  __device__ __forceinline__ T plain(const SpotOfY<Patch>& spot, int filter) const {
    const float sum = plain_sum(x, filters, scales, spot.of_all(), filter);
    return activate<kActivation>(sum + bias[filter] + (kAdds ? added[spot.place(filter)] : 0.0f));
  }

  // From registers: a lane has two neighbouring pixels in each of 16 eights, of filters first_filter and 8 further.
  __device__ __forceinline__ void lane(const float (&sums)[64], int most, int first_row, int column, int first_filter) const {
    float zero = 0.0f;  // NaN where a sum is not finite
#pragma unroll
    for (int i = 0; i < 64; ++i) zero = fmaf(sums[i], 0.0f, zero);
    float scale[2], offset[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool exists = first_filter + 8 * i < kFilters;
      scale[i] = exists ? scales[first_filter + 8 * i] : 0.0f;
      offset[i] = exists ? bias[first_filter + 8 * i] : 0.0f;
    }
    constexpr int kTogether = 4;  // eights of which the loads are under way at once
#pragma unroll
    for (int first = 0; first < 16; first += kTogether) {
      Vector<T, 2> outputs[kTogether][2];
      int places[kTogether];
      bool exist[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const SpotOfY<Patch> spot(first_row + Patch::row(first + j), column + Patch::column(first + j));
        places[j] = spot.place(first_filter);
        exist[j] = spot.exists(n);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          outputs[j][i] = addends(places[j] + i * 8 * Layer::kOutPlane, spot.column, exist[j] && first_filter + 8 * i < kFilters);
        }
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& output = outputs[j][i].value[e];
            const float sum = fmaf(sums[4 * (first + j) + 2 * i + e], scale[i], offset[i]);
            output = activate<kActivation>(kAdds ? sum + output : sum);
          }
          if (exist[j] && first_filter + 8 * i < kFilters) Pair::store(y + (places[j] + i * 8 * Layer::kOutPlane), column + Patch::column(first + j), outputs[j][i]);
        }
      }
    }
    if (exact_sum(zero, most)) return;
    each_inexact(sums, [&](int) { return most; }, [&](int index) {
      const int filter = first_filter + index / 2 % 2 * 8;
      const SpotOfY<Patch> spot(first_row + Patch::row(index / 4), column + Patch::column(index / 4) + index % 2);
      if (spot.exists(n) && filter < kFilters) y[spot.place(filter)] = plain(spot, filter);
    });
  }

  // From the shared memory of all blocks of a cluster: this block finishes some filters, a thread runs of 4 pixels.
  __device__ __forceinline__ void share(const float* sums, const int* most, const Place<Patch>& place) const {
    constexpr int kShare = Patch::kTileFilters / Patch::kSplits, kRunsOfFilter = Patch::kPixels / kRun, kRuns = kShare * kRunsOfFilter / (2 * kRole);
    const int first_of_tile = blockIdx.x % Patch::kSplits * kShare;
    int most_of_all = 0;
#pragma unroll
    for (unsigned other = 0; other < Patch::kSplits; ++other) {
      most_of_all = max(most_of_all, __float_as_int(read_remote(reinterpret_cast<const float*>(most), other).x));
    }
    // A run's filter, counted from the tile's first, and its first pixel, counted in the tile.
    const auto filter_of = [&](int run) { return first_of_tile + (threadIdx.x - kRole + run * 2 * kRole) / kRunsOfFilter; };
    const int pixel = threadIdx.x % kRunsOfFilter * kRun, half = pixel / kRole;
    const int row = place.row + Patch::row(pixel % kRole / 8) + Patch::below(half);
    const int column = place.column + Patch::column(pixel % kRole / 8) + pixel % 8 + Patch::across(half);
    unsigned again = 0;  // which sums have to be computed again: a bit for each
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int filter = place.filter + filter_of(run);
      Vector<T, 2> outputs[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const SpotOfY<Patch> spot(row, column + 2 * i);
        outputs[i] = addends(spot.place(filter), spot.column, spot.exists(n) && filter < kFilters);
      }
      float total[kRun] = {};
#pragma unroll
      for (unsigned other = 0; other < Patch::kSplits; ++other) {
        const float4 part = read_remote(sums + filter_of(run) * Patch::kSumPitch + pixel, other);
        total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      }
      const float scale = filter < kFilters ? scales[filter] : 0.0f, offset = filter < kFilters ? bias[filter] : 0.0f;
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        float& output = outputs[i / 2].value[i % 2];
        output = activate<kActivation>(fmaf(total[i], scale, offset) + output);
        again |= static_cast<unsigned>(!exact_sum(total[i], most_of_all)) << (run * kRun + i);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const SpotOfY<Patch> spot(row, column + 2 * i);
        if (spot.exists(n) && filter < kFilters) Pair::store(y + spot.place(filter), spot.column, outputs[i]);
      }
    }
#pragma unroll 1
    for (; again != 0; again &= again - 1) {
      const int index = __ffs(static_cast<int>(again)) - 1, filter = place.filter + filter_of(index / kRun);
      const SpotOfY<Patch> spot(row, column + index % kRun);
      if (spot.exists(n) && filter < kFilters) y[spot.place(filter)] = plain(spot, filter);
    }
  }
};
