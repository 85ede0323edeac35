#include "cli/cluster/rank_output.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace strata::cli {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

}  // namespace

RankOutputOptions ParseRankOutput(const std::string& log) {
  using Ranks = RankOutputOptions::Ranks;
  if (log.empty()) return {.ranks = Ranks::kFirst};
  if (log == "none") return {.ranks = Ranks::kNone};
  return {.ranks = Ranks::kAll, .file = log == "all" ? "" : log};
}

absl::Status RankOutput::Open(const RankOutputOptions& options) {
  options_ = options;
  if (options_.file.empty()) return absl::OkStatus();
  file_.open(options_.file);
  if (file_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--log ", options_.file, ": cannot be written"));
}

void RankOutput::Begin(const std::string& run_dir, uint32_t ranks,
                       std::function<void(const std::string& lines)> show) {
  if (options_.ranks == RankOutputOptions::Ranks::kNone || thread_.joinable()) return;
  const bool all = options_.ranks == RankOutputOptions::Ranks::kAll;
  for (uint32_t rank = 0; rank < (all ? ranks : 1); ++rank) {
    logs_.emplace_back(absl::StrCat(run_dir, "/logs/rank", rank, ".log"),
                       all ? absl::StrCat("[", rank, "] ") : "");
  }
  show_ = std::move(show);
  thread_ = std::thread([this] {
    while (!ends_.WaitForNotificationWithTimeout(kLookEvery)) Show(/*all=*/false);
  });
}

void RankOutput::End() {
  if (!thread_.joinable()) return;
  ends_.Notify();
  thread_.join();
  Show(/*all=*/true);
}

void RankOutput::Show(bool all) {
  for (LogTail& log : logs_) {
    for (std::string lines = log.Read(all); !lines.empty(); lines = log.Read(all)) {
      if (file_.is_open()) {
        file_ << lines << std::flush;
      } else {
        show_(lines);
      }
    }
  }
}

}  // namespace strata::cli
