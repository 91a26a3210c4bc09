// grouped_conv of floats with x in shared memory: y = act(conv(x, w) + bias), where each group of CG channels gives KG others, both few, at
// stride 1 with as much padding as keeps the size; sm_80 and newer.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, H, W].
//
// Mapping: the rows of all images stand one below the other, with as many rows of zeros behind each image as it is padded with. A block has as
// many of them as its threads compute, for up to 8 outputs of one group; a thread computes four neighbouring pixels of each. All of x that a
// block needs is under way from its first instructions on, and comes in three parts: the first channel, half of the channels, the rest. A
// channel is multiplied when it is there.
//
// Bytes: x (with the border of the rows) and y once. 2 KG CG R R operations an output pixel.
#include "copies.cuh"
#include "grouped_conv/sums.cuh"

struct Plan {
  static constexpr int kThreads = 128, kRun = 4;
  static constexpr int kSize = Layer::kSize, kPad = Layer::kPad, kTaps = kSize * kSize;

  static constexpr int kVectors = Layer::kWidth / kRun, kRows = kThreads / kVectors;
  static constexpr int kOfImage = Layer::kHeight + kPad, kRowsOfX = kRows + kSize - 1;
  // A row of x in shared memory begins with zeros, which also end the row before it.
  static constexpr int kLeft = 4, kPitch = kLeft + Layer::kWidth, kPlane = kRowsOfX * kPitch + kLeft;
  static constexpr int kTapFloats = kChannels * kTaps * kOfTap, kSharedBytes = 4 * (kTapFloats + kChannels * kPlane);
  static constexpr int kCopies = ceil_div(kRowsOfX * kVectors, kThreads);  // of a thread and channel
  static constexpr int kHalf = larger(kChannels / 2, 2);
  static_assert(Layer::kStride == 1 && 2 * kPad == kSize - 1 && kPad <= kLeft && Layer::kWidth % kRun == 0 && kRows > 0);
};
ASSERT_LAUNCH(grouped_conv_staged, Plan::kThreads, Plan::kSharedBytes);

// A row of all images, of which each has zeros behind it.
struct Row {
  int image, of_image;
  bool exists;

  __device__ __forceinline__ Row(int row, int n)
      : image(row / Plan::kOfImage), of_image(row % Plan::kOfImage), exists(row >= 0 && of_image < Layer::kHeight && image < n) {}
  // Of this channel in one of all images, as an offset.
  __device__ __forceinline__ size_t in(int channels, int channel) const {
    return (static_cast<size_t>(image) * channels + channel) * Layer::kPlane + of_image * Layer::kWidth;
  }
};

// What a thread copies of a channel: parts of rows, each of four floats.
struct Copies {
  const float* from[Plan::kCopies];
  unsigned to[Plan::kCopies];  // what lies behind the tile has no place
  bool exists[Plan::kCopies];

  __device__ __forceinline__ Copies(const float* __restrict__ x, unsigned patch, int first_row, int group, int n) {
#pragma unroll
    for (int i = 0; i < Plan::kCopies; ++i) {
      const int item = threadIdx.x + i * Plan::kThreads, line = item / Plan::kVectors, column = item % Plan::kVectors * Plan::kRun;
      const Row row(first_row - Plan::kPad + line, n);
      exists[i] = row.exists;
      from[i] = row.exists ? x + row.in(kGroups * kChannels, group * kChannels) + column : x;
      to[i] = item < Plan::kRowsOfX * Plan::kVectors ? patch + 4 * (line * Plan::kPitch + Plan::kLeft + column) : 0;
    }
  }

  __device__ __forceinline__ void begin(int channel) const {
#pragma unroll
    for (int i = 0; i < Plan::kCopies; ++i) {
      const float* const of_channel = from[i] + (exists[i] ? channel * Layer::kPlane : 0);
      if (to[i] != 0) copy_async<16>(to[i] + 4 * channel * Plan::kPlane, of_channel, exists[i] ? 16 : 0);
    }
  }
};

// Waits until all threads have what the channel is the first to need.
__device__ __forceinline__ void wait_for_channel(int channel) {
  if (channel == 0) {
    copy_async_wait<2>();
  } else if (channel == 1) {
    copy_async_wait<1>();
  } else if (channel == Plan::kHalf) {
    copy_async_wait<0>();
  } else {
    return;
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    grouped_conv_staged(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, int n, float* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  float* const taps = reinterpret_cast<float*>(shared);
  float* const patch = taps + Plan::kTapFloats;
  const int group = blockIdx.y / kParts, first_out = blockIdx.y % kParts * kOut, first_row = blockIdx.x * Plan::kRows;

  const Copies copies(x, shared_address(patch), first_row, group, n);
  copies.begin(0);
  for (int i = threadIdx.x; i < kChannels * Plan::kTaps * kOut; i += Plan::kThreads) {
    const int out = i % kOut, tap = i / kOut;
    const bool inside = is_output(first_out + out);
    const float* const from = w + (inside ? static_cast<size_t>(group * kFilters + first_out + out) * (kChannels * Plan::kTaps) + tap : 0);
    copy_async<4>(shared_address(taps + tap * kOfTap + out), from, inside ? 4 : 0);
  }
  copy_async_commit();
#pragma unroll 1
  for (int channel = 1; channel < Plan::kHalf; ++channel) copies.begin(channel);
  copy_async_commit();
#pragma unroll 1
  for (int channel = Plan::kHalf; channel < kChannels; ++channel) copies.begin(channel);
  copy_async_commit();
  for (int i = threadIdx.x; i < kChannels * (Plan::kRowsOfX + 1); i += Plan::kThreads) {
    const int line = i % (Plan::kRowsOfX + 1), channel = i / (Plan::kRowsOfX + 1);
    *reinterpret_cast<float4*>(patch + channel * Plan::kPlane + line * Plan::kPitch) = float4{};
  }

  const int thread = smaller(threadIdx.x, Plan::kRows * Plan::kVectors - 1), down = thread / Plan::kVectors;
  const int column = thread % Plan::kVectors * Plan::kRun;
  Sums<1, Plan::kRun> sums;
  begin_sums<1, Plan::kRun>(sums, bias, group, first_out);

  const float* corner = patch + down * Plan::kPitch + Plan::kLeft - Plan::kPad + column;
  const float* of_channel = taps;
#pragma unroll 1
  for (int channel = 0; channel < kChannels; ++channel, corner += Plan::kPlane, of_channel += Plan::kTaps * kOfTap) {
    wait_for_channel(channel);
    constexpr int kColumns = Plan::kRun + Plan::kSize - 1;
    float columns[Plan::kSize][kColumns];
#pragma unroll
    for (int line = 0; line < Plan::kSize; ++line) {
      const float* const from = corner + line * Plan::kPitch;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        if (i >= Plan::kPad && i < Plan::kPad + Plan::kRun) continue;
        columns[line][i] = from[i];
      }
      const float4 four = *reinterpret_cast<const float4*>(from + Plan::kPad);
      columns[line][Plan::kPad] = four.x, columns[line][Plan::kPad + 1] = four.y;
      columns[line][Plan::kPad + 2] = four.z, columns[line][Plan::kPad + 3] = four.w;
    }
    add_channel<0, 1, Plan::kRun>(sums, columns, of_channel);
  }

  const Row row(first_row + down, n);
  if (threadIdx.x >= Plan::kRows * Plan::kVectors || !row.exists) return;
  float* const to = y + row.in(kGroups * kFilters, group * kFilters + first_out) + column;
#pragma unroll
  for (int out = 0; out < kOut; ++out) {
    if (!is_output(first_out + out)) return;
    Vector<float, Plan::kRun> run;
#pragma unroll
    for (int e = 0; e < Plan::kRun; ++e) run.value[e] = activate<kActivation>(sums[out][0][e]);
    store_vector(to + out * Layer::kOutPlane, run);
  }
}
