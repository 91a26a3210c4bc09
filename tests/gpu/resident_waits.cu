// What a caller in C++ waits for while lenet5 stays on the GPU: percentiles of REQUESTS single images, in microseconds, from array
// to array of the host. Every answer is compared with the network in double. Needs sm_90 or newer.
//
//   nvcc -O3 -std=c++17 -arch=sm_90 -I plugins -o resident_waits tests/gpu/resident_waits.cu && ./resident_waits 1000000
#define TYPE_TX float
#define TYPE_T float
#define TYPE_TY float
#define LAUNCH_ENTRY "lenet5_resident"
#define LAUNCH_THREADS 512
#define LAUNCH_BLOCK_X 512
#define LAUNCH_SHARED_BYTES 0
#include "lenet5/resident.cu"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

using lenet5::kClasses;
using lenet5::kMissing;
using lenet5::kSlots;

constexpr int kPixels = lenet5::kImagePixels, kImages = 64;
constexpr double kTolerance = 5e-6;  // of the largest logit
using Numbers = std::vector<float>;

void need(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

template <typename T>
T* shared_memory(size_t count, T** on_gpu) {  // of the host, which the GPU reads and writes
  T* found;
  need(cudaHostAlloc(&found, count * sizeof(T), cudaHostAllocMapped), "cudaHostAlloc");
  need(cudaHostGetDevicePointer(on_gpu, found, 0), "cudaHostGetDevicePointer");
  std::memset(found, 0, count * sizeof(T));
  return found;
}

using Doubles = std::vector<double>;

Doubles conv_relu_pool(const Doubles& x, int channels, int side, const Numbers& weight, const Numbers& bias) {
  const int filters = bias.size(), half = (side - 4) / 2;
  Doubles y(filters * half * half, 0.0);  // ReLU: no less than 0
  for (int f = 0; f < filters; ++f)
    for (int row = 0; row < 2 * half; ++row)
      for (int column = 0; column < 2 * half; ++column) {
        double sum = bias[f];
        for (int c = 0; c < channels; ++c)
          for (int tap = 0; tap < 25; ++tap)
            sum += x[(c * side + row + tap / 5) * side + column + tap % 5] * weight[(f * channels + c) * 25 + tap];
        double& to = y[(f * half + row / 2) * half + column / 2];
        to = std::max(to, sum);
      }
  return y;
}

Doubles dense(const Doubles& x, const Numbers& weight, const Numbers& bias, bool relu) {
  Doubles y(bias.begin(), bias.end());
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) y[i] += x[j] * weight[i * x.size() + j];
    if (relu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

}  // namespace

int main(int count, char** arguments) {
  const long requests = count > 1 ? std::atol(arguments[1]) : 100000;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> small(-0.1f, 0.1f), pixel(0.0f, 1.0f);
  std::vector<Numbers> weights;
  for (const int size : {150, 6, 2400, 16, 30720, 120, 10080, 84, 840, 10}) {
    weights.emplace_back(size);
    for (float& each : weights.back()) each = small(random);
  }
  Numbers images(kImages * kPixels);
  for (float& each : images) each = pixel(random);
  std::vector<Doubles> exact;
  for (int i = 0; i < kImages; ++i) {
    Doubles x(&images[i * kPixels], &images[i * kPixels] + kPixels);
    x = conv_relu_pool(conv_relu_pool(x, 1, 28, weights[0], weights[1]), 6, 12, weights[2], weights[3]);
    x = dense(dense(x, weights[4], weights[5], true), weights[6], weights[7], true);
    exact.push_back(dense(x, weights[8], weights[9], false));
  }

  float *requests_gpu, *answers_gpu;
  lenet5::Control* control_gpu;
  unsigned* ended_gpu;
  float* const slots = shared_memory(kSlots * kPixels, &requests_gpu);
  auto answers = reinterpret_cast<volatile unsigned*>(shared_memory(kSlots * lenet5::kAnswerStride, &answers_gpu));
  volatile lenet5::Control* const control = shared_memory(1, &control_gpu);
  volatile unsigned* const ended = shared_memory(1, &ended_gpu);
  std::memset(slots, 0xff, kSlots * kPixels * sizeof(float));

  std::vector<float*> on_gpu(weights.size());
  unsigned run = 1, first = 0, silent_us = 1'000'000, life_us = 600'000'000;
  std::vector<void*> given = {&requests_gpu};
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t bytes = weights[i].size() * sizeof(float);
    need(cudaMalloc(&on_gpu[i], bytes), "cudaMalloc");
    need(cudaMemcpy(on_gpu[i], weights[i].data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    given.push_back(&on_gpu[i]);
  }
  given.insert(given.end(), {&control_gpu, &ended_gpu, &run, &first, &silent_us, &life_us, &answers_gpu});
  cudaStream_t stream;
  need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  need(cudaLaunchKernel((void*)lenet5_resident, 8, 512, given.data(), 0, stream), "lenet5_resident");

  using clock = std::chrono::steady_clock;
  Numbers waits;
  waits.reserve(requests);
  long wrong = 0;
  for (long number = 0; number < requests; ++number) {
    const int slot = number % kSlots, image = number % kImages;
    volatile unsigned* const answer = answers + lenet5::kAnswerStride * slot;
    float got[kClasses];
    const auto begin = clock::now();
    for (int i = 0; i < kClasses; ++i) answer[i] = kMissing;
    // The kernel takes a word as soon as it is not all ones: memcpy has to write whole words, as glibc's does.
    std::memcpy(slots + kPixels * slot, &images[kPixels * image], kPixels * sizeof(float));
    std::atomic_thread_fence(std::memory_order_release);
    control->full[slot] = number + 1;
    std::memset(slots + kPixels * ((slot + kSlots - 1) % kSlots), 0xff, kPixels * sizeof(float));
    for (int i = 0; i < kClasses; ++i) {
      unsigned word;
      while ((word = answer[i]) == kMissing) {
        if (*ended == run) return std::fprintf(stderr, "the kernel ended before request %ld\n", number), 1;
      }
      std::memcpy(&got[i], &word, sizeof(word));
    }
    waits.push_back(std::chrono::duration<float, std::micro>(clock::now() - begin).count());
    double most = 0, error = 0;
    for (int i = 0; i < kClasses; ++i) {
      most = std::max(most, std::abs(exact[image][i]));
      error = std::max(error, std::abs(got[i] - exact[image][i]));
    }
    wrong += !(error <= kTolerance * most);
  }
  control->stop = 1;  // the kernel ends
  need(cudaStreamSynchronize(stream), "lenet5_resident");
  std::sort(waits.begin(), waits.end());
  std::printf("%ld requests, %ld wrong\n", requests, wrong);
  for (const double share : {0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    std::printf("%7.2f%% %8.2f us\n", 100 * share, waits[static_cast<size_t>(share * (waits.size() - 1))]);
  }
  return wrong != 0;
}
