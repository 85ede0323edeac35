#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <set>
#include <string>
#include <vector>

#include "common/control/dial.h"
#include "common/control/redial.h"
#include "common/control/send_trace.h"
#include "common/job/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::control {
namespace {

// A socket on a free port of loopback.
UniqueFd Bound(std::string* address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&bound), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  *address = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  return fd;
}

TEST(DialTcp, ConnectsWithALimitOfItsOwnForSilence) {
  std::string address;
  const UniqueFd listener = Bound(&address);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const auto fd = DialTcp(address, absl::Seconds(20), absl::Seconds(2));
  ASSERT_TRUE(fd.ok()) << fd.status();
  unsigned int silence_ms = 0;
  socklen_t size = sizeof(silence_ms);
  ASSERT_EQ(getsockopt(fd->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
  EXPECT_EQ(silence_ms, 2000u);
}

TEST(DialTcp, SaysWhyNot) {
  std::string address;
  const UniqueFd closed = Bound(&address);
  EXPECT_EQ(DialTcp(address, absl::Seconds(20), absl::Seconds(2)).status(),
            absl::UnavailableError("connection refused"));
  EXPECT_EQ(DialTcp("nowhere", absl::Seconds(20), absl::Seconds(2)).status(),
            absl::UnavailableError("expected HOST:PORT"));
  EXPECT_EQ(DialTcp("no-such-host.invalid:80", absl::Seconds(20), absl::Seconds(2)).status().code(),
            absl::StatusCode::kUnavailable);
}

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

const absl::Time kBroken = absl::FromUnixSeconds(1000);

TEST(Redial, IsQuickAfterAShortBreakAndSlowAfterALongOne) {
  Redial redial(kBroken);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(redial.Pause(kBroken),
                AllOf(Ge(absl::Milliseconds(25)), Le(absl::Milliseconds(75))));
    EXPECT_THAT(redial.Pause(kBroken + absl::Seconds(2)),
                AllOf(Ge(absl::Milliseconds(125)), Le(absl::Milliseconds(375))));
    EXPECT_THAT(redial.Pause(kBroken + absl::Minutes(1)),
                AllOf(Ge(absl::Milliseconds(500)), Le(absl::Milliseconds(1500))));
  }
}

TEST(Redial, SessionsThatBrokeTogetherDoNotTryTogether) {
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 100; ++i) pauses.insert(Redial(kBroken).Pause(kBroken + absl::Seconds(2)));
  EXPECT_GT(pauses.size(), 90u);
}

TEST(Redial, WaitsForAHandshakeAsLongAsItHasBeenAway) {
  const Redial redial(kBroken);
  EXPECT_EQ(redial.Limits(kBroken).handshake, absl::Seconds(3));
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(10)).handshake, absl::Seconds(10));
  EXPECT_EQ(redial.Limits(kBroken + absl::Minutes(1)).handshake, absl::Seconds(30));
}

TEST(Redial, DoesNotWaitForTcpToRepeatWhatOpensALineAtFirst) {
  const Redial redial(kBroken);
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(3)).connect, absl::Milliseconds(500));
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(4)).connect, absl::Seconds(5));
}

TEST(Redial, APauseIsNotShorterThanItIsSaidToBe) {
  Redial redial(kBroken);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(redial.Pause(kBroken, absl::Milliseconds(200)),
                AllOf(Ge(absl::Milliseconds(100)), Le(absl::Milliseconds(300))));
  }
}

TEST(Redial, ALineThatWasUpBeginsAnew) {
  Redial redial(kBroken);
  const absl::Time later = kBroken + absl::Minutes(1);
  redial.OnBroken(later);
  EXPECT_EQ(redial.Away(later), absl::ZeroDuration());
  EXPECT_LE(redial.Pause(later), absl::Milliseconds(75));
}

class FakeSession final : public Session {
 public:
  absl::Status Start() override { return absl::OkStatus(); }
  void Send(proto::DaemonMessage message) override { sent.push_back(message.trace()); }
  Use use() override { return queued; }
  void Stop() override {}

  Use queued;
  std::vector<proto::TraceBatch> sent;
};

proto::TraceBatch Batch(uint32_t job, int events, uint64_t dropped = 0) {
  proto::TraceBatch batch;
  batch.set_job_id(job);
  batch.set_process("node 0 aggregator");
  batch.set_dropped(dropped);
  for (int i = 0; i < events; ++i) batch.add_events();
  return batch;
}

class TraceSenderTest : public ::testing::Test {
 protected:
  FakeSession session_;
  TraceSender sender_;
};

TEST_F(TraceSenderTest, WhereManyBytesWaitNothingIsSentAndTheNextBatchSaysHowMuchIsLacking) {
  session_.queued.bytes = kTraceQueuedBytesMax + 1;
  sender_.Send(Batch(1, 2, 5), &session_);
  sender_.Send(Batch(1, 1), &session_);
  EXPECT_TRUE(session_.sent.empty());
  session_.queued.bytes = kTraceQueuedBytesMax;
  sender_.Send(Batch(1, 2, 1), &session_);
  sender_.Send(Batch(1, 3), &session_);
  ASSERT_EQ(session_.sent.size(), 2u);
  EXPECT_EQ(session_.sent[0].events_size(), 2);
  EXPECT_EQ(session_.sent[0].dropped(), 9u);
  EXPECT_EQ(session_.sent[1].events_size(), 3);
  EXPECT_EQ(session_.sent[1].dropped(), 0u) << "it is said once";
}

TEST_F(TraceSenderTest, WhereManyMessagesWaitNothingIsSent) {
  session_.queued.messages = kTraceQueuedMessagesMax + 1;
  sender_.Send(Batch(1, 2), &session_);
  EXPECT_TRUE(session_.sent.empty());
  session_.queued.messages = kTraceQueuedMessagesMax;
  sender_.Send(Batch(1, 2), &session_);
  ASSERT_EQ(session_.sent.size(), 1u);
  EXPECT_EQ(session_.sent[0].dropped(), 2u);
}

TEST_F(TraceSenderTest, TheEndIsAlwaysSentAndBeforeItWhatItsJobLacks) {
  session_.queued.messages = kTraceQueuedMessagesMax + 1;
  sender_.Send(Batch(1, 2), &session_);
  sender_.Send(TraceEnd(2), &session_);
  ASSERT_EQ(session_.sent.size(), 1u);
  EXPECT_TRUE(IsTraceEnd(session_.sent[0]));
  EXPECT_EQ(session_.sent[0].job_id(), 2u);
  sender_.Send(TraceEnd(1), &session_);
  ASSERT_EQ(session_.sent.size(), 3u);
  EXPECT_EQ(session_.sent[1].job_id(), 1u);
  EXPECT_EQ(session_.sent[1].dropped(), 2u);
  EXPECT_FALSE(IsTraceEnd(session_.sent[1]));
  EXPECT_TRUE(IsTraceEnd(session_.sent[2]));
  EXPECT_EQ(session_.sent[2].job_id(), 1u);
}

}  // namespace
}  // namespace strata::control
