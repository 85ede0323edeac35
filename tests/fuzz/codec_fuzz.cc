// Payloads of every codec: whatever comes is refused, or decodes to finite values within the
// vector; and what an encoder writes is never refused.
//
// Input: a byte, the number of elements (2 bytes), then: if the byte's highest bit is 0, a payload
// of the codec that the byte names; else fp32 vectors of that many elements, to be encoded one
// after the other with the compression and feedback that the byte names.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/wire/payload.h"
#include "numerics/checked_payload.h"
#include "numerics/encoder.h"
#include "tests/fuzz/check.h"

namespace strata::kernels {
namespace {

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

void FuzzDecoder(wire::Codec codec, size_t elements, absl::Span<const std::byte> payload) {
  const auto checked = numerics::CheckedPayload::Check(Cpu(), codec, elements, payload);
  if (!checked.ok()) {
    FUZZ_CHECK(checked.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!checked.status().message().empty());
    return;
  }
  FUZZ_CHECK(wire::CheckEncodedBytes(codec, elements, payload.size()).ok());
  // Vectors of their own exact size: an access beyond them is a crash.
  std::vector<float> decoded(elements, NAN), base(elements, 1.5f), sum(elements, NAN);
  checked->WriteTo(decoded.data());
  FUZZ_CHECK(AllFinite(decoded));
  checked->AddTo(base.data(), sum.data());
  checked->AddTo(base.data(), base.data());
  for (size_t i = 0; i < elements; ++i) {
    FUZZ_CHECK(sum[i] == 1.5f + decoded[i]);
    FUZZ_CHECK(base[i] == sum[i]);
  }
}

void FuzzEncoder(numerics::Compression compression, Feedback feedback, size_t elements,
                 absl::Span<const std::byte> vectors) {
  const auto encoder = numerics::Encoder::Create(
      {.compression = compression, .feedback = feedback, .density = 0.1}, elements, Cpu());
  if (!encoder.ok()) return;
  numerics::EncoderScratch scratch;
  std::vector<float> x(elements);
  std::vector<std::byte> payload((*encoder)->encoded_bytes_max());
  for (; vectors.size() >= elements * sizeof(float); vectors.remove_prefix(x.size() * 4)) {
    std::memcpy(x.data(), vectors.data(), x.size() * sizeof(float));
    const auto bytes = (*encoder)->Encode(x, &scratch, absl::MakeSpan(payload));
    if (!bytes.ok()) return;
    FUZZ_CHECK(AllFinite(x));
    const auto sent = absl::MakeConstSpan(payload).subspan(0, *bytes);
    const auto checked =
        numerics::CheckedPayload::Check(Cpu(), (*encoder)->codec(), elements, sent);
    FUZZ_CHECK(checked.ok());
    checked->WriteTo(x.data());
    FUZZ_CHECK(AllFinite(x));
  }
}

}  // namespace
}  // namespace strata::kernels

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace kernels = strata::kernels;
  if (size < 3) return 0;
  const size_t elements = data[1] | data[2] << 8;
  const auto* rest = reinterpret_cast<const std::byte*>(data + 3);
  // A copy of the payload's own exact size: a read beyond it is a crash.
  const std::vector<std::byte> bytes(rest, rest + size - 3);
  if ((data[0] & 0x80) == 0) {
    kernels::FuzzDecoder(static_cast<strata::wire::Codec>(data[0] % 8), elements, bytes);
  } else if (elements > 0) {
    const int choice = data[0] % 0x80;
    kernels::FuzzEncoder(static_cast<strata::numerics::Compression>(choice % 7),
                         static_cast<kernels::Feedback>((choice / 7 + 1) % 3), elements, bytes);
  }
  return 0;
}
