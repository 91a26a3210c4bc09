// What a plugin does, whichever of TensorRT's interfaces it is called by.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "error.h"
#include "loaded_kernel.h"
#include "tensorrt.h"

namespace lenet_trt {

class PluginBody {
 public:
  explicit PluginBody(std::shared_ptr<KernelData const> data);

  KernelData const& data() const { return *data_; }

  // What the network is told. Positions count inputs, then outputs.
  bool supports(int32_t position, nvinfer1::PluginTensorDesc const& tensor) const;
  nvinfer1::DataType output_type(int32_t output) const;
  nvinfer1::DimsExprs output_shape(int32_t output, nvinfer1::DimsExprs const* inputs, int32_t count,
                                   nvinfer1::IExprBuilder& builder) const;

  // Says in the log which input has another type than the kernel wants. No error: where layers are not strongly typed,
  // TensorRT may still convert it.
  void warn_of_types(nvinfer1::DataType const* inputs, int32_t count) const noexcept;

  // Checks types and what is known of the shapes.
  void check(nvinfer1::PluginTensorDesc const* inputs, int32_t input_count, nvinfer1::PluginTensorDesc const* outputs,
             int32_t output_count) const;

  // Loads the kernel into the current CUDA context, unless it is there already.
  void load();
  Abilities const& gpu() const { return loaded_->gpu(); }

  // The workspace, in bytes, that suffices for inputs of these shapes or smaller ones.
  size_t workspace(Shape const* largest_inputs) const;

  // Runs a variant in the place of another one; the default: what the declaration chooses for each shape.
  void substitute(Substitute substitute);

  // Prepares the launch for these shapes, unless it is that of the last ones.
  void prepare(nvinfer1::PluginTensorDesc const* inputs, nvinfer1::PluginTensorDesc const* outputs);
  void enqueue(nvinfer1::PluginTensorDesc const* input_tensors, nvinfer1::PluginTensorDesc const* output_tensors,
               void const* const* inputs, void* const* outputs, void* workspace, cudaStream_t stream);

  // Tells TensorRT's logger, and the recorder if there is one, what went wrong in this node.
  void report(char const* where, char const* problem, nvinfer1::IErrorRecorder* recorder = nullptr) const noexcept;

 private:
  std::shared_ptr<KernelData const> data_;
  std::shared_ptr<LoadedKernel const> loaded_;
  Substitute substitute_;
  bool is_prepared_ = false;
  Shape shapes_[kMaxTensors];  // of the prepared launch
  Call call_;
};

// Reports what went wrong in one of the plugin's functions.
struct Reporter {
  PluginBody const& body;
  char const* where;
  nvinfer1::IErrorRecorder* recorder = nullptr;

  void operator()(char const* problem) const noexcept { body.report(where, problem, recorder); }
};

Shape shape_of(nvinfer1::Dims const& dims);

// Reads the data of a plugin that TensorRT makes or reads from an engine; null, and an entry in the log, if that fails.
std::shared_ptr<KernelData const> data_from(char const* node, void const* bytes, size_t size) noexcept;
std::shared_ptr<KernelData const> data_from(char const* node, nvinfer1::PluginFieldCollection const* fields) noexcept;

// Says in the log why the plugin of this data could not be made.
void report_new(KernelData const& data, char const* problem) noexcept;

// Runs `action`; what it throws goes to `report`, and the answer is `failed`: no exception may reach TensorRT.
template <class Action, class Report, class Answer>
Answer guarded(Action&& action, Report&& report, Answer failed) noexcept {
  try {
    return action();
  } catch (std::exception const& error) {
    report(error.what());
  }
  return failed;
}

}  // namespace lenet_trt
