#ifndef STRATA_CLI_RENDER_PROGRESS_H_
#define STRATA_CLI_RENDER_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::cli {

// "1:23", "2:03:04".
std::string FormatDuration(double seconds);
// "512 B", "1.24 MB" (10^6).
std::string FormatBytes(double bytes);

// "2026-11-24 15:20:25 UTC".
std::string TimeText(absl::Time time);

// Returns the width of the terminal that standard output is; 0: it is none.
int TerminalColumns();

// "node 2 (w1 -> w3)", "node 2 (w1, waits for another worker)": where a node of the job went.
std::string ReplacementText(const proto::ReplacementStatus& one, const proto::JobStatus& job);

// Which nodes join and leave with which step: "node 2 joins, node 0 leaves with step 40: 3 ranks"
std::string NodesChangeText(const proto::NodesChange& change);

// "epoch 1.50/5  12,345 samples/s  loss 0.4321  test accuracy 0.8712  1.24 MB/step  ETA 1:23";
// what is not known yet is left out.
std::string ProgressLine(const proto::JobStatus& status);

// Returns such a line for one record of metrics.jsonl, with its step in front.
std::string MetricsText(const proto::MetricsRecord& record, const proto::JobStatus& status);

// Whether a record is to be shown: a coordinator that restarted tells windows of steps again.
// `shown_step` is the end of the newest window that was shown.
bool IsNews(const proto::MetricsRecord& record, uint64_t* shown_step);

// "job 3 (lenet): finished in 1:23, test accuracy 0.8812" and such; one line.
std::string EndLine(const proto::JobStatus& status);

// What `--follow` shows: one live line on a terminal, a line per window of steps elsewhere.
//
// Threads: one.
class ProgressDisplay {
 public:
  // `columns` of the terminal that `out` is; 0: it is none. With a bar the live line begins with
  // how much is done.
  ProgressDisplay(std::FILE* out, int columns, bool has_bar)
      : out_(out), columns_(columns), has_bar_(has_bar) {}

  void Show(const proto::FollowEvent& event);
  // Writes whole lines, above the live line.
  void Write(const std::string& lines);
  // Takes the live line away: what is written next has a row of its own.
  void End() { ClearLive(); }

 private:
  void ShowStatus(const proto::JobStatus& status);
  std::string LiveProgress(const proto::JobStatus& status) const;
  // One line per long wait, where there is no live line to show it.
  void TellReplaced(const proto::JobStatus& status);
  // Nodes that have joined or left.
  void TellChange(const proto::JobStatus& status);
  void TellWait(const proto::Wait& wait);
  void Line(const std::string& text);
  void ClearLive();

  std::FILE* out_;
  const int columns_;
  const bool has_bar_;
  bool live_ = false;
  std::string said_, said_replaced_, said_change_;
  proto::Wait said_wait_;
  uint64_t shown_step_ = 0;  // see IsNews
  proto::JobStatus status_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_PROGRESS_H_
