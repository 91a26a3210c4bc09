// conv7x7_pool3_half by plain multiply-adds, for GPUs before sm_90: y = MaxPool(act(Conv(x, w) + bias)), in fp16 and bfloat16.
//
// x [n, C, H, W], filters (w, packed: layer.cuh), bias [K], y [n, PH, PW, K].
//
// Mapping: a thread computes 8 filters of a pooled pixel, and for these the nine outputs of its window one after the other; neighbouring threads
// have neighbouring filters. Bytes: x once for each tap and 8 filters, from L1 or L2; y once.
#include "conv7x7_pool3_half/layer.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(conv7x7_pool3_half_direct, kDirectThreads, 0);

// Where filter `filter` of 64 stands.
__device__ __forceinline__ int place_of(int filter) { return filter / 32 * 32 + filter % 8 / 2 * 8 + filter % 32 / 8 * 2 + filter % 2; }

// Adds the products of an output of the convolution to the sums of 8 filters.
__device__ __forceinline__ void add_products(const X* image, const T* filters, int first, int row, int column, float (&sums)[kEight]) {
#pragma unroll 1
  for (int i = 0; i < kChannels * kSize * kSize; ++i) {
    const int channel = i / (kSize * kSize), down = i / kSize % kSize, across = i % kSize;
    const int from_row = 2 * row - kPad + down, from_column = 2 * column - kPad + across;
    if (static_cast<unsigned>(from_row) >= kHeight || static_cast<unsigned>(from_column) >= kWidth) continue;
    const float value = to_float(from_float<T>(to_float(image[(channel * kHeight + from_row) * kWidth + from_column])));
    const T* const taps = filters + (channel * kEight + down) * kOfRow + across + 1;
#pragma unroll
    for (int f = 0; f < kEight; ++f) sums[f] = fmaf(value, to_float(taps[place_of(first + f) * kEight]), sums[f]);
  }
}

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    conv7x7_pool3_half_direct(const X* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kGroups = kFilters / kEight, kPooled = kPooledHeight * kPooledWidth;
  const int index = blockIdx.x * kDirectThreads + threadIdx.x, filter = index % kGroups * kEight, pixel = index / kGroups;
  if (pixel >= n * kPooled) return;
  const int row = pixel % kPooled / kPooledWidth, column = pixel % kPooledWidth;
  const X* const image = x + static_cast<size_t>(pixel / kPooled) * (kChannels * kHeight * kWidth);
  float largest[kEight];
#pragma unroll
  for (int f = 0; f < kEight; ++f) largest[f] = lowest();
#pragma unroll 1
  for (int i = 0; i < 9; ++i) {
    const int out_row = 2 * row - 1 + i / 3, out_column = 2 * column - 1 + i % 3;
    if (static_cast<unsigned>(out_row) >= kOutHeight || static_cast<unsigned>(out_column) >= kOutWidth) continue;
    float sums[kEight] = {};
    add_products(image, filters + filter / kFilterBlock * kOfBlock, filter % kFilterBlock, out_row, out_column, sums);
#pragma unroll
    for (int f = 0; f < kEight; ++f) largest[f] = max_nan(largest[f], sums[f]);
  }
  Vector<T, kEight> outputs;
#pragma unroll
  for (int f = 0; f < kEight; ++f) outputs.value[f] = from_float<T>(activate<kActivation>(largest[f] + to_float(bias[filter + f])));
  store_vector(y + static_cast<size_t>(pixel) * kFilters + filter, outputs);
}
