#include "common/checkpoint/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/aligned_memory.h"
#include "common/file/atomic_file.h"
#include "common/file/direct_file.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// Makes the folder where it is missing, for this user alone. Its name lasts once the folder that it
// lies in is synced, which whoever made it may not have done.
absl::Status MakeFolder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError(errno, folder.string());
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) return FileError(ENOTDIR, folder.string());
  return SyncFolder(folder.parent_path().string());
}

// Makes all of the folders of a path, of which the first is there.
absl::Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  if (folder == folder.root_path() || fs::is_directory(folder, error)) return absl::OkStatus();
  absl::Status status = MakeFolders(folder.parent_path());
  return status.ok() ? MakeFolder(folder) : status;
}

// Adds the names of a folder's objects. What others delete meanwhile is not there.
absl::Status AddNames(const fs::path& folder, const std::string& prefix,
                      std::vector<std::string>* names) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = prefix + entry->path().filename().string();
    std::error_code gone;
    if (entry->is_directory(gone) && !entry->is_symlink(gone)) {
      if (absl::Status status = AddNames(entry->path(), name + "/", names); !status.ok()) {
        return status;
      }
    } else if (entry->is_regular_file(gone) && CheckObjectName(name).ok()) {
      names->push_back(name);
    }
  }
  const bool is_gone = error == std::errc::no_such_file_or_directory;
  return error && !is_gone ? FileError(error.value(), folder.string()) : absl::OkStatus();
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

absl::StatusOr<std::string> FileStore::MakePlace(const std::string& name) const {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  fs::path folder = folder_;
  for (const fs::path& part : fs::path(name).parent_path()) {
    folder /= part;
    if (absl::Status status = MakeFolder(folder); !status.ok()) return status;
  }
  return (fs::path(folder_) / name).string();
}

absl::Status FileStore::Put(const std::string& name,
                            absl::Span<const absl::Span<const char>> pieces) {
  const absl::StatusOr<std::string> path = MakePlace(name);
  return path.ok() ? WriteFileAtomically(*path, pieces, PageCache::kBypass) : path.status();
}

absl::Status FileStore::PutNew(const std::string& name,
                               absl::Span<const absl::Span<const char>> pieces) {
  const absl::StatusOr<std::string> path = MakePlace(name);
  return path.ok() ? WriteNewFileAtomically(*path, pieces) : path.status();
}

absl::StatusOr<FileStore::OpenObject> FileStore::OpenToRead(const std::string& name) const {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  OpenObject object{.path = (fs::path(folder_) / name).string()};
  object.fd = UniqueFd(open(object.path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!object.fd.valid() || fstat(object.fd.get(), &facts) != 0) {
    return FileError(errno, object.path);
  }
  if (!S_ISREG(facts.st_mode)) return FileError(EISDIR, object.path);
  object.size = static_cast<size_t>(facts.st_size);
  return object;
}

absl::StatusOr<Bytes> FileStore::Get(const std::string& name) {
  const absl::StatusOr<OpenObject> object = OpenToRead(name);
  if (!object.ok()) return object.status();
  const size_t size = object->size;
  const std::shared_ptr<std::byte> owner = AlignedMemory(size);
  if (owner == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(object->path, ": no memory for ", size, " bytes"));
  }
  // Through the page cache: others of this host want the same objects.
  for (size_t done = 0; done < size;) {
    const ssize_t got =
        pread(object->fd.get(), owner.get() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, object->path);
    if (got == 0) return absl::DataLossError(object->path + ": became shorter while read");
    done += static_cast<size_t>(got);
  }
  return Bytes(owner, owner.get(), size);
}

absl::Status FileStore::Read(const std::string& name, const TakePiece& take) {
  const absl::StatusOr<OpenObject> object = OpenToRead(name);
  if (!object.ok()) return object.status();
  if (object->size == 0) return take(0, {});
  return ReadDirectly(object->fd.get(), object->size, object->path,
                      [&](absl::Span<const char> piece) { return take(object->size, piece); });
}

absl::StatusOr<std::vector<std::string>> FileStore::List() {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_directory(folder_, error)) return FileError(ENOENT, folder_);
  if (absl::Status status = AddNames(folder_, "", &names); !status.ok()) return status;
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status FileStore::DeleteFolder(const std::string& folder) {
  if (absl::Status status = CheckObjectName(folder); !status.ok()) return status;
  const fs::path path = fs::path(folder_) / folder;
  std::error_code error;
  fs::remove_all(path, error);
  return error ? FileError(error.value(), path.string()) : absl::OkStatus();
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
