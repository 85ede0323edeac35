#ifndef STRATA_COMMON_TRANSPORT_SIM_SIM_NETWORK_H_
#define STRATA_COMMON_TRANSPORT_SIM_SIM_NETWORK_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/transport/sim/random.h"
#include "common/transport/sim/sim_clock.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Carries frames from host to host on a SimNetwork, instead of its random delays, for example over
// links with a bandwidth. It loses nothing.
//
// Threads: one.
class SimMedium {
 public:
  // Gives the arrival time of the frame's last byte. The network delivers it then, or after earlier
  // frames of its connection.
  using Arrive = std::function<void(absl::Time at)>;

  virtual ~SimMedium() = default;

  // A frame leaves `from` for `to`. Calls `arrive` once, now or at a later event.
  virtual void Carry(uint32_t from, uint32_t to, const wire::Frame& frame, Arrive arrive) = 0;
};

class SimEndpoint;

// The network's faults. Probabilities are per frame. Delays, refusals, broken and half-open
// connections are within the contract of endpoint.h; drops, duplicates and reorders go beyond it.
struct SimFaults {
  absl::Duration delay_min = absl::Microseconds(20);
  absl::Duration delay_max = absl::Microseconds(200);
  double slow_connection = 0;  // of connections: delays of another kind
  absl::Duration slow_delay_max = absl::Seconds(1);
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;       // arrives out of turn
  double corrupt = 0;       // one byte changes; needs SimEndpoint::Options::encode at the sender
  double refuse = 0;        // Send says that the queue is full
  double break_both = 0;    // the connection breaks, both sides are told
  double break_one = 0;     // the same, but one side learns it up to notice_max later
  double close_unseen = 0;  // the peer learns of Close that late, too
  absl::Duration notice_max = absl::Seconds(20);
};

// Events of frames and connections, also an index into SimNetwork::counts.
enum class SimNote : uint8_t {
  kSent,
  kDelivered,
  kDropped,
  kDuplicated,
  kReordered,
  kCorrupted,
  kRefused,
  kBroken,
  kHalfOpen,
  kCutOff,   // dropped by a partition
  kStalled,  // held back by a partition
  kLost,     // the receiver was gone
  kConnected,
  kDisconnected,  // an endpoint is told
};
inline constexpr size_t kSimNotes = static_cast<size_t>(SimNote::kDisconnected) + 1;
const char* ToString(SimNote note);

// A network in memory and virtual time: endpoints, the connections between them, and timers. Either
// a seed determines everything, including delays and faults, or a medium determines the time of
// frames and nothing fails. The same calls in the same order give the same run.
//
// Time advances only in RunOne. An endpoint with a callback is driven by it: the network calls it
// when Poll would return, and Poll itself does not wait. Poll of an endpoint without one runs the
// network until something has happened there or its timeout has passed.
//
// Threads: one; SimEndpoint::Wake from any.
class SimNetwork {
 public:
  // Called for everything, with the header if a frame is concerned.
  using Observer = std::function<void(SimNote note, const std::string& from, const std::string& to,
                                      ConnectionId connection, const wire::Header* header)>;

  // Called for each frame sent over a connection to `address`, from either end. An id is even at
  // the connecting end, and one more at the other.
  using Tap = std::function<void(const SimEndpoint& from, const std::string& address,
                                 ConnectionId connection, const wire::Frame& frame)>;

  // Draws delays and faults from a seed, and has a clock of its own.
  explicit SimNetwork(uint64_t seed);
  // Asks a medium how long frames take. Connections are established at once. Both outlive it.
  SimNetwork(SimClock* clock, SimMedium* medium);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  const SimClock& clock() const { return *clock_; }
  absl::Time Now() const { return clock_->Now(); }
  SimRandom& random() { return random_; }

  // Connections made from now on draw a delay range of their own from within the faults'.
  void set_faults(const SimFaults& faults) { faults_ = faults; }
  const SimFaults& faults() const { return faults_; }
  void set_observer(Observer observer) { observer_ = std::move(observer); }
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  uint64_t count(SimNote note) const { return counts_[static_cast<size_t>(note)]; }

  // See SimClock.
  void After(absl::Duration delay, std::function<void()> what) {
    clock_->After(delay, std::move(what));
  }
  bool RunOne() { return clock_->RunOne(); }

  // Separates hosts whose bit is set from all others until Heal. Frames in between are dropped, or
  // with `stall` held back until then; connections are refused.
  void Partition(uint64_t hosts, bool stall);
  void Heal();
  // Separates two hosts, or joins them again: frames in between are dropped, connections are
  // refused.
  void CutPair(uint32_t host, uint32_t other, bool cut);
  // Breaks a connection, given from either end; unknown ones are ignored. `half_open`: the other
  // side learns it late.
  void Break(ConnectionId connection, bool half_open);

 private:
  friend class SimEndpoint;

  // A frame that arrives.
  struct Coming {
    uint32_t wire = 0;
    uint32_t to = 0;  // the receiving end
    wire::Frame frame;
  };
  // One end of a wire.
  struct End {
    SimEndpoint* endpoint = nullptr;  // null: closed, or not accepted yet
    ConnectionId id;
    std::string name;  // of the endpoint, also when it is gone
    uint32_t host = 0;
    absl::Time last_arrival = absl::InfinitePast();  // of frames that come in order
    size_t queued_frames = 0, queued_bytes = 0;      // sent by this end and not taken yet
  };
  struct Wire {
    std::array<End, 2> ends;  // who connected, who listens
    std::string address;
    bool accepted = false;
    bool broken = false;  // nothing passes any more
    absl::Duration delay_min, delay_max;
  };

  // Ids count from 2: even at the end that connected, odd at the other.
  static size_t WireOf(ConnectionId id) { return id.value() / 2 - 1; }
  static size_t EndOf(ConnectionId id) { return id.value() % 2; }
  // Null if the connection is not, or no longer, that endpoint's.
  Wire* Find(const SimEndpoint* endpoint, ConnectionId id);

  ConnectionId Connect(SimEndpoint* from, const std::string& address);
  void Arrive(uint32_t wire);
  absl::Status Send(SimEndpoint* from, ConnectionId id, const wire::Frame& frame);
  void Transmit(uint32_t wire, size_t to, const wire::Frame& frame);
  // Passes the frame to the medium.
  void Carry(uint32_t wire, size_t to, const wire::Frame& frame);
  void DeliverAfter(absl::Duration delay, Coming coming);
  void Deliver(Coming coming);
  void Close(SimEndpoint* endpoint, ConnectionId id);
  // Tells an end that its connection is gone.
  void Tell(uint32_t wire, size_t end, absl::Duration delay, const std::string& why);
  void BreakWire(uint32_t wire, size_t knows, bool half_open, const std::string& why);
  bool IsParted(const Wire& wire) const;
  bool IsCut(const Wire& wire) const;
  absl::Duration Delay(const Wire& wire) { return random_.Between(wire.delay_min, wire.delay_max); }
  void Note(SimNote note, const Wire& wire, size_t to, const wire::Header* header);

  SimRandom random_;
  std::unique_ptr<SimClock> own_clock_;  // null: another clock is used
  SimClock* const clock_;
  SimMedium* const medium_;  // null: delays and faults are random
  SimFaults faults_;
  Observer observer_;
  Tap tap_;
  std::array<uint64_t, kSimNotes> counts_ = {};
  std::deque<Wire> wires_;  // never erased: events name them
  std::map<std::string, SimEndpoint*> listeners_;
  int next_port_ = 20000;
  uint64_t cut_hosts_ = 0;
  bool stall_ = false;
  std::set<std::pair<uint32_t, uint32_t>> cut_pairs_;  // the lower host first
  std::vector<Coming> stalled_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_SIM_NETWORK_H_
