// Stands where libcuda.so.1 is: prints what the plugin library calls, and answers as one GPU of RECORD_SM would.
//
// RECORD_FAIL names a function of which a call (RECORD_FAIL_AT: which, from 1) fails, with the status RECORD_STATUS. RECORD_ARGUMENTS has a letter for each argument of a launch:
// p for an address, i for an int. A tensor map begins with the address of its tensor. WITHOUT_MAPS, where this is compiled: a driver that has none.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.h"

namespace {

using lenet_trt::cuda::kOverlap;
using lenet_trt::cuda::LaunchConfig;
using lenet_trt::cuda::TensorMap;

std::atomic<uint64_t> context{1};
std::atomic<uint64_t> handles{100};

int number(char const* name, int otherwise) {
  char const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Allocates nothing, since the plugin library's allocations are counted.
int told(char const* name, char const* more = "") {
  std::printf("%s%s\n", name, more);
  char const* const failing = std::getenv("RECORD_FAIL");
  if (failing == nullptr || std::strcmp(failing, name) != 0) return 0;
  static int calls = 0;
  if (++calls < number("RECORD_FAIL_AT", 1)) return 0;
  unsetenv("RECORD_FAIL");
  return number("RECORD_STATUS", 719);
}

int told_launch(char const* name, LaunchConfig const& config, void** arguments) {
  char text[1024];
  unsigned const *const grid = config.grid, *const block = config.block;
  int at = std::snprintf(text, sizeof(text), " %u %u %u %u %u %u %u stream %ju with", grid[0], grid[1], grid[2], block[0], block[1],
                         block[2], config.shared_bytes, reinterpret_cast<uintmax_t>(config.stream));
  char const* const kinds = std::getenv("RECORD_ARGUMENTS");
  for (size_t i = 0; kinds != nullptr && kinds[i] != 0; ++i) {
    intmax_t const value = kinds[i] == 'p' ? static_cast<intmax_t>(*static_cast<uint64_t*>(arguments[i]))
                                           : *static_cast<int32_t*>(arguments[i]);
    at += std::snprintf(text + at, sizeof(text) - static_cast<size_t>(at), " %jd", value);
  }
  return told(name, text);
}

}  // namespace

extern "C" {
void record_context(uint64_t chosen) { context = chosen; }

int cuInit(unsigned) { return number("RECORD_NO_GPU", 0) ? 100 : 0; }
int cuDriverGetVersion(int* version) { return *version = number("RECORD_CUDA", 13000), 0; }
int cuGetErrorName(int status, char const** name) {
  return *name = status == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_NO_DEVICE", 0;
}
int cuCtxGetCurrent(void** current) { return *current = reinterpret_cast<void*>(context.load()), 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void** popped) { return *popped = nullptr, 0; }
int cuCtxGetId(void* of, uint64_t* id) { return *id = reinterpret_cast<uint64_t>(of), 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuDeviceGetName(char* name, int room, int) { return std::snprintf(name, room, "NVIDIA H200"), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  int const sm = number("RECORD_SM", 90);
  if (attribute == 16) *value = 132;
  if (attribute == 75) *value = sm / 10;
  if (attribute == 76) *value = sm % 10;
  if (attribute == 97) *value = number("RECORD_SHARED", 227 * 1024);
  return 0;
}
int cuModuleLoadData(void** module, void const*) {
  *module = reinterpret_cast<void*>(++handles);
  return told("cuModuleLoadData");
}
int cuModuleUnload(void*) { return told("cuModuleUnload"); }
int cuModuleGetFunction(void** function, void*, char const* name) {
  *function = reinterpret_cast<void*>(++handles);
  std::printf("cuModuleGetFunction %s\n", name);
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void*) { return *value = attribute == 8 ? 48 * 1024 : 0, 0; }
int cuFuncSetAttribute(void*, int attribute, int value) {
  char text[64];
  std::snprintf(text, sizeof(text), " %d %d", attribute, value);
  return told("cuFuncSetAttribute", text);
}
int cuFuncLoad(void*) { return 0; }
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuLaunchKernel(void*, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** arguments, void**) {
  return told_launch("cuLaunchKernel", {{x, y, z}, {bx, by, bz}, shared, stream, nullptr, 0}, arguments);
}
#ifndef WITHOUT_MAPS
int cuTensorMapEncodeTiled(TensorMap* map, int type, uint32_t rank, void* address, uint64_t const* shape, uint64_t const* strides,
                           uint32_t const* box, uint32_t const* steps, int interleave, int swizzle, int promotion, int fill) {
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) return 1;
  map->opaque[0] = reinterpret_cast<uintptr_t>(address);
  char text[512];
  int at = std::snprintf(text, sizeof(text), " type %d of %ju", type, static_cast<uintmax_t>(map->opaque[0]));
  for (uint32_t i = 0; i < rank; ++i) {
    at += std::snprintf(text + at, sizeof(text) - static_cast<size_t>(at), " axis %ju box %u step %u", static_cast<uintmax_t>(shape[i]), box[i],
                        steps[i]);
    if (i + 1 == rank) break;
    at += std::snprintf(text + at, sizeof(text) - static_cast<size_t>(at), " stride %ju", static_cast<uintmax_t>(strides[i]));
  }
  std::snprintf(text + at, sizeof(text) - static_cast<size_t>(at), " options %d %d %d %d", interleave, swizzle, promotion, fill);
  return told("cuTensorMapEncodeTiled", text);
}
#endif
int cuLaunchKernelEx(LaunchConfig const* config, void*, void** arguments, void**) {
  if (config->count != 1 || config->attributes->id != kOverlap || config->attributes->value != 1) return 1;
  return told_launch("cuLaunchKernelEx", *config, arguments);
}
}
