#include "common/job/zoo.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace strata {
namespace {

// Rows and columns are at least `size_min`, so that every layer has at least one window.
struct Wanted {
  const char* name;
  uint32_t size_min;
  bool has_batch_norm = false;
  bool is_mnist = false;  // 1 x 28 x 28 and 10 classes, nothing else
};

constexpr std::array<Wanted, 9> kZoo = {
    {{.name = "mlp", .size_min = 1},
     {.name = "lenet5", .size_min = 28, .is_mnist = true},
     {.name = "cnn", .size_min = 4, .has_batch_norm = true},
     {.name = "resnet8", .size_min = 1, .has_batch_norm = true},
     {.name = "resnet20", .size_min = 1, .has_batch_norm = true},
     {.name = "alexnet", .size_min = 63},
     {.name = "vgg16", .size_min = 32},
     {.name = "googlenet", .size_min = 32, .has_batch_norm = true},
     {.name = "resnet50", .size_min = 32, .has_batch_norm = true}}};

const Wanted* Find(const std::string& model) {
  const auto wanted = std::find_if(kZoo.begin(), kZoo.end(),
                                   [&](const Wanted& entry) { return model == entry.name; });
  return wanted == kZoo.end() ? nullptr : &*wanted;
}

}  // namespace

const std::vector<std::string>& ZooNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Wanted& model : kZoo) all.emplace_back(model.name);
    return all;
  }();
  return names;
}

bool HasBatchNorm(const std::string& model) {
  const Wanted* const wanted = Find(model);
  return wanted != nullptr && wanted->has_batch_norm;
}

absl::Status CheckZooInput(const std::string& model, const std::string& data,
                           const ImageShape& shape) {
  const Wanted* const wanted = Find(model);
  if (wanted == nullptr) {
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
