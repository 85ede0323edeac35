#ifndef STRATA_COMMON_CHECKPOINT_FILE_STORE_H_
#define STRATA_COMMON_CHECKPOINT_FILE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/store.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"

namespace strata {

// A folder, possibly shared by many hosts. Symbolic links below it are not followed. An object is a
// file that is written under a temporary name, synced and then renamed; leftovers of writers that
// died are not objects.
//
// Threads: any.
class FileStore final : public Store {
 public:
  // Creates the folder if missing. Errors: those of files, naming it; InvalidArgument: not an
  // absolute path.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& folder);

  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override;
  // An error on file systems that have neither hard links nor renames that replace nothing.
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override;
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) override;
  absl::Status Read(const std::string& name, const TakePiece& take) override;
  absl::StatusOr<std::vector<std::string>> List() override;
  // Also removes folders that are empty then.
  absl::Status Delete(const std::string& name) override;
  absl::Status DeleteFolder(const std::string& folder) override;
  const std::string& where() const override { return folder_; }

 private:
  struct OpenObject {
    std::string path;
    UniqueFd fd;
    size_t size = 0;
  };

  // Where an object is, with its folder's descriptor.
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
