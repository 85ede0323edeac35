#include "server/shard/chunk/chunk_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/wire/payload.h"
#include "numerics/checked_payload.h"

namespace strata::server {

uint32_t ChunkCopy::Add(const Bytes& vector) {
  if (vector.empty()) return 0;
  const auto same = [&](const Bytes& other) {
    return other.data() == vector.data() && other.size() == vector.size();
  };
  const auto found = std::find_if(vectors.begin(), vectors.end(), same);
  const auto number = static_cast<uint32_t>(found - vectors.begin()) + 1;
  if (found != vectors.end()) return number;
  vectors.push_back(vector);
  head.add_vector_bytes(vector.size());
  return number;
}

void ChunkCopy::Add(const std::vector<SumPart>& parts,
                    google::protobuf::RepeatedPtrField<proto::CopiedPart>* to) {
  for (const SumPart& part : parts) {
    proto::CopiedPart* const copied = to->Add();
    copied->set_begin(static_cast<uint32_t>(part.begin));
    copied->set_end(static_cast<uint32_t>(part.end));
    if (part.value.encoded) copied->set_codec(static_cast<uint32_t>(part.value.encoded->codec()));
    copied->set_value(Add(part.value.bytes));
    copied->set_unchecked(part.value.unchecked);
  }
}

uint64_t ChunkCopy::bytes() const {
  uint64_t bytes = 0;
  for (const Bytes& vector : vectors) bytes += vector.size();
  return bytes;
}

void ChunkCopyReader::Fail(std::string what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(what));
}

Bytes ChunkCopyReader::Vector(uint32_t number, const char* what) {
  if (number == 0) return Bytes();
  if (number <= copy_.vectors.size()) return copy_.vectors[number - 1];
  Fail(absl::StrFormat("%s is vector %d of %d", what, number, copy_.vectors.size()));
  return Bytes();
}

Bytes ChunkCopyReader::Floats(uint32_t number, const char* what) {
  const Bytes vector = Vector(number, what);
  if (vector.empty() || vector.size() == uint64_t{elements_} * sizeof(float)) return vector;
  Fail(absl::StrFormat("%s: %d bytes, the chunk has %d elements", what, vector.size(), elements_));
  return Bytes();
}

Bytes ChunkCopyReader::SomeFloats(uint32_t number, const char* what) {
  const Bytes vector = Floats(number, what);
  if (vector.empty()) Fail(absl::StrFormat("%s: there are none", what));
  return vector;
}

std::vector<SumPart> ChunkCopyReader::Parts(
    const google::protobuf::RepeatedPtrField<proto::CopiedPart>& parts) {
  std::vector<SumPart> read;
  for (const proto::CopiedPart& part : parts) {
    SumPart one = {part.begin(), part.end(), {}};
    if (part.codec() == static_cast<uint32_t>(wire::Codec::kNone)) {
      one.value = Addend(Floats(part.value(), "a sum"));
      one.value.unchecked = part.unchecked() && !one.value.empty();
    } else {
      const Bytes payload = Vector(part.value(), "a push");
      if (part.codec() >= static_cast<uint32_t>(wire::kCodecs)) {
        Fail(absl::StrFormat("codec %d is unknown", part.codec()));
        return {};
      }
      const absl::StatusOr<numerics::CheckedPayload> checked = numerics::CheckedPayload::Check(
          kernels_, static_cast<wire::Codec>(part.codec()), elements_,
          absl::MakeConstSpan(payload.data(), payload.size()));
      if (!checked.ok()) {
        Fail(checked.status());
        return {};
      }
      one.value = Addend(payload, *checked);
    }
    read.push_back(std::move(one));
  }
  return ok() ? read : std::vector<SumPart>();
}

}  // namespace strata::server
