#ifndef STRATA_COMMON_TRANSPORT_ZMQ_RAW_PEERS_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_RAW_PEERS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace strata::transport {

// A DEALER that sends whatever the test says.
class RawDealer {
 public:
  explicit RawDealer(const std::string& address) {
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    EXPECT_EQ(zmq_connect(socket_, address.c_str()), 0);
  }
  ~RawDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }

  void Send(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int flags = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      ASSERT_EQ(zmq_send(socket_, parts[i].data(), parts[i].size(), flags),
                static_cast<int>(parts[i].size()));
    }
  }

 private:
  void* context_ = zmq_ctx_new();
  void* socket_;
};

// A TCP socket without ZeroMQ.
class RawTcp {
 public:
  RawTcp() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void Connect(int port) {
    const sockaddr_in address = Loopback(port);
    ASSERT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  // Accepts nothing, but lets the kernel do so. Returns the port.
  int Listen() {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 4), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  void Send(const std::string& bytes) {
    EXPECT_GE(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }

  void AwaitBytes(size_t count) {
    std::string bytes(count, '\0');
    EXPECT_EQ(recv(fd_.get(), bytes.data(), count, MSG_WAITALL), static_cast<ssize_t>(count));
  }
  // Sends what the kernel takes at once, from where the call before ended. False: the other side
  // has ended the connection.
  bool SendSome(const std::string& bytes) {
    const ssize_t sent =
        send(fd_.get(), bytes.data() + sent_, bytes.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) sent_ = (sent_ + sent) % bytes.size();
    return sent >= 0 || errno == EAGAIN;
  }

 private:
  UniqueFd fd_;
  size_t sent_ = 0;
};

// ZMTP 3.0 by hand (rfc.zeromq.org/spec/23): greeting and READY of a DEALER.
inline std::string ZmtpOpening() {
  return std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0') +
         std::string("\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER", 30);
}

// A part of 200 bytes, after which another one follows.
inline std::string ZmtpPart() { return "\x01\xc8" + std::string(200, 'x'); }

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_RAW_PEERS_H_
