#include "cli/bench_train.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/train/train_bench.h"
#include "cli/options.h"
#include "cli/own_binary.h"
#include "cli/table.h"

namespace strata::cli {
namespace {

struct Options {
  bench::TrainBenchOptions bench;
  JobOptions job;
  bool json = false;
};

std::string Text(const bench::TrainBenchOptions& options, const bench::TrainBenchResult& result) {
  std::vector<std::vector<std::string>> rows = {{"", "ranks", "nodes", "images/s", "scaling", "min",
                                                 "median", "p99 ms a step", "bound",
                                                 "share of the bound", "overhead"}};
  for (const bench::TrainFigures& one : result.figures) {
    const bool is_none = one.what.exchange == "none";
    auto ms = [](double value) { return absl::StrFormat("%.3f", value); };
    rows.push_back({one.what.exchange, absl::StrCat(one.what.ranks), absl::StrCat(one.what.nodes()),
                    absl::StrFormat("%.0f", one.median_rate), absl::StrFormat("%.3f", one.scaling),
                    ms(one.step.min_ms), ms(one.step.median_ms), ms(one.step.p99_ms),
                    ms(one.bound_ms), is_none ? "" : absl::StrFormat("%.3f", one.share),
                    is_none ? "" : absl::StrFormat("%+.1f %%", 100 * one.overhead())});
  }
  return absl::StrFormat(
             "train: %s, batch %d a rank, %d steps, %d rounds; weights of sync %s\n"
             "bound: as many ranks side by side that exchange nothing, in the same round; "
             "scaling: images/s over ranks x those of 1 that does not\n",
             options.job.empty() ? options.model : options.job, options.batch, options.steps,
             options.rounds,
             result.verified ? "the same in every round, of 1 rank as with no exchange" : "WRONG") +
         Table(rows);
}

std::string Json(const bench::TrainBenchOptions& options, const bench::TrainBenchResult& result) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const bench::TrainFigures& one : result.figures) {
    cases.push_back({{"exchange", one.what.exchange},
                     {"ranks", one.what.ranks},
                     {"nodes", one.what.nodes()},
                     {"images_per_s", one.median_rate},
                     {"scaling", one.scaling},
                     {"min_ms", one.step.min_ms},
                     {"median_ms", one.step.median_ms},
                     {"p99_ms", one.step.p99_ms},
                     {"bound_ms", one.bound_ms},
                     {"share", one.share},
                     {"shares", one.shares},
                     {"overhead", one.overhead()}});
  }
  const nlohmann::ordered_json all = {
      {"job", options.job},       {"model", options.job.empty() ? options.model : ""},
      {"batch", options.batch},   {"steps", options.steps},
      {"rounds", options.rounds}, {"servers", options.servers},
      {"cases", cases},           {"verified", result.verified}};
  return all.dump() + "\n";
}

int Run(Options options) {
  bench::TrainBenchOptions& bench = options.bench;
  const auto binary = OwnBinary();
  if (!binary.ok()) return PrintError(binary.status());
  bench.binary = binary->string();
  if (!options.job.path.empty()) options.job.settings = bench.settings;
  auto job = LoadJobIfGiven(options.job);
  if (!job.ok()) return PrintError(job.status());
  if (job->has_value()) {
    bench.job = options.job.path;
    if ((*job)->data().batch_per_rank() > 0) bench.batch = (*job)->data().batch_per_rank();
  }
  // Where figures go to standard output, what happens meanwhile does not disturb them.
  const auto result = bench::RunTrainBench(
      bench, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (!result.ok()) return PrintError(result.status());
  std::fputs((options.json ? Json(bench, *result) : Text(bench, *result)).c_str(), stdout);
  return result->verified ? kExitOk : PrintError("the weights were wrong", kExitFailed);
}

}  // namespace

void AddTrainBench(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench->add_subcommand(
      "train", "A job's trainer with each exchange, beside ranks that exchange nothing");
  bench::TrainBenchOptions& train = options->bench;
  command->add_option("--job", options->job.path,
                      "Job whose model, data and optimizer are taken (default: --model)");
  command->add_option("--model", train.model, "Built-in model, on made-up data")
      ->capture_default_str();
  command->add_option("--batch", train.batch, "Its samples per rank and step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--set", train.settings, "Changes the job: PATH=VALUE (see proto/job.proto)");
  command->add_option("--ranks", train.ranks_max, "1, 2, 4, ... ranks, up to these")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--exchanges", train.exchanges, "Of sync, lazy, async, ring")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--servers", train.servers, "Servers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--steps", train.steps, "Steps of each rank; the first eighth warms up")
      ->check(CLI::Range(2, 10000000))
      ->capture_default_str();
  command->add_option("--rounds", train.rounds, "How often all are run, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return Run(*options); }; });
}

}  // namespace strata::cli
