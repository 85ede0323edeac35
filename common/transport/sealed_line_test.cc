#include "common/transport/sealed_line.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/testing/sealed_pair.h"

namespace strata::transport {
namespace {

using seal::Protection;

// Both ends of a connection of job 7, whose peers know the secret but may break all other rules.
class SealedLineTest : public testing::TestWithParam<Protection> {
 protected:
  void SetUp() override {
    seal::Secret secret;
    secret.fill(std::byte{'s'});
    seals_ = std::make_unique<PayloadSeals>(GetParam(), secret);
    auto connecting = *seal::Handshake::Connect("job", secret, seals_->salt());
    auto listening = *seal::Handshake::Accept(
        [&](absl::string_view) { return std::optional(secret); }, seal::NewSalt());
    std::string up, down;
    ASSERT_TRUE(connecting->Take({}, &up).ok());
    while (!up.empty() || !down.empty()) {
      ASSERT_TRUE(listening->Take(Span(up), &down).ok());
      up.clear();
      ASSERT_TRUE(connecting->Take(Span(down), &up).ok());
      down.clear();
    }
    sender_ = std::make_unique<SealedLine>(*connecting, JobId(7), GetParam(), secret);
    receiver_ = std::make_unique<SealedLine>(*listening, JobId(7), GetParam(), secret);
  }

  static absl::Span<const std::byte> Span(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }
  static std::string Text(const Bytes& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // A frame with this seal of its payload.
  wire::Frame Signed(wire::Frame frame, const seal::PayloadSeal& payload) {
    frame.seal = sender_->Seal(frame.header, frame.payload.size(), payload);
    sender_->Took();
    return frame;
  }
  absl::Status Open(wire::Frame frame) { return receiver_->Open(&pool_, &frame); }

  BufferPool pool_;
  std::unique_ptr<PayloadSeals> seals_;
  std::unique_ptr<SealedLine> sender_, receiver_;
};

TEST_P(SealedLineTest, APayloadThatIsNotSealedIsRefused) {
  EXPECT_EQ(Open(Signed(FrameOf(7, 1, "eight by"), {})),
            absl::InvalidArgumentError("the payload came without a seal"));
}

TEST_P(SealedLineTest, APayloadByReferenceHasNoSeal) {
  wire::Frame frame = Signed(FrameOf(7, 1, "eight by"), {});
  frame.by_reference = true;
  EXPECT_TRUE(Open(frame).ok());
  wire::Frame sealed = FrameOf(7, 2, "eight by");
  const auto payload = seals_->Of(sealed.payload, &pool_);
  sealed = Signed(sealed, payload->seal);
  sealed.by_reference = true;
  EXPECT_FALSE(Open(sealed).ok());
}

TEST_P(SealedLineTest, ASealOfNoPayloadIsRefused) {
  wire::Frame frame = FrameOf(7, 1, "eight by");
  const auto payload = seals_->Of(frame.payload, &pool_);
  frame.payload = Bytes();
  frame.header.element_count = 0;
  EXPECT_FALSE(Open(Signed(frame, payload->seal)).ok());
}

TEST_P(SealedLineTest, ABrokenPayloadIsRefusedThoughItsHeaderIsRight) {
  wire::Frame frame = FrameOf(7, 1, "eight by");
  const auto payload = seals_->Of(frame.payload, &pool_);
  frame.payload = FrameOf(7, 1, "eight bY").payload;
  EXPECT_EQ(Open(Signed(frame, payload->seal)),
            absl::InvalidArgumentError("the payload's seal is broken"));
}

TEST_P(SealedLineTest, AFrameOfAnotherJobIsRefused) {
  EXPECT_EQ(Open(Signed(FrameOf(8, 1, ""), {})),
            absl::InvalidArgumentError("job 8 over a connection of job 7"));
}

// Bytes that others may still read are not overwritten.
TEST_P(SealedLineTest, OnlyBytesOfNobodyElseAreReadInPlace) {
  const bool encrypts = GetParam() == Protection::kEncrypt;
  for (const bool is_own : {true, false}) {
    const wire::Frame plain = FrameOf(7, 1, "eight by");
    const auto payload = seals_->Of(plain.payload, &pool_);
    std::string travelled = Text(payload->bytes);
    EXPECT_EQ(travelled == "eight by", !encrypts);
    const std::string sent = travelled;
    auto* const bytes = reinterpret_cast<std::byte*>(travelled.data());
    wire::Frame frame = Signed(plain, payload->seal);
    frame.payload = Bytes(nullptr, bytes, travelled.size());
    // Bytes of another payload are not this one's.
    std::string others = "another ";
    frame.writable = is_own ? bytes : reinterpret_cast<std::byte*>(others.data());
    ASSERT_TRUE(receiver_->Open(&pool_, &frame).ok());
    EXPECT_EQ(Text(frame.payload), "eight by");
    EXPECT_EQ(frame.payload.data() == bytes, is_own || !encrypts);
    EXPECT_EQ(travelled, is_own ? "eight by" : sent);
    EXPECT_EQ(others, "another ");
    EXPECT_EQ(frame.writable, nullptr);
  }
}

TEST_P(SealedLineTest, WhatABrokenPayloadSaysInPlaceIsShownToNobody) {
  if (GetParam() == Protection::kSign) return;
  wire::Frame frame = FrameOf(7, 1, "eight by");
  const auto payload = seals_->Of(frame.payload, &pool_);
  std::string broken = Text(payload->bytes);
  broken.back() ^= 1;
  frame.writable = reinterpret_cast<std::byte*>(broken.data());
  frame.payload = Bytes(nullptr, frame.writable, broken.size());
  EXPECT_FALSE(Open(Signed(frame, payload->seal)).ok());
  EXPECT_EQ(broken, std::string(broken.size(), '\0'));
}

INSTANTIATE_TEST_SUITE_P(Both, SealedLineTest,
                         testing::Values(Protection::kEncrypt, Protection::kSign));

TEST(PayloadSeals, NumbersAndSaltsAreNew) {
  seal::Secret secret;
  secret.fill(std::byte{'s'});
  BufferPool pool;
  PayloadSeals seals(Protection::kEncrypt, secret), others(Protection::kEncrypt, secret);
  EXPECT_NE(seals.salt(), others.salt());
  const wire::Frame frame = FrameOf(7, 1, "eight by");
  const auto first = seals.Of(frame.payload, &pool);
  EXPECT_EQ(seals.Of(frame.payload, &pool), first) << "sealed twice while it was there";
  EXPECT_NE(others.Of(frame.payload, &pool), first) << "another's seal";
  const auto same_text = seals.Of(FrameOf(7, 1, "eight by").payload, &pool);
  EXPECT_NE(same_text->seal.number, first->seal.number);
}

}  // namespace
}  // namespace strata::transport
