#include "common/os/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/atomic_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersWrite = 0022;
constexpr int kLinksMax = 40;  // the kernel's limit

// Root's uid. In a user namespace without root, such as a Bazel sandbox, it is that of all unknown
// users; nobody there can become one of them.
uid_t RootsNumber() {
  std::ifstream map("/proc/self/uid_map");
  for (uint64_t inside = 0, outside = 0, count = 0; map >> inside >> outside >> count;) {
    if (inside == 0) return 0;
  }
  uid_t root = 0;
  std::ifstream("/proc/sys/kernel/overflowuid") >> root;
  return root;
}

// Walks one path from the root, name by name.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) { Prepend(path); }

  absl::Status Run() {
    if (absl::Status status = Look("/"); !status.ok()) return status;
    while (!names_.empty()) {
      const std::string name = names_.front();
      names_.pop_front();
      if (absl::Status status = Step(name); !status.ok()) return status;
    }
    if (S_ISREG(facts_.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path_, ": not a regular file"));
  }

 private:
  void Prepend(const fs::path& path) {
    if (path.is_absolute()) at_ = "/";
    const fs::path relative = path.relative_path();
    names_.insert(names_.begin(), relative.begin(), relative.end());
  }

  absl::Status Step(const std::string& name) {
    if (name.empty() || name == ".") return absl::OkStatus();
    if (name == "..") {
      at_ = at_.parent_path();
      return absl::OkStatus();
    }
    const fs::path next = at_ / name;
    if (absl::Status status = Look(next); !status.ok()) return status;
    if (!S_ISLNK(facts_.st_mode)) {
      at_ = next;
      return absl::OkStatus();
    }
    std::error_code error;
    const fs::path target = fs::read_symlink(next, error);
    if (error) return FileError(error.value(), next);
    if (++links_ > kLinksMax) return FileError(ELOOP, path_);
    Prepend(target);
    return absl::OkStatus();
  }

  // Checks that others cannot replace what a path, whose folder is good, names or links to.
  absl::Status Look(const fs::path& at) {
    if (lstat(at.c_str(), &facts_) != 0) {
      return FileError(errno, at == path_ ? path_ : absl::StrCat(path_, ": ", at.string()));
    }
    if (facts_.st_uid != root_ && facts_.st_uid != geteuid()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s: others may replace it (%s belongs to user %d): use a copy of your "
                          "own, or chown root %s",
                          path_, at.string(), facts_.st_uid, at.string()));
    }
    const bool protects = S_ISLNK(facts_.st_mode) || (facts_.st_mode & kOthersWrite) == 0 ||
                          (S_ISDIR(facts_.st_mode) && (facts_.st_mode & S_ISVTX) != 0);
    if (protects) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: others may replace it (%s has mode %04o): chmod go-w %s", path_,
                        at.string(), facts_.st_mode & 07777, at.string()));
  }

  const std::string path_;
  const uid_t root_ = RootsNumber();
  std::deque<std::string> names_;  // names still to be visited
  fs::path at_;                    // a folder, or the end; no links in it
  struct stat facts_ = {};         // of the last visited entry
  int links_ = 0;
};

}  // namespace

absl::Status CheckTrusted(const std::string& path) {
  if (!fs::path(path).is_absolute()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not an absolute path: say where it is from / on"));
  }
  return Walk(path).Run();
}

namespace {

constexpr mode_t kOwnOnly = 0700;

absl::Status Make(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return absl::OkStatus();
  if (folder != folder.parent_path()) {
    if (absl::Status status = Make(folder.parent_path()); !status.ok()) return status;
  }
  if (mkdir(folder.c_str(), kOwnOnly) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError(errno, folder.string());
  // Another process has just created it, or it is a file.
  return fs::is_directory(folder, error) ? absl::OkStatus() : FileError(ENOTDIR, folder.string());
}

}  // namespace

absl::Status MakeOwnFolders(const std::string& path) {
  const fs::path folder = path;
  return Make(folder.has_filename() ? folder : folder.parent_path());
}

}  // namespace strata
