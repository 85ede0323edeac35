#ifndef STRATA_CLI_COMMANDS_METRICS_LINES_H_
#define STRATA_CLI_COMMANDS_METRICS_LINES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/control.pb.h"

namespace strata::cli {

// Parses a line of metrics.jsonl: the inverse of worker::MetricsLine. A null is NaN; unknown fields
// are ignored, as later versions may have more. Errors: InvalidArgument with what is wrong.
absl::StatusOr<proto::MetricsRecord> ParseMetricsLine(absl::string_view line);

// The contents of a metrics.jsonl. No records: the file is empty.
struct MetricsLines {
  std::vector<proto::MetricsRecord> records;
  bool is_cut = false;  // the last line was truncated, and is omitted
};

// Parses a metrics.jsonl. Errors: InvalidArgument, "PATH:LINE: why", or that no line is complete.
absl::StatusOr<MetricsLines> ParseMetrics(const std::string& text, const std::string& path);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_METRICS_LINES_H_
