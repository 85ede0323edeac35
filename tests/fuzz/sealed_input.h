#ifndef STRATA_TESTS_FUZZ_SEALED_INPUT_H_
#define STRATA_TESTS_FUZZ_SEALED_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/seal/job_keys.h"
#include "common/wire/frame.h"
#include "tests/fuzz/check.h"

// What sealed_endpoint_fuzz makes of its input.

namespace strata::transport {

inline constexpr JobId kJob(7);
inline constexpr char kAddress[] = "tcp://127.0.0.1:500";

// Bytes, one after the other; zeros at the end.
class Input {
 public:
  explicit Input(absl::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    const std::string byte = Text(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  std::string Text(size_t size) {
    const std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(text.size());
    return text;
  }

 private:
  absl::string_view bytes_;
};

// A secret that consists of this one byte.
inline seal::JobKeys Keys(char secret, seal::Protection protection = seal::Protection::kEncrypt) {
  seal::JobKeys keys;
  keys.protection = protection;
  keys.secret.fill(static_cast<std::byte>(secret));
  keys.own_address = kAddress;
  return keys;
}

// A copy. `writable`: where it may be changed.
inline Bytes BytesOf(const std::string& text, std::byte** writable = nullptr) {
  const auto bytes = std::make_shared<std::string>(text);
  auto* const data = reinterpret_cast<std::byte*>(bytes->data());
  if (writable != nullptr && !text.empty()) *writable = data;
  return Bytes(bytes, data, bytes->size());
}

inline absl::Span<const std::byte> SpanOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string TextOf(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

inline wire::Frame FrameOf(wire::Op op, JobId job, const std::string& text) {
  wire::Frame frame;
  frame.header.op = op;
  frame.header.job = job.value();
  frame.header.element_count = static_cast<uint32_t>(text.size() / sizeof(float));
  if (!text.empty()) frame.payload = BytesOf(text);
  return frame;
}

inline wire::Op AnyOp(uint8_t byte) { return static_cast<wire::Op>(1 + byte % 20); }

// One line, in which the secret is not.
inline void CheckError(const absl::Status& status) {
  FUZZ_CHECK(!status.ok() && !status.message().empty());
  for (const char c : status.message()) FUZZ_CHECK(c >= ' ' && c <= '~');
  FUZZ_CHECK(!absl::StrContains(status.message(), "ssssssss"));
}

}  // namespace strata::transport

#endif  // STRATA_TESTS_FUZZ_SEALED_INPUT_H_
