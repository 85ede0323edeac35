#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/render/progress.h"
#include "cli/render/render.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

std::string TimeOf(int64_t unix_ms) {
  return absl::FormatTime("%H:%M:%S UTC", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

std::string NewestText(const proto::CheckpointStatus& checkpoints) {
  if (checkpoints.complete() == 0) return "none complete yet";
  return absl::StrFormat("newest of step %d (%s at %s), %d complete", checkpoints.newest_step(),
                         FormatBytes(static_cast<double>(checkpoints.newest_bytes())),
                         TimeOf(checkpoints.newest_ms()), checkpoints.complete());
}

}  // namespace

std::vector<Row> CheckpointRows(const proto::JobStatus& job) {
  std::vector<Row> rows;
  const proto::CheckpointStatus& checkpoints = job.checkpoints();
  if (!checkpoints.resumed_dir().empty()) {
    rows.push_back({"  goes on from", absl::StrFormat("step %d in %s", checkpoints.resumed_step(),
                                                      checkpoints.resumed_dir())});
  }
  for (const std::string& passed : checkpoints.passed_over()) {
    rows.push_back({"  passed over", passed});
  }
  if (job.job().has_checkpoint()) {
    const proto::Checkpoint& wish = job.job().checkpoint();
    rows.push_back(
        {"  checkpoints", absl::StrFormat("every %s to %s: %s", Counted(wish.every_steps(), "step"),
                                          wish.dir(), NewestText(checkpoints))});
    if (checkpoints.has_writing_step()) {
      rows.push_back({"", absl::StrFormat("step %d: %d of %s written", checkpoints.writing_step(),
                                          checkpoints.objects_written(),
                                          Counted(checkpoints.objects(), "object"))});
    }
    if (checkpoints.failed() > 0) {
      rows.push_back(
          {"", absl::StrCat(checkpoints.failed(), " failed",
                            checkpoints.problem().empty() ? "" : ": ", checkpoints.problem())});
    }
  }
  for (int i = 0; i < job.restarts_size(); ++i) {
    const proto::RestartStatus& restart = job.restarts(i);
    rows.push_back({absl::StrCat("  restart ", i + 1),
                    absl::StrFormat("%s, from step %d: %s", TimeOf(restart.failed_ms()),
                                    restart.step(), restart.reason())});
  }
  for (int i = 0; i < job.replacements_size(); ++i) {
    const proto::ReplacementStatus& one = job.replacements(i);
    const std::string step = one.step() > 0 ? absl::StrCat(", from step ", one.step()) : "";
    rows.push_back({absl::StrCat("  replaced ", i + 1),
                    absl::StrFormat("%s, %s%s: %s", TimeOf(one.lost_ms()),
                                    ReplacementText(one, job), step, one.reason())});
  }
  for (int i = 0; i < job.nodes_changes_size(); ++i) {
    const proto::NodesChange& change = job.nodes_changes(i);
    rows.push_back(
        {absl::StrCat("  nodes ", i + 1),
         absl::StrFormat("%s, %s", TimeOf(change.decided_ms()), NodesChangeText(change))});
  }
  return rows;
}

void AddCheckpoints(const proto::JobStatus& job, nlohmann::ordered_json* json) {
  if (job.has_checkpoints()) {
    const proto::CheckpointStatus& checkpoints = job.checkpoints();
    nlohmann::ordered_json shown;
    if (job.job().has_checkpoint()) {
      shown["dir"] = job.job().checkpoint().dir();
      shown["complete"] = checkpoints.complete();
      shown["failed"] = checkpoints.failed();
      shown["problem"] = checkpoints.problem();
    }
    if (checkpoints.complete() > 0) {
      shown["newest"] = {{"step", checkpoints.newest_step()},
                         {"written_ms", checkpoints.newest_ms()},
                         {"bytes", checkpoints.newest_bytes()}};
    }
    if (checkpoints.has_writing_step()) {
      shown["writing"] = {{"step", checkpoints.writing_step()},
                          {"objects_written", checkpoints.objects_written()},
                          {"objects", checkpoints.objects()}};
    }
    if (!checkpoints.resumed_dir().empty()) {
      shown["resumed"] = {{"dir", checkpoints.resumed_dir()}, {"step", checkpoints.resumed_step()}};
    }
    shown["passed_over"] = std::vector<std::string>(checkpoints.passed_over().begin(),
                                                    checkpoints.passed_over().end());
    (*json)["checkpoints"] = shown;
  }
  for (const proto::RestartStatus& restart : job.restarts()) {
    (*json)["restarts"].push_back({{"failed_ms", restart.failed_ms()},
                                   {"reason", restart.reason()},
                                   {"step", restart.step()}});
  }
  for (const proto::ReplacementStatus& one : job.replacements()) {
    (*json)["replacements"].push_back({{"lost_ms", one.lost_ms()},
                                       {"reason", one.reason()},
                                       {"node", one.node()},
                                       {"from", one.from()},
                                       {"to", one.to()},
                                       {"step", one.step()}});
  }
  for (const proto::NodesChange& change : job.nodes_changes()) {
    using Nodes = std::vector<uint32_t>;
    (*json)["nodes_changes"].push_back(
        {{"decided_ms", change.decided_ms()},
         {"step", change.step()},
         {"joined", Nodes(change.joined().begin(), change.joined().end())},
         {"left", Nodes(change.left().begin(), change.left().end())},
         {"ranks", change.ranks()},
         {"reason", change.reason()}});
  }
}

}  // namespace strata::cli
