#include "plugin_v3.h"

#if LENET_TRT_V3

#include <algorithm>
#include <vector>

#include "plugin_body.h"

namespace lenet_trt {
namespace {

using namespace nvinfer1;

// Tactic 1 is the declared choice for each shape. A tactic from 2 on has one variant in the place of another one, which the declaration chooses at
// the shapes of the timing: what was fastest there may be far slower where the declaration chooses otherwise.
constexpr int32_t kDeclaredChoice = 1, kFirstSubstitute = 2;

class PluginV3 final : public IPluginV3, public IPluginV3OneCore, public IPluginV3OneBuild, public IPluginV3OneRuntime {
 public:
  explicit PluginV3(std::shared_ptr<KernelData const> data) : body_(std::move(data)) {
    metadata_ = "lenet_trt kernel " + body_.data().title() + ", by " + body_.data().made_by;
    data_field_ = {kDataField, body_.data().bytes().data(), PluginFieldType::kINT8,
                   static_cast<int32_t>(body_.data().bytes().size())};
  }

  IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept override {
    switch (type) {
      case PluginCapabilityType::kCORE: return static_cast<IPluginV3OneCore*>(this);
      case PluginCapabilityType::kBUILD: return static_cast<IPluginV3OneBuild*>(this);
      case PluginCapabilityType::kRUNTIME: return static_cast<IPluginV3OneRuntime*>(this);
    }
    return nullptr;
  }

  PluginV3* clone() noexcept override {
    return guarded([&] { return new PluginV3(*this); }, reporter("clone"), static_cast<PluginV3*>(nullptr));
  }

  char const* getPluginName() const noexcept override { return kName; }
  char const* getPluginVersion() const noexcept override { return kVersion; }
  char const* getPluginNamespace() const noexcept override { return kNamespace; }

  // While an engine is built.

  int32_t getNbOutputs() const noexcept override { return static_cast<int32_t>(body_.data().outputs.size()); }

  int32_t getOutputDataTypes(DataType* types, int32_t count, DataType const* inputs,
                             int32_t input_count) const noexcept override {
    body_.warn_of_types(inputs, input_count);
    return attempt("getOutputDataTypes", [&] {
      for (int32_t i = 0; i < count; ++i) types[i] = body_.output_type(i);
    });
  }

  int32_t getOutputShapes(DimsExprs const* inputs, int32_t input_count, DimsExprs const*, int32_t, DimsExprs* outputs,
                          int32_t count, IExprBuilder& builder) noexcept override {
    return attempt("getOutputShapes", [&] {
      for (int32_t i = 0; i < count; ++i) outputs[i] = body_.output_shape(i, inputs, input_count, builder);
    });
  }

  bool supportsFormatCombination(int32_t position, DynamicPluginTensorDesc const* tensors, int32_t,
                                 int32_t) noexcept override {
    return body_.supports(position, tensors[position].desc);
  }

  int32_t configurePlugin(DynamicPluginTensorDesc const* inputs, int32_t input_count,
                          DynamicPluginTensorDesc const* outputs, int32_t output_count) noexcept override {
    return attempt("configurePlugin", [&] {
      std::vector<PluginTensorDesc> given, made;
      for (int32_t i = 0; i < input_count; ++i) given.push_back(inputs[i].desc);
      for (int32_t i = 0; i < output_count; ++i) made.push_back(outputs[i].desc);
      body_.check(given.data(), input_count, made.data(), output_count);
      tactics_ = tactics_for(inputs, input_count);
    });
  }

  size_t getWorkspaceSize(DynamicPluginTensorDesc const* inputs, int32_t count, DynamicPluginTensorDesc const*,
                          int32_t) const noexcept override {
    auto const size = [&] {
      Shape shapes[kMaxTensors];
      for (int32_t i = 0; i < count && i < static_cast<int32_t>(kMaxTensors); ++i) shapes[i] = shape_of(inputs[i].max);
      return body_.workspace(shapes);
    };
    return guarded(size, reporter("getWorkspaceSize"), size_t{0});
  }

  int32_t getNbTactics() noexcept override { return static_cast<int32_t>(tactics_.size()); }

  int32_t getValidTactics(int32_t* tactics, int32_t count) noexcept override {
    std::copy_n(tactics_.begin(), std::min<size_t>(tactics_.size(), static_cast<size_t>(count)), tactics);
    return 0;
  }

  // Timings of other code must not stand for this one's.
  char const* getTimingCacheID() noexcept override { return body_.data().code_id().c_str(); }
  char const* getMetadataString() noexcept override { return metadata_.c_str(); }

  // In the engine.

  int32_t setTactic(int32_t tactic) noexcept override {
    auto const count = static_cast<int32_t>(body_.data().variants.size());
    int32_t const number = tactic - kFirstSubstitute;
    body_.substitute(number >= 0 ? Substitute{number / count, number % count} : Substitute{});
    return 0;
  }

  IPluginV3* attachToContext(IPluginResourceContext* context) noexcept override {
    PluginV3* const attached = clone();
    if (attached == nullptr) return nullptr;
    attached->recorder_ = context == nullptr ? nullptr : context->getErrorRecorder();
    // Where it fails, onShapeChange says why: it tries again, and may fail.
    if (cuda_is_here()) attached->attempt("attachToContext", [&] { attached->body_.load(); });
    return attached;
  }

  int32_t onShapeChange(PluginTensorDesc const* inputs, int32_t input_count, PluginTensorDesc const* outputs,
                        int32_t output_count) noexcept override {
    return attempt("onShapeChange", [&] {
      body_.check(inputs, input_count, outputs, output_count);
      body_.load();
      body_.prepare(inputs, outputs);
    });
  }

  int32_t enqueue(PluginTensorDesc const* input_tensors, PluginTensorDesc const* output_tensors,
                  void const* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t stream) noexcept override {
    return attempt("enqueue", [&] { body_.enqueue(input_tensors, output_tensors, inputs, outputs, workspace, stream); });
  }

  PluginFieldCollection const* getFieldsToSerialize() noexcept override {
    fields_ = {1, &data_field_};
    return &fields_;
  }

 private:
  Reporter reporter(char const* where) const { return {body_, where, recorder_}; }

  template <class Action>
  int32_t attempt(char const* where, Action&& action) const noexcept {
    return guarded([&] { return action(), 0; }, reporter(where), 1);
  }

  // What TensorRT shall time. The variant that the declaration chooses at the shapes of the timing is tactic 1 already.
  std::vector<int32_t> tactics_for(DynamicPluginTensorDesc const* inputs, int32_t count) {
    std::vector<int32_t> tactics{kDeclaredChoice};
    if (!cuda_is_here()) return tactics;
    Shape shapes[kMaxTensors];
    for (int32_t i = 0; i < count; ++i) shapes[i] = shape_of(inputs[i].opt);
    try {
      body_.load();
      int const declared = choose(body_.data(), shapes, body_.gpu(), {});
      int const count = static_cast<int>(body_.data().variants.size());
      for (int variant = 0; declared >= 0 && variant < count; ++variant) {
        if (variant != declared && runs(shapes, {declared, variant})) {
          tactics.push_back(kFirstSubstitute + declared * count + variant);
        }
      }
    } catch (std::exception const&) {
      // This GPU or these sizes are not those that the engine is for; if they are, onShapeChange says what is wrong.
    }
    return tactics;
  }

  // A launch that CUDA would not take is none, for this variant alone.
  bool runs(Shape const* shapes, Substitute substitute) const noexcept {
    try {
      return choose(body_.data(), shapes, body_.gpu(), substitute) == substitute.by;
    } catch (std::exception const&) {
      return false;
    }
  }

  static bool cuda_is_here() noexcept {
    try {
      return cuda::driver().init(0) == cuda::kSuccess;
    } catch (std::exception const&) {
      return false;
    }
  }

  PluginBody body_;
  std::vector<int32_t> tactics_{kDeclaredChoice};
  IErrorRecorder* recorder_ = nullptr;
  std::string metadata_;
  PluginField data_field_;
  PluginFieldCollection fields_{};
};

}  // namespace

IPluginV3* CreatorV3::createPlugin(char const* name, PluginFieldCollection const* fields, TensorRTPhase) noexcept {
  std::shared_ptr<KernelData const> const data = data_from(name, fields);
  if (data == nullptr) return nullptr;
  return guarded([&] { return new PluginV3(data); },
                 [&](char const* problem) { report_new(*data, problem); }, static_cast<PluginV3*>(nullptr));
}

PluginFieldCollection const* CreatorV3::getFieldNames() noexcept {
  static PluginField const field{kDataField, nullptr, PluginFieldType::kINT8, 0};
  static PluginFieldCollection const fields{1, &field};
  return &fields;
}

}  // namespace lenet_trt

#endif
