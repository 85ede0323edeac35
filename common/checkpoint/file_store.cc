#include "common/checkpoint/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAlignment = 64;
constexpr char kTemporary[] = ".tmp.";

absl::Status Failed(const std::error_code& error, const std::string& path) {
  return FileError(error.value(), path);
}

// A new folder's own name lasts once the folder that it lies in is synced.
absl::Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return absl::OkStatus();
  if (folder.has_parent_path() && folder != folder.parent_path()) {
    if (absl::Status status = MakeFolders(folder.parent_path()); !status.ok()) return status;
  }
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return FileError(errno, folder.string());
  }
  if (!fs::is_directory(folder, error)) return FileError(ENOTDIR, folder.string());
  const UniqueFd parent(open(folder.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid() || fsync(parent.get()) != 0) {
    return FileError(errno, folder.parent_path().string());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  if (!path.is_absolute()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": not an absolute path"));
  }
  if (absl::Status status = MakeFolders(path); !status.ok()) return status;
  return std::unique_ptr<FileStore>(new FileStore(path.string()));
}

absl::Status FileStore::Put(const std::string& name,
                            absl::Span<const absl::Span<const char>> pieces) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  const fs::path path = fs::path(folder_) / name;
  if (absl::Status status = MakeFolders(path.parent_path()); !status.ok()) return status;
  return WriteFileAtomically(path.string(), pieces);
}

absl::StatusOr<Bytes> FileStore::Get(const std::string& name) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  const std::string path = (fs::path(folder_) / name).string();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!fd.valid() || fstat(fd.get(), &facts) != 0) return FileError(errno, path);
  if (!S_ISREG(facts.st_mode)) return FileError(EISDIR, path);
  const auto size = static_cast<size_t>(facts.st_size);
  // aligned_alloc wants a multiple of the alignment.
  void* const memory =
      std::aligned_alloc(kAlignment, (size + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory for ", size, " bytes"));
  }
  const std::shared_ptr<std::byte> owner(static_cast<std::byte*>(memory), std::free);
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(fd.get(), owner.get() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, ": became shorter while read"));
    done += static_cast<size_t>(got);
  }
  return Bytes(owner, owner.get(), size);
}

absl::StatusOr<std::vector<std::string>> FileStore::List() {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder_, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;  // another process deletes
    if (!entry->is_regular_file(gone)) continue;
    const std::string name = fs::path(entry->path()).lexically_relative(folder_).string();
    if (CheckObjectName(name).ok() && !absl::StrContains(name, kTemporary)) names.push_back(name);
  }
  if (error) return Failed(error, folder_);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status FileStore::Delete(const std::string& name) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  fs::path path = fs::path(folder_) / name;
  if (unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
    return FileError(errno, path.string());
  }
  for (path = path.parent_path(); path != fs::path(folder_); path = path.parent_path()) {
    if (rmdir(path.c_str()) != 0) break;
  }
  return absl::OkStatus();
}

}  // namespace strata
