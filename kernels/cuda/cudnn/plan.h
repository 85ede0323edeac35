#ifndef STRATA_KERNELS_CUDA_CUDNN_PLAN_H_
#define STRATA_KERNELS_CUDA_CUDNN_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cudnn/libraries.h"
#include "kernels/device/layers.h"

namespace strata::cuda {

// A descriptor of cuDNN's graph interface. Errors are kept: Finalize returns the first one.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Libraries& libraries, cudnnBackendDescriptorType_t type)
      : libraries_(&libraries) {
    status_ = libraries.Check("cudnnBackendCreateDescriptor",
                              libraries.create_descriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) libraries_->destroy_descriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(libraries_, other.libraries_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(status_, other.status_);
    return *this;
  }

  template <typename T>
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const std::vector<T>& values) {
    if (!status_.ok()) return *this;
    status_ = libraries_->Check(
        "cudnnBackendSetAttribute",
        libraries_->set_attribute(descriptor_, name, type, static_cast<int64_t>(values.size()),
                                  values.data()));
    return *this;
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return Set(name, CUDNN_TYPE_INT64, values);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    if (status_.ok()) status_ = other.status_;
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.descriptor_});
  }

  absl::Status Finalize() {
    if (!status_.ok()) return status_;
    return status_ = libraries_->Check("cudnnBackendFinalize", libraries_->finalize(descriptor_));
  }

  // Returns at most `most` values, initialized to T(). Empty if there are none.
  template <typename T>
  std::vector<T> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t most) const {
    std::vector<T> values(most);
    int64_t count = 0;
    if (libraries_->get_attribute(descriptor_, name, type, most, &count, values.data()) !=
        CUDNN_STATUS_SUCCESS) {
      count = 0;
    }
    values.resize(std::min(count, most));
    return values;
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const absl::Status& status() const { return status_; }

 private:
  const Libraries* libraries_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

// A way to compute one pass of a convolution, and its needs.
struct Plan {
  std::shared_ptr<const void> graph;  // what the others refer to
  Descriptor configuration;
  Descriptor plan;
  int64_t engine = 0;  // cuDNN's number
  int64_t workspace_bytes = 0;
};

// Returns cuDNN's plans for this device, the most promising first, up to a maximum. Errors:
// Unimplemented (none).
absl::StatusOr<std::vector<Plan>> MakePlans(const Libraries& libraries, cudnnHandle_t handle,
                                            device::ConvolutionPass pass,
                                            const device::ConvolutionShape& shape,
                                            device::Precision precision, size_t workspace_bytes_max,
                                            size_t most);

// Operands as in device::Layers::Convolve. The handle's stream does the work.
absl::Status Execute(const Libraries& libraries, cudnnHandle_t handle, const Plan& plan,
                     const void* a, const void* b, void* out, void* workspace);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_PLAN_H_
