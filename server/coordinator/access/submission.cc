#include "server/coordinator/access/submission.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "server/coordinator/access/call_table.h"
#include "server/coordinator/access/path_prefix.h"

namespace strata::server {
namespace {

struct NamedPath {
  const char* field;
  std::string path;
};

// All that a job has daemons read, write, make or run. A program's arguments and environment are
// its own business: who may run programs reaches what the workers' user reaches.
std::vector<NamedPath> PathsOf(const proto::SubmitRequest& request) {
  const proto::Job& job = request.job();
  std::vector<NamedPath> paths;
  // The default lies in the worker's folder of runs, in a folder of the job's own.
  if (!job.run_dir().empty()) paths.push_back({"run_dir", job.run_dir()});
  if (job.has_checkpoint()) paths.push_back({"checkpoint.dir", job.checkpoint().dir()});
  if (job.has_program()) paths.push_back({"program.path", job.program().path()});
  if (job.data().has_idx()) paths.push_back({"data.idx.dir", job.data().idx().dir()});
  if (job.data().has_cifar10()) paths.push_back({"data.cifar10.dir", job.data().cifar10().dir()});
  if (!request.resume().dir().empty()) paths.push_back({"resume", request.resume().dir()});
  return paths;
}

absl::Status CheckPath(const Caller& caller, const NamedPath& named) {
  const std::vector<std::string>& prefixes = caller.rights.path_prefixes;
  const absl::StatusOr<std::string> path = NormalPath(named.path);
  if (!path.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat(named.field, ": \"", named.path, "\": ", path.status().message(), ", and ",
                     CallerText(caller), " has path_prefixes in the cluster's policy"));
  }
  const auto holds = [&](const std::string& prefix) { return LiesBelow(*path, prefix); };
  if (std::any_of(prefixes.begin(), prefixes.end(), holds)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(named.field, ": \"", named.path, "\": ", CallerText(caller),
                   " may name paths below ", absl::StrJoin(prefixes, ", "), " only"));
}

}  // namespace

absl::Status CheckSubmission(const Caller& caller, const proto::SubmitRequest& request) {
  if (request.job().has_program()) {
    if (absl::Status may = Allow(caller, Call::kSubmitProgram); !may.ok()) return may;
  }
  if (!caller.is_user()) return absl::OkStatus();
  const uint32_t ranks = std::max(request.job().ranks(), 1u), slots = caller.rights.slots;
  if (slots != 0 && ranks > slots) {
    return absl::PermissionDeniedError(absl::StrCat("ranks: ", ranks, ", and ", CallerText(caller),
                                                    " may have ", Counted(slots, "rank"),
                                                    " at once"));
  }
  if (caller.rights.path_prefixes.empty()) return absl::OkStatus();
  for (const NamedPath& named : PathsOf(request)) {
    if (absl::Status may = CheckPath(caller, named); !may.ok()) return may;
  }
  return absl::OkStatus();
}

}  // namespace strata::server
