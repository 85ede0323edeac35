#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/bench.h"
#include "cli/bench/figures.h"
#include "cli/bench/node_bench.h"
#include "cli/options/options.h"
#include "cli/options/own_binary.h"
#include "cli/options/terminal.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "worker/contract/launch.h"

namespace strata::cli {
namespace {

struct Options {
  NodeBenchOptions bench;
  bool json = false;
};

std::string Text(const Options& options, const NodeBenchResult& result) {
  const Figures steps = MakeFigures(result.steps_ms);
  const Figures bound = MakeFigures(result.bound_ms);
  const double share = BoundShare(result.bound_ms, result.steps_ms);
  auto ms = [](double value) { return absl::StrFormat("%.3f", value); };
  const double moved =
      static_cast<double>(options.bench.bytes) * static_cast<double>(options.bench.ranks + 1);
  return absl::StrFormat(
             "aggregate: %s of one node, %.3f MiB each in %s of %d elements; the sum only\n"
             "%s to add; %s after %d of warm-up, values %s\n"
             "bound: %s read %d vectors and write one, %.1f GB/s of memory, after each step\n",
             Counted(options.bench.ranks, "rank"),
             static_cast<double>(options.bench.bytes) / (1 << 20), Counted(result.chunks, "chunk"),
             result.chunk_elements, Counted(result.threads, "thread"),
             Counted(result.steps_ms.size(), "step"), options.bench.warmup,
             result.verified ? "verified" : "WRONG", Counted(result.bound_threads, "thread"),
             options.bench.ranks, bound.median_ms > 0 ? moved / bound.median_ms / 1e6 : 0) +
         Table({{"", "min", "median", "p99", "bound", "share of the bound"},
                {"ms a step", ms(steps.min_ms), ms(steps.median_ms), ms(steps.p99_ms),
                 ms(bound.median_ms), ms(share)}});
}

std::string Json(const Options& options, const NodeBenchResult& result) {
  const Figures steps = MakeFigures(result.steps_ms);
  const nlohmann::ordered_json json = {
      {"ranks", options.bench.ranks},
      {"bytes", options.bench.bytes},
      {"chunks", result.chunks},
      {"chunk_elements", result.chunk_elements},
      {"threads", result.threads},
      {"steps", result.steps_ms.size()},
      {"steps_ms", result.steps_ms},
      {"warmup", options.bench.warmup},
      {"min_ms", steps.min_ms},
      {"median_ms", steps.median_ms},
      {"p99_ms", steps.p99_ms},
      {"bound_ms", MakeFigures(result.bound_ms).median_ms},
      {"bounds_ms", result.bound_ms},
      {"bound_threads", result.bound_threads},
      {"share", BoundShare(result.bound_ms, result.steps_ms)},
      {"verified", result.verified},
  };
  return json.dump() + "\n";
}

int Run(Options options) {
  const auto binary = OwnBinary();
  if (!binary.ok()) return PrintError(binary.status());
  options.bench.binary = binary->string();
  const auto result = RunNodeBench(options.bench);
  if (!result.ok()) return PrintError(result.status());
  options.json ? PrintJson(stdout, Json(options, *result))
               : PrintText(stdout, Text(options, *result));
  return result->verified ? kExitOk : PrintError("the values were wrong", kExitFailed);
}

struct NodeOptions {
  std::string launch;
  std::optional<uint32_t> helpers;
};

int RunNode(const NodeOptions& options, const Invocation& invocation) {
  auto launch = client::ReadLaunch(options.launch);
  if (!launch.ok()) return PrintError(launch.status());
  if (absl::Status status = StartLogging(invocation, "aggregator"); !status.ok()) {
    return PrintError(status);
  }
  const absl::Status status = worker::RunAggregatorProcess(*launch, SumsOnly(options.helpers));
  return status.ok() ? kExitOk : PrintError(std::string(status.message()), kExitFailed);
}

// Started by `aggregate` only, so it is not in the help.
void AddNode(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<NodeOptions>();
  CLI::App* command = bench->add_subcommand("node", "An aggregator that is measured")->group("");
  command->add_option("--launch", options->launch)->required();
  command->add_option("--helpers", options->helpers);
  command->callback([=] { invocation->run = [=] { return RunNode(*options, *invocation); }; });
}

}  // namespace

void AddAggregateBench(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench->add_subcommand(
      "aggregate", "The node level: the gradients of a node's ranks to their sum, for all to see");
  NodeBenchOptions& node = options->bench;
  command->add_option("--ranks", node.ranks, "Ranks, a process each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--bytes", node.bytes, "Bytes of each rank's gradient, like 64MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{4}, uint64_t{1} << 36))
      ->capture_default_str();
  command->add_option("--chunk-elements", node.chunk_elements,
                      "Elements per chunk (default: a job's)");
  command
      ->add_option("--helpers", node.helpers,
                   "Threads that help the aggregator's to add while ranks sleep "
                   "(default: as in a job)")
      ->check(CLI::Range(0, 64));
  command->add_option("--steps", node.steps, "Steps that are measured")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command->add_option("--warmup", node.warmup, "Steps before them")->capture_default_str();
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return Run(*options); }; });
  AddNode(bench, invocation);
}

}  // namespace strata::cli
