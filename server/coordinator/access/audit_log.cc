#include "server/coordinator/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/os/atomic_file.h"

namespace strata::server {
namespace {

// Replaces invalid UTF-8, for example in a peer's text.
std::string LineOf(const AuditEntry& entry, uint64_t left_out, absl::Time now) {
  const auto text = [](const std::string& whole) {
    return whole.substr(0, AuditLog::kTextBytesMax);
  };
  nlohmann::ordered_json json;
  json["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone());
  json["who"] = text(entry.who);
  if (!entry.peer.empty()) json["peer"] = text(entry.peer);
  json["what"] = text(entry.what);
  if (entry.job != 0) json["job"] = entry.job;
  json["outcome"] = entry.refused ? "refused" : "done";
  if (!entry.detail.empty()) json["detail"] = text(entry.detail);
  if (left_out != 0) json["refused_left_out"] = left_out;
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         const Options& options) {
  auto log = absl::WrapUnique(new AuditLog(path, options));
  absl::MutexLock lock(&log->mutex_);
  const absl::Status opened = log->Reopen();
  if (!opened.ok()) return opened;
  return log;
}

absl::Status AuditLog::Reopen() {
  fd_ = UniqueFd(
      open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd_.valid()) return FileError(errno, path_);
  struct stat is = {};
  if (fstat(fd_.get(), &is) != 0) return FileError(errno, path_);
  if (!S_ISREG(is.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": not a regular file"));
  }
  // An existing file may have another mode, and the umask may have removed the owner's own rights.
  if (fchmod(fd_.get(), 0600) != 0) return FileError(errno, path_);
  bytes_ = is.st_size;
  char last = '\n';
  is_torn_ = bytes_ > 0 && pread(fd_.get(), &last, 1, is.st_size - 1) == 1 && last != '\n';
  return absl::OkStatus();
}

absl::Status AuditLog::Rotate() {
  const auto older = [&](int number) { return absl::StrCat(path_, ".", number); };
  for (int number = options_.older_max; number > 0; --number) {
    const std::string from = number == 1 ? path_ : older(number - 1);
    const bool moved = rename(from.c_str(), older(number).c_str()) == 0;
    if (!moved && (errno != ENOENT || number == 1)) return FileError(errno, older(number));
  }
  return absl::OkStatus();
}

absl::Status AuditLog::Append(const std::string& line) {
  if (!fd_.valid() || (bytes_ > 0 && bytes_ + line.size() > options_.bytes_max)) {
    if (fd_.valid()) {
      if (absl::Status rotated = Rotate(); !rotated.ok()) return rotated;
    }
    if (absl::Status opened = Reopen(); !opened.ok()) return opened;
  }
  const std::string text = is_torn_ ? "\n" + line : line;
  ssize_t wrote = 0;
  do {
    wrote = write(fd_.get(), text.data(), text.size());
  } while (wrote < 0 && errno == EINTR);
  if (wrote < 0) return FileError(errno, path_);
  bytes_ += wrote;
  is_torn_ = static_cast<size_t>(wrote) < text.size();
  return is_torn_ ? FileError(ENOSPC, path_) : absl::OkStatus();
}

void AuditLog::Write(const AuditEntry& entry, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (entry.refused) {
    if (now < second_ || now - second_ >= absl::Seconds(1)) {
      second_ = now;
      refused_.clear();
    }
    if (++refused_[entry.who] > options_.refused_per_second) {
      ++left_out_;
      return;
    }
  }
  const absl::Status written = Append(LineOf(entry, left_out_, now));
  if (written.ok()) left_out_ = 0;
  if (written.ok() == is_failing_) {
    is_failing_ = !written.ok();
    if (written.ok()) {
      LogInfo("the audit log is written again");
    } else {
      LogError("the audit log is not written until this is mended: %s",
               std::string(written.message()));
    }
  }
}

}  // namespace strata::server
