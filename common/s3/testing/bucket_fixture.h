#ifndef STRATA_COMMON_S3_TESTING_BUCKET_FIXTURE_H_
#define STRATA_COMMON_S3_TESTING_BUCKET_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <string>

#include "common/s3/bucket.h"
#include "common/s3/testing/memory_bucket.h"

namespace strata::s3 {

// Short times, so that what fails does so soon, and small parts.
inline Limits ShortLimits() {
  return {.stall_after = absl::Milliseconds(300),
          .retry_for = absl::Milliseconds(400),
          .first_pause = absl::Milliseconds(5),
          .deadline = absl::Seconds(20),
          .part_bytes = 1000};
}

// Expects an error, and none of the credentials in what it says.
inline void ExpectError(const absl::Status& status, absl::StatusCode code,
                        const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, ::testing::HasSubstr(text));
  for (const char* hidden :
       {MemoryBucket::kKeyId, MemoryBucket::kSecret, MemoryBucket::kToken, "AWS4-HMAC"}) {
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr(hidden)));
  }
}

// A bucket in memory, and what opens it under the prefix "runs/a b".
class BucketTest : public ::testing::Test {
 protected:
  std::unique_ptr<Bucket> Open(const Limits& limits, const std::string& endpoint = "") {
    Environment environment = memory_.Variables();
    if (!endpoint.empty()) environment["AWS_ENDPOINT_URL_S3"] = endpoint;
    const auto settings = FindSettings("s3://bucket/runs/a b", environment);
    EXPECT_TRUE(settings.ok()) << settings.status();
    auto bucket = Bucket::Open(*settings, limits, stop_.get_token());
    EXPECT_TRUE(bucket.ok()) << bucket.status();
    return *std::move(bucket);
  }
  std::unique_ptr<Bucket> Open() { return Open(ShortLimits()); }

  static absl::Status Put(Bucket& bucket, const std::string& name, const std::string& text,
                          bool only_new = false) {
    const absl::Span<const char> whole(text);
    const absl::Span<const char> pieces[] = {
        {}, whole.subspan(0, text.size() / 3), {}, whole.subspan(text.size() / 3), {}};
    return bucket.Put(name, pieces, only_new);
  }
  static std::string Get(Bucket& bucket, const std::string& name) {
    const auto content = bucket.Get(name);
    EXPECT_TRUE(content.ok()) << content.status();
    if (!content.ok()) return "";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(content->data()) % 64, 0u);
    return {reinterpret_cast<const char*>(content->data()), content->size()};
  }

  // From now on all requests are answered so.
  void AnswerAll(const CannedReply& reply) {
    memory_.InterfereWith([=](const ReceivedRequest&) { return Interference{reply}; });
  }
  // The next `count` requests of a method are answered so.
  void AnswerNext(int count, const std::string& method, const Interference& interference) {
    memory_.InterfereWith(
        [=, left = count](const ReceivedRequest& request) mutable -> std::optional<Interference> {
          if (request.method != method || left == 0) return std::nullopt;
          --left;
          return interference;
        });
  }

  MemoryBucket memory_;
  std::stop_source stop_;
};

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_TESTING_BUCKET_FIXTURE_H_
