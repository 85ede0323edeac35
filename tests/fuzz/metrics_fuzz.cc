// What a run directory has of a job's metrics: refused with one line, or records that are written
// as they were read, of which each becomes an event; and event files, which end where they are
// damaged.
//
// Input: 'l' and a metrics.jsonl, or 'e' and an event file.
#include <cstdint>
#include <sstream>
#include <string>

#include "cli/commands/metrics_lines.h"
#include "common/tensorboard/events.h"
#include "tests/fuzz/check.h"
#include "worker/agent/metrics_log.h"

namespace strata {
namespace {

// Reads whole records, and returns how many there are.
int ReadRecords(const std::string& file) {
  std::istringstream in(file);
  tensorboard::RecordReader reader(&in);
  int records = 0;
  std::string again;
  for (std::string payload; reader.Next(&payload); ++records) {
    again += tensorboard::FrameRecord(payload);
  }
  FUZZ_CHECK(reader.whole_bytes() == static_cast<int64_t>(again.size()));
  FUZZ_CHECK(file.compare(0, again.size(), again) == 0);
  return records;
}

void Lines(const std::string& text) {
  const auto lines = cli::ParseMetrics(text, "metrics.jsonl");
  if (!lines.ok()) {
    FUZZ_CHECK(lines.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(lines.status().message().substr(0, 14) == "metrics.jsonl:");
    return;
  }
  for (const proto::MetricsRecord& record : lines->records) {
    const std::string line = worker::MetricsLine(record);
    const auto again = cli::ParseMetricsLine(line);
    FUZZ_CHECK(again.ok());
    FUZZ_CHECK(worker::MetricsLine(*again) == line);
    FUZZ_CHECK(ReadRecords(tensorboard::FrameEvent(tensorboard::MetricsEvent(record, 0))) == 1);
  }
}

void Fuzz(char kind, const std::string& rest) {
  if (kind == 'l') Lines(rest);
  if (kind == 'e') ReadRecords(rest);
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::Fuzz(static_cast<char>(data[0]),
               std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
