#include "worker/exchange/server/push_encoder.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "numerics/checked_payload.h"

namespace strata::worker {
namespace {

using Floats = std::vector<float>;

// Two nodes of 1 and 3 ranks, chunks of 1000 and 500 elements.
proto::JobRecord Record(const proto::Encoding& push) {
  proto::JobRecord record;
  *record.mutable_job()->mutable_push() = push;
  record.set_samples_per_epoch(80);
  for (uint32_t node = 0; node < 2; ++node) {
    proto::LogicalNode* one = record.mutable_view()->add_nodes();
    one->set_node(node);
    one->set_ranks(node == 0 ? 1 : 3);
  }
  return record;
}

std::unique_ptr<PushEncoder> Of(const proto::Encoding& push, uint32_t node = 0) {
  return *PushEncoder::Create(Record(push), NodeId(node), ChunkMap(1500, 1000), kernels::Cpu());
}

Bytes View(const Floats& floats) {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(floats.data()), floats.size() * 4);
}

Floats Decoded(wire::Codec codec, size_t elements, const Bytes& payload) {
  const auto checked = numerics::CheckedPayload::Check(
      kernels::Cpu(), codec, elements, absl::MakeConstSpan(payload.data(), payload.size()));
  EXPECT_TRUE(checked.ok()) << checked.status();
  Floats floats(elements);
  if (checked.ok()) checked->WriteTo(floats.data());
  return floats;
}

Floats Gradient(size_t elements) {
  Floats gradient(elements);
  for (size_t i = 0; i < elements; ++i) gradient[i] = std::sin(0.7f * i) + 1.5f;
  return gradient;
}

TEST(PushEncoder, Fp32PassesAsItIsAndHoldsNothing) {
  const auto encoder = Of({});
  const Floats gradient = Gradient(1000);
  const auto payload = encoder->Encode(ChunkId(0), View(gradient), 1);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->codec, wire::Codec::kNone);
  EXPECT_EQ(payload->payload.floats(), gradient.data());
  EXPECT_EQ(encoder->memory_bytes(), 0u);
}

TEST(PushEncoder, WhatOnePayloadLacksIsPartOfItsOwnChunksNextOnes) {
  proto::Encoding push;
  push.set_codec(proto::Encoding::INT8);
  const auto encoder = Of(push);
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    const Floats gradient = Gradient(chunk == 0 ? 1000 : 500);
    std::vector<double> sent(gradient.size());
    for (int clock = 0; clock < 100; ++clock) {
      const auto payload = encoder->Encode(ChunkId(chunk), View(gradient), 1);
      ASSERT_TRUE(payload.ok());
      const Floats decoded = Decoded(payload->codec, gradient.size(), payload->payload);
      for (size_t i = 0; i < sent.size(); ++i) sent[i] += decoded[i];
    }
    for (size_t i = 0; i < sent.size(); ++i) ASSERT_NEAR(sent[i], 100 * gradient[i], 0.02);
  }
  EXPECT_GE(encoder->memory_bytes(), 1500 * sizeof(float));
}

TEST(PushEncoder, ASparsePayloadTakesNoMoreMemoryThanItHas) {
  proto::Encoding push;
  push.set_codec(proto::Encoding::TOP_K);
  push.set_density(0.01f);
  const auto encoder = Of(push);
  const auto payload = encoder->Encode(ChunkId(0), View(Gradient(1000)), 1);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->payload.size(), 4 + 8 * 10u);
}

// Node 1 has three of four ranks: 15 of its samples are a quarter of the epoch's 80.
TEST(PushEncoder, DgcComesDownWithTheEpochsThatTheNodesSamplesStandFor) {
  proto::Encoding push;
  push.set_codec(proto::Encoding::DGC);
  push.set_density(0.002f);
  push.set_momentum(0.5f);
  push.set_warmup_epochs(1);
  const auto encoder = Of(push, 1);
  std::vector<size_t> counts;
  for (int clock = 0; clock < 6; ++clock) {
    const auto payload = encoder->Encode(ChunkId(0), View(Gradient(1000)), 15);
    ASSERT_TRUE(payload.ok());
    counts.push_back((payload->payload.size() - 4) / 8);
  }
  EXPECT_EQ(counts, (std::vector<size_t>{250, 63, 16, 4, 2, 2}));
}

TEST(PushEncoder, WhatNodesHaveEncodedPassesAsItIsAndNothingIsHeld) {
  proto::Encoding push;
  push.set_codec(proto::Encoding::DGC);
  const auto encoder = *PushEncoder::Create(Record(push), NodeId(0), ChunkMap(1500, 1000),
                                            kernels::Cpu(), PushEncoder::From::kPayloads);
  const Floats payload = {1, 2, 3};
  const auto passed = encoder->Encode(ChunkId(0), View(payload), 1);
  ASSERT_TRUE(passed.ok());
  EXPECT_EQ(passed->codec, wire::Codec::kSparse);
  EXPECT_EQ(passed->payload.floats(), payload.data());
  EXPECT_EQ(passed->payload.size(), 12u);
  EXPECT_EQ(encoder->memory_bytes(), 0u);
}

TEST(PushEncoder, AGradientThatIsNotFiniteIsRefused) {
  proto::Encoding push;
  push.set_codec(proto::Encoding::FP16);
  Floats gradient = Gradient(500);
  gradient[7] = NAN;
  const absl::Status status = Of(push)->Encode(ChunkId(1), View(gradient), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "element 7 is nan");
}

TEST(PushEncoder, WithSignificanceZerosAreNotSentWhereThatIsSmaller) {
  proto::JobRecord record = Record({});
  record.mutable_job()->mutable_consistency()->mutable_lazy()->mutable_significance();
  const auto encoder =
      *PushEncoder::Create(record, NodeId(0), ChunkMap(1500, 1000), kernels::Cpu());
  Floats change(1000, 0.0f);
  for (const size_t sent : {0, 1, 499}) {
    for (size_t i = 0; i < sent; ++i) change[2 * i] = 1.0f + i;
    const auto payload = encoder->Encode(ChunkId(0), View(change), 1);
    ASSERT_TRUE(payload.ok());
    EXPECT_EQ(payload->codec, wire::Codec::kSparse);
    EXPECT_EQ(payload->payload.size(), 4 + 8 * sent);
    EXPECT_EQ(Decoded(payload->codec, 1000, payload->payload), change);
  }
  change[999] = 3.0f;
  const auto dense = encoder->Encode(ChunkId(0), View(change), 1);
  ASSERT_TRUE(dense.ok());
  EXPECT_EQ(dense->codec, wire::Codec::kNone);
  EXPECT_EQ(dense->payload.floats(), change.data());
  change[1] = NAN;
  EXPECT_EQ(encoder->Encode(ChunkId(0), View(change), 1).status().message(), "NaN or infinity");
}

// An encoder resumed from an image sends what the original would have sent: the remainder so far,
// and DGC's momentum and density, are in it.
TEST(PushEncoder, GoesOnFromAnImageWithTheSamePayloads) {
  for (const proto::Encoding::Codec codec :
       {proto::Encoding::FP32, proto::Encoding::FP16, proto::Encoding::INT8,
        proto::Encoding::ONE_BIT, proto::Encoding::TOP_K, proto::Encoding::DGC}) {
    proto::Encoding push;
    push.set_codec(codec);
    push.set_density(0.002f);
    push.set_warmup_epochs(1);
    const auto encoder = Of(push), resumed = Of(push);
    const auto encode = [&](PushEncoder& one, int clock) {
      Floats gradient = Gradient(1000);
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] *= std::cos(0.3f * clock + i);
      const auto payload = one.Encode(ChunkId(0), View(gradient), 15);
      EXPECT_TRUE(payload.ok()) << payload.status();
      return std::string(reinterpret_cast<const char*>(payload->payload.data()),
                         payload->payload.size());
    };
    for (int clock = 0; clock < 3; ++clock) encode(*encoder, clock);
    const PushImage image = encoder->Image(ChunkId(0));
    encode(*encoder, 3);  // which changes nothing in the image
    ASSERT_TRUE(resumed->Restore(ChunkId(0), image).ok());
    encode(*resumed, 3);
    for (int clock = 4; clock < 8; ++clock) {
      EXPECT_EQ(encode(*resumed, clock), encode(*encoder, clock)) << codec << " " << clock;
    }
  }
}

TEST(PushEncoder, AnImageOfAnotherCodecOrSizeIsRefused) {
  proto::Encoding int8;
  int8.set_codec(proto::Encoding::INT8);
  const auto encoder = Of(int8);
  const PushImage image = encoder->Image(ChunkId(0));
  EXPECT_EQ(Of({})->Restore(ChunkId(0), image).message(),
            "1 vectors of what was not sent, push.codec keeps 0");
  EXPECT_EQ(Of(int8)->Restore(ChunkId(1), image).message(),
            "vector 0 of the state has 1000 elements, not 500");
}

}  // namespace
}  // namespace strata::worker
