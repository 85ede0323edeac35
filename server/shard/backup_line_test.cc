#include "server/shard/backup_line.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::Op;

constexpr absl::Time kBegin = absl::UnixEpoch();
const ConnectionId kLine(10), kNextLine(11), kNode(1);

class BackupLineTest : public testing::Test {
 protected:
  BackupLineTest() {
    BackupLine::Options options;
    options.address = "tcp://10.0.0.2:4000";
    options.identity = {.job = 7, .view = 3, .generation = 5};
    options.identity.hello.role = wire::Hello::Role::kPrimary;
    line_.emplace(options);
  }

  // The actions as text: "CONNECT", "CLOSE 10" or "PUSHPULL 2 on 10".
  std::vector<std::string> Take() {
    std::vector<ShardAction> actions;
    line_->TakeActions(&actions);
    return TextsOf(actions);
  }
  static std::vector<std::string> TextsOf(const std::vector<ShardAction>& actions) {
    std::vector<std::string> texts;
    for (const ShardAction& action : actions) {
      const wire::Header& header = action.frame.header;
      const std::string on = std::to_string(action.connection.value());
      if (action.kind == ShardAction::Kind::kConnect) texts.push_back("CONNECT");
      if (action.kind == ShardAction::Kind::kClose) texts.push_back("CLOSE " + on);
      if (action.kind != ShardAction::Kind::kSend) continue;
      const uint64_t number = header.sequence != 0 ? header.sequence : header.clock;
      texts.push_back(wire::ToString(header.op) + " " + std::to_string(number) + " on " + on);
    }
    return texts;
  }

  static wire::Frame FrameOf(Op op, uint64_t clock = 0, uint64_t received = 0) {
    wire::Frame frame;
    frame.header.op = op;
    frame.header.clock = clock;
    frame.header.received = received;
    if (op == Op::kError) frame.header.error = wire::ErrorCode::kFenced;
    return frame;
  }
  void KeepBack(Op op, uint64_t clock) {
    std::vector<ShardAction> made;
    made.push_back({.connection = kNode, .frame = FrameOf(op, clock)});
    line_->KeepBack(std::move(made));
  }
  // Brings the line up.
  void Open() {
    line_->OnTime(kBegin);
    line_->OnConnected(kLine, kBegin);
    line_->OnFrame(FrameOf(Op::kHelloOk), kBegin);
    Take();
  }

  std::optional<BackupLine> line_;
};

using Texts = std::vector<std::string>;

TEST_F(BackupLineTest, ItConnectsAndSaysHelloAndThenEachChange) {
  EXPECT_EQ(line_->deadline(), absl::InfinitePast());
  line_->Log(FrameOf(Op::kInit), kBegin);
  line_->OnTime(kBegin);
  EXPECT_EQ(Take(), Texts({"CONNECT"}));
  line_->OnConnected(kLine, kBegin);
  EXPECT_EQ(Take(), Texts({"HELLO 0 on 10"}));
  line_->OnFrame(FrameOf(Op::kHelloOk), kBegin);
  EXPECT_EQ(Take(), Texts({"INIT 1 on 10"}));
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  EXPECT_EQ(Take(), Texts({"PUSHPULL 2 on 10"}));
}

TEST_F(BackupLineTest, ChangesAreOfItsGeneration) {
  Open();
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  std::vector<ShardAction> actions;
  line_->TakeActions(&actions);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].frame.header.generation, 5u);
}

TEST_F(BackupLineTest, WhatTheBackupLacksIsKeptBackButForRefusals) {
  Open();
  KeepBack(Op::kAnswer, 1);
  EXPECT_EQ(Take(), Texts({"ANSWER 1 on 1"})) << "no change went before it";
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 2);
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 3);
  KeepBack(Op::kError, 4);
  KeepBack(Op::kRetry, 5);
  EXPECT_EQ(Take(),
            Texts({"PUSHPULL 1 on 10", "PUSHPULL 2 on 10", "ERROR 4 on 1", "RETRY 5 on 1"}));
  line_->OnFrame(FrameOf(Op::kAck, 0, 1), kBegin);
  EXPECT_EQ(Take(), Texts({"ANSWER 2 on 1"}));
  line_->OnFrame(FrameOf(Op::kAck, 0, 2), kBegin);
  EXPECT_EQ(Take(), Texts({"ANSWER 3 on 1"}));
}

TEST_F(BackupLineTest, OnTheNextConnectionItGoesOnWithWhatTheBackupLacks) {
  Open();
  for (int i = 0; i < 3; ++i) line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 7);
  Take();
  line_->OnLost(absl::UnavailableError("gone"), kBegin);
  EXPECT_EQ(Take(), Texts({"CLOSE 10"}));
  const absl::Time later = line_->deadline();
  line_->OnTime(later);
  line_->OnConnected(kNextLine, later);
  EXPECT_EQ(Take(), Texts({"CONNECT", "HELLO 0 on 11"}));
  line_->OnFrame(FrameOf(Op::kHelloOk, 0, 2), later);
  EXPECT_EQ(Take(), Texts({"PUSHPULL 3 on 11"}));
  EXPECT_EQ(line_->acknowledged(), 2u);
}

TEST_F(BackupLineTest, AfterASilenceItSaysAllAgain) {
  Open();
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  line_->Log(FrameOf(Op::kRetire), kBegin);
  Take();
  const absl::Time due = line_->deadline();
  EXPECT_EQ(due, kBegin + LinkTiming().resend_after);
  line_->OnTime(due);
  EXPECT_EQ(Take(), Texts({"PUSHPULL 1 on 10", "RETIRE 2 on 10"}));
  EXPECT_EQ(line_->deadline(), due + 2 * LinkTiming().resend_after);
  EXPECT_EQ(line_->waits_since(), kBegin);
  line_->OnFrame(FrameOf(Op::kAck, 0, 2), due);
  EXPECT_EQ(line_->deadline(), absl::InfiniteFuture());
  EXPECT_EQ(line_->waits_since(), absl::InfiniteFuture());
  EXPECT_EQ(line_->bytes(), 0u);
}

TEST_F(BackupLineTest, WhoIsThePrimaryNoMoreSaysNothingAnyMore) {
  Open();
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 1);
  Take();
  line_->OnFrame(FrameOf(Op::kError), kBegin);
  EXPECT_EQ(Take(), Texts({"CLOSE 10"}));
  EXPECT_EQ(line_->refusal().message(), "backup tcp://10.0.0.2:4000 refused: FENCED");
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 2);
  line_->OnTime(kBegin + absl::Hours(1));
  EXPECT_EQ(Take(), Texts());
  EXPECT_EQ(line_->deadline(), absl::InfiniteFuture());
}

TEST_F(BackupLineTest, OnceTheBackupIsGivenUpAllThatWasKeptBackLeaves) {
  Open();
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 1);
  KeepBack(Op::kAnswer, 2);
  Take();
  std::vector<ShardAction> actions;
  line_->GiveUp(&actions);
  EXPECT_EQ(TextsOf(actions), Texts({"CLOSE 10", "ANSWER 1 on 1", "ANSWER 2 on 1"}));
}

TEST_F(BackupLineTest, AnAcknowledgementOfWhatWasNeverSaidIsNone) {
  Open();
  line_->Log(FrameOf(Op::kPushPull), kBegin);
  KeepBack(Op::kAnswer, 1);
  Take();
  line_->OnFrame(FrameOf(Op::kAck, 0, 9), kBegin);
  EXPECT_EQ(Take(), Texts());
  EXPECT_EQ(line_->acknowledged(), 0u);
}

TEST_F(BackupLineTest, WhileTheBackupDoesNotKnowThatItIsOneItIsAskedAgain) {
  wire::Frame not_here = FrameOf(Op::kError);
  not_here.header.error = wire::ErrorCode::kWrongJob;
  line_->OnTime(kBegin);
  for (const wire::Frame& answer : {FrameOf(Op::kRetry), not_here}) {
    EXPECT_EQ(Take(), Texts({"CONNECT"}));
    line_->OnConnected(kLine, kBegin);
    Take();
    line_->OnFrame(answer, kBegin);
    EXPECT_EQ(Take(), Texts({"CLOSE 10"}));
    EXPECT_TRUE(line_->refusal().ok());
    line_->OnTime(line_->deadline());
  }
  EXPECT_EQ(Take(), Texts({"CONNECT"}));
}

}  // namespace
}  // namespace strata::server
