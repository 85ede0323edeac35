#include "measure/train/bench_models.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/zoo/zoo.h"

namespace strata::bench {
namespace {

const char* const kSmall[] = {"mlp", "lenet5", "cnn", "resnet8", "resnet20"};

}  // namespace

std::vector<std::string> SmallModels() { return {std::begin(kSmall), std::end(kSmall)}; }

absl::StatusOr<std::vector<std::string>> ParseModels(const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    std::vector<std::string> meant = {name};
    if (name == "small") meant = SmallModels();
    if (name == "all") meant = ZooNames();
    for (const std::string& model : meant) {
      if (!absl::c_linear_search(ZooNames(), model)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--models ", model, ": not one of ", absl::StrJoin(ZooNames(), ", "), ", small, all"));
      }
      if (!absl::c_linear_search(models, model)) models.push_back(model);
    }
  }
  return models;
}

std::string MakeJobText(const std::string& model, uint32_t batch, bool on_gpu) {
  const bool is_small = absl::c_linear_search(kSmall, model);
  if (batch == 0) batch = is_small || on_gpu ? 64 : 8;
  const uint64_t samples = std::max<uint64_t>(8192, batch);
  // The final model is measured on the test data, which is not what is timed here.
  const std::string data =
      is_small
          ? absl::StrFormat("synthetic { %strain_samples: %d test_samples: 64 }",
                            model == "resnet20" ? "channels: 3 height: 32 width: 32 " : "", samples)
          : "synthetic_imagenet { test_samples: 8 }";
  return absl::StrFormat(
      "name: \"bench\"\n"
      "model { zoo: \"%s\" }\n"
      "data { %s batch_per_rank: %d }\n"
      "schedule { base_lr: 0.01 }\n",
      model, data, batch);
}

}  // namespace strata::bench
