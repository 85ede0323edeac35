#include "tests/e2e/testing/raw_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "absl/types/span.h"

namespace strata::tests {
namespace {

constexpr char kMore = 1, kLong = 2, kCommand = 4;
constexpr size_t kHeardBytesMax = 64 << 10;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// One byte of length, then the text.
std::string Short(const std::string& text) {
  return std::string(1, static_cast<char>(text.size())) + text;
}

std::string HttpFrame(char type, char flags, uint32_t stream, const std::string& content) {
  return BigEndian(content.size(), 3) + std::string{type, flags} + BigEndian(stream, 4) + content;
}

}  // namespace

RawPeer RawPeer::ToPort(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.Reset();
  }
  return RawPeer(std::move(fd));
}

RawPeer RawPeer::Joined(int port) {
  RawPeer peer = ToPort(port);
  const std::string opening = ZmtpOpening();
  peer.Send(opening);
  // The other side's opening has the same length. Bytes sent before it arrives count as part of the
  // handshake.
  timeval patience = {.tv_sec = 30, .tv_usec = 0};
  setsockopt(peer.fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string theirs(opening.size(), '\0');
  const ssize_t got = recv(peer.fd_.get(), theirs.data(), theirs.size(), MSG_WAITALL);
  if (got != static_cast<ssize_t>(theirs.size())) peer.fd_.Reset();
  return peer;
}

RawPeer RawPeer::ToSocket(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) fd.Reset();
  return RawPeer(std::move(fd));
}

bool RawPeer::Send(const std::string& bytes) {
  const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent >= 0 || errno == EAGAIN;
}

bool RawPeer::SendAll(const std::string& bytes) {
  const timeval patience = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t more = send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<size_t>(more);
  }
  return true;
}

bool RawPeer::IsClosed() {
  char block[4096];
  while (true) {
    const ssize_t got = recv(fd_.get(), block, sizeof block, MSG_DONTWAIT);
    if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EINTR);
    heard_.append(block, std::min(static_cast<size_t>(got), kHeardBytesMax - heard_.size()));
  }
}

bool RawPeer::HasHeard(wire::Op op) const {
  // The start of each header: magic number, version and op.
  return heard_.find(std::string("STRA") + static_cast<char>(wire::kWireVersion) +
                     static_cast<char>(op)) != std::string::npos;
}

std::string ZmtpOpening() {
  const std::string signature = "\xff" + std::string(8, '\0') + "\x7f";
  const std::string version = "\x03\x01", mechanism = "NULL" + std::string(16, '\0');
  const std::string as_server_and_filler(32, '\0');
  std::string ready = Short("READY") + Short("Socket-Type") + BigEndian(6, 4) + "DEALER";
  ready += Short("Identity") + BigEndian(0, 4);
  return signature + version + mechanism + as_server_and_filler + kCommand + Short(ready);
}

std::string ZmtpPartHead(uint64_t bytes, bool more) {
  const char flags = static_cast<char>((more ? kMore : 0) | (bytes > 255 ? kLong : 0));
  return std::string(1, flags) + BigEndian(bytes, bytes > 255 ? 8 : 1);
}

std::string ZmtpPart(const std::string& bytes, bool more) {
  return ZmtpPartHead(bytes.size(), more) + bytes;
}

std::string ZmtpFrame(wire::Header header, const std::string& payload) {
  header.payload_checksum = wire::Checksum(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(payload.data()), payload.size()));
  const auto encoded = wire::EncodeHeader(header, payload.size());
  const std::string first(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  if (payload.empty()) return ZmtpPart(first, false);
  return ZmtpPart(first, true) + ZmtpPart(payload, false);
}

std::string HttpPreface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HttpFrame(4, 0, 0, "");  // SETTINGS
}

std::string GrpcCall(const std::string& method) {
  const std::string fields[][2] = {{":method", "POST"},
                                   {":scheme", "http"},
                                   {":path", "/strata.proto.Coordinator/" + method},
                                   {":authority", "strata"},
                                   {"content-type", "application/grpc"},
                                   {"te", "trailers"}};
  std::string block;  // HPACK: literals without indexing
  for (const auto& field : fields) block += '\0' + Short(field[0]) + Short(field[1]);
  return HttpFrame(1, 4, 1, block);  // HEADERS, END_HEADERS
}

std::string GrpcMessage(const std::string& serialized) {
  return HttpFrame(0, 0, 1, '\0' + BigEndian(serialized.size(), 4) + serialized);  // DATA
}

std::string Noise(uint32_t seed, size_t bytes) {
  std::mt19937 random(seed);
  std::string noise;
  for (size_t i = 0; i < bytes; ++i) noise.push_back(static_cast<char>(random()));
  return noise;
}

}  // namespace strata::tests
