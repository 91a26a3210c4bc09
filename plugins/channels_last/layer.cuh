// The layer that a 3x3 convolution of channels-last maps is compiled for, and how its filters are packed.
//
// x [n, H, W, C], other and y [n, H, W, K], bias [K]; padding 1. Channels are stored by eights, as kOfX and kFilters count them: zeros are written
// behind the last one, and nothing that is read there is used. For a kernel with an axis d, other is [n, H, W, D] instead, and joined to x: the
// filters read its channels behind those of x, and kChannels is C + D; C and D are multiples of 8 there. Where other is added, K is one.
// filters [K / 64, C / 16, 2, 3, 3, 64, 8], filled up with zeros: of 64 filters, 8 channels at a tap. Among 16 filters, filter 4 t + 2 i + e is
// row 8 i + 2 t + e: then a lane of by_wgmma.cuh has four neighbours.
#pragma once

#include "bulk.cuh"
#include "launch_maps.cuh"
#include "windows/activation.cuh"

using T = TYPE_T;
#ifdef AXIS_D
constexpr int kJoined = AXIS_D;
#else
constexpr int kJoined = 0;
#endif
constexpr int kEight = 8, kHeight = AXIS_H, kWidth = AXIS_W;
constexpr int kOfX = ceil_div(AXIS_C, kEight) * kEight, kChannels = kOfX + kJoined, kFilters = ceil_div(AXIS_K, kEight) * kEight;
constexpr int kSize = 3, kPad = 1, kTaps = kSize * kSize;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
constexpr int kDepth = 16, kEights = kDepth / kEight, kFilterBlock = 64;
constexpr int kSteps = ceil_div(kChannels, kDepth), kFilterBlocks = ceil_div(kFilters, kFilterBlock);
// Numbers of 64 filters: of 8 channels at a tap, of 16 channels at all taps.
constexpr int kOfTap = kFilterBlock * kEight, kOfStep = kEights * kTaps * kOfTap;
// In shared memory, a pixel has two units of 8 channels, swizzled; a swizzle repeats after 256 bytes. A tensor map brings them if they are always of
// one tensor.
constexpr int kPixelBytes = kEights * 16, kSwizzleAlign = 256;
constexpr bool kStepsMapped = LAUNCH_MAPS > 0 && AXIS_C % (kJoined > 0 ? kDepth : kEight) == 0;
static_assert(sizeof(T) == 2 && (kJoined == 0 || (AXIS_C % kEight == 0 && kJoined % kEight == 0)));

// What a launch is given; `other` is added before the activation, or joined to x. Maps are of images, rows, columns and channels.
struct Tensors {
  const T* __restrict__ x;
  const T* __restrict__ other;
  const T* __restrict__ filters;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;
  const TensorMap* map_of_x = nullptr;
  const TensorMap* map_of_other = nullptr;  // where it is joined
};

// Whether the tensor that is joined to x has a channel.
__device__ __forceinline__ constexpr bool is_joined(int channel) { return kJoined > 0 && channel >= kOfX; }

// Where a channel of a pixel is, in the tensor that has it.
__device__ __forceinline__ constexpr int at_pixel(int pixel, int channel) {
  return is_joined(channel) ? pixel * kJoined + (channel - kOfX) : pixel * kOfX + channel;
}

// Begins to copy the 16 channels of a step, of the box of pixels that begins here, from the tensor that has them.
__device__ __forceinline__ void begin_step_copy(unsigned to, const Tensors& tensors, int image, int row, int column, int step, unsigned barrier) {
  const int channel = step * kDepth;
  const bool joined = is_joined(channel);
  begin_tensor_copy(to, joined ? tensors.map_of_other : tensors.map_of_x, image, row, column, joined ? channel - kOfX : channel, barrier);
}

// The bytes of a unit of 8 channels, from this one on, that are channels.
__device__ __forceinline__ constexpr int bytes_of_unit(int channel) {
  return AXIS_C % kEight == 0 || AXIS_C - channel >= kEight ? 16 : (AXIS_C - channel) * 2;
}

// A filter's bias; 0 behind the last one.
__device__ __forceinline__ float bias_of(const Tensors& tensors, int filter) { return filter < AXIS_K ? to_float(tensors.bias[filter]) : 0.0f; }

// Puts zeros behind the last filter; `filter` is that of the first output. Without it NaN in x would come there.
template <int kCount>
__device__ __forceinline__ void clear_padding(Vector<T, kCount>& outputs, int filter) {
  if constexpr (AXIS_K % kEight != 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (filter + i >= AXIS_K) outputs.value[i] = from_float<T>(0.0f);
    }
  }
}

// Four neighbouring filters of a pixel as the square of 2x2 pixels of y [n, K / 4, 2 H, 2 W] that they are behind a pixel shuffle.
__device__ __forceinline__ void store_square(T* y, const Vector<T, 4>& outputs, int image, int filter, int row, int column) {
  T* const to = y + ((static_cast<size_t>(image) * (AXIS_K / 4) + filter / 4) * (2 * kHeight) + 2 * row) * (2 * kWidth) + 2 * column;
  store_vector(to, Vector<T, 2>{outputs.value[0], outputs.value[1]});
  store_vector(to + 2 * kWidth, Vector<T, 2>{outputs.value[2], outputs.value[3]});
}

template <bool kAdds>
__device__ __forceinline__ T output(float sum, float added) {
  return activated<kActivation, T>(kAdds ? sum + added : sum);
}
