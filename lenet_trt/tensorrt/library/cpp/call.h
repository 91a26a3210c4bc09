// One call of a kernel: from the shapes of its tensors to the variant that is chosen and its launch. Nothing here
// allocates unless it fails, so that `enqueue` may call it.
#pragma once

#include <cstdint>

#include "kernel_data.h"

namespace lenet_trt {

constexpr int64_t kUnknown = -1;

struct Shape {
  size_t rank = 0;
  int64_t sizes[kMaxRank] = {};  // kUnknown where it is not known yet

  bool operator==(Shape const& other) const;
};

// What a GPU can run of a kernel.
struct Abilities {
  uint64_t variants = 0;  // a bit for each variant
  int64_t multiprocessors = 0;
  TunedGpu const* tuned = nullptr;  // what was measured on such a GPU, in the kernel's data; null for nothing
  uint32_t shared_limit[kMaxVariants][kMaxLaunches] = {};  // dynamic shared memory that each launch may have, in bytes
};

struct LaunchSizes {
  uint32_t grid[3] = {};
  uint32_t shared_bytes = 0;
  int32_t extras[kMaxExtras] = {};
  uint64_t maps[kMaxMaps][kMaxMapRank] = {};  // the shape of each, outermost axis first
};

struct Call {
  int variant = -1;    // none: there is nothing to compute, and nothing is launched
  uint64_t empty = 0;  // a bit for each input and then each output without elements, which need not have an address
  int64_t workspace = 0;   // bytes that it needs
  LaunchSizes launches[kMaxLaunches];
};

// Checks what is known of the shapes against the declaration; sizes may be kUnknown. Throws an Error that names the
// tensor, what it has and what is wanted. `outputs` may be null.
void check_shapes(KernelData const& data, Shape const* inputs, Shape const* outputs);

// What was measured on a GPU of that name, architecture and size; null for nothing.
TunedGpu const* tuned_for(KernelData const& data, std::string const& name, int sm, int64_t multiprocessors);

// Variant `by` in the place of variant `of`, wherever that is chosen and `by` can run; -1 for none.
struct Substitute {
  int of = -1, by = -1;
};

// The variant for these shapes: the first tuned choice that can run, else the first in the declaration that can run and is
// preferred, or its substitute. Throws an Error if shapes are wrong or none fits; -1 means that there is nothing to compute.
int choose(KernelData const& data, Shape const* inputs, Abilities const& gpu, Substitute substitute);

// The launches of a call whose shapes are all known. Throws an Error if they are wrong, no variant can run them, or a
// launch is larger than CUDA allows.
Call plan(KernelData const& data, Shape const* inputs, Shape const* outputs, Abilities const& gpu, Substitute substitute);

// The workspace, in bytes, that suffices for every call with inputs of these shapes or smaller ones.
int64_t largest_workspace(KernelData const& data, Shape const* inputs);

// The shape of an output as far as the inputs tell.
Shape output_shape(KernelData const& data, size_t output, Shape const* inputs);

}  // namespace lenet_trt
