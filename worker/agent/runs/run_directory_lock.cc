#include "worker/agent/runs/run_directory_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace strata::worker {
namespace {

constexpr size_t kLineBytesMax = 4096;

// Without the job's token, which is a secret: a cluster gives no two jobs the same number.
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

// Of the job that had the folder.
void RemoveLogs(const std::string& run_dir) {
  std::error_code error, ignored;
  std::filesystem::directory_iterator entry(run_dir + "/logs", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_log = absl::StartsWith(name, "rank") || absl::StartsWith(name, "aggregator-node");
    if (is_log && absl::EndsWith(name, ".log")) std::filesystem::remove(entry->path(), ignored);
  }
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
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
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
  // From exclusive to shared the kernel lets go for a moment: the line says whose it is after that.
  const bool shared = Flock(fd.get(), LOCK_SH);
  const std::string holder = ReadLine(fd.get());
  if (shared && holder == line) return fd;
  return absl::UnavailableError(absl::StrCat("run directory ", run_dir, " is in use by ",
                                             holder.empty() ? "another job" : holder));
}

std::optional<uint32_t> LastJobIn(const std::string& run_dir) {
  const std::string path = run_dir + "/.lock";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  const std::string line = ReadLine(fd.get());
  absl::string_view rest = line;
  uint32_t job = 0;
  if (!absl::ConsumePrefix(&rest, "job ")) return std::nullopt;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &job)) return std::nullopt;
  return job;
}

}  // namespace strata::worker
