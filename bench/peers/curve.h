#ifndef STRATA_BENCH_PEERS_CURVE_H_
#define STRATA_BENCH_PEERS_CURVE_H_

#include <string>

// CURVE, ZeroMQ's own encryption (RFC 26): a handshake on Curve25519, then each message in an
// authenticated box under a key of its connection. What is wrong ends the process, as in
// message.h.
namespace strata::bench {

// In hexadecimal digits, good for one run: what they protect is known values, so that they may
// stand on a command line.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

// Ends the process with status 77 where ZeroMQ was built without CURVE.
CurveKeys MakeCurveKeys();

// Before a socket is bound: lets only those in who know the public key of `secret_key`.
void ServeCurve(void* socket, const std::string& secret_key);
// Before a socket is connected: only to who has the secret of `server_key`. Makes keys of its own.
void UseCurve(void* socket, const std::string& server_key);

}  // namespace strata::bench

#endif  // STRATA_BENCH_PEERS_CURVE_H_
