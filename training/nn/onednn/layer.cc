#include "training/nn/onednn/layer.h"

namespace strata::training {

using dnnl::memory;

Relayout Relayout::Import(const Device& device, memory outside, const memory::desc& wanted) {
  Relayout result;
  result.inside_ = outside;
  if (outside.get_desc() == wanted) return result;
  result.inside_ = memory(wanted, device.engine);
  result.copy_ = {dnnl::reorder(outside, result.inside_),
                  {{DNNL_ARG_FROM, outside}, {DNNL_ARG_TO, result.inside_}}};
  return result;
}

Relayout Relayout::Export(const Device& device, memory outside, const memory::desc& wanted) {
  Relayout result;
  result.inside_ = outside;
  if (outside.get_desc() == wanted) return result;
  result.inside_ = memory(wanted, device.engine);
  result.copy_ = {dnnl::reorder(result.inside_, outside),
                  {{DNNL_ARG_FROM, result.inside_}, {DNNL_ARG_TO, outside}}};
  return result;
}

memory::desc AnyLayout(const memory::dims& dims) {
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

memory::desc PlainLayout(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return {dims, memory::data_type::f32, strides};
}

memory Unplaced(const Device& device, const memory::desc& desc) {
  return memory(desc, device.engine, DNNL_MEMORY_NONE);
}

}  // namespace strata::training
