#ifndef STRATA_CLI_CLUSTER_FOLLOW_H_
#define STRATA_CLI_CLUSTER_FOLLOW_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/render/log_lines.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"

namespace strata::cli {

// Which ranks' output is shown while their job is followed, and where.
struct RankOutputOptions {
  enum class Ranks { kNone, kFirst, kAll };
  Ranks ranks = Ranks::kNone;
  std::string file;      // instead of the screen; empty: on the screen
  std::string runs_dir;  // that of the cluster's workers, on this host
};

// Parses the value of --log: "" (rank 0's, on the screen), "all", "none", or a file for all ranks'.
RankOutputOptions ParseRankOutput(const std::string& log);

// Reads the logs of ranks as they grow and shows them. With several ranks, lines have their
// numbers.
//
// Threads: the owner's; `show` is called on one of its own, and on the owner's in End.
class RankOutput {
 public:
  // Errors name the file that cannot be written.
  absl::Status Open(const RankOutputOptions& options);
  // Starts to read the logs of a job of `ranks` ranks. At most once; does nothing if none are
  // wanted.
  void Begin(const std::string& run_dir, uint32_t ranks,
             std::function<void(const std::string& lines)> show);
  // Shows the rest.
  void End();
  ~RankOutput() { End(); }

 private:
  // Shows new lines; with `all` also unfinished ones.
  void Show(bool all);

  RankOutputOptions options_;
  std::ofstream file_;
  std::function<void(const std::string& lines)> show_;
  std::vector<LogTail> logs_;
  absl::Notification ends_;
  std::thread thread_;
};

// Shows a job's progress until it has ended, then its outcome, where its outputs are and, for a job
// that did not finish, one error line. With `json` each event is a line of JSON instead. Then
// writes the job's trace to `trace`, unless that is empty; if StopFollowing comes first, prints
// that and `trace_command`, which writes it later, unless that is empty. Returns the job's exit
// status; nullopt: StopFollowing came before the job had ended, and nothing was printed. Also shows
// ranks' output, as `output` says. `newest`, unless null, is set to the job's newest status.
std::optional<int> FollowJob(control::CoordinatorClient* client, JobId job, bool json,
                             const std::string& trace = "", const std::string& trace_command = "",
                             const RankOutputOptions& output = {},
                             proto::JobStatus* newest = nullptr);

// Returns lines that say where the outputs of a job are that was stopped with its cluster, and how
// to continue it.
std::string StoppedText(const proto::JobStatus& status);

// Makes the newest checkpoint of a job's last status that of the folder it writes them to, if this
// host has it. The coordinator tells of a checkpoint a while after it is complete, and completes
// what is written until it ends itself.
void UpdateNewestCheckpoint(proto::JobStatus* status);

// Follows the job like FollowJob until a signal comes. Then it prints how to continue and returns
// the signal's exit status.
int FollowJobUntilSignal(control::CoordinatorClient* client, JobId job,
                         const CoordinatorOptions& options, Interrupt* interrupt,
                         const std::string& trace = "", const RankOutputOptions& output = {});

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_FOLLOW_H_
