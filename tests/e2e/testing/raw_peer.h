#ifndef STRATA_TESTS_E2E_TESTING_RAW_PEER_H_
#define STRATA_TESTS_E2E_TESTING_RAW_PEER_H_

#include <cstdint>
#include <string>

#include "common/unique_fd.h"
#include "common/wire/frame.h"

namespace strata::tests {

// A connection that says whatever a test wants, without any library between them.
class RawPeer {
 public:
  // 127.0.0.1:PORT.
  static RawPeer ToPort(int port);
  // Connects, and goes through with ZMTP's handshake, as a DEALER.
  static RawPeer Joined(int port);
  // An abstract Unix socket.
  static RawPeer ToSocket(const std::string& name);

  bool connected() const { return fd_.valid(); }
  // Hands over what the kernel takes at once; false where the connection is broken.
  bool Send(const std::string& bytes);
  // Hands over all of it, waiting for the other side to take it, at most 20 s each time. False: it
  // took less.
  bool SendAll(const std::string& bytes);
  // Takes what has come; whether the other side has closed the connection.
  bool IsClosed();
  // True if a frame of this op is in what was taken so far; of that, the first 64 KiB are kept.
  bool HasHeard(wire::Op op) const;

 private:
  explicit RawPeer(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::string heard_;
};

// ZMTP 3.1 (rfc.zeromq.org/spec/23), by hand. The greeting and READY command of a DEALER.
std::string ZmtpOpening();
// The head of a message part of so many bytes; the bytes may then follow, or not.
std::string ZmtpPartHead(uint64_t bytes, bool more);
std::string ZmtpPart(const std::string& bytes, bool more);
// A frame as a node sends it; the payload's checksum is put in.
std::string ZmtpFrame(wire::Header header, const std::string& payload);

// HTTP/2 and gRPC by hand: a connection's preface, and the beginning of a call of
// /strata.proto.Coordinator/METHOD on stream 1.
std::string HttpPreface();
std::string GrpcCall(const std::string& method);
// A message on that stream.
std::string GrpcMessage(const std::string& serialized);

// Returns the same bytes on every run.
std::string Noise(uint32_t seed, size_t bytes);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_RAW_PEER_H_
