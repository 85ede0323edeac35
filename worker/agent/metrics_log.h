#ifndef STRATA_WORKER_AGENT_METRICS_LOG_H_
#define STRATA_WORKER_AGENT_METRICS_LOG_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/tensorboard/run_events.h"
#include "proto/control.pb.h"

namespace strata::worker {

// True if a record says what was measured of the model.
bool HasMeasured(const proto::MetricsRecord& record);
// True if a record says only how weights of an earlier step were measured once training was over.
bool IsLateMeasurement(const proto::MetricsRecord& record);

// One line of metrics.jsonl, without the newline: the record's fields under their names in
// proto/control.proto, in that order, but for `values` after the test's. hidden_share,
// test_accuracy, test_loss and values are there only where measured, `final` only on the final
// model's line; a number that is not finite becomes null.
// A late measurement has `step`, what was measured and `elapsed_s` alone.
std::string MetricsLine(const proto::MetricsRecord& record);

// A job's metrics.jsonl on the node that writes it, and its events for TensorBoard where it has
// some. An event is written before its line: of what is killed in between, GoOn voids the event.
// Threads: one.
class MetricsLog {
 public:
  // `first_step`: that of the job, which may resume from a checkpoint.
  MetricsLog(std::string path, uint64_t first_step,
             std::optional<tensorboard::RunEvents> events = std::nullopt)
      : path_(std::move(path)), events_(std::move(events)), last_step_(first_step) {}

  // Goes on with a file that has lines already, or is not there: removes one that was cut short,
  // and takes those that are there for written. Errors: name the file.
  absl::Status GoOn();

  // Adds one line. Windows come in the order of their steps; one that is not past the last line is
  // a repetition and is dropped (after a restart the coordinator merges what it may not have seen).
  // A measurement with a number is a repetition where that number's line has been written, or is
  // one of those that GoOn has found. Errors: those of AppendLine, or of RunEvents.
  absl::Status Append(const proto::MetricsRecord& record);
  // The same where other nodes may have written to the file since, as one after the other leads a
  // job: takes their lines for written, too.
  absl::Status AppendAmongOthers(const proto::MetricsRecord& record);
  // Adds one line, whatever is there, as a job that has ended no longer repeats any.
  absl::Status AppendAfterEnd(const proto::MetricsRecord& record);

  // True if the final model's line is there, the last one.
  bool final_written() const { return final_written_; }

 private:
  absl::Status Write(const proto::MetricsRecord& record, std::optional<uint64_t> kept_step);
  absl::Status AppendMeasurement(const proto::MetricsRecord& record);
  // A measurement's identity: its number, and a hash of its line.
  using Measurement = std::pair<uint64_t, uint64_t>;
  void NoteMeasurement(const Measurement& measurement);

  std::string path_;
  std::optional<tensorboard::RunEvents> events_;
  uint64_t last_step_;
  uint64_t last_measured_step_ = 0;  // of late measurements without a number
  // The newest measurements of this object, and in which order they came.
  std::set<Measurement> measured_;
  std::deque<Measurement> measured_order_;
  // How often the file has a line, by its hash, that this object has not written and that has not
  // been repeated yet.
  std::map<uint64_t, int> found_;
  bool final_written_ = false;
  int64_t bytes_ = 0;  // of the file, after the last line of this one
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_METRICS_LOG_H_
