#ifndef STRATA_COMMON_TENSORBOARD_RUN_EVENTS_H_
#define STRATA_COMMON_TENSORBOARD_RUN_EVENTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/tensorboard/event.pb.h"
#include "proto/control.pb.h"

namespace strata::tensorboard {

// The name of the file that `strata export` creates.
inline constexpr absl::string_view kExportedName = "events.out.tfevents.0000000000.strata-export";

// Returns the names of event files in a folder, in order; none if it cannot be read.
std::vector<std::string> EventFilesIn(const std::string& dir);
// Removes those in a run directory that jobs or exports have written; a program's own stay. Errors
// name the file.
absl::Status RemoveRunEvents(const std::string& dir);

// A job's event file in its run directory, where TensorBoard finds it:
// events.out.tfevents.TIME.HOST.strata. Each record is one write, so a killed process leaves a
// readable file; the next process truncates an incomplete record at its end. Nodes that write one
// after the other, and later attempts of the job, write to the same file.
//
// Threads: one.
class RunEvents {
 public:
  struct Options {
    std::string dir;
    std::string job_text;  // the job, for display
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };
  explicit RunEvents(Options options) : options_(std::move(options)) {}

  // Adds a record. `kept_step`: the newest step in metrics.jsonl before it; if this is this
  // object's first record, earlier events of later steps are voided. Without it none are. Errors
  // name the file.
  absl::Status Append(const strata::proto::MetricsRecord& record,
                      std::optional<uint64_t> kept_step);

  // Others may write before the next record, which is then handled like the first one.
  void Close() { path_.clear(); }

 private:
  absl::Status Open(std::optional<uint64_t> kept_step);
  absl::Status Write(const std::vector<proto::Event>& events);
  double Now() const;

  Options options_;
  std::string path_;  // empty: not open
};

}  // namespace strata::tensorboard

#endif  // STRATA_COMMON_TENSORBOARD_RUN_EVENTS_H_
