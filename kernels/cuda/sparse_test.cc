// Tests of a device's kernels for sparse payloads beyond the conformance suite.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device/device_kernels.h"
#include "kernels/device/host_kernels.h"
#include "kernels/device/test_devices.h"
#include "kernels/testing/reference.h"

namespace strata::cuda {
namespace {

using device::DeviceSparseCodec;
using device::kBad;
using device::kGood;
using device::Mirror;
using device::Stream;
using device::Verdict;
using kernels::Accumulators;
using kernels::Candidates;
using kernels::kCandidateSlack;

constexpr size_t kRoomBytes = size_t{16} << 20;

class SparseTest : public testing::Test {
 protected:
  SparseTest()
      : device_(device::FindTestDevices()->Use(0).value()),
        room_(Mirror::NewRoom(device_.get(), kRoomBytes).value()) {}

  const DeviceSparseCodec& Sparse() const { return device_->kernels().sparse; }

  const std::shared_ptr<device::Device> device_;
  Mirror::Room room_;
};

// Elements of which about one in `every` is not 0.
std::vector<float> Elements(size_t n, unsigned every, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> elements(n);
  for (float& element : elements) {
    if (random() % every == 0) element = static_cast<float>(static_cast<int>(random() % 201) - 100);
  }
  return elements;
}

struct Chosen {
  std::vector<uint32_t> indices, bits;
  uint32_t count = 0x5eed;  // is set, not added to

  explicit Chosen(size_t n) : indices(n + kCandidateSlack), bits(n + kCandidateSlack) {}
  Candidates To(Mirror* mirror) {
    return {mirror->At(indices.data(), indices.size(), Mirror::kOut),
            mirror->At(bits.data(), bits.size(), Mirror::kOut)};
  }
  uint32_t* Count(Mirror* mirror) { return mirror->At(&count, 1, Mirror::kOut); }
};

void ExpectChosenOf(const std::vector<float>& p, uint32_t threshold, const Chosen& got) {
  Chosen expected(p.size());
  const size_t count = kernels::reference::Codecs().sparse.select(
      p.data(), threshold, {expected.indices.data(), expected.bits.data()}, p.size());
  ASSERT_EQ(got.count, count);
  for (size_t j = 0; j < count; ++j) {
    ASSERT_EQ(got.indices[j], expected.indices[j]) << j << " of " << count;
    ASSERT_EQ(got.bits[j], expected.bits[j]) << j << " of " << count;
  }
}

TEST_F(SparseTest, ChoosesInOrderWhereWarpsHaveManyTilesWithFewElementsOrAll) {
  for (size_t n : {100'000, 262'144, 300'001}) {
    for (unsigned every : {1, 3, 100, 50'000}) {
      for (size_t shift : {0, 1}) {
        std::vector<float> memory = Elements(n + shift + 16, every, every);
        const size_t misplaced = reinterpret_cast<uintptr_t>(memory.data()) % 16 / sizeof(float);
        const float* const at = memory.data() + (4 - misplaced) % 4 + shift;
        Mirror mirror(&room_);
        Chosen got(n);
        const float* const p = mirror.At(at, n, Mirror::kIn);
        const Candidates to = got.To(&mirror);
        uint32_t* const count = got.Count(&mirror);
        mirror.Run(
            [&](Stream& stream, Verdict*) { return Sparse().select(stream, p, 1, to, n, count); });
        ASSERT_NO_FATAL_FAILURE(ExpectChosenOf(std::vector(at, at + n), 1, got))
            << n << " " << every << " " << shift;
      }
    }
  }
}

TEST_F(SparseTest, FindsTheFirstAndTheLastElementOfEveryTile) {
  const size_t n = 20'001;
  for (size_t period : {4, 32, 128, 1024}) {
    std::vector<float> p(n);
    for (size_t i = 0; i < n; ++i) {
      if (i % period == 0 || i % period == period - 1 || i + 1 == n) p[i] = -1;
    }
    Mirror mirror(&room_);
    Chosen got(n);
    const float* const at = mirror.At(p.data(), n, Mirror::kIn);
    const Candidates to = got.To(&mirror);
    uint32_t* const count = got.Count(&mirror);
    mirror.Run([&](Stream& stream, Verdict*) {
      return Sparse().select(stream, at, std::bit_cast<uint32_t>(1.0f), to, n, count);
    });
    ASSERT_NO_FATAL_FAILURE(ExpectChosenOf(p, 1, got)) << period;
  }
}

TEST_F(SparseTest, CallsThatFollowEachOtherInAStreamShareItsWorkSpace) {
  const std::vector<float> long_one = Elements(50'000, 7, 1), short_one = Elements(300, 2, 2);
  Mirror mirror(&room_);
  Chosen of_long(long_one.size()), of_short(short_one.size()), again(long_one.size());
  const float* const from = mirror.At(long_one.data(), long_one.size(), Mirror::kIn);
  const float* const after = mirror.At(short_one.data(), short_one.size(), Mirror::kIn);
  const Candidates first = of_long.To(&mirror), second = of_short.To(&mirror),
                   third = again.To(&mirror);
  uint32_t* const counts[] = {of_long.Count(&mirror), of_short.Count(&mirror),
                              again.Count(&mirror)};
  mirror.Run([&](Stream& stream, Verdict*) {
    absl::Status status = Sparse().select(stream, from, 1, first, long_one.size(), counts[0]);
    status.Update(Sparse().select(stream, after, 1, second, short_one.size(), counts[1]));
    status.Update(Sparse().keep(stream, first, long_one.size(), 1, third, counts[2]));
    return status;
  });
  ExpectChosenOf(long_one, 1, of_long);
  ExpectChosenOf(short_one, 1, of_short);
}

TEST_F(SparseTest, BitsAreChosenFromWhereverTheyLie) {
  const uint32_t low = std::bit_cast<uint32_t>(20.0f), high = std::bit_cast<uint32_t>(60.0f);
  const kernels::SparseCodec& reference = kernels::reference::Codecs().sparse;
  for (size_t n : {1, 33, 1000, 9001}) {
    for (size_t shift : {0, 1, 2, 3}) {
      std::vector<uint32_t> bits(n), names(n), inside(n + kCandidateSlack), counts(3);
      const std::vector<float> values = Elements(n, 2, 11);
      std::memcpy(bits.data(), values.data(), 4 * n);
      for (size_t j = 0; j < n; ++j) names[j] = static_cast<uint32_t>(3 * j + 1);
      Mirror mirror(&room_);
      // Behind `shift` others.
      std::vector<uint32_t> shifted(shift, 0x7f7fffff);
      shifted.insert(shifted.end(), bits.begin(), bits.end());
      const uint32_t* const at =
          reinterpret_cast<const uint32_t*>(mirror.Payload(
              reinterpret_cast<std::byte*>(shifted.data()), 4 * shifted.size(), Mirror::kIn)) +
          shift;
      const Candidates from = {mirror.At(names.data(), n, Mirror::kIn), const_cast<uint32_t*>(at)};
      Chosen kept(n);
      const Candidates to = kept.To(&mirror);
      uint32_t* const between = mirror.At(inside.data(), inside.size(), Mirror::kOut);
      uint32_t* const count = mirror.At(counts.data(), counts.size(), Mirror::kOut);
      mirror.Run([&](Stream& stream, Verdict*) {
        absl::Status status = Sparse().count(stream, at, n, low, count);
        status.Update(Sparse().between(stream, at, n, low, high, between, count + 1));
        status.Update(Sparse().keep(stream, from, n, low, to, count + 2));
        return status;
      });
      std::vector<uint32_t> expected(n + kCandidateSlack);
      ASSERT_EQ(counts[0], reference.count(bits.data(), n, low));
      ASSERT_EQ(counts[1], reference.between(bits.data(), n, low, high, expected.data()));
      ASSERT_TRUE(std::equal(inside.begin(), inside.begin() + counts[1], expected.begin()));
      ASSERT_EQ(counts[2], reference.keep({names.data(), bits.data()}, n, low));
      ASSERT_TRUE(std::equal(names.begin(), names.begin() + counts[2], kept.indices.begin()));
      ASSERT_TRUE(std::equal(bits.begin(), bits.begin() + counts[2], kept.bits.begin()));
    }
  }
}

TEST_F(SparseTest, CountsAreSetNotAddedTo) {
  for (size_t n : {0, 1, 5000}) {
    std::vector<float> p(n, 2.0f);
    std::vector<uint32_t> bits(n, std::bit_cast<uint32_t>(2.0f)), names(n, 7);
    std::vector<uint32_t> counts(5, 0xabcdef);
    Mirror mirror(&room_);
    std::vector<float> state(n);
    Chosen got(n);
    const float* const x = mirror.At(p.data(), n, Mirror::kIn);
    const Accumulators kept = {.feedback = kernels::Feedback::kResidual,
                               .state = mirror.At(state.data(), n, Mirror::kOut)};
    const Candidates from = {mirror.At(names.data(), n, Mirror::kIn),
                             mirror.At(bits.data(), n, Mirror::kIn)};
    const Candidates to = got.To(&mirror);
    uint32_t* const count = mirror.At(counts.data(), counts.size(), Mirror::kOut);
    mirror.Run([&](Stream& stream, Verdict*) {
      absl::Status status = Sparse().accumulate(stream, x, kept, 1, to, n, count);
      status.Update(Sparse().select(stream, x, 1, to, n, count + 1));
      status.Update(Sparse().count(stream, from.bits, n, 1, count + 2));
      status.Update(Sparse().between(stream, from.bits, n, 1, 1u << 31, to.bits, count + 3));
      status.Update(Sparse().keep(stream, from, n, 1, to, count + 4));
      return status;
    });
    EXPECT_EQ(counts, std::vector<uint32_t>(5, static_cast<uint32_t>(n)));
  }
}

// About a third of the elements that `out` has, and a value for each, as in a payload of kSparse.
std::vector<std::byte> Payload(uint32_t count, std::mt19937* random) {
  std::vector<std::byte> payload(4 + 8 * size_t{count});
  uint32_t index = 0;
  std::memcpy(payload.data(), &count, 4);
  for (uint32_t j = 0; j < count; ++j) {
    const float value = static_cast<float>((*random)() % 1000) / 8;
    std::memcpy(payload.data() + 4 + 4 * j, &index, 4);
    std::memcpy(payload.data() + 4 + 4 * (count + j), &value, 4);
    index += 1 + (*random)() % 5;
  }
  return payload;
}

TEST_F(SparseTest, AddsAPayloadsValuesToItsElementsAndToNoOther) {
  std::mt19937 random(5);
  for (uint32_t count : {0, 1, 2, 3, 255, 256, 257, 1023, 1025, 4096, 70'001}) {
    for (size_t shift : {0, 3}) {
      const std::vector<std::byte> payload = Payload(count, &random);
      std::vector<float> memory(5 * size_t{count} + 8), expected;
      for (float& element : memory) element = static_cast<float>(random() % 77);
      expected = memory;
      for (uint32_t j = 0; j < count; ++j) {
        uint32_t index;
        float value;
        std::memcpy(&index, payload.data() + 4 + 4 * j, 4);
        std::memcpy(&value, payload.data() + 4 + 4 * (count + j), 4);
        expected[shift + index] += value;
      }
      Mirror mirror(&room_);
      const std::byte* const from = mirror.Payload(payload.data(), payload.size(), Mirror::kIn);
      float* const out = mirror.At(memory.data(), memory.size(), Mirror::kOut) + shift;
      mirror.Run([&](Stream& stream, Verdict*) {
        return Sparse().add(stream, from + 4, from + 4 + 4 * size_t{count}, count, out);
      });
      ASSERT_EQ(memory, expected) << count;
    }
  }
}

TEST_F(SparseTest, IndicesOfAPayloadAreCheckedAtEveryPlaceOfAGrid) {
  std::mt19937 random(6);
  const uint32_t count = 70'001;
  std::vector<std::byte> payload = Payload(count, &random);
  const auto verdict = [&](size_t n) {
    Mirror mirror(&room_);
    const std::byte* const from = mirror.Payload(payload.data(), payload.size(), Mirror::kIn);
    return mirror.Run([&](Stream& stream, Verdict* verdict) {
      return Sparse().indices_ascend(stream, from + 4, count, n, verdict);
    });
  };
  uint32_t last;
  std::memcpy(&last, payload.data() + 4 * count, 4);
  EXPECT_EQ(verdict(last + 1), kGood);
  EXPECT_EQ(verdict(last), kBad);
  for (uint32_t j : {1u, 31u, 32u, 255u, 256u, 4095u, 4096u, 69'999u, count - 1}) {
    std::byte* const at = payload.data() + 4 + 4 * j;
    const std::vector<std::byte> good(at, at + 4);
    std::memcpy(at, at - 4, 4);
    EXPECT_EQ(verdict(last + 1), kBad) << j;
    std::copy(good.begin(), good.end(), at);
  }
}

TEST_F(SparseTest, StreamsHaveWorkSpacesOfTheirOwn) {
  const std::vector<float> many = Elements(60'000, 2, 3), few = Elements(60'000, 90, 4);
  const std::vector<float>* const sources[] = {&many, &few};
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<device::Memory> memory;
  std::vector<Chosen> got;
  const size_t n = many.size(), room = n + kCandidateSlack;
  for (const std::vector<float>* source : sources) {
    streams.push_back(device_->NewStream(false).value());
    const size_t bytes = 4 * (n + 2 * room + 1);
    memory.push_back(device_->Allocate(bytes, "a test").value());
    // All of it is looked at, more than is chosen.
    ASSERT_TRUE(streams.back()->Fill(memory.back().get(), 0, bytes).ok());
    ASSERT_TRUE(streams.back()->Copy(memory.back().get(), source->data(), 4 * n).ok());
  }
  const auto word_of = [&](size_t s, size_t at) {
    return reinterpret_cast<uint32_t*>(memory[s].get()) + at;
  };
  for (int round = 0; round < 5; ++round) {
    for (size_t s = 0; s < 2; ++s) {
      const Candidates to = {word_of(s, n), word_of(s, n + room)};
      ASSERT_TRUE(Sparse()
                      .select(*streams[s], reinterpret_cast<float*>(memory[s].get()), 1, to, n,
                              word_of(s, n + 2 * room))
                      .ok());
    }
  }
  for (size_t s = 0; s < 2; ++s) {
    Chosen chosen(n);
    ASSERT_TRUE(streams[s]->Copy(chosen.indices.data(), word_of(s, n), 4 * room).ok());
    ASSERT_TRUE(streams[s]->Copy(chosen.bits.data(), word_of(s, n + room), 4 * room).ok());
    ASSERT_TRUE(streams[s]->Copy(&chosen.count, word_of(s, n + 2 * room), 4).ok());
    ASSERT_TRUE(streams[s]->Synchronize().ok());
    ExpectChosenOf(*sources[s], 1, chosen);
  }
}

}  // namespace
}  // namespace strata::cuda
