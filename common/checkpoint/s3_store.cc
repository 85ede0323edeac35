#include "common/checkpoint/s3_store.h"

#include <utility>

namespace strata {

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

absl::StatusOr<Bytes> S3Store::Get(const std::string& name) {
  if (absl::Status status = CheckObjectName(name); !status.ok()) return status;
  return bucket_->Get(name);
}

absl::StatusOr<std::vector<std::string>> S3Store::List() {
  absl::StatusOr<std::vector<std::string>> names = bucket_->List("");
  if (!names.ok()) return names;
  // A bucket may hold more than objects of ours: what is not named like one is none.
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

}  // namespace strata
