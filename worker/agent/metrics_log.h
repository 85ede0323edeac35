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

// Returns whether a record contains measurements of the model.
bool HasMeasured(const proto::MetricsRecord& record);
// Returns whether a record contains only measurements of an earlier step's weights, made after
// training.
bool IsLateMeasurement(const proto::MetricsRecord& record);

// Returns one line of metrics.jsonl, without the newline: the record's fields under their names in
// proto/control.proto, in that order, except that `values` comes after the test's. hidden_share,
// test_accuracy, test_loss and values are present only if measured, `final` only on the final
// model's line; a number that is not finite becomes null. A late measurement has only `step`, its
// values and `elapsed_s`.
std::string MetricsLine(const proto::MetricsRecord& record);

// A job's metrics.jsonl on the node that writes it, and its events for TensorBoard if enabled. An
// event is written before its line: if the process is killed in between, GoOn voids the event.
// Threads: one.
class MetricsLog {
 public:
  // `first_step`: the job's first step, which may come from a checkpoint.
  MetricsLog(std::string path, uint64_t first_step,
             std::optional<tensorboard::RunEvents> events = std::nullopt)
      : path_(std::move(path)), events_(std::move(events)), last_step_(first_step) {}

  // Continues a file that may have lines already, or may not exist: removes a truncated line, and
  // counts existing lines as written. Errors name the file.
  absl::Status GoOn();

  // Appends one line. Windows come in the order of their steps; one that is not past the last line
  // is a repetition and is dropped (after a restart the coordinator merges what it may not have
  // seen). A numbered measurement is a repetition if that number's line has been written, or if
  // GoOn has found it. Errors: those of AppendLine, or of RunEvents.
  absl::Status Append(const proto::MetricsRecord& record);
  // The same if other nodes may have written to the file since, because the job's leader has
  // changed: counts their lines as written, too.
  absl::Status AppendAmongOthers(const proto::MetricsRecord& record);
  // Appends one line unconditionally: an ended job no longer repeats any.
  absl::Status AppendAfterEnd(const proto::MetricsRecord& record);

  // Returns whether the final model's line, the last one, was written.
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
  // The newest measurements of this object, and their order.
  std::set<Measurement> measured_;
  std::deque<Measurement> measured_order_;
  // By hash of a line: how often the file has it from others, without a repetition so far.
  std::map<uint64_t, int> found_;
  bool final_written_ = false;
  int64_t bytes_ = 0;  // size of the file after this object's last line
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_METRICS_LOG_H_
