#ifndef STRATA_COMMON_CHECKPOINT_FILE_STORE_H_
#define STRATA_COMMON_CHECKPOINT_FILE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/store.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"

namespace strata {

// A folder, which may be one that many hosts share. Below it no symbolic link is followed. An
// object is a file under a temporary name that is synced and then renamed; what a writer left
// behind that died is no object.
//
// Threads: any.
class FileStore final : public Store {
 public:
  // Makes the folder where it is missing. Errors: those of files, naming it; InvalidArgument: not
  // an absolute path.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& folder);

  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override;
  // On file systems that have neither hard links nor renames that replace nothing: an error.
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override;
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) override;
  absl::Status Read(const std::string& name, const TakePiece& take) override;
  absl::StatusOr<std::vector<std::string>> List() override;
  // Folders that are empty then go, too.
  absl::Status Delete(const std::string& name) override;
  absl::Status DeleteFolder(const std::string& folder) override;
  const std::string& where() const override { return folder_; }

 private:
  struct OpenObject {
    std::string path;
    UniqueFd fd;
    size_t size = 0;
  };

  // Where an object lies, and the folder of it that is kept open.
  struct Place {
    UniqueFd folder;
    FileInFolder file;
  };

  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<Place> Find(const std::string& name, bool make) const;
  absl::StatusOr<OpenObject> OpenToRead(const std::string& name) const;

  const std::string folder_;
};

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_FILE_STORE_H_
