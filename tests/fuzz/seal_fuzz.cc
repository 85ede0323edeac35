// Seals and handshakes: what is not as a sealer or a peer with the secret makes it is refused in
// one line, and never opens.
//
// Input: a byte that says what follows: 's' a frame's seal, 'p' and 'e' a seal and the signed or
// encrypted payload, 'h' a seal and a header, 'l' and 'c' what a listening or a connecting side is
// told, 'm' changes of a handshake as it goes: each a flight, a place (2 bytes) and a mask.
#include <openssl/err.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "tests/fuzz/check.h"

namespace strata::seal {
namespace {

using Input = absl::Span<const std::byte>;

constexpr char kIdentity[] = "job 1 attempt 1";

Input BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void CheckRefusal(const absl::Status& status) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
             status.code() == absl::StatusCode::kPermissionDenied);
  FUZZ_CHECK(!status.message().empty());
  for (const char c : status.message()) FUZZ_CHECK(c >= ' ' && c <= '~');
}

void FrameSeal(Input input) {
  PayloadSeal seal;
  Tag tag;
  const absl::Status status = DecodeSeal(input, &seal, &tag);
  if (!status.ok()) return CheckRefusal(status);
  const std::array<std::byte, kSealBytes> again = EncodeSeal(seal, tag);
  FUZZ_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()));
}

// Seals of any form, also such as DecodeSeal refuses.
PayloadSeal TakeSeal(Input* input, Tag* header_tag) {
  std::byte bytes[kSealBytes] = {};
  const size_t size = std::min(input->size(), kSealBytes);
  std::copy_n(input->begin(), size, bytes);
  input->remove_prefix(size);
  PayloadSeal seal;
  std::memcpy(&seal.number, bytes, 8);
  std::memcpy(seal.tag.data(), bytes + 8, kTagBytes);
  std::memcpy(header_tag->data(), bytes + 8 + kTagBytes, kTagBytes);
  return seal;
}

void Payload(Input input, Protection protection) {
  Tag header_tag;
  const PayloadSeal seal = TakeSeal(&input, &header_tag);
  PayloadOpener opener(Secret{}, Salt{}, protection);
  std::vector<std::byte> opened(input.size(), std::byte{1});
  CheckRefusal(opener.Open(input, seal, opened.data()));
  const std::byte left{protection == Protection::kSign};
  for (const std::byte byte : opened) FUZZ_CHECK(byte == left);
}

void Headers(Input input) {
  Tag tag;
  const PayloadSeal seal = TakeSeal(&input, &tag);
  HeaderOpener opener(Key{});
  CheckRefusal(opener.Check(input, seal, tag));
  const Tag right = HeaderSealer(Key{}).Next(input, seal);
  CheckRefusal(opener.Check(input, seal, right));
  HeaderOpener fresh(Key{});
  FUZZ_CHECK(fresh.Check(input, seal, right).ok());
}

std::unique_ptr<Handshake> NewHandshake(bool is_connecting) {
  if (is_connecting) return *Handshake::Connect(kIdentity, Secret{}, Salt{});
  const auto find = [](absl::string_view identity) {
    return identity == kIdentity ? std::optional<Secret>(Secret{}) : std::nullopt;
  };
  return *Handshake::Accept(find, Salt{});
}

// In two pieces: the first byte says where the cut is.
void OneSide(Input input, bool is_connecting) {
  if (input.empty()) return;
  const size_t cut = std::min<size_t>(static_cast<size_t>(input[0]), input.size() - 1);
  input.remove_prefix(1);
  const std::unique_ptr<Handshake> handshake = NewHandshake(is_connecting);
  std::string reply;
  FUZZ_CHECK(handshake->Take({}, &reply).ok());
  absl::Status status = handshake->Take(input.first(cut), &reply);
  if (status.ok()) status = handshake->Take(input.subspan(cut), &reply);
  FUZZ_CHECK(!handshake->is_done());
  if (status.ok()) return;
  CheckRefusal(status);
  FUZZ_CHECK(handshake->Take({}, &reply) == status);
}

// Nobody checks the version of the first record; see handshake_test.cc.
bool IsIgnored(size_t flight, size_t at) { return flight < 2 && at == 2; }

// True: bytes that matter were changed.
bool ChangeFlight(Input changes, size_t flight, std::string* said) {
  const std::string before = *said;
  for (; changes.size() >= 4; changes.remove_prefix(4)) {
    if (static_cast<size_t>(changes[0]) % 3 != flight) continue;
    const size_t place = static_cast<size_t>(changes[1]) | static_cast<size_t>(changes[2]) << 8;
    (*said)[place % said->size()] ^= static_cast<char>(changes[3]);
  }
  for (size_t at = 0; at < said->size(); ++at) {
    if ((*said)[at] != before[at] && !IsIgnored(flight, at)) return true;
  }
  return false;
}

void Changed(Input changes) {
  const std::unique_ptr<Handshake> connecting = NewHandshake(true);
  const std::unique_ptr<Handshake> listening = NewHandshake(false);
  std::string said;
  FUZZ_CHECK(connecting->Take({}, &said).ok());
  bool is_changed = false;
  for (size_t flight = 0; flight < 4 && !said.empty(); ++flight) {
    if (ChangeFlight(changes, flight, &said)) is_changed = true;
    std::string reply;
    const absl::Status status =
        (flight % 2 == 0 ? listening : connecting)->Take(BytesOf(said), &reply);
    if (!status.ok()) CheckRefusal(status);
    said = reply;
  }
  const bool are_done = connecting->is_done() && listening->is_done();
  FUZZ_CHECK(are_done == !is_changed);
  if (!are_done) return;
  FUZZ_CHECK(connecting->send_key() == listening->receive_key());
  FUZZ_CHECK(connecting->receive_key() == listening->send_key());
}

void Fuzz(char kind, Input rest) {
  if (kind == 's') FrameSeal(rest);
  if (kind == 'p') Payload(rest, Protection::kSign);
  if (kind == 'e') Payload(rest, Protection::kEncrypt);
  if (kind == 'h') Headers(rest);
  if (kind == 'l') OneSide(rest, false);
  if (kind == 'c') OneSide(rest, true);
  if (kind == 'm') Changed(rest);
  // Nothing is left for others to take for their own error.
  FUZZ_CHECK(ERR_peek_error() == 0);
}

}  // namespace
}  // namespace strata::seal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::seal::Fuzz(static_cast<char>(data[0]),
                     {reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
