#ifndef STRATA_CLI_OPTIONS_JOB_OPTIONS_H_
#define STRATA_CLI_OPTIONS_JOB_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata::cli {

// A job file and what the command line changes in it.
struct JobOptions {
  std::string path;
  std::vector<std::string> settings;
  std::string mode;  // as SettingsOfMode takes it; empty: the file's
  // File for the trace; empty: none is written.
  std::string trace;
  std::vector<std::string> stragglers;  // as SettingOfStraggler takes them
};

// Steps that --trace records of a job that does not say how many.
inline constexpr uint32_t kTraceSteps = 20;

// The job that `text`, the file's, and the options make, with defaults filled in, checked. Errors:
// InvalidArgument, naming the place in the file, or the option that spoils the job.
absl::StatusOr<proto::Job> JobFrom(const std::string& text, const JobOptions& options);
// Returns the job as JobFrom does, with defaults left out.
absl::StatusOr<proto::Job> JobAsWrittenFrom(const std::string& text, const JobOptions& options);

// The setting of the job (ApplySettings) that a straggler stands for: "node=1,slow=4x",
// "node=2,delay=30ms", "node=2,delay=30ms+-10ms" (or with the sign ±), or both slow and delay.
// Errors: InvalidArgument naming the part that is wrong.
absl::StatusOr<std::string> SettingOfStraggler(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_JOB_OPTIONS_H_
