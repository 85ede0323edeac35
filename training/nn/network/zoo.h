#ifndef STRATA_TRAINING_NN_NETWORK_ZOO_H_
#define STRATA_TRAINING_NN_NETWORK_ZOO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "training/nn/network/model.h"

namespace strata::training {

// A model of the zoo (common/job/zoo.h has the names) for images of that shape. `data` names
// the data set in errors. Errors: NotFound (no such model, naming those that are); InvalidArgument
// (the model does not fit the images or the number of classes).
absl::StatusOr<ModelSpec> MakeModel(const std::string& name, const Shape& input, uint32_t classes,
                                    const std::string& data = "the data");

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_NETWORK_ZOO_H_
