#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/bench.h"
#include "cli/bench/exchange_rank.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "common/log.h"

namespace strata::cli {
namespace {

struct BenchOptions {
  ExchangeBenchOptions bench;
  bool json = false;
};

std::string Ms(double ms) { return ms > 0 ? absl::StrFormat("%.3f", ms) : "-"; }

std::string Text(const ExchangeBenchOptions& options, const ExchangeBenchResult& result) {
  const std::string servers =
      options.exchange == "ps" ? absl::StrFormat(", %s of %s", Counted(options.servers, "server"),
                                                 Counted(options.shards, "shard"))
                               : "";
  const double bytes = static_cast<double>(options.bytes);
  std::string text = absl::StrFormat(
      "%s, %s of %s%s, %s; %.3f MiB each in %s of %d elements, window %d%s\n", options.exchange,
      Counted(options.nodes, "node"), Counted(options.ranks_per_node, "rank"), servers,
      options.hosts_file.empty() ? "one host" : "a host each", bytes / (1 << 20),
      Counted(result.chunks, "chunk"), result.chunk_elements, result.window,
      result.encoding.empty() ? "" : ", " + result.encoding);
  absl::StrAppendFormat(
      &text, "link: %s, %s; %s after %d of warm-up, values %s\n",
      result.bytes_per_s > 0
          ? absl::StrFormat("%.1f MB/s (%s)", result.bytes_per_s / 1e6, result.bandwidth_source)
          : result.bandwidth_source,
      result.congestion, Counted(result.steps_ms.size(), "step"), options.warmup,
      result.verified ? "verified" : "WRONG");
  const cli::Figures& figures = result.figures;
  const bool is_bound = result.bound_ms > 0;
  text += Table({{"", "min", "median", "p99", "bound", "share of the bound"},
                 {"ms a step", Ms(figures.min_ms), Ms(figures.median_ms), Ms(figures.p99_ms),
                  Ms(result.bound_ms), is_bound ? absl::StrFormat("%.3f", result.share()) : "-"}});
  return text;
}

// 0 stands for what was not measured.
nlohmann::ordered_json Known(double figure) {
  return figure > 0 ? nlohmann::ordered_json(figure) : nlohmann::ordered_json();
}

std::string Json(const ExchangeBenchOptions& options, const ExchangeBenchResult& result) {
  const nlohmann::ordered_json json = {
      {"exchange", options.exchange},
      {"nodes", options.nodes},
      {"ranks_per_node", options.ranks_per_node},
      {"servers", options.exchange == "ps" ? options.servers : 0},
      {"shards", options.shards},
      {"one_host", options.hosts_file.empty()},
      {"bytes", options.bytes},
      {"chunks", result.chunks},
      {"chunk_elements", result.chunk_elements},
      {"window", result.window},
      {"encoding", result.encoding.empty() ? "fp32" : result.encoding},
      {"settings", options.settings},
      {"steps", result.steps_ms.size()},
      {"steps_ms", result.steps_ms},
      {"warmup", options.warmup},
      {"min_ms", result.figures.min_ms},
      {"median_ms", result.figures.median_ms},
      {"p99_ms", result.figures.p99_ms},
      {"bound_ms", Known(result.bound_ms)},
      {"share", Known(result.share())},
      {"bytes_per_s", Known(result.bytes_per_s)},
      {"bandwidth_source", result.bandwidth_source},
      {"congestion", result.congestion},
      {"verified", result.verified},
  };
  return json.dump() + "\n";
}

int RunBench(const BenchOptions& options) {
  const auto result = RunExchangeBench(options.bench);
  if (!result.ok()) return PrintError(result.status());
  options.json ? PrintJson(stdout, Json(options.bench, *result))
               : PrintText(stdout, Text(options.bench, *result));
  return result->verified ? kExitOk : PrintError("the values were wrong", kExitFailed);
}

void AddExchangeOptions(CLI::App* command, BenchOptions* options) {
  ExchangeBenchOptions& bench = options->bench;
  command->add_option("--exchange", bench.exchange, "ps (servers), or another of job.proto's")
      ->capture_default_str();
  command->add_option("--nodes", bench.nodes, "Nodes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--ranks", bench.ranks_per_node, "Ranks per node")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--servers", bench.servers, "Servers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--shards", bench.shards, "Shards per server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--bytes", bench.bytes, "Bytes of each rank's gradient, like 64MiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{4}, uint64_t{1} << 36))
      ->capture_default_str();
  command->add_option("--window", bench.window, "Unanswered pushes per shard (default: the job's)");
  command->add_option("--chunk-elements", bench.chunk_elements,
                      "Elements per chunk (default: the job's)");
  command->add_option("--steps", bench.steps, "Steps that are measured")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command->add_option("--warmup", bench.warmup, "Steps before them")->capture_default_str();
  command->add_option("--set", bench.settings, "Changes the job: PATH=VALUE (see proto/job.proto)");
  command->add_option(
      "--hosts-file", bench.hosts_file,
      "A host for each node and then for each server: lines NAME ADDRESS COMMAND..., "
      "as bench/netlab.sh writes them (default: all on this host)");
  command->add_option("--bandwidth-mbit", bench.bandwidth_mbit,
                      "Of a link, for the bound (default: iperf3 measures it)");
  command->add_option("--measure-s", bench.measure_s, "For how long; 0: not at all")
      ->check(CLI::Range(0, 60))
      ->capture_default_str();
  AddJsonOption(command, &options->json);
}

// Exchange and latency have different default measurements.
void AddMeasurement(CLI::App* bench, Invocation* invocation, const char* name, const char* help,
                    const ExchangeBenchOptions& defaults) {
  auto options = std::make_shared<BenchOptions>();
  options->bench = defaults;
  CLI::App* command = bench->add_subcommand(name, help);
  AddExchangeOptions(command, options.get());
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return RunBench(*options); }; });
}

struct RankOptions {
  std::string launch;
  cli::ExchangeRankOptions rank;
};

int RunRank(const RankOptions& options) {
  auto client = client::Client::Connect(options.launch);
  if (!client.ok()) return PrintError(client.status());
  const absl::Status status = cli::RunExchangeRank(client->get(), options.rank);
  if (status.ok()) return kExitOk;
  // If something outside ended the job, the client knows already.
  if (!absl::IsUnavailable(status)) (*client)->Fail(status);
  return PrintError(std::string(status.message()), kExitFailed);
}

// Started by the worker daemon only, so it is not in the help.
void AddRank(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<RankOptions>();
  CLI::App* command = bench->add_subcommand("rank", "A rank that is measured")->group("");
  command->add_option("--launch", options->launch)->required();
  command->add_option("--elements", options->rank.elements)->required();
  command->add_option("--steps", options->rank.steps)->required();
  command->add_option("--gate", options->rank.gate)->required();
  command->add_flag("--sums", options->rank.sums);
  command->callback([=] { invocation->run = [=] { return RunRank(*options); }; });
}

}  // namespace

void AddBenchCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* bench = app->add_subcommand(
      "bench", "Measure: each figure beside its bound, and all values verified");
  bench->require_subcommand(1);
  ExchangeBenchOptions exchange, latency;
  exchange.bytes = uint64_t{64} << 20;
  AddMeasurement(bench, invocation, "exchange",
                 "A step's gradients from all nodes to new weights on all nodes", exchange);
  latency.bytes = 256 << 10;
  latency.steps = 1000;
  latency.warmup = 100;
  latency.measure_s = 0;
  AddMeasurement(bench, invocation, "latency",
                 "A step of a small model: what one costs, whatever its size", latency);
  AddAggregateBench(bench, invocation);
  AddKernelsBench(bench, invocation);
  AddTrainBench(bench, invocation);
  AddRank(bench, invocation);
  bench->footer(
      "Examples:\n"
      "  strata bench exchange --nodes 2 --servers 1 --bytes 100MiB\n"
      "  bench/netlab.sh --hosts 8 --once -- strata bench exchange --hosts-file {hosts} "
      "--nodes 4 --servers 4\n"
      "  strata bench latency --json\n"
      "  strata bench aggregate --ranks 4\n"
      "  strata bench kernels --filter 'sum|adam'\n"
      "  strata bench train --model lenet5 --ranks 4");
}

}  // namespace strata::cli
