// How TensorRT finds the plugin, and the plugin TensorRT.
//
// Who loads the library by name (trtexec --dynamicPlugins and --setPluginsToSerialize, IPluginRegistry::loadLibrary)
// asks it for its creators. Who only opens it (trtexec --staticPlugins, Triton, ONNX Runtime) finds it registered: it
// does that itself when it is opened, if TensorRT is in the process already. loadLibrary opens it as well, and then
// refuses a creator that is registered; so what was registered here is taken back before creators are handed over.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "dl.h"
#include "log.h"
#include "plugin_v2.h"
#include "plugin_v3.h"

namespace lenet_trt {
namespace {

using namespace nvinfer1;

#if LENET_TRT_V3
using Creator = CreatorV3;
using AnyCreator = IPluginCreatorInterface;
#else
using Creator = CreatorV2;
using AnyCreator = IPluginCreator;
#endif

// TensorRT's runtime of a major version if it is in the process, whole or lean.
void* loaded_runtime(int major) {
  for (char const* const name : {"libnvinfer.so.", "libnvinfer_lean.so."}) {
    if (void* const found = dlopen((name + std::to_string(major)).c_str(), RTLD_LAZY | RTLD_NOLOAD)) return found;
  }
  return nullptr;
}

// The major version of a TensorRT in the process, where only others than that of the headers are; 0 where none is.
int other_tensorrt() {
  if (loaded_tensorrt() != nullptr) return 0;
  for (int major = 8; major <= 12; ++major) {
    if (loaded_runtime(major) != nullptr) return major;
  }
  return 0;
}

// Never destroyed: TensorRT may ask it until the process ends.
Creator& creator() {
  static Creator& made = *new Creator;
  return made;
}

#if NV_TENSORRT_MAJOR > 8 || NV_TENSORRT_MINOR >= 6
std::atomic<ILoggerFinder*> logger_finder{nullptr};

// The finder's functions stand in another order from 11 on. TensorRT-RTX 1.7 has the order of 10.
bool can_use_finder() { return loaded_tensorrt() != nullptr || (NV_TENSORRT_MAJOR < 11 && other_tensorrt() == 0); }
#endif

ILogger* logger() {
#if NV_TENSORRT_MAJOR > 8 || NV_TENSORRT_MINOR >= 6
  ILoggerFinder* const finder = logger_finder;
  if (finder != nullptr && can_use_finder()) return finder->findLogger();
#endif
  void* const tensorrt = loaded_tensorrt();
  using GetLogger = ILogger* (*)();
  auto const get = tensorrt == nullptr ? nullptr : reinterpret_cast<GetLogger>(dlsym(tensorrt, "getLogger"));
  return get == nullptr ? nullptr : get();
}

IPluginRegistry* registry() {
  void* const tensorrt = loaded_tensorrt();
  using GetRegistry = IPluginRegistry* (*)();
  auto const get =
      tensorrt == nullptr ? nullptr : reinterpret_cast<GetRegistry>(dlsym(tensorrt, "getPluginRegistry"));
  return get == nullptr ? nullptr : get();
}

bool is_known_to(IPluginRegistry& registry) {
#if LENET_TRT_V3
  return registry.getCreator(kName, kVersion, kNamespace) != nullptr;
#else
  // getPluginCreator logs an error where there is none.
  auto const same = [](char const* one, char const* other) { return one != nullptr && std::strcmp(one, other) == 0; };
  int32_t count = 0;
  IPluginCreator* const* const creators = registry.getPluginCreatorList(&count);
  return std::any_of(creators, creators + count, [&](IPluginCreator* creator) {
    return same(creator->getPluginName(), kName) && same(creator->getPluginVersion(), kVersion) &&
           same(creator->getPluginNamespace(), kNamespace);
  });
#endif
}

std::atomic<bool> registered_here{false};

// A registry keeps the creator's address and has no way to notice that the library goes, so it must stay.
void stay_in_memory() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&stay_in_memory), &self) != 0 && self.dli_fname != nullptr) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

// Where only another TensorRT is in the process, its error would be that it does not know the plugin.
void warn_of_another_tensorrt() {
  int const major = other_tensorrt();
  if (major == 0) return;
  std::string const message = "this plugin library was compiled for TensorRT " + std::to_string(NV_TENSORRT_MAJOR) +
                              ", and the process has TensorRT " + std::to_string(major) +
                              ": compile it with the headers of that one (lenet-trt library --headers)";
  log(Severity::kWarning, message.c_str());
}

__attribute__((constructor)) void register_if_possible() {
  IPluginRegistry* const found = registry();
  if (found == nullptr) return warn_of_another_tensorrt();
  if (registered_here) return;
  if (is_known_to(*found)) return log(Severity::kInfo, "a lenet_trt plugin library is registered already: plugins are made by that one");
  AnyCreator& ours = creator();
  registered_here = found->registerCreator(ours, kNamespace);
  if (registered_here) stay_in_memory();
}

AnyCreator* const* creators(int32_t& count) {
  if (registered_here.exchange(false)) {
    AnyCreator& ours = creator();
    registry()->deregisterCreator(ours);
  }
  static AnyCreator* const list[] = {&creator()};
  count = other_tensorrt() == 0 ? 1 : 0;  // the warning said why
  return list;
}

}  // namespace

void* loaded_tensorrt() { return loaded_runtime(NV_TENSORRT_MAJOR); }

void log(Severity severity, char const* message) noexcept {
  static constexpr ILogger::Severity kSeverities[] = {ILogger::Severity::kERROR, ILogger::Severity::kWARNING,
                                                      ILogger::Severity::kINFO};
  if (ILogger* const found = logger()) {
    found->log(kSeverities[static_cast<int>(severity)], message);
  } else if (severity != Severity::kInfo) {
    std::fprintf(stderr, "lenet_trt: %s\n", message);
  }
}

}  // namespace lenet_trt

// Registers the plugin where TensorRT was loaded after this library. Returns whether the TensorRT that is loaded knows it.
LENET_TRT_EXPORT int32_t lenet_trt_register() {
  lenet_trt::register_if_possible();
  nvinfer1::IPluginRegistry* const found = lenet_trt::registry();
  return found != nullptr && lenet_trt::is_known_to(*found);
}

// Read from the file before any of its code runs: library_file.py.
#define LENET_TRT_TEXT(value) #value
#define LENET_TRT_VERSION(major, minor) LENET_TRT_TEXT(major) "." LENET_TRT_TEXT(minor)
LENET_TRT_EXPORT char const* lenet_trt_made_for() {
  return "lenet_trt plugin library for TensorRT " LENET_TRT_VERSION(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR);
}

#if LENET_TRT_V3
LENET_TRT_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& count) {
  return lenet_trt::creators(count);
}
#else
LENET_TRT_EXPORT nvinfer1::IPluginCreator* const* getPluginCreators(int32_t& count) {
  return lenet_trt::creators(count);
}
#endif

#if NV_TENSORRT_MAJOR > 8 || NV_TENSORRT_MINOR >= 6
LENET_TRT_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder* finder) { lenet_trt::logger_finder = finder; }
#endif
