#include "server/coordinator/access/policy_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"

namespace strata::server {
namespace {

constexpr mode_t kOthersChange = 0022;

// Checks the opened file rather than the path, which may be replaced in between.
absl::Status CheckIsGuarded(const struct stat& is, const std::string& path) {
  if (!S_ISREG(is.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));
  }
  if (is.st_uid != 0 && is.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: belongs to user %d, who may change it: chown %d %s, or chown root",
                        path, is.st_uid, geteuid(), path));
  }
  if ((is.st_mode & kOthersChange) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: mode %04o lets others change who may do what: chmod go-w %s", path,
                      is.st_mode & 07777, path));
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string content;
  char block[16384];
  while (true) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    if (got == 0) return content;
    if (content.size() + got > Policy::kBytesMax) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s: larger than %d bytes", path, Policy::kBytesMax));
    }
    content.append(block, got);
  }
}

auto Tied(const timespec& time) { return std::tie(time.tv_sec, time.tv_nsec); }

}  // namespace

bool PolicyFile::Stamp::operator==(const Stamp& other) const {
  return device == other.device && inode == other.inode && bytes == other.bytes &&
         Tied(modified) == Tied(other.modified) && Tied(changed) == Tied(other.changed);
}

PolicyFile::Stamp PolicyFile::Look() const {
  struct stat is = {};
  if (stat(path_.c_str(), &is) != 0) return {.bytes = -1};
  return {is.st_dev, is.st_ino, is.st_size, is.st_mtim, is.st_ctim};
}

absl::Status PolicyFile::Read() {
  // Taken before reading, so that a change during it is noticed the next time.
  stamp_ = Look();
  const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid()) return FileError(errno, path_);
  struct stat is = {};
  if (fstat(fd.get(), &is) != 0) return FileError(errno, path_);
  if (absl::Status guarded = CheckIsGuarded(is, path_); !guarded.ok()) return guarded;
  const absl::StatusOr<std::string> text = ReadAll(fd.get(), path_);
  if (!text.ok()) return text.status();
  absl::StatusOr<Policy> policy = Policy::Parse(*text, path_);
  if (!policy.ok()) return policy.status();
  // A file that is being rewritten in place is empty for an instant.
  if (policy_->lists_anybody() && !policy->lists_anybody()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_,
        ": it lists nobody any more, and so would let everybody run programs: if that is meant, "
        "say default_user { role: RUN_PROGRAMS } or restart the coordinator"));
  }
  policy_ = std::make_shared<const Policy>(*std::move(policy));
  LogInfo("policy %s: %s", path_, Counted(policy_->users(), "user"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PolicyFile>> PolicyFile::Open(const std::string& path,
                                                             bool must_exist) {
  auto file = absl::WrapUnique(new PolicyFile(path));
  absl::MutexLock lock(&file->mutex_);
  const absl::Status read = file->Read();
  if (!read.ok() && (must_exist || !absl::IsNotFound(read))) return read;
  return file;
}

std::shared_ptr<const Policy> PolicyFile::Current(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (now - looked_at_ < kLookEvery && now >= looked_at_) return policy_;
  looked_at_ = now;
  if (Look() == stamp_) return policy_;
  const absl::Status read = Read();
  if (!read.ok()) {
    LogWarning("the policy before stays, as the one that is there now is of no use: %s",
               std::string(read.message()));
  }
  return policy_;
}

}  // namespace strata::server
