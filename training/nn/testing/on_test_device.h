#ifndef STRATA_TRAINING_NN_TESTING_ON_TEST_DEVICE_H_
#define STRATA_TRAINING_NN_TESTING_ON_TEST_DEVICE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "common/random.h"
#include "kernels/device/test_devices.h"
#include "training/nn/create_network.h"

namespace strata::worker {

// Runs tests of networks on the first of the test's devices.
inline float Noise(uint64_t key, uint64_t i) { return 2 * RandomUniform(key, i) - 1; }

inline std::vector<float> Images(size_t count, uint64_t key) {
  std::vector<float> images(count);
  for (size_t i = 0; i < count; ++i) images[i] = Noise(key, i);
  return images;
}

inline absl::StatusOr<Backend> OpenOnDevice(device::Precision precision) {
  static const auto device = device::FindTestDevices()->Use(0).value();
  return OpenBackend(device.get(), precision);
}
inline Backend OnDevice(device::Precision precision) { return OpenOnDevice(precision).value(); }

// Skips where the device's libraries are not installed.
template <typename Base>
class NeedsLibraries : public Base {
 protected:
  void SetUp() override {
    const absl::Status status = OpenOnDevice(device::Precision::kFloat32).status();
    if (absl::IsNotFound(status) || absl::IsUnimplemented(status)) GTEST_SKIP() << status.message();
    ASSERT_EQ(status, absl::OkStatus());
  }
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_TESTING_ON_TEST_DEVICE_H_
