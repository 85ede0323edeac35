#include "bench/peers/message.h"

#include <zmq.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace strata::bench {
namespace {

static_assert(sizeof(zmq_msg_t) == 64);

zmq_msg_t* Raw(void* message) { return static_cast<zmq_msg_t*>(message); }

}  // namespace

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "peer: error: %s: %s\n", what, zmq_strerror(errno));
  std::exit(1);
}

PeerBody::PeerBody() { zmq_msg_init(Raw(message_)); }

PeerBody::~PeerBody() { zmq_msg_close(Raw(message_)); }

PeerBody::PeerBody(PeerBody&& other) noexcept : PeerBody() {
  zmq_msg_move(Raw(message_), Raw(other.message_));
}

PeerBody& PeerBody::operator=(PeerBody&& other) noexcept {
  zmq_msg_move(Raw(message_), Raw(other.message_));
  return *this;
}

float* PeerBody::floats() const { return static_cast<float*>(zmq_msg_data(Raw(message_))); }

size_t PeerBody::bytes() const { return zmq_msg_size(Raw(message_)); }

void SendPeer(void* socket, const uint32_t* to, const PeerHeader& header, const void* body,
              size_t bytes) {
  if (to != nullptr) Require(zmq_send(socket, to, sizeof(*to), ZMQ_SNDMORE) >= 0, "send");
  Require(zmq_send(socket, &header, sizeof(header), bytes > 0 ? ZMQ_SNDMORE : 0) >= 0, "send");
  if (bytes == 0) return;
  zmq_msg_t message;
  // Nothing to free: the memory is the caller's.
  auto keep = [](void*, void*) {};
  Require(zmq_msg_init_data(&message, const_cast<void*>(body), bytes, keep, nullptr) == 0,
          "message");
  Require(zmq_msg_send(&message, socket, 0) >= 0, "send");
}

PeerHeader ReceivePeer(void* socket, uint32_t* from, PeerBody* body) {
  if (from != nullptr) {
    Require(zmq_recv(socket, from, sizeof(*from), 0) == sizeof(*from), "routing id");
  }
  PeerHeader header;
  Require(zmq_recv(socket, &header, sizeof(header), 0) == sizeof(header), "header");
  int more = 0;
  size_t size = sizeof(more);
  zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
  if (more != 0) Require(zmq_msg_recv(Raw(body->message()), socket, 0) >= 0, "body");
  return header;
}

}  // namespace strata::bench
