#include "loaded_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "error.h"
#include "log.h"

namespace lenet_trt {
namespace {

using cuda::check;
using cuda::driver;

// Lets this thread load modules while another one captures a CUDA graph; the module is no part of it.
class CaptureSafe {
 public:
  CaptureSafe() { check(driver().exchange_capture_mode(&mode_), "change the capture mode"); }
  ~CaptureSafe() { driver().exchange_capture_mode(&mode_); }

 private:
  int mode_ = cuda::kCaptureRelaxed;
};

// A number for the context that no other one has; an old driver has its address alone.
uint64_t identity(cuda::Context context) {
  uint64_t id = reinterpret_cast<uintptr_t>(context);
  if (driver().context_id != nullptr) check(driver().context_id(context, &id), "identify the CUDA context");
  return id;
}

cuda::Context context_or_null() {
  cuda::Context context = nullptr;
  check(driver().current(&context), "ask for the CUDA context");
  return context;
}

cuda::Context current_context() {
  cuda::Context const context = context_or_null();
  if (context == nullptr) fail("no CUDA context is current in this thread: call cudaSetDevice first");
  return context;
}

int device_attribute(int which) {
  int device = 0, value = 0;
  check(driver().device(&device), "ask for the GPU in use");
  check(driver().attribute(&value, which, device), "read the GPU's properties");
  return value;
}

std::string device_name() {
  int device = 0;
  char name[256] = {};
  check(driver().device(&device), "ask for the GPU in use");
  check(driver().device_name(name, sizeof(name) - 1, device), "ask for the GPU's name");
  return name;
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

void check_driver(Image const& image) {
  int version = 0;
  check(driver().version(&version), "ask for the driver's version");
  // Any driver of a major version loads machine code that a later minor version made; PTX needs the same or newer.
  int const known = image.is_ptx ? version : version / 1000 * 1000 + 999;
  if (static_cast<int64_t>(image.cuda) > known) {
    fail("the kernel was compiled by CUDA ", version_text(static_cast<int>(image.cuda)), ", and the driver here knows ",
         version_text(version), ": update the driver (",
         image.cuda >= 13000 ? "CUDA 13 needs 580 or newer), or embed the model again with --nvrtc 12"
                             : "CUDA 12 needs 525 or newer)");
  }
}

// Whether kernels that wait for the one before them are launched before that one has ended. LENET_TRT_OVERLAP=0 says no: to compare.
bool launches_overlap() {
  char const* const chosen = std::getenv("LENET_TRT_OVERLAP");
  if (chosen != nullptr && std::strcmp(chosen, "0") == 0) return false;
  int version = 0;
  check(driver().version(&version), "ask for the driver's version");
  return driver().launch_with != nullptr && version >= cuda::kFirstToCaptureOverlaps;
}

int map_type_of(ElementType type) {
  switch (type) {
    case ElementType::kInt8: return cuda::kMapOfBytes;
    case ElementType::kInt32: return cuda::kMapOfInt32;
    case ElementType::kFloat16: return cuda::kMapOfFloat16;
    case ElementType::kBfloat16: return cuda::kMapOfBfloat16;
    default: return cuda::kMapOfFloat32;
  }
}

// Has the driver write the map of an input at an address. It has the innermost axis first; rows of a box of 32, 64 or 128 bytes are swizzled, and
// what is outside is zeros.
cuda::Status encode(TensorMap const& map, uint64_t const* sizes, void const* input, cuda::TensorMap& to) {
  size_t const rank = map.box.size();
  uint64_t shape[kMaxMapRank] = {}, strides[kMaxMapRank] = {};
  uint32_t box[kMaxMapRank] = {}, steps[kMaxMapRank] = {};
  uint64_t bytes = size_of(map.type);
  for (size_t i = 0; i < rank; ++i) {
    shape[i] = sizes[rank - 1 - i];
    box[i] = map.box[rank - 1 - i];
    steps[i] = 1;
    bytes *= shape[i];
    strides[i] = bytes;  // to the neighbour along the next axis; the last is not used
  }
  int const swizzle = map.row_bytes() == 32 ? 1 : map.row_bytes() == 64 ? 2 : 3;  // CUtensorMapSwizzle
  return driver().encode_map(&to, map_type_of(map.type), static_cast<uint32_t>(rank), const_cast<void*>(input), shape, strides, box, steps, 0,
                             swizzle, cuda::kPromoteTo128, 0);
}

}  // namespace

class LoadedModule {
 public:
  LoadedModule(cuda::Context context, Image const& image) : context_(context), context_id_(identity(context)) {
    check_driver(image);
    CaptureSafe safe;
    std::string const what = "load the kernel's image for sm_" + std::to_string(image.sm);
    check(driver().load(&module_, image.bytes), what.c_str());
  }

  ~LoadedModule() {
    // Where the process ends or the context is gone already, the module went with it, and the driver says so, or has another context there.
    cuda::Context ignored = nullptr;
    if (driver().push(context_) != cuda::kSuccess) return;
    uint64_t id = context_id_;
    bool const is_same = driver().context_id == nullptr || (driver().context_id(context_, &id) == cuda::kSuccess && id == context_id_);
    if (is_same) driver().unload(module_);
    driver().pop(&ignored);
  }

  LoadedModule(LoadedModule const&) = delete;
  LoadedModule& operator=(LoadedModule const&) = delete;

  cuda::Function function(std::string const& entry) const {
    CaptureSafe safe;
    cuda::Function found = nullptr;
    check(driver().function(&found, module_, entry.c_str()), ("find " + entry).c_str());
    // With lazy loading the driver would load it at its first launch, which may be in a capture.
    if (driver().load_function != nullptr) check(driver().load_function(found), ("load " + entry).c_str());
    return found;
  }

  // Lets a launch have that much dynamic shared memory; what it had before is never taken away.
  void allow_shared(cuda::Function function, int bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    int allowed = 0;
    check(driver().function_attribute(&allowed, cuda::kFunctionMaxDynamicShared, function), "read a kernel's limits");
    if (bytes <= allowed) return;
    check(driver().set_function_attribute(function, cuda::kFunctionMaxDynamicShared, bytes), "set a kernel's limits");
  }

  // The image in the current context, loaded once for all plugins that use it.
  static std::shared_ptr<LoadedModule> of(Image const& image) {
    // Never destroyed: plugins may live longer than this library's static objects.
    static auto& mutex = *new std::mutex;
    static auto& loaded = *new std::map<std::pair<uint64_t, Hash>, std::weak_ptr<LoadedModule>>;
    cuda::Context const context = current_context();
    auto const key = std::make_pair(identity(context), image.hash);
    std::lock_guard<std::mutex> lock(mutex);
    for (auto entry = loaded.begin(); entry != loaded.end();) {
      entry = entry->second.expired() ? loaded.erase(entry) : std::next(entry);
    }
    if (std::shared_ptr<LoadedModule> found = loaded[key].lock()) return found;
    auto made = std::make_shared<LoadedModule>(context, image);
    loaded[key] = made;
    return made;
  }

 private:
  cuda::Context context_;
  uint64_t context_id_;
  cuda::Module module_ = nullptr;
  std::mutex mutex_;
};

int current_sm() { return 10 * device_attribute(cuda::kMajor) + device_attribute(cuda::kMinor); }

Image const* image_for(KernelData const& data, LaunchCode const& launch, int sm) {
  Image const* best = nullptr;
  for (uint16_t const index : launch.images) {
    Image const& image = data.images[index];
    bool const fits = image.sm <= sm && (image.is_ptx || image.sm / 10 == sm / 10) && (!image.exact || image.sm == sm);
    if (!fits) continue;
    if (best == nullptr || (best->is_ptx && !image.is_ptx) || (best->is_ptx == image.is_ptx && best->sm < image.sm)) {
      best = &image;
    }
  }
  return best;
}

int64_t shared_limit_of(LaunchCode const& launch, int64_t most) {
  Size const none[kMaxAxes] = {};
  Size const wanted = launch.shared_bytes.evaluate(none);
  if (!wanted.known) return most;
  return wanted.value >= 0 && wanted.value <= most ? wanted.value : -1;
}

std::shared_ptr<LoadedKernel const> LoadedKernel::load(std::shared_ptr<KernelData const> data) {
  std::shared_ptr<LoadedKernel> made(new LoadedKernel(std::move(data)));
  made->context_ = current_context();
  made->context_id_ = identity(made->context_);
  made->load_variants();
  return made;
}

void LoadedKernel::load_variants() {
  int const sm = current_sm();
  gpu_.multiprocessors = device_attribute(cuda::kMultiprocessors);
  if (!data_->tuned.empty()) gpu_.tuned = tuned_for(*data_, device_name(), sm, gpu_.multiprocessors);
  auto const shared_opt_in = static_cast<uint32_t>(device_attribute(cuda::kSharedOptIn));
  bool const overlap = launches_overlap();
  for (size_t i = 0; i < data_->variants.size(); ++i) load_variant(i, sm, shared_opt_in, overlap);
  if (gpu_.variants != 0) return;
  std::set<std::string> targets;
  for (Image const& image : data_->images) targets.insert((image.is_ptx ? "compute_" : "sm_") + std::to_string(image.sm));
  std::string known;
  for (std::string const& target : targets) known += (known.empty() ? "" : ", ") + target;
  fail(data_->title(), " has no image for this GPU, which is sm_", sm, ", but for ", known,
       ": embed the model again with --sm ", sm / 10, ".", sm % 10);
}

void LoadedKernel::load_variant(size_t index, int sm, uint32_t shared_opt_in, bool overlap) {
  Variant const& variant = data_->variants[index];
  for (LaunchCode const& code : variant.launches) {
    if (image_for(*data_, code, sm) == nullptr) return;
  }
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    LaunchCode const& code = variant.launches[i];
    if (!code.maps.empty() && driver().encode_map == nullptr) {
      fail("variant ", variant.name, " needs tensor maps, and the NVIDIA driver here has no cuTensorMapEncodeTiled: update it to one for CUDA "
           "12.0 (525) or newer");
    }
    Image const& image = *image_for(*data_, code, sm);
    std::shared_ptr<LoadedModule> module = LoadedModule::of(image);
    cuda::Function const function = module->function(code.entry);
    int fixed = 0;
    check(driver().function_attribute(&fixed, cuda::kFunctionSharedBytes, function), "read a kernel's shared memory");
    int64_t const limit = shared_limit_of(code, static_cast<int64_t>(shared_opt_in) - fixed);
    if (limit < 0) {
      std::string const text = data_->node + ": this GPU has too little shared memory for variant " + variant.name;
      log(Severity::kWarning, text.c_str());
      return;
    }
    module->allow_shared(function, static_cast<int>(limit));
    loaded_[index][i] = {function, overlap && image.overlaps};
    gpu_.shared_limit[index][i] = static_cast<uint32_t>(limit);
    modules_.push_back(std::move(module));
  }
  gpu_.variants |= uint64_t{1} << index;
}

bool LoadedKernel::is_for_current_context() const {
  cuda::Context const context = context_or_null();
  return context == nullptr || identity(context) == context_id_;
}

void LoadedKernel::check_alignment(std::string const& name, void const* pointer) const {
  if (reinterpret_cast<uintptr_t>(pointer) % data_->alignment != 0) {
    fail(name, " is at an address that is no multiple of ", data_->alignment, " bytes");
  }
}

void LoadedKernel::check_pointers(Call const& call, void const* const* inputs, void* const* outputs,
                                  void* workspace) const {
  size_t const count = data_->inputs.size();
  for (size_t i = 0; i < count + data_->outputs.size(); ++i) {
    bool const is_input = i < count;
    Tensor const& tensor = is_input ? data_->inputs[i] : data_->outputs[i - count];
    void const* const pointer = is_input ? inputs[i] : outputs[i - count];
    if (pointer == nullptr && (call.empty >> i & 1) == 0) fail(tensor.name, " has no address");
    check_alignment(tensor.name, pointer);
  }
  if (call.workspace <= 0) return;
  if (workspace == nullptr) fail("there is no workspace; ", data_->title(), " needs ", call.workspace, " bytes");
  check_alignment("the workspace", workspace);
}

template <class Work>
cuda::Status LoadedKernel::in_context(Work const& work) const {
  cuda::Status status = work();
  if (status == cuda::kInvalidContext && driver().push(context_) == cuda::kSuccess) {
    cuda::Context ignored = nullptr;
    status = work();
    driver().pop(&ignored);
  }
  return status;
}

cuda::Status LoadedKernel::put(Loaded const& loaded, LaunchCode const& code, LaunchSizes const& sizes,
                               void** arguments, cuda::Stream stream) const {
  uint32_t const* const grid = sizes.grid;
  uint32_t const* const block = code.block;
  return in_context([&] {
    if (!loaded.overlaps) {
      return driver().launch(loaded.function, grid[0], grid[1], grid[2], block[0], block[1], block[2], sizes.shared_bytes, stream,
                             arguments, nullptr);
    }
    cuda::LaunchAttribute overlap{cuda::kOverlap, 1, {}};
    cuda::LaunchConfig const config{
        {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, sizes.shared_bytes, stream, &overlap, 1};
    return driver().launch_with(&config, loaded.function, arguments, nullptr);
  });
}

void LoadedKernel::launch(Call const& call, void const* const* inputs, void* const* outputs, void* workspace,
                          cuda::Stream stream) const {
  check_pointers(call, inputs, outputs, workspace);
  auto const index = static_cast<size_t>(call.variant);
  Variant const& variant = data_->variants[index];
  for (size_t launch = 0; launch < variant.launches.size(); ++launch) {
    LaunchCode const& code = variant.launches[launch];
    LaunchSizes const& sizes = call.launches[launch];
    // The driver copies what the arguments point at: addresses in TensorRT's own arrays, the extras between them, the
    // workspace, and tensor maps of these inputs.
    void* arguments[kMaxTensors + kMaxExtras + 1 + kMaxMaps];
    cuda::TensorMap maps[kMaxMaps];
    size_t count = 0;
    for (size_t i = 0; i < data_->inputs.size(); ++i) arguments[count++] = const_cast<void const**>(inputs + i);
    for (size_t i = 0; i < code.extras.size(); ++i) arguments[count++] = const_cast<int32_t*>(sizes.extras + i);
    for (size_t i = 0; i < data_->outputs.size(); ++i) arguments[count++] = const_cast<void**>(outputs + i);
    if (code.takes_workspace) arguments[count++] = &workspace;
    for (size_t i = 0; i < code.maps.size(); ++i) {
      TensorMap const& map = code.maps[i];
      cuda::Status const made = in_context([&] { return encode(map, sizes.maps[i], inputs[map.input], maps[i]); });
      if (made != cuda::kSuccess) {
        fail("cannot make the tensor map of ", data_->inputs[map.input].name, " for variant ", variant.name, ": ", cuda::name_of(made));
      }
      arguments[count++] = &maps[i];
    }
    cuda::Status const status = put(loaded_[index][launch], code, sizes, arguments, stream);
    if (status != cuda::kSuccess) fail("cannot launch variant ", variant.name, ": ", cuda::name_of(status));
  }
}

}  // namespace lenet_trt
