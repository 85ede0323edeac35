#ifndef STRATA_MEASURE_TRAIN_BENCH_MODELS_H_
#define STRATA_MEASURE_TRAIN_BENCH_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::bench {

// Models whose steps a core makes in less than half a second.
std::vector<std::string> SmallModels();

// Names, "small" (the above) or "all" (of the zoo) as names of models, each once. Errors:
// InvalidArgument (a name that the zoo does not have).
absl::StatusOr<std::vector<std::string>> ParseModels(const std::vector<std::string>& names);

// A job file for a model of the zoo: made-up data of the size that it was published with, 1 x 28 x
// 28 (mlp, lenet5, cnn, resnet8), 3 x 32 x 32 (resnet20) or 3 x 224 x 224. `batch` is of each rank;
// 0: 64, on a CPU 8 of the last ones.
std::string MakeJobText(const std::string& model, uint32_t batch, bool on_gpu);

}  // namespace strata::bench

#endif  // STRATA_MEASURE_TRAIN_BENCH_MODELS_H_
