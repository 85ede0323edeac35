#include "cli/bench/train_case.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "common/job/zoo.h"

namespace strata::cli {

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

namespace {

const char* const kModes[] = {"sync", "lazy", "async", "ring", "nccl"};

// 0: these ranks do not fill nodes.
uint32_t NodesOf(const std::string& mode, uint32_t ranks, uint32_t ranks_per_node) {
  if (mode == "none") return ranks;
  if (ranks_per_node == 0) return mode == "ring" ? ranks : 1;
  if (ranks <= ranks_per_node) return 1;
  return ranks % ranks_per_node == 0 ? ranks / ranks_per_node : 0;
}

}  // namespace

std::vector<TrainCase> MakeCases(const TrainCaseOptions& options) {
  std::vector<TrainCase> cases;
  for (uint32_t ranks = 1; ranks <= options.ranks_max;
       ranks = ranks < options.ranks_max ? std::min(2 * ranks, options.ranks_max) : ranks + 1) {
    cases.push_back({"none", ranks, ranks});
    for (const std::string& mode : options.modes) {
      const uint32_t nodes = NodesOf(mode, ranks, options.ranks_per_node);
      if (nodes > (mode == "ring" ? 1u : 0u)) cases.push_back({mode, ranks, nodes});
    }
  }
  return cases;
}

absl::Status CheckModes(const std::vector<std::string>& modes) {
  for (const std::string& mode : modes) {
    if (absl::c_linear_search(kModes, mode)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--modes ", mode, ": not one of ", absl::StrJoin(kModes, ", ")));
  }
  return absl::OkStatus();
}

std::string WhyNot(const TrainCase& what, const GpuRoom& room) {
  if (room.gpus.empty() || what.is_none()) return "";
  const size_t gpus = room.gpus.size();
  if (what.mode == "nccl" && what.ranks > gpus) {
    return absl::StrCat("NCCL needs a GPU for each rank: ", Counted(what.ranks, "rank"), ", ",
                        Counted(gpus, "GPU"));
  }
  // `strata local` divides GPUs among nodes, or gives each node one where they are fewer.
  const size_t slots = std::max<size_t>(1, gpus / what.nodes) * room.ranks_per_gpu;
  const uint32_t ranks = what.ranks / what.nodes;
  if (ranks <= slots) return "";
  return absl::StrCat("a node's ", Counted(ranks, "rank"), " have ", Counted(slots, "GPU slot"),
                      " (--gpus, --ranks-per-gpu)");
}

std::vector<std::string> MakeCommand(const TrainCase& what, const TrainRun& run) {
  const uint32_t ranks = what.is_none() ? 1 : what.ranks;
  const uint32_t nodes = what.is_none() ? 1 : what.nodes;
  std::vector<std::string> command = {
      "strata",      "local",
      "--log-level", "error",
      "--job",       run.job,
      "--servers",   absl::StrCat(what.has_servers() ? run.servers : 0),
      "--nodes",     absl::StrCat(nodes),
      "--slots",     absl::StrCat(ranks / nodes),
      "--runs",      run.dir};
  command.insert(command.end(), run.cluster.begin(), run.cluster.end());
  if (!run.gpus.empty()) command.insert(command.end(), {"--gpus", absl::StrJoin(run.gpus, ",")});
  auto set = [&](const std::string& setting) { command.insert(command.end(), {"--set", setting}); };
  set(absl::StrCat("ranks=", ranks));
  set(absl::StrCat("ranks_per_node=", ranks / nodes));
  set(absl::StrCat("max_steps=", run.steps));
  set("epochs=0");
  set("evaluation.every_epochs=1000000");
  set(absl::StrCat("metrics.every_steps=", std::max<uint64_t>(1, run.steps / kWindows)));
  set(absl::StrCat("run_dir=\"", run.dir, "/run\""));
  if (what.is_none()) {
    // Without an exchange there is nothing to encode.
    for (const char* setting : {"push={}", "pull={}", "exchange=NONE"}) set(setting);
  }
  if (what.mode == "ring") set("exchange=RING");
  if (what.mode == "nccl") set("exchange=NCCL");
  if (!what.is_none()) {
    command.insert(command.end(), {"--mode", what.has_servers() ? what.mode : "sync"});
  }
  return command;
}

}  // namespace strata::cli
