#include "worker/exchange/line.h"

#include <array>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace strata::worker {

wire::Header HeaderOf(const LineIdentity& identity, wire::Op op) {
  wire::Header header;
  header.op = op;
  header.job = identity.job;
  header.view = identity.view;
  header.generation = identity.generation;
  header.node = identity.node;
  header.incarnation = identity.incarnation;
  return header;
}

wire::Frame HelloOf(const LineIdentity& identity) {
  auto bytes =
      std::make_shared<std::array<std::byte, wire::kHelloBytes>>(wire::EncodeHello(identity.hello));
  wire::Frame frame{HeaderOf(identity, wire::Op::kHello),
                    Bytes(bytes, bytes->data(), bytes->size())};
  frame.header.payload_checksum = wire::Checksum(*bytes);
  return frame;
}

}  // namespace strata::worker
