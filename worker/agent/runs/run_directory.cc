#include "worker/agent/runs/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file/atomic_file.h"
#include "common/file/file_error.h"
#include "common/file/own_folder.h"
#include "common/job/job.h"
#include "common/log_format.h"
#include "common/tensorboard/run_events.h"
#include "google/protobuf/text_format.h"
#include "worker/agent/runs/run_directory_lock.h"

namespace strata::worker {
namespace {

constexpr size_t kLastLineBytesMax = 400;

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  if (!out) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

// "2026-11-21T21:50:26.086Z info    [...", as InitLogging's.
bool OnlyInforms(const std::string& line, const std::optional<LogLine>& json) {
  if (json.has_value()) return json->level == "info" || json->level == "debug";
  constexpr size_t kTimeBytes = 24;
  if (line.size() < kTimeBytes || line[kTimeBytes - 1] != 'Z') return false;
  const std::string rest = line.substr(kTimeBytes);
  return absl::StartsWith(rest, " info ") || absl::StartsWith(rest, " debug ");
}

// Absolute and without "." and "..", whatever is there.
std::filesystem::path Normal(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path normal = (error ? path : absolute).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [in_path, in_folder] =
      std::mismatch(path.begin(), path.end(), folder.begin(), folder.end());
  return in_folder == folder.end() && in_path != path.end();
}

absl::Status MakeFolders(const std::string& path, RunAccess access) {
  if (access == RunAccess::kOwn) return MakeOwnFolders(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? FileError(error.value(), path) : absl::OkStatus();
}

}  // namespace

std::string ChooseRunDirectory(const proto::JobRecord& record, const std::string& runs_dir) {
  std::string name = record.job().run_dir();
  if (name.empty()) name = absl::StrCat(record.job().name(), "-", record.job_id());
  return Normal(std::filesystem::path(runs_dir) / name).string();
}

absl::Status CheckRunDirectory(const std::string& run_dir, const std::string& runs_dir) {
  // What is not there yet has no links.
  std::error_code error, runs_error;
  const auto real = std::filesystem::weakly_canonical(run_dir, error);
  const auto runs = std::filesystem::weakly_canonical(Normal(runs_dir), runs_error);
  if (!error && !runs_error && IsBelow(Normal(run_dir), Normal(runs_dir)) && IsBelow(real, runs)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "run_dir: ", run_dir, ": not below ", Normal(runs_dir).string(),
      ", where this worker puts outputs (--runs); name a folder in it, such as run_dir: \"mine\""));
}

std::string AggregatorLog(const std::string& run_dir, uint32_t node) {
  return absl::StrCat(run_dir, "/logs/aggregator-node", node, ".log");
}

std::string RankLog(const std::string& run_dir, uint32_t rank) {
  return absl::StrCat(run_dir, "/logs/rank", rank, ".log");
}

std::string MetricsFile(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/metrics.jsonl");
}

absl::StatusOr<MetricsWritten> KeepMetricsUpTo(uint64_t step, const std::string& path) {
  MetricsWritten written;
  std::ifstream in(path);
  if (!in) return written;  // there is none
  std::string line, kept;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    uint64_t of = 0;
    // Not one that was cut short.
    if (!absl::ConsumePrefix(&rest, "{\"step\":") || !absl::EndsWith(line, "}")) continue;
    if (!absl::SimpleAtoi(rest.substr(0, rest.find(',')), &of) || of > step) continue;
    absl::StrAppend(&kept, line, "\n");
    const bool is_late = !absl::StrContains(rest, "\"samples\":");
    uint64_t& newest = is_late ? written.measured_step : written.step;
    newest = std::max(newest, of);
    written.final = written.final || absl::StrContains(rest, "\"final\":true");
  }
  in.clear();
  if (in.seekg(0, std::ios::end).tellg() == static_cast<std::streamoff>(kept.size())) {
    return written;
  }
  const absl::Status status = WriteFileAtomically(path, kept);
  if (!status.ok()) return status;
  return written;
}

absl::StatusOr<UniqueFd> PrepareRunDirectory(const std::string& run_dir,
                                             const proto::JobRecord& record, uint32_t node,
                                             bool holds_rank_0, RunAccess access,
                                             uint32_t incarnation) {
  const absl::Status made = MakeFolders(run_dir + "/logs", access);
  if (!made.ok() || ::access(run_dir.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write to run directory ", run_dir, ": ",
                     made.ok() ? std::string(strerror(errno)) : std::string(made.message())));
  }
  std::error_code error;
  // Where others die, any node may come to do that. All prepare before there are metrics.
  const bool may_write = holds_rank_0 || DropsLost(record.job());
  bool was_its_own = false;
  absl::StatusOr<UniqueFd> claim = LockRunDirectory(run_dir, record, &was_its_own);
  if (!claim.ok()) return claim;
  std::filesystem::remove(absl::StrCat(run_dir, "/weights.node-", node, ".hashes"), error);
  if (incarnation > 1 && was_its_own) return claim;
  if (record.attempt() > 0) {
    if (!may_write) return claim;
    const auto kept = KeepMetricsUpTo(record.resume().step(), MetricsFile(run_dir));
    if (!kept.ok()) return kept.status();
    return claim;
  }
  std::filesystem::remove(AggregatorLog(run_dir, node), error);
  for (const proto::LogicalNode& view_node : record.view().nodes()) {
    if (view_node.node() != node) continue;
    for (uint32_t i = 0; i < view_node.ranks(); ++i) {
      std::filesystem::remove(RankLog(run_dir, view_node.first_rank() + i), error);
    }
  }
  if (!may_write) return claim;
  std::filesystem::remove(MetricsFile(run_dir), error);
  if (absl::Status removed = tensorboard::RemoveRunEvents(run_dir); !removed.ok()) return removed;
  std::filesystem::remove(run_dir + "/model.safetensors", error);
  std::string text;
  google::protobuf::TextFormat::PrintToString(record.job(), &text);
  absl::Status written = WriteFile(run_dir + "/job.textproto", text);
  if (!written.ok()) return written;
  return claim;
}

absl::Status AppendLine(const std::string& path, const std::string& line) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::string text = line + "\n";
  ssize_t written = write(fd, text.data(), text.size());
  absl::Status status;
  if (written != static_cast<ssize_t>(text.size())) {
    status = absl::ErrnoToStatus(written < 0 ? errno : ENOSPC, absl::StrCat("cannot write ", path));
  }
  close(fd);
  return status;
}

std::string LastLine(const std::string& path) {
  std::ifstream in(path, std::ios::ate);
  if (!in) return "";
  constexpr std::streamoff kTailBytes = 4096;
  std::streamoff size = in.tellg();
  in.seekg(size > kTailBytes ? size - kTailBytes : 0);
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    std::string stripped(absl::StripAsciiWhitespace(line));
    const std::optional<LogLine> json = ReadJsonLogLine(stripped);
    if (stripped.empty() || OnlyInforms(stripped, json)) continue;
    last = json.has_value() ? json->message : stripped;
  }
  if (last.size() > kLastLineBytesMax) last.resize(kLastLineBytesMax);
  return last;
}

}  // namespace strata::worker
