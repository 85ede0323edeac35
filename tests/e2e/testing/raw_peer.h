#ifndef STRATA_TESTS_E2E_TESTING_RAW_PEER_H_
#define STRATA_TESTS_E2E_TESTING_RAW_PEER_H_

#include <cstdint>
#include <string>

#include "common/unique_fd.h"
#include "common/wire/frame.h"

namespace strata::tests {

// A connection that sends raw bytes, without a library in between.
class RawPeer {
 public:
  // 127.0.0.1:PORT.
  static RawPeer ToPort(int port);
  // Connects as a DEALER and completes ZMTP's handshake.
  static RawPeer Joined(int port);
  // Connects to an abstract Unix socket.
  static RawPeer ToSocket(const std::string& name);

  bool connected() const { return fd_.valid(); }
  // Writes as much as the kernel accepts at once; false if the connection is broken.
  bool Send(const std::string& bytes);
  // Sends everything, waiting at most 20 s at a time for the other side. False if it accepted less.
  bool SendAll(const std::string& bytes);
  // Reads what has arrived; returns true if the other side has closed the connection.
  bool IsClosed();
  // Returns true if a frame of this op is in the first 64 KiB read so far.
  bool HasHeard(wire::Op op) const;

 private:
  explicit RawPeer(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  std::string heard_;
};

// ZMTP 3.1 (rfc.zeromq.org/spec/23), by hand: the greeting and READY command of a DEALER.
std::string ZmtpOpening();
// Returns the head of a message part of this many bytes; the caller may send the bytes after it, or
// not.
std::string ZmtpPartHead(uint64_t bytes, bool more);
std::string ZmtpPart(const std::string& bytes, bool more);
// Returns a frame as a node sends it; fills in the payload's checksum.
std::string ZmtpFrame(wire::Header header, const std::string& payload);

// HTTP/2 and gRPC, by hand: a connection's preface and the beginning of a call of
// /strata.proto.Coordinator/METHOD on stream 1.
std::string HttpPreface();
std::string GrpcCall(const std::string& method);
// A message on that stream.
std::string GrpcMessage(const std::string& serialized);

// Returns the same bytes on every run.
std::string Noise(uint32_t seed, size_t bytes);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_RAW_PEER_H_
