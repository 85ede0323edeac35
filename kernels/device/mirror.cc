#include "kernels/device/mirror.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace strata::device {

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
