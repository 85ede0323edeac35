#ifndef STRATA_KERNELS_CUDA_CUDNN_DESCRIPTOR_H_
#define STRATA_KERNELS_CUDA_CUDNN_DESCRIPTOR_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/libraries.h"

namespace strata::cuda {

// A descriptor of cuDNN's graph interface. What goes wrong is kept: the first error is what
// Finalize says.
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

  // Returns at most `most` values, which begin as T(). Empty where there are none.
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

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_DESCRIPTOR_H_
