// The CUDA driver, opened when it is first needed: the library loads on a machine without a GPU, and needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lenet_trt::cuda {

// The driver's own types, by other names since cuda.h may be there as well.
using Status = int;
using Context = void*;
using Module = void*;
using Function = void*;
using Stream = void*;

// Source: cuda.h of CUDA 11.4 and later; the numbers are part of the driver's ABI.
constexpr Status kSuccess = 0, kInvalidContext = 201;
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedOptIn = 97;  // CUdevice_attribute
constexpr int kFunctionSharedBytes = 1, kFunctionMaxDynamicShared = 8;             // CUfunction_attribute
constexpr int kCaptureRelaxed = 2;                                                 // CUstreamCaptureMode

constexpr int kOverlap = 6;                     // CUlaunchAttributeID: programmatic stream serialization
constexpr int kFirstToCaptureOverlaps = 12030;  // the driver that takes such launches into CUDA graphs

// CUtensorMapDataType for uint8, int32, float16, float32 and bfloat16; CUtensorMapL2promotion: 128 bytes.
constexpr int kMapOfBytes = 0, kMapOfInt32 = 3, kMapOfFloat16 = 6, kMapOfFloat32 = 7, kMapOfBfloat16 = 9;
constexpr int kPromoteTo128 = 2;

// CUtensorMap.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  char room[60];
};

struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned count;
};

struct Driver {
  Status (*init)(unsigned flags);
  Status (*version)(int* version);
  Status (*error_name)(Status status, char const** name);
  Status (*current)(Context* context);
  Status (*push)(Context context);
  Status (*pop)(Context* context);
  Status (*device)(int* device);
  Status (*device_name)(char* name, int room, int device);
  Status (*attribute)(int* value, int attribute, int device);
  Status (*load)(Module* module, void const* image);
  Status (*unload)(Module module);
  Status (*function)(Function* function, Module module, char const* name);
  Status (*function_attribute)(int* value, int attribute, Function function);
  Status (*set_function_attribute)(Function function, int attribute, int value);
  Status (*launch)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments,
                   void** extra);
  Status (*exchange_capture_mode)(int* mode);
  // Newer drivers alone; null where they are not.
  Status (*context_id)(Context context, uint64_t* id);
  Status (*load_function)(Function function);
  Status (*encode_map)(TensorMap* map, int type, uint32_t rank, void* address, uint64_t const* shape, uint64_t const* strides,
                       uint32_t const* box, uint32_t const* steps, int interleave, int swizzle, int promotion, int fill);
  Status (*launch_with)(LaunchConfig const* config, Function function, void** arguments, void** extra);
};

// The driver, initialised. Throws an Error where there is none, or no GPU.
Driver const& driver();

// Throws an Error that says what could not be done, and the driver's name of the reason.
void check(Status status, char const* what);

// What the driver calls a status.
char const* name_of(Status status);

}  // namespace lenet_trt::cuda
