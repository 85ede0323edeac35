// ZeroMQ with nothing on top: rank 0 sends its gradient to rank 1, piece by piece over one DEALER
// to DEALER connection, no copy on the sending side, one copy out of the message on the receiving
// side, a window of pieces, large blocks kept by malloc. What ZeroMQ can do at best; no sum is
// made.
//
// usage: zmq_mover PEER_OPTIONS --address tcp://IP:PORT [--message-bytes N] [--window N]
#include <zmq.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bench/peers/message.h"
#include "bench/peers/peer.h"
#include "common/buffer_pool.h"

namespace strata::bench {
namespace {

struct Options {
  PeerOptions peer;
  std::string address;
  uint64_t message_bytes = uint64_t{1} << 20;
  uint32_t window = 2;
};

class Mover {
 public:
  Mover(void* socket, const Options& options) : socket_(socket), options_(options) {
    const uint64_t size = options.message_bytes;
    keys_ = static_cast<uint32_t>((options.peer.bytes + size - 1) / size);
  }

  void Send(absl::Span<float> gradient) {
    uint32_t sent = 0, received = 0;
    PeerBody none;
    while (received < keys_) {
      for (; sent < keys_ && sent < received + options_.window; ++sent) {
        const auto part = Part(gradient, sent);
        SendPeer(socket_, nullptr, {PeerOp::kPush, sent}, part.data(), part.size() * sizeof(float));
      }
      ReceivePeer(socket_, nullptr, &none);
      ++received;
    }
  }

  void Receive(absl::Span<float> sum) {
    for (uint32_t key = 0; key < keys_; ++key) {
      PeerBody body;
      const PeerHeader header = ReceivePeer(socket_, nullptr, &body);
      std::memcpy(Part(sum, header.key).data(), body.floats(), body.bytes());
      SendPeer(socket_, nullptr, {PeerOp::kCredit, header.key}, nullptr, 0);
    }
  }

 private:
  absl::Span<float> Part(absl::Span<float> all, uint32_t key) const {
    const size_t size = options_.message_bytes / sizeof(float);
    return all.subspan(key * size, size);
  }

  void* const socket_;
  const Options& options_;
  uint32_t keys_ = 0;
};

int Run(Options options) {
  TuneAllocator();
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const bool sends = options.peer.rank == 0;
  const char* address = options.address.c_str();
  Require((sends ? zmq_connect(socket, address) : zmq_bind(socket, address)) == 0, address);
  Mover mover(socket, options);
  // The sender's own values are what the receiver has to find: the sum over one rank.
  options.peer.rank = 0;
  options.peer.nodes = 1;
  const int status = RunPeer(sends ? "zmq-sender" : "zmq-receiver", options.peer, sends,
                             [&](absl::Span<float> gradient, absl::Span<float> sum) {
                               if (sends) {
                                 mover.Send(gradient);
                               } else {
                                 mover.Receive(sum);
                               }
                               return absl::OkStatus();
                             });
  zmq_close(socket);
  zmq_ctx_term(context);
  return status;
}

int Main(int argc, char** argv) {
  CLI::App app;
  Options options;
  AddPeerOptions(&app, &options.peer);
  app.add_option("--address", options.address)->required();
  app.add_option("--message-bytes", options.message_bytes);
  app.add_option("--window", options.window);
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
