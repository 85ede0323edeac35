#include "server/coordinator/service/etcd/etcd_tls.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd/requests.h"
#include "server/coordinator/testing/etcd_process.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

class EtcdTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/etcd-tls");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    MakeAuthority("ca");
    MakeAuthority("other");
    MakeKeys("member", "ca");
  }

  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }
  void OpenSsl(std::vector<std::string> args) {
    args.insert(args.begin(), "/usr/bin/openssl");
    auto process = Process::Start({.args = args, .log_path = Path("openssl.log")});
    ASSERT_TRUE(process.ok()) << process.status();
    ASSERT_TRUE((*process)->Reap().ok()) << Path("openssl.log");
  }
  void MakeAuthority(const std::string& name) {
    OpenSsl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", "/CN=" + name, "-days", "2", "-keyout", Path(name + ".key"), "-out",
             Path(name + ".pem")});
  }
  void MakeKeys(const std::string& name, const std::string& authority) {
    std::ofstream(Path("extensions")) << "subjectAltName=IP:127.0.0.1\n";
    OpenSsl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=" + name, "-keyout", Path(name + ".key"), "-out", Path(name + ".csr")});
    OpenSsl({"x509", "-req", "-in", Path(name + ".csr"), "-CA", Path(authority + ".pem"), "-CAkey",
             Path(authority + ".key"), "-CAcreateserial", "-days", "2", "-extfile",
             Path("extensions"), "-out", Path(name + ".pem")});
    ASSERT_EQ(chmod(Path(name + ".key").c_str(), 0600), 0);
  }
  absl::Status Ask(const std::string& endpoint, const EtcdTls& tls) {
    const auto client =
        EtcdClient::Open({.endpoints = endpoint, .tls = tls, .deadline = absl::Seconds(2)});
    return client.ok() ? (*client)->Range(RangeOf("a")).status() : client.status();
  }

  std::string folder_;
};

TEST_F(EtcdTlsTest, BothSidesShowWhoTheyAre) {
  auto etcd = EtcdProcess::Start(
      Path("etcd"),
      {.ca_file = Path("ca.pem"), .cert_file = Path("member.pem"), .key_file = Path("member.key")});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  const std::string endpoint = (*etcd)->endpoint();
  EtcdTls tls = (*etcd)->ClientOptions().tls;
  EXPECT_TRUE(Ask(endpoint, tls).ok()) << Ask(endpoint, tls);

  tls.ca_file = Path("other.pem");
  const absl::Status stranger = Ask(endpoint, tls);
  EXPECT_EQ(stranger.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(stranger.message()), HasSubstr("certificate verify failed"));
  EXPECT_EQ(Ask(endpoint, {.ca_file = Path("ca.pem"), .cert_file = {}, .key_file = {}}).code(),
            absl::StatusCode::kUnavailable)
      << "without a certificate";
  EXPECT_EQ(Ask(endpoint, {}).code(), absl::StatusCode::kUnavailable) << "without TLS";
}

TEST_F(EtcdTlsTest, FilesThatDoNotFitTogetherAreNamed) {
  const std::string ca = Path("ca.pem"), cert = Path("member.pem"), key = Path("member.key");
  EXPECT_EQ(ReadEtcdTls({ca, cert, ""}).status(),
            absl::InvalidArgumentError(absl::StrCat(
                cert, ": etcd wants a certificate and its key: name both files or neither")));
  EXPECT_EQ(ReadEtcdTls({"", cert, key}).status(),
            absl::InvalidArgumentError(absl::StrCat(
                cert, ": name the file of the authority that signed etcd's certificates, too")));
  EXPECT_EQ(ReadEtcdTls({key, "", ""}).status(),
            absl::InvalidArgumentError(absl::StrCat(
                key, ": has no certificate: etcd wants one in PEM (-----BEGIN CERTIFICATE-----)")));
  EXPECT_EQ(ReadEtcdTls({Path("none"), "", ""}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadEtcdTls({Path("none"), "", ""}).status().message()),
              HasSubstr(Path("none")));
  ASSERT_EQ(chmod(cert.c_str(), 0600), 0);
  EXPECT_EQ(ReadEtcdTls({ca, cert, cert}).status(),
            absl::InvalidArgumentError(
                absl::StrCat(cert, ": has no private key in PEM without a password")));
  ASSERT_EQ(chmod(key.c_str(), 0644), 0);
  EXPECT_EQ(ReadEtcdTls({ca, cert, key}).status().code(), absl::StatusCode::kFailedPrecondition)
      << "others may read it";
}

}  // namespace
}  // namespace strata::server
