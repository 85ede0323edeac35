// The frame decoder: whatever 128 bytes and payload come, it refuses them or understands all of
// them, so that encoding what it understood gives the same bytes.
//
// Input: a byte, a header, a payload. If the byte is odd, the sizes and checksums of the header are
// put right first, because no fuzzer finds those by chance.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/os/limits.h"
#include "common/wire/frame.h"
#include "common/wire/rows_payload.h"
#include "tests/fuzz/check.h"

namespace strata::wire {
namespace {

constexpr size_t kPayloadKindAt = 10, kPayloadBytesAt = 88, kPayloadChecksumAt = 112,
                 kHeaderChecksumAt = 120;

void Put(uint64_t value, size_t at, std::vector<std::byte>* header) {
  for (size_t i = 0; i < sizeof value; ++i) {
    (*header)[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

void FuzzHello(absl::Span<const std::byte> payload) {
  Hello hello;
  if (!DecodeHello(payload, &hello).ok()) return;
  const auto again = EncodeHello(hello);
  FUZZ_CHECK(payload.size() == again.size());
  FUZZ_CHECK(std::equal(again.begin(), again.end(), payload.begin()));
}

// A payload that decodes is encoded as the same bytes, or with ids that take fewer.
void FuzzRows(absl::Span<const std::byte> payload, uint64_t element_count) {
  constexpr uint32_t kColumns[] = {1, 3, 64};
  const Bytes bytes(nullptr, payload.data(), payload.size());
  const auto rows = DecodedRows::Decode(bytes, element_count, kColumns);
  if (!rows.ok()) {
    FUZZ_CHECK(rows.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!rows.status().message().empty());
    return;
  }
  FUZZ_CHECK(rows->wanted_values() * sizeof(float) <= kFramePayloadBytesMax);
  const Bytes again = EncodeRows(rows->pushed(), rows->wanted(), kColumns);
  FUZZ_CHECK(again.size() <= payload.size());
  FUZZ_CHECK(DecodedRows::Decode(again, element_count, kColumns).ok());
}

void Fuzz(bool mend, bool has_seal, std::vector<std::byte> header,
          absl::Span<const std::byte> payload) {
  if (mend && header.size() == kHeaderBytes) {
    Put(payload.size(), kPayloadBytesAt, &header);
    const bool is_sealed = has_seal && header[kPayloadKindAt] == std::byte{0};
    Put(is_sealed ? 0 : Checksum(payload), kPayloadChecksumAt, &header);
    Put(XXH3_64bits(header.data(), kHeaderChecksumAt), kHeaderChecksumAt, &header);
  }
  FuzzHello(payload);
  Header decoded;
  const absl::Status status =
      Decode(header, payload, {.payload_bytes_max = 4096}, &decoded, has_seal);
  if (!status.ok()) {
    FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!status.message().empty());
    FUZZ_CHECK(decoded == Header());
    return;
  }
  FUZZ_CHECK(payload.size() <= 4096);
  FuzzRows(payload, decoded.element_count);
  FUZZ_CHECK(!Describe(decoded).empty());
  const auto again = EncodeHeader(decoded, payload.size());
  FUZZ_CHECK(std::equal(again.begin(), again.end(), header.begin(), header.end()));
}

}  // namespace
}  // namespace strata::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data + 1);
  const size_t header = std::min(size - 1, strata::wire::kHeaderBytes);
  // A copy of the payload's own exact size: a read beyond it is a crash.
  const std::vector<std::byte> payload(bytes + header, bytes + size - 1);
  strata::wire::Fuzz((data[0] & 1) != 0, (data[0] & 2) != 0, {bytes, bytes + header}, payload);
  return 0;
}
