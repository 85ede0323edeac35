#include "bench/peers/curve.h"

#include <zmq.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "bench/peers/message.h"

namespace strata::bench {
namespace {

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

}  // namespace

CurveKeys MakeCurveKeys() {
  if (zmq_has("curve") == 0) {
    std::fprintf(stderr, "this ZeroMQ was built without CURVE\n");
    std::exit(kSkipped);
  }
  char public_key[kZ85Size], secret_key[kZ85Size];
  Require(zmq_curve_keypair(public_key, secret_key) == 0, "CURVE key pair");
  return {HexOf(public_key), HexOf(secret_key)};
}

void ServeCurve(void* socket, const std::string& secret_key) {
  const int is_server = 1;
  Require(zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &is_server, sizeof(is_server)) == 0, "CURVE");
  SetKey(socket, ZMQ_CURVE_SECRETKEY, secret_key);
  RequireCurve(socket);
}

void UseCurve(void* socket, const std::string& server_key) {
  const CurveKeys own = MakeCurveKeys();
  SetKey(socket, ZMQ_CURVE_SERVERKEY, server_key);
  SetKey(socket, ZMQ_CURVE_PUBLICKEY, own.public_key);
  SetKey(socket, ZMQ_CURVE_SECRETKEY, own.secret_key);
  RequireCurve(socket);
}

}  // namespace strata::bench
