#include "server/coordinator/access/key_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/keys/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

class KeyStoreTest : public ::testing::Test {
 protected:
  KeyStoreTest()
      : dir_(absl::StrCat(::testing::TempDir(), "/keys-",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                          absl::ToUnixNanos(absl::Now()))) {}
  ~KeyStoreTest() override { std::filesystem::remove_all(dir_); }

  const std::string dir_;
  const absl::Time now_ = absl::Now();
};

TEST_F(KeyStoreTest, AFolderWithoutKeysHasNone) {
  const auto stored = LoadKeys(dir_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_FALSE(stored->own.has_value());
  EXPECT_FALSE(stored->authority.has_value());
}

TEST_F(KeyStoreTest, InitMakesKeysForThisUserAloneThatVerify) {
  const mode_t umask_before = umask(0);
  const auto fingerprint = InitKeys(dir_, "lab", now_);
  umask(umask_before);
  ASSERT_TRUE(fingerprint.ok()) << fingerprint.status();
  const auto stored = LoadKeys(dir_);
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_TRUE(stored->own.has_value() && stored->authority.has_value());
  EXPECT_EQ(keys::FingerprintText(stored->authority->roots()[0].fingerprint()), *fingerprint);
  const auto who = keys::Verify(stored->own->chain, stored->own->trust(), now_);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(*who, (keys::Identity{"lab", keys::Role::kCoordinator, "coordinator"}));
  for (const auto& file : std::filesystem::directory_iterator(dir_ + "/keys")) {
    struct stat found;
    ASSERT_EQ(stat(file.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u) << file.path();
  }
  EXPECT_TRUE(absl::IsAlreadyExists(InitKeys(dir_, "lab", now_).status()));
}

TEST_F(KeyStoreTest, WhatIsReadableByOthersHalfThereOrDamagedIsNamed) {
  ASSERT_TRUE(InitKeys(dir_, "lab", now_).ok());
  const std::string authority = dir_ + "/keys/authority.pem";
  chmod(authority.c_str(), 0640);
  EXPECT_THAT(LoadKeys(dir_).status().message(), HasSubstr(authority));
  EXPECT_THAT(LoadKeys(dir_).status().message(), HasSubstr("chmod 600"));
  chmod(authority.c_str(), 0600);
  ASSERT_TRUE(SaveBook(dir_, {}).ok());
  std::ofstream(dir_ + "/keys/book.textproto") << "keys {";
  EXPECT_TRUE(absl::IsDataLoss(LoadKeys(dir_).status()));
  ASSERT_TRUE(SaveBook(dir_, {}).ok());
  // The remaining files are not enough to restore it.
  const std::string hint = absl::StrCat(
      "; take ", dir_, "/keys from a copy, or remove it, say `strata keys init --state ", dir_,
      "`, and all members join anew");
  std::filesystem::rename(authority, authority + ".copy");
  EXPECT_EQ(LoadKeys(dir_).status(),
            absl::NotFoundError(absl::StrCat(authority, ": No such file or directory", hint)));
  std::ofstream(authority) << "hello";
  chmod(authority.c_str(), 0600);
  EXPECT_EQ(LoadKeys(dir_).status(), absl::InvalidArgumentError(absl::StrCat(
                                         authority, ": there is no private key in PEM", hint)));
  std::filesystem::rename(authority + ".copy", authority);
  ASSERT_TRUE(LoadKeys(dir_).ok());
  std::filesystem::remove(dir_ + "/keys/coordinator.pem");
  EXPECT_EQ(LoadKeys(dir_).status(),
            absl::NotFoundError(
                absl::StrCat(dir_, "/keys/coordinator.pem: No such file or directory", hint)));
}

TEST_F(KeyStoreTest, AnExpiredAuthorityIsReplacedAtOnce) {
  ASSERT_TRUE(InitKeys(dir_, "lab", now_).ok());
  const absl::Time later = now_ + absl::Hours(24 * 3654);
  const auto before = LoadKeys(dir_);
  EXPECT_FALSE(keys::Verify(before->own->chain, before->own->trust(), later).ok());
  ASSERT_TRUE(RotateKeys(dir_, later).ok());
  const auto after = LoadKeys(dir_);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->authority->roots().size(), 1u);
  const auto who = keys::Verify(after->own->chain, after->own->trust(), later);
  EXPECT_TRUE(who.ok()) << who.status();
}

TEST_F(KeyStoreTest, ARotationTrustsBothUntilItIsFinishedAndWaitsForWhoIsLate) {
  EXPECT_TRUE(absl::IsNotFound(RotateKeys(dir_, now_).status()));
  const auto first = InitKeys(dir_, "lab", now_);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(FinishRotation(dir_, false, now_)));
  const auto second = RotateKeys(dir_, now_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
  EXPECT_TRUE(absl::IsFailedPrecondition(RotateKeys(dir_, now_).status()));

  const auto between = LoadKeys(dir_);
  ASSERT_TRUE(between.ok()) << between.status();
  EXPECT_EQ(between->own->roots.size(), 2u);
  // Members that know only the old root still trust the coordinator.
  const keys::Trust old{"lab", {between->authority->roots()[1]}};
  EXPECT_TRUE(keys::Verify(between->own->chain, old, now_).ok());

  proto::KeyBookRecord book;
  proto::IssuedKey* key = book.add_keys();
  key->set_role("worker");
  key->set_name("w1");
  key->set_begins_ms(absl::ToUnixMillis(now_));
  key->set_expires_ms(absl::ToUnixMillis(now_ + absl::Hours(1)));
  key->set_authority(*first);
  ASSERT_TRUE(SaveBook(dir_, book).ok());
  const absl::Status late = FinishRotation(dir_, false, now_);
  EXPECT_TRUE(absl::IsFailedPrecondition(late));
  EXPECT_THAT(late.message(), HasSubstr("worker w1"));
  book.mutable_keys(0)->set_authority(*second);
  ASSERT_TRUE(SaveBook(dir_, book).ok());
  ASSERT_TRUE(FinishRotation(dir_, false, now_).ok());

  const auto after = LoadKeys(dir_);
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_EQ(after->authority->roots().size(), 1u);
  EXPECT_EQ(keys::FingerprintText(after->authority->roots()[0].fingerprint()), *second);
  EXPECT_TRUE(keys::Verify(after->own->chain, after->own->trust(), now_).ok());
  EXPECT_FALSE(keys::Verify(after->own->chain, old, now_).ok());
}

}  // namespace
}  // namespace strata::server
