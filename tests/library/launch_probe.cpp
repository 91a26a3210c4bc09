// Calls a plugin as TensorRT does when an engine runs, over recording_driver.cpp:
//
//   launch_probe LIBRARY DATA STEP...
//
// STEP: attach (a new execution context; later steps use it), context N (another CUDA context is current), tactic N,
// halves (tensors of later steps are in fp16, not floats),
// run SHAPE... (inputs, then outputs, as 1,28,28), misaligned and null (as run, with such an address for the first input),
// without and aslant (no workspace, or one with such an address), workspace SHAPE... (how much it wants for up to these),
// drop (the execution context ends), tactics SHAPE... (what is timed where the first axis of the first input is open and
// usually has that size; TensorRT 10 and later). Prints what each returns, and how often memory was allocated in an enqueue.

#include <NvInferRuntime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <sstream>
#include <string>
#include <vector>

using namespace nvinfer1;

static int allocations = 0;

// The plugin library's `new` is this one too.
void* operator new(size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

#if NV_TENSORRT_MAJOR >= 10
using Plugin = IPluginV3;

IPluginV3OneRuntime& runtime_of(Plugin& plugin) {
  return *static_cast<IPluginV3OneRuntime*>(plugin.getCapabilityInterface(PluginCapabilityType::kRUNTIME));
}

Plugin* made(void* library, std::vector<char> const& data) {
  auto const get = reinterpret_cast<IPluginCreatorInterface* const* (*)(int32_t&)>(dlsym(library, "getCreators"));
  int32_t count = 0;
  auto* const creator = static_cast<IPluginCreatorV3One*>(get(count)[0]);
  PluginField const field("data", data.data(), PluginFieldType::kINT8, static_cast<int32_t>(data.size()));
  PluginFieldCollection const fields{1, &field};
  return creator->createPlugin("n", &fields, TensorRTPhase::kRUNTIME);
}

// What a plugin is given with its execution context: here a recorder that prints.
class Recorder final : public IErrorRecorder {
 public:
  bool reportError(ErrorCode code, char const* text) noexcept override {
    std::printf("recorded %d %s\n", static_cast<int>(code), text);
    return true;
  }
  int32_t getNbErrors() const noexcept override { return 0; }
  ErrorCode getErrorCode(int32_t) const noexcept override { return ErrorCode::kSUCCESS; }
  ErrorDesc getErrorDesc(int32_t) const noexcept override { return ""; }
  bool hasOverflowed() const noexcept override { return false; }
  void clear() noexcept override {}
  RefCount incRefCount() noexcept override { return 1; }
  RefCount decRefCount() noexcept override { return 1; }
};

class Resources final : public IPluginResourceContext {
 public:
  IGpuAllocator* getGpuAllocator() const noexcept override { return nullptr; }
  IErrorRecorder* getErrorRecorder() const noexcept override { return &recorder_; }

 private:
  mutable Recorder recorder_;
};

Plugin* attached(Plugin& plugin) {
  static Resources resources;
  return runtime_of(plugin).attachToContext(&resources);
}
void set_tactic(Plugin& plugin, int tactic) { runtime_of(plugin).setTactic(tactic); }
void release(Plugin* plugin) { delete plugin; }

void tell_tactics(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs) {
  auto* const build = static_cast<IPluginV3OneBuild*>(plugin.getCapabilityInterface(PluginCapabilityType::kBUILD));
  std::vector<DynamicPluginTensorDesc> described(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    described[i].desc = tensors[i];
    described[i].opt = tensors[i].dims;
  }
  described.front().desc.dims.d[0] = described.back().desc.dims.d[0] = -1;
  int const outputs = static_cast<int>(tensors.size()) - inputs;
  std::printf("configured %d tactics", build->configurePlugin(described.data(), inputs, described.data() + inputs, outputs));
  std::vector<int32_t> tactics(build->getNbTactics());
  build->getValidTactics(tactics.data(), static_cast<int32_t>(tactics.size()));
  for (int32_t const tactic : tactics) std::printf(" %d", tactic);
  std::printf("\n");
}

int prepare(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs) {
  return runtime_of(plugin).onShapeChange(tensors.data(), inputs, tensors.data() + inputs,
                                          static_cast<int>(tensors.size()) - inputs);
}

int enqueue(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs, void const* const* from,
            void* const* to, void* workspace, cudaStream_t stream) {
  return runtime_of(plugin).enqueue(tensors.data(), tensors.data() + inputs, from, to, workspace, stream);
}

size_t workspace_of(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs) {
  auto* const build = static_cast<IPluginV3OneBuild*>(plugin.getCapabilityInterface(PluginCapabilityType::kBUILD));
  std::vector<DynamicPluginTensorDesc> described(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) described[i].max = tensors[i].dims;
  return build->getWorkspaceSize(described.data(), inputs, described.data() + inputs,
                                 static_cast<int>(tensors.size()) - inputs);
}
#else
using Plugin = IPluginV2DynamicExt;

Plugin* made(void* library, std::vector<char> const& data) {
  auto const get = reinterpret_cast<IPluginCreator* const* (*)(int32_t&)>(dlsym(library, "getPluginCreators"));
  int32_t count = 0;
  return static_cast<Plugin*>(get(count)[0]->deserializePlugin("n", data.data(), data.size()));
}

Plugin* attached(Plugin& plugin) {
  auto* const clone = static_cast<Plugin*>(plugin.clone());
  clone->attachToContext(nullptr, nullptr, nullptr);
  return clone;
}
void set_tactic(Plugin&, int) {}
void tell_tactics(Plugin&, std::vector<PluginTensorDesc> const&, int) {}
void release(Plugin* plugin) { plugin->destroy(); }

int prepare(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs) {
  std::vector<DynamicPluginTensorDesc> described(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) described[i].desc = tensors[i];
  plugin.configurePlugin(described.data(), inputs, described.data() + inputs, static_cast<int>(tensors.size()) - inputs);
  return 0;
}

int enqueue(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs, void const* const* from,
            void* const* to, void* workspace, cudaStream_t stream) {
  return plugin.enqueue(tensors.data(), tensors.data() + inputs, from, to, workspace, stream);
}

size_t workspace_of(Plugin& plugin, std::vector<PluginTensorDesc> const& tensors, int inputs) {
  return plugin.getWorkspaceSize(tensors.data(), inputs, tensors.data() + inputs,
                                 static_cast<int>(tensors.size()) - inputs);
}
#endif

DataType type = DataType::kFLOAT;

PluginTensorDesc tensor_from(std::string const& text) {
  PluginTensorDesc tensor{};
  tensor.type = type;
  std::stringstream sizes(text);
  for (std::string size; std::getline(sizes, size, ',');) tensor.dims.d[tensor.dims.nbDims++] = std::atoi(size.c_str());
  return tensor;
}

void run(Plugin& plugin, std::string const& how, std::vector<PluginTensorDesc> const& tensors) {
  int const inputs = static_cast<int>(tensors.size()) - 1;
  std::vector<void*> addresses(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) addresses[i] = reinterpret_cast<void*>(256 * (i + 1));
  if (how == "misaligned") addresses[0] = reinterpret_cast<void*>(257);
  if (how == "null") addresses[0] = nullptr;
  void* const workspace = reinterpret_cast<void*>(how == "without" ? 0 : how == "aslant" ? 4097 : 4096);
  int const prepared = how == "unprepared" ? 0 : prepare(plugin, tensors, inputs);
  int const before = allocations;
  int const status = enqueue(plugin, tensors, inputs, addresses.data(), addresses.data() + inputs, workspace,
                             reinterpret_cast<cudaStream_t>(7));
  std::printf("%s: prepared %d enqueued %d allocations %d\n", how.c_str(), prepared, status, allocations - before);
}

}  // namespace

int main(int count, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 3;
  std::ifstream file(arguments[2], std::ios::binary);
  std::vector<char> const data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  setvbuf(stdout, nullptr, _IONBF, 0);
  Plugin* const plugin = made(library, data);
  if (plugin == nullptr) return std::printf("no plugin\n"), 4;
  Plugin* used = nullptr;
  for (int i = 3; i < count; ++i) {
    std::string const step = arguments[i];
    if (step == "attach") {
      used = attached(*plugin);
      std::printf("attached\n");
    } else if (step == "drop") {
      release(used);
      std::printf("dropped\n");
    } else if (step == "context") {
      void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
      reinterpret_cast<void (*)(uint64_t)>(dlsym(driver, "record_context"))(std::atoi(arguments[++i]));
    } else if (step == "halves") {
      type = DataType::kHALF;
    } else if (step == "tactic") {
      set_tactic(*used, std::atoi(arguments[++i]));
    } else {
      std::vector<PluginTensorDesc> tensors;
      while (i + 1 < count && std::isdigit(arguments[i + 1][0])) tensors.push_back(tensor_from(arguments[++i]));
      if (step == "workspace") {
        std::printf("workspace %zu\n", workspace_of(*plugin, tensors, static_cast<int>(tensors.size()) - 1));
      } else if (step == "tactics") {
        tell_tactics(*plugin, tensors, static_cast<int>(tensors.size()) - 1);
      } else {
        run(*used, step, tensors);
      }
    }
  }
  release(plugin);
  return 0;
}
