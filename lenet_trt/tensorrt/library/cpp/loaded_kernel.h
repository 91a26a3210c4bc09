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
  // Also where a thread has no context: `launch` finds the kernel's own.
  bool is_for_current_context() const;

  // Puts the launches of a call into the stream: `inputs`, `outputs` and `workspace` are device addresses. Allocates,
  // loads and waits for nothing. Throws an Error if an address is misaligned or missing, or the driver refuses.
  void launch(Call const& call, void const* const* inputs, void* const* outputs, void* workspace,
              cuda::Stream stream) const;

 private:
  struct Loaded {
    cuda::Function function;
    bool overlaps;  // is launched before the kernel before it has ended
  };

  explicit LoadedKernel(std::shared_ptr<KernelData const> data) : data_(std::move(data)) {}
  void load_variants();
  void load_variant(size_t index, int sm, uint32_t shared_opt_in, bool overlap);
  void check_pointers(Call const& call, void const* const* inputs, void* const* outputs, void* workspace) const;
  void check_alignment(std::string const& name, void const* pointer) const;
  // Does it again in the plugin's own context where a thread has none: CUDA's runtime would make that current as well.
  template <class Work>
  cuda::Status in_context(Work const& work) const;
  cuda::Status put(Loaded const& loaded, LaunchCode const& code, LaunchSizes const& sizes, void** arguments,
                   cuda::Stream stream) const;

  std::shared_ptr<KernelData const> data_;
  cuda::Context context_ = nullptr;
  uint64_t context_id_ = 0;
  Abilities gpu_;
  Loaded loaded_[kMaxVariants][kMaxLaunches] = {};
  std::vector<std::shared_ptr<LoadedModule>> modules_;
};

// The architecture of a GPU as images name it: 90 for compute capability 9.0.
int current_sm();

// The image of a launch that a GPU runs: the newest machine code for it or an earlier revision of its architecture,
// else the newest PTX. Null if there is none.
Image const* image_for(KernelData const& data, LaunchCode const& launch, int sm);

// How much dynamic shared memory a launch may ask for where at most that much is possible; -1 if it always wants more.
int64_t shared_limit_of(LaunchCode const& launch, int64_t most);

}  // namespace lenet_trt
