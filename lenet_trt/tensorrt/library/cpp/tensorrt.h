// TensorRT's headers, of 8.5 to 11, and what differs between them.
#pragma once

// The headers do not use all of their parameters, and use what they call deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <NvInferRuntime.h>
#pragma GCC diagnostic pop

#if NV_TENSORRT_MAJOR >= 10
#define LENET_TRT_V3 1
#else
#define LENET_TRT_V3 0
// 8.5 and later call classes deprecated that there is nothing else for: IPluginV3 begins with 10.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif

#define LENET_TRT_EXPORT extern "C" __attribute__((visibility("default")))

namespace lenet_trt {

constexpr char kName[] = "Kernel";
constexpr char kVersion[] = "1";
constexpr char kNamespace[] = "lenet_trt";
constexpr char kDataField[] = "data";

// Opens TensorRT's own runtime if the process has loaded it; null if not. Its functions are found by name, so that the
// library need not be linked with it, and loads where it is not.
void* loaded_tensorrt();

}  // namespace lenet_trt
