#include "common/checkpoint/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/buffer_pool.h"
#include "common/os/atomic_file.h"
#include "common/os/direct_file.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

// Creates the folder if missing, for this user only. Its name is durable once its parent is synced,
// which its creator may not have done.
absl::Status MakeFolder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError(errno, folder.string());
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) return FileError(ENOTDIR, folder.string());
  return SyncFolder(folder.parent_path().string());
}

// Creates all folders of a path, of which the first exists.
absl::Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  if (folder == folder.root_path() || fs::is_directory(folder, error)) return absl::OkStatus();
  absl::Status status = MakeFolders(folder.parent_path());
  return status.ok() ? MakeFolder(folder) : status;
}

// Adds the names of a folder's objects, ignoring those that others delete meanwhile.
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

absl::StatusOr<FileStore::Place> FileStore::Find(const std::string& name, bool make) const {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  std::vector<std::string> parts = absl::StrSplit(name, '/');
  Place place{.file = {.name = std::move(parts.back()), .path = absl::StrCat(folder_, "/", name)}};
  parts.pop_back();
  absl::StatusOr<UniqueFd> folder = OpenFolderBelow(folder_, parts, make);
  if (!folder.ok()) return folder.status();
  place.folder = *std::move(folder);
  place.file.folder = place.folder.get();
  return place;
}

absl::Status FileStore::Put(const std::string& name,
                            absl::Span<const absl::Span<const char>> pieces) {
  const absl::StatusOr<Place> place = Find(name, /*make=*/true);
  return place.ok() ? WriteFileAtomically(place->file, pieces, PageCache::kBypass) : place.status();
}

absl::Status FileStore::PutNew(const std::string& name,
                               absl::Span<const absl::Span<const char>> pieces) {
  const absl::StatusOr<Place> place = Find(name, /*make=*/true);
  return place.ok() ? WriteNewFileAtomically(place->file, pieces) : place.status();
}

absl::StatusOr<FileStore::OpenObject> FileStore::OpenToRead(const std::string& name) const {
  const absl::StatusOr<Place> place = Find(name, /*make=*/false);
  if (absl::IsNotFound(place.status())) return FileError(ENOENT, absl::StrCat(folder_, "/", name));
  if (!place.ok()) return place.status();
  OpenObject object{.path = place->file.path};
  absl::StatusOr<UniqueFd> fd = OpenRegularFile(place->file);
  if (!fd.ok()) return fd.status();
  object.fd = *std::move(fd);
  struct stat facts = {};
  if (fstat(object.fd.get(), &facts) != 0) return FileError(errno, object.path);
  object.size = static_cast<size_t>(facts.st_size);
  return object;
}

absl::StatusOr<Bytes> FileStore::GetAtMost(const std::string& name, uint64_t bytes_max) {
  const absl::StatusOr<OpenObject> object = OpenToRead(name);
  if (!object.ok()) return object.status();
  const size_t size = object->size;
  if (size > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(object->path, ": larger than ", bytes_max, " bytes"));
  }
  const std::shared_ptr<std::byte> owner = AlignedMemory(size);
  if (owner == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(object->path, ": no memory for ", size, " bytes"));
  }
  // Through the page cache: others on this host want the same objects.
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
  const absl::StatusOr<Place> place = Find(folder, /*make=*/false);
  if (absl::IsNotFound(place.status())) return absl::OkStatus();
  if (!place.ok()) return place.status();
  // A link is removed, its target is not.
  std::error_code error;
  fs::remove_all(place->file.path, error);
  return error ? FileError(error.value(), place->file.path) : absl::OkStatus();
}

absl::Status FileStore::Delete(const std::string& name) {
  const absl::StatusOr<Place> place = Find(name, /*make=*/false);
  if (absl::IsNotFound(place.status())) return absl::OkStatus();
  if (!place.ok()) return place.status();
  if (unlinkat(place->folder.get(), place->file.name.c_str(), 0) != 0 && errno != ENOENT) {
    return FileError(errno, place->file.path);
  }
  // Empty folders are removed; a link is not a folder.
  for (std::string folder = name; folder.rfind('/') != std::string::npos;) {
    folder.resize(folder.rfind('/'));
    const absl::StatusOr<Place> emptied = Find(folder, /*make=*/false);
    if (!emptied.ok()) break;
    if (unlinkat(emptied->folder.get(), emptied->file.name.c_str(), AT_REMOVEDIR) != 0) break;
  }
  return absl::OkStatus();
}

}  // namespace strata
