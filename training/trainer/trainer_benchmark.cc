// Images per second of the trainer with one compute thread and no exchange, optimizer and batch
// preparation included. `trainer_benchmark [--tiny] [MODEL...]`; default lenet5 and cnn.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "google/protobuf/text_format.h"
#include "training/trainer/recording_client.h"
#include "training/trainer/trainer.h"

namespace strata::training {
namespace {

constexpr int kBatch = 64;

// Returns false where training did not lower the loss: then the figure is worth nothing.
bool Measure(const std::string& model, uint64_t steps, uint64_t window) {
  const std::string dir = std::filesystem::temp_directory_path().string() + "/trainer_benchmark." +
                          std::to_string(getpid());
  std::filesystem::create_directories(dir);
  const std::string job = absl::StrCat(
      "name: 'benchmark' seed: 1 model { zoo: '", model, "' } data { batch_per_rank: ", kBatch,
      " synthetic { test_samples: 64 } } optimizer { momentum_sgd { momentum: 0.9 } } "
      "schedule { base_lr: 0.01 constant {} } max_steps: ",
      steps, " metrics { every_steps: ", window, " } evaluation { every_epochs: 1000000 }");
  TrainerOptions options;
  options.run_dir = dir;
  if (!google::protobuf::TextFormat::ParseFromString(job, &options.job)) return false;
  RecordingClient client(job, dir);
  auto outcome = RunTrainer(options, client);
  std::filesystem::remove_all(dir);
  if (!outcome.ok()) {
    std::fprintf(stderr, "%s\n", outcome.status().ToString().c_str());
    return false;
  }
  std::vector<double> speeds;
  for (const client::Report& report : client.reports) {
    // Windows at the ends of epochs may be shorter and hold more of what is not steps.
    if (report.end_step - report.first_step == window && !report.final) {
      speeds.push_back(report.samples / report.wall_s);
    }
  }
  if (speeds.empty()) speeds.push_back(outcome->samples / outcome->wall_s);
  std::sort(speeds.begin(), speeds.end());
  const double first = client.reports.front().loss_sum / client.reports.front().samples;
  const bool learned = outcome->loss < 0.8 * first;
  std::printf(
      "%-8s batch %d, 1 thread, no exchange: %8.0f images/s (median of %zu windows of %d "
      "steps, best %.0f); loss %.3f -> %.3f%s\n",
      model.c_str(), kBatch, speeds[speeds.size() / 2], speeds.size(), static_cast<int>(window),
      speeds.back(), first, outcome->loss, learned ? "" : "  NOT LEARNED");
  return learned;
}

int Main(std::vector<std::string> arguments) {
  if (!InitLogging("warning", "trainer_benchmark").ok()) return 1;
  const auto tiny = std::find(arguments.begin(), arguments.end(), "--tiny");
  const bool is_tiny = tiny != arguments.end();
  if (is_tiny) arguments.erase(tiny);
  if (arguments.empty()) arguments = {"lenet5", "cnn"};
  bool good = true;
  for (const std::string& model : arguments) {
    good &= is_tiny ? Measure(model, 24, 8) : Measure(model, model == "cnn" ? 200 : 1000, 20);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace strata::training

int main(int argc, char** argv) {
  return strata::training::Main(std::vector<std::string>(argv + 1, argv + argc));
}
