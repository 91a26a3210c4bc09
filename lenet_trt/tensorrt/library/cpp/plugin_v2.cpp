#include "plugin_v2.h"

#if !LENET_TRT_V3

#include <algorithm>
#include <cstring>
#include <vector>

#include "plugin_body.h"

namespace lenet_trt {
namespace {

using namespace nvinfer1;

class PluginV2 final : public IPluginV2DynamicExt {
 public:
  explicit PluginV2(std::shared_ptr<KernelData const> data) : body_(std::move(data)) {}

  PluginV2* clone() const noexcept override {
    return guarded([&] { return new PluginV2(*this); }, reporter("clone"), static_cast<PluginV2*>(nullptr));
  }
  void destroy() noexcept override { delete this; }

  char const* getPluginType() const noexcept override { return kName; }
  char const* getPluginVersion() const noexcept override { return kVersion; }
  char const* getPluginNamespace() const noexcept override { return kNamespace; }
  void setPluginNamespace(char const*) noexcept override {}

  // While an engine is built.

  int32_t getNbOutputs() const noexcept override { return static_cast<int32_t>(body_.data().outputs.size()); }

  // TensorRT 8 converts what has another type, so that the inputs' types are no matter of this.
  DataType getOutputDataType(int32_t output, DataType const*, int32_t) const noexcept override {
    return guarded([&] { return body_.output_type(output); }, reporter("getOutputDataType"), DataType::kFLOAT);
  }

  DimsExprs getOutputDimensions(int32_t output, DimsExprs const* inputs, int32_t count,
                                IExprBuilder& builder) noexcept override {
    DimsExprs none{};
    none.nbDims = -1;  // TensorRT's word for dimensions that are wrong
    return guarded([&] { return body_.output_shape(output, inputs, count, builder); }, reporter("getOutputDimensions"),
                   none);
  }

  bool supportsFormatCombination(int32_t position, PluginTensorDesc const* tensors, int32_t, int32_t) noexcept override {
    return body_.supports(position, tensors[position]);
  }

  // Cannot fail: what is wrong fails the launches that follow.
  void configurePlugin(DynamicPluginTensorDesc const* inputs, int32_t input_count,
                       DynamicPluginTensorDesc const* outputs, int32_t output_count) noexcept override {
    is_wrong_ = attempt("configurePlugin", [&] {
      std::vector<PluginTensorDesc> given, made;
      for (int32_t i = 0; i < input_count; ++i) given.push_back(inputs[i].desc);
      for (int32_t i = 0; i < output_count; ++i) made.push_back(outputs[i].desc);
      body_.check(given.data(), input_count, made.data(), output_count);
      body_.load();
    }) != 0;
  }

  // TensorRT gives the largest sizes of the profile.
  size_t getWorkspaceSize(PluginTensorDesc const* inputs, int32_t count, PluginTensorDesc const*,
                          int32_t) const noexcept override {
    auto const size = [&] {
      Shape shapes[kMaxTensors];
      for (int32_t i = 0; i < count && i < static_cast<int32_t>(kMaxTensors); ++i) shapes[i] = shape_of(inputs[i].dims);
      return body_.workspace(shapes);
    };
    return guarded(size, reporter("getWorkspaceSize"), size_t{0});
  }

  size_t getSerializationSize() const noexcept override { return body_.data().bytes().size(); }
  void serialize(void* buffer) const noexcept override {
    std::memcpy(buffer, body_.data().bytes().data(), body_.data().bytes().size());
  }

  // In the engine.

  int32_t initialize() noexcept override {
    return attempt("initialize", [&] { body_.load(); });
  }
  void terminate() noexcept override {}

  // Each execution context has a clone of its own; where the loading fails, its launches do.
  void attachToContext(cudnnContext*, cublasContext*, IGpuAllocator*) noexcept override {
    attempt("attachToContext", [&] { body_.load(); });
  }

  int32_t enqueue(PluginTensorDesc const* input_tensors, PluginTensorDesc const* output_tensors,
                  void const* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t stream) noexcept override {
    return attempt("enqueue", [&] {
      if (is_wrong_) throw Error("it cannot run, as was said when it was configured");
      body_.enqueue(input_tensors, output_tensors, inputs, outputs, workspace, stream);
    });
  }

 private:
  Reporter reporter(char const* where) const { return {body_, where}; }

  template <class Action>
  int32_t attempt(char const* where, Action&& action) const noexcept {
    return guarded([&] { return action(), 0; }, reporter(where), 1);
  }

  PluginBody body_;
  bool is_wrong_ = false;
};

IPluginV2* made_from(std::shared_ptr<KernelData const> const& data) noexcept {
  if (data == nullptr) return nullptr;
  return guarded([&] { return new PluginV2(data); },
                 [&](char const* problem) { report_new(*data, problem); }, static_cast<PluginV2*>(nullptr));
}

}  // namespace

IPluginV2* CreatorV2::createPlugin(char const* name, PluginFieldCollection const* fields) noexcept {
  return made_from(data_from(name, fields));
}

IPluginV2* CreatorV2::deserializePlugin(char const* name, void const* bytes, size_t size) noexcept {
  return made_from(data_from(name, bytes, size));
}

PluginFieldCollection const* CreatorV2::getFieldNames() noexcept {
  static PluginField const field{kDataField, nullptr, PluginFieldType::kINT8, 0};
  static PluginFieldCollection const fields{1, &field};
  return &fields;
}

}  // namespace lenet_trt

#endif
