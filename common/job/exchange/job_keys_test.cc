#include "common/job/exchange/job_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace strata {
namespace {

proto::JobRecord Record(proto::Job::Protection protection, size_t secret_bytes) {
  proto::JobRecord record;
  record.set_attempt(3);
  record.mutable_job()->set_protection(protection);
  record.set_secret(std::string(secret_bytes, 's'));
  return record;
}

TEST(KeysOf, ComeFromTheRecord) {
  const auto encrypted = KeysOf(Record(proto::Job::ENCRYPT, 32), "here");
  ASSERT_TRUE(encrypted.ok() && encrypted->has_value()) << encrypted.status();
  EXPECT_EQ((*encrypted)->protection, seal::Protection::kEncrypt);
  EXPECT_EQ((*encrypted)->attempt, 3u);
  EXPECT_EQ((*encrypted)->secret[31], std::byte{'s'});
  const auto is_signed = KeysOf(Record(proto::Job::SIGN, 32), "here");
  ASSERT_TRUE(is_signed.ok() && is_signed->has_value()) << is_signed.status();
  EXPECT_EQ((*is_signed)->protection, seal::Protection::kSign);
}

TEST(KeysOf, AJobWithoutProtectionHasNone) {
  for (const auto protection : {proto::Job::PLAIN, proto::Job::BY_CLUSTER}) {
    const auto keys = KeysOf(Record(protection, 0), "");
    ASSERT_TRUE(keys.ok()) << keys.status();
    EXPECT_FALSE(keys->has_value());
  }
}

TEST(KeysOf, ARecordThatContradictsItselfIsRefused) {
  EXPECT_EQ(KeysOf(Record(proto::Job::ENCRYPT, 0), "").status(),
            absl::InvalidArgumentError("protection: ENCRYPT with a secret of 0 bytes"));
  EXPECT_EQ(KeysOf(Record(proto::Job::SIGN, 31), "").status(),
            absl::InvalidArgumentError("protection: SIGN with a secret of 31 bytes"));
  EXPECT_EQ(KeysOf(Record(proto::Job::PLAIN, 32), "").status(),
            absl::InvalidArgumentError("protection: PLAIN with a secret of 32 bytes"));
}

}  // namespace
}  // namespace strata
