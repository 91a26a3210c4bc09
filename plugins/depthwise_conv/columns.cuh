// The depthwise convolution down columns, at stride 1, where y is as wide as x. A lane has four columns of a plane, or two, and goes down
// them. It keeps the sums of the rows of outputs that a row of x reaches, so it reads each row once.
//
// A warp has as many planes as fit. Their rows come to shared memory ahead of it, a few at a time (cp.async): each lane copies its own columns,
// and reads those of its neighbours too. Borders of zeros lie between planes.
#pragma once

#include "copies.cuh"
#include "layer.cuh"

struct ColumnPlan {
  static constexpr int kRun = Layer::kRun, kBytes = kRun * static_cast<int>(sizeof(T));  // columns of a lane
  static constexpr int kStrips = Layer::kStrips, kPlanes = 32 / kStrips;
  static constexpr int kBorder = ceil_div(Layer::kPad, kRun), kReads = 2 * kBorder + 1;  // runs
  static constexpr int kRows = 4, kStages = 3;                                          // rows of a stage
  // Runs of a row of a plane with the border on its left. Lanes of the next plane then have the banks that follow.
  static constexpr int kPitch = kStrips + round_up(kBorder, 128 / kBytes);
  static constexpr int kRowBytes = (kPlanes * kPitch + kBorder) * kBytes, kStageBytes = kRows * kRowBytes;
  static constexpr int kBytesOfWarp = kStages * kStageBytes;
};

// The sums of a lane, of the rows of outputs from kPad above the next row of x on; that of the last one begins with it.
struct ColumnSums {
  static constexpr int kRun = ColumnPlan::kRun;
  float of[kSize - 1][kRun];

  __device__ __forceinline__ explicit ColumnSums(const Convolution& convolution) {
#pragma unroll
    for (int i = 0; i < (kSize - 1) * kRun; ++i) of[i / kRun][i % kRun] = convolution.first();
  }

  // Adds a row of x, of which this lane's windows begin at `x`, and returns the row of outputs that is complete.
  __device__ __forceinline__ Vector<T, kRun> add(const float* x, const Convolution& convolution) {
    Vector<T, kRun> complete;
#pragma unroll
    for (int row = 0; row < kSize; ++row) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        float sum = row < kSize - 1 ? of[row][i] : convolution.first();
#pragma unroll
        for (int j = 0; j < kSize; ++j) sum = convolution.next(sum, x[i + j], kSize - 1 - row, j);
        if (row == 0) {
          complete.value[i] = from_float<T>(convolution.last(sum, 0, 0));
        } else {
          of[row - 1][i] = sum;
        }
      }
    }
    return complete;
  }

  // Of outputs whose other rows of x are below the plane.
  __device__ __forceinline__ Vector<T, kRun> rest(int row, const Convolution& convolution) const {
    Vector<T, kRun> complete;
#pragma unroll
    for (int i = 0; i < kRun; ++i) complete.value[i] = from_float<T>(convolution.last(of[row][i], 0, 0));
    return complete;
  }
};

// gridDim.y blocks divide the rows of a plane.
template <int kWarps>
__device__ __forceinline__ void depthwise_columns(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                                  T* __restrict__ y) {
  using Plan = ColumnPlan;
  constexpr int kRun = Plan::kRun, kRowBytes = Plan::kRowBytes, kStageBytes = Plan::kStageBytes;
  static_assert(Layer::kStride == 1 && Layer::kOutWidth == Layer::kWidth && Plan::kRun >= 2 && Plan::kStrips <= 32);
  extern __shared__ __align__(16) unsigned char shared[];
  const int lane = threadIdx.x % 32;
  unsigned char* const ring = shared + threadIdx.x / 32 * Plan::kBytesOfWarp;
  const unsigned planes = static_cast<unsigned>(n) * kChannels;
  const unsigned first_plane = (blockIdx.x * kWarps + threadIdx.x / 32) * Plan::kPlanes;
  if (first_plane >= planes) return;

  // Lanes without a plane read what the last one reads, and store nothing.
  const int place = min(lane, Plan::kPlanes * Plan::kStrips - 1), strip = place % Plan::kStrips, of_warp = place / Plan::kStrips;
  const bool works = place == lane && first_plane + of_warp < planes;
  const size_t plane = min(first_plane + of_warp, planes - 1);

  const int rows = ceil_div(Layer::kOutHeight, static_cast<int>(gridDim.y));
  const int first_out = blockIdx.y * rows, end_out = min(first_out + rows, Layer::kOutHeight);
  const int first = max(first_out - Layer::kPad, 0), end = min(end_out + Layer::kPad, Layer::kHeight);  // rows of x
  const size_t start = plane * Layer::kPlane + first * Layer::kWidth + strip * kRun;

  const T* from = x + start;
  unsigned char* const own = ring + (of_warp * Plan::kPitch + strip) * Plan::kBytes;  // what is left of its columns
  const unsigned to_shared = shared_address(own) + Plan::kBorder * Plan::kBytes;
  int copied = first;
  const auto begin_stage = [&](int offset) {
#pragma unroll
    for (int i = 0; i < Plan::kRows; ++i) {
      if (works && copied + i < end) copy_async<Plan::kBytes>(to_shared + offset + i * kRowBytes, from + i * Layer::kWidth);
    }
    copy_async_commit();
    copied += Plan::kRows;
    from += Plan::kRows * Layer::kWidth;
  };
#pragma unroll
  for (int i = 0; i < Plan::kStages - 1; ++i) begin_stage(i * kStageBytes);
  for (int i = lane; i < Plan::kStages * Plan::kRows * (Plan::kPlanes + 1) * Plan::kBorder; i += 32) {
    const int run = i % Plan::kBorder, border = i / Plan::kBorder % (Plan::kPlanes + 1), row = i / (Plan::kBorder * (Plan::kPlanes + 1));
    unsigned char* const at = ring + row * kRowBytes + (border * Plan::kPitch + run) * Plan::kBytes;
    *reinterpret_cast<Vector<T, kRun>*>(at) = Vector<T, kRun>{};
    // That on the right of a plane lies where that of the next one does, unless banks put the planes apart.
    if (border < Plan::kPlanes) *reinterpret_cast<Vector<T, kRun>*>(at + (Plan::kStrips + Plan::kBorder) * Plan::kBytes) = Vector<T, kRun>{};
  }

  const Convolution convolution(w, bias, plane % kChannels);
  ColumnSums sums(convolution);
  T* to = y + start - Layer::kPad * Layer::kOutWidth;
  const auto add_row = [&](const unsigned char* row_of_x, int row, T* row_of_y) {
    float columns[Plan::kReads * kRun];
#pragma unroll
    for (int v = 0; v < Plan::kReads; ++v) {
      const auto vector = load_vector<kRun>(reinterpret_cast<const T*>(row_of_x) + v * kRun);
#pragma unroll
      for (int e = 0; e < kRun; ++e) columns[v * kRun + e] = to_float(vector.value[e]);
    }
    const auto complete = sums.add(columns + Plan::kBorder * kRun - Layer::kPad, convolution);
    if (works && row - Layer::kPad >= first_out) store_vector(row_of_y, complete);
  };
  int row = first, offset = 0, next = (Plan::kStages - 1) * kStageBytes;
#pragma unroll 1
  while (row < end) {
    copy_async_wait<Plan::kStages - 2>();
    __syncwarp();
    begin_stage(next);
    next = offset;
    if (row + Plan::kRows <= end) {
#pragma unroll
      for (int i = 0; i < Plan::kRows; ++i) add_row(own + offset + i * kRowBytes, row + i, to + i * Layer::kOutWidth);
      row += Plan::kRows;
      to += Plan::kRows * Layer::kOutWidth;
    } else {
#pragma unroll 1
      for (int i = 0; row < end; ++i, ++row, to += Layer::kOutWidth) add_row(own + offset + i * kRowBytes, row, to);
    }
    offset = offset == (Plan::kStages - 1) * kStageBytes ? 0 : offset + kStageBytes;
  }
  if (!works || end_out < Layer::kOutHeight) return;
#pragma unroll
  for (int i = 0; i < Layer::kPad; ++i) {
    if (row - Layer::kPad + i >= first_out) store_vector(to + i * Layer::kOutWidth, sums.rest(i, convolution));
  }
}
