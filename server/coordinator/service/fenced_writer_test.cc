#include "server/coordinator/service/fenced_writer.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
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

}  // namespace
}  // namespace strata::server
