#include "common/job/zoo/zoo.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace strata {
namespace {

// Rows and columns are at least `size_min`, so that no layer is left with less than a window.
struct Wanted {
  const char* name;
  uint32_t size_min;
  bool is_mnist = false;  // 1 x 28 x 28 and 10 classes, nothing else
};

constexpr std::array<Wanted, 9> kZoo = {{{"mlp", 1},
                                         {"lenet5", 28, true},
                                         {"cnn", 4},
                                         {"resnet8", 1},
                                         {"resnet20", 1},
                                         {"alexnet", 63},
                                         {"vgg16", 32},
                                         {"googlenet", 32},
                                         {"resnet50", 32}}};

}  // namespace

const std::vector<std::string>& ZooNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Wanted& model : kZoo) all.emplace_back(model.name);
    return all;
  }();
  return names;
}

absl::Status CheckZooInput(const std::string& model, const std::string& data,
                           const ImageShape& shape) {
  const auto wanted = std::find_if(kZoo.begin(), kZoo.end(),
                                   [&](const Wanted& entry) { return model == entry.name; });
  if (wanted == kZoo.end()) {
    return absl::NotFoundError(absl::StrFormat("no model '%s' in the zoo: %s are there", model,
                                               absl::StrJoin(ZooNames(), ", ")));
  }
  const bool fits = wanted->is_mnist ? shape.channels == 1 && shape.height == 28 &&
                                           shape.width == 28 && shape.classes == 10
                                     : std::min(shape.height, shape.width) >= wanted->size_min;
  if (fits) return absl::OkStatus();
  const std::string needs =
      wanted->is_mnist ? "1 x 28 x 28 and 10 classes"
                       : absl::StrFormat("at least %d x %d", wanted->size_min, wanted->size_min);
  return absl::InvalidArgumentError(absl::StrFormat(
      "model %s does not fit %s (images of %d x %d x %d, %d classes): it needs %s", model, data,
      shape.channels, shape.height, shape.width, shape.classes, needs));
}

}  // namespace strata
