#include "cli/options/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/options/chrome_trace.h"
#include "cli/options/terminal.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"

namespace strata::cli {
namespace {

absl::Status Unwritable(int error_number, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("--trace ", FileError(error_number, path).message()));
}

}  // namespace

absl::Status CheckTraceFile(const std::string& path) {
  struct stat there;
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) return Unwritable(EISDIR, path);
  if (exists && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("--trace ", path, ": not a regular file"));
  }
  // The same as for the later write: a temporary file in the same folder, renamed at the end.
  const std::string beside = absl::StrCat(path, ".tmp.", getpid());
  const UniqueFd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return Unwritable(errno, path);
  unlink(beside.c_str());
  return absl::OkStatus();
}

absl::Status WriteTrace(control::CoordinatorClient* client, JobId job, const std::string& path,
                        bool quiet) {
  std::vector<proto::TraceBatch> batches;
  absl::Status status =
      client->GetTrace(job, [&](const proto::TraceBatch& batch) { batches.push_back(batch); });
  if (!status.ok()) return status;
  const absl::StatusOr<proto::JobStatus> ended = client->GetJob(job);
  if (!ended.ok()) return ended.status();
  status = WriteFileAtomically(path, ChromeTrace(batches, *ended));
  if (!status.ok()) return status;
  const TraceCounts counts = Count(batches);
  const proto::Trace& asked = ended->job().trace();
  if (counts.left_out > 0) {
    PrintF(stderr,
           "strata: warning: %s lacks about %" PRIu64
           " events for which there was no room: trace fewer steps\n",
           path, counts.left_out);
  } else if (counts.events == 0) {
    PrintF(stderr,
           "strata: warning: %s is empty: no rank made a step from step %" PRIu64
           " on, or the coordinator was restarted\n",
           path, asked.first_step());
  }
  if (quiet) return absl::OkStatus();
  PrintF(stdout, "trace: %s (%" PRIu64 " events; open it at https://ui.perfetto.dev)\n", path,
         counts.events);
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace strata::cli
