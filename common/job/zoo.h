#ifndef STRATA_COMMON_JOB_ZOO_H_
#define STRATA_COMMON_JOB_ZOO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata {

// The shape of a data set's images.
struct ImageShape {
  uint32_t channels = 0, height = 0, width = 0;
  uint32_t classes = 0;
};

// The models that a job may name; training/nn/network defines them.
const std::vector<std::string>& ZooNames();

// Returns whether a model of the zoo has layers of batch normalisation.
bool HasBatchNorm(const std::string& model);

// Checks that a model accepts such images. `data` names the data set in the error. Errors: NotFound
// (no such model, listing all models); InvalidArgument (both shapes), one line each.
absl::Status CheckZooInput(const std::string& model, const std::string& data,
                           const ImageShape& shape);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ZOO_H_
