// Loads the plugin library as TensorRT's users do and uses its creator, in a real plugin registry:
//
//   registry_probe RUNTIME LIBRARY DATA HOW...
//
// HOW is "open" (dlopen, as trtexec --staticPlugins) or "load" (IPluginRegistry::loadLibrary), "drop" (deregisterLibrary
// of the last one loaded) or "close" (dlclose of the last one opened), in the order given. Prints what it sees. "local"
// in front: RUNTIME comes with a library of its own scope, as with Triton's backend and ONNX Runtime's provider, and
// "open" is what these do.

#include <NvInferRuntime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace nvinfer1;

namespace {

#if NV_TENSORRT_MAJOR >= 10
IPluginCreatorV3One* creator_in(IPluginRegistry& registry) {
  return static_cast<IPluginCreatorV3One*>(registry.getCreator("Kernel", "1", "lenet_trt"));
}

// How often the plugin is in the list from which ONNX Runtime's TensorRT provider makes its operators.
int listed(IPluginRegistry& registry) {
  int32_t count = 0;
  IPluginCreatorInterface* const* const all = registry.getAllCreators(&count);
  return static_cast<int>(std::count_if(all, all + count, [](IPluginCreatorInterface* each) {
    return std::strcmp(each->getInterfaceInfo().kind, "PLUGIN CREATOR_V3ONE") == 0 &&
           std::strcmp(static_cast<IPluginCreatorV3One*>(each)->getPluginName(), "Kernel") == 0;
  }));
}

std::vector<char> stored(IPluginV3& plugin) {
  auto* runtime = static_cast<IPluginV3OneRuntime*>(plugin.getCapabilityInterface(PluginCapabilityType::kRUNTIME));
  PluginFieldCollection const* fields = runtime->getFieldsToSerialize();
  auto const* bytes = static_cast<char const*>(fields->fields[0].data);
  return std::vector<char>(bytes, bytes + fields->fields[0].length);
}

void describe(IPluginV3& plugin) {
  auto* build = static_cast<IPluginV3OneBuild*>(plugin.getCapabilityInterface(PluginCapabilityType::kBUILD));
  std::vector<DataType> types(build->getNbOutputs());
  build->getOutputDataTypes(types.data(), build->getNbOutputs(), nullptr, 0);
  std::printf("outputs %d type %d tactics %d\nsupports ", build->getNbOutputs(), static_cast<int>(types[0]),
              build->getNbTactics());
  DynamicPluginTensorDesc tensor{};
  for (auto const format : {TensorFormat::kLINEAR, TensorFormat::kHWC8}) {
    for (auto const type : {DataType::kFLOAT, DataType::kHALF}) {
      tensor.desc.format = format, tensor.desc.type = type;
      std::printf("%d", build->supportsFormatCombination(0, &tensor, 1, 1));
    }
  }
  std::printf("\n");
}

IPluginV3* made(IPluginCreatorV3One& creator, std::vector<char> const& data, bool from_engine) {
  PluginField const field("data", data.data(), PluginFieldType::kINT8, static_cast<int32_t>(data.size()));
  PluginFieldCollection const fields{1, &field};
  return creator.createPlugin("n", &fields, from_engine ? TensorRTPhase::kRUNTIME : TensorRTPhase::kBUILD);
}

void release(IPluginV3* plugin) { delete plugin; }
#else
IPluginCreator* creator_in(IPluginRegistry& registry) { return registry.getPluginCreator("Kernel", "1", "lenet_trt"); }

// How often the plugin is in the list from which ONNX Runtime's TensorRT provider makes its operators.
int listed(IPluginRegistry& registry) {
  int32_t count = 0;
  IPluginCreator* const* const all = registry.getPluginCreatorList(&count);
  return static_cast<int>(std::count_if(
      all, all + count, [](IPluginCreator* each) { return std::strcmp(each->getPluginName(), "Kernel") == 0; }));
}

std::vector<char> stored(IPluginV2& plugin) {
  std::vector<char> bytes(plugin.getSerializationSize());
  plugin.serialize(bytes.data());
  return bytes;
}

void describe(IPluginV2& plugin) {
  auto& full = static_cast<IPluginV2DynamicExt&>(plugin);
  std::printf("outputs %d type %d tactics 1\nsupports ", full.getNbOutputs(),
              static_cast<int>(full.getOutputDataType(0, nullptr, 0)));
  PluginTensorDesc tensor{};
  for (auto const format : {TensorFormat::kLINEAR, TensorFormat::kHWC8}) {
    for (auto const type : {DataType::kFLOAT, DataType::kHALF}) {
      tensor.format = format, tensor.type = type;
      std::printf("%d", full.supportsFormatCombination(0, &tensor, 1, 1));
    }
  }
  std::printf("\n");
}

IPluginV2* made(IPluginCreator& creator, std::vector<char> const& data, bool from_engine) {
  if (from_engine) return creator.deserializePlugin("n", data.data(), data.size());
  PluginField const field("data", data.data(), PluginFieldType::kINT8, static_cast<int32_t>(data.size()));
  PluginFieldCollection const fields{1, &field};
  return creator.createPlugin("n", &fields);
}

void release(IPluginV2* plugin) { plugin->destroy(); }
#endif

int use(IPluginRegistry& registry, std::vector<char> const& data) {
  auto* const creator = creator_in(registry);
  if (creator == nullptr) return std::printf("no creator\n"), 1;
  std::printf("listed %d\n", listed(registry));
  auto* plugin = made(*creator, data, false);
  if (plugin == nullptr) return std::printf("no plugin\n"), 1;
  auto* copy = plugin->clone();
  describe(*copy);
  auto* again = made(*creator, stored(*copy), true);
  if (again == nullptr) return std::printf("no plugin from an engine\n"), 1;
  std::printf("stored %d\n", stored(*again) == data);
  for (auto* each : {plugin, copy, again}) release(each);
  std::vector<char> const cut(data.begin(), data.begin() + static_cast<long>(data.size() / 2));
  std::printf("cut refused %d\n", made(*creator, cut, true) == nullptr);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  bool const local = count > 4 && std::string(arguments[4]) == "local";
  void* const runtime = dlopen(arguments[1], local ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
  if (runtime == nullptr) return std::printf("%s\n", dlerror()), 3;
  auto const get = reinterpret_cast<IPluginRegistry* (*)()>(dlsym(runtime, "getPluginRegistry"));
  IPluginRegistry& registry = *get();
  std::ifstream file(arguments[3], std::ios::binary);
  std::vector<char> const data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  void* opened = nullptr;
#if NV_TENSORRT_MAJOR > 8 || NV_TENSORRT_MINOR >= 6
  IPluginRegistry::PluginLibraryHandle loaded = nullptr;
#endif
  int status = 0;
  for (int i = local ? 5 : 4; i < count; ++i) {
    std::string const how = arguments[i];
    if (how == "open") opened = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
    if (how == "open" && opened == nullptr) return std::printf("%s\n", dlerror()), 4;
    if (how == "close") dlclose(opened);
#if NV_TENSORRT_MAJOR > 8 || NV_TENSORRT_MINOR >= 6
    if (how == "load") loaded = registry.loadLibrary(arguments[2]);
    if (how == "load" && loaded == nullptr) return std::printf("not loaded\n"), 5;
    if (how == "drop") registry.deregisterLibrary(loaded);
#endif
    std::printf("-- %s\n", how.c_str());
    if (how != "drop") status |= use(registry, data);
    if (how == "drop") std::printf("%s\n", creator_in(registry) == nullptr ? "gone" : "still there");
  }
  return status;
}
