#ifndef STRATA_CLI_RENDER_PROGRESS_H_
#define STRATA_CLI_RENDER_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "common/os/environment.h"
#include "proto/control.pb.h"

namespace strata::cli {

// A line on a terminal that each new one replaces; nothing elsewhere.
//
// Threads: one.
class LiveLine {
 public:
  // `columns` is the width of the terminal behind `out`; 0: it is not a terminal.
  LiveLine(std::FILE* out, int columns) : out_(out), columns_(columns) {}
  ~LiveLine() { Clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void Show(const std::string& text);
  // Removes the line, so that later output has a row of its own.
  void Clear();

 private:
  std::FILE* out_;
  const int columns_;
  bool live_ = false;
};

// Returns whether a terminal with these variables shows bars: TERM=dumb and NO_COLOR ask for plain
// text.
bool ShowsBars(const Environment& environment);

// "[####------]": `columns` wide with its brackets, full up to `share` of 1. REQUIRES: columns
// >= 2.
std::string Bar(double share, int columns);

// "step 234/1170  [####----------------]  20 %  REST" in at most `columns` columns. The bar takes
// the remaining space, up to 30 columns. If the line is too long, first the bar is dropped, then
// the step, then the share; `rest` is always whole, even if too long.
std::string WithBar(uint64_t step, uint64_t total_steps, const std::string& rest, int columns);

// "1:23", "2:03:04".
std::string FormatDuration(double seconds);
// "512 B", "1.24 MB" (10^6).
std::string FormatBytes(double bytes);

// "2026-11-24 15:20:25 UTC".
std::string TimeText(absl::Time time);

// Returns the width of the terminal behind standard output; 0: it is not a terminal.
int TerminalColumns();

// "node 2 (w1 -> w3)", "node 2 (w1, waits for another worker)": where a node of the job has moved.
std::string ReplacementText(const proto::ReplacementStatus& one, const proto::JobStatus& job);

// "node 2 joins, node 0 leaves with step 40: 3 ranks"
std::string NodesChangeText(const proto::NodesChange& change);

// "epoch 1.50/5  12,345 samples/s  loss 0.4321  test accuracy 0.8712  1.24 MB/step  ETA 1:23";
// unknown parts are omitted.
std::string ProgressLine(const proto::JobStatus& status);

// Returns such a line for one record of metrics.jsonl, beginning with its step.
std::string MetricsText(const proto::MetricsRecord& record, const proto::JobStatus& status);

// Returns whether to show a record: a restarted coordinator repeats windows of steps. `shown_step`
// is the end of the newest window shown.
bool IsNews(const proto::MetricsRecord& record, uint64_t* shown_step);

// "job 3 (lenet): finished in 1:23, test accuracy 0.8812" and such; one line.
std::string EndLine(const proto::JobStatus& status);

// The output of `--follow`: one live line on a terminal, a line per window of steps elsewhere.
//
// Threads: one.
class ProgressDisplay {
 public:
  // `columns` is the width of the terminal behind `out`; 0: it is not a terminal. With a bar the
  // live line begins with the finished share.
  ProgressDisplay(std::FILE* out, int columns, bool has_bar)
      : out_(out), columns_(columns), has_bar_(has_bar) {}

  void Show(const proto::FollowEvent& event);
  // Writes whole lines, above the live line.
  void Write(const std::string& lines);
  // Removes the live line, so that later output has a row of its own.
  void End() { ClearLive(); }

 private:
  void ShowStatus(const proto::JobStatus& status);
  std::string LiveProgress(const proto::JobStatus& status) const;
  // One line per long wait, if there is no live line to show it.
  void TellReplaced(const proto::JobStatus& status);
  // Prints from which step a job continues, once each time.
  void TellResumed(const proto::JobStatus& status);
  // Prints nodes that have joined or left.
  void TellChange(const proto::JobStatus& status);
  void TellWait(const proto::Wait& wait);
  void Line(const std::string& text);
  void ClearLive();

  std::FILE* out_;
  const int columns_;
  const bool has_bar_;
  bool live_ = false;
  std::string said_, said_replaced_, said_change_, said_resumed_;
  proto::Wait said_wait_;
  uint64_t shown_step_ = 0;  // see IsNews
  proto::JobStatus status_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_PROGRESS_H_
