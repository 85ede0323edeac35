
#include "common/checkpoint/open_store.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/file_store.h"
#include "common/os/atomic_file.h"
#include "common/os/environment.h"
#include "common/s3/bucket.h"

namespace strata {
namespace {

// The objects below a prefix of a bucket. Writers that died leave parts of uploads, which are not
// objects; DeleteFolder aborts them.
//
// Threads: any. Each call blocks only its own, for at most Limits::deadline.
class S3Store final : public Store {
 public:
  // Opens "s3://BUCKET[/PREFIX]", with the endpoint, region and credentials in the environment or
  // the user's files (s3::FindSettings). Makes no requests. `stop` ends every call at once. Errors:
  // those of FindSettings, and FailedPrecondition: no usable libcurl.
  static absl::StatusOr<std::unique_ptr<S3Store>> Open(const std::string& address,
                                                       const Environment& environment,
                                                       const s3::Limits& limits,
                                                       std::stop_token stop);

  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override;
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override;
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) override;
  absl::StatusOr<std::vector<std::string>> List() override;
  absl::Status Delete(const std::string& name) override;
  absl::Status DeleteFolder(const std::string& folder) override;
  const std::string& where() const override { return where_; }

 private:
  S3Store(std::unique_ptr<s3::Bucket> bucket, std::string where)
      : bucket_(std::move(bucket)), where_(std::move(where)) {}

  const std::unique_ptr<s3::Bucket> bucket_;
  const std::string where_;
};

absl::StatusOr<std::unique_ptr<S3Store>> S3Store::Open(const std::string& address,
                                                       const Environment& environment,
                                                       const s3::Limits& limits,
                                                       std::stop_token stop) {
  absl::StatusOr<s3::Settings> settings = s3::FindSettings(address, environment);
  if (!settings.ok()) return settings.status();
  absl::StatusOr<std::unique_ptr<s3::Bucket>> bucket =
      s3::Bucket::Open(*settings, limits, std::move(stop));
  if (!bucket.ok()) return bucket.status();
  return std::unique_ptr<S3Store>(new S3Store(*std::move(bucket), settings->Address()));
}

absl::Status S3Store::Put(const std::string& name,
                          absl::Span<const absl::Span<const char>> pieces) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  return bucket_->Put(name, pieces, /*only_new=*/false);
}

absl::Status S3Store::PutNew(const std::string& name,
                             absl::Span<const absl::Span<const char>> pieces) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  return bucket_->Put(name, pieces, /*only_new=*/true);
}

absl::StatusOr<Bytes> S3Store::GetAtMost(const std::string& name, uint64_t bytes_max) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  return bucket_->Get(name, bytes_max);
}

absl::StatusOr<std::vector<std::string>> S3Store::List() {
  absl::StatusOr<std::vector<std::string>> names = bucket_->List("");
  if (!names.ok()) return names;
  // A bucket may hold more than our objects: names of another form are ignored.
  std::erase_if(*names, [](const std::string& name) { return !CheckObjectName(name).ok(); });
  return names;
}

absl::Status S3Store::Delete(const std::string& name) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  return bucket_->Delete(name);
}

absl::Status S3Store::DeleteFolder(const std::string& folder) {
  if (absl::Status status = CheckObjectName(folder); !status.ok()) return status;
  const std::string start = folder + "/";
  const absl::StatusOr<std::vector<std::string>> names = bucket_->List(start);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (absl::Status status = bucket_->Delete(name); !status.ok()) return status;
  }
  return bucket_->AbortUploads(start);
}

bool IsS3(const std::string& address) { return absl::StartsWith(address, "s3://"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address,
                                                 const StoreOptions& options) {
  if (absl::StartsWith(address, "/")) return FileStore::Open(address);
  if (IsS3(address)) {
    return S3Store::Open(address, options.environment, options.s3, options.stop);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is neither an absolute path nor s3://BUCKET/PREFIX"));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStoreThatIsThere(const std::string& address,
                                                            const StoreOptions& options) {
  namespace fs = std::filesystem;
  if (address.empty()) return absl::InvalidArgumentError("a store's address is empty");
  if (IsS3(address)) return OpenStore(address, options);
  std::error_code error;
  const fs::file_status facts = fs::status(address, error);
  if (facts.type() == fs::file_type::not_found) return FileError(ENOENT, address);
  if (error) return FileError(error.value(), address);
  if (!fs::is_directory(facts)) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": not a folder"));
  }
  const fs::path path = fs::absolute(address, error);
  if (error) return FileError(error.value(), address);
  return OpenStore(path.string(), options);
}

}  // namespace strata
