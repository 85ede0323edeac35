#include "common/keys/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/keys/pem.h"
#include "common/keys/private_file.h"
#include "common/testing/test_keys.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

const absl::Time kFileNow = absl::FromUnixSeconds(1800000000);
const absl::Time kEnd = kFileNow + absl::Hours(3);
const Identity kServer{"blue", Role::kServer, "s1"};

void ExpectFileRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = ParseKeyFile(pem, "/etc/strata/key.pem").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("/etc/strata/key.pem: " + why));
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/key_file_test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/keys/s1.pem";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const Authority blue_ = MakeAuthority("blue", kFileNow);
  const KeyFile file_ = MakeKeyFile(blue_, kServer, kFileNow, kEnd);
  std::string folder_, path_;
};

TEST_F(Files, WhatWasWrittenIsReadForItsOwnerAlone) {
  ASSERT_TRUE(WriteKeyFile(path_, file_).ok());
  struct stat is = {};
  ASSERT_EQ(stat(path_.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777, 0600);
  const absl::StatusOr<KeyFile> read = ReadKeyFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->identity, kServer);
  EXPECT_EQ(KeyFilePem(*read), KeyFilePem(file_));
  EXPECT_EQ(read->trust().cluster, "blue");
  EXPECT_EQ(Verify(read->chain, read->trust(), kFileNow).value(), kServer);
}

TEST_F(Files, OneOfARotatedAuthorityKeepsAllRoots) {
  const KeyFile rotated =
      MakeKeyFile(blue_.Rotated(kFileNow, absl::Hours(9)).value(), kServer, kFileNow, kEnd);
  const KeyFile read = ParseKeyFile(KeyFilePem(rotated), "x").value();
  EXPECT_EQ(read.roots.size(), 2);
  EXPECT_EQ(read.RootsPem(), rotated.RootsPem());
  EXPECT_EQ(Verify(file_.chain, read.trust(), kFileNow).value(), kServer);
}

TEST_F(Files, OneOfACompanyWithIntermediatesIsRead) {
  const PrivateKey top = PrivateKey::Make().value(), below = PrivateKey::Make().value();
  const Certificate root =
      MakeCertificate(AuthorityContent("root", kFileNow, kEnd), top, nullptr, top);
  const Certificate middle =
      MakeCertificate(AuthorityContent("middle", kFileNow, kEnd), below, &root, top);
  const Certificate leaf =
      MakeCertificate(MemberContent({ToUri(kServer)}, kFileNow, kEnd), file_.key, &middle, below);
  // The key may come last, and the root anywhere.
  const std::string pem = root.ToPem() + CertificatesToPem({leaf, middle}) + file_.key.ToPem();
  const absl::StatusOr<KeyFile> read = ParseKeyFile(pem, "x");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->chain.size(), 2);
  ASSERT_EQ(read->roots.size(), 1);
  EXPECT_EQ(Verify(read->chain, read->trust(), kFileNow).value(), kServer);
}

TEST_F(Files, AnExpiredOneIsStillRead) {
  const KeyFile old =
      MakeKeyFile(blue_, kServer, kFileNow - absl::Hours(9), kFileNow - absl::Hours(8));
  EXPECT_TRUE(ParseKeyFile(KeyFilePem(old), "x").ok());
}

TEST_F(Files, WhatIsMissingOrDoesNotFitIsNamed) {
  const std::string key = file_.key.ToPem();
  const KeyFile other = MakeKeyFile(blue_, kServer, kFileNow, kEnd);
  ExpectFileRefused("", "there is no private key");
  ExpectFileRefused(file_.ChainPem() + file_.RootsPem(), "there is no private key");
  ExpectFileRefused(key, "there is no certificate");
  ExpectFileRefused(key + file_.RootsPem(), "there is no certificate that an authority has signed");
  ExpectFileRefused(key + file_.ChainPem(), "there is no root certificate of the authority");
  ExpectFileRefused(key + other.ChainPem() + file_.RootsPem(),
                    "the private key does not belong to the first certificate");
  ExpectFileRefused(KeyFilePem(file_) + key, "there is more than one private key");
  ExpectFileRefused(KeyFilePem(file_).substr(0, 1000), "PEM block");
  const Certificate nameless =
      MakeCertificate(MemberContent({}, kFileNow, kEnd), file_.key, &blue_.roots()[0], blue_.key());
  ExpectFileRefused(key + nameless.ToPem() + file_.RootsPem(), "the certificate carries 0 URIs");
}

TEST_F(Files, ErrorsOfFilesNameThePath) {
  EXPECT_EQ(ReadKeyFile(path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteKeyFile(path_, file_).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const absl::Status open = ReadKeyFile(path_).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      open.message(),
      absl::StrCat(path_, ": mode 0644 lets others read the secret in it: ", "chmod 600 ", path_));
  ASSERT_TRUE(WritePrivateFile(path_, "hello").ok());
  const absl::Status other = ReadKeyFile(path_).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other.message(), path_ + ": there is no private key in PEM");
  ASSERT_TRUE(WritePrivateFile(path_, std::string(kPemBytesMax + 1, 'x')).ok());
  EXPECT_EQ(ReadKeyFile(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Files, ANewCertificateIsDueAfterTwoThirdsOfTheOldOnesLife) {
  EXPECT_EQ(RenewAt(file_.chain[0]), kFileNow + absl::Hours(2));
}

}  // namespace
}  // namespace strata::keys
