#include "common/tensorboard/run_events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/atomic_file.h"
#include "common/tensorboard/events.h"
#include "common/unique_fd.h"

namespace strata::tensorboard {
namespace {

constexpr absl::string_view kPrefix = "events.out.tfevents.";
constexpr absl::string_view kSuffix = ".strata";

bool IsOfAJob(absl::string_view name) { return absl::EndsWith(name, kSuffix); }

// A file's name cannot contain a path.
std::string OwnHost() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host(name.data());
  std::replace(host.begin(), host.end(), '/', '-');
  return host;
}

// Returns the newest file of a job; empty: none.
std::string FindFile(const std::string& dir) {
  std::string newest;
  for (const std::string& name : EventFilesIn(dir)) {
    if (IsOfAJob(name)) newest = name;
  }
  return newest.empty() ? "" : absl::StrCat(dir, "/", newest);
}

// Truncates an incomplete record. Returns the remaining bytes.
absl::StatusOr<int64_t> Mend(const std::string& path) {
  // Does not block on a pipe that somebody put there.
  if (absl::Status is_file = OpenRegularFile(path, Links::kRefuse).status(); !is_file.ok()) {
    return is_file;
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return FileError(errno, path);
  RecordReader reader(&in);
  std::string payload;
  while (reader.Next(&payload)) {
  }
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return FileError(errno, path);
  if (facts.st_size != reader.whole_bytes() && truncate(path.c_str(), reader.whole_bytes()) != 0) {
    return FileError(errno, path);
  }
  return reader.whole_bytes();
}

}  // namespace

std::vector<std::string> EventFilesIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    names.push_back(entry.path().filename().string());
    if (!absl::StartsWith(names.back(), kPrefix)) names.pop_back();
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveRunEvents(const std::string& dir) {
  for (const std::string& name : EventFilesIn(dir)) {
    if (!IsOfAJob(name) && name != kExportedName) continue;
    const std::string path = absl::StrCat(dir, "/", name);
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) return FileError(error.value(), path);
  }
  return absl::OkStatus();
}

double RunEvents::Now() const { return absl::ToDoubleSeconds(options_.now() - absl::UnixEpoch()); }

absl::Status RunEvents::Append(const strata::proto::MetricsRecord& record,
                               std::optional<uint64_t> kept_step) {
  if (path_.empty()) {
    if (absl::Status status = Open(kept_step); !status.ok()) return status;
  }
  return Write({MetricsEvent(record, Now())});
}

absl::Status RunEvents::Open(std::optional<uint64_t> kept_step) {
  std::string path = FindFile(options_.dir);
  int64_t bytes = 0;
  if (path.empty()) {
    path = absl::StrCat(options_.dir, "/", kPrefix,
                        absl::StrFormat("%010d", absl::ToUnixSeconds(options_.now())), ".",
                        OwnHost(), kSuffix);
  } else {
    const absl::StatusOr<int64_t> whole = Mend(path);
    if (!whole.ok()) return whole.status();
    bytes = *whole;
  }
  std::vector<proto::Event> events;
  if (bytes == 0) {
    events = {FileVersionEvent(Now()), JobTextEvent(options_.job_text, Now())};
  }
  // Others may have written steps that are repeated now, or one that metrics.jsonl lacks.
  if (kept_step && (bytes > 0 || *kept_step > 0)) events.push_back(GoOnEvent(*kept_step, Now()));
  path_ = path;
  const absl::Status status = Write(events);
  if (!status.ok()) path_.clear();
  return status;
}

absl::Status RunEvents::Write(const std::vector<proto::Event>& events) {
  std::string text;
  for (const proto::Event& event : events) text += FrameEvent(event);
  const absl::StatusOr<UniqueFd> fd = OpenRegularFileToWrite(path_, O_CREAT | O_APPEND);
  if (!fd.ok()) {
    return absl::Status(fd.status().code(), absl::StrCat("cannot open ", fd.status().message()));
  }
  struct stat facts;
  if (fstat(fd->get(), &facts) != 0) return FileError(errno, path_);
  const ssize_t written = write(fd->get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  const int error_number = written < 0 ? errno : ENOSPC;
  // Nothing must follow half a record.
  if (written > 0 && ftruncate(fd->get(), facts.st_size) != 0) path_.clear();
  return absl::ErrnoToStatus(error_number, absl::StrCat("cannot write ", path_));
}

}  // namespace strata::tensorboard
