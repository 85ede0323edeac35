#ifndef STRATA_COMMON_CHECKPOINT_FILE_STORE_H_
#define STRATA_COMMON_CHECKPOINT_FILE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/store.h"
#include "common/unique_fd.h"

namespace strata {

// A folder, which may be one that many hosts share. An object is a file under a temporary name that
// is synced and then renamed; what a writer left behind that died is no object.
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
  absl::StatusOr<Bytes> Get(const std::string& name) override;
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

  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<OpenObject> OpenToRead(const std::string& name) const;

  // Makes the folders that an object lies in and returns its path.
  absl::StatusOr<std::string> MakePlace(const std::string& name) const;

  const std::string folder_;
};

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_FILE_STORE_H_
