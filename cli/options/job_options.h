#ifndef STRATA_CLI_OPTIONS_JOB_OPTIONS_H_
#define STRATA_CLI_OPTIONS_JOB_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata::cli {

// A job file and the command line's changes of it.
struct JobOptions {
  std::string path;
  std::vector<std::string> settings;
  std::string mode;  // in the syntax of SettingsOfMode; empty: the file's
  // File for the trace; empty: none is written.
  std::string trace;
  std::vector<std::string> stragglers;  // in the syntax of SettingOfStraggler
};

// Steps recorded by --trace if the job does not give a number.
inline constexpr uint32_t kTraceSteps = 20;

// Returns the job of the file's `text` and the options, with defaults filled in, checked. Errors:
// InvalidArgument, naming the place in the file, or the bad option.
absl::StatusOr<proto::Job> JobFrom(const std::string& text, const JobOptions& options);
// Returns the job as JobFrom does, without defaults.
absl::StatusOr<proto::Job> JobAsWrittenFrom(const std::string& text, const JobOptions& options);

// Returns the job's setting (ApplySettings) for a straggler: "node=1,slow=4x", "node=2,delay=30ms",
// "node=2,delay=30ms+-10ms" (or with the sign ±), or both slow and delay. Errors: InvalidArgument
// naming the bad part.
absl::StatusOr<std::string> SettingOfStraggler(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_JOB_OPTIONS_H_
