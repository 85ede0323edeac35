#ifndef STRATA_CLI_EXPORT_EXPORT_TENSORBOARD_H_
#define STRATA_CLI_EXPORT_EXPORT_TENSORBOARD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// What was written of one run.
struct ExportedRun {
  std::string file;  // empty: nothing, for the reason that `warning` gives
  size_t records = 0;
  std::string warning;  // empty: none
};

// Makes event files of what jobs wrote into `run_dir`, whether they have ended or not: one of its
// metrics.jsonl in `out`, by default `run_dir` itself; or, of the folder of a comparison or sweep,
// one of each of its runs in OUT/MODE-seedN, by default DIR/tensorboard/MODE-seedN. The same
// metrics.jsonl and job.textproto give the same bytes: an event's time is that since training
// began, in 1970. An earlier export is replaced.
//
// Errors name the folder or file: NotFound (no such folder, no metrics.jsonl), InvalidArgument (a
// line that is none of ours, no whole line, nothing in any run; an event file that is in `out`
// already, as TensorBoard would draw both as one run), those of the file system.
absl::StatusOr<std::vector<ExportedRun>> ExportTensorBoard(const std::string& run_dir,
                                                           const std::string& out);

}  // namespace strata::cli

#endif  // STRATA_CLI_EXPORT_EXPORT_TENSORBOARD_H_
