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

// The name of the file that `strata export` makes.
inline constexpr absl::string_view kExportedName = "events.out.tfevents.0000000000.strata-export";

// The names of event files in a folder, in order. That it cannot be read counts as none.
std::vector<std::string> EventFilesIn(const std::string& dir);
// Removes those in a run directory that jobs or exports have written; a program's own stay.
// Errors: name the file.
absl::Status RemoveRunEvents(const std::string& dir);

// A job's event file in its run directory, in which TensorBoard finds it:
// events.out.tfevents.TIME.HOST.strata. Each record is one write, so a process that is killed
// leaves a file that can be read; what is cut short at its end is cut off by the next one. Nodes
// that write one after the other, and later attempts of the job, write to the same file.
//
// Threads: one.
class RunEvents {
 public:
  struct Options {
    std::string dir;
    std::string job_text;  // the job, for people
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };
  explicit RunEvents(Options options) : options_(std::move(options)) {}

  // Adds a record. `kept_step` is the newest step that metrics.jsonl has without it: where this is
  // the first record of this object's, what an earlier one wrote of later steps is made void.
  // Without it nothing is. Errors: name the file.
  absl::Status Append(const strata::proto::MetricsRecord& record,
                      std::optional<uint64_t> kept_step);

  // Others may write before the next record: it is then as the first one.
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
