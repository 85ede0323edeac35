#ifndef STRATA_CLI_CLUSTER_RANK_OUTPUT_H_
#define STRATA_CLI_CLUSTER_RANK_OUTPUT_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "cli/render/log_tail.h"

namespace strata::cli {

// Which ranks' output is shown while their job is followed, and where.
struct RankOutputOptions {
  enum class Ranks { kNone, kFirst, kAll };
  Ranks ranks = Ranks::kNone;
  std::string file;      // in place of the screen; empty: on the screen
  std::string runs_dir;  // that of the cluster's workers, on this host
};

// Parses what --log takes: "" (rank 0's, on the screen), "all", "none", or a file for all ranks'.
RankOutputOptions ParseRankOutput(const std::string& log);

// Reads the logs of ranks as they grow and shows them. What several ranks say bears their numbers.
//
// Threads: the owner's; `show` is called on one of its own, and on the owner's in End.
class RankOutput {
 public:
  // Errors: names the file that cannot be written.
  absl::Status Open(const RankOutputOptions& options);
  // Begins with the logs of a job of so many ranks. At most once; nothing where none are wanted.
  void Begin(const std::string& run_dir, uint32_t ranks,
             std::function<void(const std::string& lines)> show);
  // Shows the rest.
  void End();
  ~RankOutput() { End(); }

 private:
  // Shows what has come; with `all` also lines that have not ended.
  void Show(bool all);

  RankOutputOptions options_;
  std::ofstream file_;
  std::function<void(const std::string& lines)> show_;
  std::vector<LogTail> logs_;
  absl::Notification ends_;
  std::thread thread_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_RANK_OUTPUT_H_
