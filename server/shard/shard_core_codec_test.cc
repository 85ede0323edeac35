// Encoded pushes and answers.
#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "numerics/checked_payload.h"
#include "numerics/encoder.h"
#include "server/testing/shard_harness.h"

namespace strata::server {
namespace {

using Floats = std::vector<float>;
using numerics::Compression;
using wire::Codec;
using wire::ErrorCode;
using wire::Op;

constexpr uint32_t kElements = 300;

proto::JobRecord CodecRecord(const std::string& text, std::vector<uint32_t> ranks = {1, 1}) {
  JobOptions options;
  options.ranks = std::move(ranks);
  options.elements = kElements;
  options.chunk_elements = kElements;
  options.job_text = "optimizer { sgd {} } schedule { base_lr: 0.5 } " + text;
  return MakeRecord(options);
}

Floats Values(float step) {
  Floats values(kElements);
  for (size_t i = 0; i < kElements; ++i) values[i] = std::sin(0.3f * i + step);
  return values;
}

Floats Decoded(const wire::Frame& frame, Floats onto = Floats(kElements, 0.0f)) {
  const auto payload = numerics::CheckedPayload::Check(
      kernels::Cpu(), frame.header.codec, kElements,
      absl::MakeConstSpan(frame.payload.data(), frame.payload.size()));
  EXPECT_TRUE(payload.ok()) << payload.status();
  if (payload.ok()) payload->AddTo(onto.data(), onto.data());
  return onto;
}

void SetPayload(std::vector<std::byte> bytes, wire::Frame* frame) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  frame->payload = Bytes(owner, owner->data(), owner->size());
  frame->header.payload_checksum = wire::Checksum(frame->payload);
}

// A push of Values(clock), encoded without the remainder of earlier ones.
wire::Frame Encoded(const proto::JobRecord& record, uint32_t node, uint64_t clock,
                    Compression compression) {
  wire::Frame frame = PushFrame(record, node, 0, clock, Values(clock), 4);
  const auto encoder =
      *numerics::Encoder::Create({.compression = compression}, kElements, kernels::Cpu());
  std::vector<std::byte> payload(encoder->encoded_bytes_max());
  numerics::EncoderScratch scratch;
  payload.resize(*encoder->Encode(Values(clock), &scratch, absl::MakeSpan(payload)));
  frame.header.codec = encoder->codec();
  SetPayload(std::move(payload), &frame);
  return frame;
}

TEST(ShardCodecs, FramesOfAnotherCodecThanTheJobsAreRefused) {
  const proto::JobRecord record = CodecRecord("push { codec: INT8 } pull { codec: FP16 }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const auto node = shard.Join(record, 0);
  wire::Frame init = Encoded(record, 0, 0, Compression::kInt8);
  init.header.op = Op::kInit;
  init.header.sample_count = 0;
  EXPECT_EQ(shard.DeliverForOne(node, init).header.error, ErrorCode::kWrongCodec);
  EXPECT_EQ(shard.DeliverForOne(node, InitFrame(record, 0, 0, Values(9))).header.op, Op::kInitOk);
  for (const Compression other : {Compression::kFloat16, Compression::kTopK}) {
    EXPECT_EQ(shard.DeliverForOne(node, Encoded(record, 0, 0, other)).header.error,
              ErrorCode::kWrongCodec);
  }
  EXPECT_EQ(shard.DeliverForOne(node, PushFrame(record, 0, 0, 0, Values(0), 4)).header.error,
            ErrorCode::kWrongCodec);
  EXPECT_TRUE(shard.Deliver(node, Encoded(record, 0, 0, Compression::kInt8)).empty()) << "taken";
  EXPECT_EQ(shard.core().Counters().at(JobId(7)).refused, 4u);
}

TEST(ShardCodecs, APayloadThatNoEncoderMakesIsRefusedAndTheNextOneTaken) {
  const proto::JobRecord record = CodecRecord("push { codec: INT8 } consistency { async {} }", {1});
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const auto node = shard.Join(record, 0);
  shard.DeliverForOne(node, InitFrame(record, 0, 0, Floats(kElements, 0.0f)));
  wire::Frame bad = Encoded(record, 0, 0, Compression::kInt8);
  std::vector<std::byte> bytes(bad.payload.data(), bad.payload.data() + bad.payload.size());
  ASSERT_FALSE(bytes.empty());
  bytes.back() = std::byte{0x80};
  SetPayload(bytes, &bad);
  const wire::Frame refusal = shard.DeliverForOne(node, bad);
  EXPECT_EQ(refusal.header.error, ErrorCode::kMalformed);
  const std::string text(reinterpret_cast<const char*>(refusal.payload.data()),
                         refusal.payload.size());
  EXPECT_EQ(text,
            "node 0 chunk 0 clock 0: int8 payload: scale or code of elements 0 to 299 is not "
            "allowed");
  const wire::Frame good = Encoded(record, 0, 0, Compression::kInt8);
  const wire::Frame answer = shard.DeliverForOne(node, good);
  EXPECT_EQ(answer.header.version, 1u);
  const Floats sum = Decoded(good), weights = ToFloats(answer);
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(weights[i], -0.5f * (0.25f * sum[i]));
}

class ShardCodecsOf : public testing::TestWithParam<std::string> {};

// Two nodes, three clocks: every answer continues from the one before, and both nodes get the same.
TEST_P(ShardCodecsOf, ASyncAnswerIsEncodedOnceForAllNodes) {
  const proto::JobRecord record = CodecRecord("pull { " + GetParam() + " }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const transport::ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1)};
  const Floats first = Values(9);
  shard.DeliverForOne(nodes[0], InitFrame(record, 0, 0, first));
  Floats copy = first;
  for (uint64_t clock = 0; clock < 3; ++clock) {
    const wire::Frame push = PushFrame(record, 1, 0, clock, Values(clock), 4, clock);
    EXPECT_TRUE(
        shard.Deliver(nodes[0], PushFrame(record, 0, 0, clock, Values(clock), 4, clock)).empty());
    const std::vector<Sent> answers = shard.Deliver(nodes[1], push);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0].frame.payload.data(), answers[1].frame.payload.data());
    EXPECT_EQ(answers[0].frame.header.base_version, clock);
    EXPECT_EQ(answers[0].frame.header.version, clock + 1);
    copy = Decoded(answers[0].frame, copy);
    const wire::Frame again = shard.DeliverForOne(nodes[1], push);
    EXPECT_EQ(again.header.codec, Codec::kNone);
    EXPECT_EQ(again.header.base_version, clock + 1);
    EXPECT_EQ(ToFloats(again), copy);
  }
  for (uint32_t node : {0, 1}) {
    shard.Deliver(nodes[node], ControlFrame(record, Op::kRetire, node, 0, 3));
  }
  const wire::Frame cut = shard.DeliverForOne(nodes[0], ControlFrame(record, Op::kCut, 0, 0, 3));
  EXPECT_EQ(cut.header.codec, Codec::kNone);
  EXPECT_NE(ToFloats(cut), copy) << "the final weights are the shard's own";
}

TEST_P(ShardCodecsOf, AnAsyncNodeIsAnsweredWithWhatItsOwnCopyLacks) {
  const proto::JobRecord record =
      CodecRecord("consistency { async {} } pull { " + GetParam() + " }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const transport::ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1)};
  const Floats first = Values(9);
  shard.DeliverForOne(nodes[0], InitFrame(record, 0, 0, first));
  Floats copies[] = {first, first};
  uint64_t clocks[] = {0, 0}, versions[] = {0, 0};
  uint64_t version = 0;
  for (const size_t node : {0, 0, 1, 0, 1, 0}) {
    const uint64_t clock = clocks[node]++;
    const wire::Frame push = PushFrame(record, node, 0, clock, Values(clock), 4, versions[node]);
    const wire::Frame answer = shard.DeliverForOne(nodes[node], push);
    EXPECT_EQ(answer.header.base_version, clock);
    versions[node] = answer.header.version;
    EXPECT_EQ(versions[node], ++version);
    copies[node] = Decoded(answer, copies[node]);
    EXPECT_EQ(ToFloats(shard.DeliverForOne(nodes[node], push)), copies[node]);
  }
}

// A repeated request for an answer over a new connection.
TEST_P(ShardCodecsOf, AnAnswerThatFoundNoConnectionIsPartOfTheCopyAllTheSame) {
  const proto::JobRecord record = CodecRecord("pull { " + GetParam() + " }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const transport::ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1)};
  const Floats first = Values(9);
  shard.DeliverForOne(nodes[0], InitFrame(record, 0, 0, first));
  const wire::Frame push = PushFrame(record, 0, 0, 0, Values(0), 4);
  shard.Deliver(nodes[0], push);
  shard.Lose(nodes[0]);
  const wire::Frame other = shard.DeliverForOne(nodes[1], PushFrame(record, 1, 0, 0, Values(0), 4));
  const wire::Frame again = shard.DeliverForOne(shard.Join(record, 0), push);
  EXPECT_EQ(again.header.base_version, 1u);
  EXPECT_EQ(ToFloats(again), Decoded(other, first));
}

INSTANTIATE_TEST_SUITE_P(Codecs, ShardCodecsOf,
                         testing::Values("codec: FP16", "codec: BF16", "codec: INT8",
                                         "codec: ONE_BIT", "codec: TOP_K density: 0.1"));

TEST(ShardCodecs, WeightsThatCannotBeEncodedAreAnErrorToWhoWaitsForThem) {
  const proto::JobRecord record = CodecRecord("consistency { async {} } pull { codec: INT8 }", {1});
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const auto node = shard.Join(record, 0);
  shard.DeliverForOne(node, InitFrame(record, 0, 0, Floats(kElements, -3e38f)));
  const wire::Frame answer =
      shard.DeliverForOne(node, PushFrame(record, 0, 0, 0, Floats(kElements, 3e38f), 1));
  EXPECT_EQ(answer.header.op, Op::kError);
  EXPECT_EQ(answer.header.error, ErrorCode::kNotFinite);
  EXPECT_EQ(answer.header.clock, 0u);
}

TEST(ShardCodecs, HeldSumsAreAsSmallAsTheirPayloads) {
  const proto::JobRecord record = CodecRecord("push { codec: ONE_BIT }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const auto node = shard.Join(record, 0);
  shard.DeliverForOne(node, InitFrame(record, 0, 0, Values(9)));
  const auto held = [&] { return shard.core().NextReports().at(JobId(7)).memory_bytes; };
  const uint64_t before = held();
  const wire::Frame push = Encoded(record, 0, 0, Compression::kOneBit);
  shard.Deliver(node, push);
  EXPECT_EQ(held() - before, push.payload.size());
}

}  // namespace
}  // namespace strata::server
