#include "kernels/device/host_kernels.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/wire/payload.h"
#include "gtest/gtest.h"
#include "kernels/device/device_kernels.h"

namespace strata::device {

namespace {

using kernels::Accumulators;
using kernels::Candidates;
using kernels::Feedback;
using kernels::kCandidateSlack;
using wire::Codec;
using wire::EncodedBytesMax;

constexpr size_t kRoomBytes = size_t{24} << 20;

struct Tested {
  std::shared_ptr<Device> device;
  Mirror::Room room;
};
Tested& Current() {
  static Tested tested;
  return tested;
}
const DeviceKernels& Table() { return Current().device->kernels(); }
Mirror NewMirror() { return Mirror(&Current().room); }

bool Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  Mirror mirror = NewMirror();
  std::vector<const float*> at;
  for (const float* input : inputs) at.push_back(mirror.At(input, n, Mirror::kIn));
  float* const to = mirror.At(out, n, Mirror::kOut);
  return mirror.Run([&](Stream& stream, Verdict* verdict) {
    return Table().sum(stream, at, to, n, verdict);
  }) == kGood;
}

void Optimize(const OptimizerParams& params, const kernels::OptimizerStep& step,
              const float* gradient_sum, const float* w_in, float* w_out, float* state0,
              float* state1, size_t n) {
  Mirror mirror = NewMirror();
  const float* const gradient = mirror.At(gradient_sum, n, Mirror::kIn);
  const float* const from = mirror.At(w_in, n, Mirror::kIn);
  float* const to = mirror.At(w_out, n, Mirror::kOut);
  float* const first = mirror.At(state0, n, Mirror::kOut);
  float* const second = mirror.At(state1, n, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().optimize(stream, params, step, gradient, from, to, first, second, n);
  });
}

void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  Mirror mirror = NewMirror();
  const float* const gradient = mirror.At(gradient_sum, n, Mirror::kIn);
  const float* const now = mirror.At(w, n, Mirror::kIn);
  const float* const base = mirror.At(w_base, n, Mirror::kIn);
  float* const square = mirror.At(mean_square, n, Mirror::kOut);
  float* const to = mirror.At(out, n, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().compensate(stream, how, scale, gradient, now, base, square, to, n);
  });
}

bool AllFinite(const float* x, size_t n) {
  Mirror mirror = NewMirror();
  const float* const at = mirror.At(x, n, Mirror::kIn);
  return mirror.Run([&](Stream& stream, Verdict* verdict) {
    return Table().check_finite(stream, at, n, verdict);
  }) == kGood;
}

template <DeviceDenseCodec DeviceKernels::*kCodec, Codec kName>
bool Encode(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload) {
  Mirror mirror = NewMirror();
  const float* const from = mirror.At(x, n, Mirror::kIn);
  float* const kept = mirror.At(feedback == Feedback::kNone ? nullptr : state, n, Mirror::kOut);
  std::byte* const to = mirror.Payload(payload, EncodedBytesMax(kName, n), Mirror::kOut);
  return mirror.Run([&](Stream& stream, Verdict* verdict) {
    return (Table().*kCodec).encode(stream, from, feedback, kept, n, to, verdict);
  }) == kGood;
}

template <DeviceDenseCodec DeviceKernels::*kCodec, Codec kName>
size_t CheckPayload(const std::byte* payload, size_t n) {
  Mirror mirror = NewMirror();
  const std::byte* const from = mirror.Payload(payload, EncodedBytesMax(kName, n), Mirror::kIn);
  const Verdict verdict = mirror.Run([&](Stream& stream, Verdict* verdict) {
    return (Table().*kCodec).check(stream, from, n, verdict);
  });
  return verdict == kGood ? wire::CodecBlocks(n) : verdict;
}

template <DeviceDenseCodec DeviceKernels::*kCodec, Codec kName>
void Decode(const std::byte* payload, const float* base, float* out, size_t n) {
  Mirror mirror = NewMirror();
  const std::byte* const from = mirror.Payload(payload, EncodedBytesMax(kName, n), Mirror::kIn);
  const float* const onto = mirror.At(base, n, Mirror::kIn);
  float* const to = mirror.At(out, n, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return (Table().*kCodec).decode(stream, from, onto, to, n);
  });
}

template <DeviceDenseCodec DeviceKernels::*kCodec, Codec kName>
constexpr kernels::DenseCodec DenseOf() {
  return {Encode<kCodec, kName>, CheckPayload<kCodec, kName>, Decode<kCodec, kName>};
}

// The state is written, or with kFollow read alone.
Accumulators OnDevice(const Accumulators& host, size_t n, Mirror::Way way, Mirror* mirror) {
  const bool follows = host.feedback == Feedback::kFollow;
  return {.feedback = host.feedback,
          .state = mirror->At(host.state, n, follows ? Mirror::kIn : way),
          .momentum = mirror->At(host.momentum, n, way),
          .factor = host.factor};
}
Candidates OnDevice(const Candidates& host, size_t n, Mirror::Way way, Mirror* mirror) {
  const size_t room = n + kCandidateSlack;
  return {mirror->At(host.indices, room, way), mirror->At(host.bits, room, way)};
}

size_t Accumulate(const float* x, const Accumulators& accumulators, uint32_t threshold,
                  const Candidates& to, size_t n) {
  Mirror mirror = NewMirror();
  uint32_t count = 0;
  const float* const from = mirror.At(x, n, Mirror::kIn);
  const Accumulators kept = OnDevice(accumulators, n, Mirror::kOut, &mirror);
  const Candidates chosen = OnDevice(to, n, Mirror::kOut, &mirror);
  uint32_t* const counted = mirror.At(&count, 1, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().sparse.accumulate(stream, from, kept, threshold, chosen, n, counted);
  });
  return count;
}

size_t Select(const float* p, uint32_t threshold, const Candidates& to, size_t n) {
  Mirror mirror = NewMirror();
  uint32_t count = 0;
  const float* const from = mirror.At(p, n, Mirror::kIn);
  const Candidates chosen = OnDevice(to, n, Mirror::kOut, &mirror);
  uint32_t* const counted = mirror.At(&count, 1, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().sparse.select(stream, from, threshold, chosen, n, counted);
  });
  return count;
}

size_t Sample(const float* x, const Accumulators& accumulators, uint32_t* bits, size_t n) {
  Mirror mirror = NewMirror();
  const float* const from = mirror.At(x, n, Mirror::kIn);
  const Accumulators read = OnDevice(accumulators, n, Mirror::kIn, &mirror);
  uint32_t* const to = mirror.At(bits, kernels::SampleCount(n), Mirror::kOut);
  mirror.Run(
      [&](Stream& stream, Verdict*) { return Table().sparse.sample(stream, from, read, to, n); });
  return kernels::SampleCount(n);
}

size_t Count(const uint32_t* bits, size_t n, uint32_t threshold) {
  Mirror mirror = NewMirror();
  uint32_t count = 0;
  const uint32_t* const from = mirror.At(bits, n, Mirror::kIn);
  uint32_t* const counted = mirror.At(&count, 1, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().sparse.count(stream, from, n, threshold, counted);
  });
  return count;
}

size_t Between(const uint32_t* bits, size_t n, uint32_t low, uint32_t high, uint32_t* to) {
  Mirror mirror = NewMirror();
  uint32_t count = 0;
  std::vector<uint32_t> chosen(n + kCandidateSlack);
  const uint32_t* const from = mirror.At(bits, n, Mirror::kIn);
  uint32_t* const room = mirror.At(chosen.data(), chosen.size(), Mirror::kOut);
  uint32_t* const counted = mirror.At(&count, 1, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().sparse.between(stream, from, n, low, high, room, counted);
  });
  std::copy_n(chosen.begin(), count, to);
  return count;
}

size_t Keep(const Candidates& candidates, size_t n, uint32_t threshold) {
  Mirror mirror = NewMirror();
  uint32_t count = 0;
  std::vector<uint32_t> indices(n + kCandidateSlack), bits(n + kCandidateSlack);
  const Candidates from = {mirror.At(candidates.indices, n, Mirror::kIn),
                           mirror.At(candidates.bits, n, Mirror::kIn)};
  const Candidates kept = OnDevice({indices.data(), bits.data()}, n, Mirror::kOut, &mirror);
  uint32_t* const counted = mirror.At(&count, 1, Mirror::kOut);
  mirror.Run([&](Stream& stream, Verdict*) {
    return Table().sparse.keep(stream, from, n, threshold, kept, counted);
  });
  std::copy_n(indices.begin(), count, candidates.indices);
  std::copy_n(bits.begin(), count, candidates.bits);
  return count;
}

bool IndicesAscend(const std::byte* indices, size_t count, size_t n) {
  Mirror mirror = NewMirror();
  const std::byte* const from = mirror.Payload(indices, 4 * count, Mirror::kIn);
  return mirror.Run([&](Stream& stream, Verdict* verdict) {
    return Table().sparse.indices_ascend(stream, from, count, n, verdict);
  }) == kGood;
}

}  // namespace

const kernels::Kernels& AsHostKernels(std::shared_ptr<Device> device) {
  Tested& tested = Current();
  if (tested.device != device) {
    tested = {};
    absl::StatusOr<Mirror::Room> room = Mirror::NewRoom(device.get(), kRoomBytes);
    EXPECT_TRUE(room.ok()) << room.status();
    tested = {std::move(device), *std::move(room)};
  }
  static const kernels::Kernels kTable = {
      .name = "device",
      .sum = Sum,
      .sum_far = Sum,
      .optimize = Optimize,
      .compensate = Compensate,
      .all_finite = AllFinite,
      .codec = {.float16 = DenseOf<&DeviceKernels::float16, Codec::kFloat16>(),
                .bfloat16 = DenseOf<&DeviceKernels::bfloat16, Codec::kBFloat16>(),
                .int8 = DenseOf<&DeviceKernels::int8, Codec::kInt8>(),
                .one_bit = DenseOf<&DeviceKernels::one_bit, Codec::kOneBit>(),
                .sparse = {Accumulate, Select, Sample, Count, Between, Keep, IndicesAscend}}};
  return kTable;
}

absl::StatusOr<Mirror::Room> Mirror::NewRoom(Device* device, size_t bytes) {
  absl::StatusOr<std::unique_ptr<Stream>> stream = device->NewStream(false);
  if (!stream.ok()) return stream.status();
  absl::StatusOr<Memory> memory = device->Allocate(bytes, "a test's buffers");
  if (!memory.ok()) return memory.status();
  return Room{*std::move(stream), *std::move(memory), std::vector(bytes, kSentinel)};
}

std::byte* Mirror::Place(void* host, size_t bytes, Way way, size_t shift) {
  if (host == nullptr) return nullptr;
  auto* const from = static_cast<std::byte*>(host);
  for (Image& image : images_) {
    if (image.host != from || image.bytes != bytes) continue;
    image.way = std::max(image.way, way);
    return room_.memory.get() + image.offset;
  }
  const size_t offset = used_ + shift;
  used_ = (offset + bytes + 2 * kMargin - 1) / kMargin * kMargin;
  EXPECT_LE(used_, room_.image.size()) << "the buffers of one call have no room on the device";
  if (used_ > room_.image.size()) return nullptr;
  if (bytes > 0) std::memcpy(room_.image.data() + offset, from, bytes);
  images_.push_back({from, offset, bytes, way});
  return room_.memory.get() + offset;
}

Verdict Mirror::Run(const std::function<absl::Status(Stream&, Verdict*)>& call) {
  Verdict verdict = kGood;
  Verdict* const on_device = At(&verdict, 1, kOut);
  absl::Status status = room_.stream->Copy(room_.memory.get(), room_.image.data(), used_);
  if (status.ok()) status = call(*room_.stream, on_device);
  std::vector<std::byte> after(used_);
  if (status.ok()) status = room_.stream->Copy(after.data(), room_.memory.get(), used_);
  if (status.ok()) status = room_.stream->Synchronize();
  EXPECT_EQ(status, absl::OkStatus());
  if (!status.ok()) return kBad;
  std::copy(after.begin(), after.end(), room_.image.begin());
  TakeBack();
  return verdict;
}

void Mirror::TakeBack() {
  for (const Image& image : images_) {
    std::byte* const at = room_.image.data() + image.offset;
    if (image.way == kOut) {
      if (image.bytes > 0) std::memcpy(image.host, at, image.bytes);
    } else {
      EXPECT_TRUE(std::equal(at, at + image.bytes, image.host)) << "an input was written to";
    }
    std::fill(at, at + image.bytes, kSentinel);
  }
  // The first is one, and each is as the one after it.
  const std::byte* const first = room_.image.data();
  EXPECT_TRUE(*first == kSentinel && std::memcmp(first, first + 1, used_ - 1) == 0)
      << "written outside of all buffers";
}

}  // namespace strata::device
