// A small C interface around TensorRT's runtime: an engine, its tensors, an execution context, an inference.
//
// TensorRT's Python package is made for a few versions of Python (that of 8.6 ends with 3.10); what is exported here any
// of them calls through ctypes (c_bindings.py). TensorRT is the one that the process has loaded. Where a function
// fails it answers null, 0 or a rank below 0, and lenet_trt_said() has TensorRT's own words.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "dl.h"
#include "driver.h"
#include "tensorrt.h"

namespace lenet_trt {
namespace {

using namespace nvinfer1;

// Keeps the errors of all threads until somebody asks.
class ErrorLog final : public ILogger {
 public:
  void log(Severity severity, char const* text) noexcept override {
    if (severity > Severity::kERROR) return;
    try {
      std::lock_guard<std::mutex> lock(mutex_);
      said_.append(text).append("\n");
    } catch (std::exception const&) {  // no memory for the text
    }
  }

  std::string taken() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(said_, std::string());
  }

 private:
  std::mutex mutex_;
  std::string said_;
};

// Never destroyed: TensorRT may use it until the process ends.
ErrorLog& error_log() {
  static ErrorLog& made = *new ErrorLog;
  return made;
}

template <class Function>
Function tensorrt_function(char const* name) {
  void* const tensorrt = loaded_tensorrt();
  if (tensorrt == nullptr) {
    std::string const text = "TensorRT " + std::to_string(NV_TENSORRT_MAJOR) +
                             ", which this library was compiled for, is not loaded in the process";
    error_log().log(ILogger::Severity::kERROR, text.c_str());
    return nullptr;
  }
  return reinterpret_cast<Function>(dlsym(tensorrt, name));
}

struct LoadedEngine {
  std::unique_ptr<IRuntime> runtime;  // outlives the engine
  std::unique_ptr<ICudaEngine> engine;
};

ICudaEngine& engine_of(void* handle) { return *static_cast<LoadedEngine*>(handle)->engine; }
IExecutionContext& context_of(void* handle) { return *static_cast<IExecutionContext*>(handle); }

int32_t sizes_of(Dims const& dims, int64_t* sizes) {
  for (int32_t i = 0; i < dims.nbDims; ++i) sizes[i] = dims.d[i];
  return dims.nbDims;
}

}  // namespace
}  // namespace lenet_trt

using lenet_trt::context_of;
using lenet_trt::engine_of;

// What is known of an input or output; `sizes` has room for the most axes that TensorRT allows.
struct lenet_trt_tensor_facts {
  int32_t is_input;
  int32_t type;  // nvinfer1::DataType
  int32_t is_on_gpu;
  int32_t rank;
  int64_t sizes[nvinfer1::Dims::MAX_DIMS];
};

// The errors since it was last asked, a line each; they stay until this thread asks again.
LENET_TRT_EXPORT char const* lenet_trt_said() {
  static thread_local std::string said;
  said = lenet_trt::error_log().taken();
  return said.c_str();
}

// The version of the TensorRT that is loaded, as its header counts: 8600, or 101601. 0 if there is none.
LENET_TRT_EXPORT int32_t lenet_trt_version() {
  auto const version = lenet_trt::tensorrt_function<int32_t (*)()>("getInferLibVersion");
  return version == nullptr ? 0 : version();
}

// Deserializes an engine; an engine can contain code, which then runs.
LENET_TRT_EXPORT void* lenet_trt_engine(void const* plan, size_t size) {
  try {
    lenet_trt::cuda::driver();  // without one TensorRT 8.6 crashes, and 10 and 11 return an address that is none
  } catch (std::exception const& error) {
    lenet_trt::error_log().log(nvinfer1::ILogger::Severity::kERROR, error.what());
    return nullptr;
  }
  using Create = void* (*)(void*, int32_t);
  auto const create = lenet_trt::tensorrt_function<Create>("createInferRuntime_INTERNAL");
  if (create == nullptr) return nullptr;
  auto made = std::make_unique<lenet_trt::LoadedEngine>();
  made->runtime.reset(static_cast<nvinfer1::IRuntime*>(create(&lenet_trt::error_log(), NV_TENSORRT_VERSION)));
  if (made->runtime == nullptr) return nullptr;
  made->engine.reset(made->runtime->deserializeCudaEngine(plan, size));
  return made->engine == nullptr ? nullptr : made.release();
}

LENET_TRT_EXPORT void lenet_trt_end_engine(void* engine) { delete static_cast<lenet_trt::LoadedEngine*>(engine); }

LENET_TRT_EXPORT int32_t lenet_trt_tensor_count(void* engine) { return engine_of(engine).getNbIOTensors(); }

LENET_TRT_EXPORT char const* lenet_trt_tensor_name(void* engine, int32_t index) {
  return engine_of(engine).getIOTensorName(index);
}

LENET_TRT_EXPORT void lenet_trt_tensor(void* engine, char const* name, lenet_trt_tensor_facts* facts) {
  nvinfer1::ICudaEngine const& from = engine_of(engine);
  facts->is_input = from.getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
  facts->type = static_cast<int32_t>(from.getTensorDataType(name));
  facts->is_on_gpu = from.getTensorLocation(name) == nvinfer1::TensorLocation::kDEVICE;
  facts->rank = lenet_trt::sizes_of(from.getTensorShape(name), facts->sizes);
}

// The smallest (0), usual (1) or largest (2) shape of an input in the first profile; returns its rank.
LENET_TRT_EXPORT int32_t lenet_trt_profile(void* engine, char const* name, int32_t which, int64_t* sizes) {
  static constexpr nvinfer1::OptProfileSelector kSelectors[] = {
      nvinfer1::OptProfileSelector::kMIN, nvinfer1::OptProfileSelector::kOPT, nvinfer1::OptProfileSelector::kMAX};
  return lenet_trt::sizes_of(engine_of(engine).getProfileShape(name, 0, kSelectors[which]), sizes);
}

LENET_TRT_EXPORT void* lenet_trt_context(void* engine) { return engine_of(engine).createExecutionContext(); }

LENET_TRT_EXPORT void lenet_trt_end_context(void* context) { delete &context_of(context); }

LENET_TRT_EXPORT int32_t lenet_trt_set_shape(void* context, char const* name, int32_t rank, int64_t const* sizes) {
  nvinfer1::Dims dims{};
  if (rank < 0 || rank > nvinfer1::Dims::MAX_DIMS) return 0;
  dims.nbDims = rank;
  for (int32_t i = 0; i < rank; ++i) dims.d[i] = static_cast<std::remove_reference_t<decltype(dims.d[i])>>(sizes[i]);
  return context_of(context).setInputShape(name, dims);
}

LENET_TRT_EXPORT int32_t lenet_trt_set_address(void* context, char const* name, void* address) {
  return context_of(context).setTensorAddress(name, address);
}

// The shape of a tensor for the inputs that were set; returns its rank.
LENET_TRT_EXPORT int32_t lenet_trt_shape(void* context, char const* name, int64_t* sizes) {
  return lenet_trt::sizes_of(context_of(context).getTensorShape(name), sizes);
}

// Puts an inference into a stream.
LENET_TRT_EXPORT int32_t lenet_trt_enqueue(void* context, void* stream) {
  return context_of(context).enqueueV3(static_cast<cudaStream_t>(stream));
}
