#ifndef STRATA_WORKER_AGENT_METRICS_LOG_H_
#define STRATA_WORKER_AGENT_METRICS_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/tensorboard/run_events.h"
#include "proto/control.pb.h"

namespace strata::worker {

// A job's metrics.jsonl on the node that writes it, and its events for TensorBoard where it has
// some. An event is written before its line: of what is killed in between, GoOn voids the event.
// Threads: one.
class MetricsLog {
 public:
  // `first_step`: that of the job, which may go on from a checkpoint.
  MetricsLog(std::string path, uint64_t first_step,
             std::optional<tensorboard::RunEvents> events = std::nullopt)
      : path_(std::move(path)), events_(std::move(events)), last_step_(first_step) {}

  // Goes on with a file that has lines already, or is not there: removes one that was cut short,
  // and takes those that are there for written. Errors: name the file.
  absl::Status GoOn();

  // Adds one line. Records come in the order of their steps; one that is not past the last line is
  // a repetition and is dropped (after a restart the coordinator merges what it may not have seen).
  // Errors: those of AppendLine, or of RunEvents.
  absl::Status Append(const proto::MetricsRecord& record);
  // The same where other nodes may have written to the file since, as one after the other leads a
  // job: takes their lines for written, too.
  absl::Status AppendAmongOthers(const proto::MetricsRecord& record);
  // Adds one line, whatever is there, as a job that has ended no longer repeats any.
  absl::Status AppendAfterEnd(const proto::MetricsRecord& record);

  // Whether the final model's line is there, the last one.
  bool final_written() const { return final_written_; }

 private:
  absl::Status Write(const proto::MetricsRecord& record, std::optional<uint64_t> kept_step);

  std::string path_;
  std::optional<tensorboard::RunEvents> events_;
  uint64_t last_step_;
  uint64_t last_measured_step_ = 0;  // of late measurements
  bool final_written_ = false;
  int64_t bytes_ = 0;  // of the file, after the last line of this one
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_METRICS_LOG_H_
