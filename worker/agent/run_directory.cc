#include "worker/agent/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "common/os/trusted_file.h"
#include "common/tensorboard/run_events.h"
#include "google/protobuf/text_format.h"

namespace strata::worker {

namespace {

constexpr size_t kLastLineBytesMax = 400;
// The job's own program may also have written to metrics.jsonl.
constexpr size_t kMetricsBytesMax = size_t{1} << 30;

// "2026-11-21T21:50:26.086Z info    [...", the format of InitLogging.
bool OnlyInforms(const std::string& line, const std::optional<LogLine>& json) {
  if (json.has_value()) return json->level == "info" || json->level == "debug";
  constexpr size_t kTimeBytes = 24;
  if (line.size() < kTimeBytes || line[kTimeBytes - 1] != 'Z') return false;
  const std::string rest = line.substr(kTimeBytes);
  return absl::StartsWith(rest, " info ") || absl::StartsWith(rest, " debug ");
}

// Returns the path, absolute and without "." and "..", whatever exists there.
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

// Also removes the files kept beside it (common/os/kept_log.h).
void RemoveLog(int logs, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  unlinkat(logs, name.c_str(), 0);
  unlinkat(logs, (name + ".cut").c_str(), 0);
}

}  // namespace

std::string ChooseRunDirectory(const proto::JobRecord& record, const std::string& runs_dir) {
  std::string name = record.job().run_dir();
  if (name.empty()) name = absl::StrCat(record.job().name(), "-", record.job_id());
  return Normal(std::filesystem::path(runs_dir) / name).string();
}

absl::Status CheckRunDirectory(const std::string& run_dir, const std::string& runs_dir) {
  // Parts that do not exist yet have no links.
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

uint64_t ResumedMetricsStep(const proto::JobRecord& record) {
  return record.resume().step() * ProgramStepsPerStep(record.job());
}

absl::StatusOr<MetricsWritten> KeepMetricsUpTo(uint64_t step, const std::string& path) {
  MetricsWritten written;
  const absl::StatusOr<std::string> text = ReadFile(path, kMetricsBytesMax, Links::kRefuse);
  if (absl::IsNotFound(text.status())) return written;
  if (!text.ok()) return text.status();
  std::istringstream in(*text);
  std::string line, kept;
  while (std::getline(in, line)) {
    absl::string_view rest = line;
    uint64_t of = 0;
    // Not a truncated one.
    if (!absl::ConsumePrefix(&rest, "{\"step\":") || !absl::EndsWith(line, "}")) continue;
    if (!absl::SimpleAtoi(rest.substr(0, rest.find(',')), &of) || of > step) continue;
    absl::StrAppend(&kept, line, "\n");
    const bool is_late = !absl::StrContains(rest, "\"samples\":");
    uint64_t& newest = is_late ? written.measured_step : written.step;
    newest = std::max(newest, of);
    if (is_late) written.measurements.push_back(line);
    written.final = written.final || absl::StrContains(rest, "\"final\":true");
  }
  if (text->size() == kept.size()) return written;
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
  // An earlier program may have put a link in its place.
  const absl::StatusOr<UniqueFd> logs = OpenFolderBelow(run_dir, {"logs"}, /*make=*/false);
  if (!logs.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write to run directory ", run_dir, ": ", logs.status().message()));
  }
  std::error_code error;
  // If others die, any node may have to do it. All prepare before there are metrics.
  const bool may_write = holds_rank_0 || DropsLost(record.job());
  bool was_its_own = false;
  absl::StatusOr<UniqueFd> claim = LockRunDirectory(run_dir, record, &was_its_own);
  if (!claim.ok()) return claim;
  std::filesystem::remove(absl::StrCat(run_dir, "/weights.node-", node, ".hashes"), error);
  if (incarnation > 1 && was_its_own) return claim;
  if (record.attempt() > 0) {
    if (!may_write) return claim;
    const auto kept = KeepMetricsUpTo(ResumedMetricsStep(record), MetricsFile(run_dir));
    if (!kept.ok()) return kept.status();
    return claim;
  }
  RemoveLog(logs->get(), AggregatorLog(run_dir, node));
  for (const proto::LogicalNode& view_node : record.view().nodes()) {
    if (view_node.node() != node) continue;
    for (uint32_t i = 0; i < view_node.ranks(); ++i) {
      RemoveLog(logs->get(), RankLog(run_dir, view_node.first_rank() + i));
    }
  }
  if (!may_write) return claim;
  std::filesystem::remove(MetricsFile(run_dir), error);
  if (absl::Status removed = tensorboard::RemoveRunEvents(run_dir); !removed.ok()) return removed;
  std::filesystem::remove(run_dir + "/model.safetensors", error);
  std::string text;
  google::protobuf::TextFormat::PrintToString(record.job(), &text);
  absl::Status written = WriteFileAtomically(run_dir + "/job.textproto", text);
  if (!written.ok()) return written;
  return claim;
}

absl::Status AppendLine(const std::string& path, const std::string& line) {
  const absl::StatusOr<UniqueFd> fd = OpenRegularFileToWrite(path, O_CREAT | O_APPEND);
  if (!fd.ok()) {
    return absl::Status(fd.status().code(), absl::StrCat("cannot open ", fd.status().message()));
  }
  const std::string text = line + "\n";
  const ssize_t written = write(fd->get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return absl::ErrnoToStatus(written < 0 ? errno : ENOSPC, absl::StrCat("cannot write ", path));
}

std::string LastLine(const std::string& path) {
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(path, Links::kRefuse);
  if (!fd.ok()) return "";
  constexpr off_t kTailBytes = 4096;
  const off_t size = lseek(fd->get(), 0, SEEK_END);
  std::string tail(kTailBytes, '\0');
  const ssize_t got =
      pread(fd->get(), tail.data(), tail.size(), size > kTailBytes ? size - kTailBytes : 0);
  tail.resize(got > 0 ? static_cast<size_t>(got) : 0);
  std::istringstream in(tail);
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

namespace {

constexpr size_t kLineBytesMax = 4096;

// Without the job's token, which is secret: a cluster gives no two jobs the same number.
std::string LineOf(const proto::JobRecord& record) {
  std::string name = absl::CHexEscape(record.job().name());
  return absl::StrFormat("job %d \"%s\" of cluster %016x", record.job_id(),
                         name.substr(0, kLineBytesMax / 2), record.cluster());
}

bool WriteLine(int fd, const std::string& line) {
  const std::string text = line + "\n";
  if (ftruncate(fd, 0) != 0) return false;
  const ssize_t written = pwrite(fd, text.data(), text.size(), 0);
  if (written == static_cast<ssize_t>(text.size())) return true;
  if (written >= 0) errno = ENOSPC;
  return false;
}

std::string ReadLine(int fd) {
  std::string text(kLineBytesMax, '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return std::string(absl::StripAsciiWhitespace(text));
}

// Calls `take` with the logs' open folder and each log's name. Does not follow a link that a
// program has put in the folder's place.
void ForEachLog(const std::string& run_dir, absl::FunctionRef<void(int, const char*)> take) {
  absl::StatusOr<UniqueFd> logs = OpenFolderBelow(run_dir, {"logs"}, /*make=*/false);
  DIR* const folder = logs.ok() ? fdopendir(logs->get()) : nullptr;
  if (folder == nullptr) return;
  const int fd = logs->Release();
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    const bool is_log = absl::StartsWith(name, "rank") || absl::StartsWith(name, "aggregator-node");
    const bool is_ours = absl::EndsWith(name, ".log") || absl::EndsWith(name, ".log.cut");
    if (is_log && is_ours) take(fd, name.c_str());
  }
  closedir(folder);
}

void RemoveLogs(const std::string& run_dir) {
  ForEachLog(run_dir, [](int folder, const char* name) { unlinkat(folder, name, 0); });
}

bool Flock(int fd, int operation) {
  while (flock(fd, operation | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<UniqueFd> LockRunDirectory(const std::string& run_dir,
                                          const proto::JobRecord& record, bool* was_its_own) {
  const std::string path = run_dir + "/.lock";
  absl::StatusOr<UniqueFd> opened = OpenRegularFileToWrite(path, O_RDWR | O_CREAT);
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("cannot open ", opened.status().message()));
  }
  UniqueFd fd = *std::move(opened);
  const std::string line = LineOf(record);
  const bool own = ReadLine(fd.get()) == line;
  if (was_its_own != nullptr) *was_its_own = own;
  if (Flock(fd.get(), LOCK_EX)) {
    // Before the line says that the folder is this job's: they may be another user's.
    if (!own) RemoveLogs(run_dir);
    if (!WriteLine(fd.get(), line)) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
    }
  } else if (errno != EWOULDBLOCK) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path));
  }
  // The kernel releases the lock for a moment when it changes from exclusive to shared; the line
  // tells the owner after that.
  const bool shared = Flock(fd.get(), LOCK_SH);
  const std::string holder = ReadLine(fd.get());
  if (shared && holder == line) return fd;
  return absl::UnavailableError(absl::StrCat("run directory ", run_dir, " is in use by ",
                                             holder.empty() ? "another job" : holder));
}

bool RemoveLogsIfUnused(const std::string& run_dir) {
  // Opened for writing: NFS requires that for exclusive locks.
  const absl::StatusOr<UniqueFd> fd = OpenRegularFileToWrite(run_dir + "/.lock", O_RDWR);
  if (!fd.ok() || !Flock(fd->get(), LOCK_EX)) return false;
  RemoveLogs(run_dir);
  return true;
}

uint64_t LogBytesIn(const std::string& run_dir) {
  uint64_t bytes = 0;
  ForEachLog(run_dir, [&](int folder, const char* name) {
    struct stat facts;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) return;
    bytes += static_cast<uint64_t>(facts.st_size);
  });
  return bytes;
}

std::optional<uint32_t> LastJobIn(const std::string& run_dir) {
  const std::string path = run_dir + "/.lock";
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(path, Links::kRefuse);
  if (!fd.ok()) return std::nullopt;
  const std::string line = ReadLine(fd->get());
  absl::string_view rest = line;
  uint32_t job = 0;
  if (!absl::ConsumePrefix(&rest, "job ")) return std::nullopt;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &job)) return std::nullopt;
  return job;
}

}  // namespace strata::worker
