// The parts of plugins/lenet5/images.cuh that kernels of int8 use, for a CPU.
#pragma once

#include "copies.cuh"
#include "lenet5/lenet5.cuh"

namespace lenet5 {

constexpr int kLanes = 32, kUnitBytes = 16;
constexpr int kQuad = 4, kFetchLanes = 28, kFetchSteps = 7, kFetchPixels = 112;

inline int warp_of(int thread) { return thread / kLanes; }
inline void prefetch_l2(const void*) {}
template <typename TX>
void prefetch_image(const TX*, int) {}
inline float4 load_quad(const float* source) { return {source[0], source[1], source[2], source[3]}; }

// The copy arrives when it is waited for: until then the buffer has what it had, and bytes that nobody may read.
template <typename TX>
struct ImageFetch {
  TX* buffer;
  const TX* source;
  void init(TX* target, void*, int) { buffer = target; }
  void start(const TX* image, int) {
    source = image;
    __syncwarp();
    std::memset(buffer + threadIdx.x % kLanes * kImagePixels / kLanes, 0x77, kImagePixels / kLanes * sizeof(TX));
  }
  void wait() {
    __syncwarp();
    if (threadIdx.x % kLanes == 0) std::memcpy(buffer, source, kImagePixels * sizeof(TX));
    __syncwarp();
  }
};

}  // namespace lenet5
