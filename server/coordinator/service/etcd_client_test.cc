#include "server/coordinator/service/etcd_client.h"

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/interfaces.h"
#include "common/os/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/etcd_process.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(30);

class EtcdClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/etcd-client"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    client_ = etcd_->Client();
  }

  int64_t Set(const std::string& key, const std::string& value, int64_t lease = 0) {
    etcdserverpb::TxnRequest request;
    *request.add_success() = Put(key, value, lease);
    const auto txn = client_->Txn(request);
    EXPECT_TRUE(txn.ok()) << txn.status();
    return txn.ok() ? txn->header().revision() : 0;
  }
  std::string DeadEndpoint() { return absl::StrCat("127.0.0.1:", *FreePort()); }
  std::shared_ptr<EtcdClient> To(const std::string& endpoints, absl::Duration deadline) {
    return *EtcdClient::Open({.endpoints = endpoints, .tls = {}, .deadline = deadline});
  }

  std::unique_ptr<EtcdProcess> etcd_;
  std::shared_ptr<EtcdClient> client_;
};

TEST_F(EtcdClientTest, AnswersHaveWhatEtcdSays) {
  const int64_t made = Set("a/1", "one");
  const int64_t changed = Set("a/1", "ONE");
  Set("a/2", std::string("\0\xff", 2));
  Set("b", "");
  const auto range = client_->Range(RangeOf("a/", "a0"));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_NE(range->header().cluster_id(), 0);
  EXPECT_NE(range->header().member_id(), 0);
  EXPECT_EQ(range->header().revision(), changed + 2);
  EXPECT_GE(range->header().raft_term(), 2);
  EXPECT_EQ(range->count(), 2);
  EXPECT_FALSE(range->more());
  ASSERT_EQ(range->kvs_size(), 2);
  const mvccpb::KeyValue& kv = range->kvs(0);
  EXPECT_EQ(kv.key(), "a/1");
  EXPECT_EQ(kv.value(), "ONE");
  EXPECT_EQ(kv.create_revision(), made);
  EXPECT_EQ(kv.mod_revision(), changed);
  EXPECT_EQ(kv.version(), 2);
  EXPECT_EQ(kv.lease(), 0);
  EXPECT_EQ(range->kvs(1).value(), std::string("\0\xff", 2));

  etcdserverpb::RangeRequest old = RangeOf("a/", "a0");
  old.set_revision(made);
  EXPECT_EQ(OnlyKey(*client_->Range(old))->value(), "one");
  etcdserverpb::RangeRequest page = RangeOf("a/", "a0");
  page.set_limit(1);
  page.set_keys_only(true);
  const auto first = client_->Range(page);
  EXPECT_TRUE(first->more());
  EXPECT_EQ(OnlyKey(*first)->value(), "");
}

TEST_F(EtcdClientTest, ATransactionIsDoneOrAnswersWhatItIsToReadInstead) {
  const int64_t made = Set("k", "1");
  const int64_t changed = Set("k", "2");
  const auto run = [&](const etcdserverpb::Compare& compare) {
    etcdserverpb::TxnRequest request;
    *request.add_compare() = compare;
    *request.add_success() = Put("done", "x");
    *request.add_success() = Delete("k");
    *request.add_failure() = Get("k");
    return *client_->Txn(request);
  };
  for (const etcdserverpb::Compare& fails :
       {CreatedAt("k", changed), CreatedAt("k", 0), ChangedAt("k", made), ChangedAt("k", 0),
        CreatedAt("none", made)}) {
    const etcdserverpb::TxnResponse txn = run(fails);
    EXPECT_FALSE(txn.succeeded());
    EXPECT_EQ(OnlyKey(txn, 0)->value(), "2");
  }
  EXPECT_EQ(OnlyKey(*client_->Range(RangeOf("done"))), nullptr);
  etcdserverpb::Compare value;
  value.set_target(etcdserverpb::Compare::VALUE);
  value.set_key("k");
  value.set_value("2");
  const etcdserverpb::TxnResponse txn = run(value);
  EXPECT_TRUE(txn.succeeded());
  EXPECT_EQ(txn.responses(1).response_delete_range().deleted(), 1);
  EXPECT_TRUE(run(CreatedAt("k", 0)).succeeded());
  EXPECT_TRUE(run(ChangedAt("k", 0)).succeeded());
}

TEST_F(EtcdClientTest, ALeaseTakesItsKeysWithIt) {
  const auto lease = client_->GrantLease(absl::Seconds(40), {});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->ttl, absl::Seconds(40));
  Set("held", "x", lease->id);
  EXPECT_EQ(OnlyKey(*client_->Range(RangeOf("held")))->lease(), lease->id);
  EXPECT_EQ(*client_->KeepAlive(lease->id, {}), absl::Seconds(40));
  ASSERT_TRUE(client_->RevokeLease(lease->id, {}).ok());
  EXPECT_EQ(OnlyKey(*client_->Range(RangeOf("held"))), nullptr);
  EXPECT_EQ(client_->KeepAlive(lease->id, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->RevokeLease(lease->id, {}),
            absl::NotFoundError(
                absl::StrCat(client_->name(), ": etcdserver: requested lease not found")));
}

TEST_F(EtcdClientTest, ALeaseIsNeverShorterThanAskedFor) {
  EXPECT_EQ(client_->GrantLease(absl::Milliseconds(2500), {})->ttl, absl::Seconds(3));
  EXPECT_EQ(client_->GrantLease(absl::Seconds(1), {})->ttl, absl::Seconds(2)) << "etcd's minimum";
}

TEST_F(EtcdClientTest, WhoWaitsForADeletionIsToldOfIt) {
  const int64_t made = Set("w", "1");
  EXPECT_EQ(client_->AwaitDeletion("w", made, {.deadline = absl::Milliseconds(300)}).code(),
            absl::StatusCode::kDeadlineExceeded);
  absl::Status told = absl::UnknownError("not yet");
  std::thread waits([&] { told = client_->AwaitDeletion("w", made, {.deadline = kLong}); });
  Set("w", "2");
  Set("x", "another key");
  absl::SleepFor(absl::Milliseconds(300));
  etcdserverpb::TxnRequest request;
  *request.add_success() = Delete("w");
  ASSERT_TRUE(client_->Txn(request).ok());
  waits.join();
  EXPECT_TRUE(told.ok()) << told;
  // Also a deletion before the call.
  EXPECT_TRUE(client_->AwaitDeletion("w", made, {.deadline = kLong}).ok());
}

TEST_F(EtcdClientTest, AStopEndsACallAndAWait) {
  std::stop_source stop;
  etcd_->Signal(SIGSTOP);
  const absl::Time began = absl::Now();
  std::thread stops([&] {
    absl::SleepFor(absl::Milliseconds(200));
    stop.request_stop();
  });
  EXPECT_EQ(
      client_->Range(RangeOf("a"), {.deadline = kLong, .stop = stop.get_token()}).status().code(),
      absl::StatusCode::kCancelled);
  EXPECT_EQ(client_->AwaitDeletion("a", 1, {.deadline = kLong, .stop = stop.get_token()}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - began, kLong / 2);
  stops.join();
}

TEST_F(EtcdClientTest, AnEtcdThatStandsStillEndsACallAtItsDeadlineWithOneLine) {
  const auto client = etcd_->Client(absl::Seconds(1));
  ASSERT_TRUE(client->Range(RangeOf("a")).ok());
  etcd_->Signal(SIGSTOP);
  const absl::Time began = absl::Now();
  const absl::Status status = client->Range(RangeOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("etcd at ", etcd_->endpoint(), " does not answer: ",
                                      etcd_->endpoint(), ": no answer within ")));
  EXPECT_GE(absl::Now() - began, absl::Milliseconds(900));
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  etcd_->Signal(SIGCONT);
  EXPECT_TRUE(client_->Range(RangeOf("a")).ok()) << "and goes on";
}

TEST_F(EtcdClientTest, AMemberThatIsNotThereIsPassedOver) {
  const std::string dead = DeadEndpoint();
  const auto client = To(absl::StrCat(dead, ",", etcd_->endpoint()), absl::Seconds(20));
  const absl::Time began = absl::Now();
  ASSERT_TRUE(client->Range(RangeOf("a")).ok());
  EXPECT_LT(absl::Now() - began, absl::Seconds(10)) << "it need not wait for what is refused";
  EXPECT_EQ(client->name(), absl::StrCat("etcd at ", dead, ",", etcd_->endpoint()));
}

TEST_F(EtcdClientTest, AMemberThatStandsStillIsPassedOverOnce) {
  auto other = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/etcd-client-other"));
  ASSERT_TRUE(other.ok()) << other.status();
  (*other)->Signal(SIGSTOP);
  const auto client =
      To(absl::StrCat((*other)->endpoint(), ",", etcd_->endpoint()), absl::Seconds(4));
  Set("a", "1");
  EXPECT_EQ(OnlyKey(*client->Range(RangeOf("a")))->value(), "1");
  const absl::Time began = absl::Now();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client->Range(RangeOf("a")).ok());
  EXPECT_LT(absl::Now() - began, absl::Seconds(2)) << "the one that answered is asked first";
}

TEST_F(EtcdClientTest, WhereNoneIsThereEachIsNamed) {
  const std::string a = DeadEndpoint(), b = "no-such-host.invalid:2379";
  const absl::Status status =
      To(absl::StrCat(a, ",", b), absl::Seconds(1))->Range(RangeOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr(absl::StrCat("etcd at ", a, ",", b, " does not answer: ", a,
                                           ": connection refused; ", b, ": ")));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(EtcdClientTest, ItComesBackToAnEtcdThatWasStartedAnew) {
  Set("a", "1");
  etcd_->Kill();
  EXPECT_EQ(To(etcd_->endpoint(), absl::Milliseconds(300))->Range(RangeOf("a")).status().code(),
            absl::StatusCode::kUnavailable);
  ASSERT_TRUE(etcd_->Restart().ok());
  const auto range = client_->Range(RangeOf("a"));
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(OnlyKey(*range)->value(), "1");
}

TEST_F(EtcdClientTest, ARequestThatIsTooLargeIsRefusedAndNotTriedElsewhere) {
  etcdserverpb::TxnRequest request;
  *request.add_success() = Put("a", std::string(1'800'000, 'x'));
  const absl::Time began = absl::Now();
  const absl::Status status = client_->Txn(request).status();
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        absl::StrCat(client_->name(), ": etcdserver: request is too large")));
  EXPECT_LT(absl::Now() - began, absl::Seconds(10));
}

TEST(FullEtcdTest, AnEtcdThatIsFullSaysWhatToDo) {
  auto etcd = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/etcd-full"),
                                 {.more = {"--quota-backend-bytes=4000000"}});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  const auto client = (*etcd)->Client();
  absl::Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    etcdserverpb::TxnRequest request;
    *request.add_success() = Put("a", std::string(1 << 20, 'x'));
    status = client->Txn(request).status();
  }
  EXPECT_EQ(
      status,
      absl::ResourceExhaustedError(absl::StrCat(
          client->name(),
          ": etcdserver: mvcc: database space exceeded: compact and defragment it, disarm its "
          "alarm, and give it --auto-compaction-retention")));
}

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
