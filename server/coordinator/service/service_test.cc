#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/fenced_writer.h"
#include "server/coordinator/service/port_watch.h"
#include "server/testing/etcd_process.h"

namespace strata::server {
namespace {

// How long a writer waits for the answer to a change.
constexpr absl::Duration kDeadline = absl::Seconds(2);

class FencedWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/fenced-writer"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    client_ = etcd_->Client();
    proxy_ = std::make_unique<EtcdProxy>(etcd_->endpoint());
  }

  // Makes `address` the leader, replacing the previous one.
  Leadership Lead(const std::string& address) {
    etcdserverpb::TxnRequest request;
    *request.add_success() = Delete(keys_.Leader());
    EXPECT_TRUE(client_->Txn(request).ok());
    *request.mutable_success(0) = Put(keys_.Leader(), address);
    const auto txn = client_->Txn(request);
    EXPECT_TRUE(txn.ok()) << txn.status();
    return {.cluster = "c", .create_revision = txn->header().revision()};
  }
  std::string Read(const std::string& key) {
    const auto range = client_->Range(RangeOf(key));
    EXPECT_TRUE(range.ok()) << range.status();
    const mvccpb::KeyValue* found = OnlyKey(*range);
    return found == nullptr ? "(none)" : found->value();
  }
  std::shared_ptr<EtcdClient> Through(const EtcdProxy& proxy, absl::Duration deadline) {
    return *EtcdClient::Open({.endpoints = proxy.endpoint(), .tls = {}, .deadline = deadline});
  }

  const EtcdKeys keys_{"c"};
  std::unique_ptr<EtcdProcess> etcd_;
  std::shared_ptr<EtcdClient> client_;
  std::unique_ptr<EtcdProxy> proxy_;
};

TEST_F(FencedWriterTest, OnlyTheLeaderChangesAnything) {
  const Leadership first = Lead("a:1");
  FencedWriter writer(client_, first);
  ASSERT_TRUE(writer.Write({Put("k", "1"), Put("l", "1")}).ok());
  ASSERT_TRUE(writer.Write({Put("k", "2"), Delete("l")}).ok());
  EXPECT_EQ(Read("k"), "2");
  EXPECT_EQ(Read("l"), "(none)");
  FencedWriter next(client_, Lead("b:1"));
  const absl::Status refused = absl::FailedPreconditionError(
      absl::StrCat(client_->name(), ": strata/c/leader: another coordinator leads: b:1"));
  EXPECT_EQ(writer.Write({Put("k", "3")}), refused);
  EXPECT_EQ(writer.Read({Get("k")}).status(), refused);
  EXPECT_EQ(Read("k"), "2");
  ASSERT_TRUE(next.Write({Put("k", "4")}).ok());
  EXPECT_EQ(writer.Write({Put("k", "5")}), refused);
  EXPECT_EQ(Read("k"), "4");
}

TEST_F(FencedWriterTest, ALeaderWhoseKeyIsGoneChangesNothing) {
  FencedWriter writer(client_, Lead("a:1"));
  etcdserverpb::TxnRequest request;
  *request.add_success() = Delete(keys_.Leader());
  ASSERT_TRUE(client_->Txn(request).ok());
  EXPECT_EQ(writer.Write({Put("k", "1")}),
            absl::FailedPreconditionError(absl::StrCat(
                client_->name(),
                ": strata/c/leader: another coordinator leads, or soon will: this one's lease has "
                "ended")));
  EXPECT_EQ(Read("k"), "(none)");
}

TEST_F(FencedWriterTest, AChangeWhoseAnswerIsLostIsMadeOnce) {
  FencedWriter writer(Through(*proxy_, absl::Seconds(20)), Lead("a:1"));
  ASSERT_TRUE(writer.Write({Put("k", "1")}).ok());
  proxy_->LoseAnswers(2);
  const absl::Status written = writer.Write({Put("k", "2")});
  ASSERT_TRUE(written.ok()) << written;
  const auto range = client_->Range(RangeOf("k"));
  EXPECT_EQ(OnlyKey(*range)->value(), "2");
  EXPECT_EQ(OnlyKey(*range)->version(), 2) << "writes of the key";
}

TEST_F(FencedWriterTest, AChangeThatComesLateNeverComesAfterALaterOne) {
  FencedWriter writer(Through(*proxy_, kDeadline), Lead("a:1"));
  ASSERT_TRUE(writer.Write({Put("k", "1")}).ok());
  proxy_->HoldNext();
  EXPECT_EQ(writer.Write({Put("k", "late")}).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(writer.Write({Put("k", "2")}).ok());
  EXPECT_FALSE(proxy_->ReleaseHeld());
  EXPECT_EQ(Read("k"), "2");
}

TEST_F(FencedWriterTest, AfterSettleALateChangeChangesNothing) {
  FencedWriter writer(Through(*proxy_, kDeadline), Lead("a:1"));
  ASSERT_TRUE(writer.Write({Put("k", "1")}).ok());  // it is connected
  proxy_->HoldNext();
  EXPECT_EQ(writer.Write({Put("k", "late")}).code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(writer.Settle().ok());
  EXPECT_FALSE(proxy_->ReleaseHeld());
  EXPECT_EQ(Read("k"), "1");
}

TEST_F(FencedWriterTest, ALateChangeBeforeTheNextOneIsBorne) {
  FencedWriter writer(Through(*proxy_, kDeadline), Lead("a:1"));
  ASSERT_TRUE(writer.Write({Put("k", "1")}).ok());  // it is connected
  proxy_->HoldNext();
  EXPECT_EQ(writer.Write({Put("k", "late")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(proxy_->ReleaseHeld());
  EXPECT_EQ(Read("k"), "late");
  ASSERT_TRUE(writer.Write({Put("k", "2")}).ok());
  EXPECT_EQ(Read("k"), "2");
}

constexpr uint64_t kProcess = 7;

// A port of this host that stays reserved while nobody listens: another process that got it would
// answer instead.
class Port {
 public:
  Port() : held_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(held_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(held_.get(), at, size), 0);
    EXPECT_EQ(getsockname(held_.get(), at, &size), 0);
    address_ = absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port));
  }

  void Listen() {
    auto created = transport::CreateZmqEndpoint({});
    ASSERT_TRUE(created.ok()) << created.status();
    endpoint_ = *std::move(created);
    const auto port = endpoint_->Listen(address_);
    EXPECT_TRUE(port.ok()) << port.status();
  }
  void Close() { endpoint_.reset(); }
  const std::string& address() const { return address_; }

 private:
  const UniqueFd held_;  // never listens
  std::string address_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

// Two ports of one process.
class PortWatchTest : public testing::Test {
 protected:
  void ListenAtBoth() {
    for (Port& port : ports_) port.Listen();
  }

  Port ports_[2];
  const std::vector<std::string> addresses_ = {ports_[0].address(), ports_[1].address()};
};

TEST_F(PortWatchTest, SaysThatNobodyListensWhereSomebodyDid) {
  ListenAtBoth();
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  for (Port& port : ports_) port.Close();
  absl::Notification closed;
  watch.Look(kProcess, addresses_, [&] { closed.Notify(); });
  closed.WaitForNotification();
}

TEST_F(PortWatchTest, SaysNothingWhereOneOfThemIsOpen) {
  ListenAtBoth();
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  ports_[0].Close();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST_F(PortWatchTest, SaysNothingOfPortsThatWereNeverReached) {
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST(PortWatch, EndsAtOnceWhenItIsStopped) {
  PortWatch watch;
  // Nobody answers from there (RFC 5737).
  watch.Learn(kProcess, {"tcp://192.0.2.1:7"});
  watch.Stop();
  watch.Stop();
}

}  // namespace
}  // namespace strata::server
