#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_PEER_LINK_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_PEER_LINK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/transport/link.h"
#include "common/wire/frame.h"
#include "proto/record.pb.h"

namespace strata::worker {

// A node of an all-reduce; its index, in order of first ranks, is its position.
struct RingNode {
  NodeId node;
  std::string endpoint;
};

std::vector<RingNode> RingNodes(const proto::JobRecord& record);
// Returns the position of `node`, or nodes.size() if it is not among them.
uint32_t RingPosition(const std::vector<RingNode>& nodes, NodeId node);

// Check that `node` has a place in the record's view, with addresses for all nodes; and that it can
// all-reduce by this record. Errors: InvalidArgument naming the field.
absl::Status CheckRingView(const proto::JobRecord& record, NodeId node);
absl::Status CheckRing(const proto::JobRecord& record, NodeId node);

// Frames to and from one other node over connections that come and go. Each arrives once, and in
// the order in which frames were first sent. Waiting frames are sent by urgency, with at most
// `in_flight_bytes_max` (or one frame) unacknowledged, because frames in sockets cannot be
// overtaken any more. After a lost connection, or silence, all frames from the first unacknowledged
// one on are sent again.
//
// One of two nodes connects and sends HELLO, the other one answers; both may send.
//
// A pure state machine: time comes with the events, frames and connections go out as actions.
class PeerLink {
 public:
  struct Options {
    LinkId link;
    uint32_t peer = 0;    // logical node
    std::string address;  // where it listens
    bool connects = false;
    LinkIdentity identity;  // this node's
    LinkTiming timing;
    uint64_t in_flight_bytes_max = 2 << 20;
    absl::Duration ack_delay = absl::Milliseconds(5);
  };

  explicit PeerLink(const Options& options);

  const Options& options() const { return options_; }
  // "node 2 (tcp://10.0.0.3:40123)"
  std::string Name() const;
  // Bytes of all frames of this op, with repetitions.
  uint64_t bytes_sent(wire::Op op) const;

  void Start(absl::Time now, WireActions* actions) { connection_.Start(now, actions); }
  // `header`: op and its fields; the rest is filled in. Order: older clocks first, then the highest
  // chunk, then the order of the calls.
  void Send(const wire::Header& header, Bytes payload, absl::Time now, WireActions* actions);
  // Reports that the job has failed here; no calls may follow.
  void SendError(const absl::Status& reason, WireActions* actions);
  // This node needs nothing more of the peer, which may be gone for good from now on: OnTime
  // returns no errors any more.
  void NeverGiveUp() { connection_.NeverGiveUp(); }
  // Since when there is no connection; infinity while there is one.
  absl::Time down_since() const { return connection_.down_since(); }
  // Returns whether nothing waits, and all sent frames have been acknowledged.
  bool drained() const { return waiting_.empty() && unacknowledged_.empty(); }
  bool is_up() const { return connection_.is_up(); }

  void OnConnected(transport::ConnectionId connection, absl::Time now, WireActions* actions);
  // The peer's HELLO, already checked, on a connection that it made: the latest connection counts.
  // Errors: it acknowledges what it cannot have.
  absl::Status OnHello(transport::ConnectionId connection, const wire::Header& hello,
                       absl::Time now, WireActions* actions);
  // The connection is gone, could not be made, or carried something unreadable.
  void OnLost(const absl::Status& why, absl::Time now, WireActions* actions);
  // The endpoint rejected a frame: its queue to the peer was full.
  void OnSendQueueFull(absl::Time now);
  // Returns true if the frame is the next one and must be processed. Errors: the peer's failure, or
  // an acknowledgement of what it cannot have.
  absl::StatusOr<bool> OnFrame(const wire::Frame& frame, absl::Time now, WireActions* actions);

  // Does what is due. Errors: Unavailable (no connection for too long), naming the peer.
  absl::Status OnTime(absl::Time now, WireActions* actions);
  // When OnTime has something to do next.
  absl::Time deadline() const;
  // REQUIRES: started. `unanswered` counts unacknowledged frames.
  LinkActivity Activity(absl::Time now) const;

  bool Owns(transport::ConnectionId connection) const { return connection_.Owns(connection); }
  void Close(WireActions* actions) { connection_.Close(actions); }

 private:
  struct Sent {
    wire::Frame frame;
    absl::Time first;
  };
  // Clock, urgency among the chunks, order of the calls.
  using Urgency = std::pair<std::pair<uint64_t, int64_t>, uint64_t>;

  static uint64_t FrameBytes(const wire::Frame& frame) {
    return wire::kHeaderBytes + frame.payload.size();
  }
  void Transmit(wire::Frame frame, WireActions* actions);
  void Pump(absl::Time now, WireActions* actions);
  absl::Status Resume(uint64_t received, absl::Time now, WireActions* actions);
  void Repeat(absl::Time now, WireActions* actions);
  absl::Status Acknowledge(uint64_t received, absl::Time now);
  void Receive(const wire::Frame& frame, absl::Time now, WireActions* actions);
  void SendAck(WireActions* actions);
  // Why the peer has postponed the connection, or given it up for another one.
  std::string WhyNotYet(const wire::Header& retry) const;

  Options options_;
  Reconnector connection_;

  std::map<Urgency, wire::Frame> waiting_;
  uint64_t calls_ = 0;
  std::deque<Sent> unacknowledged_;  // in order of their sequence
  uint64_t in_flight_bytes_ = 0;     // of unacknowledged_
  uint64_t sequence_ = 0;            // of the newest frame sent
  absl::Time resend_due_ = absl::InfiniteFuture();
  absl::Duration resend_after_;

  uint64_t received_ = 0;        // sequence of the newest frame processed
  uint64_t received_bytes_ = 0;  // since the last acknowledgement
  absl::Time ack_due_ = absl::InfiniteFuture();
  std::map<wire::Op, uint64_t> bytes_sent_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_PEER_LINK_H_
