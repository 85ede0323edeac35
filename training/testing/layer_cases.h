#ifndef STRATA_TRAINING_TESTING_LAYER_CASES_H_
#define STRATA_TRAINING_TESTING_LAYER_CASES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "training/nn/network/model.h"

namespace strata::worker {

// Small models of every layer in its error-prone positions, with which every backend is tested.
struct LayerCase {
  std::string name;
  Shape input;
  std::vector<LayerSpec> layers;
  uint32_t batch = 3;
};

inline void PrintTo(const LayerCase& value, std::ostream* out) { *out << value.name; }

std::vector<LayerCase> SimpleLayerCases();
std::vector<LayerCase> ShortcutCases();
std::vector<LayerCase> ConcatCases();
std::vector<LayerCase> JoinCases();

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TESTING_LAYER_CASES_H_
