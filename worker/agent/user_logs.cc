#include "worker/agent/user_logs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {
namespace {

constexpr size_t kOwnerBytesMax = 1024;

std::string OwnerFile(const std::string& run_dir) { return run_dir + "/.owner"; }

std::optional<std::string> OwnerOf(const std::string& run_dir) {
  const auto text = ReadFile(OwnerFile(run_dir), kOwnerBytesMax, Links::kRefuse);
  if (!text.ok()) return std::nullopt;
  return std::string(absl::StripAsciiWhitespace(*text));
}

}  // namespace

UserLogs::UserLogs(const std::string& runs_dir, uint64_t bytes_max)
    : runs_dir_(std::filesystem::absolute(runs_dir).lexically_normal().string()),
      bytes_max_(bytes_max) {}

absl::Status UserLogs::SetOwner(const std::string& run_dir, const std::string& owner) {
  if (!owner.empty()) return WriteFileAtomically(OwnerFile(run_dir), owner + "\n");
  std::error_code ignored;
  std::filesystem::remove(OwnerFile(run_dir), ignored);
  return absl::OkStatus();
}

void UserLogs::OnEnded(const std::string& owner, const std::string& run_dir) {
  // A folder that was refused to the job is not the job's.
  if (owner.empty() || OwnerOf(run_dir) != owner) return;
  if (!std::exchange(has_looked_, true)) FindBelow(runs_dir_, 1);
  Add(owner, run_dir);
  std::vector<Run> oldest_first = runs_;
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const Run& a, const Run& b) { return a.began < b.began; });
  uint64_t bytes = BytesOf(owner);
  for (const Run& run : oldest_first) {
    if (bytes <= bytes_max_) return;
    if (run.owner != owner || run.run_dir == run_dir) continue;
    // The folder may belong to another user by now, be gone, or be a link to elsewhere.
    const bool is_theirs =
        OwnerOf(run.run_dir) == owner && CheckRunDirectory(run.run_dir, runs_dir_).ok();
    if (is_theirs && !RemoveLogsIfUnused(run.run_dir)) continue;
    if (is_theirs) {
      LogInfo("the logs in %s are removed: those of user %s take more than %d bytes", run.run_dir,
              owner, bytes_max_);
    }
    bytes -= run.bytes;
    std::erase_if(runs_, [&](const Run& one) { return one.run_dir == run.run_dir; });
  }
}

// A folder that is unreadable, or gone meanwhile, hides no other one.
void UserLogs::FindBelow(const std::string& folder, int depth) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored) || entry->is_symlink(ignored)) continue;
    const std::string run_dir = entry->path().string();
    if (const std::optional<std::string> owner = OwnerOf(run_dir)) {
      if (!owner->empty()) Add(*owner, run_dir);
    } else if (depth < kDepthMax && !std::filesystem::exists(run_dir + "/.lock", ignored)) {
      FindBelow(run_dir, depth + 1);
    }
  }
}

void UserLogs::Add(const std::string& owner, const std::string& run_dir) {
  std::erase_if(runs_, [&](const Run& run) { return run.run_dir == run_dir; });
  std::error_code error;
  const auto began = std::filesystem::last_write_time(run_dir + "/.lock", error);
  runs_.push_back({.owner = owner,
                   .run_dir = run_dir,
                   .began = error ? 0 : began.time_since_epoch().count(),
                   .bytes = LogBytesIn(run_dir)});
}

uint64_t UserLogs::BytesOf(const std::string& owner) const {
  uint64_t bytes = 0;
  for (const Run& run : runs_) {
    if (run.owner == owner) bytes += run.bytes;
  }
  return bytes;
}

}  // namespace strata::worker
