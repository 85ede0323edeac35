#include "measure/train/train_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"

namespace strata::bench {
namespace {

nlohmann::ordered_json ToJson(const TrainFigures& figures) {
  if (!figures.why_not.empty()) {
    return {{"mode", figures.what.mode},
            {"ranks", figures.what.ranks},
            {"nodes", figures.what.nodes},
            {"why_not", figures.why_not}};
  }
  return {{"mode", figures.what.mode},
          {"ranks", figures.what.ranks},
          {"nodes", figures.what.nodes},
          {"steps", figures.steps},
          {"images_per_s", figures.rate.median},
          {"images_per_s_by_round", figures.medians},
          {"efficiency", figures.efficiency.median},
          {"efficiency_by_round", figures.efficiencies},
          {"min_ms", figures.step.min_ms},
          {"median_ms", figures.step.median_ms},
          {"p99_ms", figures.step.p99_ms},
          {"bound_ms", figures.bound_ms},
          {"share", figures.share},
          {"share_by_round", figures.shares},
          {"overhead", figures.overhead()}};
}

nlohmann::ordered_json ToJson(const TrainedModel& model) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const TrainFigures& figures : model.result.figures) cases.push_back(ToJson(figures));
  return {{"name", model.name},
          {"batch", model.batch},
          {"device", model.is_on_gpu ? "GPU" : "CPU"},
          {"precision", model.precision},
          {"cases", cases},
          {"verified", model.result.wrong.empty()},
          {"compared_bits", model.compares_bits},
          {"wrong", model.result.wrong}};
}

std::string Range(const Spread& spread, const char* format) {
  auto text = [&](double value) {
    return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value);
  };
  return absl::StrCat(text(spread.least), " - ", text(spread.most));
}

}  // namespace

std::vector<std::string> ListRules(const TrainReport& report) {
  std::vector<std::string> rules = {
      "base: 1 rank, exchange NONE, same device, precision and batch, 1 compute thread a rank, as "
      "all ranks have",
      "efficiency: images/s over ranks x those of the base in the same round",
      "none: as many jobs of 1 rank side by side; share: images/s over theirs in the same round; "
      "overhead: what the exchange adds to their step",
      absl::StrFormat(
          "%s, in turn, back and forth; %s; median and least - most of the rounds' medians",
          Counted(report.rounds, "round"),
          report.steps > 0
              ? Counted(report.steps, "step") + " of each rank, the first eighth "
                                                "warms up"
              : absl::StrFormat("about %g s each, the first eighth warms up", report.seconds)),
      absl::StrFormat("machine: %s (%s), load average %.1f before",
                      Counted(report.machine.cores, "core"), report.machine.processor,
                      report.machine.load_average)};
  const uint32_t ranks = report.cases.ranks_max;
  const uint32_t cores = report.machine.cores;
  if (!report.gpus.empty()) {
    rules.push_back(
        absl::StrCat("GPUs: ", absl::StrJoin(report.gpus, ", "),
                     "; jobs side by side, and nodes, take them in turn, and ranks that "
                     "share one share what it can do"));
  }
  bool is_on_cpu = false;
  for (const TrainedModel& model : report.models) is_on_cpu = is_on_cpu || !model.is_on_gpu;
  if (is_on_cpu && ranks > cores) {
    rules.push_back(absl::StrFormat(
        "note: %d ranks on %s: efficiency is at most %.2f whatever the exchange and says nothing "
        "of it; share does",
        ranks, Counted(cores, "core"), static_cast<double>(cores) / ranks));
  }
  if (is_on_cpu) {
    rules.push_back(
        "note: servers and aggregators compute on the same cores, which in a cluster they do not");
  }
  return rules;
}

std::string ModelTitle(const TrainedModel& model) {
  return absl::StrFormat("%s, batch %d a rank, on %s in %s; %s", model.name, model.batch,
                         model.is_on_gpu ? "GPU" : "CPU", model.precision,
                         !model.result.wrong.empty() ? "WRONG: " + model.result.wrong
                         : model.compares_bits
                             ? "verified: finite losses, all samples, sync's weights"
                             : "verified: finite losses, all samples");
}

std::vector<std::vector<std::string>> TableRows(const TrainedModel& model) {
  std::vector<std::vector<std::string>> rows = {{"mode", "ranks", "nodes", "images/s",
                                                 "least - most", "efficiency", "least - most",
                                                 "ms a step", "p99", "share", "overhead"}};
  for (const TrainFigures& one : model.result.figures) {
    if (!one.why_not.empty()) {
      rows.push_back({one.what.mode, absl::StrCat(one.what.ranks), absl::StrCat(one.what.nodes)});
      rows.back().resize(rows.front().size(), "-");
      rows.back().push_back(one.why_not);
      continue;
    }
    const bool is_none = one.what.is_none();
    rows.push_back({one.what.mode, absl::StrCat(one.what.ranks), absl::StrCat(one.what.nodes),
                    absl::StrFormat("%.0f", one.rate.median), Range(one.rate, "%.0f"),
                    absl::StrFormat("%.3f", one.efficiency.median),
                    is_none && one.what.ranks == 1 ? "base" : Range(one.efficiency, "%.3f"),
                    absl::StrFormat("%.3f", one.step.median_ms),
                    absl::StrFormat("%.3f", one.step.p99_ms),
                    is_none ? "" : absl::StrFormat("%.3f", one.share),
                    is_none ? "" : absl::StrFormat("%+.1f %%", 100 * one.overhead())});
  }
  return rows;
}

std::string ToJson(const TrainReport& report) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  bool is_verified = true;
  for (const TrainedModel& model : report.models) {
    models.push_back(ToJson(model));
    is_verified = is_verified && model.result.wrong.empty();
  }
  const nlohmann::ordered_json all = {
      {"base", "1 rank, exchange NONE, same device, precision and batch, 1 compute thread a rank"},
      {"cores", report.machine.cores},
      {"processor", report.machine.processor},
      {"load_average", report.machine.load_average},
      {"gpus", report.gpus},
      {"rounds", report.rounds},
      {"servers", report.cases.servers},
      {"ranks_per_node", report.cases.ranks_per_node},
      {"models", models},
      {"verified", is_verified}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace strata::bench
