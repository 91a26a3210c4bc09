#include "plugin_body.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "error.h"
#include "log.h"

namespace lenet_trt {
namespace {

using nvinfer1::DataType;

DataType data_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return DataType::kFLOAT;
    case ElementType::kFloat16: return DataType::kHALF;
#if NV_TENSORRT_MAJOR >= 9
    case ElementType::kBfloat16: return DataType::kBF16;
#endif
    case ElementType::kInt32: return DataType::kINT32;
    case ElementType::kInt8: return DataType::kINT8;
    default: fail("TensorRT ", NV_TENSORRT_MAJOR, " has no bfloat16: convert the model to float16");
  }
}

nvinfer1::TensorFormat format(Layout layout) {
  switch (layout) {
    case Layout::kHwc8: return nvinfer1::TensorFormat::kHWC8;
    case Layout::kChw32: return nvinfer1::TensorFormat::kCHW32;
    default: return nvinfer1::TensorFormat::kLINEAR;
  }
}

// TensorRT's symbolic sizes: axes are sizes of the inputs, operations go to its builder.
struct Symbols {
  using Value = nvinfer1::IDimensionExpr const*;
  KernelData const& data;
  nvinfer1::DimsExprs const* inputs;
  nvinfer1::IExprBuilder& builder;

  Value constant(int64_t value) const {
#if NV_TENSORRT_MAJOR < 10
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
      fail("a size is ", value, ", and this TensorRT computes with 32 bits");
    }
    return builder.constant(static_cast<int32_t>(value));
#else
    return builder.constant(value);
#endif
  }

  Value axis(size_t index) const {
    if (index == 0) fail("a shape depends on the GPU");
    Axis const& axis = data.axes[index - 1];
    return inputs[axis.input].d[axis.dimension];
  }

  bool ends(Value) const { return false; }  // shapes have no conditions

  bool apply(Op op, Value left, Value right, Value& result) const {
    using nvinfer1::DimensionOperation;
    DimensionOperation operation{};
    switch (op) {
      case Op::kAdd: operation = DimensionOperation::kSUM; break;
      case Op::kSubtract: operation = DimensionOperation::kSUB; break;
      case Op::kMultiply: operation = DimensionOperation::kPROD; break;
      case Op::kFloorDivide: operation = DimensionOperation::kFLOOR_DIV; break;
      case Op::kCeilDivide: operation = DimensionOperation::kCEIL_DIV; break;
      case Op::kMinimum: operation = DimensionOperation::kMIN; break;
      case Op::kMaximum: operation = DimensionOperation::kMAX; break;
      default: return false;
    }
    result = builder.operation(operation, *left, *right);
    return result != nullptr;
  }
};

std::string name_of(DataType type) {
  switch (type) {
    case DataType::kFLOAT: return "float32";
    case DataType::kHALF: return "float16";
#if NV_TENSORRT_MAJOR >= 9
    case DataType::kBF16: return "bfloat16";
#endif
    case DataType::kINT32: return "int32";
    case DataType::kINT8: return "int8";
    default: return "number " + std::to_string(static_cast<int>(type)) + " of TensorRT";
  }
}

void check_type(KernelData const& data, Tensor const& tensor, DataType given) {
  DataType const wanted = data_type(tensor.type);
  if (given == wanted) return;
  fail(tensor.name, " has element type ", name_of(given), "; ", data.title(), " wants ", name_of(wanted),
       ": convert the model before it is fused and embedded");
}

void check_count(char const* what, int32_t given, size_t wanted) {
  if (given < 0 || static_cast<size_t>(given) != wanted) fail("the node has ", given, " ", what, " instead of ", wanted);
}

Shape shape_of(nvinfer1::DimsExprs const& dims) {
  Shape shape;
  shape.rank = static_cast<size_t>(std::clamp(dims.nbDims, 0, static_cast<int32_t>(kMaxRank)));
  for (size_t i = 0; i < shape.rank; ++i) {
    bool const known = dims.d[i]->isConstant();
    shape.sizes[i] = known ? std::max<int64_t>(dims.d[i]->getConstantValue(), kUnknown) : kUnknown;
  }
  return shape;
}

void report_problem(char const* node, KernelData const* data, char const* where, char const* problem,
                    nvinfer1::IErrorRecorder* recorder) noexcept {
  try {
    std::string const title = data == nullptr ? "" : data->title() + ", ";
    std::string const text = std::string("plugin node ") + node + " (" + title + where + "): " + problem;
    log(Severity::kError, text.c_str());
    if (recorder != nullptr) recorder->reportError(nvinfer1::ErrorCode::kFAILED_EXECUTION, text.c_str());
  } catch (std::exception const&) {  // no memory for the text
    log(Severity::kError, problem);
  }
}

}  // namespace

Shape shape_of(nvinfer1::Dims const& dims) {
  Shape shape;
  shape.rank = static_cast<size_t>(std::clamp(dims.nbDims, 0, static_cast<int32_t>(kMaxRank)));
  for (size_t i = 0; i < shape.rank; ++i) shape.sizes[i] = std::max<int64_t>(dims.d[i], kUnknown);
  return shape;
}

PluginBody::PluginBody(std::shared_ptr<KernelData const> data) : data_(std::move(data)) {
  for (Tensor const& tensor : data_->inputs) data_type(tensor.type);
  for (Tensor const& tensor : data_->outputs) data_type(tensor.type);
}

bool PluginBody::supports(int32_t position, nvinfer1::PluginTensorDesc const& tensor) const {
  auto const index = static_cast<size_t>(position);
  size_t const inputs = data_->inputs.size();
  if (position < 0 || index >= inputs + data_->outputs.size()) return false;
  Tensor const& wanted = index < inputs ? data_->inputs[index] : data_->outputs[index - inputs];
  return tensor.format == format(wanted.layout) && tensor.type == data_type(wanted.type);
}

DataType PluginBody::output_type(int32_t output) const { return data_type(data_->outputs.at(output).type); }

void PluginBody::warn_of_types(DataType const* inputs, int32_t count) const noexcept {
  try {
    check_count("inputs", count, data_->inputs.size());
    for (int32_t i = 0; i < count; ++i) check_type(*data_, data_->inputs[i], inputs[i]);
  } catch (std::exception const& problem) {
    std::string const text =
        "plugin node " + data_->node + ": " + problem.what() + " (where layers are not strongly typed, TensorRT may)";
    log(Severity::kWarning, text.c_str());
  }
}

nvinfer1::DimsExprs PluginBody::output_shape(int32_t output, nvinfer1::DimsExprs const* inputs, int32_t count,
                                             nvinfer1::IExprBuilder& builder) const {
  check_count("inputs", count, data_->inputs.size());
  Shape shapes[kMaxTensors];
  for (int32_t i = 0; i < count; ++i) shapes[i] = shape_of(inputs[i]);
  check_shapes(*data_, shapes, nullptr);
  Symbols symbols{*data_, inputs, builder};
  Tensor const& tensor = data_->outputs.at(output);
  nvinfer1::DimsExprs result{};
  result.nbDims = static_cast<int32_t>(tensor.shape.size());
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (!tensor.shape[i].fold(symbols, result.d[i])) fail("TensorRT cannot express the shape of ", tensor.name);
  }
  return result;
}

void PluginBody::check(nvinfer1::PluginTensorDesc const* inputs, int32_t input_count,
                       nvinfer1::PluginTensorDesc const* outputs, int32_t output_count) const {
  check_count("inputs", input_count, data_->inputs.size());
  check_count("outputs", output_count, data_->outputs.size());
  Shape shapes[kMaxTensors];
  for (int32_t i = 0; i < input_count; ++i) {
    check_type(*data_, data_->inputs[i], inputs[i].type);
    shapes[i] = shape_of(inputs[i].dims);
  }
  for (int32_t i = 0; i < output_count; ++i) {
    check_type(*data_, data_->outputs[i], outputs[i].type);
    shapes[input_count + i] = shape_of(outputs[i].dims);
  }
  check_shapes(*data_, shapes, shapes + input_count);
}

void PluginBody::load() {
  if (loaded_ != nullptr && loaded_->is_for_current_context()) return;
  loaded_ = nullptr;
  is_prepared_ = false;
  loaded_ = LoadedKernel::load(data_);
}

size_t PluginBody::workspace(Shape const* largest_inputs) const {
  return static_cast<size_t>(largest_workspace(*data_, largest_inputs));
}

void PluginBody::substitute(Substitute substitute) {
  substitute_ = substitute;
  is_prepared_ = false;
}

void PluginBody::prepare(nvinfer1::PluginTensorDesc const* inputs, nvinfer1::PluginTensorDesc const* outputs) {
  size_t const input_count = data_->inputs.size(), count = input_count + data_->outputs.size();
  bool same = is_prepared_;
  for (size_t i = 0; i < count; ++i) {
    Shape const shape = shape_of(i < input_count ? inputs[i].dims : outputs[i - input_count].dims);
    same = same && shape == shapes_[i];
    shapes_[i] = shape;
  }
  if (same) return;
  is_prepared_ = false;
  if (loaded_ == nullptr) fail("the kernel is not loaded: TensorRT has not attached the plugin to a context");
  call_ = plan(*data_, shapes_, shapes_ + input_count, loaded_->gpu(), substitute_);
  is_prepared_ = true;
}

void PluginBody::enqueue(nvinfer1::PluginTensorDesc const* input_tensors,
                         nvinfer1::PluginTensorDesc const* output_tensors, void const* const* inputs,
                         void* const* outputs, void* workspace, cudaStream_t stream) {
  prepare(input_tensors, output_tensors);
  if (call_.variant >= 0) loaded_->launch(call_, inputs, outputs, workspace, stream);
}

void PluginBody::report(char const* where, char const* problem, nvinfer1::IErrorRecorder* recorder) const noexcept {
  report_problem(data_->node.c_str(), data_.get(), where, problem, recorder);
}

void report_new(KernelData const& data, char const* problem) noexcept {
  report_problem(data.node.c_str(), &data, "createPlugin", problem, nullptr);
}

std::shared_ptr<KernelData const> data_from(char const* node, void const* bytes, size_t size) noexcept {
  return guarded([&] { return KernelData::read(bytes, size); },
                 [&](char const* problem) {
                   report_problem(node == nullptr ? "" : node, nullptr, "createPlugin", problem, nullptr);
                 },
                 std::shared_ptr<KernelData const>());
}

std::shared_ptr<KernelData const> data_from(char const* node, nvinfer1::PluginFieldCollection const* fields) noexcept {
  for (int32_t i = 0; fields != nullptr && i < fields->nbFields; ++i) {
    nvinfer1::PluginField const& field = fields->fields[i];
    if (field.name == nullptr || std::strcmp(field.name, kDataField) != 0) continue;
    if (field.data == nullptr || field.length <= 0) break;
    return data_from(node, field.data, static_cast<size_t>(field.length));
  }
  report_problem(node == nullptr ? "" : node, nullptr, "createPlugin",
                 "its attribute data, which holds the kernel, is missing or empty: make the model with lenet-trt fuse "
                 "--embed",
                 nullptr);
  return nullptr;
}

}  // namespace lenet_trt
