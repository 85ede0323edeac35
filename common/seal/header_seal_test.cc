#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "common/seal/seal.h"
#include "common/seal/testing/hex.h"

namespace strata::seal {
namespace {

using ByteVector = std::vector<std::byte>;

Key KeyOf(int fill) {
  Key key;
  key.fill(static_cast<std::byte>(fill));
  return key;
}

ByteVector Numbered(size_t bytes) {
  ByteVector header(bytes);
  for (size_t i = 0; i < bytes; ++i) header[i] = static_cast<std::byte>(i * 7 + 1);
  return header;
}

const absl::Status kBroken = absl::InvalidArgumentError("the header's seal is broken");

// One connection's direction, with frames of a header and a payload's seal.
struct Frame {
  ByteVector header;
  PayloadSeal seal;
  Tag tag;
};

Frame FrameOf(HeaderSealer& sealer, size_t i) {
  Frame frame{Numbered(24 + i), {i, {}}, {}};
  frame.seal.tag.fill(static_cast<std::byte>(i));
  frame.tag = sealer.Next(frame.header, frame.seal);
  sealer.Took();
  return frame;
}

std::vector<Frame> FramesOf(const Key& key, size_t count) {
  HeaderSealer sealer(key);
  std::vector<Frame> frames;
  for (size_t i = 0; i < count; ++i) frames.push_back(FrameOf(sealer, i));
  return frames;
}

absl::Status Check(HeaderOpener& opener, const Frame& frame) {
  return opener.Check(frame.header, frame.seal, frame.tag);
}

// How many of the frames, in this order, an opener takes before it refuses one and all after it.
size_t TakenOf(const std::vector<Frame>& frames, const std::vector<size_t>& order) {
  HeaderOpener opener(KeyOf(5));
  size_t taken = 0;
  for (const size_t i : order) {
    const absl::Status status = Check(opener, frames[i]);
    if (!status.ok()) break;
    ++taken;
  }
  if (taken == order.size()) return taken;
  for (const Frame& frame : frames) EXPECT_EQ(Check(opener, frame), kBroken);
  return taken;
}

TEST(HeaderSeal, FramesMustComeOnceEachAndInOrder) {
  const std::vector<Frame> frames = FramesOf(KeyOf(5), 6);
  EXPECT_EQ(TakenOf(frames, {0, 1, 2, 3, 4, 5}), 6u);
  EXPECT_EQ(TakenOf(frames, {0, 1, 1, 2}), 2u);  // replayed
  EXPECT_EQ(TakenOf(frames, {0, 1, 0}), 2u);
  EXPECT_EQ(TakenOf(frames, {0, 2, 1}), 1u);  // reordered
  EXPECT_EQ(TakenOf(frames, {1, 0}), 0u);
  EXPECT_EQ(TakenOf(frames, {0, 2, 3}), 1u);  // one is missing
}

TEST(HeaderSeal, EqualFramesHaveOtherTagsAtEachPlace) {
  HeaderSealer sealer(KeyOf(5));
  std::set<Tag> tags;
  for (size_t i = 0; i < 5'000; ++i) {
    tags.insert(sealer.Next(Numbered(24), {}));
    sealer.Took();
  }
  EXPECT_EQ(tags.size(), 5'000u);
}

// Computed by another implementation, as seal_vectors_test.py does.
TEST(HeaderSeal, IsOnEveryHostTheSame) {
  PayloadSeal seal{3, {}};
  for (size_t i = 0; i < kTagBytes; ++i) seal.tag[i] = static_cast<std::byte>(i);
  const Tag tag = HeaderSealer(KeyOf(5)).Next(FromHex("686561646572"), seal);
  EXPECT_EQ(ToHex(EncodeSeal(seal, tag)),
            "0300000000000000000102030405060708090a0b0c0d0e0fbe15601350c75e0c9b835d265b638cc3");
}

TEST(HeaderSeal, BreaksByEveryBit) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  const auto expect_broken = [](const Frame& changed) {
    HeaderOpener opener(KeyOf(5));
    EXPECT_EQ(Check(opener, changed), kBroken);
  };
  for (size_t bit = 0; bit < 8 * frame.header.size(); ++bit) {
    Frame changed = frame;
    changed.header[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
  }
  for (size_t bit = 0; bit < 64; ++bit) {
    Frame changed = frame;
    changed.seal.number ^= uint64_t{1} << bit;
    expect_broken(changed);
  }
  for (size_t bit = 0; bit < 8 * kTagBytes; ++bit) {
    Frame changed = frame;
    changed.seal.tag[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
    changed = frame;
    changed.tag[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
  }
  HeaderOpener opener(KeyOf(5));
  EXPECT_EQ(Check(opener, frame), absl::OkStatus());
}

TEST(HeaderSeal, TheEndOfAHeaderIsNoPartOfThePayloadsSeal) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  // The number's first byte, moved over to the header.
  Frame moved = frame;
  moved.header.push_back(std::byte{3});
  moved.seal.number = 3 >> 8;
  HeaderOpener opener(KeyOf(5));
  EXPECT_EQ(Check(opener, moved), kBroken);
}

TEST(HeaderSeal, IsOfOneDirection) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  HeaderOpener other(KeyOf(6));
  EXPECT_EQ(Check(other, frame), kBroken);
}

TEST(HeaderSeal, AFrameThatWasNotQueuedKeepsItsPlace) {
  HeaderSealer sealer(KeyOf(5));
  HeaderOpener opener(KeyOf(5));
  const PayloadSeal seal;
  const Tag forgotten = sealer.Next(Numbered(24), seal);
  EXPECT_EQ(sealer.Next(Numbered(24), seal), forgotten);
  EXPECT_NE(sealer.Next(Numbered(25), seal), forgotten);
  const Tag queued = sealer.Next(Numbered(26), seal);
  sealer.Took();
  EXPECT_EQ(opener.Check(Numbered(26), seal, queued), absl::OkStatus());
  EXPECT_NE(sealer.Next(Numbered(24), seal), forgotten);
}

TEST(HeaderSeal, OnlyAFrameWithATagIsTook) {
  HeaderSealer sealer(KeyOf(5));
  EXPECT_DEATH(sealer.Took(), "requirement failed: has_tag_");
  sealer.Next({}, {});
  sealer.Took();
  EXPECT_DEATH(sealer.Took(), "requirement failed: has_tag_");
}

TEST(EncodeSeal, IsReadAsItWasWritten) {
  PayloadSeal seal{0x0807060504030201, {}};
  Tag tag;
  for (size_t i = 0; i < kTagBytes; ++i) {
    seal.tag[i] = static_cast<std::byte>(0x09 + i);
    tag[i] = static_cast<std::byte>(0x19 + i);
  }
  const std::array<std::byte, kSealBytes> bytes = EncodeSeal(seal, tag);
  for (size_t i = 0; i < kSealBytes; ++i) EXPECT_EQ(static_cast<size_t>(bytes[i]), i + 1);
  PayloadSeal read;
  Tag read_tag;
  ASSERT_EQ(DecodeSeal(bytes, &read, &read_tag), absl::OkStatus());
  EXPECT_EQ(read.number, seal.number);
  EXPECT_EQ(read.tag, seal.tag);
  EXPECT_EQ(read_tag, tag);
}

TEST(DecodeSeal, RefusesWhatNoSealerMakes) {
  PayloadSeal read{7, {}};
  Tag tag = {};
  const auto code = [&](const ByteVector& bytes) { return DecodeSeal(bytes, &read, &tag).code(); };
  for (size_t bytes = 0; bytes < 2 * kSealBytes; ++bytes) {
    EXPECT_EQ(code(ByteVector(bytes)),
              bytes == kSealBytes ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  }
  read.number = 7;
  ByteVector tag_without_number(kSealBytes);
  tag_without_number[8 + 15] = std::byte{1};
  EXPECT_EQ(code(tag_without_number), absl::StatusCode::kInvalidArgument);
  ByteVector without_index(kSealBytes);
  without_index[4] = std::byte{1};
  EXPECT_EQ(code(without_index), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read.number, 7u);
}

}  // namespace
}  // namespace strata::seal
