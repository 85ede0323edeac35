#include "cli/commands/metrics_lines.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

// Reads the fields of one line, and keeps the first error.
class Line {
 public:
  explicit Line(Json json) : json_(std::move(json)) {}

  bool Has(const char* name) const { return json_.contains(name); }

  uint64_t Count(const char* name) { return Has(name) ? CountOf(json_.at(name), name) : 0; }
  std::vector<uint64_t> Counts(const char* name) {
    std::vector<uint64_t> counts;
    if (!Has(name)) return counts;
    const Json& field = json_.at(name);
    if (!field.is_array()) Fail(name, "is no list of counts");
    for (size_t i = 0; field.is_array() && i < field.size(); ++i) {
      counts.push_back(CountOf(field.at(i), name));
    }
    return counts;
  }
  double Number(const char* name) { return Has(name) ? NumberOf(json_.at(name), name) : 0; }
  std::vector<std::pair<std::string, double>> Numbers(const char* name) {
    std::vector<std::pair<std::string, double>> numbers;
    if (!Has(name)) return numbers;
    const Json& field = json_.at(name);
    if (!field.is_object()) Fail(name, "is no object of numbers");
    if (!field.is_object()) return numbers;
    for (const auto& [key, value] : field.items()) {
      numbers.emplace_back(key, NumberOf(value, absl::StrCat(name, ".", key)));
    }
    return numbers;
  }
  bool Flag(const char* name) {
    if (!Has(name)) return false;
    if (!json_.at(name).is_boolean()) Fail(name, "is neither true nor false");
    return json_.at(name) == true;
  }

  void Fail(absl::string_view name, absl::string_view why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(name, " ", why));
  }
  const absl::Status& status() const { return status_; }

 private:
  uint64_t CountOf(const Json& value, absl::string_view name) {
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    Fail(name, "is no count");
    return 0;
  }
  double NumberOf(const Json& value, absl::string_view name) {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (value.is_number()) return value.get<double>();
    Fail(name, "is no number");
    return 0;
  }

  const Json json_;
  absl::Status status_;
};

void ReadMeasured(Line* line, proto::MetricsRecord* record) {
  if (line->Has("test_accuracy")) record->set_test_accuracy(line->Number("test_accuracy"));
  if (line->Has("test_loss")) record->set_test_loss(line->Number("test_loss"));
  for (const auto& [name, value] : line->Numbers("values")) {
    (*record->mutable_values())[name] = value;
  }
}

void ReadWindow(Line* line, proto::MetricsRecord* record) {
  record->set_samples(line->Count("samples"));
  record->set_epoch(line->Number("epoch"));
  record->set_loss(line->Number("loss"));
  record->set_samples_per_s(line->Number("samples_per_s"));
  record->set_bytes_pushed(line->Count("bytes_pushed"));
  record->set_bytes_answered(line->Count("bytes_answered"));
  for (const uint64_t pushes : line->Counts("staleness")) record->add_staleness(pushes);
  record->set_waiting_share(line->Number("waiting_share"));
  if (line->Has("hidden_share")) record->set_hidden_share(line->Number("hidden_share"));
  record->set_pushes(line->Count("pushes"));
  record->set_pushes_during_backward(line->Count("pushes_during_backward"));
  record->set_lr(line->Number("lr"));
  record->set_final(line->Flag("final"));
}

}  // namespace

absl::StatusOr<proto::MetricsRecord> ParseMetricsLine(absl::string_view line) {
  Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("is no JSON object");
  Line fields(std::move(json));
  if (!fields.Has("step")) return absl::InvalidArgumentError("has no step");
  proto::MetricsRecord record;
  record.set_step(fields.Count("step"));
  if (record.step() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    fields.Fail("step", "is too large");
  }
  record.set_elapsed_s(fields.Number("elapsed_s"));
  ReadMeasured(&fields, &record);
  ReadWindow(&fields, &record);
  if (!fields.status().ok()) return fields.status();
  return record;
}

absl::StatusOr<MetricsLines> ParseMetrics(const std::string& text, const std::string& path) {
  MetricsLines lines;
  const absl::string_view all = text;
  for (size_t begin = 0, number = 1; begin < all.size(); ++number) {
    const size_t end = all.find('\n', begin);
    const bool is_ended = end != absl::string_view::npos;
    auto record = ParseMetricsLine(all.substr(begin, is_ended ? end - begin : all.npos));
    if (record.ok()) {
      lines.records.push_back(*std::move(record));
    } else if (is_ended) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", record.status().message()));
    } else if (lines.records.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": has no whole line; its first one ", record.status().message()));
    } else {
      lines.is_cut = true;
    }
    if (!is_ended) break;
    begin = end + 1;
  }
  return lines;
}

}  // namespace strata::cli
