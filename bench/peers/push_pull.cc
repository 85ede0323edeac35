// A parameter server in the manner of ps-lite: workers push all of their gradient, the servers sum,
// workers pull the sums. What ps-lite does to be fast is done here: bodies are sent from where they
// lie and used where they were received, keys are spread over the servers, all of a worker's
// messages are under way at once. A server sums into the first push of a key that it receives, and
// answers from there. Memory is malloc's, as ps-lite has it. With --pipelined each key is pulled
// right behind its push, so that both ways of the links work at once. With the keys that
// --role keys prints, CURVE encrypts every connection.
//
// usage: push_pull PEER_OPTIONS --role server --listen tcp://IP:PORT [--curve-secret KEY]
//        push_pull PEER_OPTIONS --role worker --servers tcp://...,tcp://... [--pipelined]
//                  [--curve-public KEY]
//        push_pull PEER_OPTIONS --role keys     prints "PUBLIC SECRET"
#include <zmq.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "bench/peers/message.h"
#include "bench/peers/peer.h"

namespace strata::bench {
namespace {

// CURVE, ZeroMQ's own encryption (RFC 26): a handshake on Curve25519, then each message in an
// authenticated box under a key of its connection. What is wrong ends the process, as in
// message.h.

// In hexadecimal digits, good for one run: what they protect is known values, so that they may
// stand on a command line.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

constexpr int kSkipped = 77;
constexpr size_t kKeySize = 32;
constexpr size_t kZ85Size = 41;  // of a key, with its 0

// Z85 has letters that a command line takes for an option's beginning.
std::string HexOf(const char* z85) {
  unsigned char key[kKeySize];
  Require(zmq_z85_decode(key, z85) != nullptr, "CURVE key");
  return absl::BytesToHexString({reinterpret_cast<const char*>(key), sizeof(key)});
}

void SetKey(void* socket, int option, const std::string& hex) {
  const std::string key = absl::HexStringToBytes(hex);
  Require(zmq_setsockopt(socket, option, key.data(), key.size()) == 0, "CURVE key");
}

// A socket that was given keys could have kept another mechanism: then it would send plain text.
void RequireCurve(void* socket) {
  int mechanism = ZMQ_NULL;
  size_t size = sizeof(mechanism);
  Require(zmq_getsockopt(socket, ZMQ_MECHANISM, &mechanism, &size) == 0, "mechanism");
  Require(mechanism == ZMQ_CURVE, "the socket does not use CURVE");
}

// Ends the process with status 77 where ZeroMQ was built without CURVE.
CurveKeys MakeCurveKeys() {
  if (zmq_has("curve") == 0) {
    std::fprintf(stderr, "this ZeroMQ was built without CURVE\n");
    std::exit(kSkipped);
  }
  char public_key[kZ85Size], secret_key[kZ85Size];
  Require(zmq_curve_keypair(public_key, secret_key) == 0, "CURVE key pair");
  return {HexOf(public_key), HexOf(secret_key)};
}

// Before a socket is bound: lets only those in who know the public key of `secret_key`.
void ServeCurve(void* socket, const std::string& secret_key) {
  const int is_server = 1;
  Require(zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &is_server, sizeof(is_server)) == 0, "CURVE");
  SetKey(socket, ZMQ_CURVE_SECRETKEY, secret_key);
  RequireCurve(socket);
}

// Before a socket is connected: only to who has the secret of `server_key`. Makes keys of its own.
void UseCurve(void* socket, const std::string& server_key) {
  const CurveKeys own = MakeCurveKeys();
  SetKey(socket, ZMQ_CURVE_SERVERKEY, server_key);
  SetKey(socket, ZMQ_CURVE_PUBLICKEY, own.public_key);
  SetKey(socket, ZMQ_CURVE_SECRETKEY, own.secret_key);
  RequireCurve(socket);
}

struct Options {
  PeerOptions peer;
  std::string role;
  std::string listen;
  std::vector<std::string> servers;
  uint64_t message_bytes = uint64_t{1} << 20;
  bool pipelined = false;
  std::string curve_secret;  // of all servers; empty: nothing is encrypted
  std::string curve_public;  // the same pair's, at a worker
};

uint32_t Keys(const Options& options) {
  const uint64_t keys = (options.peer.bytes + options.message_bytes - 1) / options.message_bytes;
  return static_cast<uint32_t>(keys);
}

// A key's sum of one step. The one before it is kept: another worker may still be pulling it.
struct Sum {
  PeerBody body;
  uint32_t pushes = 0;
  std::vector<uint32_t> pulls;  // that wait for it, by worker
};

class Server {
 public:
  Server(void* socket, const Options& options)
      : socket_(socket), options_(options), sums_(Keys(options)) {}

  // Until all workers have said goodbye.
  void Run() {
    uint32_t gone = 0;
    while (gone < options_.peer.nodes) {
      uint32_t from = 0;
      PeerBody body;
      const PeerHeader header = ReceivePeer(socket_, &from, &body);
      if (header.op == PeerOp::kPush) {
        OnPush(from, header, &body);
      } else if (header.op == PeerOp::kPull) {
        OnPull(from, header);
      } else if (header.op == PeerOp::kBye) {
        ++gone;
      }
    }
  }

 private:
  void OnPush(uint32_t from, const PeerHeader& header, PeerBody* body) {
    Sum& sum = sums_[header.key][header.step % 2];
    if (sum.pushes == options_.peer.nodes) sum.pushes = 0;  // of the step before the last
    if (sum.pushes == 0) {
      sum.body = std::move(*body);
    } else {
      AddTo(sum.body.floats(), body->floats(), body->bytes() / sizeof(float));
    }
    ++sum.pushes;
    SendPeer(socket_, &from, {PeerOp::kPushDone, header.key, header.step}, nullptr, 0);
    if (sum.pushes < options_.peer.nodes) return;
    for (uint32_t worker : sum.pulls) Answer(worker, header, sum);
    sum.pulls.clear();
  }

  void OnPull(uint32_t from, const PeerHeader& header) {
    Sum& sum = sums_[header.key][header.step % 2];
    if (sum.pushes == options_.peer.nodes) return Answer(from, header, sum);
    sum.pulls.push_back(from);
  }

  void Answer(uint32_t to, const PeerHeader& asked, const Sum& sum) {
    SendPeer(socket_, &to, {PeerOp::kPulled, asked.key, asked.step}, sum.body.floats(),
             sum.body.bytes());
  }

  void* const socket_;
  const Options& options_;
  std::vector<std::array<Sum, 2>> sums_;  // by key
};

class Worker {
 public:
  Worker(std::vector<void*> sockets, const Options& options)
      : sockets_(std::move(sockets)), options_(options) {
    for (void* socket : sockets_) polled_.push_back({socket, 0, ZMQ_POLLIN, 0});
  }

  absl::Status Step(absl::Span<float> gradient, absl::Span<float> sum) {
    for (uint32_t key = 0; key < Keys(options_); ++key) {
      const auto part = Part(gradient, key);
      SendPeer(SocketOf(key), nullptr, {PeerOp::kPush, key, step_}, part.data(), BytesOf(part));
      if (options_.pipelined) SendPeer(SocketOf(key), nullptr, {PeerOp::kPull, key, step_}, {}, 0);
    }
    if (options_.pipelined) {
      Await(2 * Keys(options_), sum);
    } else {
      Await(Keys(options_), sum);
      for (uint32_t key = 0; key < Keys(options_); ++key) {
        SendPeer(SocketOf(key), nullptr, {PeerOp::kPull, key, step_}, nullptr, 0);
      }
      Await(Keys(options_), sum);
    }
    ++step_;
    return absl::OkStatus();
  }

  void End() {
    for (void* socket : sockets_) SendPeer(socket, nullptr, {PeerOp::kBye}, nullptr, 0);
  }

 private:
  static size_t BytesOf(absl::Span<float> part) { return part.size() * sizeof(float); }

  absl::Span<float> Part(absl::Span<float> all, uint32_t key) const {
    const size_t size = options_.message_bytes / sizeof(float);
    return all.subspan(key * size, size);
  }

  void* SocketOf(uint32_t key) const { return sockets_[key % sockets_.size()]; }

  // Takes `count` answers and copies the pulled sums to their places.
  void Await(uint32_t count, absl::Span<float> sum) {
    while (count > 0) {
      Require(zmq_poll(polled_.data(), static_cast<int>(polled_.size()), -1) > 0, "poll");
      for (const zmq_pollitem_t& item : polled_) {
        if ((item.revents & ZMQ_POLLIN) == 0) continue;
        PeerBody body;
        const PeerHeader header = ReceivePeer(item.socket, nullptr, &body);
        --count;
        if (header.op != PeerOp::kPulled) continue;
        std::memcpy(Part(sum, header.key).data(), body.floats(), body.bytes());
      }
    }
  }

  const std::vector<void*> sockets_;
  const Options& options_;
  std::vector<zmq_pollitem_t> polled_;
  uint32_t step_ = 0;
};

void* Socket(void* context, int type) {
  void* socket = zmq_socket(context, type);
  Require(socket != nullptr, "socket");
  const int unlimited = 0;  // messages
  zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof(unlimited));
  zmq_setsockopt(socket, ZMQ_RCVHWM, &unlimited, sizeof(unlimited));
  return socket;
}

int RunServer(void* context, const Options& options) {
  void* socket = Socket(context, ZMQ_ROUTER);
  if (!options.curve_secret.empty()) ServeCurve(socket, options.curve_secret);
  Require(zmq_bind(socket, options.listen.c_str()) == 0, options.listen.c_str());
  Server(socket, options).Run();
  zmq_close(socket);
  return 0;
}

int RunWorker(void* context, const Options& options) {
  std::vector<void*> sockets;
  for (const std::string& server : options.servers) {
    void* socket = Socket(context, ZMQ_DEALER);
    const uint32_t id = options.peer.rank + 1;
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, &id, sizeof(id));
    if (!options.curve_public.empty()) UseCurve(socket, options.curve_public);
    Require(zmq_connect(socket, server.c_str()) == 0, server.c_str());
    sockets.push_back(socket);
  }
  Worker worker(sockets, options);
  const int status = RunPeer(options.pipelined ? "push-pull-pipelined" : "push-pull", options.peer,
                             /*in_place=*/false,
                             [&](auto gradient, auto sum) { return worker.Step(gradient, sum); });
  worker.End();
  for (void* socket : sockets) zmq_close(socket);
  return status;
}

int PrintKeys() {
  const CurveKeys keys = MakeCurveKeys();
  std::printf("%s %s\n", keys.public_key.c_str(), keys.secret_key.c_str());
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app;
  Options options;
  AddPeerOptions(&app, &options.peer);
  app.add_option("--role", options.role)
      ->required()
      ->check(CLI::IsMember({"server", "worker", "keys"}));
  app.add_option("--listen", options.listen);
  app.add_option("--servers", options.servers)->delimiter(',');
  app.add_option("--message-bytes", options.message_bytes);
  app.add_flag("--pipelined", options.pipelined);
  app.add_option("--curve-secret", options.curve_secret);
  app.add_option("--curve-public", options.curve_public);
  CLI11_PARSE(app, argc, argv);
  if (options.role == "keys") return PrintKeys();
  void* context = zmq_ctx_new();
  const int status =
      options.role == "server" ? RunServer(context, options) : RunWorker(context, options);
  zmq_ctx_term(context);
  return status;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
