#ifndef STRATA_BENCH_PEERS_MESSAGE_H_
#define STRATA_BENCH_PEERS_MESSAGE_H_

#include <cstddef>
#include <cstdint>

// Plain ZeroMQ messages of a header and a body, as peers send them: nothing is checked, nothing is
// repeated, a mistake ends the process.
namespace strata::bench {

enum class PeerOp : uint32_t { kHello, kPush, kPushDone, kPull, kPulled, kCredit, kBye };

struct PeerHeader {
  PeerOp op = PeerOp::kHello;
  uint32_t key = 0;   // number of the piece
  uint32_t step = 0;  // from 0
  uint32_t rank = 0;
};

// A received body that keeps its message alive; movable. The library's own memory: no copy.
class PeerBody {
 public:
  PeerBody();
  ~PeerBody();
  PeerBody(PeerBody&& other) noexcept;
  PeerBody& operator=(PeerBody&& other) noexcept;

  float* floats() const;
  size_t bytes() const;
  void* message() const { return message_; }

 private:
  alignas(8) mutable unsigned char message_[64];  // a zmq_msg_t
};

// Sends a header and, where `bytes` is not 0, a body; the body's memory is the caller's until it
// has been answered. `to`: where `socket` is a ROUTER, the peer's routing id of 4 bytes; null
// otherwise.
void SendPeer(void* socket, const uint32_t* to, const PeerHeader& header, const void* body,
              size_t bytes);
// Blocks. `from` as `to`.
PeerHeader ReceivePeer(void* socket, uint32_t* from, PeerBody* body);

// Ends the process with `what` and ZeroMQ's error where `ok` is false.
void Require(bool ok, const char* what);

}  // namespace strata::bench

#endif  // STRATA_BENCH_PEERS_MESSAGE_H_
