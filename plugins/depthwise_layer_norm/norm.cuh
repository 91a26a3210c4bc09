// The layer norm of depthwise_layer_norm on tensor cores. A lane has eight channels of four pixels: column g = lane / 4 of a tile, rows 4 t + j with
// t = lane % 4. It leaves their mean and the sum of the squared distances from it; threads join those of all channels, and a lane normalises its own.
// So a large mean costs no digits. Outputs pass through shared memory, to be stored in whole lines.
#pragma once

#include "block_cluster.cuh"
#include "depthwise_layer_norm/tile.cuh"

// Row 4 t + j has sums[c][sum_of(j)] (products.cuh).
__device__ __forceinline__ constexpr int sum_of(int j) { return j / 2 + j % 2 * 2; }
// Where the row 4 t of column g is, of a tile's pixels.
__device__ __forceinline__ int first_pixel() { return threadIdx.x % 32 / 4 * kColumnPitch + threadIdx.x % 4 * 4; }

__device__ __forceinline__ void leave_moments(float4* parts, int group, const float (&sums)[kEight][4]) {
  float2 of_row[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float total = 0.0f, squares = 0.0f;
#pragma unroll
    for (int c = 0; c < kEight; ++c) total += sums[c][sum_of(j)];
    const float mean = total * (1.0f / kEight);
#pragma unroll
    for (int c = 0; c < kEight; ++c) {
      const float distance = sums[c][sum_of(j)] - mean;
      squares = fmaf(distance, distance, squares);
    }
    of_row[j] = make_float2(mean, squares);
  }
  float4* const to = parts + (group * kPixels + first_pixel()) / 2;
#pragma unroll
  for (int j = 0; j < 4; j += 2) to[j / 2] = {of_row[j].x, of_row[j].y, of_row[j + 1].x, of_row[j + 1].y};
}

// Mean and sum of the squared distances of two pixels, from those of `count` parts of their channels; `channels`: of a part, and of all.
template <typename Part, typename Channels>
__device__ __forceinline__ float4 joined(int count, const Part& part, const Channels& channels, int all) {
  float4 result = {};
  for (int i = 0; i < count; ++i) {
    const float4 each = part(i);
    const float of_part = static_cast<float>(channels(i));
    result.x = fmaf(of_part, each.x, result.x), result.z = fmaf(of_part, each.z, result.z);
  }
  const float share = reciprocal_approx(static_cast<float>(all));
  result.x *= share, result.z *= share;
  for (int i = 0; i < count; ++i) {
    const float4 each = part(i);
    const float of_part = static_cast<float>(channels(i)), first = each.x - result.x, second = each.z - result.z;
    result.y += fmaf(of_part * first, first, each.y), result.w += fmaf(of_part * second, second, each.w);
  }
  return result;
}

// Joins the moments of two neighbouring pixels, for each thread of a tile. `parts`: of the block's groups, then of the cluster's blocks, then of all
// channels: mean, and 1 / standard deviation.
template <typename P>
struct Join {
  float4* const parts;
  const int thread;

  __device__ __forceinline__ float4& at(int part, int pixel) const { return parts[part * (kPixels / 2) + pixel]; }
  __device__ __forceinline__ const float2* of_all() const { return reinterpret_cast<const float2*>(parts) + P::kParts * kPixels; }
  __device__ __forceinline__ void finish(int pixel, const float4& all) const {
    at(P::kParts, pixel) = {all.x, inverse_deviation(all.y), all.z, inverse_deviation(all.w)};
  }
  // Of the block; the blocks of a cluster send each other theirs, which count on the same barrier of each.
  __device__ __forceinline__ void groups(unsigned barrier) const {
    const int count = P::groups_of(P::rank());
#pragma unroll 1
    for (int pixel = thread; pixel < kPixels / 2; pixel += P::kThreads) {
      const float4 own = joined(count, [&](int i) { return at(i, pixel); }, [](int) { return kEight; }, count * kEight);
      if constexpr (P::kBlocks == 1) {
        finish(pixel, own);
      } else {
#pragma unroll
        for (int other = 0; other < P::kBlocks; ++other) {
          send_remote(shared_address(&at(P::kOwn + P::rank(), pixel)), barrier, other, own);
        }
      }
    }
  }
  __device__ __forceinline__ void blocks() const {
#pragma unroll 1
    for (int pixel = thread; pixel < kPixels / 2; pixel += P::kThreads) {
      const auto part = [&](int i) { return at(P::kOwn + i, pixel); };
      finish(pixel, joined(P::kBlocks, part, [](int i) { return P::groups_of(i) * kEight; }, kChannels));
    }
  }
};

// A tile's outputs, where its x was: pixels column by column, each with an odd number of units of eight channels.
template <typename P>
struct Outputs {
  static constexpr int kPitch = kRows + 1, kUnits = P::kOwn / 2 * 2 + 1;
  static_assert(kColumns * kPitch * kUnits * 16 <= P::kXBytes);
  unsigned char* const tile;

  __device__ __forceinline__ T* at(int row, int column, int group) const {
    return reinterpret_cast<T*>(tile + ((column * kPitch + row) * kUnits + group) * 16);
  }
  // A lane's four pixels.
  __device__ __forceinline__ void normalise(const Layer& layer, const float2* of_all, const float (&sums)[kEight][4], int group, int channel) const {
    const int lane = threadIdx.x % 32, row = lane % 4 * 4;
    const Vector<T, kEight> scales = load_vector<kEight>(layer.scale + channel), shifts = load_vector<kEight>(layer.shift + channel);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 all = of_all[first_pixel() + j];
      Vector<T, kEight> outputs;
#pragma unroll
      for (int c = 0; c < kEight; ++c) {
        outputs.value[c] = from_float<T>(fmaf((sums[c][sum_of(j)] - all.x) * all.y, to_float(scales.value[c]), to_float(shifts.value[c])));
      }
      if (row + j < kRows) *reinterpret_cast<Vector<T, kEight>*>(at(row + j, lane / 4, group)) = outputs;
    }
  }
  // Neighbouring threads have neighbouring channels.
  __device__ __forceinline__ void store(const Layer& layer, const Place& place, int thread) const {
    const int groups = P::groups_of(P::rank());
    T* const image = layer.y + static_cast<size_t>(place.image) * (kHeight * kWidth * kChannels) + P::first_group(P::rank()) * kEight;
#pragma unroll 2
    for (int i = thread; i < kRows * kColumns * P::kOwn; i += P::kThreads) {
      const int group = i % P::kOwn, pixel = i / P::kOwn, row = pixel / kColumns, column = pixel % kColumns;
      const bool exists = place.row + row < kHeight && place.column + column < kWidth && group < groups;
      T* const to = image + ((place.row + row) * kWidth + place.column + column) * kChannels + group * kEight;
      if (exists) store_vector(to, load_vector<kEight>(at(row, column, group)));
    }
  }
};
