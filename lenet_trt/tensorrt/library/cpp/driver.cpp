#include "driver.h"

#include "dl.h"
#include "error.h"

namespace lenet_trt::cuda {
namespace {

template <class Function>
void find(void* library, char const* name, Function& function, bool needed = true) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (needed && function == nullptr) fail("the NVIDIA driver is too old: its libcuda.so.1 has no ", name);
}

Driver opened() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail("there is no NVIDIA driver on this machine (libcuda.so.1 is not found)");
  Driver found{};
  find(library, "cuInit", found.init);
  find(library, "cuDriverGetVersion", found.version);
  find(library, "cuGetErrorName", found.error_name);
  find(library, "cuCtxGetCurrent", found.current);
  find(library, "cuCtxPushCurrent_v2", found.push);
  find(library, "cuCtxPopCurrent_v2", found.pop);
  find(library, "cuCtxGetDevice", found.device);
  find(library, "cuDeviceGetName", found.device_name);
  find(library, "cuDeviceGetAttribute", found.attribute);
  find(library, "cuModuleLoadData", found.load);
  find(library, "cuModuleUnload", found.unload);
  find(library, "cuModuleGetFunction", found.function);
  find(library, "cuFuncGetAttribute", found.function_attribute);
  find(library, "cuFuncSetAttribute", found.set_function_attribute);
  find(library, "cuLaunchKernel", found.launch);
  find(library, "cuThreadExchangeStreamCaptureMode", found.exchange_capture_mode);
  find(library, "cuCtxGetId", found.context_id, false);    // CUDA 12.0
  find(library, "cuFuncLoad", found.load_function, false);  // CUDA 12.4
  find(library, "cuLaunchKernelEx", found.launch_with, false);  // CUDA 11.8
  find(library, "cuTensorMapEncodeTiled", found.encode_map, false);  // CUDA 12.0
  Status const status = found.init(0);
  if (status != kSuccess) {
    char const* name = nullptr;
    found.error_name(status, &name);
    fail("the NVIDIA driver sees no GPU: ", name == nullptr ? "unknown error" : name);
  }
  return found;
}

}  // namespace

Driver const& driver() {
  static Driver const found = opened();  // tried again where it failed
  return found;
}

char const* name_of(Status status) {
  char const* name = nullptr;
  driver().error_name(status, &name);
  return name == nullptr ? "unknown error" : name;
}

void check(Status status, char const* what) {
  if (status != kSuccess) fail("cannot ", what, ": ", name_of(status));
}

}  // namespace lenet_trt::cuda
