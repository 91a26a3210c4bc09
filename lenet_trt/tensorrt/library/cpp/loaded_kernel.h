// A kernel's images loaded into a CUDA context: everything that a launch needs, set up before the first one.
#pragma once

#include <memory>

#include "call.h"
#include "driver.h"

namespace lenet_trt {

class LoadedModule;

class LoadedKernel {
 public:
  // Loads what the current context's GPU can run. Images that are loaded already are shared. Throws an Error if there
  // is no image for this GPU, or the driver is too old for it.
  static std::shared_ptr<LoadedKernel const> load(std::shared_ptr<KernelData const> data);

  Abilities const& gpu() const { return gpu_; }
  bool is_for_current_context() const;

  // Puts the launch into the stream: `inputs` and `outputs` are device addresses. Allocates, loads and waits for
  // nothing. Throws an Error if an address is misaligned or missing, or the driver refuses.
  void launch(Launch const& launch, void const* const* inputs, void* const* outputs, cuda::Stream stream) const;

 private:
  explicit LoadedKernel(std::shared_ptr<KernelData const> data) : data_(std::move(data)) {}
  void load_variants();
  void load_variant(size_t index, Image const& image, uint32_t shared_opt_in);
  void check_pointers(Launch const& launch, void const* const* inputs, void* const* outputs) const;

  std::shared_ptr<KernelData const> data_;
  cuda::Context context_ = nullptr;
  uint64_t context_id_ = 0;
  Abilities gpu_;
  cuda::Function functions_[kMaxVariants] = {};
  std::vector<std::shared_ptr<LoadedModule>> modules_;
};

// The architecture of a GPU as images name it: 90 for compute capability 9.0.
int current_sm();

// The image of a variant that a GPU runs: the newest machine code for it or an earlier revision of its architecture,
// else the newest PTX. Null if there is none.
Image const* image_for(KernelData const& data, Variant const& variant, int sm);

// How much dynamic shared memory launches of a variant may ask for where at most that much is possible; -1 if it always
// wants more.
int64_t shared_limit_of(Variant const& variant, int64_t most);

}  // namespace lenet_trt
