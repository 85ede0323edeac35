#include "cli/render/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/options/terminal.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "common/job/encoding.h"
#include "worker/agent/metrics_log.h"

namespace strata::cli {

void LiveLine::Show(const std::string& text) {
  if (columns_ == 0) return;
  // A line that wraps could not be overwritten.
  WriteBytes(out_, absl::StrCat("\r\033[K", EscapedStart(text, columns_ - 1)));
  std::fflush(out_);
  live_ = true;
}

void LiveLine::Clear() {
  if (live_) {
    WriteBytes(out_, "\r\033[K");
    std::fflush(out_);
  }
  live_ = false;
}

namespace {

// With its brackets. A shorter one would tell less than the share beside it.
constexpr int kBarColumnsMin = 10;
constexpr int kBarColumnsMax = 30;

}  // namespace

std::string Bar(double share, int columns) {
  const int cells = columns - 2;
  const int full = static_cast<int>(share * cells);
  return absl::StrCat("[", std::string(full, '#'), std::string(cells - full, '-'), "]");
}

bool ShowsBars(const Environment& environment) {
  return Variable(environment, "TERM") != "dumb" && Variable(environment, "NO_COLOR").empty();
}

std::string WithBar(uint64_t step, uint64_t total_steps, const std::string& rest, int columns) {
  if (total_steps == 0) return rest;
  const double share = std::min(1.0, static_cast<double>(step) / static_cast<double>(total_steps));
  const std::string steps = absl::StrCat("step ", step, "/", total_steps, "  ");
  // Rounded down: 100 % is the last step.
  const std::string share_and_rest = absl::StrCat(static_cast<int>(share * 100), " %  ", rest);
  const auto left = [columns](size_t taken) { return columns - static_cast<int>(taken); };
  const int for_bar = left(steps.size() + share_and_rest.size()) - 2;
  if (for_bar >= kBarColumnsMin) {
    return absl::StrCat(steps, Bar(share, std::min(for_bar, kBarColumnsMax)), "  ", share_and_rest);
  }
  if (left(steps.size() + share_and_rest.size()) >= 0) return steps + share_and_rest;
  return left(share_and_rest.size()) >= 0 ? share_and_rest : rest;
}

namespace {

// Waits that get a line each: the first line, and again while the wait lasts.
constexpr double kWaitSeconds = 10;
constexpr double kWaitAgainSeconds = 60;

std::string WithCommas(double value) {
  std::string digits = absl::StrCat(static_cast<int64_t>(std::llround(value)));
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, 1, ',');
  return digits;
}

std::string JobName(const proto::JobStatus& status) {
  return absl::StrCat("job ", status.job_id(), " (", status.name(), ")");
}

// Parts that a status line and a metrics line share.
std::vector<std::string> ProgressParts(double epoch, double samples_per_s, double loss,
                                       const proto::Progress& progress) {
  std::vector<std::string> parts;
  std::string of = progress.epochs() > 0 ? absl::StrCat("/", progress.epochs()) : "";
  if (epoch > 0) parts.push_back(absl::StrFormat("epoch %.2f%s", epoch, of));
  parts.push_back(absl::StrCat(WithCommas(samples_per_s), " samples/s"));
  // Programs need not report one.
  if (loss != 0) parts.push_back(absl::StrFormat("loss %.4f", loss));
  return parts;
}

// Returns measured values, the program's own by name.
std::vector<std::string> Measured(std::optional<double> test_accuracy,
                                  const google::protobuf::Map<std::string, double>& values) {
  std::vector<std::string> parts;
  if (test_accuracy.has_value()) {
    parts.push_back(absl::StrFormat("test accuracy %.4f", *test_accuracy));
  }
  for (const auto& [name, value] : std::map(values.begin(), values.end())) {
    parts.push_back(absl::StrFormat("%s %.4g", name, value));
  }
  return parts;
}

std::vector<std::string> Measured(const proto::Progress& progress) {
  const bool tested = progress.test_accuracy() >= 0;
  return Measured(tested ? std::optional(progress.test_accuracy()) : std::nullopt,
                  progress.values());
}

void Append(std::vector<std::string> more, std::vector<std::string>* parts) {
  for (std::string& part : more) parts->push_back(std::move(part));
}

void AddRest(const proto::Progress& progress, std::vector<std::string>* parts) {
  if (progress.bytes_per_step() > 0) {
    parts->push_back(absl::StrCat(FormatBytes(progress.bytes_per_step()), "/step"));
  }
  if (progress.eta_s() >= 0) {
    parts->push_back(absl::StrCat("ETA ", FormatDuration(progress.eta_s())));
  }
}

// Shown instead of the progress while there is none.
std::string WaitLine(const proto::JobStatus& status) {
  const proto::Progress& progress = status.progress();
  const std::string of =
      progress.total_steps() > 0 ? absl::StrCat("/", progress.total_steps()) : "";
  const std::string others =
      status.waits_size() > 1 ? absl::StrCat(" (and ", status.waits_size() - 1, " more)") : "";
  return absl::StrCat("step ", progress.step(), of, "  waits", others, ": ",
                      status.waits(0).text());
}

bool HasAllNodes(const proto::JobStatus& status) {
  return std::none_of(status.nodes().begin(), status.nodes().end(),
                      [](const auto& node) { return node.daemon().empty(); });
}

std::string DaemonsOf(const proto::JobStatus& status) {
  std::vector<std::string> names;
  for (const auto& node : status.nodes()) names.push_back(node.daemon());
  return absl::StrJoin(names, ", ");
}

}  // namespace

std::string FormatDuration(double seconds) {
  int64_t total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  int64_t hours = total / 3600;
  if (hours > 0) {
    return absl::StrFormat("%d:%02d:%02d", hours, total % 3600 / 60, total % 60);
  }
  return absl::StrFormat("%d:%02d", total / 60, total % 60);
}

std::string NodesChangeText(const proto::NodesChange& change) {
  std::vector<std::string> parts;
  const auto add = [&parts](const auto& nodes, absl::string_view one, absl::string_view more) {
    if (nodes.empty()) return;
    parts.push_back(absl::StrCat(nodes.size() == 1 ? "node " : "nodes ", absl::StrJoin(nodes, ", "),
                                 " ", nodes.size() == 1 ? one : more));
  };
  add(change.joined(), "joins", "join");
  add(change.left(), "leaves", "leave");
  return absl::StrCat(absl::StrJoin(parts, ", "), " with step ", change.step(), ": ",
                      Counted(change.ranks(), "rank"), change.reason().empty() ? "" : ": ",
                      change.reason());
}

std::string ReplacementText(const proto::ReplacementStatus& one, const proto::JobStatus& job) {
  const bool waits = job.state() == proto::RUNNING;
  const std::string to = !one.to().empty() ? absl::StrCat(" -> ", one.to())
                         : waits           ? ", waits for another worker"
                                           : ", no other worker";
  return absl::StrFormat("node %d (%s%s)", one.node(), one.from(), to);
}

std::string FormatBytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 2, bytes, units[unit]);
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

int TerminalColumns() {
  constexpr int kUnknownWidth = 80;
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return size.ws_col;
}

std::string ProgressLine(const proto::JobStatus& status) {
  const proto::Progress& progress = status.progress();
  auto parts = ProgressParts(progress.epoch(), progress.samples_per_s(), progress.loss(), progress);
  Append(Measured(progress), &parts);
  AddRest(progress, &parts);
  return absl::StrJoin(parts, "  ");
}

std::string MetricsText(const proto::MetricsRecord& record, const proto::JobStatus& status) {
  const proto::Progress& progress = status.progress();
  std::string of = progress.total_steps() > 0 ? absl::StrCat("/", progress.total_steps()) : "";
  std::vector<std::string> parts = {absl::StrCat("step ", record.step(), of)};
  // A program may measure its final model in no window of steps.
  const bool is_window = !worker::HasMeasured(record) || record.samples_per_s() > 0;
  if (is_window) {
    Append(ProgressParts(record.epoch(), record.samples_per_s(), record.loss(), progress), &parts);
  }
  const bool tested = record.has_test_accuracy();
  Append(Measured(tested ? std::optional(record.test_accuracy()) : std::nullopt, record.values()),
         &parts);
  if (record.final()) {
    parts.push_back("(final model)");
  } else if (is_window) {
    AddRest(progress, &parts);
  }
  return absl::StrJoin(parts, "  ");
}

std::string EndLine(const proto::JobStatus& given) {
  const proto::JobStatus status = Printable(given);
  std::string line = JobName(status);
  std::string took =
      status.started_ms() > 0
          ? absl::StrCat(" after ",
                         FormatDuration((status.ended_ms() - status.started_ms()) / 1000.0))
          : "";
  switch (status.state()) {
    case proto::FINISHED:
      absl::StrAppend(&line, ": finished", took);
      for (const std::string& part : Measured(status.progress())) {
        absl::StrAppend(&line, ", ", part);
      }
      return line;
    case proto::CANCELLED:
      return absl::StrCat(line, ": cancelled", took, status.reason().empty() ? "" : ": ",
                          status.reason());
    default:
      return absl::StrCat(line, ": failed", took, ": ", status.reason());
  }
}

bool IsNews(const proto::MetricsRecord& record, uint64_t* shown_step) {
  if (worker::IsLateMeasurement(record)) return true;
  if (record.step() <= *shown_step && !record.final()) return false;
  *shown_step = record.step();
  return true;
}

void ProgressDisplay::Show(const proto::FollowEvent& event) {
  if (event.has_status()) return ShowStatus(Printable(event.status()));
  if (!event.has_metrics()) return;
  const proto::MetricsRecord& record = event.metrics();
  if (!IsNews(record, &shown_step_)) return;
  // On a terminal the live line tells the rest; what was measured stays.
  if (columns_ > 0 && !worker::HasMeasured(record)) return;
  Line(MetricsText(record, status_));
}

void ProgressDisplay::ShowStatus(const proto::JobStatus& status) {
  status_ = status;
  std::string say;
  if (status.state() == proto::QUEUED) {
    say = absl::StrCat(JobName(status), ": queued", status.reason().empty() ? "" : ": ",
                       status.reason());
  } else if (status.state() == proto::RUNNING && HasAllNodes(status)) {
    const std::string encoding = EncodingsName(status.job());
    say = absl::StrCat(JobName(status), ": running ", status.model(), ", mode ", status.mode(),
                       encoding.empty() ? "" : ", ", encoding, ", ",
                       Counted(status.ranks(), "rank"), " on ", DaemonsOf(status));
  }
  if (!say.empty() && say != said_) {
    Line(say);
    said_ = say;
  }
  if (status.state() >= proto::FINISHED) return ClearLive();
  TellResumed(status);
  TellReplaced(status);
  TellChange(status);
  const bool waits = status.state() == proto::RUNNING && !status.waits().empty();
  if (columns_ == 0 && waits) return TellWait(status.waits(0));
  if (columns_ > 0 && status.state() == proto::RUNNING && (waits || status.progress().step() > 0)) {
    // A line that wraps could not be overwritten.
    const std::string line = waits ? WaitLine(status) : LiveProgress(status);
    WriteBytes(out_, absl::StrCat("\r\033[K", EscapedStart(line, columns_ - 1)));
    std::fflush(out_);
    live_ = true;
  }
}

std::string ProgressDisplay::LiveProgress(const proto::JobStatus& status) const {
  const std::string rest = ProgressLine(status);
  if (!has_bar_) return rest;
  const proto::Progress& progress = status.progress();
  uint64_t total_steps = progress.total_steps();
  if (total_steps == 0 && progress.epochs() > 0 && progress.epoch() > 0) {
    // A script's sampler says how many samples there are, not in how many steps.
    total_steps = std::llround(progress.step() * progress.epochs() / progress.epoch());
  }
  return WithBar(progress.step(), total_steps, rest, columns_ - 1);
}

void ProgressDisplay::TellResumed(const proto::JobStatus& status) {
  if (status.state() != proto::RUNNING) return;
  std::string text;
  if (!status.restarts().empty()) {
    const uint64_t step = status.restarts().rbegin()->step();
    text = step > 0 ? absl::StrCat("resumed from step ", step) : "begun again from step 0";
    absl::StrAppend(&text, ", restart ", status.restarts_size());
  } else if (!status.checkpoints().resumed_dir().empty()) {
    text = absl::StrCat("resumed from step ", status.checkpoints().resumed_step(), " in ",
                        status.checkpoints().resumed_dir());
  }
  if (text.empty() || text == said_resumed_) return;
  said_resumed_ = text;
  Line(text);
}

void ProgressDisplay::TellReplaced(const proto::JobStatus& status) {
  if (status.state() != proto::RUNNING || status.replacements().empty()) return;
  const proto::ReplacementStatus& newest = *status.replacements().rbegin();
  const std::string text =
      absl::StrCat("replaced: ", ReplacementText(newest, status), ": ", newest.reason());
  if (text == said_replaced_) return;
  said_replaced_ = text;
  Line(text);
}

void ProgressDisplay::TellChange(const proto::JobStatus& status) {
  if (status.nodes_changes().empty()) return;
  const std::string text =
      absl::StrCat("nodes: ", NodesChangeText(*status.nodes_changes().rbegin()));
  if (text == said_change_) return;
  said_change_ = text;
  Line(text);
}

void ProgressDisplay::TellWait(const proto::Wait& wait) {
  const bool same = wait.daemon() == said_wait_.daemon() && wait.node() == said_wait_.node() &&
                    wait.rank() == said_wait_.rank() && wait.clock() == said_wait_.clock();
  const double since = same ? said_wait_.seconds() + kWaitAgainSeconds : kWaitSeconds;
  if (wait.seconds() < since) return;
  said_wait_ = wait;
  Line(absl::StrCat("waits: ", wait.text()));
}

void ProgressDisplay::Line(const std::string& text) {
  ClearLive();
  PrintF(out_, "%s\n", text);
  std::fflush(out_);
}

void ProgressDisplay::Write(const std::string& lines) {
  ClearLive();
  WriteBytes(out_, lines);
  std::fflush(out_);
}

void ProgressDisplay::ClearLive() {
  if (live_) {
    WriteBytes(out_, "\r\033[K");
    std::fflush(out_);
  }
  live_ = false;
}

}  // namespace strata::cli
