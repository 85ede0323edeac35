#include "common/link/link.h"

#include <array>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace strata {

std::string RefusalText(const wire::Frame& refusal) {
  if (refusal.payload.empty()) return wire::ToString(refusal.header.error);
  return {reinterpret_cast<const char*>(refusal.payload.data()), refusal.payload.size()};
}

void LinkActivity::Add(const LinkActivity& other) {
  unanswered += other.unanswered;
  if (other.oldest_age > oldest_age) {
    oldest_clock = other.oldest_clock;
    oldest_chunk = other.oldest_chunk;
    oldest_age = other.oldest_age;
  }
  connected = connected && other.connected;
  if (other.down_for <= down_for) return;
  down_for = other.down_for;
  error = other.error;
}

void SignHeader(const LinkIdentity& identity, wire::Header* header) {
  header->job = identity.job;
  header->view = identity.view;
  header->generation = identity.generation;
  header->node = identity.node;
  header->incarnation = identity.incarnation;
}

wire::Header MakeHeader(const LinkIdentity& identity, wire::Op op) {
  wire::Header header;
  header.op = op;
  SignHeader(identity, &header);
  return header;
}

wire::Frame MakeHello(const LinkIdentity& identity) {
  auto bytes =
      std::make_shared<std::array<std::byte, wire::kHelloBytes>>(wire::EncodeHello(identity.hello));
  wire::Frame frame{MakeHeader(identity, wire::Op::kHello),
                    Bytes(bytes, bytes->data(), bytes->size())};
  return frame;
}

wire::ErrorCode CheckPeerHello(const LinkIdentity& self, const wire::Frame& frame,
                               uint32_t* connection) {
  const wire::Header& header = frame.header;
  wire::Hello hello;
  const absl::Span<const std::byte> payload(frame.payload.data(), frame.payload.size());
  if (header.op != wire::Op::kHello || !wire::DecodeHello(payload, &hello).ok()) {
    return wire::ErrorCode::kNoHello;
  }
  *connection = hello.connection;
  if (hello.protocol != self.hello.protocol) return wire::ErrorCode::kWrongVersion;
  if (hello.role != self.hello.role) return wire::ErrorCode::kWrongRole;
  if (header.job != self.job || hello.cluster != self.hello.cluster ||
      hello.token != self.hello.token) {
    return wire::ErrorCode::kWrongJob;
  }
  if (header.view != self.view) return wire::ErrorCode::kWrongView;
  if (header.generation != self.generation) return wire::ErrorCode::kWrongGeneration;
  if (header.incarnation != self.incarnation) return wire::ErrorCode::kFenced;
  return wire::ErrorCode::kNone;
}

wire::Frame MakeRefusal(const LinkIdentity& self, wire::Op op, wire::ErrorCode error) {
  wire::Frame frame{MakeHeader(self, op), Bytes()};
  frame.header.error = error;
  return frame;
}

}  // namespace strata
