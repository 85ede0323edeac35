#ifndef STRATA_CLI_COMMANDS_EXPORT_TENSORBOARD_H_
#define STRATA_CLI_COMMANDS_EXPORT_TENSORBOARD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// The result for one run.
struct ExportedRun {
  std::string file;  // empty: none was written, for the reason in `warning`
  size_t records = 0;
  std::string warning;  // empty: none
};

// Writes event files of running or ended jobs: for a run directory one in `out`, by default
// `run_dir` itself; for the folder of a comparison or sweep one per run in OUT/MODE-seedN, by
// default DIR/tensorboard/MODE-seedN. The same metrics.jsonl and job.textproto give the same bytes:
// an event's time is that since training began, in 1970. An earlier export is replaced.
//
// Errors name the folder or file: NotFound (no such folder, no metrics.jsonl), InvalidArgument (a
// folder of several runs, some of which it names; a line that is not a record, no complete line,
// nothing in any run; an event file already in `out`, because TensorBoard would draw both as one
// run), those of the file system.
absl::StatusOr<std::vector<ExportedRun>> ExportTensorBoard(const std::string& run_dir,
                                                           const std::string& out);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_EXPORT_TENSORBOARD_H_
