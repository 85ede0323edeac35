#include "worker/agent/metrics_line.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace strata::worker {
namespace {

void AddMeasured(const proto::MetricsRecord& record, nlohmann::ordered_json* line) {
  if (record.has_test_accuracy()) (*line)["test_accuracy"] = record.test_accuracy();
  if (record.has_test_loss()) (*line)["test_loss"] = record.test_loss();
  if (record.values().empty()) return;
  // By name.
  (*line)["values"] = std::map<std::string, double>(record.values().begin(), record.values().end());
}

}  // namespace

bool HasMeasured(const proto::MetricsRecord& record) {
  return record.has_test_accuracy() || !record.values().empty();
}

bool IsLateMeasurement(const proto::MetricsRecord& record) {
  return record.samples() == 0 && HasMeasured(record) && !record.final();
}

std::string MetricsLine(const proto::MetricsRecord& record) {
  nlohmann::ordered_json line;
  line["step"] = record.step();
  if (IsLateMeasurement(record)) {
    AddMeasured(record, &line);
    line["elapsed_s"] = record.elapsed_s();
    return line.dump();
  }
  line["samples"] = record.samples();
  line["epoch"] = record.epoch();
  line["loss"] = record.loss();
  line["samples_per_s"] = record.samples_per_s();
  line["bytes_pushed"] = record.bytes_pushed();
  line["bytes_answered"] = record.bytes_answered();
  line["staleness"] = std::vector<uint64_t>(record.staleness().begin(), record.staleness().end());
  line["waiting_share"] = record.waiting_share();
  if (record.has_hidden_share()) line["hidden_share"] = record.hidden_share();
  AddMeasured(record, &line);
  line["elapsed_s"] = record.elapsed_s();
  line["pushes"] = record.pushes();
  line["pushes_during_backward"] = record.pushes_during_backward();
  line["lr"] = record.lr();
  if (record.final()) line["final"] = true;
  return line.dump();
}

}  // namespace strata::worker
