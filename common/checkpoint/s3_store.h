#ifndef STRATA_COMMON_CHECKPOINT_S3_STORE_H_
#define STRATA_COMMON_CHECKPOINT_S3_STORE_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/checkpoint/store.h"
#include "common/process/environment.h"
#include "common/s3/bucket.h"

namespace strata {

// The objects below a prefix of a bucket. What writers that died leave are parts of uploads, which
// are no objects; DeleteFolder ends them.
//
// Threads: any. Each call blocks its own, for at most Limits::deadline.
class S3Store final : public Store {
 public:
  // Opens "s3://BUCKET[/PREFIX]", with the endpoint, region and credentials that the environment
  // says, or the user's files (s3::FindSettings). It asks nobody. `stop` ends every call at once.
  // Errors: as of FindSettings, and FailedPrecondition: no libcurl that can be used.
  static absl::StatusOr<std::unique_ptr<S3Store>> Open(const std::string& address,
                                                       const Environment& environment,
                                                       const s3::Limits& limits,
                                                       std::stop_token stop);

  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override;
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override;
  absl::StatusOr<Bytes> Get(const std::string& name) override;
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

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_S3_STORE_H_
